//! Scorers that are programs.

use std::{path::Path, path::PathBuf, time::Duration};

use ghostlight_actors::vocabulary::seconds;
use ghostlight_child_process::{ChildProcess, Program, StderrTail};
use ghostlight_safety::cut;
use ghostlight_structured_output::read;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Score, ScorerFault};
use crate::{recording::Recording, suite::Sample};

/// A program that scores: it reads one JSON object (`sample`, `answer`, `calls`, `steps`, `spent`, `latency_ms`, `runs`)
/// from its standard input and prints a number from 0 to 1, or an object with `score` and, if it likes, `why` and
/// `passes`. It runs in the suite's folder, without the environment's secrets. What it prints otherwise is unreadable,
/// and no score.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CommandSpec {
    /// Its name; `command` where it is left out.
    pub name: Option<String>,
    /// The program and its arguments. No shell reads them.
    pub run: Vec<String>,
    /// The time that it has; 10 seconds where it is left out, and 10 minutes at the most.
    #[serde(rename = "timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub timeout: Option<Duration>,
    /// The value from which on it passes, where the program does not say; 1 where it is left out.
    pub pass: Option<f64>,
}

/// The most bytes that a program may print.
const MAX_OUTPUT: u64 = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct CommandScorer {
    pub(crate) name: String,
    program: String,
    arguments: Vec<String>,
    folder: Option<PathBuf>,
    timeout: Duration,
    pass: f64,
}

impl CommandScorer {
    pub(crate) fn new(spec: &CommandSpec, folder: &Path) -> Result<Self, ScorerFault> {
        let name = spec.name.clone().unwrap_or_else(|| String::from("command"));
        let fault = |reason: &str| ScorerFault {
            scorer: name.clone(),
            reason: reason.to_owned(),
        };
        let Some((program, arguments)) = spec.run.split_first() else {
            return Err(fault("`run` is empty: name a program"));
        };
        let timeout = spec.timeout.unwrap_or(TIMEOUT);
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            return Err(fault("`timeout_s` must be above 0 and at most 600"));
        }
        let pass = spec.pass.unwrap_or(1.0);
        if !(pass > 0.0 && pass <= 1.0) {
            return Err(fault("`pass` must be above 0 and at most 1"));
        }
        let folder = match folder.as_os_str().is_empty() {
            true => None,
            false => std::path::absolute(folder).ok(),
        };
        let program = match &folder {
            Some(folder) if program.contains('/') => folder.join(program).display().to_string(),
            _ => program.clone(),
        };
        Ok(Self {
            name,
            program,
            arguments: arguments.to_vec(),
            folder,
            timeout,
            pass,
        })
    }

    /// The score, or why there is none.
    pub(crate) async fn score(
        &self,
        recording: &Recording,
        sample: &Sample,
    ) -> Result<Score, String> {
        let calls = recording.calls.iter().map(|call| {
            json!({
                "tool": call.tool, "arguments": call.arguments, "status": call.status,
                "result": call.result, "turn": call.turn,
            })
        });
        let input = json!({
            "sample": sample,
            "answer": recording.answer(),
            "calls": calls.collect::<Vec<Value>>(),
            "steps": recording.steps,
            "spent": recording.spent,
            "latency_ms": recording.latency_ms,
            "runs": recording.runs,
        });
        let told = |reason: String| format!("the scorer {}: {reason}", self.name);
        let printed = match timeout(self.timeout, self.printed(input.to_string())).await {
            Ok(printed) => printed.map_err(told)?,
            Err(_) => {
                return Err(told(format!(
                    "it did not end within {} ms",
                    self.timeout.as_millis()
                )));
            }
        };
        self.read(&printed).map_err(told)
    }

    /// The output of the program for this input.
    async fn printed(&self, input: String) -> Result<String, String> {
        let program = Program {
            program: &self.program,
            arguments: &self.arguments,
            environment: Vec::new(),
            directory: self.folder.as_deref(),
        };
        let stderr = StderrTail::default();
        let (mut child, mut stdin, stdout) =
            ChildProcess::start(program, &stderr).map_err(|error| error.to_string())?;
        let write = async {
            // A program may score without reading.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let mut printed = Vec::new();
        let mut bounded = stdout.take(MAX_OUTPUT + 1);
        let (_, read) = futures_util::future::join(write, bounded.read_to_end(&mut printed)).await;
        read.map_err(|error| error.to_string())?;
        if printed.len() as u64 > MAX_OUTPUT {
            return Err(format!("it printed more than {MAX_OUTPUT} bytes"));
        }
        let how = child.ended().await;
        if !how.contains("exit status: 0") {
            let said = stderr.last_line().map(|line| format!(": {line}"));
            return Err(format!("{how}{}", said.unwrap_or_default()));
        }
        String::from_utf8(printed).map_err(|_| String::from("it printed no UTF-8"))
    }

    fn read(&self, printed: &str) -> Result<Score, String> {
        let printed = printed.trim();
        let value = match printed.parse::<f64>() {
            Ok(number) => json!(number),
            Err(_) => {
                read(printed)
                    .map_err(|error| format!("it printed no score: {error}"))?
                    .value
            }
        };
        let score = match &value {
            Value::Object(object) => object.get("score").and_then(Value::as_f64),
            other => other.as_f64(),
        };
        let Some(score) = score.filter(|score| (0.0..=1.0).contains(score)) else {
            let shown = cut(printed, 80);
            return Err(format!("it printed no score from 0 to 1: {shown:?}"));
        };
        let why = value.get("why").and_then(Value::as_str).unwrap_or_default();
        let mut found = Score::of(score, why).passing_from(self.pass);
        if let Some(passes) = value.get("passes").and_then(Value::as_bool) {
            found.passes = passes;
        }
        Ok(found)
    }
}
