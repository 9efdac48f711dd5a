//! The effects of tools on the world, kept outside of any store.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};

/// The effects of one process on the world, as seen from outside: which began and which ended. The log outlives the
/// processes of a scenario; what a dead process still attempts does not happen. Cloning shares the log.
#[derive(Clone, Debug)]
pub struct EffectLog {
    log: Arc<Mutex<Log>>,
    process: u32,
}

#[derive(Debug, Default)]
struct Log {
    living: u32,
    effects: Vec<LoggedEffect>,
}

/// One effect that began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedEffect {
    /// The process, from 1.
    pub process: u32,
    /// The key of the effect: for a tool call its idempotency key.
    pub key: String,
    /// The author of the effect, such as the tool's name.
    pub name: String,
    /// The effect class.
    pub effect: Effect,
    /// Whether it ended.
    pub ended: bool,
}

impl EffectLog {
    /// An empty log, as the first process sees it.
    pub fn new() -> Self {
        let (living, effects) = (1, Vec::new());
        let log = Arc::new(Mutex::new(Log { living, effects }));
        Self { log, process: 1 }
    }

    /// The same log for the next process. The process before it is dead from now on.
    #[must_use]
    pub fn next_process(&self) -> Self {
        let process = self.process + 1;
        self.log.lock().living = process;
        let log = self.log.clone();
        Self { log, process }
    }

    /// All effects so far, in the order in which they began.
    pub fn effects(&self) -> Vec<LoggedEffect> {
        self.log.lock().effects.clone()
    }

    /// How often an effect of this name began.
    pub fn count(&self, name: &str) -> usize {
        let log = self.log.lock();
        log.effects.iter().filter(|e| e.name == name).count()
    }

    /// Performs an effect that takes this long, for a step of an agent's own function.
    pub async fn perform(
        &self,
        key: impl Into<String>,
        name: impl Into<String>,
        effect: Effect,
        takes: Duration,
    ) {
        let begun = self.begin(key.into(), name.into(), effect);
        tokio::time::sleep(takes).await;
        self.end(begun);
    }

    /// A tool that logs each call, takes this long, and answers with its name and arguments.
    pub fn tool(&self, definition: ToolDefinition, takes: Duration) -> LoggedTool {
        let (log, later) = (self.clone(), false);
        LoggedTool {
            log,
            definition,
            takes,
            later,
        }
    }

    fn begin(&self, key: String, name: String, effect: Effect) -> Option<usize> {
        let mut log = self.log.lock();
        if log.living != self.process {
            return None;
        }
        log.effects.push(LoggedEffect {
            process: self.process,
            key,
            name,
            effect,
            ended: false,
        });
        Some(log.effects.len() - 1)
    }

    fn end(&self, begun: Option<usize>) {
        let mut log = self.log.lock();
        if log.living != self.process {
            return;
        }
        if let Some(effect) = begun.and_then(|begun| log.effects.get_mut(begun)) {
            effect.ended = true;
        }
    }
}

impl Default for EffectLog {
    fn default() -> Self {
        Self::new()
    }
}

/// A tool whose calls are logged. Its answer depends on its arguments alone.
#[derive(Clone)]
pub struct LoggedTool {
    log: EffectLog,
    definition: ToolDefinition,
    takes: Duration,
    later: bool,
}

impl LoggedTool {
    /// Makes the tool hand out a ticket instead of an answer.
    #[must_use]
    pub fn later(mut self) -> Self {
        self.later = true;
        self
    }
}

impl fmt::Debug for LoggedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoggedTool({})", self.definition.name)
    }
}

impl Tool for LoggedTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let name = self.definition.name.clone();
        let (key, effect) = (cx.idempotency_key(), self.definition.effect);
        self.log.perform(key, &*name, effect, self.takes).await;
        if self.later {
            return Ok(ToolOutput::later());
        }
        Ok(ToolOutput::text(format!("{name} {}", arguments.text())))
    }
}
