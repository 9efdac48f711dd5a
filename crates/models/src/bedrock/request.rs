//! The body of a request.

use std::borrow::Cow;

use ghostlight_actors::vocabulary::{ModelRequest, ToolChoice};
use serde_json::{Map, Value, json};

use super::{
    message::{self, cache_point},
    settings::BedrockSpec,
};
use crate::{
    anthropic::Thinking,
    http::{is_offered, merge, offered, tools_called, with_further, with_sent_keys},
};

/// The field of the body that `extra` cannot replace.
const FIXED: &str = "messages";
/// The field of `extra` whose tools stand beside the agent's.
const TOOLS: &str = "tools";
/// The least thinking budget that Anthropic accepts.
const LEAST_THINKING: u32 = 1_024;

/// A request, with the settings of its model.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a BedrockSpec,
}

impl Body<'_> {
    /// The body as the provider reads it.
    pub(super) fn to_json(&self) -> Value {
        let Self { request, settings } = self;
        let mut body = Map::new();
        let messages = message::messages(request, settings.cache);
        body.insert(FIXED.to_owned(), Value::Array(messages));
        let mut put = |name: &str, fields: Map<String, Value>| {
            if !fields.is_empty() {
                body.insert(name.to_owned(), Value::Object(fields));
            }
        };
        put("inferenceConfig", self.sampling());
        put("additionalModelRequestFields", self.further());
        put("toolConfig", self.tool_config());
        if let Some(output) = request.output.as_ref().filter(|_| self.holds_output()) {
            let schema = json!({"name": output.name, "schema": output.schema.to_string()});
            let format = json!({"type": "json_schema", "structure": {"jsonSchema": schema}});
            body.insert("outputConfig".to_owned(), json!({"textFormat": format}));
        }
        let system = self.system();
        if !system.is_empty() {
            body.insert("system".to_owned(), Value::Array(system));
        }
        for (name, value) in settings.extra.iter().chain(&request.settings.extra) {
            match (name == FIXED || name == TOOLS && value.is_array(), value) {
                (true, _) => {}
                (false, Value::Null) => drop(body.remove(name)),
                (false, value) => merge(body.entry(name.clone()).or_insert(Value::Null), value),
            }
        }
        Value::Object(body)
    }

    /// Whether the provider itself holds the model to the schema of the answer.
    fn holds_output(&self) -> bool {
        let is_strict = self
            .request
            .output
            .as_ref()
            .is_some_and(|output| output.strict);
        is_strict && self.settings.holds_schema()
    }

    fn system(&self) -> Vec<Value> {
        let mut text = self.request.instructions.trim().to_owned();
        let told = self
            .request
            .output
            .as_ref()
            .filter(|_| !self.holds_output());
        if let Some(output) = told {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!(
                "{separator}Answer with nothing but JSON that fits this JSON Schema:\n{}",
                output.schema
            ));
        }
        if text.is_empty() {
            return Vec::new();
        }
        let mut system = vec![json!({"text": text})];
        system.extend(self.settings.cache.then(cache_point));
        system
    }

    /// The tokens of thinking that are asked for.
    fn budget(&self) -> Option<u32> {
        match self.settings.thinking {
            Thinking::Budget(tokens) => Some(tokens.max(LEAST_THINKING)),
            _ => None,
        }
    }

    fn sampling(&self) -> Map<String, Value> {
        let sampling = &self.request.settings;
        let mut config = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            config.extend(value.map(|value| (name.to_owned(), value)));
        };
        // Anthropic counts the thinking towards the tokens of the answer.
        let thinking = self.budget().unwrap_or_default();
        let most = sampling
            .max_tokens
            .map(|most| json!(most.saturating_add(thinking)));
        put("maxTokens", most);
        put(
            "temperature",
            sampling.temperature.map(|value| json!(value)),
        );
        put("topP", sampling.top_p.map(|value| json!(value)));
        // A text of white space alone is refused.
        let stops = sampling.stop.iter().filter(|stop| !stop.trim().is_empty());
        let stops: Vec<&String> = stops.collect();
        put("stopSequences", (!stops.is_empty()).then(|| json!(stops)));
        config
    }

    /// Fields that the provider hands on to its model.
    fn further(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let thinking = match self.settings.thinking {
            Thinking::Adaptive => Some(json!({"type": "adaptive"})),
            Thinking::Off => Some(json!({"type": "disabled"})),
            _ => self
                .budget()
                .map(|tokens| json!({"type": "enabled", "budget_tokens": tokens})),
        };
        fields.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
        if let Some(effort) = &self.request.settings.reasoning_effort {
            match self.settings.is_anthropics() {
                true => fields.insert("output_config".to_owned(), json!({"effort": effort})),
                false => fields.insert("reasoning_effort".to_owned(), json!(effort)),
            };
        }
        fields
    }

    /// The tools, with those of the settings beside the agent's, and the choice among them.
    fn tool_config(&self) -> Map<String, Value> {
        let mut config = self.tools();
        let of_request = self.request.settings.extra.get(TOOLS);
        let further = of_request.or(self.settings.extra.get(TOOLS));
        if let Some(further) = further.filter(|tools| tools.is_array()) {
            let own = match config.remove(TOOLS) {
                Some(Value::Array(own)) => own,
                _ => Vec::new(),
            };
            config.insert(TOOLS.to_owned(), Value::Array(with_further(own, further)));
        }
        config
    }

    /// The agent's tools. A conversation with calls is not taken without tools, so they are named again where the request
    /// offers none.
    fn tools(&self) -> Map<String, Value> {
        let request = self.request;
        let mut config = Map::new();
        let offered = offered(&request.tools, usize::MAX);
        let is_none = request.settings.tool_choice == Some(ToolChoice::None);
        if offered.is_empty() || is_none && tools_called(request).is_empty() {
            let named = tools_called(request);
            let tools = named.iter().map(|name| {
                json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}})
            });
            let tools: Vec<Value> = tools.collect();
            if !tools.is_empty() {
                config.insert("tools".to_owned(), Value::Array(tools));
            }
            return config;
        }
        let tools = offered.iter().map(|tool| {
            let schema = match self.settings.is_anthropics() {
                true => with_sent_keys(&tool.parameters),
                false => Cow::Borrowed(&tool.parameters),
            };
            let mut said = json!({"name": tool.name, "inputSchema": {"json": schema}});
            if !tool.description.trim().is_empty() {
                said["description"] = json!(tool.description);
            }
            if tool.strict && self.settings.holds_schema() {
                said["strict"] = json!(true);
            }
            json!({ "toolSpec": said })
        });
        let mut tools: Vec<Value> = tools.collect();
        // Other models take no mark here.
        if self.settings.cache && self.settings.is_anthropics() {
            tools.push(cache_point());
        }
        config.insert("tools".to_owned(), Value::Array(tools));
        // With thinking Anthropic refuses a choice that forces a call.
        let thinks = matches!(
            self.settings.thinking,
            Thinking::Adaptive | Thinking::Budget(_)
        );
        let choice = match request.settings.tool_choice.as_ref() {
            Some(ToolChoice::Required | ToolChoice::Tool(_))
                if thinks && self.settings.is_anthropics() =>
            {
                None
            }
            Some(ToolChoice::Auto) => Some(json!({"auto": {}})),
            Some(ToolChoice::Required) => Some(json!({"any": {}})),
            Some(ToolChoice::Tool(name)) if is_offered(&request.tools, name, usize::MAX) => {
                Some(json!({"tool": {"name": name}}))
            }
            // There is no word for `none`.
            _ => None,
        };
        config.extend(choice.map(|choice| ("toolChoice".to_owned(), choice)));
        config
    }
}
