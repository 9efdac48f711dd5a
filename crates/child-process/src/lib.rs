#![doc = include_str!("../README.md")]

use std::{
    collections::VecDeque, ffi::OsString, io, path::Path, process::Stdio, sync::Arc, time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

/// The environment variables that every child inherits: those by which programs find things, and none that hold secrets.
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
/// How many bytes of standard error are kept: the last ones.
const STDERR_BYTES: usize = 16 << 10;
/// How long a child may take to end after its input has ended, and again after a signal.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the last words of a child that has ended are waited for. A descendant may hold its standard error open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program that was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The system refused it.
    #[error("{program:?} does not start: {source}")]
    Refused {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It was started without the streams that it is to be spoken to on.
    #[error("{program:?} has no streams")]
    NoStreams {
        /// The program.
        program: String,
    },
}

ghostlight_actors::parts_of_system_error!(ProcessError);

/// A program, and how it is started.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// A path, or a name that is looked up in `PATH`.
    pub program: &'a str,
    /// Its arguments. No shell reads them.
    pub arguments: &'a [String],
    /// Its environment variables, beside those by which programs find things.
    pub environment: Vec<(String, OsString)>,
    /// The folder in which it runs; this process's own when left out.
    pub directory: Option<&'a Path>,
}

/// The end of a child's standard error, at most 16 KiB. Several lives of a program can share one.
#[derive(Clone, Debug, Default)]
pub struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend(bytes);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }

    /// The kept text, without what acts on a terminal.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.lock().iter().copied().collect();
        ghostlight_safety::sanitize(String::from_utf8_lossy(&bytes).trim()).into_owned()
    }

    /// Its last line for a message: at most 300 characters, without secrets.
    pub fn last_line(&self) -> Option<String> {
        let text = self.text();
        let mut lines = text.lines().rev().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        Some(
            ghostlight_safety::redact_text(&ghostlight_safety::sanitize_line(line, 300))
                .into_owned(),
        )
    }
}

/// A child that runs. It is killed with all of its descendants when this is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    #[cfg(unix)]
    group: Option<u32>,
    errors: JoinHandle<()>,
}

impl ChildProcess {
    /// Starts a program in a process group of its own. Its standard error goes to `stderr`.
    ///
    /// # Errors
    /// The system does not start it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        program: Program<'_>,
        stderr: &StderrTail,
    ) -> Result<(Self, ChildStdin, ChildStdout), ProcessError> {
        let name = || program.program.to_owned();
        let mut command = Command::new(program.program);
        command.args(program.arguments).env_clear();
        let inherited = INHERITED.iter();
        command.envs(inherited.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(program.environment);
        if let Some(directory) = program.directory {
            command.current_dir(directory);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|source| ProcessError::Refused {
            program: name(),
            source,
        })?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(errors)) = streams else {
            return Err(ProcessError::NoStreams { program: name() });
        };
        #[cfg(unix)]
        let group = child.id();
        let errors = tokio::spawn(keep(errors, stderr.clone()));
        let started = Self {
            child,
            #[cfg(unix)]
            group,
            errors,
        };
        Ok((started, stdin, stdout))
    }

    /// Returns when it has ended and its last words are kept: how it ended, such as `it ended (exit status: 1)`.
    pub async fn ended(&mut self) -> String {
        let how = match self.child.wait().await {
            Ok(status) => format!("it ended ({status})"),
            Err(error) => format!("it is lost: {error}"),
        };
        if !self.errors.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.errors).await;
        }
        how
    }

    /// Ends it, up to 4 seconds long: its input is closed already; then a signal asks it to end; then it is killed.
    pub async fn end(mut self) {
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::Terminate);
            let _ = timeout(PATIENCE, self.child.wait()).await;
        }
        // One that still runs is killed when this is dropped.
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

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A child that has ended may have left descendants. Its process group keeps its id while they live. Without
        // descendants the signal reaches no one, unless the system has reused the id, which takes as many new processes
        // as there are ids.
        self.signal(Signal::Kill);
    }
}

async fn keep(mut errors: ChildStderr, tail: StderrTail) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        tail.push(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::{ChildProcess, Program};
    use super::{STDERR_BYTES, StderrTail};

    #[test]
    fn what_a_child_says_on_its_standard_error_is_kept_in_bounds() {
        let tail = StderrTail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number} \u{1b}[31mred\n").as_bytes());
        }
        assert!(tail.0.lock().len() <= STDERR_BYTES);
        assert_eq!(tail.last_line().as_deref(), Some("line 9999 red"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_last_words_of_a_child_are_kept_when_it_has_ended() {
        for _ in 0..20 {
            let tail = StderrTail::default();
            let arguments = ["-c", "echo no such team >&2; exit 3"].map(str::to_owned);
            let program = Program {
                program: "sh",
                arguments: &arguments,
                environment: Vec::new(),
                directory: None,
            };
            let (mut child, _stdin, _stdout) = ChildProcess::start(program, &tail).unwrap();
            assert_eq!(child.ended().await, "it ended (exit status: 3)");
            assert_eq!(tail.last_line().as_deref(), Some("no such team"));
        }
    }
}
