//! The machine sleeps, and somebody corrects its clock: what goes by the wall follows it, and what
//! lasts some time lasts that long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    definition::{Missed, Schedule},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::SimulatedClock,
    vocabulary::{AgentError, Effect, Outcome, Question, StopReason, Timestamp, ToolDefinition},
};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, call, pause, silent};

const NOON: Timestamp = Timestamp(1_743_249_600_000);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

async fn start(stage: &Stage, clock: &SimulatedClock, team: Team) -> System {
    System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(clock.clone())
        .model("default", silent())
        .team(team)
        .start()
        .await
        .unwrap()
}

/// How long the run takes from now on.
async fn rest(run: &Run) -> (Result<Outcome, String>, Duration) {
    let began = Instant::now();
    let outcome = run.outcome().await.map_err(|error| error.to_string());
    (outcome, began.elapsed())
}

/// Waits for an hour, or for an answer that expires in an hour, or for a tool that takes an hour.
fn waiting(stage: &Stage) -> Agent {
    let slow = ToolDefinition::new("slow", "takes an hour").effect(Effect::Read);
    let slow = stage.log.tool(slow.timeout(2 * HOUR), HOUR);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "sleep" => cx.sleep(HOUR).await?,
            "expiry" => {
                let mut question = Question::new("well?");
                question.default = Some(json!("nobody"));
                question.expires = Some(cx.now().await?.after(HOUR));
                cx.ask(question).await?;
            }
            "timeout" => {
                let asked = cx.ask(Question::new("well?"));
                if cx.timeout(HOUR, asked).await.is_ok() {
                    return Err(AgentError::failed("answered"));
                }
            }
            _ => drop(cx.tool_unasked(call("1", "slow")).await?),
        }
        Ok(Outcome::answer("over"))
    });
    agent.tool(slow)
}

#[tokio::test(start_paused = true)]
async fn after_the_machine_slept_what_is_due_by_the_wall_is_done_at_once_and_no_interval_is_cut_short()
 {
    for lingers in [true, false] {
        let mut stage = Stage::new();
        stage.limits.poll_interval = 5 * SECOND;
        stage.limits.linger = if lingers { 100 * HOUR } else { Duration::ZERO };
        let clock = SimulatedClock::starting_at(NOON);
        let system = start(&stage, &clock, waiting(&stage).into_team().unwrap()).await;
        let mut runs = Vec::new();
        for what in ["sleep", "expiry", "timeout", "tool", "deadline"] {
            let turn = match what {
                "deadline" => Turn::text("tool").deadline(NOON.after(HOUR)),
                _ => Turn::text(what),
            };
            let run = system.session("a", what).send(turn).await.unwrap();
            runs.push((what, run));
        }
        pause(10_000).await;
        clock.advance(8 * HOUR);
        for (what, run) in runs {
            let (outcome, took) = rest(&run).await;
            let text = outcome.unwrap();
            match what {
                "tool" => assert!(took > 3_500 * SECOND, "{what}: {took:?}"),
                _ => assert!(took <= 6 * SECOND, "{what}, {lingers}: {took:?}"),
            }
            let stopped = matches!(
                text,
                Outcome::Stopped {
                    reason: StopReason::Deadline,
                    ..
                }
            );
            assert_eq!(stopped, what == "deadline", "{what}: {text:?}");
        }
        pause(5_000).await;
        let jumps = system.clock_jumps();
        let [jump] = jumps[..] else {
            panic!("{jumps:?}");
        };
        assert_eq!(jump.by_ms, 8 * 3_600_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_interval_longer() {
    for lingers in [true, false] {
        let mut stage = Stage::new();
        stage.limits.poll_interval = 5 * SECOND;
        stage.limits.linger = if lingers { 100 * HOUR } else { Duration::ZERO };
        let clock = SimulatedClock::starting_at(NOON);
        let system = start(&stage, &clock, waiting(&stage).into_team().unwrap()).await;
        let mut runs = Vec::new();
        for what in ["sleep", "timeout", "tool"] {
            runs.push((what, system.session("a", what).send(what).await.unwrap()));
        }
        pause(1_000_000).await;
        clock.set_back(8 * HOUR);
        pause(1_000_000).await;
        clock.set_back(HOUR);
        for (what, run) in runs {
            let began = Instant::now();
            assert_eq!(rest(&run).await.0.unwrap().text(), "over");
            assert!(began.elapsed() <= 1_610 * SECOND, "{what}, {lingers}");
        }
        // What begins now lasts as long as it says, too.
        let run = system.session("a", "later").send("sleep").await.unwrap();
        let (_, took) = rest(&run).await;
        assert!((HOUR..HOUR + 2 * SECOND).contains(&took), "{took:?}");
        let jumps: Vec<i64> = system.clock_jumps().iter().map(|jump| jump.by_ms).collect();
        assert_eq!(jumps, [-8 * 3_600_000, -3_600_000]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expiry_follows_the_wall_that_is_set_back() {
    let stage = Stage::alone();
    let clock = SimulatedClock::starting_at(NOON);
    let system = start(&stage, &clock, waiting(&stage).into_team().unwrap()).await;
    let run = system.session("a", "s").send("expiry").await.unwrap();
    pause(600_000).await;
    clock.set_back(HOUR / 2);
    let (outcome, took) = rest(&run).await;
    assert_eq!(outcome.unwrap().text(), "over");
    let left = HOUR + HOUR / 2 - 600 * SECOND;
    assert!((left..left + 2 * SECOND).contains(&took), "{took:?}");
}

/// Counts how often it is asked.
fn counting(said: &Arc<AtomicU32>) -> Agent {
    let said = said.clone();
    Agent::from_fn("a", move |_cx: RunContext| {
        let said = said.clone();
        async move {
            said.fetch_add(1, SeqCst);
            Ok(Outcome::answer("heard"))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn schedules_follow_the_wall_forward_at_once_and_back_without_saying_a_time_twice() {
    let mut stage = Stage::new();
    stage.limits.poll_interval = 5 * SECOND;
    let clock = SimulatedClock::starting_at(NOON);
    let said = Arc::new(AtomicU32::new(0));
    let daily = Schedule::cron("evening", "0 20 * * *", "plan").missed(Missed::Once);
    let team = counting(&said).into_team().unwrap().schedule(daily);
    let system = start(&stage, &clock, team).await;
    pause(10_000).await;
    assert_eq!(said.load(SeqCst), 0);
    // The machine sleeps from noon to a minute after eight.
    clock.advance(8 * HOUR + 60 * SECOND);
    pause(3_000).await;
    assert_eq!(said.load(SeqCst), 1, "at once");
    // Set back to half past seven: eight comes again, and was said.
    clock.set_back(HOUR / 2);
    pause(3_600_000).await;
    assert_eq!(said.load(SeqCst), 1, "not twice");
    let next = system.schedules().await.unwrap()[0].next;
    assert_eq!(next, Some(NOON.after(32 * HOUR)));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_was_kept_while_the_clock_was_years_ahead_does_not_wait_for_years() {
    let mut stage = Stage::new();
    stage.limits.poll_interval = 5 * SECOND;
    let years = 4 * 365 * 24 * HOUR;
    let clock = SimulatedClock::starting_at(NOON.after(years));
    let said = Arc::new(AtomicU32::new(0));
    let hourly = Schedule::every("pulse", HOUR, "wake");
    let team = counting(&said).into_team().unwrap().schedule(hourly);
    let _system = start(&stage, &clock, team).await;
    pause(10_000).await;
    clock.set_back(years);
    pause(7_300_000).await;
    assert_eq!(said.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_read_of_the_clock_is_what_its_next_life_reads() {
    let mut stage = Stage::new();
    let clock = SimulatedClock::starting_at(NOON);
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let began = cx.now().await?;
            cx.ask(Question::new("well?")).await?;
            let ended = cx.now().await?;
            Ok(Outcome::answer(format!("{} {}", began.0, ended.0)))
        })
    };
    let system = start(&stage, &clock, agent().into_team().unwrap()).await;
    let run = system.session("a", "s").send("go").await.unwrap().id();
    pause(1_000).await;
    stage.crash(&system).await;
    clock.set_back(8 * HOUR);
    let system = start(&stage, &clock, agent().into_team().unwrap()).await;
    pause(1_000).await;
    let run = system.run(run);
    let (of, operation, _) = run.questions().await.unwrap().remove(0);
    system
        .run(of)
        .answer(operation, json!("yes"))
        .await
        .unwrap();
    let answer = run.outcome().await.unwrap().text().to_owned();
    let times: Vec<u64> = answer
        .split(' ')
        .map(|time| time.parse().unwrap())
        .collect();
    assert!((NOON.0..NOON.0 + 1_000).contains(&times[0]), "{times:?}");
    assert!(times[1] < NOON.0, "the wall was set back: {times:?}");
}
