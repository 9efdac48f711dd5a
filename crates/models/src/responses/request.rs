//! The body of a request.

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
use crate::{
    http::{CallIds, in_words, is_offered, legal, offered, with_further},
    openai::MAX_TOOLS,
};

/// The field with the stored response that a request follows.
pub(super) const PREVIOUS: &str = "previous_response_id";
/// Fields of the body that `extra` cannot replace.
const FIXED: [&str; 2] = ["input", "stream"];
/// The names of OpenAI's models that do not reason begin so.
const UNREASONING: [&str; 5] = ["gpt-4", "gpt-3", "chatgpt-", "computer-use", "davinci"];

/// A request, with the settings of its model.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a OpenAiResponsesSpec,
    /// The name under which what the server gave is kept.
    pub(super) server: &'a str,
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
        put(PREVIOUS, json!(previous));
        if !request.instructions.is_empty() {
            put("instructions", json!(*request.instructions));
        }
        if self.wants_reasoning() {
            put("include", json!(["reasoning.encrypted_content"]));
        }
        let extra = || settings.extra.iter().chain(&request.settings.extra);
        // Further tools stand beside the request's own.
        let mut further = extra().filter(|(name, value)| *name == "tools" && value.is_array());
        let further = further.next_back().map(|(_, tools)| tools);
        self.put_tools(&mut put, further);
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
        for (name, value) in extra() {
            match FIXED.contains(&name.as_str()) {
                true => {}
                false if name == "tools" && value.is_array() => {}
                false if value.is_null() => drop(body.remove(name)),
                false => drop(body.insert(name.clone(), value.clone())),
            }
        }
        Value::Object(body)
    }

    fn wants_reasoning(&self) -> bool {
        let by_name = || {
            let model = &self.settings.model;
            let begins = |family: &&str| model.starts_with(family);
            self.is_openai && !UNREASONING.iter().any(begins)
        };
        self.settings.history == History::Whole
            && self.settings.encrypted_reasoning.unwrap_or_else(by_name)
    }

    fn put_tools(&self, put: &mut impl FnMut(&str, Value), further: Option<&Value>) {
        let offered = offered(&self.request.tools, MAX_TOOLS.into());
        let functions = offered.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                // Where nothing is said the server takes the schema for a strict one, and refuses most.
                "strict": tool.strict,
            })
        });
        let own = json!(self.settings.tools);
        let mut tools = with_further(functions.collect(), &own);
        if let Some(further) = further {
            tools = with_further(tools, further);
        }
        if tools.is_empty() {
            return;
        }
        let settings = &self.request.settings;
        let choice = settings.tool_choice.as_ref();
        let choice = choice.and_then(|choice| match choice {
            ToolChoice::Auto => Some(json!("auto")),
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => {
                let is_there = tools.iter().any(|tool| tool["name"] == *name)
                    || is_offered(&self.request.tools, name, MAX_TOOLS.into());
                is_there.then(|| json!({"type": "function", "name": name}))
            }
        });
        put("tools", Value::Array(tools));
        put("tool_choice", json!(choice));
        put("parallel_tool_calls", json!(settings.parallel_tool_calls));
    }

    /// The items of the conversation, and the id of the stored response that they follow.
    fn input(&self) -> (Value, Option<String>) {
        let messages = legal(&self.request.conversation, CallIds::RESPONSES, self.server);
        let id = |message: &Message| match Kept::of(message.parts.first()?, self.server)? {
            Kept::Fields(own) => own.get(RESPONSE)?.as_str().map(str::to_owned),
            Kept::Item(_) => None,
        };
        let stored = match self.settings.history {
            History::Stored => {
                let mut last = messages.iter().enumerate().rev();
                last.find_map(|(place, message)| Some((place + 1, id(message)?)))
            }
            History::Whole => None,
        };
        let begin = stored.as_ref().map_or(0, |(place, _)| *place);
        let mut items = Vec::new();
        for message in &messages[begin..] {
            match message.role {
                Role::Assistant => self.put_answer(message, &mut items),
                Role::Tool => items.extend(message.tool_results().map(resulted)),
                Role::System => items.push(said("system", message)),
                Role::User => items.push(said("user", message)),
            }
        }
        (Value::Array(items), stored.map(|(_, id)| id))
    }

    /// A message of the model: each item that it was, in its order.
    fn put_answer(&self, message: &Message, items: &mut Vec<Value>) {
        let parts = &message.parts;
        for (place, part) in parts.iter().enumerate() {
            let next = parts.get(place + 1);
            let own = next.and_then(|next| match Kept::of(next, self.server)? {
                Kept::Fields(own) => Some(own.clone()),
                Kept::Item(_) => None,
            });
            match part {
                // Reasoning of others could not be read.
                Part::Reasoning(_) => items.extend(own.map(Value::Object)),
                Part::Text(text) => items.push(answered(own, text.trim_start_matches('\n'))),
                Part::ToolCall(call) => items.push(called(own, call)),
                Part::Data(data) => {
                    let before = place.checked_sub(1).map(|before| &parts[before]);
                    let made = before.and_then(|before| Kept::of(before, self.server));
                    if made.is_none() {
                        items.push(answered(None, &in_words(data)));
                    }
                }
                _ => {
                    if let Some(Kept::Item(item)) = Kept::of(part, self.server) {
                        items.push(whole(item, next));
                    }
                }
            }
        }
    }
}

/// An item of the server's own; a picture that it made has its bytes in the next part.
fn whole(item: &Map<String, Value>, next: Option<&Part>) -> Value {
    let mut item = item.clone();
    if let Some(Part::Data(Data {
        source: DataSource::Base64(bytes),
        ..
    })) = next
        && item
            .get("type")
            .is_some_and(|kind| kind == "image_generation_call")
    {
        item.insert("result".to_owned(), json!(bytes));
    }
    Value::Object(item)
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
