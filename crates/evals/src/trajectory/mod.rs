//! Trajectories: what was said in a recorded turn, agent by agent, in the forms that trainers read.

mod atif;
mod export;
mod messages;
mod pairs;
mod reading;
mod rows;

use std::sync::Arc;

use ghostlight_actors::vocabulary::{Message, RunId, SessionId, Timestamp, ToolDefinition, Usage};
use ghostlight_safety::{redact_definition, redact_json, redact_text};
use serde_json::Value;

pub use self::{
    export::{Export, ExportFault, Rows, Secrets},
    reading::TrajectoryFault,
    rows::{Form, Verdict},
};

/// The conversation of a recorded turn, and of the runs below it.
///
/// It is made of the journal: the instructions and tools to which the run is pinned, and the messages that its session
/// keeps. What a behavior or a policy adds to a single request, such as found documents, is not in it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trajectory {
    /// The root run of the turn.
    pub run: RunId,
    /// The session that the turn belongs to.
    pub session: Option<SessionId>,
    /// The team.
    pub team: String,
    /// The episodes of the turn: one for each agent that had the conversation, in their order.
    pub episodes: Vec<Episode>,
    /// The episodes of the runs below it: one for each agent that was given a task.
    pub delegated: Vec<Episode>,
}

/// The messages of one agent while it had the conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Episode {
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: String,
    /// The name of the model that answered: the server's, or the registered one where it has not answered.
    pub model: String,
    /// The instructions to which the run is pinned, the team's included.
    pub instructions: String,
    /// The tools that the agent was offered.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// The messages before it, the user's turn last.
    pub before: Vec<Said>,
    /// How many messages of `before` belong to earlier turns of the session.
    pub earlier: usize,
    /// The messages from there on.
    pub said: Vec<Said>,
}

/// A message, with what is recorded of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Said {
    /// The message.
    pub message: Arc<Message>,
    /// When it was recorded, where that is known.
    pub at: Option<Timestamp>,
    /// The model call that it is the answer of.
    pub call: Option<Called>,
    /// The runs that its tool calls began, each with the id of its call.
    pub began: Vec<(String, RunId)>,
}

/// A model call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Called {
    /// The server's name of the model.
    pub model: String,
    /// Its usage.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
}

impl Said {
    /// A message about which nothing else is known.
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        Self {
            message: message.into(),
            at: None,
            call: None,
            began: Vec::new(),
        }
    }
}

impl Trajectory {
    /// The same trajectory without what looks like a secret, as `ghostlight recording export --redact` leaves it out; and whether
    /// anything was left out.
    pub fn redacted(mut self) -> (Self, bool) {
        let mut differs = false;
        for episode in self.episodes.iter_mut().chain(&mut self.delegated) {
            episode.redact(&mut differs);
        }
        (self, differs)
    }
}

impl Episode {
    fn redact(&mut self, differs: &mut bool) {
        let shown = redact_text(&self.instructions).into_owned();
        *differs |= shown != self.instructions;
        self.instructions = shown;
        for said in self.before.iter_mut().chain(&mut self.said) {
            if let Some(message) = without_secrets(&*said.message, redact_json) {
                *differs = true;
                said.message = Arc::new(message);
            }
        }
        for tool in &mut self.tools {
            if let Some(shown) = without_secrets(&**tool, redact_definition) {
                *differs = true;
                *tool = Arc::new(shown);
            }
        }
    }
}

/// A value without secrets; `None` where it holds none.
fn without_secrets<T>(value: &T, redact: fn(&Value) -> Value) -> Option<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let value = serde_json::to_value(value).ok()?;
    let shown = redact(&value);
    if shown == value {
        return None;
    }
    serde_json::from_value(shown).ok()
}
