//! Pairs: two trajectories with one beginning.

use ghostlight_actors::vocabulary::{Message, Part, Role};
use serde_json::{Value, json};

use super::{
    Episode, Said, Trajectory,
    messages::{Reader, messages, tools},
    rows::{prompt, tools_column},
};

/// The place at which two trajectories part.
pub(super) struct Fork<'a> {
    /// The episode in which they do, as the better one has it.
    episode: &'a Episode,
    /// The fields of this episode in both.
    shared: &'a [Said],
    /// How the better one continues.
    better: &'a [Said],
    /// How the worse one continues.
    worse: &'a [Said],
}

/// Where two trajectories part: at an answer of a model, or at the last answer before it where a tool's result is the
/// first difference. `None` where they are the same, or do not begin alike.
pub(super) fn fork<'a>(better: &'a Trajectory, worse: &'a Trajectory) -> Option<Fork<'a>> {
    for (a, b) in better.episodes.iter().zip(&worse.episodes) {
        let one_beginning = a.agent == b.agent
            && a.instructions == b.instructions
            && a.tools == b.tools
            && is_alike(&a.before, &b.before);
        if !one_beginning {
            return None;
        }
        if is_alike(&a.said, &b.said) {
            continue;
        }
        let same = a
            .said
            .iter()
            .zip(&b.said)
            .take_while(|(a, b)| says_the_same(&a.message, &b.message))
            .count();
        let answers = |said: &[Said], place: usize| {
            said.get(place)
                .is_some_and(|said| said.message.role == Role::Assistant)
        };
        let place = (0..=same)
            .rev()
            .find(|place| answers(&a.said, *place) && answers(&b.said, *place))?;
        return Some(Fork {
            episode: a,
            shared: &a.said[..place],
            better: &a.said[place..],
            worse: &b.said[place..],
        });
    }
    None
}

fn is_alike(a: &[Said], b: &[Said]) -> bool {
    let mut pairs = a.iter().zip(b);
    a.len() == b.len() && pairs.all(|(a, b)| says_the_same(&a.message, &b.message))
}

/// Whether two messages say the same, whatever the ids of their calls: servers draw them at random.
fn says_the_same(a: &Message, b: &Message) -> bool {
    let mut parts = a.parts.iter().zip(&b.parts);
    a.role == b.role
        && a.parts.len() == b.parts.len()
        && parts.all(|(a, b)| match (a, b) {
            (Part::ToolCall(a), Part::ToolCall(b)) => {
                a.name == b.name && a.arguments == b.arguments
            }
            (Part::ToolResult(a), Part::ToolResult(b)) => a.name == b.name && a.text == b.text,
            (a, b) => a == b,
        })
}

impl Fork<'_> {
    /// OpenAI's row, which has one answer of an assistant on each side. `None` where these are the same.
    pub(super) fn openai(&self) -> Option<Value> {
        let (better, worse) = (self.better.first()?, self.worse.first()?);
        if says_the_same(&better.message, &worse.message) {
            return None;
        }
        let mut before = prompt(self.episode, Reader::Server);
        before.extend(messages(self.shared, Reader::Server));
        Some(json!({
            "input": {
                "messages": before, "tools": tools(self.episode), "parallel_tool_calls": true,
            },
            "preferred_output": messages([better], Reader::Server),
            "non_preferred_output": messages([worse], Reader::Server),
        }))
    }

    /// TRL's row, which has all that follows.
    pub(super) fn trl(&self) -> Value {
        let mut before = prompt(self.episode, Reader::Template);
        before.extend(messages(self.shared, Reader::Template));
        let mut row = json!({
            "prompt": before,
            "chosen": messages(self.better, Reader::Template),
            "rejected": messages(self.worse, Reader::Template),
        });
        if let Some(tools) = tools_column(self.episode) {
            row["tools"] = tools.into();
        }
        row
    }
}
