//! A server as a child process: its streams, its standard error, and its end.

use std::{
    collections::BTreeMap, collections::VecDeque, path::Path, process::Stdio, sync::Arc,
    time::Duration,
};

use ghostlight_actors::safety;
use parking_lot::Mutex;
use rmcp::{RoleClient, transport::async_rw::AsyncRwTransport};
use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{MAX_MESSAGE_BYTES, error::SettingsError, references::reveal};

/// The environment variables that every server inherits: those that programs need to find things, and none that hold
/// secrets.
const INHERITED: [&str; 16] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
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
/// How many bytes of a server's standard error are kept.
const STDERR_BYTES: usize = 16 << 10;
/// How long a server may take to end after its input has ended, and again after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// The end of a server's standard error, over all of its lives.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend(bytes);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }

    /// The kept text, sanitised.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.lock().iter().copied().collect();
        safety::sanitize(String::from_utf8_lossy(&bytes).trim()).into_owned()
    }

    /// Its last line, for a message.
    pub(super) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(safety::sanitize_line(line, 300))
    }
}

/// A running server. On drop it is killed with all of its descendants.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    group: Option<u32>,
}

/// The transport over the server's standard streams.
pub(super) type ProcessTransport = AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>;

impl ServerProcess {
    /// Starts a server in a process group of its own.
    pub(super) fn start(
        program: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&Path>,
        stderr: &StderrTail,
    ) -> Result<(Self, ProcessTransport), String> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut command = Command::new(program);
        command.args(args).env_clear();
        command.envs(
            INHERITED
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        for (name, value) in env {
            let value =
                reveal(value, variable).map_err(|error: SettingsError| error.to_string())?;
            command.env(name, value);
        }
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
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
            .map_err(|error| format!("{program:?} does not start: {error}"))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(errors)) = streams else {
            return Err(format!("{program:?} has no streams"));
        };
        tokio::spawn(keep(errors, stderr.clone()));
        let transport =
            AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
        let group = child.id();
        Ok((Self { child, group }, transport))
    }

    /// Ends it: its input is closed already; then a signal asks it to end; then it is killed.
    pub(super) async fn end(mut self) {
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::Terminate);
            let _ = timeout(PATIENCE, self.child.wait()).await;
        }
        // A server that still runs is killed when this is dropped.
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("it ended ({status})"),
            Err(error) => format!("it is lost: {error}"),
        }
    }

    #[cfg(unix)]
    fn signal(&self, signal: Signal) {
        let group = self.group.and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            let signal = match signal {
                Signal::Terminate => rustix::process::Signal::TERM,
                Signal::Kill => rustix::process::Signal::KILL,
            };
            // The group may be gone already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&self, _: Signal) {}
}

#[derive(Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A server that has ended may have left descendants. Its process group keeps its id while they live. Without
        // descendants the signal reaches no one, unless the system has reused the id, which takes as many new processes
        // as there are ids.
        self.signal(Signal::Kill);
    }
}

async fn keep(mut errors: ChildStderr, tail: StderrTail) {
    let mut buffer = vec![0; 4096];
    while let Ok(read) = errors.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        tail.push(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::{STDERR_BYTES, StderrTail};

    #[test]
    fn what_a_server_says_on_its_standard_error_is_kept_in_bounds() {
        let tail = StderrTail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number} \u{1b}[31mred\n").as_bytes());
        }
        assert!(tail.0.lock().len() <= STDERR_BYTES);
        assert_eq!(tail.last_line().as_deref(), Some("line 9999 red"));
    }
}
