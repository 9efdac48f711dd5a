//! The server: teams as tools for MCP clients.

mod addresses;
mod call;
mod documents;
mod handler;
mod http;
mod http_sessions;
mod logging;
mod prompts;
mod questions;
mod resources;
mod space;
mod subscriptions;
mod tasks;
mod template;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    definition::AgentSpec,
    session::Turn,
    vocabulary::SessionId,
};
use rmcp::{handler::server::skill_catalog::SkillCatalog, transport::async_rw::AsyncRwTransport};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use self::{
    addresses::Address,
    documents::{Document, DocumentTemplate},
    handler::Handler,
};
use crate::ambiguous::{self, Lines};

pub use self::{
    http::{HttpOptions, HttpService},
    prompts::PromptTemplate,
};

/// The largest message that is read from a client, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// The default time after which a call becomes a task.
const TASKS_AFTER: Duration = Duration::from_secs(30);

/// Teams of a [`System`] as a server of the Model Context Protocol.
///
/// Each team is a tool. A call is a turn: it sends the team a message and returns the answer. The result names the
/// session; a later call that names it continues the conversation.
///
/// - A turn has an id: the argument `turn_id`, or `ghostlight/idempotencyKey` in the call's `_meta`. The same call
///   made twice is one run, even across a restart of this process.
/// - The agents' actions are sent as progress to a client that asks for it, and as log messages to one that sets a
///   level for these.
/// - A call that the client cancels cancels its run. A connection that is lost does not.
/// - The agents' questions are asked through the client (elicitation), if it supports that. Otherwise the call returns
///   the questions, and the same call continues once they are answered.
/// - A team whose agent has an input schema ([`Agent::input`](ghostlight_actors::run::Agent::input)) or an output
///   schema is a tool with these schemas. The session and the turn are then named in the call's `_meta`.
/// - A long call becomes a task for a client that supports tasks. The task's id is the run's, so it still exists after
///   a restart.
/// - The sessions and their artifacts are resources, with templates for their addresses; artifacts that a turn saves
///   are in its result. A client may subscribe to their changes, and is notified within a second. Documents of the
///   program's own are resources as well.
/// - Templates are prompts, which may contain resources. The skills of a folder are offered as such.
#[derive(Clone, Debug)]
pub struct McpServer(Arc<Served>);

#[derive(Clone, Debug)]
struct Served {
    system: System,
    /// The description of each team, by its name.
    teams: BTreeMap<String, String>,
    documents: BTreeMap<String, Document>,
    document_templates: Vec<DocumentTemplate>,
    prompts: BTreeMap<String, PromptTemplate>,
    /// The skills with their files, as they were when the folder was read.
    skills: Option<Arc<SkillCatalog>>,
    /// The time after which a call becomes a task; `None` for never.
    tasks_after: Option<Duration>,
}

impl Served {
    /// The input schema of a team.
    fn input_of(&self, team: &str) -> Option<Value> {
        self.schema(team, |agent| agent.input.clone())
    }

    /// The output schema of a team.
    fn output_of(&self, team: &str) -> Option<Value> {
        self.schema(team, |agent| agent.output.clone())
    }

    /// Whether a client can subscribe to this address. Documents do not change.
    fn is_watchable(&self, uri: &str) -> bool {
        let is_served = match Address::read(uri) {
            Some(Address::Session { team, .. } | Address::Artifact { team, .. }) => {
                self.teams.contains_key(&team)
            }
            None => false,
        };
        let mut templates = self.document_templates.iter();
        is_served || self.documents.contains_key(uri) || templates.any(|one| one.leads_to(uri))
    }

    fn schema(
        &self,
        team: &str,
        schema: impl FnOnce(&AgentSpec) -> Option<Value>,
    ) -> Option<Value> {
        let teams = self.system.teams();
        let team = teams.iter().find(|one| one.name == team)?;
        // A tool's arguments and structured results are objects.
        let is_object = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
        schema(&team.agent).filter(is_object)
    }
}

/// The owner for whom a request over HTTP acts: the middleware that knows it puts this into the request's extensions.
/// Sessions then belong to owners ([`System::acting_for`]), and each owner has names of its own for them: the key of
/// the session with the name `s` is `OWNER/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

/// Cancelled when the server stops: the middleware that knows it puts this into a request's extensions. A call that
/// ends because of it goes on, unlike a call that the client has closed.
#[derive(Clone, Debug)]
pub struct Stopping(pub CancellationToken);

type Said = Pin<Box<dyn Future<Output = Result<Run, String>> + Send>>;

/// The way to send the turns of a request, if they are not simply sent to their session: the middleware that bounds
/// them puts this into a request's extensions.
#[derive(Clone)]
pub struct Sender(Arc<dyn Fn(SessionId, Turn) -> Said + Send + Sync>);

impl Sender {
    /// Sends turns by this function, whose error is the reason why a turn was not sent.
    pub fn new<F, R>(send: F) -> Self
    where
        F: Fn(SessionId, Turn) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Run, String>> + Send + 'static,
    {
        Self(Arc::new(move |session, turn| Box::pin(send(session, turn))))
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[error("the client could not be served: {0}")]
pub struct McpServerError(String);

/// Why skills are not offered.
#[derive(Debug, thiserror::Error)]
#[error("the skills below {folder:?} cannot be read: {reason}")]
pub struct SkillFolderError {
    folder: PathBuf,
    reason: String,
}

ghostlight_actors::parts_of_system_error!(McpServerError, SkillFolderError);

impl McpServer {
    /// A server over a System, without teams at first.
    pub fn new(system: System) -> Self {
        Self(Arc::new(Served {
            system,
            teams: BTreeMap::new(),
            documents: BTreeMap::new(),
            document_templates: Vec::new(),
            prompts: BTreeMap::new(),
            skills: None,
            tasks_after: Some(TASKS_AFTER),
        }))
    }

    /// Offers a team as a tool with this name and this description for the client's model.
    #[must_use]
    pub fn team(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let served = Arc::make_mut(&mut self.0);
        served.teams.insert(name.into(), description.into());
        self
    }

    /// Offers a template as a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: PromptTemplate) -> Self {
        let served = Arc::make_mut(&mut self.0);
        served.prompts.insert(prompt.name().to_owned(), prompt);
        self
    }

    /// Offers a document as a resource at this address, to every client.
    #[must_use]
    pub fn document(
        mut self,
        uri: impl Into<String>,
        media_type: impl Into<String>,
        content: impl Into<Arc<[u8]>>,
    ) -> Self {
        let document = Document {
            media_type: media_type.into(),
            content: content.into(),
        };
        let served = Arc::make_mut(&mut self.0);
        served.documents.insert(uri.into(), document);
        self
    }

    /// Offers documents at addresses of one form as resources to every client. The template has variables such as
    /// `{id}`, each of which matches some characters without a slash; `read` gets their percent-decoded values. It
    /// returns `None` if there is no such document.
    ///
    /// ```
    /// # fn of(server: ghostlight_mcp::McpServer) -> ghostlight_mcp::McpServer {
    /// server.document_template("shop://products/{id}", "application/json", |values| async move {
    ///     let id: u64 = values.get("id")?.parse().ok()?;
    ///     Some(format!(r#"{{ "product": {id} }}"#).into_bytes())
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn document_template<F, R>(
        mut self,
        template: impl Into<String>,
        media_type: impl Into<String>,
        read: F,
    ) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> R + Send + Sync + 'static,
        R: Future<Output = Option<Vec<u8>>> + Send + 'static,
    {
        let template = DocumentTemplate::new(template.into(), media_type.into(), read);
        let served = Arc::make_mut(&mut self.0);
        served.document_templates.push(template);
        self
    }

    /// Offers the skills below a folder to every client (the extension `io.modelcontextprotocol/skills`): each folder with a
    /// `SKILL.md` is a skill. They are read once, with all their files; a skill that breaks the rules of the format, or has more than 512
    /// files or 16 MiB, is left out with a warning. The skills of an earlier call are replaced.
    ///
    /// ```no_run
    /// # fn of(server: ghostlight_mcp::McpServer) -> Result<ghostlight_mcp::McpServer, ghostlight_mcp::SkillFolderError> {
    /// server.skills("./skills")
    /// # }
    /// ```
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn skills(mut self, folder: impl AsRef<Path>) -> Result<Self, SkillFolderError> {
        let folder = folder.as_ref();
        let read = SkillCatalog::from_dir(folder).map_err(|error| SkillFolderError {
            folder: folder.to_owned(),
            reason: error.to_string(),
        })?;
        Arc::make_mut(&mut self.0).skills = Some(Arc::new(read));
        Ok(self)
    }

    /// Sets the time after which a call becomes a task, for clients that know tasks: 30 seconds by default, `None` for
    /// never.
    #[must_use]
    pub fn tasks_after(mut self, after: Option<Duration>) -> Self {
        Arc::make_mut(&mut self.0).tasks_after = after;
        self
    }

    /// Serves one client on the standard streams, until the client closes them. Nothing else may write to standard
    /// output.
    ///
    /// # Errors
    /// The client does not follow the protocol.
    pub async fn serve_stdio(&self) -> Result<(), McpServerError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over these streams.
    ///
    /// # Errors
    /// The client does not follow the protocol.
    pub async fn serve<R, W>(&self, read: R, write: W) -> Result<(), McpServerError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let read = Lines::new(read, MAX_MESSAGE_BYTES, ambiguous::screened);
        let transport =
            AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
        let serving = rmcp::serve_server(Handler::new(self.0.clone()), transport).await;
        let serving = serving.map_err(|error| McpServerError(error.to_string()))?;
        let ended = serving.waiting().await;
        ended
            .map(drop)
            .map_err(|error| McpServerError(error.to_string()))
    }

    /// The server over streamable HTTP, to nest into a router. It does not authenticate clients.
    pub fn http(&self, options: &HttpOptions) -> HttpService {
        HttpService::new(self.0.clone(), options)
    }
}
