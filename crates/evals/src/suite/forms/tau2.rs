//! tau2's `tasks.json`: what a customer wants, the calls that the agent must make, and what it must say.
//!
//! The customer is one message here, and no model that plays one.

use serde_json::{Map, Value};

use super::{optional, text};
use crate::{
    scorers::{ArgumentMatch, ExpectedCall},
    suite::Sample,
};

pub(in crate::suite) fn sample(fields: &Map<String, Value>) -> Result<Sample, String> {
    let id = match fields.get("id") {
        Some(Value::Number(id)) => id.to_string(),
        _ => text(fields, "id")?.to_owned(),
    };
    let scenario = fields.get("user_scenario").and_then(Value::as_object);
    let instructions = scenario.and_then(|scenario| scenario.get("instructions"));
    let input = match instructions {
        Some(Value::String(said)) => said.clone(),
        Some(Value::Object(said)) => {
            let parts = [
                "reason_for_call",
                "known_info",
                "unknown_info",
                "task_instructions",
            ];
            let parts = parts.iter().filter_map(|part| optional(said, part));
            parts.collect::<Vec<_>>().join("\n\n")
        }
        _ => {
            return Err(String::from(
                "it has no \"user_scenario\" with \"instructions\"",
            ));
        }
    };
    let mut sample = Sample::new(id, input);
    let criteria = fields.get("evaluation_criteria").and_then(Value::as_object);
    let list = |name: &str| {
        let list = criteria.and_then(|criteria| criteria.get(name));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    // What the customer does is not a call of the agent's.
    let of_agent =
        |action: &&Value| action["requestor"].as_str().unwrap_or("assistant") == "assistant";
    let actions = list("actions");
    let calls: Result<Vec<ExpectedCall>, String> =
        actions.iter().filter(of_agent).map(expected).collect();
    sample.calls = Some(calls?);
    let said = list("communicate_info");
    if !said.is_empty() {
        sample.expected = Some(Value::Array(said));
    }
    if let Some(domain) = instructions
        .and_then(|said| said.get("domain"))
        .and_then(Value::as_str)
    {
        sample.tags.push(domain.to_owned());
    }
    for name in ["ticket", "initial_state", "evaluation_criteria"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
            sample.metadata.insert(name.to_owned(), value.clone());
        }
    }
    Ok(sample)
}

/// The call of an action. Where it names the arguments that count, the others may be anything.
fn expected(action: &Value) -> Result<ExpectedCall, String> {
    let tool = action["name"].as_str().ok_or("an action has no \"name\"")?;
    let mut arguments = action["arguments"].as_object().cloned().unwrap_or_default();
    let mut call = ExpectedCall::default();
    if let Some(counted) = action["compare_args"].as_array() {
        arguments.retain(|name, _| counted.iter().any(|counted| counted == name));
        call.arguments_match = ArgumentMatch::Subset;
    }
    call.tool = tool.to_owned();
    call.arguments = Some(arguments);
    Ok(call)
}
