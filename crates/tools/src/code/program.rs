//! A running program: its process, the calls that it makes, and its end.

use std::{process::ExitStatus, sync::Arc, time::Duration};

use ghostlight_actors::vocabulary::{ToolDefinition, ToolSet, ToolStatus};
use ghostlight_safety::unambiguous_json;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::Code;
use crate::{
    launcher::{FAILED, SAYS},
    terminal::{
        output::Kept,
        running::{Group, Start},
    },
};

/// The most bytes of calls in one line.
const FRAME: usize = 1 << 20;
/// How many bytes of output a program may write before reading stops.
const ENDLESS: u64 = 16 << 20;
/// How long to wait for the exit of an ended program, and for its last output.
const LAST: Duration = Duration::from_secs(2);

/// A call that a program makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// The result of a call, as the program reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Reply {
    pub(super) status: ToolStatus,
    pub(super) text: String,
}

/// The calls that a program made at once, with their results.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) asked: Vec<Asked>,
    pub(super) replies: Vec<Reply>,
}

/// The progress of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Advance {
    /// It waits for the results of these calls.
    Calls(Vec<Asked>),
    /// It has ended, with this output and, if it failed, the reason.
    Ended {
        output: String,
        failed: Option<String>,
    },
}

/// A line from a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    calls: Vec<Asked>,
}

/// The first line to a program.
#[derive(Serialize)]
struct Begin<'a> {
    program: &'a str,
    tools: Vec<Offered<'a>>,
}

#[derive(Serialize)]
struct Offered<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> From<&'a ToolDefinition> for Offered<'a> {
    fn from(tool: &'a ToolDefinition) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        }
    }
}

/// A program, and its process between two calls.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) settings: Code,
    pub(super) text: String,
    pub(super) tools: ToolSet,
    pub(super) process: Mutex<Option<Process>>,
}

impl Program {
    /// Continues the program after these exchanges. A lost process is started again, and gets the results of its
    /// earlier calls.
    pub(super) async fn advance(&self, past: &[Exchange]) -> Result<Advance, String> {
        let running = self.process.lock().take();
        let mut process = match running {
            Some(process) => process,
            None => Process::start(self).await?,
        };
        loop {
            let asked = match process.asked.take() {
                Some(asked) => asked,
                None => match process.next(&self.settings).await? {
                    Advance::Calls(asked) => asked,
                    ended => {
                        return Ok(match past.len() == process.answered {
                            true => ended,
                            false => diverged(past),
                        });
                    }
                },
            };
            let Some(known) = past.get(process.answered) else {
                process.asked = Some(asked.clone());
                *self.process.lock() = Some(process);
                return Ok(Advance::Calls(asked));
            };
            if known.asked != asked {
                return Ok(diverged(past));
            }
            process.answer(&known.replies, &self.settings).await;
        }
    }
}

/// The end of a program that makes other calls than before its process was lost.
fn diverged(past: &[Exchange]) -> Advance {
    let made: Vec<&str> = past
        .iter()
        .flat_map(|exchange| &exchange.asked)
        .map(|asked| asked.name.as_str())
        .collect();
    let failed = format!(
        "it was interrupted, and when it was run again it asked for other calls than before: it depends on the time, \
         on chance or on an order that is not fixed. These calls were made and are not repeated: {}",
        made.join(", ")
    );
    Advance::Ended {
        output: String::new(),
        failed: Some(failed),
    }
}

/// The process of a program.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Group,
    stdin: ChildStdin,
    frames: BufReader<ChildStdout>,
    output: Arc<Mutex<Kept>>,
    /// Reads its output, and returns whether that was too much.
    reading: JoinHandle<bool>,
    /// How long it has run, without the time of its calls.
    ran: Duration,
    calls: usize,
    /// How many exchanges it has got the replies of.
    answered: usize,
    /// The calls whose results it waits for.
    asked: Option<Vec<Asked>>,
}

impl Process {
    async fn start(program: &Program) -> Result<Self, String> {
        let settings = &program.settings;
        let start: Start = settings.start().map_err(|error| error.to_string())?;
        let (mut child, group) = start.spawn(true).map_err(|error| error.message)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("the program's pipes are missing".to_owned());
        };
        let output = Arc::new(Mutex::new(Kept::new(settings.max_output_bytes)));
        let mut process = Self {
            child,
            group,
            stdin,
            frames: BufReader::new(stdout),
            reading: tokio::spawn(read(stderr, output.clone())),
            output,
            ran: Duration::ZERO,
            calls: 0,
            answered: 0,
            asked: None,
        };
        let begin = Begin {
            program: &program.text,
            tools: program.tools.iter().map(|tool| (&**tool).into()).collect(),
        };
        process.tell(&begin, settings).await;
        Ok(process)
    }

    /// Writes a line to it. A failure to write shows in how the process ends.
    async fn tell(&mut self, line: &impl Serialize, settings: &Code) {
        let Ok(mut line) = serde_json::to_vec(line) else {
            return;
        };
        line.push(b'\n');
        let begun = Instant::now();
        let left = settings.timeout.saturating_sub(self.ran);
        let _ = timeout(left, self.stdin.write_all(&line)).await;
        self.ran += begun.elapsed();
    }

    async fn answer(&mut self, replies: &[Reply], settings: &Code) {
        let line = serde_json::json!({ "results": replies });
        self.tell(&line, settings).await;
        self.answered += 1;
    }

    /// Its next calls or its end, within its time.
    async fn next(&mut self, settings: &Code) -> Result<Advance, String> {
        let begun = Instant::now();
        let left = settings.timeout.saturating_sub(self.ran);
        let heard = timeout(left, self.hear(settings)).await;
        self.ran += begun.elapsed();
        match heard {
            Ok(heard) => heard,
            Err(_) => {
                let reason = format!(
                    "it was ended after {} s, which is its bound",
                    settings.timeout.as_secs_f64()
                );
                Ok(self.ended(Some(reason)).await)
            }
        }
    }

    async fn hear(&mut self, settings: &Code) -> Result<Advance, String> {
        let frame = match self.line().await {
            Ok(Some(line)) => unambiguous_json::<Frame>(line)
                .map_err(|error| format!("it sent a line that is not a call: {error}")),
            Ok(None) => {
                let status = self.child.wait().await;
                let status = status.map_err(|error| format!("the program was lost: {error}"))?;
                return self.exited(status).await;
            }
            Err(reason) => Err(reason),
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(reason) => return Ok(self.ended(Some(reason)).await),
        };
        // A line without calls counts as one call.
        self.calls += frame.calls.len().max(1);
        if self.calls > settings.max_calls {
            let reason = format!(
                "it was ended because it asked for more than {} calls",
                settings.max_calls
            );
            return Ok(self.ended(Some(reason)).await);
        }
        Ok(Advance::Calls(frame.calls))
    }

    /// The next line from it; `None` at the end.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        loop {
            // A failed pipe counts as its end.
            let read = self.frames.fill_buf().await.unwrap_or_default();
            if read.is_empty() {
                return Ok(None);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(read.len(), |end| end + 1);
            if line.len() + count > FRAME {
                return Err(format!(
                    "it was ended because it asked for calls of more than {FRAME} bytes"
                ));
            }
            line.extend_from_slice(&read[..count]);
            self.frames.consume(count);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    async fn exited(&mut self, status: ExitStatus) -> Result<Advance, String> {
        let failed = match status.code() {
            Some(0) => None,
            Some(code @ 129..) => Some(format!("it was ended by signal {}", code - 128)),
            Some(code) => Some(format!("it ended with exit code {code}")),
            None => Some(format!("it ended: {status}")),
        };
        let ended = self.ended(failed).await;
        match (&ended, status.code()) {
            (Advance::Ended { output, .. }, Some(FAILED)) if output.starts_with(SAYS) => {
                Err(format!("no program was started: {}", output.trim()))
            }
            _ => Ok(ended),
        }
    }

    /// Ends it, and returns its output.
    async fn ended(&mut self, mut failed: Option<String>) -> Advance {
        self.group.end();
        let _ = timeout(LAST, self.child.wait()).await;
        if let Ok(Ok(true)) = timeout(LAST, &mut self.reading).await {
            failed = Some(format!("it printed more than {ENDLESS} bytes"));
        }
        let output = self.output.lock().text();
        Advance::Ended { output, failed }
    }
}

/// Reads to the end, or until the output is too much: then it returns true, and closes the pipe, which ends the
/// program.
async fn read(mut pipe: ChildStderr, kept: Arc<Mutex<Kept>>) -> bool {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock();
        kept.push(&buffer[..count]);
        if kept.total > ENDLESS {
            return true;
        }
    }
    false
}
