//! The body of a request.

use ghostlight_actors::vocabulary::{ModelRequest, ToolChoice};
use serde_json::{Map, Value, json};

use super::{message, settings::GeminiSpec};
use crate::http::{is_offered, merge, offered, with_further};

/// The field of the body that `extra` cannot replace.
const FIXED: &str = "contents";

/// A request, with the settings of its model.
pub(super) struct Body<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) settings: &'a GeminiSpec,
}

impl Body<'_> {
    /// The body as the provider reads it.
    pub(super) fn to_json(&self) -> Value {
        let Self { request, settings } = self;
        let mut body = Map::new();
        let contents = message::contents(request, !settings.is_before_3());
        body.insert(FIXED.to_owned(), Value::Array(contents));
        if let Some(system) = self.system() {
            let system = json!({"parts": [{"text": system}]});
            body.insert("systemInstruction".to_owned(), system);
        }
        let offered = offered(&request.tools, usize::MAX);
        if !offered.is_empty() {
            let tools = offered.iter().map(|tool| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "parametersJsonSchema": tool.parameters,
                })
            });
            let tools: Vec<Value> = tools.collect();
            body.insert("tools".to_owned(), json!([{"functionDeclarations": tools}]));
            if let Some(choice) = self.choice() {
                let choice = json!({"functionCallingConfig": choice});
                body.insert("toolConfig".to_owned(), choice);
            }
        }
        let config = self.config();
        if !config.is_empty() {
            body.insert("generationConfig".to_owned(), Value::Object(config));
        }
        // The tools of the request itself win over those of the settings, and either stand beside the agent's own.
        let further = request.settings.extra.get("tools");
        let further = further.or(settings.extra.get("tools"));
        if let Some(further) = further.filter(|tools| tools.is_array()) {
            let own = match body.remove("tools") {
                Some(Value::Array(own)) => own,
                _ => Vec::new(),
            };
            body.insert("tools".to_owned(), Value::Array(with_further(own, further)));
        }
        for (name, value) in settings.extra.iter().chain(&request.settings.extra) {
            match name == FIXED {
                true => {}
                false if name == "tools" && value.is_array() => {}
                false if value.is_object() => {
                    let known = body.entry(name.clone()).or_insert_with(|| json!({}));
                    merge(known, value);
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

    fn choice(&self) -> Option<Value> {
        Some(match self.request.settings.tool_choice.as_ref()? {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) if !is_offered(&self.request.tools, name, usize::MAX) => {
                return None;
            }
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        })
    }

    /// Whether the provider itself holds the model to the schema of the answer.
    fn holds_output(&self) -> bool {
        self.request.tools.is_empty() || !self.settings.is_before_3()
    }

    fn system(&self) -> Option<String> {
        let mut text = self.request.instructions.trim().to_owned();
        if let Some(output) = self
            .request
            .output
            .as_ref()
            .filter(|_| !self.holds_output())
        {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!(
                "{separator}Answer with nothing but JSON that fits this JSON Schema:\n{}",
                output.schema
            ));
        }
        (!text.is_empty()).then_some(text)
    }

    fn config(&self) -> Map<String, Value> {
        let Self { request, settings } = self;
        let sampling = &request.settings;
        let mut config = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            config.extend(value.map(|value| (name.to_owned(), value)));
        };
        put(
            "maxOutputTokens",
            sampling.max_tokens.map(|most| json!(most)),
        );
        put(
            "temperature",
            sampling.temperature.map(|value| json!(value)),
        );
        put("topP", sampling.top_p.map(|value| json!(value)));
        put("seed", sampling.seed.map(|value| json!(value)));
        let stops = (!sampling.stop.is_empty()).then(|| json!(sampling.stop));
        put("stopSequences", stops);
        let mut thinking = Map::new();
        if let Some(tokens) = settings.thinking_budget {
            thinking.insert("thinkingBudget".to_owned(), json!(tokens));
        }
        if let Some(effort) = &sampling.reasoning_effort {
            thinking.insert("thinkingLevel".to_owned(), json!(effort));
        }
        if settings.include_thoughts {
            thinking.insert("includeThoughts".to_owned(), json!(true));
        }
        put(
            "thinkingConfig",
            (!thinking.is_empty()).then_some(Value::Object(thinking)),
        );
        if let Some(output) = request.output.as_ref().filter(|_| self.holds_output()) {
            put("responseMimeType", Some(json!("application/json")));
            put("responseJsonSchema", Some(output.schema.clone()));
        }
        config
    }
}
