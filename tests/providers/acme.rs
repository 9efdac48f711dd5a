use ghostlight::{
    contract::ModelContext,
    models::kit::{Answer, Provider, Server, ServerSpec},
    prelude::*,
    vocabulary::{FinishReason, Message, Part, Usage},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The provider and its own server, which alone gets the key in `ACME_API_KEY`.
const ACME: Provider = Provider::new("acme", "https://api.acme.example/v2")
    .key_variable("ACME_API_KEY")
    .key_header("x-acme-key");

/// A model of Acme's. In a team file: `models: { default: { provider: acme, model: fable-1 } }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ServerSpec")]
pub(crate) struct Acme(Server);

impl From<ServerSpec> for Acme {
    fn from(spec: ServerSpec) -> Self {
        Self(Server::new(ACME, spec))
    }
}

impl Model for Acme {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let request = self.0.legal(&request)?;
        let messages = request.conversation.messages();
        let turns = messages.iter().flat_map(|message| turns(message));
        let tools = request
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "takes": tool.parameters}));
        let body = json!({
            "model": self.0.settings().model,
            "task": request.instructions,
            "turns": turns.collect::<Vec<_>>(),
            "tools": tools.collect::<Vec<_>>(),
            "longest": request.settings.max_tokens,
            "stream": request.stream,
        });
        self.0.ask(&request, &cx, "/talk", body, read).await
    }

    fn ready(&self) -> Result<(), ModelError> {
        self.0.check()
    }

    fn is_priced(&self) -> bool {
        self.0.is_priced()
    }

    fn description(&self) -> String {
        self.0.description()
    }
}

/// A message as Acme reads it: one turn for each of its parts.
fn turns(message: &Message) -> Vec<Value> {
    let turn = |part: &Part| match part {
        Part::Text(text) => Some(json!({"by": message.role, "said": text})),
        Part::ToolCall(call) => Some(json!({
            "by": "assistant", "called": call.name, "id": call.id, "with": call.arguments.text(),
        })),
        Part::ToolResult(result) => {
            Some(json!({"by": "tool", "id": result.call_id, "said": result.text}))
        }
        _ => None,
    };
    message.parts.iter().filter_map(turn).collect()
}

/// A whole answer, or what an event of a stream adds to it.
fn read(value: &Value, answer: &mut Answer<'_>) {
    if value["fault"].is_object() {
        return answer.fail(&value["fault"]);
    }
    answer.reasoning(text(&value["thought"]));
    answer.text(text(&value["said"]));
    for call in value["calls"].as_array().into_iter().flatten() {
        let index = call["nr"].as_u64().unwrap_or_default();
        let [id, name, with] = ["id", "name", "with"].map(|field| text(&call[field]));
        answer.call(index, id, name, with);
    }
    match value["ended"].as_str() {
        Some("all said") => answer.finish(FinishReason::Stop),
        Some("too long") => answer.finish(FinishReason::Length),
        Some(word) => answer.finish(FinishReason::Other(word.to_owned())),
        None => {}
    }
    if let (Some(read), Some(written)) = (value["read"].as_u64(), value["written"].as_u64()) {
        answer.usage(Usage {
            input_tokens: read,
            output_tokens: written,
            ..Usage::default()
        });
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
