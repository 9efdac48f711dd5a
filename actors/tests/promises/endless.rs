//! Runs that go on for ever, journal after journal.

use std::time::Duration;

use ghostlight_actors::{
    run::{Agent, RunContext, operations::AgentMessage},
    session::Turn,
    vocabulary::Outcome,
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, ask, pause, text};

#[derive(Serialize, Deserialize)]
struct Tick(u32);

impl AgentMessage for Tick {
    const NAME: &'static str = "tick";
}

/// Adds up ticks, each in a journal of its own; 0 ends it.
fn counter() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let sum: u32 = cx.input().content().parse().unwrap_or(0);
        let Tick(more) = cx.receive().await?;
        if more == 0 {
            return Ok(Outcome::answer(sum.to_string()));
        }
        Ok(cx.continue_as((sum + more).to_string()))
    })
}

#[tokio::test(start_paused = true)]
async fn an_endless_run_goes_on_over_sleeps_passivations_and_processes() {
    let mut stage = Stage::new();
    stage.limits.passivate_after = Duration::from_secs(60);
    let mut system = stage.start(counter()).await;
    let turn = Turn::text("0").id("t");
    let run = system.session("a", "s").send(turn.clone()).await.unwrap();
    let first = run.id();
    for round in 0..12 {
        system.run(first).tell(&Tick(2)).await.unwrap();
        match round % 4 {
            // It is woken by the next tick: out of memory, from a next process, or in the
            // middle of its work.
            0 => pause(600_000).await,
            1 => stage.crash(&system).await,
            2 => {
                pause(1_000).await;
                stage.crash(&system).await;
            }
            _ => pause(1).await,
        }
        if round % 4 == 1 || round % 4 == 2 {
            system = stage.start(counter()).await;
        }
        // The same turn is the same run.
        let again = system.session("a", "s").send(turn.clone()).await.unwrap();
        assert_eq!(again.id(), first);
    }
    system.run(first).tell(&Tick(0)).await.unwrap();
    assert_eq!(text(&system.run(first)).await, "24");
    assert_eq!(text(&again(&system).await).await, "7");
}

async fn again(system: &ghostlight_actors::actor::System) -> ghostlight_actors::actor::Run {
    let run = ask(system, "a", "7").await;
    run.tell(&Tick(0)).await.unwrap();
    run
}

#[tokio::test(start_paused = true)]
async fn an_endless_run_goes_on_by_itself_after_a_crash() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let round: u32 = cx.input().content().parse().unwrap_or(0);
            if round == 20 {
                return Ok(Outcome::answer("done"));
            }
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(cx.continue_as((round + 1).to_string()))
        })
    };
    let mut system = stage.start(agent()).await;
    let run = ask(&system, "a", "0").await.id();
    for _ in 0..5 {
        pause(2_500).await;
        stage.crash(&system).await;
        // Nobody says the turn again, and nobody asks for the run.
        system = stage.start(agent()).await;
    }
    pause(60_000).await;
    assert!(stage.rows().await.iter().all(|row| row.status.is_ended()));
    assert_eq!(text(&system.run(run)).await, "done");
}
