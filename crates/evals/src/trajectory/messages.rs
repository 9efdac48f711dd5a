//! Messages and tools in the forms that chat templates and servers read.

use ghostlight_actors::vocabulary::{Data, DataSource, Message, Part, Role, ToolDefinition};
use serde_json::{Map, Value, json};

use super::{Episode, Said};

/// Which reader the messages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// OpenAI's servers: arguments are a text, results name their calls.
    Server,
    /// A chat template: arguments are an object, results name their tools, reasoning stands beside the text.
    Template,
}

/// The tools that an agent was offered, as functions.
pub(super) fn tools(episode: &Episode) -> Vec<Value> {
    episode.tools.iter().map(|tool| function(tool)).collect()
}

fn function(tool: &ToolDefinition) -> Value {
    json!({ "type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    }})
}

/// The instructions as a message, unless there are none.
pub(super) fn system(episode: &Episode) -> Option<Value> {
    let text = episode.instructions.trim();
    (!text.is_empty()).then(|| json!({ "role": "system", "content": text }))
}

/// These messages, one after the other. The results of several calls are a message each.
pub(super) fn messages<'a>(said: impl IntoIterator<Item = &'a Said>, reader: Reader) -> Vec<Value> {
    let said = said.into_iter();
    said.flat_map(|said| message(&said.message, reader))
        .collect()
}

fn message(message: &Message, reader: Reader) -> Vec<Value> {
    match message.role {
        Role::System => vec![json!({ "role": "system", "content": text(message) })],
        Role::User => vec![json!({ "role": "user", "content": text(message) })],
        Role::Assistant => vec![assistant(message, reader)],
        Role::Tool => {
            let results = message.tool_results().map(|result| match reader {
                Reader::Server => json!({
                    "role": "tool", "tool_call_id": result.call_id, "content": result.text,
                }),
                Reader::Template => json!({
                    "role": "tool", "name": result.name, "content": result.text,
                }),
            });
            results.collect()
        }
    }
}

fn assistant(message: &Message, reader: Reader) -> Value {
    let mut said = Map::new();
    said.insert("role".to_owned(), "assistant".into());
    let content = text(message);
    let calls: Vec<Value> = message
        .tool_calls()
        .map(|call| match reader {
            Reader::Server => json!({ "id": call.id, "type": "function", "function": {
                "name": call.name, "arguments": written(call.arguments.text()),
            }}),
            Reader::Template => json!({ "type": "function", "function": {
                "name": call.name, "arguments": object(call.arguments.value()),
            }}),
        })
        .collect();
    let empty = content.is_empty() && reader == Reader::Server && !calls.is_empty();
    let content = if empty { Value::Null } else { content.into() };
    said.insert("content".to_owned(), content);
    let reasoning = reasoning(message);
    if reader == Reader::Template && !reasoning.is_empty() {
        said.insert("reasoning_content".to_owned(), reasoning.into());
    }
    if !calls.is_empty() {
        said.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(said)
}

/// The text of arguments; a server takes no empty one.
fn written(text: &str) -> &str {
    match text.trim() {
        "" => "{}",
        text => text,
    }
}

/// Arguments as an object; what is none stands under a name, so that nothing is lost.
pub(super) fn object<E>(value: Result<&Value, E>) -> Value {
    match value {
        Ok(Value::Object(fields)) => Value::Object(fields.clone()),
        Ok(other) => json!({ "value": other }),
        Err(_) => json!({}),
    }
}

/// The reasoning of a model, as far as its server showed it.
pub(super) fn reasoning(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The text of a message. Files stand in it by their names.
pub(super) fn text(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Data(data) => Some(named(data)),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn named(data: &Data) -> String {
    let name = match (&data.name, &data.source) {
        (Some(name), _) => name.as_str(),
        (None, DataSource::Url(address)) => address.as_str(),
        (None, _) => "file",
    };
    format!("[{name} ({})]", data.media_type)
}
