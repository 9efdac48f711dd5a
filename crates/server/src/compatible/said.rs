//! Messages and items of clients, of either interface.

use std::borrow::Cow;

use ghostlight_actors::vocabulary::{DataSource, Part, ToolDefinition, legal_parameters};
use ghostlight_safety::sanitize;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{files::file, problem::Problem};

/// The most tools of a request.
const MAX_TOOLS: usize = 128;

/// A message of a client's, or an item of OpenAI's responses.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Said {
    /// user, assistant, system, developer or tool.
    pub(super) role: String,
    pub(super) content: Content,
    /// The type of an item that is not a message: `function_call` or `function_call_output`.
    r#type: Option<String>,
    /// The calls of an assistant's message.
    tool_calls: Option<Vec<Value>>,
    /// Why an assistant's message answers nothing.
    refusal: Option<String>,
    /// The call whose result a tool's message is.
    tool_call_id: Option<String>,
    /// The call of an item.
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Value>,
}

/// The content of a message.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Value>),
    Nothing(()),
}

impl Default for Content {
    fn default() -> Self {
        Self::Nothing(())
    }
}

/// The result of a call of a client's tool.
#[derive(Debug, PartialEq)]
pub(super) struct Returned {
    /// The call, by the id that the client was given.
    pub(super) call: String,
    /// The answer to the run's question.
    pub(super) answer: Value,
}

impl Said {
    /// A text with this role.
    pub(super) fn text(role: &str, content: Content) -> Self {
        let role = role.to_owned();
        Self {
            role,
            content,
            ..Self::default()
        }
    }

    /// Whether it comes from the client: a user's message, or the result of a call.
    pub(super) fn is_clients(&self) -> bool {
        matches!(self.role.as_str(), "user" | "tool")
            || self.r#type.as_deref() == Some("function_call_output")
    }

    /// Whether the client says it beside what the user says.
    pub(super) fn is_instruction(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    /// The results of calls that it contains.
    pub(super) fn returned(&self) -> Result<Vec<Returned>, Problem> {
        let item = self.r#type.as_deref() == Some("function_call_output");
        if item || self.role == "tool" {
            let call = self.call_id.as_ref().or(self.tool_call_id.as_ref());
            let call = call.ok_or_else(|| Problem::invalid("a result names no call"))?;
            let text = match (&self.output, &self.content) {
                (Some(Value::String(text)), _) | (None, Content::Text(text)) => text.clone(),
                (Some(Value::Array(parts)), _) | (None, Content::Parts(parts)) => texts(parts),
                (Some(other), _) => other.to_string(),
                (None, Content::Nothing(())) => String::new(),
            };
            let (call, answer) = (call.clone(), Value::String(text));
            return Ok(vec![Returned { call, answer }]);
        }
        let Content::Parts(parts) = &self.content else {
            return Ok(Vec::new());
        };
        let results = parts.iter().filter(|part| part["type"] == "tool_result");
        let results = results.map(|part| {
            let call = part["tool_use_id"].as_str();
            let call = call.ok_or_else(|| Problem::invalid("a result names no call"))?;
            let text = match &part["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => texts(parts),
                _ => String::new(),
            };
            let answer = match part["is_error"] == true {
                true => json!({ "error": text }),
                false => Value::String(text),
            };
            let call = call.to_owned();
            Ok(Returned { call, answer })
        });
        results.collect()
    }

    /// The line that tells an agent of this earlier message, and its pictures and documents. A part that no agent can be
    /// told is left out by its name: the client has it in its history, and cannot send the conversation without it.
    pub(super) fn retold(self) -> Result<(String, Vec<Part>), Problem> {
        let role = match self.r#type.as_deref() {
            Some("function_call" | "reasoning") => "assistant".to_owned(),
            Some("function_call_output") => "tool".to_owned(),
            _ => self.role.clone(),
        };
        let mut lines = Vec::new();
        for call in self.tool_calls.iter().flatten() {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or_default();
            let arguments = function["arguments"].as_str().unwrap_or_default();
            lines.push(format!("(calls {name} with {arguments})"));
        }
        if let (Some(name), Some(arguments)) = (&self.name, &self.arguments) {
            lines.push(format!("(calls {name} with {arguments})"));
        }
        if let Content::Parts(parts) = &self.content {
            for part in parts.iter().filter(|part| part["type"] == "tool_use") {
                let name = part["name"].as_str().unwrap_or_default();
                lines.push(format!("(calls {name} with {})", part["input"]));
            }
        }
        let results = self.returned()?;
        let is_result = !results.is_empty();
        for Returned { answer, .. } in results {
            let text = answer
                .as_str()
                .map_or_else(|| answer.to_string(), str::to_owned);
            lines.push(text);
        }
        let mut data = Vec::new();
        if !is_result {
            let mut texts: Vec<String> = self.refusal.into_iter().collect();
            for part in self.content.told() {
                match part {
                    Ok(Part::Text(text)) => texts.push(text),
                    Ok(other) => data.push(other),
                    Err((kind, _)) => texts.push(format!("(left out: {kind})")),
                }
            }
            lines.insert(0, texts.join("\n"));
        }
        lines.retain(|line| !line.is_empty());
        Ok((format!("{role}: {}", lines.join("\n")), data))
    }
}

/// The texts of these parts of a result, which holds nothing but text.
fn texts(parts: &[Value]) -> String {
    let texts = parts.iter().map(|value| {
        let text = value["text"].as_str().map(str::to_owned);
        text.unwrap_or_else(|| match part(value) {
            Ok(Part::Text(text)) => text,
            Ok(Part::Data(data)) => format!("(left out: {})", data.media_type),
            _ => value.to_string(),
        })
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Content {
    /// Its parts, of either interface, without calls and their results.
    pub(super) fn into_parts(self) -> Result<Vec<Part>, Problem> {
        let parts = self.told().into_iter();
        parts
            .map(|part| part.map_err(|(_, problem)| *problem))
            .collect()
    }

    /// The same, each part by itself; one that no agent can be told by its kind.
    fn told(self) -> Vec<Result<Part, (String, Box<Problem>)>> {
        let parts = match self {
            Self::Nothing(()) => return Vec::new(),
            Self::Text(text) => return vec![Ok(Part::Text(text))],
            Self::Parts(parts) => parts,
        };
        let told = parts.iter().filter_map(|value| {
            let kind = value["type"].as_str().unwrap_or("a part without a type");
            let is_call = matches!(
                kind,
                "tool_use" | "tool_result" | "thinking" | "redacted_thinking"
            );
            let kind = || ghostlight_safety::sanitize_line(kind, 40);
            (!is_call).then(|| part(value).map_err(|problem| (kind(), Box::new(problem))))
        });
        told.collect()
    }
}

fn part(part: &Value) -> Result<Part, Problem> {
    let text = |pointer: &str| {
        part.pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let fault = || Problem::invalid("a part of a message says less than its type needs");
    let data = |media_type: String, source| file(media_type, None, source);
    match part["type"].as_str().unwrap_or_default() {
        "text" | "input_text" | "output_text" => text("/text").map(Part::Text).ok_or_else(fault),
        "refusal" => text("/refusal").map(Part::Text).ok_or_else(fault),
        "image_url" | "input_image" => {
            let url = text("/image_url/url")
                .or_else(|| text("/image_url"))
                .ok_or_else(fault)?;
            let inline = url
                .strip_prefix("data:")
                .and_then(|rest| rest.split_once(";base64,"));
            match inline {
                Some((kind, bytes)) => data(kind.to_owned(), DataSource::Base64(bytes.to_owned())),
                None => data("image/*".to_owned(), DataSource::Url(url)),
            }
        }
        "image" | "document" => {
            let usual = if part["type"] == "image" {
                "image/*"
            } else {
                "application/pdf"
            };
            let kind = text("/source/media_type").unwrap_or_else(|| usual.to_owned());
            let source = &part["source"];
            match (source["type"].as_str().unwrap_or_default(), source) {
                // A document that is text itself.
                ("text", source) => said(part, source["data"].as_str().ok_or_else(fault)?),
                ("content", source) => match &source["content"] {
                    Value::String(text) => said(part, text),
                    Value::Array(parts) => said(part, &texts(parts)),
                    _ => Err(fault()),
                },
                _ => match (text("/source/data"), text("/source/url")) {
                    (Some(bytes), _) => data(kind, DataSource::Base64(bytes)),
                    (None, Some(url)) => data(kind, DataSource::Url(url)),
                    (None, None) => Err(fault()),
                },
            }
        }
        other => Err(Problem::invalid(format!(
            "a part of type {other:?} is nothing that an agent is told; say text or an image"
        ))),
    }
}

/// A document of text, below its title.
fn said(document: &Value, text: &str) -> Result<Part, Problem> {
    let title = document["title"].as_str().filter(|title| !title.is_empty());
    let title = title.map(|title| format!("{title}\n\n"));
    Ok(Part::Text(title.unwrap_or_default() + text))
}

/// The client's tools in a request of either interface; none if `choice` says so.
pub(super) fn tools_of(
    tools: Option<Vec<Value>>,
    choice: Option<&Value>,
) -> Result<Vec<ToolDefinition>, Problem> {
    let tools = tools.unwrap_or_default();
    let none = choice.is_some_and(|choice| choice == "none" || choice["type"] == "none");
    if none {
        return Ok(Vec::new());
    }
    if tools.len() > MAX_TOOLS {
        let detail = format!("a request has at most {MAX_TOOLS} tools");
        return Err(Problem::invalid(detail));
    }
    tools.iter().map(tool).collect()
}

fn tool(tool: &Value) -> Result<ToolDefinition, Problem> {
    // OpenAI's chat has them below `function`; Anthropic calls the schema `input_schema`.
    let tool = tool
        .get("function")
        .filter(|inner| inner.is_object())
        .unwrap_or(tool);
    let kind = tool["type"].as_str().unwrap_or("function");
    if !matches!(kind, "function" | "custom") {
        return Err(Problem::invalid(format!(
            "a tool of type {kind:?} is none of the client's: give the team such a tool"
        )));
    }
    let name = tool["name"].as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
        return Err(Problem::invalid(format!(
            "{name:?} is not a name of a tool: it has 1 to 64 of A-Z a-z 0-9 _ -"
        )));
    }
    let schema = [&tool["parameters"], &tool["input_schema"]]
        .into_iter()
        .find(|schema| schema.is_object());
    let schema = schema.cloned().unwrap_or_else(|| {
        let empty = Map::new();
        json!({ "type": "object", "properties": empty })
    });
    let about = tool["description"].as_str().unwrap_or_default();
    Ok(clients_tool(name, about, schema))
}

/// The definition of a client's tool. Its texts come from outside, and stand beside the agent's own instructions.
pub(crate) fn clients_tool(name: &str, about: &str, schema: Value) -> ToolDefinition {
    let schema = clean(schema);
    let legal = legal_parameters(&schema).map(Cow::into_owned);
    // A tool that no model can call is left out when the model is asked, with a warning.
    ToolDefinition::new(name, sanitize(about)).parameters(legal.unwrap_or(schema))
}

/// A schema with sanitised texts. Its keys stay: they are the names of arguments.
fn clean(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(clean).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, clean(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}
