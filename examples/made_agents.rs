//! Agents that are made while a run is under way: a function defines two for its task, which no team
//! has, and gives them work side by side.
//!
//!     cargo run --example made_agents
//!
//! Such an agent is stored with its run and survives a crash as the run does. With
//! `create_agent` in an agent's definition its model makes agents: examples/teams/workshop.yaml.
#![allow(clippy::print_stdout)]

use ghostlight::{definition::AgentSpec, prelude::*};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let foreman = Agent::from_fn("foreman", |cx: RunContext| async move {
        let clerk = |name: &str| {
            let mut clerk = AgentSpec::new(name);
            clerk.instructions = "Calculate with the calculator.".to_owned();
            clerk.tools = vec!["calculator".to_owned()];
            clerk
        };
        let (first, second) = tokio::join!(
            cx.delegate(clerk("first"), "What is 17% of 2340?"),
            cx.delegate(clerk("second"), "What is 19% of 2100?"),
        );
        Ok(Outcome::answer(format!(
            "{}\n{}",
            first?.text, second?.text
        )))
    });
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", OfflineModel)
        .team(foreman.into_team()?)
        .start()
        .await?;
    let run = system
        .session("foreman", "ada")
        .send("Compare them.")
        .await?;
    println!("{}", run.outcome().await?.text());
    system.stop().await?;
    Ok(())
}
