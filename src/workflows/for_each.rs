//! One agent for each item of a list.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    OnFailure,
    ends::MemberEnd,
    member::{Part, ask_all, at_least_one, check_members, members, task},
};
use crate::behaviors::Prompt;

/// Gives each item of the task to a member, several at once. The task is a JSON array, or lines of
/// text. The answer is a JSON array of the answers, in the order of the items. The partial answer
/// of work that stops early lists the answers by the members' names and the items' numbers.
///
/// Several members take the items in turn.
///
/// ```yaml
/// behavior: { name: for_each, prompt: "Translate into German: {item}", max_at_once: 4 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ForEach {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The question to a member: `{item}`, and `{number}` from 1.
    pub prompt: Prompt,
    /// How many items are worked on at once.
    pub max_at_once: u32,
    /// The most items; a longer list fails before any work.
    pub max_items: u32,
    /// The reaction to a member that fails: the whole work stops, or the item's answer says so.
    pub on_failure: OnFailure,
    /// The longest that one item may take.
    #[serde(rename = "item_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub item_timeout: Option<Duration>,
}

impl Default for ForEach {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            prompt: Prompt::new("{item}"),
            max_at_once: 8,
            max_items: 1_000,
            on_failure: OnFailure::Stop,
            item_timeout: None,
        }
    }
}

/// The items of a text: those of a JSON array, or else its lines that are not blank.
fn items(text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => text,
                other => other.to_string(),
            })
            .collect(),
        _ => text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

impl Behavior for ForEach {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let items = items(&task(&cx));
        if items.len() > self.max_items as usize {
            return Err(AgentError::failed(format!(
                "the list has {} items, and {} works on at most {} (`max_items`)",
                items.len(),
                cx.spec().name,
                self.max_items
            )));
        }
        let members = members(cx.spec(), &self.members, &[]);
        let parts: Vec<Part> = items
            .iter()
            .zip(members.iter().cycle())
            .enumerate()
            .map(|(place, (item, member))| {
                let number = (place + 1).to_string();
                let texts = [("item", item.as_str()), ("number", &number)];
                let name = format!("{member} ({number})");
                Part::new(member, self.prompt.fill(&texts)).named(name)
            })
            .collect();
        let stops = |end: &MemberEnd| self.on_failure.ends_by(end);
        let wait = self.item_timeout;
        let ends = ask_all(&cx, parts, Some(self.max_at_once), wait, stops).await?;
        if let Some(end) = ends.ending(stops).or_else(|| ends.without_answer()) {
            return end;
        }
        let answers: Value = ends.iter().map(|end| Value::from(end.told())).collect();
        Ok(Outcome::answer(answers.to_string()))
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_at_once", Some(self.max_at_once))?;
        check_members(agent, &self.members, &[], 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_an_array_or_lines() {
        assert_eq!(items(r#"["a", 2, {"b": 3}]"#), ["a", "2", r#"{"b":3}"#]);
        assert_eq!(items(" a \n\n- b"), ["a", "- b"]);
        assert_eq!(items("[]"), [""; 0]);
    }
}
