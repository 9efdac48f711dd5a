//! What becomes of a child run when its parent ends, or is cancelled, first.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{DynStore, RunRow, RunStatus, StoreError, StoreWrapper},
    run::{Agent, RunContext, Task},
    session::Turn,
    testing::{
        CrashOptions, FaultyStore, InMemoryStore, Scenario, ScriptedModel, crash_everywhere,
    },
    vocabulary::{
        Budget, Effect, Entry, JournalId, ModelResponse, Outcome, ParentPolicy, Resource, RunId,
        ToolDefinition,
    },
};

use crate::contested::{self, Contested};
use crate::stage::{SlowStore, Stage, ask, call, crash, outcome, pause, silent, text};

const ALL: [ParentPolicy; 3] = [
    ParentPolicy::Stop,
    ParentPolicy::Continue,
    ParentPolicy::Adopt,
];

/// Tidies up for ten seconds, with an effect at the end.
fn worker() -> Agent {
    Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(10)).await?;
        let done = cx.tool_unasked(call("w", "tidy")).await?;
        Ok(Outcome::answer(done.text))
    })
    .tool_named("tidy")
}

/// Spawns a worker, and ends after so many seconds.
fn boss(stage: &Stage, policy: ParentPolicy, seconds: u64) -> Agent {
    Agent::from_fn("boss", move |cx: RunContext| async move {
        let task = Task::from("tidy up").when_parent_ends(policy);
        cx.spawn("worker", task).await?;
        cx.sleep(Duration::from_secs(seconds)).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("tidy", Effect::Read, 5))
    .agent(worker())
}

async fn child(stage: &Stage) -> RunRow {
    let rows = stage.rows().await;
    rows.into_iter().find(|row| row.agent == "worker").unwrap()
}

/// How the child ended, in time.
async fn end_of(system: &System, child: RunId) -> RunStatus {
    outcome(&system.run(child)).await;
    system.run(child).status().await.unwrap().status
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_ends_stops_its_child_or_leaves_it_going_on() {
    for policy in ALL {
        let stage = Stage::new();
        let system = stage.start(boss(&stage, policy, 1)).await;
        let began = tokio::time::Instant::now();
        let run = ask(&system, "boss", "go").await;
        assert_eq!(text(&run).await, "done");
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "nobody is waited for"
        );
        let child = child(&stage).await;
        let outlives = policy != ParentPolicy::Stop;
        assert_eq!(child.status.is_ended(), !outlives, "{policy:?}");
        assert_eq!(child.root == child.run, outlives, "{policy:?}");
        let expected = if outlives {
            RunStatus::Answered
        } else {
            RunStatus::Cancelled
        };
        assert_eq!(end_of(&system, child.run).await, expected, "{policy:?}");
        assert_eq!(stage.log.count("tidy"), usize::from(outlives), "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_takes_its_child_along_unless_the_child_is_adopted() {
    for policy in ALL {
        // The whole stays, or dies after the word is durable and before it is carried out.
        for moment in [None, Some(0), Some(1), Some(30)] {
            let mut stage = Stage::new();
            let mut system = stage.start(boss(&stage, policy, 100)).await;
            let run = ask(&system, "boss", "go").await;
            pause(700).await;
            let child = child(&stage).await.run;
            assert!(run.cancel("enough").await.unwrap());
            if let Some(moment) = moment {
                if moment > 0 {
                    pause(moment).await;
                }
                stage.crash(&system).await;
                system = stage.start(boss(&stage, policy, 100)).await;
            }
            outcome(&system.run(run.id())).await;
            let adopted = policy == ParentPolicy::Adopt;
            let expected = if adopted {
                RunStatus::Answered
            } else {
                RunStatus::Cancelled
            };
            let end = end_of(&system, child).await;
            assert_eq!(end, expected, "{policy:?} {moment:?}");
            assert_eq!(stage.log.count("tidy"), usize::from(adopted), "{policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_parent_is_recovered_by_itself_and_can_be_talked_to() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| boss(stage, ParentPolicy::Adopt, 1);
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "done");
    let child = child(&stage).await;
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    assert_eq!(end_of(&system, child.run).await, RunStatus::Answered);
    let events = system.run(child.run).events().recorded().so_far().await;
    let names: Vec<String> = events
        .unwrap()
        .iter()
        .map(|e| e.event.name().into())
        .collect();
    assert_eq!(names.first().map(String::as_str), Some("run_started"));
    assert_eq!(names.last().map(String::as_str), Some("run_ended"));
    let session = system.session("boss", child.run.to_string());
    let said = session.transcript().await.unwrap().messages();
    assert_eq!(said[0].content(), "tidy up");
    let next = session.send(Turn::text("again")).await.unwrap();
    assert_eq!(text(&next).await, "tidy {}", "the worker answers");
}

#[tokio::test(start_paused = true)]
async fn it_can_be_waited_for_all_the_same() {
    for policy in ALL {
        for crashes in [false, true] {
            let mut stage = Stage::new();
            let agent = |stage: &Stage| {
                Agent::from_fn("boss", move |cx: RunContext| async move {
                    let task = || Task::from("tidy up").when_parent_ends(policy);
                    let child = cx.spawn("worker", task()).await?;
                    let first = cx.delegate("worker", task()).await?;
                    let second = cx.join(&child).await?;
                    Ok(Outcome::answer((first.text == second.text).to_string()))
                })
                .tool(stage.tool("tidy", Effect::Read, 5))
                .agent(worker())
            };
            let mut system = stage.start(agent(&stage)).await;
            let run = ask(&system, "boss", "go").await.id();
            if crashes {
                pause(2000).await;
                stage.crash(&system).await;
                system = stage.start(agent(&stage)).await;
            }
            assert_eq!(text(&system.run(run)).await, "true", "{policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_drops_its_second_wait_for_a_child_goes_on_after_a_crash() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        Agent::from_fn("boss", |cx: RunContext| async move {
            let child = cx.spawn("worker", "tidy up").await?;
            let done = tokio::select! {
                biased;
                done = cx.join(&child) => done?,
                done = cx.join(&child) => done?,
            };
            cx.sleep(Duration::from_secs(10)).await?;
            Ok(Outcome::answer(done.text))
        })
        .tool(stage.tool("tidy", Effect::Read, 5))
        .agent(worker())
    };
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "boss", "go").await.id();
    pause(15_000).await;
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    assert_eq!(text(&system.run(run)).await, "tidy {}");
}

#[tokio::test(start_paused = true)]
async fn its_share_of_the_budget_is_given_for_good() {
    for policy in [ParentPolicy::Continue, ParentPolicy::Adopt] {
        let stage = Stage::new();
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            let mut said = 0;
            while cx.model(cx.model_request(cx.conversation())).await.is_ok() {
                said += 1;
            }
            Ok(Outcome::answer(said.to_string()))
        });
        let middle = Agent::from_fn("middle", move |cx: RunContext| async move {
            let task = Task::from("go").share(50).when_parent_ends(policy);
            cx.spawn("worker", task).await?;
            Ok(Outcome::answer("done"))
        });
        let top = Agent::from_fn("top", |cx: RunContext| async move {
            cx.delegate("middle", Task::from("go").share(60)).await?;
            let left = cx.budget().await?.left(Resource::ModelCalls);
            Ok(Outcome::answer(format!("{left:?}")))
        });
        let agent = top.agent(middle.agent(worker));
        let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("yes")));
        let system = stage.start_with(agent, model.clone()).await;
        let budget = Budget {
            model_calls: Some(10),
            ..Budget::default()
        };
        let turn = Turn::text("go").budget(budget);
        let run = system.session("top", "s").send(turn).await.unwrap();
        // Six for the middle, which gives three away and uses none.
        assert_eq!(text(&run).await, "Some(7)");
        let child = child(&stage).await.run;
        assert_eq!(text(&system.run(child)).await, "3");
        assert_eq!(model.calls(), 3);
        let entries = stage.entries(run.id()).await;
        let Some(Entry::RunEnded(end)) = entries.last() else {
            panic!("it has ended");
        };
        assert_eq!(end.spent().given.model_calls, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_wherever_a_crash_strikes() {
    for policy in ALL {
        let scenario = Scenario::new("boss", move |builder, log| {
            let tidy = ToolDefinition::new("tidy", "is logged").effect(Effect::Idempotent);
            let boss = Agent::from_fn("boss", move |cx: RunContext| async move {
                if cx.input().content() == "wait" {
                    cx.sleep(Duration::from_secs(60)).await?;
                    return Ok(Outcome::answer("waited"));
                }
                let task = Task::from("tidy up").when_parent_ends(policy);
                let child = cx.spawn("worker", task).await?;
                cx.sleep(Duration::from_secs(1)).await?;
                Ok(Outcome::answer(child.run.to_string()))
            });
            let boss = boss.tool(log.tool(tidy, Duration::from_millis(5)));
            builder.team(boss.agent(worker()).into_team().unwrap())
        });
        // The second turn is there for the child to come to its end.
        let scenario = scenario.turn("go").turn("wait");
        let report = crash_everywhere(&scenario, CrashOptions::default()).await;
        assert!(report.violations.is_empty(), "{policy:?} {report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_being_recorded_is_cancelled_with_its_parent() {
    for moment in 0..120 {
        let stage = Stage::alone();
        let team = boss(&stage, ParentPolicy::Continue, 100).into_team();
        let system = System::builder(SlowStore::to_commit(stage.store.clone()))
            .options(stage.limits)
            .team(team.unwrap())
            .start()
            .await
            .unwrap();
        let run = ask(&system, "boss", "go").await;
        pause(moment).await;
        assert!(run.cancel("enough").await.unwrap());
        outcome(&run).await;
        pause(60_000).await;
        for row in stage.rows().await {
            let status = row.status;
            assert_eq!(status, RunStatus::Cancelled, "{moment}: {}", row.agent);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_a_child_that_goes_on_although_the_store_failed_once() {
    let stage = Stage::alone();
    let store = Contested::over(stage.store.clone());
    let failed = store.failed_posts.clone();
    let agent = boss(&stage, ParentPolicy::Continue, 100);
    let system = contested::start(&stage, store, agent).await;
    let run = ask(&system, "boss", "go").await;
    pause(700).await;
    assert!(run.cancel("enough").await.unwrap());
    failed.store(1, Ordering::SeqCst);
    outcome(&run).await;
    assert_eq!(failed.load(Ordering::SeqCst), 0, "it failed");
    let child = child(&stage).await.run;
    assert_eq!(end_of(&system, child).await, RunStatus::Cancelled);
}

/// A store that fails the first time that a worker is looked up.
struct FailsOnce(InMemoryStore, AtomicBool);

impl StoreWrapper for FailsOnce {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        let row = self.inner().run(run).await?;
        let is_worker = row.as_ref().is_some_and(|row| row.agent == "worker");
        if is_worker && !self.1.swap(true, Ordering::SeqCst) {
            let (place, reason) = ("a worker".to_owned(), "as told".to_owned());
            return Err(StoreError::Io { place, reason });
        }
        Ok(row)
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_parent_begins_although_the_store_failed_once() {
    let stage = Stage::alone();
    let team = boss(&stage, ParentPolicy::Adopt, 1).into_team().unwrap();
    let system = System::builder(FailsOnce(stage.store.clone(), AtomicBool::new(false)))
        .options(stage.limits)
        .model("default", silent())
        .team(team)
        .start()
        .await
        .unwrap();
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "done");
    let child = child(&stage).await.run;
    assert_eq!(end_of(&system, child).await, RunStatus::Answered);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_parent_is_carried_once_wherever_the_process_dies() {
    for policy in [ParentPolicy::Adopt, ParentPolicy::Continue] {
        for number in 0.. {
            let disk = InMemoryStore::new();
            let fault = crash(number);
            let mut stage = Stage::alone();
            stage.store = disk.clone();
            let start = async |store: FaultyStore<InMemoryStore>, stage: &Stage| {
                let team = boss(stage, policy, 1).into_team().unwrap();
                let builder = System::builder(store).options(stage.limits);
                let system = builder.model("default", silent()).team(team).start().await;
                system.unwrap()
            };
            let store = FaultyStore::at_commit(disk.clone(), fault);
            let system = start(store.clone(), &stage).await;
            let work = async {
                let session = system.session("boss", "s");
                let run = session.send(Turn::text("go").id("1")).await;
                outcome(&run.unwrap()).await;
                pause(60_000).await;
            };
            let died = tokio::select! {
                biased;
                () = store.crashed() => true,
                () = work => false,
            };
            if !died {
                assert!(number > 8, "{number}");
                break;
            }
            stage.crash(&system).await;
            let system = start(FaultyStore::new(stage.store.clone()), &stage).await;
            let session = system.session("boss", "s");
            let run = session.send(Turn::text("go").id("1")).await;
            assert_eq!(text(&run.unwrap()).await, "done");
            pause(60_000).await;
            let place = format!("{policy:?}, {fault:?}");
            let child = child(&stage).await;
            assert_eq!(child.status, RunStatus::Answered, "{place}");
            let entries = stage.entries(child.run).await;
            let recovered = |entry: &&Entry| matches!(entry, Entry::Activated { .. });
            let lives = entries.iter().filter(recovered).count();
            // Once by its session to begin, and once by the next process.
            assert!(lives <= 2, "{place}: recovered {lives} times");
            let session = JournalId::Session(child.session.unwrap());
            let lines = stage.store.read(session, 0, 100).await.unwrap();
            let last = lines.last().unwrap().line.decode().unwrap();
            assert!(matches!(last, Entry::TurnEnded(_)), "{place}: {last:?}");
        }
    }
}
