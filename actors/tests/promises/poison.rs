//! An input that crashes its agent is taken out of its way, and the agent goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System, SystemError, supervisor::Backoff},
    contract::RunStatus,
    definition::WhileBusy,
    run::{Agent, RunContext, operations::AgentMessage},
    session::Turn,
    vocabulary::{AgentError, Entry, Event, Outcome},
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, ask, pause, silent, text};

/// Answers what it was asked and how much was said before; "poison" crashes it until it is
/// mended.
fn fragile(lives: &Arc<AtomicU32>, mended: &Arc<AtomicBool>) -> Agent {
    let (lives, mended) = (lives.clone(), mended.clone());
    Agent::from_fn("a", move |cx: RunContext| {
        let (lives, mended) = (lives.clone(), mended.clone());
        async move {
            let asked = cx.input().content();
            if asked == "poison" {
                lives.fetch_add(1, Ordering::SeqCst);
                assert!(mended.load(Ordering::SeqCst), "poisoned");
            }
            let said = cx.conversation().messages().len();
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(Outcome::answer(format!("{asked} {said}")))
        }
    })
}

struct Poisoned {
    stage: Stage,
    lives: Arc<AtomicU32>,
    mended: Arc<AtomicBool>,
}

impl Poisoned {
    fn new() -> Self {
        let (stage, lives, mended) = (Stage::new(), Arc::default(), Arc::default());
        Self {
            stage,
            lives,
            mended,
        }
    }

    async fn start(&self) -> System {
        self.stage.start(fragile(&self.lives, &self.mended)).await
    }

    fn lives(&self) -> u32 {
        self.lives.load(Ordering::SeqCst)
    }
}

async fn crashed(run: &Run) -> (u32, String) {
    let hour = Duration::from_secs(3600);
    let outcome = tokio::time::timeout(hour, run.outcome()).await;
    match outcome.expect("the run hangs") {
        Err(SystemError::Parked {
            error: AgentError::Crashed { times, reason },
            ..
        }) => (times, reason),
        other => panic!("{other:?}"),
    }
}

async fn becomes(run: &Run, status: RunStatus) {
    for _ in 0..1000 {
        if run.status().await.unwrap().status == status {
            return;
        }
        pause(100).await;
    }
    panic!("it is {}", run.status().await.unwrap().status);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_crashes_its_agent_is_parked_with_its_reason_and_the_session_goes_on() {
    let poisoned = Poisoned::new();
    let system = poisoned.start().await;
    assert_eq!(text(&ask(&system, "a", "one").await).await, "one 1");
    let session = system.session("a", "s");
    let turn = Turn::text("poison").id("bad");
    let run = session.send(turn.clone()).await.unwrap();
    // It waits behind the poison, and gets its turn. What was quarantined is no part of the past.
    assert_eq!(text(&ask(&system, "a", "two").await).await, "two 3");
    let (times, reason) = crashed(&run).await;
    assert_eq!(times, 3);
    assert!(reason.contains("poisoned"), "{reason}");
    assert_eq!(run.status().await.unwrap().status, RunStatus::Parked);
    let events = run.events().so_far().await.unwrap();
    let told = |event: &Event| {
        matches!(
            event,
            Event::Parked {
                reason: AgentError::Crashed { .. }
            }
        )
    };
    assert!(events.iter().any(|record| told(&record.event)));
    // Said again under its id it is the same run, and is not tried again for that.
    assert_eq!(session.send(turn).await.unwrap().id(), run.id());
    pause(60_000).await;
    assert_eq!(poisoned.lives(), 3);
    assert_eq!(text(&ask(&system, "a", "three").await).await, "three 5");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_a_crashing_run_heard_is_parked_with_it_and_not_said_again() {
    for restarted in [false, true] {
        let mut stage = Stage::new();
        let team = || {
            let agent = Agent::from_fn("a", |cx: RunContext| async move {
                while cx.input().content() == "begin" {
                    cx.sleep(Duration::from_secs(1)).await?;
                    let heard = cx.hear();
                    cx.sleep(Duration::from_secs(1)).await?;
                    assert!(heard.is_empty(), "poisoned");
                }
                Ok(Outcome::answer(cx.input().content()))
            });
            let team = agent.into_team().unwrap();
            team.define(|team| team.while_busy = WhileBusy::Steer)
        };
        let start = |stage: &Stage| {
            let builder = System::builder(stage.store.clone()).options(stage.limits);
            builder.model("default", silent()).team(team()).start()
        };
        let mut system = start(&stage).await.unwrap();
        let begun = ask(&system, "a", "begin").await;
        pause(500).await;
        let bad = Turn::text("poison").id("bad");
        let said = system.session("a", "s").send(bad.clone()).await.unwrap();
        assert_eq!(said.id(), begun.id());
        assert_eq!(crashed(&said).await.0, 3);
        if restarted {
            stage.crash(&system).await;
            system = start(&stage).await.unwrap();
        }
        let session = system.session("a", "s");
        assert!(session.has_turn("bad").await.unwrap());
        let again = session.send(bad).await.unwrap();
        assert_eq!(again.id(), begun.id());
        assert_eq!(crashed(&again).await.0, 3);
        assert_eq!(text(&ask(&system, "a", "on").await).await, "on");
        // Another turn that began since does not stand for it.
        assert_eq!(crashed(&session.said_to(begun.id(), "bad")).await.0, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn the_count_of_crashes_outlasts_processes() {
    let mut poisoned = Poisoned::new();
    let ten = Duration::from_secs(10);
    poisoned.stage.limits.run_backoff = Backoff::exponential(ten, ten);
    let system = poisoned.start().await;
    let run = ask(&system, "a", "poison").await;
    while poisoned.lives() < 2 {
        pause(100).await;
    }
    pause(100).await;
    // The first crash is recorded; the second dies with its process.
    poisoned.stage.crash(&system).await;
    let system = poisoned.start().await;
    let run = system.run(run.id());
    assert_eq!(crashed(&run).await.0, 3);
    assert_eq!(poisoned.lives(), 4);
    // It stays aside over another restart.
    poisoned.stage.crash(&system).await;
    let system = poisoned.start().await;
    assert_eq!(text(&ask(&system, "a", "on").await).await, "on 1");
    assert_eq!(poisoned.lives(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_turn_is_retried_once_mended_in_its_turn_and_joins_the_conversation() {
    for restarted in [false, true] {
        let mut poisoned = Poisoned::new();
        let mut system = poisoned.start().await;
        assert_eq!(text(&ask(&system, "a", "one").await).await, "one 1");
        let bad = ask(&system, "a", "poison").await.id();
        crashed(&system.run(bad)).await;
        assert_eq!(text(&ask(&system, "a", "two").await).await, "two 3");
        poisoned.mended.store(true, Ordering::SeqCst);
        if restarted {
            poisoned.stage.crash(&system).await;
            system = poisoned.start().await;
        }
        let three = ask(&system, "a", "three").await;
        let bad = system.run(bad);
        bad.retry().await.unwrap();
        assert!(three.status().await.unwrap().status.is_ended(), "its turn");
        assert_eq!(text(&bad).await, "poison 3", "it has the past that it had");
        assert_eq!(text(&ask(&system, "a", "four").await).await, "four 9");
        assert_eq!(poisoned.stage.ends(bad.id()).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_turn_that_a_crash_of_the_process_interrupts_goes_on() {
    let mut poisoned = Poisoned::new();
    let system = poisoned.start().await;
    let bad = ask(&system, "a", "poison").await.id();
    crashed(&system.run(bad)).await;
    poisoned.mended.store(true, Ordering::SeqCst);
    system.run(bad).retry().await.unwrap();
    pause(500).await;
    poisoned.stage.crash(&system).await;
    let system = poisoned.start().await;
    assert_eq!(text(&system.run(bad)).await, "poison 1");
    assert_eq!(text(&ask(&system, "a", "two").await).await, "two 3");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_crashes_again_is_parked_again_after_as_many_crashes() {
    let poisoned = Poisoned::new();
    let system = poisoned.start().await;
    let bad = ask(&system, "a", "poison").await;
    crashed(&bad).await;
    bad.retry().await.unwrap();
    becomes(&bad, RunStatus::Parked).await;
    assert_eq!(poisoned.lives(), 6);
    assert_eq!(text(&ask(&system, "a", "on").await).await, "on 1");
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_turn_is_cancelled_as_it_stands_also_by_the_next_process() {
    for restarted in [false, true] {
        let mut poisoned = Poisoned::new();
        let mut system = poisoned.start().await;
        let bad = ask(&system, "a", "poison").await.id();
        crashed(&system.run(bad)).await;
        if restarted {
            poisoned.stage.crash(&system).await;
            system = poisoned.start().await;
        }
        assert!(system.run(bad).cancel("enough").await.unwrap());
        becomes(&system.run(bad), RunStatus::Cancelled).await;
        assert_eq!(poisoned.lives(), 3);
        assert_eq!(poisoned.stage.ends(bad).await, 1);
        assert!(text(&ask(&system, "a", "on").await).await.starts_with("on"));
    }
}

#[derive(Serialize, Deserialize)]
struct Amount(u32);

impl AgentMessage for Amount {
    const NAME: &'static str = "amount";
}

/// Adds up what it is told; 13 crashes it.
fn adder() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let mut sum = 0;
        loop {
            let Amount(amount) = cx.receive().await?;
            assert!(amount != 13, "unlucky");
            if amount == 0 {
                return Ok(Outcome::answer(format!("{sum}")));
            }
            sum += amount;
            cx.emit("sum", &sum);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_message_that_crashes_a_run_is_quarantined_and_the_run_receives_the_next() {
    let mut stage = Stage::new();
    let system = stage.start(adder()).await;
    let run = ask(&system, "a", "go").await.id();
    for amount in [1, 13, 2, 13, 4] {
        system.run(run).tell(&Amount(amount)).await.unwrap();
        pause(30_000).await;
    }
    stage.crash(&system).await;
    let system = stage.start(adder()).await;
    system.run(run).tell(&Amount(0)).await.unwrap();
    assert_eq!(text(&system.run(run)).await, "7");
    let entries = stage.entries(run).await;
    let aside = |entry: &&Entry| matches!(entry, Entry::Quarantined { .. });
    assert_eq!(entries.iter().filter(aside).count(), 2);
    let restarts = |entry: &&Entry| matches!(entry, Entry::Restarted { .. });
    assert_eq!(entries.iter().filter(restarts).count(), 6);
    let events = system.run(run).events().so_far().await.unwrap();
    let told = |event: &Event| matches!(event, Event::MessageQuarantined { .. });
    assert_eq!(events.iter().filter(|r| told(&r.event)).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_on_crashes_the_restart_intensity_still_ends_the_spinning() {
    let mut poisoned = Poisoned::new();
    poisoned.stage.limits.quarantine_after = 0;
    let system = poisoned.start().await;
    let run = ask(&system, "a", "poison").await;
    let began = tokio::time::Instant::now();
    assert_eq!(crashed(&run).await.0, 11, "ten restarts within a minute");
    assert_eq!(poisoned.lives(), 11);
    // The pauses grow from 50 ms to 5 s; jitter takes away less than half of each.
    assert!(began.elapsed() >= Duration::from_secs(9), "it spins");
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_turn_that_a_rewind_took_back_does_not_come_back() {
    for restarted in [false, true] {
        let mut poisoned = Poisoned::new();
        let mut system = poisoned.start().await;
        assert_eq!(text(&ask(&system, "a", "one").await).await, "one 1");
        let bad = ask(&system, "a", "poison").await;
        crashed(&bad).await;
        assert_eq!(text(&ask(&system, "a", "two").await).await, "two 3");
        system.session("a", "s").rewind(1).await.unwrap();
        assert_eq!(text(&ask(&system, "a", "three").await).await, "three 3");
        if restarted {
            poisoned.stage.crash(&system).await;
            system = poisoned.start().await;
        }
        poisoned.mended.store(true, Ordering::SeqCst);
        let bad = system.run(bad.id());
        bad.retry().await.unwrap();
        assert_eq!(
            text(&bad).await,
            "poison 3",
            "it ends, and is heard no more"
        );
        let session = system.session("a", "s");
        let said = async || session.transcript().await.unwrap().messages().len();
        assert_eq!(said().await, 4);
        assert_eq!(text(&ask(&system, "a", "four").await).await, "four 5");
        // The log counts as the conversation does.
        session.rewind(2).await.unwrap();
        assert_eq!(said().await, 4);
        let log = session.log().await.unwrap();
        let turns: Vec<&str> = log.turns.iter().map(|turn| turn.said.as_str()).collect();
        assert_eq!((turns, log.messages), (vec!["one", "three"], 4));
    }
}
