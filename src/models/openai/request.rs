//! The body of a request.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::vocabulary::{ModelRequest, OutputSchema, ToolChoice, ToolDefinition};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::{encoded_tools::EncodedTools, message::Messages, settings::OpenAiSpec};
use crate::models::http::tools_called;

/// Fields of the body that `extra` cannot replace: without them the answer would be to another
/// request.
const FIXED: [&str; 2] = ["messages", "stream"];

/// A request, serialised as JSON without a copy of the conversation.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a OpenAiSpec,
    /// Whether the server is OpenAI's own.
    pub(super) is_openai: bool,
    pub(super) encoded: &'a EncodedTools,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            request, settings, ..
        } = self;
        let mut extra: BTreeMap<&str, &Value> = BTreeMap::new();
        for (name, value) in settings.extra.iter().chain(&request.settings.extra) {
            if !FIXED.contains(&name.as_str()) {
                extra.insert(name, value);
            }
        }
        let replaced = extra.keys().copied().collect();
        let mut fields = Fields {
            map: serializer.serialize_map(None)?,
            replaced,
        };
        fields.put("model", &settings.model)?;
        fields.put(
            "messages",
            &Messages {
                request,
                returned: settings.return_reasoning,
            },
        )?;
        fields.put("stream", &request.stream)?;
        if request.stream {
            fields.put("stream_options", &json!({"include_usage": true}))?;
        }
        self.put_tools(&mut fields)?;
        self.put_sampling(&mut fields)?;
        if let Some(schema) = &request.output {
            fields.put("response_format", &response_format(schema))?;
        }
        for (name, value) in extra {
            if !value.is_null() {
                fields.map.serialize_entry(name, value)?;
            }
        }
        fields.map.end()
    }
}

impl Body<'_> {
    /// Whether the server refuses stop texts, as OpenAI's does for its reasoning models. The answer
    /// is then cut at them here.
    pub(super) fn refuses_stop(&self) -> bool {
        let families = ["gpt-5", "o1", "o3", "o4"];
        let model = &self.settings.model;
        self.is_openai && families.iter().any(|family| model.starts_with(family))
    }

    fn put_tools<M: SerializeMap>(&self, fields: &mut Fields<'_, M>) -> Result<(), M::Error> {
        let tools = self.encoded.of(&self.request.tools);
        let tools = tools.map_err(serde::ser::Error::custom)?;
        if tools.get() == "[]" {
            // Servers refuse a tool choice without tools.
            let named = match self.is_openai {
                true => BTreeSet::new(),
                false => tools_called(self.request),
            };
            if named.is_empty() {
                return Ok(());
            }
            let any = json!({"type": "object", "properties": {}});
            let tools: Vec<Tool<'_>> = named.iter().map(|name| Tool::named(name, &any)).collect();
            fields.put("tools", &tools)?;
            return fields.put("tool_choice", &"none");
        }
        fields.put("tools", &&*tools)?;
        let settings = &self.request.settings;
        let choice = settings.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        });
        fields.put_some("tool_choice", choice.as_ref())?;
        fields.put_some("parallel_tool_calls", settings.parallel_tool_calls.as_ref())
    }

    fn put_sampling<M: SerializeMap>(&self, fields: &mut Fields<'_, M>) -> Result<(), M::Error> {
        let settings = &self.request.settings;
        let usual = if self.is_openai {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        let limit = self.settings.token_limit_field.as_deref().unwrap_or(usual);
        fields.put_some(limit, settings.max_tokens.as_ref())?;
        fields.put_some("temperature", settings.temperature.as_ref())?;
        fields.put_some("top_p", settings.top_p.as_ref())?;
        fields.put_some("seed", settings.seed.as_ref())?;
        fields.put_some("reasoning_effort", settings.reasoning_effort.as_ref())?;
        let is_sent = !settings.stop.is_empty() && !self.refuses_stop();
        let stop = is_sent.then_some(&settings.stop);
        fields.put_some("stop", stop)
    }
}

/// The fields of a body, except those that `extra` replaces.
struct Fields<'a, M> {
    map: M,
    replaced: BTreeSet<&'a str>,
}

impl<M: SerializeMap> Fields<'_, M> {
    fn put(&mut self, name: &str, value: &impl Serialize) -> Result<(), M::Error> {
        if self.replaced.contains(name) {
            return Ok(());
        }
        self.map.serialize_entry(name, value)
    }

    fn put_some(&mut self, name: &str, value: Option<&impl Serialize>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(name, value))
    }
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn named(name: &'a str, parameters: &'a Value) -> Self {
        let function = Function {
            name,
            description: "",
            parameters,
        };
        Self {
            r#type: "function",
            function,
        }
    }

    pub(super) fn new(tool: &'a ToolDefinition) -> Self {
        let function = Function {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        };
        Self {
            r#type: "function",
            function,
        }
    }
}

fn response_format(output: &OutputSchema) -> Value {
    // Servers accept only these characters in a name, and at most 64 of them.
    let to_name = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = output.name.chars().map(to_name).take(64).collect();
    let name = if name.is_empty() { "answer" } else { &name };
    json!({
        "type": "json_schema",
        "json_schema": {"name": name, "schema": output.schema, "strict": output.strict},
    })
}
