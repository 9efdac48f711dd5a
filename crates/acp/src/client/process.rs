//! One process of an agent: its streams, its standard error, and its end.

use std::time::Duration;

use ghostlight_child_process::{ChildProcess, Program, StderrTail};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{io::BufReader, process::ChildStdout, time::timeout};

use super::{ProcessOptions, Variable};
use crate::{
    protocol::{InitializeResponse, OfSession, SetupRequest, SetupResponse, VERSION},
    translation::IDEMPOTENCY_KEY,
    wire::{Incoming, Lines, Peer, RequestError, RpcError, connect},
};

/// How long a process may take to say who it is, or to open a session.
const SETUP: Duration = Duration::from_secs(60);
/// How long a process may take to end after its output has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a request to the agent came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The process cannot be started.
    #[error("{0}")]
    NotStarted(String),
    /// The process ended, or said nothing for too long.
    #[error("{0}")]
    Lost(String),
    /// The agent answered with an error.
    #[error("{}", ghostlight_safety::sanitize_line(&.0.message, 2_000))]
    Refused(RpcError),
}

/// A process of an agent. It is killed with its descendants when this is dropped.
pub(super) struct Process {
    pub(super) peer: Peer,
    pub(super) lines: Lines<BufReader<ChildStdout>>,
    child: ChildProcess,
    program: String,
    stderr: StderrTail,
    told: InitializeResponse,
}

impl Process {
    /// Starts a process and asks who it is.
    pub(super) async fn start(settings: &ProcessOptions) -> Result<Self, Failure> {
        let named = |(name, value): (&String, &Variable)| match value() {
            Ok(value) => Ok((name.clone(), value.into())),
            Err(error) => Err(Failure::NotStarted(format!("{name}: {error}"))),
        };
        let environment: Result<_, Failure> = settings.environment.iter().map(named).collect();
        let program = Program {
            program: &settings.program,
            arguments: &settings.arguments,
            environment: environment?,
            directory: settings.directory.as_deref(),
        };
        let stderr = StderrTail::default();
        let (child, stdin, stdout) = ChildProcess::start(program, &stderr)
            .map_err(|error| Failure::NotStarted(error.to_string()))?;
        let (lines, peer) = connect(BufReader::new(stdout), stdin);
        let program = settings.program.clone();
        let mut process = Self {
            peer,
            lines,
            child,
            program: program.clone(),
            stderr,
            told: InitializeResponse::default(),
        };
        let client = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
            "clientInfo": { "name": "ghostlight", "version": env!("CARGO_PKG_VERSION") },
        });
        process.told = process.set_up("initialize", &client).await?;
        let version = process.told.protocol_version;
        if version != VERSION {
            let message = format!("{program:?} speaks version {version}, and not {VERSION}");
            return Err(Failure::NotStarted(message));
        }
        Ok(process)
    }

    /// Whether a prompt that is sent again under its name is the same prompt to this agent.
    pub(super) fn knows_prompts(&self) -> bool {
        let meta = self.told.agent_capabilities.meta.as_ref();
        meta.and_then(|meta| meta.get(IDEMPOTENCY_KEY)) == Some(&Value::Bool(true))
    }

    /// Begins a session, and returns its id.
    pub(super) async fn new_session(&mut self, cwd: String) -> Result<String, Failure> {
        let setup = SetupRequest {
            session_id: None,
            cwd,
            mcp_servers: Vec::new(),
        };
        let opened: SetupResponse = self.set_up("session/new", &setup).await?;
        let fits = |id: &String| (1..=4_096).contains(&id.len());
        opened
            .session_id
            .filter(fits)
            .ok_or_else(|| self.says("begins a session without a usable id"))
    }

    /// Opens a session that it knows.
    pub(super) async fn open_session(&mut self, id: &str, cwd: String) -> Result<(), Failure> {
        let can = &self.told.agent_capabilities;
        let method = match can.session_capabilities.contains_key("resume") {
            true => "session/resume",
            false if can.load_session => "session/load",
            false => return Err(self.says("cannot open a session again")),
        };
        let setup = SetupRequest {
            session_id: Some(id.to_owned()),
            cwd,
            mcp_servers: Vec::new(),
        };
        let _: Value = self.set_up(method, &setup).await?;
        Ok(())
    }

    /// Cancels what is under way in a session that is open, and waits until that is noted.
    pub(super) async fn close_session(&mut self, id: &str) -> Result<(), Failure> {
        let which = OfSession {
            session_id: id.to_owned(),
        };
        let _: Value = self.set_up("session/close", &which).await?;
        Ok(())
    }

    /// A request before the prompt. What the agent shows of earlier turns is passed over.
    async fn set_up<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, Failure> {
        let peer = self.peer.clone();
        let request = async {
            let request = peer.request(method, params);
            tokio::pin!(request);
            loop {
                tokio::select! {
                    biased;
                    heard = self.lines.next() => match heard {
                        Ok(Some(Incoming::Request { id, method, .. })) => refuse(&peer, &id, &method).await,
                        Ok(Some(Incoming::Notification { .. })) => {}
                        // One that answers and ends at once has answered.
                        Ok(None) => return Some((&mut request).await),
                        Err(_) => return None,
                    },
                    result = &mut request => return Some(result),
                }
            }
        };
        match timeout(SETUP, request).await {
            Ok(Some(result)) => self.read(result).await,
            Ok(None) => Err(self.lost().await),
            Err(_) => Err(self.says(&format!("does not answer `{method}` within {SETUP:?}"))),
        }
    }

    /// The result of a request, or why there is none.
    pub(super) async fn read<T>(&mut self, result: Result<T, RequestError>) -> Result<T, Failure> {
        match result {
            Ok(result) => Ok(result),
            Err(RequestError::Refused(error)) => Err(Failure::Refused(error)),
            Err(RequestError::Closed) => Err(self.lost().await),
            Err(error) => Err(self.says(&format!("gives an answer that cannot be read: {error}"))),
        }
    }

    fn says(&self, what: &str) -> Failure {
        Failure::Lost(format!("{:?} {what}", self.program))
    }

    /// How the process ended.
    pub(super) async fn lost(&mut self) -> Failure {
        let ended = timeout(PATIENCE, self.child.ended()).await;
        let how = ended.unwrap_or_else(|_| "it closed its output".to_owned());
        let last = match self.stderr.last_line() {
            Some(line) => format!(", and said last: {line}"),
            None => String::new(),
        };
        Failure::Lost(format!("{:?} is lost: {how}{last}", self.program))
    }

    /// Closes its input and waits until it has ended; it is killed if that takes too long.
    pub(super) async fn end(self) {
        let Self {
            peer, lines, child, ..
        } = self;
        drop((peer, lines));
        child.end().await;
    }
}

/// Answers a request of the agent's for something that is not offered.
pub(super) async fn refuse(peer: &Peer, id: &Value, method: &str) {
    // A question of an earlier prompt is asked again when that prompt is.
    if method != "session/request_permission" {
        let _ = peer
            .respond(id, Err(RpcError::unknown_method(method)))
            .await;
    }
}
