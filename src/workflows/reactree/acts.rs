//! The acts of a node's model, besides calling the agent's tools.

use std::sync::Arc;

use ghostlight_actors::{
    definition::TRANSFER_PREFIX,
    vocabulary::{Effect, ToolCall, ToolDefinition, ToolSet},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// An act of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Expand(Flow, Vec<String>),
    Done(String),
    Fail(String),
    Remember { key: String, value: String },
    Recall(Option<String>),
}

/// How the node works on the sub-goals of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Flow {
    Sequence,
    Fallback,
    Parallel,
}

impl Flow {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence",
            Self::Fallback => "fallback",
            Self::Parallel => "parallel",
        }
    }
}

#[derive(Deserialize)]
struct Expansion {
    flow: Flow,
    subgoals: Vec<String>,
}

fn act(name: &str, description: &str, properties: Value, required: &[&str]) -> Arc<ToolDefinition> {
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let definition = ToolDefinition::new(name, description);
    Arc::new(definition.parameters(parameters).effect(Effect::Read))
}

/// The agent's own tools, and the acts. An act hides a caller's tool of the same name; a node at the deepest
/// level cannot expand. No node can hand the conversation over: it has only its own goal.
pub(super) fn offered(own: &ToolSet, may_expand: bool) -> ToolSet {
    let text = json!({"type": "string"});
    let expand = act(
        "expand",
        "Divides the goal into sub-goals. What comes of them is what comes of the goal.",
        json!({
            "flow": {"type": "string", "enum": ["sequence", "fallback", "parallel"]},
            "subgoals": {"type": "array", "items": text, "minItems": 1},
        }),
        &["flow", "subgoals"],
    );
    let acts = [
        act(
            "done",
            "The goal is reached.",
            json!({ "result": text }),
            &["result"],
        ),
        act(
            "fail",
            "The goal cannot be reached.",
            json!({ "reason": text }),
            &["reason"],
        ),
        act(
            "remember",
            "Keeps a note for all who work on the task.",
            json!({ "key": text, "value": text }),
            &["key", "value"],
        ),
        act(
            "recall",
            "Reads one note, or all without a key.",
            json!({ "key": text }),
            &[],
        ),
    ];
    let is_own = |name: &str| !is_act(name) && !name.starts_with(TRANSFER_PREFIX);
    let own = own.iter().filter(|tool| is_own(&tool.name)).cloned();
    own.chain(may_expand.then_some(expand))
        .chain(acts)
        .collect()
}

/// The names of all acts.
pub(super) const NAMES: [&str; 5] = ["expand", "done", "fail", "remember", "recall"];

/// Whether a tool of this name is an act.
pub(super) fn is_act(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The act that a call asks for, or a message that tells the model what to mend.
pub(super) fn read(call: &ToolCall, most: u32) -> Result<Act, String> {
    let arguments = call
        .arguments
        .value()
        .map_err(|error| format!("the arguments are not JSON: {error}"))?;
    let text = |name: &str| match arguments.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ => Err(format!("{name:?} must be a text that is not empty")),
    };
    match call.name.as_str() {
        "done" => Ok(Act::Done(text("result")?)),
        "fail" => Ok(Act::Fail(text("reason")?)),
        "remember" => Ok(Act::Remember {
            key: text("key")?,
            value: text("value")?,
        }),
        "recall" => Ok(Act::Recall(text("key").ok())),
        _ => {
            let Expansion { flow, subgoals } =
                Expansion::deserialize(arguments).map_err(|error| error.to_string())?;
            let goals: Vec<String> = subgoals
                .into_iter()
                .map(|goal| goal.trim().to_owned())
                .filter(|goal| !goal.is_empty())
                .collect();
            if goals.is_empty() || goals.len() > most as usize {
                let found = goals.len();
                return Err(format!("there must be 1 to {most} sub-goals, not {found}"));
            }
            Ok(Act::Expand(flow, goals))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, arguments: Value) -> Result<Act, String> {
        read(&ToolCall::new("1", name, arguments), 2)
    }

    #[test]
    fn acts_are_read_and_faults_are_told() {
        let goals = |goals: &[&str]| json!({"flow": "fallback", "subgoals": goals});
        assert_eq!(
            told("expand", goals(&["a", " ", "b "])),
            Ok(Act::Expand(Flow::Fallback, vec!["a".into(), "b".into()]))
        );
        assert!(
            told("expand", goals(&["a", "b", "c"]))
                .unwrap_err()
                .contains("1 to 2")
        );
        assert!(told("expand", goals(&[])).unwrap_err().contains("1 to 2"));
        assert!(told("expand", json!({"flow": "loop", "subgoals": ["a"]})).is_err());
        assert_eq!(told("recall", json!({})), Ok(Act::Recall(None)));
        assert!(
            told("done", json!({"result": " "}))
                .unwrap_err()
                .contains("result")
        );
        let broken = ToolCall::new("1", "fail", "{");
        assert!(read(&broken, 2).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn acts_stand_before_tools_of_their_name_and_the_deepest_node_cannot_expand() {
        let own: ToolSet = ["look", "done", "transfer_to_clerk"]
            .into_iter()
            .map(|name| Arc::new(ToolDefinition::new(name, "own")))
            .collect();
        let names =
            |set: ToolSet| -> Vec<String> { set.iter().map(|tool| tool.name.clone()).collect() };
        assert_eq!(
            names(offered(&own, true)),
            ["look", "expand", "done", "fail", "remember", "recall"]
        );
        assert!(!names(offered(&own, false)).contains(&"expand".to_owned()));
    }
}
