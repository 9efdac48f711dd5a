//! The six usual changes of a workflow's code, made while its runs sleep. `docs/guide/changing-code.md`
//! tells of each.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System},
    run::{Agent, RunContext, replay},
    session::Turn,
    vocabulary::{AgentError, Effect, Outcome, ToolCall},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    stage::{Stage, pause, text},
    time_travel::recorded,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Which change is made, and whether the code has it.
#[derive(Clone, Copy, Debug)]
struct Code {
    change: Change,
    is_new: bool,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Remove,
    Reorder,
    Arguments,
    ResultType,
    Split,
}

/// A step whose result is its own name.
async fn step(cx: &RunContext, name: &'static str) -> Result<String, AgentError> {
    let done = async move { Ok::<_, std::io::Error>(name.to_owned()) };
    cx.step(name, Effect::Once, done).await
}

#[derive(Serialize, Deserialize)]
struct Price {
    net: u32,
    currency: String,
}

async fn price(cx: &RunContext) -> Result<u32, AgentError> {
    let net = async { Ok::<_, std::io::Error>(7) };
    cx.step("price", Effect::Read, net).await
}

async fn price_with_currency(cx: &RunContext) -> Result<Price, AgentError> {
    let currency = "EUR".to_owned();
    let price = async { Ok::<_, std::io::Error>(Price { net: 7, currency }) };
    cx.step("price", Effect::Read, price).await
}

async fn look(cx: &RunContext, what: u32) -> Result<String, AgentError> {
    let call = ToolCall::new("1", "look", json!({ "what": what }));
    cx.tool_unasked(call).await?;
    Ok(format!("look {what}"))
}

impl Code {
    /// The part of the workflow that changes.
    async fn changes(self, cx: &RunContext) -> Result<Vec<String>, AgentError> {
        if !self.is_new {
            return self.as_it_was(cx).await;
        }
        match self.change {
            Change::Add => {
                let mut done = Vec::new();
                if cx.version("check before booking", 1).await? >= 1 {
                    done.push(step(cx, "check").await?);
                }
                done.push(step(cx, "book").await?);
                Ok(done)
            }
            Change::Remove => {
                if cx.version("no booking", 1).await? == 0 {
                    return self.as_it_was(cx).await;
                }
                Ok(Vec::new())
            }
            Change::Reorder => {
                if cx.version("pay before booking", 1).await? == 0 {
                    return self.as_it_was(cx).await;
                }
                Ok(vec![step(cx, "pay").await?, step(cx, "book").await?])
            }
            Change::Arguments => {
                let what = match cx.version("look for two", 1).await? {
                    0 => 1,
                    _ => 2,
                };
                Ok(vec![look(cx, what).await?])
            }
            Change::ResultType => {
                let Price { net, currency } = match cx.version("prices have currencies", 1).await? {
                    0 => Price {
                        net: price(cx).await?,
                        currency: "unknown".to_owned(),
                    },
                    _ => price_with_currency(cx).await?,
                };
                Ok(vec![format!("{net} {currency}")])
            }
            Change::Split => {
                if cx.version("booking is an agent", 1).await? == 0 {
                    return self.as_it_was(cx).await;
                }
                Ok(vec![cx.delegate("booking", "book").await?.text])
            }
        }
    }

    async fn as_it_was(self, cx: &RunContext) -> Result<Vec<String>, AgentError> {
        match self.change {
            Change::Arguments => Ok(vec![look(cx, 1).await?]),
            Change::ResultType => Ok(vec![format!("{} unknown", price(cx).await?)]),
            Change::Reorder => Ok(vec![step(cx, "book").await?, step(cx, "pay").await?]),
            _ => Ok(vec![step(cx, "book").await?]),
        }
    }

    fn team(self, stage: &Stage) -> Agent {
        let booking = Agent::from_fn("booking", |cx: RunContext| async move {
            let booked = step(&cx, "book").await?;
            Ok(Outcome::answer(format!("{booked} by an agent")))
        });
        Agent::from_fn("a", move |cx: RunContext| async move {
            let mut done = vec![step(&cx, "begin").await?];
            cx.sleep(MINUTE).await?;
            done.extend(self.changes(&cx).await?);
            cx.sleep(MINUTE).await?;
            done.push(step(&cx, "end").await?);
            Ok(Outcome::answer(done.join(", ")))
        })
        .tool(stage.tool("look", Effect::Read, 1))
        .agent(booking)
    }
}

async fn send(system: &System, session: &str) -> Run {
    let session = system.session("a", session);
    session.send(Turn::text("go")).await.unwrap()
}

/// Four runs: one that ended before the change, one that sleeps past it, one that sleeps before it,
/// and a new one.
async fn is_changed_safely(change: Change, old: &str, new: &str) {
    let mut stage = Stage::new();
    let code = |is_new| Code { change, is_new };
    let system = stage.start(code(false).team(&stage)).await;
    let ended = send(&system, "ended").await;
    assert_eq!(text(&ended).await, old);
    let past = send(&system, "past").await;
    pause(90_000).await;
    let before = send(&system, "before").await;
    pause(10_000).await;
    stage.crash(&system).await;
    let system = stage.start(code(true).team(&stage)).await;
    let fresh = send(&system, "new").await;
    for (run, expected) in [(&past, old), (&before, new), (&fresh, new)] {
        let run = system.run(run.id());
        assert_eq!(text(&run).await, expected, "{change:?}");
    }
    let registry = code(true).team(&stage).into_team().unwrap().registry;
    for run in [ended, past, before, fresh] {
        let recorded = recorded(&stage, run.id()).await;
        let replayed = replay(&recorded, &registry, None).unwrap();
        assert!(replayed.is_faithful(), "{change:?}: {replayed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_is_added() {
    is_changed_safely(Change::Add, "begin, book, end", "begin, check, book, end").await;
}

#[tokio::test(start_paused = true)]
async fn a_step_is_removed() {
    is_changed_safely(Change::Remove, "begin, book, end", "begin, end").await;
}

#[tokio::test(start_paused = true)]
async fn steps_are_reordered() {
    let (old, new) = ("begin, book, pay, end", "begin, pay, book, end");
    is_changed_safely(Change::Reorder, old, new).await;
}

#[tokio::test(start_paused = true)]
async fn arguments_are_changed() {
    let (old, new) = ("begin, look 1, end", "begin, look 2, end");
    is_changed_safely(Change::Arguments, old, new).await;
}

#[tokio::test(start_paused = true)]
async fn the_type_of_a_result_is_changed() {
    let (old, new) = ("begin, 7 unknown, end", "begin, 7 EUR, end");
    is_changed_safely(Change::ResultType, old, new).await;
}

#[tokio::test(start_paused = true)]
async fn a_function_is_split() {
    let (old, new) = ("begin, book, end", "begin, book by an agent, end");
    is_changed_safely(Change::Split, old, new).await;
}

/// Code that asks for a version before and after it sleeps.
fn versioned(max: u32, asks_first: bool) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| async move {
        let mut versions = Vec::new();
        if asks_first {
            versions.push(cx.version("layout", max).await?);
        }
        step(&cx, "one").await?;
        cx.sleep(MINUTE).await?;
        versions.push(cx.version("layout", max).await?);
        step(&cx, "two").await?;
        let beside = cx.lane("beside");
        versions.push(beside.version("layout", max).await?);
        cx.sleep(MINUTE).await?;
        Ok(Outcome::answer(format!("{versions:?}")))
    })
}

/// The version is added where the run is past it; what was answered first stands, also later and
/// in other lives.
#[tokio::test(start_paused = true)]
async fn a_name_has_one_version_for_the_whole_run() {
    let mut stage = Stage::new();
    let plain = Agent::from_fn("a", |cx: RunContext| async move {
        step(&cx, "one").await?;
        cx.sleep(MINUTE).await?;
        Ok(Outcome::answer("never"))
    });
    let system = stage.start(plain).await;
    let run = send(&system, "s").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(versioned(1, true)).await;
    pause(70_000).await;
    stage.crash(&system).await;
    let system = stage.start(versioned(2, true)).await;
    assert_eq!(text(&system.run(run.id())).await, "[0, 0, 0]");
    assert_eq!(text(&send(&system, "t").await).await, "[2, 2, 2]");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_code_does_not_know_parks() {
    let mut stage = Stage::new();
    let system = stage.start(versioned(2, true)).await;
    let run = send(&system, "s").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(versioned(1, true)).await;
    let run = system.run(run.id());
    let error = run.outcome().await.unwrap_err().to_string();
    assert!(error.contains("version 2 of \"layout\""), "{error}");
    stage.crash(&system).await;
    let system = stage.start(versioned(3, true)).await;
    let run = system.run(run.id());
    run.retry().await.unwrap();
    assert_eq!(text(&run).await, "[2, 2, 2]");
}
