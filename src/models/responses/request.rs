//! The body of a request.

use std::collections::HashMap;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, OutputSchema, Part, Role, ToolCall, ToolChoice,
    ToolResult,
};
use serde_json::{Map, Value, json};

use super::{
    answer::RESPONSE,
    kept::Kept,
    settings::{History, OpenAiResponsesSpec},
};
use crate::models::http::{CallIds, legal, offered};

/// Fields of the body that `extra` cannot replace.
const FIXED: [&str; 2] = ["input", "stream"];
/// The names of OpenAI's models that do not reason begin so.
const UNREASONING: [&str; 5] = ["gpt-4", "gpt-3", "chatgpt-", "computer-use", "davinci"];

/// A request, with the settings of its model.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a OpenAiResponsesSpec,
    /// The server, as what it gave is kept.
    pub(super) host: &'a str,
    /// Whether the server is OpenAI's own or Azure's.
    pub(super) is_openai: bool,
}

impl Body<'_> {
    /// The body as the provider reads it.
    pub(super) fn to_json(&self) -> Value {
        let Self {
            request, settings, ..
        } = self;
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        let (input, previous) = self.input();
        put("model", json!(settings.model));
        put("input", input);
        put("stream", json!(request.stream));
        put("store", json!(settings.history == History::Stored));
        put("previous_response_id", json!(previous));
        if !request.instructions.is_empty() {
            put("instructions", json!(*request.instructions));
        }
        if self.wants_reasoning() {
            put("include", json!(["reasoning.encrypted_content"]));
        }
        self.put_tools(&mut put);
        let sampling = &request.settings;
        put("max_output_tokens", json!(sampling.max_tokens));
        put("temperature", json!(sampling.temperature));
        put("top_p", json!(sampling.top_p));
        let mut reasoning = Map::new();
        if let Some(effort) = &sampling.reasoning_effort {
            reasoning.insert("effort".to_owned(), json!(effort));
        }
        if let Some(summary) = &settings.reasoning_summary {
            reasoning.insert("summary".to_owned(), json!(summary));
        }
        if !reasoning.is_empty() {
            put("reasoning", Value::Object(reasoning));
        }
        if let Some(schema) = &request.output {
            put("text", json!({"format": format(schema)}));
        }
        for (name, value) in settings.extra.iter().chain(&sampling.extra) {
            match FIXED.contains(&name.as_str()) {
                true => {}
                false if value.is_null() => drop(body.remove(name)),
                false => drop(body.insert(name.clone(), value.clone())),
            }
        }
        Value::Object(body)
    }

    fn wants_reasoning(&self) -> bool {
        let by_name = || {
            let reasons = |family: &&str| self.settings.model.starts_with(family);
            self.is_openai && !UNREASONING.iter().any(|family| reasons(&family))
        };
        self.settings.history == History::Whole
            && self.settings.encrypted_reasoning.unwrap_or_else(by_name)
    }

    fn put_tools(&self, put: &mut impl FnMut(&str, Value)) {
        let offered = offered(&self.request.tools);
        let functions = offered.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                // Where nothing is said the server takes the schema for a strict one, and refuses most.
                "strict": false,
            })
        });
        let mut tools: Vec<Value> = functions.collect();
        tools.extend(self.settings.tools.iter().cloned());
        if tools.is_empty() {
            return;
        }
        put("tools", json!(tools));
        let settings = &self.request.settings;
        let choice = settings.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
        });
        put("tool_choice", json!(choice));
        put("parallel_tool_calls", json!(settings.parallel_tool_calls));
    }

    /// The items of the conversation, and the id of the stored response that they follow.
    fn input(&self) -> (Value, Option<String>) {
        let messages = legal(&self.request.conversation, CallIds::RESPONSES);
        let stored = match self.settings.history {
            History::Stored => messages
                .iter()
                .enumerate()
                .rev()
                .find_map(|(place, message)| {
                    let kept = self.kept(message.parts.first()?)?;
                    let id = kept.word("id").filter(|_| kept.kind() == RESPONSE)?;
                    Some((place + 1, id.to_owned()))
                }),
            History::Whole => None,
        };
        let begin = stored.as_ref().map_or(0, |(place, _)| *place);
        let pictures = self.pictures();
        let mut items = Vec::new();
        for message in &messages[begin..] {
            match message.role {
                Role::Assistant => self.put_answer(message, &pictures, &mut items),
                Role::Tool => items.extend(message.tool_results().map(resulted)),
                Role::System => items.push(said("system", message)),
                Role::User => items.push(said("user", message)),
            }
        }
        (Value::Array(items), stored.map(|(_, id)| id))
    }

    /// What a part keeps of this server's.
    fn kept(&self, part: &Part) -> Option<Kept> {
        Kept::read(part).filter(|kept| kept.host == self.host)
    }

    /// The pictures that the server made, by the ids of their items.
    fn pictures(&self) -> HashMap<String, String> {
        let mut pictures = HashMap::new();
        for message in self.request.conversation.messages() {
            for pair in message.parts.windows(2) {
                let [kept, Part::Data(data)] = pair else {
                    continue;
                };
                if let (Some(kept), DataSource::Base64(bytes)) = (self.kept(kept), &data.source)
                    && let Some(id) = kept.word("id")
                {
                    pictures.insert(id.to_owned(), bytes.clone());
                }
            }
        }
        pictures
    }

    /// A message of the model: each item that it was, in its order.
    fn put_answer(
        &self,
        message: &Message,
        pictures: &HashMap<String, String>,
        items: &mut Vec<Value>,
    ) {
        // The fields of the message or call in the next part.
        let mut fields: Option<Map<String, Value>> = None;
        for part in &message.parts {
            match part {
                Part::Reasoning(_) => {
                    let Some(kept) = self.kept(part) else {
                        continue;
                    };
                    match kept.kind() {
                        RESPONSE => {}
                        "message" | "function_call" => fields = Some(kept.item),
                        "image_generation_call" => {
                            items.extend(pictured(kept, pictures));
                        }
                        _ => items.push(Value::Object(kept.item)),
                    }
                }
                Part::Text(text) => {
                    let own = fields.take().filter(|own| own["type"] == "message");
                    items.push(answered(own, text.trim_start_matches('\n')));
                }
                Part::ToolCall(call) => {
                    let own = fields.take().filter(|own| own["type"] == "function_call");
                    items.push(called(own, call));
                }
                _ => {}
            }
        }
    }
}

/// A picture that the server made, with its bytes.
fn pictured(kept: Kept, pictures: &HashMap<String, String>) -> Option<Value> {
    let picture = pictures.get(kept.word("id")?)?;
    let mut item = kept.item;
    item.insert("result".to_owned(), json!(picture));
    Some(Value::Object(item))
}

/// A text of the model, with the fields by which the server knows it.
fn answered(own: Option<Map<String, Value>>, text: &str) -> Value {
    let Some(mut item) = own else {
        return json!({"role": "assistant", "content": text});
    };
    let annotations = item.remove("annotations").unwrap_or_else(|| json!([]));
    let content = json!([{"type": "output_text", "text": text, "annotations": annotations}]);
    item.insert("role".to_owned(), json!("assistant"));
    item.insert("content".to_owned(), content);
    Value::Object(item)
}

/// A call, with the fields by which the server knows it.
fn called(own: Option<Map<String, Value>>, call: &ToolCall) -> Value {
    let mut item = own.unwrap_or_default();
    // The server parses the arguments of past calls.
    let text = call.arguments.text();
    let arguments = match call.arguments.value() {
        Ok(Value::Object(_)) if !text.trim().is_empty() => text.to_owned(),
        Ok(Value::Object(_)) => "{}".to_owned(),
        _ => json!({"unreadable_arguments": text}).to_string(),
    };
    item.insert("type".to_owned(), json!("function_call"));
    item.insert("call_id".to_owned(), json!(call.id));
    item.insert("name".to_owned(), json!(call.name));
    item.insert("arguments".to_owned(), json!(arguments));
    Value::Object(item)
}

fn resulted(result: &ToolResult) -> Value {
    let output = match result.attachments.is_empty() {
        true => json!(result.text),
        false => {
            let text = json!({"type": "input_text", "text": result.text});
            let files = result.attachments.iter().map(attachment);
            std::iter::once(text).chain(files).collect()
        }
    };
    json!({"type": "function_call_output", "call_id": result.call_id, "output": output})
}

/// A message that is not the model's.
fn said(role: &str, message: &Message) -> Value {
    let content = match &message.parts[..] {
        [Part::Text(text)] => json!(text),
        parts => {
            let part = |part: &Part| match part {
                Part::Text(text) => Some(json!({"type": "input_text", "text": text})),
                Part::Data(data) => Some(attachment(data)),
                _ => None,
            };
            parts.iter().filter_map(part).collect()
        }
    };
    json!({"role": role, "content": content})
}

/// A part for a file: a picture as a picture, and any other as a file.
fn attachment(data: &Data) -> Value {
    let kind = data.media_type.as_str();
    let name = data.name.as_deref().unwrap_or("attachment");
    let is_picture = kind.starts_with("image/");
    match &data.source {
        DataSource::Url(url) if is_picture => {
            json!({"type": "input_image", "image_url": url, "detail": "auto"})
        }
        DataSource::Base64(bytes) if is_picture => json!({
            "type": "input_image",
            "image_url": format!("data:{kind};base64,{bytes}"),
            "detail": "auto",
        }),
        DataSource::Url(url) if kind == "application/pdf" => {
            json!({"type": "input_file", "file_url": url})
        }
        DataSource::Base64(bytes) => json!({
            "type": "input_file",
            "filename": name,
            "file_data": format!("data:{kind};base64,{bytes}"),
        }),
        DataSource::Url(url) => {
            json!({"type": "input_text", "text": format!("[{name} ({kind}): {url}]")})
        }
        _ => json!({"type": "input_text", "text": format!("[{name} ({kind}) cannot be shown]")}),
    }
}

/// The schema of an answer, under a name that the server takes.
fn format(output: &OutputSchema) -> Value {
    let to_name = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
        true => c,
        false => '_',
    };
    let name: String = output.name.chars().map(to_name).take(64).collect();
    let name = if name.is_empty() { "answer" } else { &name };
    json!({"type": "json_schema", "name": name, "schema": output.schema, "strict": output.strict})
}
