//! Runs that go on for ever, journal after journal.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext, Task, operations::AgentMessage},
    session::Turn,
    testing::{CrashOptions, Fault, FaultyStore, Harm, Scenario, Strike, crash_everywhere},
    vocabulary::{AgentError, Effect, Entry, Outcome, ParentPolicy, Resource},
};
use serde::{Deserialize, Serialize};

use crate::stage::{SlowStore, Stage, ask, pause, silent, text};

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

#[tokio::test(start_paused = true)]
async fn a_run_that_nears_its_bound_of_entries_is_warned_once_at_each_share_also_over_a_crash() {
    let mut stage = Stage::new();
    stage.limits.max_entries = 50;
    // It takes notes until it may no more.
    let diarist = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let mut notes = 0;
            loop {
                cx.sleep(Duration::from_secs(1)).await?;
                let note = cx.step("note", Effect::Read, async { Ok::<_, AgentError>(1) });
                match note.await {
                    Ok(note) => notes += note,
                    Err(error) => return Ok(Outcome::answer(format!("{notes}: {error}"))),
                }
            }
        })
    };
    let start = async |stage: &Stage| {
        let team = diarist().into_team().unwrap().budget_warnings([50, 80]);
        let builder = System::builder(stage.store.clone()).options(stage.limits);
        let builder = builder.model("default", silent()).team(team);
        builder.start().await.unwrap()
    };
    let system = start(&stage).await;
    let run = ask(&system, "a", "go").await.id();
    pause(10_000).await;
    stage.crash(&system).await;
    let system = start(&stage).await;
    text(&system.run(run)).await;
    let entries = stage.entries(run).await;
    let warned: Vec<(usize, u8)> = entries
        .iter()
        .enumerate()
        .filter_map(|(place, entry)| match entry {
            Entry::BudgetWarned {
                resource: Resource::Entries,
                percent,
                used,
                bound,
            } => {
                assert_eq!((*used, *bound), (place as u64, 50));
                Some((place, *percent))
            }
            _ => None,
        })
        .collect();
    let shares: Vec<u8> = warned.iter().map(|(_, percent)| *percent).collect();
    assert_eq!(shares, [50, 80], "{warned:?}");
    for (place, percent) in warned {
        let due = 50 * usize::from(percent) / 100;
        assert!(
            (due..due + 4).contains(&place),
            "{percent}% at entry {place}"
        );
    }
    let events = system.run(run).events().so_far().await.unwrap();
    let told = events
        .iter()
        .filter(|event| event.to_string().contains("go on in another"));
    assert_eq!(told.count(), 2);
}

/// Counts to three, a second for each, in a journal for each.
fn walker() -> Agent {
    Agent::from_fn("walker", |cx: RunContext| async move {
        let steps: u32 = cx.input().content().parse().unwrap_or(0);
        if steps == 3 {
            return Ok(Outcome::answer("there"));
        }
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(cx.continue_as((steps + 1).to_string()))
    })
}

/// Waits for such a child as its input says, while it walks or when it has arrived.
fn waiting() -> Agent {
    let waits = |cx: RunContext| async move {
        let how = cx.input().content();
        if how == "delegate" {
            let delegated = cx.delegate("walker", "0").await?;
            return Ok(Outcome::answer(delegated.text));
        }
        if how == "drop" {
            let (walk, rest) = (
                cx.delegate("walker", "0"),
                cx.sleep(Duration::from_millis(2500)),
            );
            tokio::select! {
                biased;
                walked = walk => return Ok(Outcome::answer(walked?.text)),
                rested = rest => rested?,
            }
            return Ok(Outcome::answer("enough"));
        }
        let policy = match how.contains("adopt") {
            true => ParentPolicy::Adopt,
            false => ParentPolicy::Stop,
        };
        let child = cx.spawn("walker", Task::from("0").when_parent_ends(policy));
        let child = child.await?;
        if how.contains("late") {
            cx.sleep(Duration::from_secs(10)).await?;
        }
        Ok(Outcome::answer(cx.join(&child).await?.text))
    };
    Agent::from_fn("a", waits).agent(walker())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_goes_on_in_other_journals_is_waited_for_until_it_ends() {
    let stage = Stage::new();
    let system = stage.start(waiting()).await;
    for how in [
        "delegate",
        "join",
        "join late",
        "join adopt",
        "join adopt late",
    ] {
        assert_eq!(text(&ask(&system, "a", how).await).await, "there", "{how}");
    }
    assert_eq!(text(&ask(&system, "a", "drop").await).await, "enough");
    pause(10_000).await;
    assert!(stage.rows().await.iter().all(|row| row.status.is_ended()));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_goes_on_in_other_journals_is_waited_for_wherever_a_crash_strikes() {
    for how in ["join", "join late", "delegate", "drop"] {
        let scenario = Scenario::new("a", |builder, _log| {
            builder.team(waiting().into_team().unwrap())
        });
        let scenario = scenario.named(how).turn(how);
        for options in [CrashOptions::default(), CrashOptions::default().calls(40)] {
            let report = crash_everywhere(&scenario, options).await;
            assert!(report.violations.is_empty(), "{report}");
        }
    }
}

/// The write that closes a journal fails for its run, and is durable nevertheless.
#[tokio::test(start_paused = true)]
async fn what_comes_while_a_journal_closes_is_received_although_that_write_is_said_to_have_failed()
{
    let mut told = 0;
    for (call, moment) in (2..5).flat_map(|call| (0..300).step_by(12).map(move |at| (call, at))) {
        let mut stage = Stage::new();
        // Looks for posted items also happen while the journal is being closed.
        stage.limits.poll_interval = Duration::from_millis(2);
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let heard = cx.input().content();
            if heard.len() > 8 {
                return Ok(Outcome::answer(heard));
            }
            let told = cx.timeout(Duration::from_millis(20), cx.receive::<Tick>());
            let word = told
                .await
                .map_or_else(|_| "-".to_owned(), |told| told.unwrap().0.to_string());
            Ok(cx.continue_as(format!("{heard}{word}")))
        });
        let (strike, harm) = (Strike::After, Harm::Fail);
        let store = SlowStore::to_commit(stage.store.clone().keeping(usize::MAX));
        let store = FaultyStore::at_commit(store, Fault { call, strike, harm });
        let system = System::builder(store).options(stage.limits);
        let system = system.model("default", silent());
        let system = system.team(agent.into_team().unwrap());
        let system = system.start().await.unwrap();
        let run = ask(&system, "a", "-").await;
        pause(moment).await;
        if run.tell(&Tick(7)).await.is_ok() {
            told += 1;
            let heard = text(&run).await;
            let place = format!("{heard}, told after {moment} ms, commit {call} failed");
            assert_eq!(heard.matches('7').count(), 1, "{place}");
        }
    }
    assert!(told > 50, "{told}");
}
