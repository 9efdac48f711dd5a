//! A policy of your own: it chooses the tools, holds calls back, and asks for an answer with evidence (takes 1 s).
//!
//! It falls back when a tool fails, and gathers the evidence.
//!
//!     cargo run --example policies
//!
//! It lives inside of the run that is recorded and replayed: its state is plain fields, and after a
//! crash it is where it was. The model is scripted, so you see what the policy does.
#![allow(clippy::print_stdout)]

use ghostlight::{
    builtin,
    policies::Repetition,
    prelude::*,
    run::{BeforeTool, PolicyContext, Verdict},
    vocabulary::{ToolCall, ToolResult, ToolStatus},
};
use serde_json::json;

/// Finds the price of a product in the shop's own list.
#[tool(effect = "read")]
fn list_price(product: String) -> Result<String, ToolError> {
    Err(ToolError::new(format!(
        "the list is closed for stocktaking: {product}"
    )))
}

/// Searches the web.
#[tool(effect = "read")]
fn search(query: String) -> String {
    format!("{query}: 19.90 euro")
}

/// The own list first; the web only after it failed; no answer without a price that was found.
#[derive(Default)]
struct PriceFirst {
    list_failed: bool,
    prices: Vec<String>,
}

impl Policy for PriceFirst {
    /// Which tools the model may call in this turn. The recorded conversation stays as it is.
    async fn before_model(
        &mut self,
        _cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let wanted = if self.list_failed {
            "search"
        } else {
            "list_price"
        };
        let tools = request.tools.iter().filter(|tool| tool.name == wanted);
        request.tools = tools.cloned().collect();
        Ok(None)
    }

    /// Before a call: it may run, run with other arguments, be answered here, or wait for a person.
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.arguments.text().contains("secret") {
            cx.defer("Do not ask for secrets.");
            return Ok(BeforeTool::blocked(call, "This is not for you."));
        }
        Ok(BeforeTool::Go)
    }

    /// All results of the step, in the order of the calls.
    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        _calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        for result in results {
            match result.status {
                ToolStatus::Error if result.name == "list_price" => {
                    self.list_failed = true;
                    cx.emit("fell_back", &json!({ "because": result.text }));
                }
                ToolStatus::Success => self.prices.push(result.text.clone()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Before the answer: it passes, or the model reads why it does not.
    async fn before_answer(
        &mut self,
        _cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        let is_grounded = self.prices.iter().any(|price| {
            let amount = price.rsplit(": ").next().unwrap_or(price);
            draft.contains(amount)
        });
        Ok(match is_grounded {
            true => Verdict::Accept,
            false => {
                Verdict::Reject("Give the price that you found, and look for it first.".into())
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let call = |id: &str, name: &str, argument: &str, value: &str| {
        ModelResponse::tool_calls([ToolCall::new(id, name, json!({ argument: value }))])
    };
    let model = ScriptedModel::replies([
        ModelResponse::text("A lamp costs about 5 euro."), // made up: rejected
        call("1", "list_price", "product", "secret lamp"), // blocked
        call("2", "list_price", "product", "lamp"),        // fails: from now on `search`
        call("3", "search", "query", "lamp"),
        ModelResponse::text("A lamp costs 19.90 euro."),
    ]);
    let clerk = Agent::new("clerk")
        .tool(list_price)
        .tool(search)
        .policy("price first", PriceFirst::default)
        .policy("repetition", Repetition::default);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", model)
        .team(clerk.into_team()?)
        .start()
        .await?;

    let run = system
        .session("clerk", "ada")
        .send("What is a lamp?")
        .await?;
    println!("{}\n", run.outcome().await?.text());
    for record in run.events().so_far().await? {
        println!("    {record}");
    }
    system.stop().await
}
