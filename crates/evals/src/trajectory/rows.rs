//! The rows of training files.

use ghostlight_actors::vocabulary::Role;
use serde_json::{Value, json};

use super::{
    Episode, Trajectory,
    messages::{Reader, messages, system, tools},
    pairs,
};
use crate::{
    cell::{Cell, CellResult},
    suite::Sample,
};

/// A form of training files. A row is a JSON object on a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// OpenAI's fine-tuning: a chat with tools. Earlier turns have the weight 0.
    OpenaiChat,
    /// OpenAI's preference fine-tuning: two answers to one conversation.
    OpenaiPreference,
    /// TRL's supervised fine-tuning: prompt and completion.
    TrlSft,
    /// TRL's direct preference optimisation: prompt, chosen and rejected.
    TrlDpo,
    /// TRL's KTO: prompt, completion, and whether it is good.
    TrlKto,
    /// verl's reinforcement learning: a prompt, and the answer that a reward is computed from.
    Verl,
    /// The Agent Trajectory Interchange Format, version 1.8.
    Atif,
}

/// The known quality of a trajectory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether it passed.
    pub success: Option<bool>,
    /// The reward.
    pub reward: Option<f64>,
}

impl Verdict {
    /// A verdict of this success and reward.
    pub fn new(success: Option<bool>, reward: Option<f64>) -> Self {
        Self { success, reward }
    }

    /// The verdict on a cell. Its reward is that of the suite; where the suite has none, the mean of its scores, and 0
    /// where the agent gave no answer. There is none where a verdict cannot be read: the other scores are no measure of it.
    pub fn of(cell: &Cell) -> Self {
        let scores: Vec<f64> = cell.scores().map(|(_, score)| score.value).collect();
        let mean = match &cell.result {
            CellResult::AgentFailed { .. } => Some(0.0),
            CellResult::Unreadable { .. } => None,
            _ if scores.is_empty() => None,
            _ => Some(scores.iter().sum::<f64>() / scores.len() as f64),
        };
        let reward = cell.reward.or(mean);
        Self::new(cell.success(), reward)
    }
}

impl Form {
    /// Whether its rows are pairs of trajectories.
    pub fn takes_pairs(self) -> bool {
        matches!(self, Self::OpenaiPreference | Self::TrlDpo)
    }

    /// Whether its rows are examples to follow, so that trajectories that did not succeed have no place in it.
    pub fn takes_successes_only(self) -> bool {
        matches!(self, Self::OpenaiChat | Self::TrlSft)
    }

    /// Whether it has one row for a sample, however often the sample was tried.
    pub fn takes_samples(self) -> bool {
        matches!(self, Self::Verl)
    }

    /// The rows of a trajectory: one for each agent that had the conversation, or one for the whole. There is none
    /// where an agent said nothing, and none of a [form of pairs](Self::takes_pairs).
    pub fn rows(
        self,
        trajectory: &Trajectory,
        sample: Option<&Sample>,
        verdict: Verdict,
    ) -> Vec<Value> {
        match self {
            Self::OpenaiPreference | Self::TrlDpo => Vec::new(),
            Self::Atif => vec![super::atif::document(trajectory, sample, verdict)],
            Self::Verl => verl(trajectory, sample, verdict).into_iter().collect(),
            Self::OpenaiChat => each(trajectory, openai_chat),
            Self::TrlSft => each(trajectory, prompt_and_completion),
            Self::TrlKto => {
                let Some(label) = verdict.success else {
                    return Vec::new();
                };
                each(trajectory, |episode| {
                    let mut row = prompt_and_completion(episode);
                    row["label"] = label.into();
                    row
                })
            }
        }
    }

    /// The row of two trajectories with one beginning; `None` where there is no place at which a model answered the
    /// same conversation in two ways.
    pub fn pair(self, better: &Trajectory, worse: &Trajectory) -> Option<Value> {
        let fork = pairs::fork(better, worse)?;
        match self {
            Self::OpenaiPreference => fork.openai(),
            Self::TrlDpo => Some(fork.trl()),
            _ => None,
        }
    }
}

fn each(trajectory: &Trajectory, row: impl Fn(&Episode) -> Value) -> Vec<Value> {
    let episodes = trajectory.episodes.iter();
    let said = episodes.filter(|episode| episode.ends_with_an_answer());
    said.map(row).collect()
}

impl Episode {
    /// Whether there is something to learn in it.
    fn ends_with_an_answer(&self) -> bool {
        self.said
            .iter()
            .any(|said| said.message.role == Role::Assistant)
    }
}

fn openai_chat(episode: &Episode) -> Value {
    let mut all: Vec<Value> = system(episode).into_iter().collect();
    let mut before = messages(&episode.before, Reader::Server);
    for message in &mut before {
        if message["role"] == "assistant" {
            message["weight"] = 0.into();
        }
    }
    all.extend(before);
    all.extend(messages(&episode.said, Reader::Server));
    let mut row = json!({ "messages": all });
    let tools = tools(episode);
    if !tools.is_empty() {
        row["tools"] = tools.into();
        row["parallel_tool_calls"] = true.into();
    }
    row
}

/// The tools as a text: in a table, schemas with different fields would not fit one column.
pub(super) fn tools_column(episode: &Episode) -> Option<String> {
    let tools = tools(episode);
    (!tools.is_empty()).then(|| Value::Array(tools).to_string())
}

pub(super) fn prompt(episode: &Episode, reader: Reader) -> Vec<Value> {
    let mut prompt: Vec<Value> = system(episode).into_iter().collect();
    prompt.extend(messages(&episode.before, reader));
    prompt
}

fn prompt_and_completion(episode: &Episode) -> Value {
    let mut row = json!({
        "prompt": prompt(episode, Reader::Template),
        "completion": messages(&episode.said, Reader::Template),
    });
    if let Some(tools) = tools_column(episode) {
        row["tools"] = tools.into();
    }
    row
}

fn verl(trajectory: &Trajectory, sample: Option<&Sample>, verdict: Verdict) -> Option<Value> {
    let episode = trajectory.episodes.first()?;
    let truth = sample.and_then(|sample| sample.expected.as_ref());
    let truth = match truth {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let id = sample.map_or_else(|| trajectory.run.to_string(), |sample| sample.id.clone());
    let mut extra = json!({ "index": id, "split": "train", "run": trajectory.run });
    if let Some(reward) = verdict.reward {
        extra["reward"] = reward.into();
    }
    Some(json!({
        "data_source": trajectory.team,
        "prompt": prompt(episode, Reader::Template),
        "ability": "agent",
        "reward_model": { "style": "rule", "ground_truth": truth },
        "extra_info": extra,
    }))
}
