//! Running commands, each with all of its descendants in one process group.

use std::{
    future::pending,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::contract::{ToolContext, ToolError};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::{sleep, timeout},
};

use super::{
    growth::{Bound, Exceeded, Growth},
    output::Kept,
};

/// How long to wait for the last output of a command that has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// How many bytes of output a command may write before it is ended.
const ENDLESS: u64 = 256 << 20;
/// How many bytes of output are shown as progress while a command runs.
const SHOWN: u64 = 1 << 20;

/// A command to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
}

/// All processes of a command. They are killed on drop.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn end(&mut self) {
        if let Some(group) = self.0.take() {
            // The group may be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

impl Start {
    /// Starts it, with stdin open or at its end.
    pub(crate) fn spawn(&self, stdin: bool) -> Result<(Child, Group), ToolError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| {
            ToolError::new(format!(
                "{} cannot be started: {error}",
                self.program.display()
            ))
        })?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok((child, Group(group)))
    }
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum End {
    /// It ended by itself, and its files may have grown too much by then.
    Exited(ExitStatus, Option<Exceeded>),
    TimedOut,
    Cancelled,
    /// It was ended for endless output.
    Endless,
    /// Its files grew too much.
    Grown(Exceeded),
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: End,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// The end of a command that ended by itself, in words.
pub(super) fn exited(status: ExitStatus, grown: Option<&Exceeded>) -> String {
    let told = match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    };
    match grown {
        Some(exceeded) => format!("{told}, but {exceeded}"),
        None => told,
    }
}

/// Waits until the time is up or the caller cancels.
pub(super) async fn stopped(time: Duration, cx: &ToolContext) -> End {
    tokio::select! {
        () = sleep(time) => End::TimedOut,
        () = cx.cancelled().cancelled() => End::Cancelled,
    }
}

/// Measures the files before a command is started.
///
/// # Errors
/// The command is stopped before that is done.
pub(super) async fn measured(
    bound: Option<&Bound>,
    stopped: impl Future<Output = End>,
) -> Result<Option<Growth>, ToolError> {
    let Some(bound) = bound else { return Ok(None) };
    tokio::select! {
        biased;
        end = stopped => Err(ToolError::new(match end {
            End::Cancelled => "the command was not started: the call was cancelled",
            _ => {
                "the command was not started: the files that it may change could not be measured within `timeout_s`. Let it \
                 change fewer files, give it more time, or measure nothing with `max_growth_bytes: null`"
            }
        })),
        growth = bound.begin() => Ok(Some(growth)),
    }
}

/// Runs a command until it ends, its time is up, its files have grown too much, or its caller cancels.
pub(super) async fn run(
    start: &Start,
    most: usize,
    (time, bound): (Duration, Option<&Bound>),
    cx: &ToolContext,
) -> Result<Ran, ToolError> {
    let stopped = stopped(time, cx);
    tokio::pin!(stopped);
    let growth = measured(bound, &mut stopped).await?;
    let grown = async {
        match &growth {
            Some(growth) => growth.exceeded().await,
            None => pending().await,
        }
    };
    let (mut child, mut group) = start.spawn(false)?;
    let [stdout, stderr] = [(); 2].map(|()| Arc::new(Mutex::new(Kept::new(most))));
    let pipes = (child.stdout.take(), child.stderr.take());
    let reading = async {
        let (out, err) = (read(pipes.0, &stdout, cx), read(pipes.1, &stderr, cx));
        let (out, err) = tokio::join!(out, err);
        out || err
    };
    tokio::pin!(reading);
    let mut read_all = false;
    let end = {
        let ends = async {
            tokio::select! {
                status = child.wait() => status.map(|status| End::Exited(status, None)),
                exceeded = grown => Ok(End::Grown(exceeded)),
                end = &mut stopped => Ok(end),
            }
        };
        tokio::pin!(ends);
        loop {
            tokio::select! {
                biased;
                endless = &mut reading, if !read_all => {
                    read_all = true;
                    if endless {
                        break Ok(End::Endless);
                    }
                }
                end = &mut ends => break end,
            }
        }
    };
    // The background processes that it left end with it, and so do the pipes.
    group.end();
    if !read_all {
        let _ = timeout(LAST_OUTPUT, &mut reading).await;
    }
    let _ = timeout(LAST_OUTPUT, child.wait()).await;
    let mut end =
        end.map_err(|error| ToolError::in_doubt(format!("the command was lost: {error}")))?;
    // It may have been faster than the looks.
    if let (End::Exited(_, grown), Some(growth)) = (&mut end, &growth) {
        *grown = tokio::select! {
            checked = growth.check() => checked.err(),
            _ = &mut stopped => None,
        };
    }
    let taken = |kept: &Mutex<Kept>| std::mem::replace(&mut *kept.lock(), Kept::new(2));
    Ok(Ran {
        end,
        stdout: taken(&stdout),
        stderr: taken(&stderr),
    })
}

/// Reads to the end; returns true if it gave up before, because the output seemed endless.
async fn read(pipe: Option<impl AsyncRead + Unpin>, kept: &Mutex<Kept>, cx: &ToolContext) -> bool {
    let Some(mut pipe) = pipe else { return false };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let piece = &buffer[..count];
        let total = {
            let mut kept = kept.lock();
            kept.push(piece);
            kept.total
        };
        if cx.is_watched() && total <= SHOWN {
            cx.output(String::from_utf8_lossy(piece));
        }
        if total > ENDLESS {
            return true;
        }
    }
    false
}
