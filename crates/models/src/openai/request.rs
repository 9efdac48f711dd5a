//! The body of a request.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::vocabulary::{ModelRequest, OutputSchema, ToolChoice, ToolDefinition};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::{
    encoded_tools::EncodedTools,
    message::Messages,
    profile::{Answers, Profile, ThinkingField},
    reasoning::Server,
    settings::{OpenAiSpec, ReturnReasoning},
};
use crate::http::{is_offered, tools_called, with_further};

/// Fields of the body that `extra` cannot replace: without them the answer would be to another
/// request.
const FIXED: [&str; 2] = ["messages", "stream"];

/// A request, serialised as JSON without a copy of the conversation.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a OpenAiSpec,
    /// The fields that the server takes.
    pub(super) profile: &'a Profile,
    pub(super) server: &'a Server,
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
        // Further tools stand beside the request's own.
        let further = extra.get("tools").copied().filter(|tools| tools.is_array());
        if further.is_some() {
            extra.remove("tools");
        }
        let replaced = extra.keys().copied().collect();
        let mut fields = Fields {
            map: serializer.serialize_map(None)?,
            replaced,
            profile: self.profile,
        };
        fields.put("model", &settings.model)?;
        fields.put(
            "messages",
            &Messages {
                request,
                returned: match self.profile.thinking {
                    ThinkingField::None => ReturnReasoning::Never,
                    _ => settings.return_reasoning,
                },
                server: self.server,
                ids: self.profile.ids(),
                strict_turns: self.profile.strict_turns,
            },
        )?;
        fields.put("stream", &request.stream)?;
        if request.stream {
            fields.put("stream_options", &json!({"include_usage": true}))?;
        }
        self.put_tools(&mut fields, further)?;
        self.put_sampling(&mut fields)?;
        if let Some(schema) = &request.output {
            let format = match self.profile.answers_to(request) {
                Answers::Schema => Some(response_format(schema)),
                Answers::Json => Some(json!({"type": "json_object"})),
                Answers::Prompt => None,
            };
            fields.put_some("response_format", format.as_ref())?;
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
        self.profile.field("stop").is_none()
    }

    fn put_tools<M: SerializeMap>(
        &self,
        fields: &mut Fields<'_, M>,
        further: Option<&Value>,
    ) -> Result<(), M::Error> {
        let max_tools = usize::from(self.profile.max_tools);
        let tools = self.encoded.of(&self.request.tools, max_tools);
        let tools = tools.map_err(serde::ser::Error::custom)?;
        if tools.get() == "[]" && further.is_none() {
            // Servers refuse a tool choice without tools.
            let named = match self.profile.names_called_tools {
                true => tools_called(self.request),
                false => BTreeSet::new(),
            };
            if named.is_empty() {
                return Ok(());
            }
            let any = json!({"type": "object", "properties": {}});
            let tools: Vec<Tool<'_>> = named.iter().map(|name| Tool::named(name, &any)).collect();
            fields.put("tools", &tools)?;
            return fields.put("tool_choice", &"none");
        }
        match further {
            None => fields.put("tools", &&*tools)?,
            Some(further) => {
                let own = serde_json::from_str(tools.get()).map_err(serde::ser::Error::custom)?;
                fields.put("tools", &with_further(own, further))?;
            }
        }
        let settings = &self.request.settings;
        let choice = settings
            .tool_choice
            .as_ref()
            .and_then(|choice| match choice {
                ToolChoice::Auto => Some(json!("auto")),
                ToolChoice::None => Some(json!("none")),
                ToolChoice::Required => Some(json!("required")),
                ToolChoice::Tool(name) => {
                    let is_there =
                        further.is_some() || is_offered(&self.request.tools, name, max_tools);
                    is_there.then(|| json!({"type": "function", "function": {"name": name}}))
                }
            });
        fields.put_some("tool_choice", choice.as_ref())?;
        fields.put_some("parallel_tool_calls", settings.parallel_tool_calls.as_ref())
    }

    fn put_sampling<M: SerializeMap>(&self, fields: &mut Fields<'_, M>) -> Result<(), M::Error> {
        let settings = &self.request.settings;
        let limit = self.settings.token_limit_field.as_deref();
        fields.put_some(limit.unwrap_or("max_tokens"), settings.max_tokens.as_ref())?;
        fields.put_some("temperature", settings.temperature.as_ref())?;
        fields.put_some("top_p", settings.top_p.as_ref())?;
        fields.put_some("seed", settings.seed.as_ref())?;
        fields.put_some("reasoning_effort", settings.reasoning_effort.as_ref())?;
        let stop = (!settings.stop.is_empty()).then_some(&settings.stop);
        fields.put_some("stop", stop)
    }
}

/// The fields of a body, except those that `extra` replaces.
struct Fields<'a, M> {
    map: M,
    replaced: BTreeSet<&'a str>,
    profile: &'a Profile,
}

impl<M: SerializeMap> Fields<'_, M> {
    /// Puts a field, under its name at the server.
    fn put(&mut self, name: &str, value: &impl Serialize) -> Result<(), M::Error> {
        match self.profile.field(name) {
            Some(here) if !self.replaced.contains(here) && !self.replaced.contains(name) => {
                self.map.serialize_entry(here, value)
            }
            _ => Ok(()),
        }
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> Tool<'a> {
    fn named(name: &'a str, parameters: &'a Value) -> Self {
        let function = Function {
            name,
            description: "",
            parameters,
            strict: false,
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
            strict: tool.strict && is_closed(&tool.parameters),
        };
        Self {
            r#type: "function",
            function,
        }
    }
}

/// Whether a schema is in the form in which servers hold a model to it: each object names all of its fields, and has
/// no others.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            let is_object = fields.get("type").is_some_and(|kind| kind == "object");
            let required = fields.get("required").and_then(Value::as_array);
            let is_required = |name: &String| {
                required.is_some_and(|names| names.iter().any(|known| known == name.as_str()))
            };
            let mut names = properties.into_iter().flat_map(|fields| fields.keys());
            let is_closed = !is_object
                || (fields.get("additionalProperties") == Some(&Value::Bool(false))
                    && names.all(is_required));
            is_closed && fields.values().all(is_closed_or_plain)
        }
        other => is_closed_or_plain(other),
    }
}

fn is_closed_or_plain(value: &Value) -> bool {
    match value {
        Value::Object(_) => is_closed(value),
        Value::Array(items) => items.iter().all(is_closed_or_plain),
        _ => true,
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
