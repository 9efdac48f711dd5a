//! The behavior of a member whose agent is remote.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, Answer, Data, DataSource, Message as Said, Outcome, Part as SaidPart, Question,
        Role as SaidRole, Scope, ToolCall, ToolStatus,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AWAIT, CANCEL, SEND, fault,
    standing::Standing,
    tool_name,
    tools::{Said as Message, TaskId},
};
use crate::protocol::{Part, TaskState};

/// Sends the member's task to a remote agent, waits for it, and answers with its answer.
///
/// The agent's tools (of [`RemoteToolset`](super::RemoteToolset)) have the member's name. In the conversation of a
/// session the agent's context is kept from one turn to the next; a delegated task gets a context of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteBehavior {
    /// The keys of the session's state (in a delegated task, of the tree's working memory) whose values go with each task, as
    /// a part of data `{"state": {…}}`. Nothing is sent of keys that have no value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<String>,
    /// The time limit of a task in seconds, after which it is cancelled; the time in which it waits for an answer does
    /// not count.
    task_timeout_s: f64,
}

impl Default for RemoteBehavior {
    fn default() -> Self {
        Self::new(Duration::from_secs(600))
    }
}

impl RemoteBehavior {
    /// A behavior with this time limit for tasks.
    pub fn new(task_timeout: Duration) -> Self {
        Self {
            state: Vec::new(),
            task_timeout_s: task_timeout.as_secs_f64(),
        }
    }

    /// Sends the values of these keys with each task.
    #[must_use]
    pub fn state<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.state = keys.into_iter().map(Into::into).collect();
        self
    }
}

/// The key in the session's state of a member's context.
fn key_of(agent: &str) -> String {
    format!("a2a/{agent}/context")
}

impl Behavior for RemoteBehavior {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let time = Duration::try_from_secs_f64(self.task_timeout_s).map_err(AgentError::failed)?;
        let member = Member {
            cx: &cx,
            name: cx.spec().name.clone(),
            state: &self.state,
            time,
        };
        member.run().await
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        if !Duration::try_from_secs_f64(self.task_timeout_s).is_ok_and(|time| !time.is_zero()) {
            return Err("`task_timeout_s` is a number of seconds above 0".to_owned());
        }
        fault(agent).map_or(Ok(()), Err)
    }
}

struct Member<'a> {
    cx: &'a RunContext,
    name: String,
    state: &'a [String],
    time: Duration,
}

impl Member<'_> {
    async fn run(&self) -> Result<Outcome, AgentError> {
        let cx = self.cx;
        let keeps = cx.session().is_some() && cx.start().parent.is_none();
        let state = cx.state(Scope::Session);
        let key = key_of(&self.name);
        let known: Option<String> = if keeps { state.get(&key).await? } else { None };
        let mut parts: Vec<Part> = match cx.request() {
            Some(request) => vec![Part::text(request)],
            None => cx.input().parts.iter().filter_map(part_of).collect(),
        };
        let mut sent = serde_json::Map::new();
        for key in self.state {
            if let Some(value) = state.get::<Value>(key.as_str()).await? {
                sent.insert(key.clone(), value);
            }
        }
        if !sent.is_empty() {
            parts.push(Part::data(json!({ "state": sent })));
        }
        let said = Message {
            parts,
            context: known.clone(),
            task: None,
            question: None,
        };
        let (mut standing, mut files) = self.call(SEND, &said).await?;
        if keeps && standing.context.is_some() && standing.context != known {
            state.set(&key, &standing.context).await?;
        }
        if let Some(task) = standing.task.clone() {
            cx.on_cancel(self.tool_call(CANCEL, &TaskId { task })?);
        }
        loop {
            (standing, files) = match (standing.state, standing.task.clone()) {
                (TaskState::Completed, _) => return Ok(self.answer(standing, files)),
                (TaskState::InputRequired, Some(task)) => self.answered(standing, task).await?,
                (
                    TaskState::Submitted | TaskState::Working | TaskState::Unspecified,
                    Some(task),
                ) => self.awaited(task).await?,
                (state, _) => return Err(self.failure(state, &standing.text)),
            };
        }
    }

    /// Asks the remote agent's question here, and sends the answer to it.
    async fn answered(
        &self,
        standing: Standing,
        task: String,
    ) -> Result<(Standing, Vec<Data>), AgentError> {
        let prompt = match standing.text.trim() {
            "" => format!("{} needs more to go on, and does not say what.", self.name),
            text => text.to_owned(),
        };
        let part = match self.cx.ask(Question::new(prompt)).await? {
            Value::String(text) => Part::text(text),
            other => Part::data(other),
        };
        let said = Message {
            parts: vec![part],
            context: standing.context,
            task: Some(task),
            question: standing.question,
        };
        self.call(SEND, &said).await
    }

    /// Waits for the task. After its time limit the task is cancelled.
    async fn awaited(&self, task: String) -> Result<(Standing, Vec<Data>), AgentError> {
        let id = TaskId { task };
        let waiting = self.call(AWAIT, &id);
        let failure = match self.cx.timeout(self.time, waiting).await {
            Ok(Ok(standing)) => return Ok(standing),
            Ok(Err(error)) => error,
            Err(_) => {
                let text = format!(
                    "its task took longer than {:?}, and was cancelled",
                    self.time
                );
                AgentError::failed(format!("{}: {text}", self.name))
            }
        };
        let call = self.tool_call(CANCEL, &id)?;
        self.cx.tools([call]).await?;
        Err(failure)
    }

    fn answer(&self, standing: Standing, files: Vec<Data>) -> Outcome {
        let mut text = standing.text;
        if let Some(left_out) = standing.left_out {
            text.push_str(&format!("\n\n[{left_out} of {} were left out]", self.name));
        }
        let mut message = Said::text(SaidRole::Assistant, text.clone());
        message.author = Some(self.name.clone());
        message.parts.extend(files.into_iter().map(SaidPart::Data));
        Outcome::Answer(Answer::text(text).with_messages(vec![Arc::new(message)]))
    }

    fn failure(&self, state: TaskState, text: &str) -> AgentError {
        let what = match state {
            TaskState::Rejected => "does not do this",
            TaskState::Canceled => "was cancelled by somebody else",
            TaskState::AuthRequired => {
                "wants a credential, which is given to it and not through here"
            }
            TaskState::InputRequired => "asks something without a task to answer to",
            _ => "failed",
        };
        let why = if text.is_empty() {
            String::new()
        } else {
            format!(": {text}")
        };
        AgentError::failed(format!("{} (elsewhere) {what}{why}", self.name))
    }

    fn tool_call(&self, what: &str, arguments: &impl Serialize) -> Result<ToolCall, AgentError> {
        let arguments = serde_json::to_value(arguments).map_err(AgentError::failed)?;
        Ok(ToolCall::new(
            what,
            tool_name(&self.name, what),
            json!(arguments),
        ))
    }

    /// Makes one of the calls, and reads its result.
    async fn call(
        &self,
        what: &str,
        arguments: &impl Serialize,
    ) -> Result<(Standing, Vec<Data>), AgentError> {
        let call = self.tool_call(what, arguments)?;
        let Some(result) = self.cx.tools([call]).await?.pop() else {
            return Err(AgentError::failed(format!(
                "{}: a call has no result",
                self.name
            )));
        };
        if result.status != ToolStatus::Success {
            return Err(AgentError::failed(format!(
                "{}: {}",
                self.name, result.text
            )));
        }
        let standing = serde_json::from_str(&result.text);
        let standing = standing.map_err(|error| {
            AgentError::failed(format!(
                "{}: what it came to cannot be read: {error}",
                self.name
            ))
        })?;
        Ok((standing, result.attachments))
    }
}

fn part_of(part: &SaidPart) -> Option<Part> {
    match part {
        SaidPart::Text(text) => Some(Part::text(text)),
        SaidPart::Data(data) => {
            let (raw, url) = match &data.source {
                DataSource::Base64(raw) => (Some(raw.clone()), None),
                DataSource::Url(url) => (None, Some(url.clone())),
                _ => return None,
            };
            let media_type = Some(data.media_type.clone());
            Some(Part {
                raw,
                url,
                media_type,
                filename: data.name.clone(),
                ..Part::default()
            })
        }
        _ => None,
    }
}
