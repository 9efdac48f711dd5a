//! The body of a request.

use ghostlight_actors::vocabulary::{ModelRequest, ToolChoice};
use serde_json::{Map, Value, json};

use super::{
    message,
    settings::{AnthropicSpec, HourCache, Thinking},
};
use crate::http::{is_offered, offered, tools_called, with_further, with_sent_keys};

/// Fields of the body that `extra` cannot replace.
const FIXED: [&str; 2] = ["messages", "stream"];
/// The smallest thinking budget that the provider accepts, in tokens.
const LEAST_THINKING: u32 = 1_024;
/// Keywords of JSON Schema that the provider's structured output does not accept. The answer is
/// checked against them here.
const NOT_TAKEN: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "pattern",
];

/// A request, with the settings of its model.
pub(crate) struct Body<'a> {
    pub(crate) request: &'a ModelRequest,
    pub(crate) settings: &'a AnthropicSpec,
    /// Whether the conversation ends with an answer that was paused and goes on.
    pub(crate) is_paused: bool,
}

impl Body<'_> {
    /// The body as the provider reads it.
    pub(crate) fn to_json(&self) -> Value {
        let Self {
            request, settings, ..
        } = self;
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| {
            body.insert(name.to_owned(), value);
        };
        put("model", json!(settings.model));
        put("stream", json!(request.stream));
        let sampling = &request.settings;
        let mut most = sampling.max_tokens.unwrap_or(settings.max_tokens);
        if let Thinking::Budget(tokens) = settings.thinking {
            let tokens = tokens.max(LEAST_THINKING);
            // The provider counts the thinking towards `max_tokens`.
            most = most.saturating_add(tokens);
            put(
                "thinking",
                json!({"type": "enabled", "budget_tokens": tokens}),
            );
        }
        match settings.thinking {
            Thinking::Adaptive => put("thinking", json!({"type": "adaptive"})),
            Thinking::Off => put("thinking", json!({"type": "disabled"})),
            Thinking::Default | Thinking::Budget(_) => {}
        }
        put("max_tokens", json!(most));
        if let Some(temperature) = sampling.temperature {
            put("temperature", json!(temperature));
        }
        if let Some(top_p) = sampling.top_p {
            put("top_p", json!(top_p));
        }
        // A text of white space alone is refused.
        let stops = sampling.stop.iter().filter(|stop| !stop.trim().is_empty());
        let stops: Vec<&String> = stops.collect();
        if !stops.is_empty() {
            put("stop_sequences", json!(stops));
        }
        let format = self.output_format();
        let mut output = Map::new();
        if let Some(effort) = &sampling.reasoning_effort {
            output.insert("effort".to_owned(), json!(effort));
        }
        if let Some(format) = &format {
            output.insert("format".to_owned(), format.clone());
        }
        if !output.is_empty() {
            put("output_config", Value::Object(output));
        }
        if let Some(system) = self.system(format.is_some()) {
            put("system", system);
        }
        if let Some((tools, choice)) = self.tools() {
            put("tools", tools);
            if let Some(choice) = choice {
                put("tool_choice", choice);
            }
        }
        if let Some(container) = message::container(request) {
            put("container", container);
        }
        let messages = message::messages(request, self.mark().as_ref(), self.is_paused);
        put("messages", Value::Array(messages));
        // The tools of the request itself win over those of the settings, and either stand beside the agent's own.
        let further = sampling.extra.get("tools").or(settings.extra.get("tools"));
        if let Some(further) = further.filter(|tools| tools.is_array()) {
            let own = match body.remove("tools") {
                Some(Value::Array(own)) => own,
                _ => Vec::new(),
            };
            body.insert("tools".to_owned(), Value::Array(with_further(own, further)));
        }
        for (name, value) in settings.extra.iter().chain(&sampling.extra) {
            match FIXED.contains(&name.as_str()) {
                true => {}
                false if name == "tools" && value.is_array() => {}
                false if name == "container" && value.is_object() => {
                    // The skills of the next answer, in the container of the last one.
                    let mut wanted = value.clone();
                    if let Some(id) = body.remove(name).filter(Value::is_string)
                        && wanted.get("id").is_none()
                    {
                        wanted["id"] = id;
                    }
                    body.insert(name.clone(), wanted);
                }
                false if value.is_null() => {
                    body.remove(name);
                }
                false => {
                    body.insert(name.clone(), value.clone());
                }
            }
        }
        Value::Object(body)
    }

    /// The instructions, followed by the schema of the answer where the provider does not accept
    /// it.
    fn system(&self, has_format: bool) -> Option<Value> {
        let mut text = self.request.instructions.trim().to_owned();
        if let Some(output) = self.request.output.as_ref().filter(|_| !has_format) {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!(
                "{separator}Answer with nothing but JSON that fits this JSON Schema:\n{}",
                output.schema
            ));
        }
        if text.is_empty() {
            return None;
        }
        let mut block = json!({"type": "text", "text": text});
        if self.settings.cache {
            block["cache_control"] = mark(self.settings.hour_cache != HourCache::Nothing);
        }
        Some(json!([block]))
    }

    /// The mark of the conversation for the provider's cache.
    fn mark(&self) -> Option<Value> {
        let stays = self.settings.hour_cache == HourCache::Everything;
        self.settings.cache.then(|| mark(stays))
    }

    /// Whether the settings name tools beside the agent's own.
    fn has_further_tools(&self) -> bool {
        let sampling = &self.request.settings;
        let further = sampling.extra.get("tools");
        let further = further.or(self.settings.extra.get("tools"));
        further.is_some_and(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty()))
    }

    fn output_format(&self) -> Option<Value> {
        let output = self
            .request
            .output
            .as_ref()
            .filter(|output| output.strict)?;
        let schema = taken(&output.schema);
        Some(json!({"type": "json_schema", "schema": schema}))
    }

    /// The tools and the choice among them. If the conversation has calls and the request offers no
    /// tools, the called tools are named again and may not be called.
    fn tools(&self) -> Option<(Value, Option<Value>)> {
        let request = self.request;
        let offered = offered(&request.tools, usize::MAX);
        if offered.is_empty() && !self.has_further_tools() {
            let named = tools_called(request);
            let tools = named
                .iter()
                .map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
            let tools: Vec<Value> = tools.collect();
            return (!tools.is_empty()).then(|| (json!(tools), Some(json!({"type": "none"}))));
        }
        let tools = offered.iter().map(|tool| {
            let mut said = json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": with_sent_keys(&tool.parameters),
            });
            if tool.strict {
                said["strict"] = json!(true);
                said["input_schema"] = taken(&with_sent_keys(&tool.parameters));
            }
            said
        });
        let tools: Vec<Value> = tools.collect();
        let settings = &request.settings;
        // With thinking the provider refuses a choice that forces a call.
        let may_force = matches!(self.settings.thinking, Thinking::Default | Thinking::Off);
        let mut choice = match &settings.tool_choice {
            Some(ToolChoice::Required | ToolChoice::Tool(_)) if !may_force => None,
            None => None,
            Some(ToolChoice::Auto) => Some(json!({"type": "auto"})),
            Some(ToolChoice::None) => Some(json!({"type": "none"})),
            Some(ToolChoice::Required) => Some(json!({"type": "any"})),
            Some(ToolChoice::Tool(name)) => {
                let is_there =
                    self.has_further_tools() || is_offered(&request.tools, name, usize::MAX);
                is_there.then(|| json!({"type": "tool", "name": name}))
            }
        };
        if settings.parallel_tool_calls == Some(false)
            && settings.tool_choice != Some(ToolChoice::None)
        {
            choice.get_or_insert_with(|| json!({"type": "auto"}))["disable_parallel_tool_use"] =
                json!(true);
        }
        Some((json!(tools), choice))
    }
}

/// Marks a block whose beginning the provider's cache keeps: for an hour, or for five minutes.
fn mark(for_an_hour: bool) -> Value {
    match for_an_hour {
        true => json!({"type": "ephemeral", "ttl": "1h"}),
        false => json!({"type": "ephemeral"}),
    }
}

/// The part of a schema that the provider accepts.
fn taken(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let is_object = fields.get("type").is_some_and(|kind| kind == "object");
            let fields = fields
                .iter()
                .filter(|(name, value)| !(NOT_TAKEN.contains(&name.as_str()) && is_bound(value)))
                .map(|(name, value)| match name.as_str() {
                    // The keys inside are names of fields, not keywords of JSON Schema.
                    "properties" | "$defs" | "definitions" => (name.clone(), each(value)),
                    "enum" | "const" | "default" | "required" => (name.clone(), value.clone()),
                    _ => (name.clone(), taken(value)),
                });
            let mut fields: Map<String, Value> = fields.collect();
            if is_object {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(taken).collect(),
        other => other.clone(),
    }
}

fn is_bound(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn each(schemas: &Value) -> Value {
    match schemas {
        Value::Object(schemas) => {
            let schemas = schemas.iter();
            Value::Object(
                schemas
                    .map(|(name, schema)| (name.clone(), taken(schema)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_keeps_what_the_provider_takes_and_the_names_of_its_fields() {
        let schema = json!({
            "type": "object",
            "properties": {
                "minimum": {"type": "integer", "minimum": 1, "maximum": 9},
                "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "maxItems": 3},
            },
            "required": ["minimum", "tags"],
        });
        assert_eq!(
            taken(&schema),
            json!({
                "type": "object",
                "properties": {
                    "minimum": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["minimum", "tags"],
                "additionalProperties": false,
            })
        );
    }
}
