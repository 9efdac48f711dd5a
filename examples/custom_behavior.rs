//! Behaviors of your own: an agent that is a function, and the loop of an agent driven by hand (takes 1 s).
//!
//!     cargo run --example custom_behavior
//!
//! The courier has a race, a time limit, a side effect that is recorded, state that outlives the run, and a value that is
//! drawn once. The reader lets the loop think and act, and decides everything in between.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use ghostlight::{
    behaviors::{AgentLoop, ModelTurn},
    prelude::*,
    run::operations::Scope,
    vocabulary::ToolCall,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    deliver().await?;
    read().await
}

/// A behavior with settings. What a run learns stays in local variables: replay makes them afresh.
struct Courier {
    patience: Duration,
}

impl Behavior for Courier {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let parcel = cx.input().content();

        // The first of two wins; the other is dropped, and the journal says so. Branches keep the
        // operations of the two apart.
        let (road, rail) = (cx.lane("road"), cx.lane("rail"));
        let routes = vec![
            road.sleep(Duration::from_millis(40)),
            rail.sleep(Duration::from_secs(3600)),
        ];
        let (fastest, arrived) = cx.race(routes).await;
        arrived?;
        let route = ["road", "rail"][fastest];

        // A limit on anything. What it cuts off is cancelled.
        let customs = cx.sleep(Duration::from_secs(3600));
        let customs = match cx.timeout(self.patience, customs).await {
            Ok(cleared) => cleared.map(|()| "cleared")?,
            Err(elapsed) => {
                cx.emit("customs_skipped", &elapsed.to_string());
                "not waited for"
            }
        };

        // A side effect of one's own, with its class. After a crash it is not done again.
        let receipt = cx.uuid().await?;
        let label = format!("{parcel} via {route}, receipt {receipt}");
        let written = cx.step("print the label", Effect::Once, async move {
            std::fs::write("label.txt", &label)?;
            Ok::<_, std::io::Error>(label.len() as u64)
        });
        let bytes = written.await?;

        // Shared by all sessions of the team: read, decided and written as one operation.
        let delivered = cx
            .state(Scope::App)
            .update("delivered", |count: Option<u64>| count.unwrap_or(0) + 1)
            .await?;
        Ok(Outcome::answer(format!(
            "{parcel}: by {route}, customs {customs}, a label of {bytes} bytes, \
             delivery number {delivered}"
        )))
    }
}

/// Sends two parcels.
async fn deliver() -> Result<(), ghostlight::Error> {
    let courier = Agent::new("courier").behavior(Courier {
        patience: Duration::from_millis(50),
    });
    let system = System::builder(InMemoryStore::new())
        .team(courier.into_team()?)
        .start()
        .await?;

    for (customer, parcel) in [("ada", "a lamp"), ("bob", "a chair")] {
        let run = system.session("courier", customer).send(parcel).await?;
        println!("{}", run.outcome().await?.text());
        for record in run.events().so_far().await? {
            println!("    {record}");
        }
    }
    let label = std::fs::read_to_string("label.txt").unwrap_or_default();
    println!("label.txt: {label}");
    let _ = std::fs::remove_file("label.txt");
    system.stop().await
}

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

/// Asks the frugal reader, and shows what its model read.
async fn read() -> Result<(), ghostlight::Error> {
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
