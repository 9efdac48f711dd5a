//! Answers: as text, as a call of the finishing tool, and against a schema.

use std::{collections::VecDeque, sync::Arc};

use ghostlight_actors::{
    definition::PinnedAgent,
    vocabulary::{self, AgentError, Effect, ToolCall, ToolDefinition},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::structured_output;

/// The name of the tool that ends a task. A model may write it in any letter case.
pub const FINISH_TOOL: &str = "finish";

/// How a model signals that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishMode {
    /// By an answer that asks for no tool.
    #[default]
    Text,
    /// By calling the tool `finish` with the answer, and nothing else in that turn.
    Tool,
    /// Either way.
    Either,
}

impl FinishMode {
    pub(in crate::behaviors) fn offers_tool(self) -> bool {
        self != Self::Text
    }
}

/// How many compiled schemas are kept: one for each agent that works at the same time.
const KEPT: usize = 64;

/// The schemas of agents' answers, compiled.
static COMPILED: Mutex<VecDeque<(Arc<vocabulary::OutputSchema>, Arc<AnswerSchema>)>> =
    Mutex::new(VecDeque::new());

/// The schema of an answer, for the server and for the check of the answer.
#[derive(Clone, Debug)]
pub(super) struct AnswerSchema {
    sent: Arc<vocabulary::OutputSchema>,
    held: structured_output::OutputSchema,
}

impl AnswerSchema {
    pub(super) fn new(name: &str, schema: Value) -> Result<Self, structured_output::SchemaError> {
        Ok(Self::holding(structured_output::OutputSchema::from_json(
            name, schema,
        )?))
    }

    pub(super) fn of_type<T: JsonSchema + DeserializeOwned>()
    -> Result<Self, structured_output::SchemaError> {
        Ok(Self::holding(structured_output::OutputSchema::of::<T>()?))
    }

    fn holding(held: structured_output::OutputSchema) -> Self {
        let sent = vocabulary::OutputSchema {
            name: held.name().to_owned(),
            schema: held.schema().clone(),
            strict: held.is_strict(),
        };
        let sent = Arc::new(sent);
        Self { sent, held }
    }

    /// The schema of the agent's answer, if it has one. The runs of an agent share it.
    pub(super) fn of(agent: &PinnedAgent) -> Result<Option<Arc<Self>>, AgentError> {
        let Some(output) = &agent.output else {
            return Ok(None);
        };
        let is_known =
            |known: &&(Arc<vocabulary::OutputSchema>, Arc<Self>)| Arc::ptr_eq(&known.0, output);
        if let Some((_, schema)) = COMPILED.lock().iter().find(is_known) {
            return Ok(Some(schema.clone()));
        }
        // Compiled outside of the lock: a large schema keeps no other run waiting.
        let schema = Self::new(&output.name, output.schema.clone()).map_err(|error| {
            let agent = &agent.spec.name;
            AgentError::failed(format!("the output schema of agent {agent}: {error}"))
        })?;
        let schema = Arc::new(schema);
        let mut compiled = COMPILED.lock();
        if compiled.len() >= KEPT {
            compiled.pop_front();
        }
        compiled.push_back((output.clone(), schema.clone()));
        Ok(Some(schema))
    }

    pub(super) fn sent(&self) -> Arc<vocabulary::OutputSchema> {
        self.sent.clone()
    }

    /// The answer in this text as JSON, or the correction that the model is asked for.
    pub(super) fn read(&self, text: &str) -> Result<String, String> {
        let reading = self.held.read(text);
        reading
            .map(|reading| reading.value.to_string())
            .map_err(|error| error.to_string())
    }
}

/// The finishing tool, whose answer has this schema.
pub(super) fn finish_tool(output: Option<&AnswerSchema>) -> ToolDefinition {
    let mut answer = match output {
        Some(output) => output.sent.schema.clone(),
        None => json!({"type": "string", "description": "The answer, complete."}),
    };
    // References in the schema are paths from its root, so the definitions stay there.
    let definitions = ["$defs", "definitions"].map(|name| {
        let found = answer
            .as_object_mut()
            .and_then(|answer| answer.remove(name));
        (name, found)
    });
    let mut parameters = json!({
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": false,
    });
    for (name, found) in definitions {
        if let Some(found) = found {
            parameters[name] = found;
        }
    }
    let description =
        "Ends the task with its answer. Call it alone, once, when everything else is done.";
    ToolDefinition::new(FINISH_TOOL, description)
        .parameters(parameters)
        .effect(Effect::Read)
}

pub(super) fn is_finish(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case(FINISH_TOOL)
}

/// The answer in a call of the finishing tool, or the correction that the model is asked for.
pub(super) fn finish_answer(
    call: &ToolCall,
    alone: bool,
    output: Option<&AnswerSchema>,
) -> Result<String, String> {
    if !alone {
        return Err(format!(
            "Not finished: call {FINISH_TOOL} alone, after you have read the other results."
        ));
    }
    let arguments = call
        .arguments
        .value()
        .map_err(|error| format!("Not finished: the arguments are not JSON: {error}."))?;
    let answer = match arguments.get("answer") {
        Some(Value::String(text)) => text.clone(),
        Some(value) if output.is_some() => value.to_string(),
        _ => String::new(),
    };
    if answer.trim().is_empty() {
        return Err("Not finished: `answer` must be a text that is not empty.".to_owned());
    }
    match output {
        Some(output) => output
            .read(&answer)
            .map_err(|reason| format!("Not finished: {reason}")),
        None => Ok(answer),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use ghostlight_actors::definition::{AgentSpec, Pinned, TeamSpec};

    use super::*;

    fn finish(arguments: Value) -> ToolCall {
        ToolCall::new("1", "Finish", arguments)
    }

    #[test]
    fn finishing_needs_an_answer_and_to_be_alone() {
        let done = finish(json!({"answer": "42"}));
        assert!(is_finish(&done.name));
        assert_eq!(finish_answer(&done, true, None).unwrap(), "42");
        assert!(
            finish_answer(&done, false, None)
                .unwrap_err()
                .contains("alone")
        );
        for arguments in [json!({}), json!({"answer": " "}), json!({"answer": 42})] {
            let reason = finish_answer(&finish(arguments), true, None).unwrap_err();
            assert!(reason.contains("must be a text"), "{reason}");
        }
        let broken = ToolCall::new("1", "finish", "{\"answer\": ");
        assert!(
            finish_answer(&broken, true, None)
                .unwrap_err()
                .contains("not JSON")
        );
    }

    #[test]
    fn the_runs_of_an_agent_share_its_compiled_schema() {
        let agent = |name: &str| {
            let mut spec = AgentSpec::new(name);
            spec.output = Some(json!({"type": "object"}));
            let pinned = Pinned::new(TeamSpec::new(spec), BTreeMap::new());
            pinned.agent(name, None).unwrap()
        };
        let (one, other) = (agent("one"), agent("other"));
        let schema = |agent: &PinnedAgent| AnswerSchema::of(agent).unwrap().unwrap();
        assert!(Arc::ptr_eq(&schema(&one), &schema(&one)));
        assert!(!Arc::ptr_eq(&schema(&one), &schema(&other)));
        assert_eq!(schema(&other).sent().name, "other_answer");
    }

    #[test]
    fn a_finished_answer_fits_its_schema_as_value_or_as_text() {
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let schema = AnswerSchema::new("number", schema).unwrap();
        for answer in [json!({"n": 1}), json!("```json\n{'n': 1}\n```")] {
            let call = finish(json!({"answer": answer}));
            assert_eq!(
                finish_answer(&call, true, Some(&schema)).unwrap(),
                r#"{"n":1}"#
            );
        }
        let call = finish(json!({"answer": {"n": "many"}}));
        let reason = finish_answer(&call, true, Some(&schema)).unwrap_err();
        assert!(reason.contains("$.n"), "{reason}");
    }
}
