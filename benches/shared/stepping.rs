//! The agent of most figures: function calling with nothing around it, and one tool.

use std::sync::atomic::{AtomicU64, Ordering};

use ghostlight::tool;
use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHandle, ToolError},
    run::{Agent, RunContext},
    vocabulary::{
        AgentError, Message, ModelRequest, ModelResponse, Outcome, ToolCall, ToolResult,
        ToolStatus, Transcript,
    },
};
use serde_json::json;

/// Adds VAT to a net price.
#[tool(effect = "read")]
pub(crate) async fn add_vat(net: f64, percent: f64) -> Result<f64, ToolError> {
    Ok(gross(net, percent))
}

/// What the tool does, for floors that call it by hand.
pub(crate) fn gross(net: f64, percent: f64) -> f64 {
    net * (1.0 + percent / 100.0)
}

/// What the system prompt of the agent says.
pub(crate) const INSTRUCTIONS: &str = "You add VAT to prices. Call add_vat for each price.";

/// What the agent is asked.
pub(crate) const QUESTION: &str = "80 euro with 19% VAT?";

/// How often the models of a whole run call the tool before they answer.
pub(crate) const TOOLS: usize = 3;

/// What they answer.
pub(crate) const ANSWER: &str = "95.20 euro";

/// A call of the tool, as a model asks for it.
pub(crate) fn call(number: u64) -> ToolCall {
    let arguments = json!({"net": 80.0, "percent": 19.0});
    ToolCall::new(format!("call_{number}"), "add_vat", arguments)
}

/// A model that always calls the tool. The test kit's model would check the whole conversation and
/// keep each request, which is work that no real run has.
#[derive(Debug, Default)]
pub(crate) struct Caller(AtomicU64);

impl Model for Caller {
    async fn respond(&self, _: ModelRequest, _: ModelContext) -> Result<ModelResponse, ModelError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(ModelResponse::tool_calls([call(number)]))
    }
}

/// A model of whole runs: after the question it calls the tool so many times, then it answers.
#[derive(Debug, Default)]
pub(crate) struct Answering;

impl Model for Answering {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        Ok(answer(&request.conversation))
    }
}

/// What that model says to a conversation: it looks back as far as the question.
pub(crate) fn answer(conversation: &Transcript) -> ModelResponse {
    let mut done = 0;
    for at in (0..conversation.len()).rev() {
        let message = conversation.get(at).unwrap();
        if message.is_from_user() {
            break;
        }
        done += message.tool_results().count();
    }
    match done < TOOLS {
        true => ModelResponse::tool_calls([call(done as u64)]),
        false => ModelResponse::text(ANSWER),
    }
}

/// A loop by hand over that model, which keeps nothing: what a run costs beside the engine.
pub(crate) async fn by_hand(model: &ModelHandle) -> String {
    let mut conversation = Transcript::new();
    conversation.push(Message::user(QUESTION));
    loop {
        let request = ModelRequest::new(conversation.clone()).instructions(INSTRUCTIONS);
        let answer = model
            .respond(request, ModelContext::detached())
            .await
            .unwrap();
        conversation.push(answer.message.clone());
        let calls = answer.calls();
        if calls.is_empty() {
            return answer.content();
        }
        for call in calls {
            let arguments = call.arguments.value().unwrap();
            let [net, percent] = ["net", "percent"].map(|name| arguments[name].as_f64().unwrap());
            let text = gross(net, percent).to_string();
            conversation.push(Message::results([ToolResult::new(
                &call,
                ToolStatus::Success,
                text,
            )]));
        }
    }
}

/// An agent as users make it, with the default behavior.
pub(crate) fn default_agent(name: &str) -> Agent {
    Agent::new(name).instructions(INSTRUCTIONS).tool(add_vat)
}

/// An agent that goes on until the model asks for no tool, or for so many steps.
pub(crate) fn agent(name: &str, most: u32) -> Agent {
    Agent::from_fn(name, move |cx| work(cx, most))
        .instructions(INSTRUCTIONS)
        .tool(add_vat)
}

async fn work(cx: RunContext, most: u32) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    for _ in 0..most {
        let answer = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(answer.message.clone());
        let calls = answer.calls();
        if calls.is_empty() {
            return Ok(Outcome::answer(answer.content()));
        }
        for call in calls {
            let result = cx.tool_unasked(call).await?;
            conversation.push(Message::results([result]));
        }
    }
    Ok(Outcome::answer("done"))
}
