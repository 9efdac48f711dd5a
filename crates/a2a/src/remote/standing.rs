//! The state of a remote agent's task, as far as the member needs it.

use ghostlight_actors::vocabulary::{Data, DataSource};
use serde::{Deserialize, Serialize};

use crate::{
    client::Sent,
    protocol::{Artifact, Message, Part, QUESTION, Role, Task, TaskState},
};

/// The most bytes of text that are taken from a remote agent.
const MAX_TEXT: usize = 1 << 20;
/// The most files that are taken from it, and the most bytes in base64 of all of them.
const MAX_FILES: (usize, usize) = (32, 8 << 20);

/// The state of a task. It is the result of the member's calls, so it is recorded in the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// The task; `None` if the agent answered with a message.
    pub(super) task: Option<String>,
    /// The conversation.
    pub(super) context: Option<String>,
    pub(super) state: TaskState,
    /// The answer, the question, or the reason why there is no answer.
    pub(super) text: String,
    /// The asking operation, if the agent names it.
    pub(super) question: Option<String>,
    /// A note of the text and files that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
}

impl Standing {
    /// The state after the answer to a message, with the files of the answer.
    pub(super) fn of(sent: &Sent) -> (Self, Vec<Data>) {
        match sent {
            Sent::Task(task) => Self::of_task(task),
            Sent::Message(message) => {
                let standing = Self {
                    context: message.context_id.clone(),
                    state: TaskState::Completed,
                    ..Self::default()
                };
                standing.with(message.parts.iter())
            }
        }
    }

    /// The state of a task, with its files.
    pub(super) fn of_task(task: &Task) -> (Self, Vec<Data>) {
        let words = task.status.message.as_ref();
        let question = words.and_then(|message| message.named(QUESTION));
        let standing = Self {
            task: Some(task.id.clone()),
            context: Some(task.context_id.clone()).filter(|context| !context.is_empty()),
            state: task.status.state,
            question: question.map(str::to_owned),
            ..Self::default()
        };
        if task.status.state != TaskState::Completed {
            return standing.with(words.into_iter().flat_map(|message| &message.parts));
        }
        let answers = |artifact: &&Artifact| !artifact.parts.is_empty();
        let has_artifacts = task.artifacts.iter().any(|artifact| answers(&artifact));
        if has_artifacts {
            return standing.with(task.artifacts.iter().flat_map(|artifact| &artifact.parts));
        }
        // Agents without artifacts answer in messages.
        let is_agents = |message: &&Message| message.role == Role::Agent;
        let last = words.or_else(|| task.history.iter().rev().find(is_agents));
        standing.with(last.into_iter().flat_map(|message| &message.parts))
    }

    fn with<'p>(mut self, parts: impl Iterator<Item = &'p Part>) -> (Self, Vec<Data>) {
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        let (mut left, mut bytes) = (0_usize, 0_usize);
        for part in parts {
            if let Some(text) = &part.text {
                texts.push(text.clone());
            } else if let Some(data) = &part.data {
                texts.push(data.to_string());
            } else if let Some(file) = file_of(part) {
                let size = part
                    .raw
                    .as_deref()
                    .or(part.url.as_deref())
                    .map_or(0, str::len);
                if files.len() < MAX_FILES.0 && bytes + size <= MAX_FILES.1 {
                    bytes += size;
                    files.push(file);
                } else {
                    left += 1;
                }
            }
        }
        let mut text = ghostlight_safety::sanitize(&texts.join("\n\n")).into_owned();
        let mut left_out = Vec::new();
        if text.len() > MAX_TEXT {
            let end = text.floor_char_boundary(MAX_TEXT);
            left_out.push(format!("{} bytes of text", text.len() - end));
            text.truncate(end);
        }
        if left > 0 {
            left_out.push(format!("{left} files"));
        }
        self.text = text;
        self.left_out = (!left_out.is_empty()).then(|| left_out.join(" and "));
        (self, files)
    }
}

fn file_of(part: &Part) -> Option<Data> {
    let source = match (&part.raw, &part.url) {
        (Some(raw), _) => DataSource::Base64(raw.clone()),
        (None, Some(url)) => DataSource::Url(url.clone()),
        (None, None) => return None,
    };
    let media_type = part
        .media_type
        .clone()
        .unwrap_or_else(|| "application/octet-stream".to_owned());
    let name = part
        .filename
        .as_deref()
        .map(|name| ghostlight_safety::sanitize_line(name, 200));
    Some(Data {
        media_type,
        name,
        source,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::TaskStatus;

    fn task(state: TaskState, words: Option<&str>, artifacts: &[&[Part]]) -> Task {
        Task {
            id: "t".into(),
            context_id: "c".into(),
            status: TaskStatus {
                state,
                message: words.map(|words| Message::text(Role::Agent, "m", words)),
                timestamp: None,
            },
            artifacts: artifacts
                .iter()
                .map(|parts| Artifact {
                    parts: parts.to_vec(),
                    ..Artifact::default()
                })
                .collect(),
            ..Task::default()
        }
    }

    #[test]
    fn what_an_agent_says_is_found_wherever_it_stands() {
        let text = |text: &str| Part::text(text);
        for (task, told) in [
            (
                task(TaskState::Completed, None, &[&[text("a")], &[text("b")]]),
                "a\n\nb",
            ),
            (
                task(TaskState::Completed, Some("words"), &[&[text("a")]]),
                "a",
            ),
            (task(TaskState::Completed, Some("words"), &[]), "words"),
            (
                task(
                    TaskState::Completed,
                    None,
                    &[&[Part::data(json!({ "n": 1 }))]],
                ),
                "{\"n\":1}",
            ),
            (task(TaskState::Completed, None, &[]), ""),
            (
                task(TaskState::InputRequired, Some("which?"), &[&[text("half")]]),
                "which?",
            ),
            (task(TaskState::Failed, Some("no paper"), &[]), "no paper"),
        ] {
            let (standing, _) = Standing::of_task(&task);
            assert_eq!(
                (standing.text.as_str(), standing.state),
                (told, task.status.state)
            );
            assert_eq!(standing.task.as_deref(), Some("t"));
        }
        let mut silent = task(TaskState::Completed, None, &[]);
        silent.history = vec![
            Message::text(Role::Agent, "1", "said"),
            Message::text(Role::User, "2", "heard"),
        ];
        assert_eq!(Standing::of_task(&silent).0.text, "said");
    }

    #[test]
    fn what_is_too_much_is_left_out_and_counted() {
        let long = Part::text("ä".repeat(MAX_TEXT));
        let file = Part {
            raw: Some("QUJD".into()),
            ..Part::default()
        };
        let mut parts = vec![file; MAX_FILES.0 + 2];
        parts.push(long);
        let (standing, files) = Standing::of_task(&task(TaskState::Completed, None, &[&parts]));
        assert_eq!((standing.text.len(), files.len()), (MAX_TEXT, MAX_FILES.0));
        let told = format!("{MAX_TEXT} bytes of text and 2 files");
        assert_eq!(standing.left_out.as_deref(), Some(told.as_str()));
    }
}
