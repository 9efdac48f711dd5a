//! One process of an agent: its streams, its standard error, and its end.

use std::{collections::VecDeque, process::Stdio, sync::Arc, time::Duration};

use ghostlight_actors::safety;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdout, Command},
    time::timeout,
};

use super::ProcessSettings;
use crate::{
    protocol::{InitializeResponse, OfSession, SetupRequest, SetupResponse, VERSION},
    translation::IDEMPOTENCY_KEY,
    wire::{Incoming, Lines, Peer, RequestError, RpcError, connect},
};

/// The variables that every process inherits: those by which programs find things, and none that hold secrets.
const INHERITED: [&str; 15] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    // The variables of Windows.
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "SYSTEMROOT",
    "TEMP",
    "USERPROFILE",
];
/// How many bytes of standard error are kept: the last ones.
const STDERR_BYTES: usize = 16 << 10;
/// How long a process may take to say who it is, or to open a session.
const SETUP: Duration = Duration::from_secs(60);
/// How long a process may take to end after its input has ended.
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
    #[error("{}", safety::sanitize_line(&.0.message, 2_000))]
    Refused(RpcError),
}

/// A process of an agent. It is killed with its descendants when this is dropped.
pub(super) struct Process {
    pub(super) peer: Peer,
    pub(super) lines: Lines<BufReader<ChildStdout>>,
    running: Running,
    told: InitializeResponse,
}

struct Running {
    child: Child,
    group: Option<u32>,
    program: String,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

impl Process {
    /// Starts a process and asks who it is.
    pub(super) async fn start(settings: &ProcessSettings) -> Result<Self, Failure> {
        let program = &settings.program;
        let mut command = Command::new(program);
        command.args(&settings.arguments).env_clear();
        let inherited = INHERITED.iter();
        command.envs(inherited.filter_map(|name| Some((name, std::env::var_os(name)?))));
        for (name, value) in &settings.environment {
            let value = value().map_err(|error| Failure::NotStarted(format!("{name}: {error}")))?;
            command.env(name, value);
        }
        if let Some(directory) = &settings.directory {
            command.current_dir(directory);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| Failure::NotStarted(format!("{program:?} does not start: {error}")))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(errors)) = streams else {
            return Err(Failure::NotStarted(format!("{program:?} has no streams")));
        };
        let stderr = Arc::default();
        tokio::spawn(keep(errors, Arc::clone(&stderr)));
        let (lines, peer) = connect(BufReader::new(stdout), stdin);
        let group = child.id();
        let mut process = Self {
            peer,
            lines,
            running: Running {
                child,
                group,
                program: program.clone(),
                stderr,
            },
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
                        Ok(None) | Err(_) => return None,
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
            Err(error) => Err(self.says(&format!("answers what does not read: {error}"))),
        }
    }

    fn says(&self, what: &str) -> Failure {
        Failure::Lost(format!("{:?} {what}", self.running.program))
    }

    /// How the process ended.
    pub(super) async fn lost(&mut self) -> Failure {
        let how = match timeout(PATIENCE, self.running.child.wait()).await {
            Ok(Ok(status)) => format!("ended ({status})"),
            Ok(Err(error)) => format!("is lost: {error}"),
            Err(_) => "closed its output".to_owned(),
        };
        let last = match self.running.last_line() {
            Some(line) => format!(", and said last: {line}"),
            None => String::new(),
        };
        self.says(&format!("{how}{last}"))
    }

    /// Closes its input and waits until it has ended; it is killed if that takes too long.
    pub(super) async fn end(self) {
        let Self {
            peer,
            lines,
            mut running,
            ..
        } = self;
        drop((peer, lines));
        let _ = timeout(PATIENCE, running.child.wait()).await;
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

impl Running {
    /// The last line on its standard error.
    fn last_line(&self) -> Option<String> {
        let bytes: Vec<u8> = self.stderr.lock().iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines().rev().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        Some(safety::redact_text(&safety::sanitize_line(line, 300)).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where the process has ended already, its descendants keep the id of the group.
        #[cfg(unix)]
        if let Some(group) = self.group.and_then(|id| i32::try_from(id).ok())
            && let Some(group) = rustix::process::Pid::from_raw(group)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

async fn keep(mut errors: ChildStderr, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = vec![0; 4_096];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        let mut kept = kept.lock();
        kept.extend(&buffer[..read]);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }
}
