//! The loop driven by hand: think, act, step, and everything in between is your own.
//!
//!     cargo run --example by_hand
#![allow(clippy::print_stdout)]

use ghostlight::{
    behaviors::{AgentLoop, ModelTurn},
    prelude::*,
    vocabulary::ToolCall,
};
use serde_json::json;

/// Looks something up.
#[tool(effect = "read")]
fn look_up(word: String) -> String {
    format!("{word}: a lamp that is left burning in an empty theatre")
}

/// A behavior that shows the model's calls before they run, keeps the results short, asks for an
/// answer after two rounds, and leaves the rest to the loop.
async fn frugal(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut agent = AgentLoop::new(&cx)?;
    for round in 1..=2 {
        match agent.think().await? {
            ModelTurn::Calls(calls) => {
                cx.emit("round", &json!({ "round": round, "calls": calls.len() }));
                // Policies are asked, tools run side by side, results keep the calls' order.
                let mut acted = agent.call(&calls).await?;
                for result in &mut acted.results {
                    result.text = result.text.chars().take(40).collect();
                }
                agent.record(acted.results);
            }
            ModelTurn::Answer(text) => return Ok(agent.answer(text)),
            ModelTurn::Unreadable(feedback) => agent.say(feedback),
            _ => agent.say("Go on."),
        }
    }
    agent.say("That was enough research: answer now.");
    // From here the loop drives itself: `run` is `step` until the end.
    agent.run().await
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let call = |id: &str, word: &str| {
        ModelResponse::tool_calls([ToolCall::new(id, "look_up", json!({ "word": word }))])
    };
    let model = ScriptedModel::replies([
        call("1", "ghost light"),
        call("2", "ghost lamp"),
        ModelResponse::text("A ghost light is a lamp that is left burning."),
    ]);
    let reader = Agent::from_fn("reader", frugal).tool(look_up);
    let system = System::builder(InMemoryStore::new())
        .model("default", model.clone())
        .team(reader.into_team()?)
        .start()
        .await?;

    let run = system
        .session("reader", "ada")
        .send("What is a ghost light?")
        .await?;
    println!("{}\n", run.outcome().await?.text());
    if let Some(last) = model.requests().last() {
        for message in last.conversation.messages() {
            for result in message.tool_results() {
                println!("{:?}: {} = {:?}", message.role, result.name, result.text);
            }
            let said = message.content();
            if !said.is_empty() {
                println!("{:?}: {said}", message.role);
            }
        }
    }
    system.stop().await
}
