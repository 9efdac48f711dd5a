//! Background processes: `start_process`, `read_process`, `write_process` and `stop_process`.
//!
//! A process belongs to the session that started it: for another one it does not exist.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Effect, RunId, SessionId, ToolDefinition},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::ChildStdin,
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use super::{
    CommandLine, Shared,
    output::Recent,
    running::{Group, exited, measured, stopped},
};

/// How many bytes of a process's output are kept.
const KEPT: usize = 1 << 20;
/// How many ended processes are remembered, of all holders.
const ENDED: usize = 32;
/// The longest that one call waits for output, in seconds.
const WAIT_S: f64 = 30.0;
/// How long a process has to read its input.
const TAKEN: Duration = Duration::from_secs(10);

/// The processes that were started.
#[derive(Debug)]
pub(super) struct Processes {
    most: usize,
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Process>>>,
}

/// The holder of a process, who alone can see it, write to it and end it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    user: Option<String>,
    place: Place,
}

/// The part of the conversation that a process is started in, as for shared state of the session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Session(SessionId),
    /// The root of the runs of a delegated task, which has no session.
    Tree(RunId),
    OutsideOfRuns,
}

impl Holder {
    fn of(cx: &ToolContext) -> Self {
        let Some(origin) = cx.origin() else {
            let (user, place) = (None, Place::OutsideOfRuns);
            return Self { user, place };
        };
        let tree = || Place::Tree(origin.root.unwrap_or(cx.run()));
        Self {
            user: origin.user.clone(),
            place: origin.session.clone().map_or_else(tree, Place::Session),
        }
    }
}

#[derive(Debug)]
struct Process {
    holder: Holder,
    output: Mutex<Recent>,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    group: Mutex<Group>,
    /// How it ended, in words; `None` while it runs. Each piece of output notifies the watchers, too.
    state: watch::Sender<Option<String>>,
    /// The tasks end with the process, and with this value.
    _tasks: Mutex<JoinSet<()>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadOutput {
    /// The number that `start_process` gave.
    process: u64,
    /// From which byte of its output on; `read_process` says where to go on.
    #[serde(default)]
    from: u64,
    /// How many seconds to wait for output or for the end, at most 30.
    #[serde(default)]
    wait_s: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    /// The number that `start_process` gave.
    process: u64,
    /// The text for its standard input, with a line break at its end where one is wanted.
    #[schemars(length(max = 65536))]
    text: String,
    /// Whether the input ends here.
    #[serde(default)]
    end: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stop {
    /// The number that `start_process` gave.
    process: u64,
}

pub(super) fn tools(shared: &Arc<Shared>) -> Vec<ToolHandle> {
    let [of_start, of_read, of_write, of_stop] = [(); 4].map(|()| shared.clone());
    let about = "Starts a program that goes on while you do other things, under the same rules as `run_command`. \
                 It ends when the program that you run in ends.";
    let start = ToolDefinition::new("start_process", about)
        .approval("Start {command} {args} in the folder {dir}?");
    let read = ToolDefinition::new(
        "read_process",
        "Reads the output of a started process, and says whether it has ended.",
    );
    let write = ToolDefinition::new(
        "write_process",
        "Writes to the standard input of a started process.",
    );
    let stop = ToolDefinition::new(
        "stop_process",
        "Ends a started process with all that it started.",
    );
    vec![
        ToolHandle::typed(start, move |line: CommandLine, cx: ToolContext| {
            let shared = of_start.clone();
            async move { shared.begin(&line, &cx).await }
        }),
        ToolHandle::typed(
            read.effect(Effect::Read),
            move |wanted: ReadOutput, cx: ToolContext| {
                let shared = of_read.clone();
                async move {
                    shared
                        .processes
                        .get(wanted.process, &cx)?
                        .read(&wanted)
                        .await
                }
            },
        ),
        ToolHandle::typed(write, move |wanted: WriteInput, cx: ToolContext| {
            let shared = of_write.clone();
            async move {
                shared
                    .processes
                    .get(wanted.process, &cx)?
                    .write(&wanted)
                    .await
            }
        }),
        ToolHandle::typed(
            stop.effect(Effect::Idempotent),
            move |wanted: Stop, cx: ToolContext| {
                let shared = of_stop.clone();
                async move {
                    shared
                        .processes
                        .get(wanted.process, &cx)?
                        .group
                        .lock()
                        .end();
                    Ok(ToolOutput::text("It was ended."))
                }
            },
        ),
    ]
}

impl Processes {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            next: AtomicU64::new(1),
            open: Mutex::default(),
        }
    }

    /// A process of the caller. One of somebody else is the same as none.
    fn get(&self, number: u64, cx: &ToolContext) -> Result<Arc<Process>, ToolError> {
        let (holder, open) = (Holder::of(cx), self.open.lock());
        let found = open.get(&number).filter(|process| process.holder == holder);
        found.cloned().ok_or_else(|| {
            let own = open.iter().filter(|(_, process)| process.holder == holder);
            let own = numbers(own.map(|(number, _)| *number));
            ToolError::new(format!(
                "there is no process {number}; there are: {own}. Processes end with the program that started them"
            ))
        })
    }
}

/// Numbers for the model.
fn numbers(all: impl Iterator<Item = u64>) -> String {
    let all: Vec<String> = all.map(|number| number.to_string()).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

/// Forgets an ended process where too many are remembered: the oldest one of the holder of the most of them, so that nobody
/// makes the others' output vanish.
fn forget_one(open: &mut BTreeMap<u64, Arc<Process>>) {
    let mut ended: BTreeMap<&Holder, Vec<u64>> = BTreeMap::new();
    for (number, process) in &*open {
        if process.has_ended() {
            ended.entry(&process.holder).or_default().push(*number);
        }
    }
    let all: usize = ended.values().map(Vec::len).sum();
    let most = ended.into_values().max_by_key(Vec::len);
    let oldest = most.and_then(|numbers| numbers.first().copied());
    if let Some(number) = oldest.filter(|_| all > ENDED) {
        open.remove(&number);
    }
}

impl Shared {
    async fn begin(&self, line: &CommandLine, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let start = self.start(line, false)?;
        let (holder, time) = (Holder::of(cx), self.settings.timeout);
        let growth = measured(self.growth.as_ref(), stopped(time, cx)).await?;
        let mut open = self.processes.open.lock();
        let running = open.iter().filter(|(_, process)| !process.has_ended());
        let own = running.clone();
        let own = own.filter(|(_, process)| process.holder == holder);
        let (running, own) = (running.count(), numbers(own.map(|(number, _)| *number)));
        if running >= self.processes.most {
            return Err(ToolError::new(format!(
                "{running} processes are running, which is the most: stop one of yours ({own})"
            )));
        }
        let (mut child, group) = start.spawn(true)?;
        let number = self.processes.next.fetch_add(1, Ordering::Relaxed);
        let process = Arc::new(Process {
            holder,
            output: Mutex::new(Recent::new(KEPT)),
            stdin: tokio::sync::Mutex::new(child.stdin.take()),
            group: Mutex::new(group),
            state: watch::Sender::new(None),
            _tasks: Mutex::default(),
        });
        let (out, err) = (child.stdout.take(), child.stderr.take());
        // A weak reference, so that the process ends when its last owner is dropped.
        let watched = Arc::downgrade(&process);
        process._tasks.lock().spawn(async move {
            let readers = (watched.clone(), watched.clone());
            let reading = async { tokio::join!(follow(out, readers.0), follow(err, readers.1)) };
            let ended = async {
                let grown = async {
                    match &growth {
                        Some(growth) => growth.exceeded().await,
                        None => pending().await,
                    }
                };
                let status = tokio::select! {
                    status = child.wait() => Ok(status),
                    exceeded = grown => Err(exceeded),
                };
                // The processes that it left running end with it, and so do the pipes.
                if let Some(process) = watched.upgrade() {
                    process.group.lock().end();
                }
                match (status, &growth) {
                    // It may have been faster than the looks.
                    (Ok(Ok(status)), Some(growth)) => {
                        let checked = timeout(time, growth.check()).await;
                        exited(status, checked.unwrap_or(Ok(())).err().as_ref())
                    }
                    (Ok(Ok(status)), None) => exited(status, None),
                    (Ok(Err(error)), _) => format!("lost: {error}"),
                    (Err(exceeded), _) => format!("ended because {exceeded}"),
                }
            };
            let (told, _) = tokio::join!(ended, reading);
            if let Some(process) = watched.upgrade() {
                process.state.send_replace(Some(told));
            }
        });
        open.insert(number, process);
        forget_one(&mut open);
        Ok(ToolOutput::text(format!(
            "It was started as process {number}."
        )))
    }
}

async fn follow(pipe: Option<impl AsyncRead + Unpin>, process: std::sync::Weak<Process>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let Some(process) = process.upgrade() else {
            return;
        };
        process.output.lock().push(&buffer[..count]);
        process.state.send_modify(|_| {});
    }
}

impl Process {
    fn has_ended(&self) -> bool {
        self.state.borrow().is_some()
    }

    async fn read(&self, wanted: &ReadOutput) -> Result<ToolOutput, ToolError> {
        let wait =
            Duration::try_from_secs_f64(wanted.wait_s.clamp(0.0, WAIT_S)).unwrap_or_default();
        let mut state = self.state.subscribe();
        let news =
            state.wait_for(|ended| ended.is_some() || self.output.lock().end() > wanted.from);
        let _ = timeout(wait, news).await;
        let ended = self.state.borrow().clone();
        let (text, end, skipped) = {
            let output = self.output.lock();
            let (text, end) = output.read(wanted.from, 64 << 10);
            (text, end, output.from.saturating_sub(wanted.from))
        };
        let state = ended.unwrap_or_else(|| "running".to_owned());
        let skipped = if skipped > 0 {
            format!("[{skipped} bytes are not kept any more]\n")
        } else {
            String::new()
        };
        Ok(ToolOutput::text(format!(
            "{skipped}{text}\n({state}; go on from {end})"
        )))
    }

    async fn write(&self, wanted: &WriteInput) -> Result<ToolOutput, ToolError> {
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_mut() else {
            return Err(ToolError::new("its input has ended"));
        };
        let written = timeout(TAKEN, pipe.write_all(wanted.text.as_bytes())).await;
        match written {
            Ok(written) => written?,
            Err(_) => {
                return Err(ToolError::in_doubt(
                    "it does not read its input; a part may have been written",
                ));
            }
        }
        if wanted.end {
            *stdin = None;
        }
        Ok(ToolOutput::text(format!(
            "{} bytes were written.",
            wanted.text.len()
        )))
    }
}
