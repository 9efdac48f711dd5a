//! What comes for a run reaches it in whatever journal it goes on: what it is told, and asked, and its
//! cancellation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::System,
    contract::{DynStore as _, ItemBody, MailboxItem, RunStatus, Ticket},
    definition::WhileBusy,
    run::{Agent, RunContext, operations::AgentMessage},
    session::Turn,
    testing::{CrashOptions, InMemoryStore, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Effect, ModelResponse, Outcome, Question, RunId, Timestamp, ToolDefinition},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    contested::{Contested, start},
    stage::{SlowStore, Stage, ask, call, pause, silent, text},
};

#[derive(Debug, Serialize, Deserialize)]
struct Tick(u32);

impl AgentMessage for Tick {
    const NAME: &'static str = "tick";
}

/// Writes ticks down, each in a journal of its own; 0 ends it.
fn ear(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        let heard = cx.input().content();
        let Tick(tick) = cx.receive().await?;
        let heard = heard.trim_start_matches('-');
        if tick == 0 {
            return Ok(Outcome::answer(heard));
        }
        Ok(cx.continue_as(format!("{heard}{tick}")))
    })
}

/// The run of this agent that went on in others.
async fn child(stage: &Stage, agent: &str) -> RunId {
    let rows = stage.rows().await;
    let of = || rows.iter().filter(|row| row.agent == agent);
    let first = of().find(|row| of().all(|before| before.run.next() != row.run));
    first.unwrap().run
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_receives_all_that_it_was_told_before() {
    let stage = Stage::new();
    let system = stage.start(ear("a")).await;
    let run = ask(&system, "a", "-").await;
    for tick in [1, 2, 3, 4, 5, 0] {
        run.tell(&Tick(tick)).await.unwrap();
    }
    assert_eq!(text(&run).await, "12345");
}

#[tokio::test(start_paused = true)]
async fn what_several_tell_at_once_is_received_once_whichever_journal_it_is_passed_on_to() {
    for apart in 0..12 {
        let stage = Stage::new();
        let system = System::builder(SlowStore::uneven(stage.store.clone()))
            .team(ear("a").into_team().unwrap());
        let system = system.start().await.unwrap();
        let run = ask(&system, "a", "-").await;
        let told = (1..10).map(|tick| {
            let run = run.clone();
            async move {
                pause(u64::from(tick) * apart).await;
                run.tell(&Tick(tick)).await.unwrap();
            }
        });
        join_all(told).await;
        // It goes on with each.
        pause(1000).await;
        run.tell(&Tick(0)).await.unwrap();
        let mut heard: Vec<char> = text(&run).await.chars().collect();
        if apart == 0 {
            // Posted at the same time.
            heard.sort_unstable();
        }
        assert_eq!(String::from_iter(heard), "123456789", "{apart} ms apart");
    }
}

/// The next journal is opened within some milliseconds, and what came for the closing one is moved in a second.
#[tokio::test(start_paused = true)]
async fn what_comes_while_a_journal_closes_is_passed_on_before_the_tree_may_fall_asleep() {
    for apart in 0..24 {
        let parent = Agent::from_fn("a", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("ear", "-").await?.text))
        });
        let mut stage = Stage::new();
        stage.limits.linger = Duration::from_millis(1);
        let system = System::builder(SlowStore::to_move(stage.store.clone()))
            .options(stage.limits)
            .team(parent.agent(ear("ear")).into_team().unwrap());
        let system = system.start().await.unwrap();
        let run = ask(&system, "a", "go").await;
        pause(300).await;
        let first = system.run(child(&stage, "ear").await);
        first.tell(&Tick(1)).await.unwrap();
        pause(apart).await;
        first.tell(&Tick(0)).await.unwrap();
        assert_eq!(text(&run).await, "1", "{apart} ms apart");
    }
}

/// The process looks for messages once a minute here; the parent's message is passed on without that.
#[tokio::test(start_paused = true)]
async fn what_arrives_in_a_journal_after_the_run_went_on_from_it_is_passed_on_at_once() {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        if cx.input().content() == "wait" {
            cx.sleep(Duration::from_millis(500)).await?;
            return Ok(cx.continue_as("hear"));
        }
        Ok(match cx.receive::<Tick>().await? {
            Tick(0) => Outcome::answer("heard"),
            Tick(_) => cx.continue_as("wait"),
        })
    });
    let above = Agent::from_fn("a", |cx: RunContext| async move {
        let child = cx.spawn("below", "go").await?;
        cx.tell(&child, &Tick(1)).await?;
        cx.sleep(Duration::from_millis(100)).await?;
        cx.tell(&child, &Tick(0)).await?;
        Ok(Outcome::answer(cx.join(&child).await?.text))
    });
    let stage = Stage::alone();
    let system = System::builder(SlowStore::to_move(stage.store.clone()))
        .options(stage.limits)
        .team(above.agent(below).into_team().unwrap());
    let system = system.start().await.unwrap();
    let began = tokio::time::Instant::now();
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "heard");
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A message whose post takes so long that the run goes on meanwhile. Nothing is looked for here.
#[tokio::test(start_paused = true)]
async fn what_is_posted_while_the_run_goes_on_is_passed_on_by_its_poster() {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        if cx.input().content() == "go" {
            cx.sleep(Duration::from_millis(500)).await?;
            return Ok(cx.continue_as("hear"));
        }
        let Tick(tick) = cx.receive().await?;
        Ok(Outcome::answer(tick.to_string()))
    });
    let above = Agent::from_fn("a", |cx: RunContext| async move {
        let child = cx.spawn("below", "go").await?;
        cx.tell(&child, &Tick(7)).await?;
        Ok(Outcome::answer(cx.join(&child).await?.text))
    });
    let stage = Stage::alone();
    let store = Contested::over(stage.store.clone());
    let posts_wait = store.posts_wait.clone();
    posts_wait.send_replace(true);
    let system = start(&stage, store, above.agent(below)).await;
    let began = tokio::time::Instant::now();
    let run = ask(&system, "a", "go").await;
    pause(1_000).await;
    posts_wait.send_replace(false);
    assert_eq!(text(&run).await, "7");
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// The same question stands at the same place of each journal.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_when_its_journal_is_closed_answers_nothing_in_the_next_one() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let patience = match cx.input().content().as_str() {
            "go" => Duration::from_millis(500),
            _ => Duration::from_secs(600),
        };
        let asked = cx.ask(Question::choice("Which?", ["red", "blue"]));
        match cx.timeout(patience, asked).await {
            Ok(answer) => Ok(Outcome::answer(answer?.to_string())),
            Err(_) => Ok(cx.continue_as("on")),
        }
    });
    let stage = Stage::new();
    let store = Contested::over(stage.store.clone());
    let posts_wait = store.posts_wait.clone();
    let system = start(&stage, store, agent).await;
    let run = ask(&system, "a", "go").await;
    pause(400).await;
    let asked = run.questions().await.unwrap()[0].1;
    posts_wait.send_replace(true);
    let late = run.clone();
    let late = tokio::spawn(async move { late.answer(asked, json!("red")).await });
    pause(400).await;
    posts_wait.send_replace(false);
    late.await.unwrap().unwrap();
    // Another message has all that came for the closed journal passed on.
    run.tell(&Tick(1)).await.unwrap();
    pause(400).await;
    let (next, again, _) = run.questions().await.unwrap().remove(0);
    assert_eq!(again, asked, "the same place");
    system.run(next).answer(asked, json!("blue")).await.unwrap();
    assert_eq!(text(&run).await, "\"blue\"");
}

#[tokio::test(start_paused = true)]
async fn what_comes_for_a_child_while_it_is_taken_up_is_passed_on_from_its_first_journal() {
    for (after, dies) in (0..50).flat_map(|step| [(step * 100, false), (step * 100, true)]) {
        // The agent above is at work, so its tree is taken up when the next process starts.
        let above = |stage: &Stage| {
            let agent = Agent::from_fn("a", |cx: RunContext| async move {
                let child = cx.spawn("ear", "-").await?;
                cx.tool_unasked(call("1", "work")).await?;
                Ok(Outcome::answer(cx.join(&child).await?.text))
            });
            let work = stage.tool("work", Effect::Read, 20_000);
            agent.tool(work).agent(ear("ear"))
        };
        let mut stage = Stage::new();
        let system = stage.start(above(&stage)).await;
        let run = ask(&system, "a", "-").await.id();
        pause(100).await;
        let first = child(&stage, "ear").await;
        system.run(first).tell(&Tick(1)).await.unwrap();
        pause(200).await;
        stage.crash(&system).await;
        let store = SlowStore::to_read(stage.store.clone());
        let system = start(&stage, store, above(&stage)).await;
        pause(after).await;
        if dies {
            // Another process posts it, and dies before it can pass it on.
            let (name, value) = ("tick".to_owned(), json!(0));
            let item = ItemBody::Message { name, value };
            let item = MailboxItem::new("0", Timestamp(0), item);
            stage.store.post(first.into(), item).await.unwrap();
        } else {
            system.run(first).tell(&Tick(0)).await.unwrap();
        }
        assert_eq!(text(&system.run(run)).await, "1", "after {after} ms");
    }
}

/// The process that tells moves the message slowly, and the one that carries the run moves it meanwhile.
#[tokio::test(start_paused = true)]
async fn what_two_processes_pass_on_is_received_once_however_often_the_run_went_on_meanwhile() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let heard = cx.input().content();
        let told = cx.receive::<Tick>();
        Ok(match cx.timeout(Duration::from_millis(20), told).await {
            Ok(Ok(Tick(0))) => Outcome::answer(heard.trim_start_matches('-')),
            Ok(told) => cx.continue_as(format!("{heard}{}", told?.0)),
            Err(_) => cx.continue_as(heard),
        })
    });
    let mut stage = Stage::new();
    stage.store = stage.store.clone().keeping(usize::MAX);
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "-").await;
    pause(100).await;
    let other = SlowStore::to_move(stage.store.another_process());
    let other = System::builder(other).start().await.unwrap();
    other.run(run.id()).tell(&Tick(7)).await.unwrap();
    pause(1_000).await;
    run.tell(&Tick(0)).await.unwrap();
    assert_eq!(text(&run).await, "7");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_found_by_its_first_id_among_thousands_of_journals_at_once() {
    const JOURNALS: u32 = 3000;
    let mut stage = Stage::new();
    stage.store = stage.store.clone().keeping(usize::MAX);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let number: u32 = cx.input().content().parse().unwrap();
        if number < JOURNALS {
            return Ok(cx.continue_as((number + 1).to_string()));
        }
        let Tick(tick) = cx.receive().await?;
        Ok(Outcome::answer(tick.to_string()))
    });
    let store = Contested::over(stage.store.clone());
    let lookups = store.lookups.clone();
    let system = System::builder(store).team(agent.into_team().unwrap());
    let system = system.start().await.unwrap();
    let run = ask(&system, "a", "1").await;
    while stage.rows().await.len() < JOURNALS as usize {
        pause(100).await;
    }
    lookups.store(0, Ordering::SeqCst);
    run.tell(&Tick(7)).await.unwrap();
    let looked_up = lookups.load(Ordering::SeqCst);
    assert!(looked_up < 80, "{looked_up}");
    assert_eq!(text(&run).await, "7");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_is_told_that_goes_on_is_received_once_wherever_a_crash_strikes() {
    for how in ["root", "below"] {
        let mut scenario = Scenario::new("a", move |builder, _log| {
            let above = Agent::from_fn("a", |cx: RunContext| async move {
                let child = cx.spawn("ear", "-").await?;
                for tick in [1, 2, 3, 0] {
                    cx.tell(&child, &Tick(tick)).await?;
                }
                Ok(Outcome::answer(cx.join(&child).await?.text))
            });
            let agent = match how {
                "root" => ear("a"),
                _ => above.agent(ear("ear")),
            };
            builder.team(agent.into_team().unwrap())
        });
        scenario = scenario.named(how).turn("-");
        if how == "root" {
            for tick in [1, 2, 3, 0] {
                scenario = scenario.message(&Tick(tick));
            }
        }
        let options = [CrashOptions::default(), CrashOptions::default().calls(60)];
        for options in options {
            let report = crash_everywhere(&scenario, options).await;
            assert!(report.violations.is_empty(), "{report}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_goes_on_is_told_by_its_parent_and_tells_it() {
    for pauses in [0, 300] {
        for target in ["spawned", "name"] {
            let parent = Agent::from_fn("a", move |cx: RunContext| async move {
                let child = cx.spawn("ear", "-").await?;
                for tick in [1, 2, 3, 0] {
                    match target {
                        "spawned" => cx.tell(&child, &Tick(tick)).await?,
                        _ => cx.tell("ear", &Tick(tick)).await?,
                    }
                    cx.sleep(Duration::from_millis(pauses)).await?;
                }
                Ok(Outcome::answer(cx.join(&child).await?.text))
            });
            let stage = Stage::new();
            let system = stage.start(parent.agent(ear("ear"))).await;
            assert_eq!(
                text(&ask(&system, "a", "-").await).await,
                "123",
                "{pauses} {target}"
            );
        }
    }
}

/// Goes on twice, and asks in its second journal.
fn asker(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        if cx.input().content() != "on" {
            return Ok(cx.continue_as("on"));
        }
        let answer = cx.ask(Question::choice("Which?", ["red", "blue"])).await?;
        Ok(Outcome::answer(answer.to_string()))
    })
}

/// Delegates to one that asks.
fn above_asker() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("asker", "go").await?.text))
    })
    .agent(asker("asker"))
}

#[tokio::test(start_paused = true)]
async fn what_a_run_asks_that_goes_on_is_answered_by_its_first_id_and_by_the_root() {
    for by in ["root", "first", "next"] {
        let stage = Stage::new();
        let system = stage.start(above_asker()).await;
        let run = ask(&system, "a", "go").await;
        pause(500).await;
        let first = child(&stage, "asker").await;
        let asked = run.questions().await.unwrap();
        assert_eq!(asked.len(), 1, "{by}");
        let handle = match by {
            "root" => run.clone(),
            "first" => system.run(first),
            _ => system.run(first.next()),
        };
        handle.answer(asked[0].1, json!("red")).await.expect(by);
        assert_eq!(text(&run).await, "\"red\"", "{by}");
    }
    let stage = Stage::new();
    let system = stage.start(asker("a")).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    let asked = run.questions().await.unwrap();
    assert_eq!(asked.len(), 1, "by the first id");
    run.answer(asked[0].1, json!("blue")).await.unwrap();
    assert_eq!(text(&run).await, "\"blue\"");
}

/// Of each journal one call hands out a ticket, of which nobody waits for the first.
#[tokio::test(start_paused = true)]
async fn a_late_result_is_for_the_call_that_waited_for_it_and_for_no_other() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let order = cx.tool_unasked(call("1", "order"));
        if cx.input().content() == "go" {
            let late = cx.timeout(Duration::from_secs(1), order).await;
            assert!(late.is_err());
            return Ok(cx.continue_as("on"));
        }
        Ok(Outcome::answer(order.await?.text))
    });
    let order = ToolDefinition::new("order", "hands out a ticket").effect(Effect::Once);
    let order = stage.log.tool(order, Duration::from_millis(5)).later();
    let system = stage.start(agent.tool(order)).await;
    let run = ask(&system, "a", "go").await;
    pause(2_000).await;
    let operation = "0.0.0".parse().unwrap();
    let ticket = |run: RunId| Ticket { run, operation };
    let late = system
        .complete(ticket(run.id()), Ok("late".to_owned()))
        .await;
    assert!(late.is_err(), "its run has ended");
    let next = ticket(run.id().next());
    system
        .complete(next, Ok("in time".to_owned()))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "in time");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_comes_while_a_run_goes_on_cancels_it() {
    for moment in 0..30 {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            cx.sleep(Duration::from_millis(20)).await?;
            Ok(cx.continue_as("on"))
        });
        let store = SlowStore::new(InMemoryStore::new());
        let builder = System::builder(store).model("default", silent());
        let system = builder.team(agent.into_team().unwrap());
        let system = system.start().await.unwrap();
        let run = ask(&system, "a", "go").await;
        pause(100 + moment).await;
        assert!(run.cancel("enough").await.unwrap(), "{moment}");
        let hour = Duration::from_secs(3600);
        let outcome = tokio::time::timeout(hour, run.outcome()).await;
        let outcome = outcome.expect("it is cancelled").unwrap();
        assert!(outcome.stop_reason().is_some(), "{moment}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_parked_in_a_later_journal_is_retried_by_its_first_id() {
    for below in [false, true] {
        let bad = Arc::new(AtomicU32::new(1));
        let worker = |name: &str| {
            let bad = bad.clone();
            Agent::from_fn(name, move |cx: RunContext| {
                let bad = bad.clone();
                async move {
                    if cx.input().content() == "go" {
                        return Ok(cx.continue_as("on"));
                    }
                    if bad.load(Ordering::SeqCst) == 1 {
                        cx.sleep(Duration::from_secs(1)).await?;
                    } else if bad.load(Ordering::SeqCst) == 2 {
                        cx.now().await?;
                    } else {
                        cx.sleep(Duration::from_secs(1)).await?;
                    }
                    Ok(Outcome::answer("done"))
                }
            })
        };
        let agent = || match below {
            false => worker("a"),
            true => Agent::from_fn("a", |cx: RunContext| async move {
                Ok(Outcome::answer(cx.delegate("b", "go").await?.text))
            })
            .agent(worker("b")),
        };
        let mut stage = Stage::new();
        let system = stage.start(agent()).await;
        let run = ask(&system, "a", "go").await;
        pause(500).await;
        stage.crash(&system).await;
        bad.store(2, Ordering::SeqCst);
        let system = stage.start(agent()).await;
        pause(5_000).await;
        let name = if below { "b" } else { "a" };
        let first = child(&stage, name).await;
        let status = system.run(first.next()).status().await.unwrap().status;
        assert_eq!(status, RunStatus::Parked, "below {below}");
        bad.store(3, Ordering::SeqCst);
        system.run(first).retry().await.unwrap();
        assert_eq!(text(&system.run(run.id())).await, "done", "below {below}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_a_run_that_goes_on_is_read_in_its_next_journal() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        if cx.input().content() == "go" {
            return Ok(cx.continue_as("on"));
        }
        let answer = cx.model(cx.model_request(cx.conversation())).await?;
        let said: Vec<String> = answer.steering.iter().map(|said| said.content()).collect();
        Ok(Outcome::answer(said.join(",")))
    });
    let stage = Stage::new();
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok")));
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    run.steer("be quick").await.unwrap();
    assert_eq!(text(&run).await, "be quick");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_a_run_heard_before_it_went_on_is_known() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        if cx.input().content() == "go" {
            let answer = cx.model(cx.model_request(cx.conversation())).await?;
            let said: Vec<String> = answer.steering.iter().map(|said| said.content()).collect();
            return Ok(cx.continue_as(said.join(",")));
        }
        Ok(Outcome::answer(cx.input().content()))
    });
    let stage = Stage::new();
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok")));
    let team = agent.into_team().unwrap();
    let team = team.define(|team| team.while_busy = WhileBusy::Steer);
    let builder = System::builder(stage.store.clone());
    let system = builder
        .model("default", model)
        .team(team)
        .start()
        .await
        .unwrap();
    let session = system.session("a", "s");
    let run = session.send(Turn::text("go").id("1")).await.unwrap();
    pause(500).await;
    let said = session.send(Turn::text("and this").id("2")).await.unwrap();
    assert_eq!(said.id(), run.id());
    pause(800).await;
    let again = session.send(Turn::text("and this").id("2")).await.unwrap();
    assert_eq!(text(&run).await, "and this");
    let last = session.send(Turn::text("and this").id("2")).await.unwrap();
    pause(5_000).await;
    let runs = stage.rows().await.len();
    assert_eq!(
        runs,
        2,
        "the turn was heard once ({} {})",
        again.id() == run.id(),
        last.id()
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_sleeps_in_each_journal_and_is_told_below_by_first_ids() {
    let stage = Stage::alone();
    let parent = Agent::from_fn("a", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("ear", "-").await?.text))
    });
    let system = stage.start(parent.agent(ear("ear"))).await;
    let run = ask(&system, "a", "go").await;
    pause(100).await;
    let first = child(&stage, "ear").await;
    for tick in [1, 2, 3, 0] {
        system.run(first).tell(&Tick(tick)).await.unwrap();
        pause(600_000).await;
    }
    assert_eq!(text(&run).await, "123");
}
