//! Budgets: a warning before the end, a partial answer at the end, and a budget that is split (takes 1 s).
//!
//!     cargo run --example budgets
//!
//! Bounds are checked before the act, hold for a run and all runs below it, and are charged once
//! whatever crashes. The models are scripted, with prices of their own.
#![allow(clippy::print_stdout)]

use ghostlight::{
    builtin,
    prelude::*,
    run::Task,
    vocabulary::{Event, Message, Part, Resource, ToolCall, Usage},
};

/// Finds a fact, which always leads to another question.
#[tool(effect = "read")]
fn look_up(word: String) -> String {
    format!("{word} is older than it looks")
}

/// A model that never has enough: each answer says what it knows so far and looks further.
fn curious() -> ScriptedModel {
    let mut usage = Usage::default();
    (usage.input_tokens, usage.output_tokens, usage.cost_micros) = (900, 100, 2_500);
    ScriptedModel::from_fn(|_, number| {
        let call = ToolCall::new("c", "look_up", serde_json::json!({"word": "lighthouse"}));
        let mut response = ModelResponse::tool_calls([call]);
        let mut message = Message::clone(&response.message);
        let text = format!("After {number} looks it is still open.");
        message.parts.insert(0, Part::Text(text));
        response.message = message.into();
        Ok(response)
    })
    .usage(usage)
}

/// Divides what there is among two readers, with half of it for the first, and tells what is left.
async fn divide(cx: RunContext) -> Result<Outcome, AgentError> {
    let (first, second) = futures_util::future::try_join(
        cx.delegate("reader", Task::from("Read the first half.").share(50)),
        cx.delegate("reader", Task::from("Read the second half.").share(25)),
    )
    .await?;
    let left = cx.budget().await?.left(Resource::ModelCalls);
    Ok(Outcome::answer(format!(
        "the first asked {} times, the second {} times, left are {}",
        first.spent.model_calls,
        second.spent.model_calls,
        left.unwrap_or_default(),
    )))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let explorer = Agent::new("explorer").tool(look_up).max_steps(100);
    let explorers = explorer
        .into_team()?
        .budget(Budget::default().cost_micros(20_000))
        .budget_warnings([50, 90]);
    let chief = Agent::from_fn("chief", divide).agent(Agent::new("reader").tool(look_up));
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", curious())
        .team(explorers)
        .team(chief.into_team()?)
        .start()
        .await?;

    println!("Two cents to explore with:");
    let run = system
        .session("explorer", "ada")
        .send("How old is it?")
        .await?;
    let mut events = run.events().recorded();
    while let Some(event) = events.next().await {
        let event = event?;
        if matches!(
            event.event,
            Event::BudgetWarning { .. } | Event::RunEnded { .. }
        ) {
            println!("  {event}");
        }
    }
    let outcome = run.outcome().await?;
    println!("  what it has: {}", outcome.text());

    println!("\nEight model calls for two readers:");
    let turn = Turn::text("Read.").budget(Budget::default().model_calls(8));
    let run = system.session("chief", "ada").send(turn).await?;
    println!("  {}", run.outcome().await?.text());
    system.stop().await
}
