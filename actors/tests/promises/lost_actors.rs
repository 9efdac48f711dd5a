//! Whichever actor is killed in the middle of work, the run ends rightly.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{
        System, SystemError,
        supervisor::{Strategy, Supervisor, SupervisorSpec},
    },
    contract::{RunFilter, RunRow, RunStatus},
    definition::WhileBusy,
    ractor::{ActorCell, ActorStatus},
    run::{Agent, RunContext, Task},
    session::Turn,
    testing::{ScriptedModel, kill_run},
    vocabulary::{AgentError, Effect, Entry, ModelResponse, Outcome, ParentPolicy},
};
use serde_json::json;

use crate::{
    contested::{Contested, start},
    stage::{SlowStore, Stage, ask, call, pause, text},
};

fn busy(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        let look = cx.tool_unasked(call("h", "look")).await?;
        cx.memory().set("helped", &true).await?;
        cx.sleep(Duration::from_millis(60)).await?;
        Ok(Outcome::answer(look.text))
    })
    .tool_named("look");
    Agent::from_fn("busy", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation());
        let said = cx.model(request).await?.content();
        let results = cx.tools([call("1", "look"), call("2", "put")]).await?;
        cx.memory().set("looked", &results.len()).await?;
        let paid = cx.tool_unasked(call("3", "pay")).await?;
        let helped = cx.delegate("helper", "help").await?;
        let looked: Option<u32> = cx.memory().get("looked").await?;
        let was_helped: Option<bool> = cx.memory().get("helped").await?;
        let texts: Vec<String> = results.into_iter().map(|result| result.text).collect();
        Ok(Outcome::answer(format!(
            "{said} {texts:?} {:?} {} {looked:?} {was_helped:?}",
            paid.status, helped.text
        )))
    })
    .tool(stage.tool("look", Effect::Read, 60))
    .tool(stage.tool("put", Effect::Idempotent, 60))
    .tool(stage.tool("pay", Effect::Once, 60))
    .agent(helper)
}

fn always() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("hello")))
}

async fn below(system: &System, name: &str) -> Option<ActorCell> {
    system.supervisor()?.find_child(name).await.ok().flatten()
}

/// One of the actors of a team `busy` whose session is `s`.
pub(crate) async fn find(system: &System, victim: &str) -> Option<ActorCell> {
    let teams = Supervisor::from_actor(below(system, "teams").await?)?;
    let session = teams.find_child("busy/s").await.ok().flatten();
    match victim {
        "session" => session,
        // Linked to the session's agent are the agents below it.
        "agent below" => session?.get_children().pop(),
        name => below(system, name).await,
    }
}

/// Kills one of these actors, or the task that carries the session's run or its child. `false` where there is none.
pub(crate) async fn kill(system: &System, victim: &str) -> bool {
    if !["run", "child"].contains(&victim) {
        let found = find(system, victim).await;
        return found.inspect(|actor| actor.kill()).is_some();
    }
    let mut filter = RunFilter::default();
    filter.open = true;
    let rows = system.runs(filter).await.unwrap();
    let session = system.session("busy", "s").id().clone();
    let found = rows.iter().find(|row| match victim {
        "run" => row.session.as_ref() == Some(&session),
        _ => row.parent.is_some(),
    });
    found.is_some_and(|row| kill_run(system, row.run))
}

#[tokio::test(start_paused = true)]
async fn killing_any_actor_at_any_moment_does_not_keep_the_run_from_its_end() {
    let victims = [
        "committer",
        "tools",
        "model default",
        "wake_service",
        "teams",
        "session",
        "run",
        "agent below",
    ];
    for victim in victims {
        let mut killed = 0;
        for moment in (5..320).step_by(30) {
            let stage = Stage::new();
            let model = always().delay(Duration::from_millis(60));
            let system = stage.start_with(busy(&stage), model).await;
            let run = ask(&system, "busy", "go").await;
            pause(moment).await;
            killed += u32::from(kill(&system, victim).await);
            let said = text(&run).await;
            let place = format!("{victim} at {moment}: {said}");
            assert!(
                said.starts_with("hello [\"look {}\", \"put {}\"]"),
                "{place}"
            );
            assert!(said.ends_with("look {} Some(2) Some(true)"), "{place}");
            // A once call that an actor's death cut off is told as in doubt.
            let known = stage
                .log
                .effects()
                .iter()
                .any(|e| e.name == "pay" && e.ended);
            assert!(
                said.contains("Success") || said.contains("Unknown"),
                "{place}"
            );
            assert!(known || said.contains("Unknown"), "{place}");
            assert_eq!(stage.log.count("pay"), 1, "{place}");
            for row in stage.rows().await {
                assert!(
                    row.status.is_ended(),
                    "{place}: {} is {}",
                    row.agent,
                    row.status
                );
                assert_eq!(stage.ends(row.run).await, 1, "{place}");
            }
            // The session goes on.
            let next = ask(&system, "busy", "again").await;
            assert!(text(&next).await.contains("Success"), "{place}, next turn");
            system.stop().await.unwrap();
        }
        assert!(killed >= 4, "{victim} was killed {killed} times");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_said_while_its_actor_dies_is_one_run() {
    for victim in ["committer", "teams", "session"] {
        for order in 0..3 {
            let stage = Stage::new();
            let system = stage.start_with(busy(&stage), always()).await;
            if order == 2 {
                text(&ask(&system, "busy", "before").await).await;
            }
            let session = system.session("busy", "s");
            let saying = session.send("go");
            let killing = async {
                for _ in 0..order {
                    tokio::task::yield_now().await;
                }
                kill(&system, victim).await;
            };
            let (run, ()) = futures_util::join!(saying, killing);
            assert!(text(&run.unwrap()).await.starts_with("hello"), "{victim}");
            let turns = stage
                .rows()
                .await
                .into_iter()
                .filter(|r| r.parent.is_none());
            assert_eq!(turns.count(), 1 + order / 2, "{victim}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_run_is_woken_although_the_attendant_died_in_between() {
    let stage = Stage::new();
    let agent = Agent::from_fn("busy", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(600)).await?;
        Ok(Outcome::answer("awake"))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "busy", "go").await;
    pause(100_000).await;
    find(&system, "wake_service").await.unwrap().kill();
    assert_eq!(text(&run).await, "awake");
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_a_run_is_killed_is_taken_over_and_not_made_again() {
    // In the middle of the model call, and in the middle of the tool call.
    for moment in [30, 90] {
        let stage = Stage::new();
        let agent = Agent::from_fn("busy", |cx: RunContext| async move {
            let request = cx.model_request(cx.conversation());
            let said = cx.model(request).await?.content();
            let look = cx.tool_unasked(call("1", "look")).await?;
            Ok(Outcome::answer(format!("{said} {}", look.text)))
        });
        let agent = agent.tool(stage.tool("look", Effect::Read, 60));
        let model = always().delay(Duration::from_millis(60));
        let system = stage.start_with(agent, model.clone()).await;
        let run = ask(&system, "busy", "go").await;
        pause(moment).await;
        assert!(kill(&system, "run").await);
        assert_eq!(text(&run).await, "hello look {}", "{moment}");
        assert_eq!(model.calls(), 1, "{moment}");
        assert_eq!(stage.log.count("look"), 1, "{moment}");
        system.stop().await.unwrap();
    }
}

/// Works for a while, and pays once.
fn payer(paid: &Arc<AtomicU32>) -> Agent {
    let paid = Arc::clone(paid);
    Agent::from_fn("busy", move |cx: RunContext| {
        let paid = Arc::clone(&paid);
        async move {
            let works = async {
                pause(20_000).await;
                Ok::<_, AgentError>(())
            };
            cx.step("work", Effect::Read, works).await?;
            let pays = async move { Ok::<_, AgentError>(paid.fetch_add(1, Ordering::SeqCst)) };
            cx.step("pay", Effect::Once, pays).await?;
            Ok(Outcome::answer("paid"))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_recovered_twice_goes_on_once() {
    // The agent that was told to expect its run is lost before its claim is made, or called again.
    for is_lost in [true, false] {
        let mut stage = Stage::new();
        let paid = Arc::default();
        let first = stage.start(payer(&paid)).await;
        let run = ask(&first, "busy", "go").await.id();
        let store = Contested::over(stage.store.another_process());
        store.claims_wait.send_replace(true);
        let claims_wait = store.claims_wait.clone();
        let system = start(&stage, store, payer(&paid)).await;
        stage.crash(&first).await;
        let taker = system.clone();
        let recovery = tokio::spawn(async move { taker.recover().await });
        pause(1000).await;
        if is_lost {
            find(&system, "session").await.unwrap().kill();
            pause(1000).await;
        }
        system.recover().await.unwrap();
        // Whoever carries it by now has its claim taken away by its own process.
        claims_wait.send_replace(false);
        recovery.await.unwrap().unwrap();
        assert_eq!(text(&system.run(run)).await, "paid", "{is_lost}");
        assert_eq!(stage.ends(run).await, 1);
        assert_eq!(paid.load(Ordering::SeqCst), 1, "{is_lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_tells_so_to_the_next_life_of_its_parent() {
    let stage = Stage::new();
    let child = Agent::from_fn("asker", |cx: RunContext| async move {
        let answer = cx.ask("Well?").await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let agent = Agent::from_fn("busy", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("asker", "ask").await?.text))
    });
    let system = stage.start(agent.agent(child)).await;
    let run = ask(&system, "busy", "go").await;
    pause(1000).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
    let (asking, operation, _) = run.questions().await.unwrap().remove(0);
    assert!(kill(&system, "run").await);
    pause(1000).await;
    for (life, restarts) in [(run.id(), 1), (asking, 0)] {
        let entries = stage.entries(life).await;
        let restarted = entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Restarted { .. }));
        assert_eq!(restarted.count(), restarts, "{entries:?}");
        let row = system.run(life).status().await.unwrap();
        assert_eq!(row.status, RunStatus::Waiting);
    }
    system
        .run(asking)
        .answer(operation, json!("yes"))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "\"yes\"");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_parent_begins_although_the_parents_actor_dies_first() {
    let agent = || {
        let worker = Agent::from_fn("worker", |_: RunContext| async {
            Ok(Outcome::answer("done"))
        });
        let agent = Agent::from_fn("busy", |cx: RunContext| async move {
            let task = Task::from("go").when_parent_ends(ParentPolicy::Continue);
            cx.spawn("worker", task).await?;
            cx.sleep(Duration::from_secs(3600)).await?;
            Ok(Outcome::answer("rested"))
        });
        agent.agent(worker)
    };
    // The child's record is on its way to the disk for some of these moments, or has just arrived.
    for moment in (0..150).step_by(5) {
        // No other part of the System looks for runs that nobody carries meanwhile.
        let stage = Stage::alone();
        let store = SlowStore::to_commit(stage.store.clone());
        let system = start(&stage, store, agent()).await;
        ask(&system, "busy", "go").await;
        pause(moment).await;
        assert!(kill(&system, "run").await);
        pause(20_000).await;
        let rows = stage.rows().await;
        let worker = rows.iter().find(|row| row.agent == "worker").unwrap();
        assert_eq!(
            worker.status,
            RunStatus::Answered,
            "killed after {moment} ms"
        );
        system.stop().await.unwrap();
    }
}

/// A child whose parent has stopped waiting for it, and which is killed shortly before or after.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_given_up_goes_no_further_whichever_actor_is_killed_meanwhile() {
    for (victim, moment) in ["agent below", "child", "run"]
        .into_iter()
        .flat_map(|victim| (160..340).step_by(10).map(move |moment| (victim, moment)))
    {
        let stage = Stage::new();
        let helper = Agent::from_fn("helper", |cx: RunContext| async move {
            cx.tool_unasked(call("1", "look")).await?;
            Ok(Outcome::answer(
                cx.tool_unasked(call("2", "put")).await?.text,
            ))
        })
        .tool(stage.tool("look", Effect::Read, 1_000))
        .tool(stage.tool("put", Effect::Idempotent, 10));
        let agent = Agent::from_fn("busy", |cx: RunContext| async move {
            let helped = cx.delegate("helper", "help");
            let helped = cx.timeout(Duration::from_millis(200), helped).await;
            assert!(helped.is_err());
            cx.sleep(Duration::from_secs(5)).await?;
            Ok(Outcome::answer("without help"))
        });
        let store = SlowStore::to_commit(stage.store.clone());
        let system = start(&stage, store, agent.agent(helper)).await;
        let run = ask(&system, "busy", "go").await;
        pause(moment).await;
        kill(&system, victim).await;
        let place = format!("{victim} at {moment}");
        assert_eq!(text(&run).await, "without help", "{place}");
        assert_eq!(stage.log.count("put"), 0, "{place}");
        let rows = stage.rows().await;
        assert!(rows.iter().all(|row| row.status.is_ended()), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_child_that_is_given_up_ends() {
    let changed = Arc::new(AtomicU32::new(0));
    let mut stage = Stage::new();
    stage.not_replayed("the code of the child changes");
    let agent = |stage: &Stage| {
        let changed = changed.clone();
        let helper = Agent::from_fn("helper", move |cx: RunContext| {
            let changed = changed.clone();
            async move {
                if changed.load(Ordering::SeqCst) == 1 {
                    cx.now().await?;
                }
                cx.sleep(Duration::from_secs(1)).await?;
                Ok(Outcome::answer("helped"))
            }
        });
        Agent::from_fn("busy", |cx: RunContext| async move {
            let helped = cx.timeout(Duration::from_secs(5), cx.delegate("helper", "help"));
            let look = cx.tool_unasked(call("1", "look"));
            let (helped, _) = futures_util::future::join(helped, look).await;
            Ok(Outcome::answer(format!("{}", helped.is_err())))
        })
        .agent(helper)
        .tool(stage.tool("look", Effect::Read, 20_000))
    };
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "busy", "go").await;
    pause(500).await;
    stage.crash(&system).await;
    changed.store(1, Ordering::SeqCst);
    let system = stage.start(agent(&stage)).await;
    pause(2_000).await;
    let parked = |row: &RunRow| row.status == RunStatus::Parked;
    assert!(stage.rows().await.iter().any(parked));
    assert_eq!(text(&system.run(run.id())).await, "true");
    let rows = stage.rows().await;
    assert!(rows.iter().all(|row| row.status.is_ended()), "{rows:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_said_to_a_run_that_ended_without_hearing_it_is_a_turn_although_its_agent_is_killed()
 {
    for moment in 950..1_150 {
        let stage = Stage::new();
        let agent = Agent::from_fn("busy", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(Outcome::answer(cx.input().content()))
        });
        let team = agent.into_team().unwrap();
        let team = team.define(|team| team.while_busy = WhileBusy::Steer);
        let system = System::builder(SlowStore::new(stage.store.clone()))
            .model("default", always())
            .team(team)
            .start()
            .await
            .unwrap();
        let run = ask(&system, "busy", "one").await;
        pause(500).await;
        assert_eq!(ask(&system, "busy", "two").await.id(), run.id());
        pause(moment - 500).await;
        find(&system, "session").await.unwrap().kill();
        pause(20_000).await;
        let rows = stage.rows().await;
        let answered = |row: &&RunRow| row.status == RunStatus::Answered;
        assert_eq!(
            rows.iter().filter(answered).count(),
            2,
            "killed after {moment} ms"
        );
        system.stop().await.unwrap();
    }
}

/// The claim of a child fails, since its parent was killed meanwhile and goes on with a later claim of its own.
#[tokio::test(start_paused = true)]
async fn a_child_that_its_parents_next_life_claims_does_not_break_off_what_the_parent_does() {
    let (mut stage, paid) = (Stage::new(), Arc::<AtomicU32>::default());
    let agent = || {
        let paid = Arc::clone(&paid);
        let helper = Agent::from_fn("helper", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(Outcome::answer("helped"))
        });
        let agent = Agent::from_fn("busy", move |cx: RunContext| {
            let paid = Arc::clone(&paid);
            async move {
                let pays = async {
                    cx.sleep(Duration::from_secs(10)).await?;
                    let paying = async move {
                        pause(20_000).await;
                        Ok::<_, AgentError>(paid.fetch_add(1, Ordering::SeqCst))
                    };
                    cx.step("pay", Effect::Once, paying).await
                };
                let (helped, paid) = futures_util::join!(cx.delegate("helper", "help"), pays);
                Ok(Outcome::answer(format!("{} {paid:?}", helped?.text)))
            }
        });
        agent.agent(helper)
    };
    let first = stage.start(agent()).await;
    let run = ask(&first, "busy", "go").await.id();
    pause(100).await;
    stage.crash(&first).await;
    let store = Contested::over(stage.store.clone());
    store.claims_below_wait.send_replace(true);
    let claims_wait = store.claims_below_wait.clone();
    let system = start(&stage, store, agent()).await;
    pause(1_000).await;
    assert!(kill(&system, "run").await);
    // The parent is paying by now.
    pause(15_000).await;
    claims_wait.send_replace(false);
    assert_eq!(text(&system.run(run)).await, "helped Ok(0)");
    assert_eq!(stage.ends(run).await, 1);
}

fn sleeper(seconds: u64) -> Agent {
    Agent::from_fn("busy", move |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(seconds)).await?;
        Ok(Outcome::answer("awake"))
    })
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_an_agent_that_is_started_again_after_a_long_pause() {
    let stage = Stage::new();
    let system = stage.start(sleeper(600)).await;
    ask(&system, "busy", "go").await;
    for _ in 0..8 {
        kill(&system, "session").await;
        while !find(&system, "session").await.is_some_and(is_alive) {
            pause(10).await;
        }
    }
    kill(&system, "session").await;
    pause(1).await;
    let began = tokio::time::Instant::now();
    let turn = system.session("busy", "s").send("again").await;
    assert_eq!(text(&turn.unwrap()).await, "awake");
    assert!(began.elapsed() > Duration::from_secs(600));
}

fn is_alive(actor: ActorCell) -> bool {
    actor.get_status() < ActorStatus::Stopping
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_agent_is_lost_again_and_again_says_so() {
    let stage = Stage::new();
    let system = stage.start(sleeper(600)).await;
    ask(&system, "busy", "go").await;
    let turn = Turn::text("again").id("again");
    let session = system.session("busy", "s");
    let waiting = session.send(turn.clone());
    let killing = async {
        for _ in 0..4 {
            pause(10_000).await;
            kill(&system, "session").await;
        }
    };
    let (sent, ()) = futures_util::join!(waiting, killing);
    let error = sent.unwrap_err();
    assert!(matches!(error, SystemError::AgentLost { .. }), "{error}");
    assert_eq!(
        text(&session.send(turn).await.unwrap()).await,
        "awake",
        "it is worth another try"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_system_whose_root_ends_is_told() {
    for way in ["killed", "stopped", "parent ended"] {
        let stage = Stage::new();
        stage.not_replayed("the System ends in the middle");
        let above = Supervisor::builder(SupervisorSpec::new(Strategy::OneForOne));
        let (above, _) = above.start().await.unwrap();
        let builder = System::builder(stage.store.clone()).team(sleeper(600).into_team().unwrap());
        let system = builder.start_linked(above.actor()).await.unwrap();
        let run = ask(&system, "busy", "go").await;
        let session = system.session("busy", "s");
        let killing = async {
            pause(100).await;
            let root = system.supervisor().unwrap().actor();
            match way {
                "killed" => root.kill(),
                "stopped" => root.stop(None),
                _ => above.actor().kill(),
            }
        };
        let waiting = async {
            let queued = session.send("again");
            let (outcome, queued, quiet) = futures_util::join!(run.outcome(), queued, run.quiet());
            [outcome.err(), queued.err(), quiet.err()]
        };
        let waiting = tokio::time::timeout(Duration::from_secs(60), waiting);
        let (told, ()) = futures_util::join!(waiting, killing);
        for error in told.unwrap_or_else(|_| panic!("nobody is told: {way}")) {
            assert!(
                matches!(error, Some(SystemError::Stopped)),
                "{way}: {error:?}"
            );
        }
        let late = session.send("late").await.unwrap_err();
        assert!(matches!(late, SystemError::Stopped), "{way}: {late}");
    }
}
