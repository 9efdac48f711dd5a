//! Teams as tools, for clients.

mod addresses;
mod call;
mod documents;
mod handler;
mod http;
mod logging;
mod prompts;
mod questions;
mod resources;
mod space;
mod subscriptions;
mod tasks;
mod template;

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{Run, System},
    definition::AgentSpec,
    session::Turn,
    vocabulary::SessionId,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use self::{
    addresses::Address,
    documents::{Document, DocumentTemplate},
    handler::Handler,
};
pub use self::{
    http::{HttpOptions, HttpService},
    prompts::PromptTemplate,
};

/// The largest message that is read from a client, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// After how long a call becomes a task, where nothing else is said.
const TASKS_AFTER: Duration = Duration::from_secs(30);

/// Teams of a [`System`] as a server of the Model Context Protocol.
///
/// Each team is a tool. A call is a turn: it says something to the team and returns the answer. Its result names
/// the session, which a later call may name to go on with the conversation.
///
/// - A turn has an id: the argument `turn_id`, or `ghostlight/idempotencyKey` in the call's `_meta`. The same call
///   made twice is one run, also over a restart of this process.
/// - What the agents do is told as progress, to a client that asks for it, and as messages of a log to one that sets a
///   level for these.
/// - A call that the client cancels cancels its run. A connection that is lost does not.
/// - What the agents ask people is asked through the client (elicitation), where it offers that. Otherwise the
///   call returns what is asked, and the same call goes on once somebody has answered.
/// - A team whose agent says what it takes ([`Agent::input`](ghostlight_actors::run::Agent::input)) and gives is a
///   tool of that schema. The session and the turn are named in the call's `_meta` then.
/// - A call that takes long becomes a task for a client that knows tasks. Its id is the run's, so it is there after a
///   restart.
/// - The sessions and their artifacts are resources, with templates for their addresses; what a turn saves comes
///   with its result. A client may ask to be told when one of them changes, which it is within a second. Documents of
///   the program's own are resources as well.
/// - Templates are prompts, with what stands at addresses of resources.
#[derive(Clone, Debug)]
pub struct McpServer(Arc<Served>);

#[derive(Clone, Debug)]
struct Served {
    system: System,
    /// What each team is for, by its name.
    teams: BTreeMap<String, String>,
    documents: BTreeMap<String, Document>,
    document_templates: Vec<DocumentTemplate>,
    prompts: BTreeMap<String, PromptTemplate>,
    /// After how long a call becomes a task.
    tasks_after: Option<Duration>,
}

impl Served {
    /// What a team says that it takes.
    fn input_of(&self, team: &str) -> Option<Value> {
        self.schema(team, |agent| agent.input.clone())
    }

    /// What a team says that it gives.
    fn output_of(&self, team: &str) -> Option<Value> {
        self.schema(team, |agent| agent.output.clone())
    }

    /// Whether a client may ask to be told when what is at this address changes. Documents do not change.
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

/// For whom a request over HTTP acts: the middleware that knows it puts this into the request's extensions.
/// Sessions belong to owners then ([`System::acting_for`]), and each owner has names of its own for them: the key of
/// what it calls `s` is `OWNER/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

/// Says when the server stops: the middleware that knows it puts this into a request's extensions. A call that ends
/// because of it goes on, as one that the client has closed does not.
#[derive(Clone, Debug)]
pub struct Stopping(pub CancellationToken);

type Said = Pin<Box<dyn Future<Output = Result<Run, String>> + Send>>;

/// How the turns of a request are said, where they are not simply sent to their session: the middleware that bounds them
/// puts this into a request's extensions.
#[derive(Clone)]
pub struct Sender(Arc<dyn Fn(SessionId, Turn) -> Said + Send + Sync>);

impl Sender {
    /// Says turns by this function, whose error is why a turn was not said.
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
pub struct ServeError(String);

impl McpServer {
    /// A server over a System, with no team yet.
    pub fn new(system: System) -> Self {
        Self(Arc::new(Served {
            system,
            teams: BTreeMap::new(),
            documents: BTreeMap::new(),
            document_templates: Vec::new(),
            prompts: BTreeMap::new(),
            tasks_after: Some(TASKS_AFTER),
        }))
    }

    /// Offers a team as a tool of its name, with words for the client's model.
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

    /// Offers documents at addresses of one form as resources, to every client: the template has places such as
    /// `{id}`, which stand for some characters without a slash, and `read` gets their values, percent-decoded. `None`
    /// means that there is no such document.
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

    /// Sets after how long a call becomes a task, for clients that know tasks: 30 seconds when it is not said, and
    /// `None` for never.
    #[must_use]
    pub fn tasks_after(mut self, after: Option<Duration>) -> Self {
        Arc::make_mut(&mut self.0).tasks_after = after;
        self
    }

    /// Serves one client on the standard streams, until its end of them is closed. Nothing else may write to
    /// standard output.
    ///
    /// # Errors
    /// When the client and this server do not understand each other.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over these streams.
    ///
    /// # Errors
    /// When the client and this server do not understand each other.
    pub async fn serve<R, W>(&self, read: R, write: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport =
            AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
        let serving = rmcp::serve_server(Handler::new(self.0.clone()), transport).await;
        let serving = serving.map_err(|error| ServeError(error.to_string()))?;
        let ended = serving.waiting().await;
        ended
            .map(drop)
            .map_err(|error| ServeError(error.to_string()))
    }

    /// The server over streamable HTTP, to nest into a router. It authenticates nobody.
    pub fn http(&self, options: &HttpOptions) -> HttpService {
        HttpService::new(self.0.clone(), options)
    }
}
