//! A team as an agent for one client.

mod following;
mod prompting;
mod sessions;

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    vocabulary::{OperationId, RunId},
};
use ghostlight_safety::redact_text;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{
    protocol::{
        AgentCapabilities, Implementation, InitializeRequest, InitializeResponse, OfSession,
        PromptCapabilities, VERSION,
    },
    translation::IDEMPOTENCY_KEY,
    wire::{Incoming, Peer, RpcError, connect},
};

/// How many requests of a client may be under way at once.
const MAX_REQUESTS: usize = 128;
/// How many sessions a client may have open at once.
const MAX_SESSIONS: usize = 1_000;

/// A team of a [`System`] as an agent of the Agent Client Protocol, for one client such as an editor.
///
/// - A session of the protocol is a session of the store, and a prompt is a turn. When the process is killed in the
///   middle of a prompt and started again, the run goes on by itself; `session/load` shows what was said, and what the
///   run goes on to do.
/// - What agents say, think, plan and call is shown as it happens.
/// - Approvals, confirmations and choices are permission requests. Other questions end the prompt, and the next prompt
///   of the session is the answer.
/// - `session/cancel` cancels the run with everything below it. A connection that is lost cancels nothing.
/// - A session can be listed, resumed, forked, closed and deleted. Its mode `dry_run` lets agents say what they would do.
///
/// Servers of the Model Context Protocol that a client offers are not used, and neither are its file system and its
/// terminals: agents have the tools that their team gives them.
#[derive(Clone, Debug)]
pub struct AcpServer(Arc<Served>);

#[derive(Debug)]
struct Served {
    system: System,
    team: String,
    /// The directory of sessions that were begun in another way.
    directory: PathBuf,
}

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[error("the client cannot be served any more: {0}")]
pub struct AcpServerError(#[from] io::Error);

ghostlight_actors::parts_of_system_error!(AcpServerError);

impl AcpServer {
    /// A server for this team of a System.
    pub fn new(system: System, team: impl Into<String>) -> Self {
        Self(Arc::new(Served {
            system,
            team: team.into(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        }))
    }

    /// Serves one client on the standard streams, until the client closes them. Nothing else may write to standard
    /// output.
    ///
    /// # Errors
    /// The standard input fails.
    pub async fn serve_stdio(&self) -> Result<(), AcpServerError> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over these streams, until the client closes its end. Runs that are under way then go on.
    ///
    /// # Errors
    /// Reading fails.
    pub async fn serve<R, W>(&self, read: R, write: W) -> Result<(), AcpServerError>
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (mut lines, peer) = connect(BufReader::new(read), write);
        let client = Arc::new(Client {
            served: self.0.clone(),
            peer,
            sessions: Mutex::default(),
            followers: Mutex::default(),
            given: Arc::default(),
        });
        let _connected = Connected(client.clone());
        // Dropped at the end, which ends the requests that are under way, and with them no run.
        let mut requests = JoinSet::new();
        loop {
            let incoming = tokio::select! {
                incoming = lines.next() => incoming?,
                Some(_) = requests.join_next(), if !requests.is_empty() => continue,
            };
            match incoming {
                None => return Ok(()),
                Some(Incoming::Notification { method, params }) => client.notified(&method, params),
                Some(Incoming::Request { id, method, params }) => {
                    // What a later message refers to is noted before that message is read.
                    let admitted = match requests.len() < MAX_REQUESTS {
                        true => client.admit(&method, params),
                        false => Err(RpcError::new(
                            RpcError::INVALID_REQUEST,
                            format!("at most {MAX_REQUESTS} requests may be under way"),
                        )),
                    };
                    let client = client.clone();
                    requests.spawn(async move {
                        let result = match admitted {
                            Ok(request) => client.perform(request).await,
                            Err(error) => Err(error),
                        };
                        // The client may be gone.
                        let _ = client.peer.respond(&id, result).await;
                    });
                }
            }
        }
    }
}

/// A connected client.
#[derive(Debug)]
struct Client {
    served: Arc<Served>,
    peer: Peer,
    /// The sessions that it has open, by their ids.
    sessions: Mutex<HashMap<String, Open>>,
    /// The tasks that show how runs go on that no prompt waits for.
    followers: Mutex<JoinSet<()>>,
    /// The questions that this client has answered and that their runs have not closed yet.
    given: Arc<Mutex<HashSet<(RunId, OperationId)>>>,
}

/// A connection. Its end ends the tasks that show something.
struct Connected(Arc<Client>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.followers.lock().abort_all();
    }
}

/// A session that a client has open.
#[derive(Debug, Default)]
struct Open {
    /// Whether its turns are dry runs.
    dry_run: bool,
    /// The prompt that is under way.
    prompt: Option<CancellationToken>,
    goes_on: Option<GoesOn>,
}

/// A run that continues without a prompt.
#[derive(Debug)]
struct GoesOn {
    run: Run,
    /// The task that shows it.
    follower: AbortHandle,
    /// Cancelled when that task has shown all of it.
    shown: CancellationToken,
}

/// A request that is admitted.
enum Request {
    Initialize,
    Authenticate,
    New(crate::protocol::SetupRequest),
    /// A session is opened; whether with what was said.
    Load(crate::protocol::SetupRequest, bool),
    Fork(crate::protocol::SetupRequest),
    List(crate::protocol::ListRequest),
    SetMode(crate::protocol::SetModeRequest),
    Close(OfSession),
    Delete(OfSession),
    Prompt(crate::protocol::PromptRequest, CancellationToken),
}

impl Client {
    /// Reads a request.
    fn admit(&self, method: &str, params: Value) -> Result<Request, RpcError> {
        Ok(match method {
            "initialize" => {
                let _: InitializeRequest = read(params)?;
                Request::Initialize
            }
            "authenticate" => Request::Authenticate,
            "session/new" => Request::New(read(params)?),
            "session/load" => Request::Load(read(params)?, true),
            "session/resume" => Request::Load(read(params)?, false),
            "session/fork" => Request::Fork(read(params)?),
            "session/list" => Request::List(match params {
                Value::Null => crate::protocol::ListRequest::default(),
                params => read(params)?,
            }),
            "session/set_mode" => Request::SetMode(read(params)?),
            "session/close" => Request::Close(read(params)?),
            "session/delete" => Request::Delete(read(params)?),
            "session/prompt" => {
                let prompt: crate::protocol::PromptRequest = read(params)?;
                let cancel = self.begin_prompt(&prompt.session_id)?;
                Request::Prompt(prompt, cancel)
            }
            method => return Err(RpcError::unknown_method(method)),
        })
    }

    async fn perform(self: &Arc<Self>, request: Request) -> Result<Value, RpcError> {
        match request {
            Request::Initialize => result(initialized()),
            Request::Authenticate => result(json!({})),
            Request::New(setup) => result(self.new_session(&setup)?),
            Request::Load(setup, replay) => result(self.load(&setup, replay).await?),
            Request::Fork(setup) => result(self.fork(&setup).await?),
            Request::List(which) => result(self.list(&which).await?),
            Request::SetMode(mode) => self.set_mode(mode).await,
            Request::Close(which) => self.close(&which.session_id).await,
            Request::Delete(which) => self.delete(&which.session_id).await,
            Request::Prompt(prompt, cancel) => {
                let _under_way = UnderWay(self, &prompt.session_id, &cancel);
                result(self.prompt(&prompt, &cancel).await?)
            }
        }
    }

    /// A notification; unknown ones are ignored, as JSON-RPC has it.
    fn notified(self: &Arc<Self>, method: &str, params: Value) {
        let cancelled = (method == "session/cancel").then(|| read::<OfSession>(params));
        let Some(Ok(OfSession { session_id })) = cancelled else {
            return;
        };
        let goes_on = {
            let sessions = self.sessions.lock();
            let Some(open) = sessions.get(&session_id) else {
                return;
            };
            if let Some(prompt) = &open.prompt {
                prompt.cancel();
            }
            open.goes_on.as_ref().map(|known| known.run.clone())
        };
        if let Some(run) = goes_on {
            self.followers.lock().spawn(async move {
                let _ = run.cancel(CANCELLED).await;
            });
        }
    }

    /// Notes that a prompt begins in a session.
    fn begin_prompt(&self, session: &str) -> Result<CancellationToken, RpcError> {
        let mut sessions = self.sessions.lock();
        let open = sessions.get_mut(session).ok_or_else(|| not_open(session))?;
        if open.prompt.is_some() {
            let reason = "a prompt of this session is under way: wait for it, or cancel it";
            return Err(RpcError::new(RpcError::INVALID_REQUEST, reason));
        }
        Ok(open.prompt.insert(CancellationToken::new()).clone())
    }
}

/// The reason of a run's cancellation.
const CANCELLED: &str = "the client cancelled the prompt";

/// A prompt that is under way, in this session, and its token.
struct UnderWay<'a>(&'a Client, &'a str, &'a CancellationToken);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        // A session that was closed and opened again may have a prompt of its own.
        if let Some(open) = self.0.sessions.lock().get_mut(self.1)
            && open.prompt.as_ref() == Some(self.2)
        {
            open.prompt = None;
        }
    }
}

fn initialized() -> InitializeResponse {
    let methods = ["list", "resume", "fork", "close", "delete"];
    InitializeResponse {
        protocol_version: VERSION,
        agent_capabilities: AgentCapabilities {
            load_session: true,
            prompt_capabilities: PromptCapabilities {
                image: true,
                audio: true,
                embedded_context: true,
            },
            session_capabilities: methods.map(|name| (name.to_owned(), json!({}))).into(),
            meta: Some([(IDEMPOTENCY_KEY.to_owned(), json!(true))].into()),
        },
        auth_methods: Vec::new(),
        agent_info: Some(Implementation {
            name: "ghostlight".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(RpcError::invalid_params)
}

fn result(value: impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(value).map_err(RpcError::internal)
}

fn not_open(session: &str) -> RpcError {
    let session = ghostlight_safety::sanitize_line(session, 100);
    let reason =
        format!("session {session:?} is not open here: begin it with session/new or session/load");
    RpcError::new(RpcError::NOT_FOUND, reason)
}

fn failed(error: SystemError) -> RpcError {
    match &error {
        SystemError::EmptyTurn | SystemError::OtherTurn { .. } => RpcError::invalid_params(error),
        SystemError::UnknownSession { .. } | SystemError::Foreign { .. } => {
            RpcError::new(RpcError::NOT_FOUND, error.to_string())
        }
        _ => RpcError::internal(redact_text(&error.to_string())),
    }
}

/// Whether a path is absolute, on whichever system the client runs.
fn is_absolute(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':');
    path.starts_with(['/', '\\']) || drive || Path::new(path).is_absolute()
}
