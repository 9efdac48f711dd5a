//! Agents that share work: delegation, a transfer, a handover that returns, and agents made during a run (takes 1 s).
//!
//!     cargo run --example team
//!
//! A delegated task is a run below the run, with a journal of its own, and its result comes back. A
//! transfer moves the conversation: the next agent answers, and goes on answering in later turns.
#![allow(clippy::print_stdout)]

use ghostlight::{
    actor::Run,
    builtin,
    definition::{AgentSpec, OnHandoff, Sees},
    prelude::*,
    run::Team,
    vocabulary::{Role, Transfer},
};

/// Says how a parcel of this number travels.
#[tool(effect = "read")]
fn track_parcel(number: u64) -> String {
    format!("parcel {number} left the depot this morning")
}

fn shipping() -> Agent {
    Agent::new("shipping")
        .description("Knows where parcels and shipments are.")
        .tool(track_parcel)
}

/// A desk that leaves sums to the clerk and hands conversations to shipping.
fn desk() -> Result<Team, ghostlight::Error> {
    let clerk = Agent::new("clerk")
        .description("Calculates sums, percent and prices.")
        .tool_named("calculator"); // built in
    let desk = Agent::new("desk")
        .instructions("Leave sums to the clerk. Hand questions about parcels to shipping.")
        .delegate_to(clerk) // a call that returns
        .hand_off_to(shipping()); // who answers from there on
    Ok(desk.into_team()?)
}

/// A counter that hands the conversation to shipping, sees what was found, and answers itself. Shipping sees what was said,
/// without the counter's calls of tools.
fn counter() -> Result<Team, ghostlight::Error> {
    let counter = Agent::from_fn("counter", |cx: RunContext| async move {
        let Some(shipping) = cx.returned_by() else {
            return Ok(Outcome::Transfer(Transfer::to("shipping").returning()));
        };
        let said = cx.conversation().messages();
        let mut answers = said.iter().filter(|said| said.role == Role::Assistant);
        let found = answers.next_back().map(|said| said.content());
        Ok(Outcome::answer(format!(
            "Good news from {shipping}: {}",
            found.unwrap_or_default()
        )))
    });
    let sees = OnHandoff::new().sees(Sees::Spoken);
    Ok(counter.agent(shipping().on_handoff(sees)).into_team()?)
}

/// A foreman who defines two clerks for one task. They are stored with the run and survive a crash as it does. With
/// `create_agent` in its definition an agent's model makes agents: `examples/teams/workshop.yaml`.
fn foreman() -> Result<Team, ghostlight::Error> {
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
        let (first, second) = (first?.text, second?.text);
        Ok(Outcome::answer(format!("{first}; {second}")))
    });
    Ok(foreman.into_team()?)
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", OfflineModel)
        .team(desk()?)
        .team(counter()?)
        .team(foreman()?)
        .start()
        .await?;
    for (team, turn) in [
        ("desk", "What is 17% of 2340?"),
        ("desk", "Where is my parcel 4711?"),
        ("desk", "And where is parcel 4712?"),
        ("counter", "Where is my parcel 4711?"),
        ("foreman", "Compare them."),
    ] {
        println!("> {turn}");
        show(system.session(team, "ada").send(turn).await?).await?;
    }
    system.stop().await
}

async fn show(run: Run) -> Result<(), ghostlight::Error> {
    let mut events = run.events().recorded();
    while let Some(event) = events.next().await {
        println!("  {}", event?);
    }
    println!("= {}\n", run.outcome().await?.text());
    Ok(())
}
