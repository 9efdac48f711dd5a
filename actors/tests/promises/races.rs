//! The loser of a race is cancelled: its journal says so, and it comes to no end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use ghostlight_actors::{
    actor::System,
    contract::RunStatus,
    run::{Agent, RunContext, operations::Scope},
    session::Turn,
    testing::{FaultyStore, InMemoryStore},
    vocabulary::{Effect, Entry, OperationId, Outcome},
};

use crate::stage::{Stage, ask, call, crash, outcome, pause, silent, text};

/// Races a tool against another one, and goes on for longer than either takes.
fn racer(stage: &Stage, slow: Effect) -> Agent {
    Agent::from_fn("racer", |cx: RunContext| async move {
        let (fast, slow) = (cx.lane("fast"), cx.lane("slow"));
        let contestants = vec![
            fast.tool_unasked(call("1", "hare")),
            slow.tool_unasked(call("2", "snail")),
        ];
        let (place, result) = cx.race(contestants).await;
        let winner = result?.text;
        cx.sleep(Duration::from_secs(120)).await?;
        Ok(Outcome::answer(format!("{place}: {winner}")))
    })
    .tool(stage.tool("hare", Effect::Read, 1_000))
    .tool(stage.tool("snail", slow, 60_000))
}

fn dropped(entries: &[Entry]) -> Vec<OperationId> {
    let dropped = entries.iter().filter_map(|entry| match entry {
        Entry::Dropped { op, .. } => Some(*op),
        _ => None,
    });
    dropped.collect()
}

#[tokio::test(start_paused = true)]
async fn the_slower_of_two_tools_is_dropped_and_never_ends_whatever_its_effect() {
    for slow in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let stage = Stage::alone();
        let system = stage.start(racer(&stage, slow)).await;
        let run = ask(&system, "racer", "go").await;
        assert_eq!(text(&run).await, "0: hare {}", "{slow:?}");
        let entries = stage.entries(run.id()).await;
        let dropped = dropped(&entries);
        assert_eq!(dropped.len(), 1, "{slow:?}: {entries:?}");
        let ends =
            |entry: &Entry| matches!(entry, Entry::Completed { op, .. } if *op == dropped[0]);
        assert!(!entries.iter().any(ends), "{slow:?}: {entries:?}");
        let effects = stage.log.effects();
        let ended: Vec<_> = effects.iter().map(|e| (e.name.as_str(), e.ended)).collect();
        assert_eq!(ended, [("hare", true), ("snail", false)], "{slow:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loser_stays_one_in_the_next_process() {
    for slow in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let mut stage = Stage::alone();
        let system = stage.start(racer(&stage, slow)).await;
        let run = ask(&system, "racer", "go").await.id();
        pause(30_000).await;
        stage.crash(&system).await;
        let system = stage.start(racer(&stage, slow)).await;
        assert_eq!(text(&system.run(run)).await, "0: hare {}", "{slow:?}");
        assert_eq!(stage.log.count("hare"), 1, "{slow:?}");
        assert_eq!(stage.log.count("snail"), 1, "{slow:?}");
        assert_eq!(dropped(&stage.entries(run).await).len(), 1, "{slow:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_dropped_does_not_outlive_the_cancellation_of_its_run() {
    let stage = Stage::alone();
    let system = stage.start(racer(&stage, Effect::Once)).await;
    let run = ask(&system, "racer", "go").await;
    // The loser is in its grace period.
    pause(2_000).await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    pause(200_000).await;
    let effects = stage.log.effects();
    let ended: Vec<_> = effects.iter().map(|e| (e.name.as_str(), e.ended)).collect();
    assert_eq!(ended, [("hare", true), ("snail", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_spawning_lost_a_race_is_cancelled() {
    let stage = Stage::alone();
    let worker = |name| {
        Agent::from_fn(name, |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("worked"))
        })
    };
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let spawned = vec![cx.lane("a").spawn("a", "go"), cx.lane("b").spawn("b", "go")];
        let (_, first) = cx.race(spawned).await;
        let done = cx.join(&first?).await?;
        Ok(Outcome::answer(done.text))
    });
    let system = stage
        .start(boss.agent(worker("a")).agent(worker("b")))
        .await;
    let run = ask(&system, "boss", "go").await;
    pause(30_000).await;
    let mut statuses = Vec::new();
    for row in stage.rows().await {
        statuses.push((row.agent, row.status));
    }
    statuses.sort_by(|(one, _), (other, _)| one.cmp(other));
    let [(_, a), (_, b), _] = &statuses[..] else {
        panic!("{statuses:?}");
    };
    assert!(!a.is_ended() && b.is_ended(), "{statuses:?}");
    assert_eq!(text(&run).await, "worked");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lost_is_cancelled_by_the_next_process_if_the_first_did_not_come_to_it() {
    let boss = |stage: &Stage| {
        let snail = Agent::from_fn("snail", |cx: RunContext| async move {
            let result = cx.tool_unasked(call("1", "crawl")).await?;
            cx.sleep(Duration::from_secs(30)).await?;
            Ok(Outcome::answer(format!("{:?}", result.status)))
        });
        let snail = snail.tool(stage.tool("crawl", Effect::Once, 60_000));
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            let late = cx.timeout(Duration::from_secs(1), cx.delegate("snail", "go"));
            let late = late.await.is_err();
            cx.sleep(Duration::from_secs(120)).await?;
            Ok(Outcome::answer(late.to_string()))
        });
        boss.agent(snail)
    };
    let mut stage = Stage::alone();
    let system = stage.start(boss(&stage)).await;
    let run = ask(&system, "boss", "go").await.id();
    // The tool has its time to come to an end when the process dies.
    pause(1_500).await;
    stage.crash(&system).await;
    let rows = stage.rows().await;
    assert!(rows.iter().all(|row| !row.status.is_ended()), "{rows:?}");
    let system = stage.start(boss(&stage)).await;
    assert_eq!(text(&system.run(run)).await, "true");
    let rows = stage.rows().await;
    let snail = rows.iter().find(|row| row.agent == "snail").unwrap();
    assert_eq!(snail.status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lost_to_a_change_of_state_ends_wherever_the_process_dies() {
    let boss = || {
        let snail = Agent::from_fn("snail", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("crawled"))
        });
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            let state = cx.state(Scope::Session);
            let write = state.update("n", |n: Option<u32>| n.unwrap_or(0) + 1);
            let crawl = cx.delegate("snail", "go");
            let first = futures_util::future::select(crawl, write).await;
            let lost = matches!(first, futures_util::future::Either::Right(_));
            drop(first);
            Ok(Outcome::answer(lost.to_string()))
        });
        boss.agent(snail)
    };
    for number in 0.. {
        let mut stage = Stage::alone();
        let store = FaultyStore::at_commit(stage.store.clone(), crash(number));
        let start = async |store: FaultyStore<InMemoryStore>| {
            let team = boss().into_team().unwrap();
            let builder = System::builder(store).model("default", silent());
            builder.team(team).start().await.unwrap()
        };
        let system = start(store.clone()).await;
        let work = async {
            let session = system.session("boss", "s");
            let run = session.send(Turn::text("go").id("1")).await.unwrap();
            assert_eq!(text(&run).await, "true");
        };
        let died = tokio::select! {
            biased;
            () = store.crashed() => true,
            () = work => false,
        };
        stage.crash(&system).await;
        let system = start(FaultyStore::new(stage.store.clone())).await;
        let session = system.session("boss", "s");
        let run = session.send(Turn::text("go").id("1")).await.unwrap();
        assert_eq!(text(&run).await, "true");
        pause(1_000).await;
        let rows = stage.rows().await;
        let open: Vec<_> = rows.iter().filter(|row| !row.status.is_ended()).collect();
        assert!(open.is_empty(), "crash {number}: {open:?}");
        if !died {
            assert!(number > 4, "{number}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_while_it_is_replayed_takes_its_child_along() {
    let boss = |stage: &Stage, progress: Arc<AtomicU32>| {
        let snail = Agent::from_fn("snail", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(600)).await?;
            Ok(Outcome::answer("crawled"))
        });
        let boss = Agent::from_fn("boss", move |cx: RunContext| {
            let progress = progress.clone();
            async move {
                let crawl = cx.delegate("snail", "go");
                let work = async {
                    for _ in 0..5_000 {
                        cx.random().await?;
                        progress.fetch_add(1, SeqCst);
                    }
                    cx.tool_unasked(call("1", "crawl")).await
                };
                let (crawled, _) = futures_util::future::join(crawl, work).await;
                Ok(Outcome::answer(crawled?.text))
            }
        });
        let boss = boss
            .agent(snail)
            .tool(stage.tool("crawl", Effect::Once, 600_000));
        let top = Agent::from_fn("top", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("boss", "go").await?.text))
        });
        top.agent(boss)
    };
    let mut stage = Stage::alone();
    let system = stage.start(boss(&stage, Arc::default())).await;
    let run = ask(&system, "top", "go").await.id();
    pause(5_000).await;
    stage.crash(&system).await;
    let progress = Arc::new(AtomicU32::new(0));
    let system = stage.start(boss(&stage, progress.clone())).await;
    while progress.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let run = system.run(run);
    run.cancel("enough").await.unwrap();
    let replayed = progress.load(SeqCst);
    assert!(replayed < 5_000, "the replay was over: {replayed}");
    assert!(outcome(&run).await.stop_reason().is_some());
    assert!(progress.load(SeqCst) < 5_000, "the replay went on");
    let rows = stage.rows().await;
    let open: Vec<_> = rows.iter().filter(|row| !row.status.is_ended()).collect();
    assert!(rows.len() == 3 && open.is_empty(), "{open:?}");
}

/// Two parts of one function, of which the later one yields to other tasks before it asks for
/// anything: whether it asks before or after the first part's result came must not depend on time.
#[tokio::test(start_paused = true)]
async fn parts_that_yield_ask_in_the_same_order_in_every_life() {
    for (takes, yields) in [(0, 1), (0, 5), (20, 1), (20, 5), (20, 200)] {
        let pair = |stage: &Stage| {
            Agent::from_fn("pair", move |cx: RunContext| async move {
                let first = async {
                    match takes {
                        0 => drop(cx.random().await?),
                        _ => drop(cx.tool_unasked(call("1", "hare")).await?),
                    }
                    cx.tool_unasked(call("2", "hare")).await
                };
                let second = async {
                    for _ in 0..yields {
                        tokio::task::yield_now().await;
                    }
                    cx.tool_unasked(call("3", "snail")).await
                };
                let (first, second) = futures_util::future::join(first, second).await;
                let said = format!("{} {}", first?.text, second?.text);
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(Outcome::answer(said))
            })
            .tool(stage.tool("hare", Effect::Read, takes))
            .tool(stage.tool("snail", Effect::Once, 10))
        };
        let mut stage = Stage::alone();
        let system = stage.start(pair(&stage)).await;
        let run = ask(&system, "pair", "go").await.id();
        pause(5_000).await;
        stage.crash(&system).await;
        let system = stage.start(pair(&stage)).await;
        let run = system.run(run);
        pause(5_000).await;
        let status = run.status().await.unwrap().status;
        assert_ne!(status, RunStatus::Parked, "{takes} ms, {yields}");
        assert_eq!(text(&run).await, "hare {} snail {}", "{takes} ms, {yields}");
    }
}

/// The runtime of a run's thread decides which of two parts that yielded goes on first, so a replay needs such a
/// runtime too. The stage replays what is recorded when it is dropped.
#[tokio::test(start_paused = true)]
async fn parts_that_are_woken_one_by_one_ask_in_the_same_order_when_they_are_replayed() {
    let stage = Stage::new();
    let pair = Agent::from_fn("pair", |cx: RunContext| async move {
        let part = |name: &'static str| {
            let cx = &cx;
            async move {
                tokio::task::yield_now().await;
                cx.tool_unasked(call("1", name)).await
            }
        };
        let mut parts: FuturesUnordered<_> = ["hare", "snail"].map(part).into_iter().collect();
        let mut said = Vec::new();
        while let Some(result) = parts.next().await {
            said.push(result?.name);
        }
        Ok(Outcome::answer(said.join(" ")))
    })
    .tool(stage.tool("hare", Effect::Read, 10))
    .tool(stage.tool("snail", Effect::Read, 10));
    let system = stage.start(pair).await;
    let said = text(&ask(&system, "pair", "go").await).await;
    assert!(said.contains("hare") && said.contains("snail"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn parts_that_yield_ask_in_the_same_order_on_several_threads() {
    let stage = Stage::new();
    let pair = Agent::from_fn("pair", |cx: RunContext| async move {
        for _ in 0..50 {
            let first = async {
                cx.random().await?;
                cx.tool_unasked(call("1", "hare")).await
            };
            let second = async {
                tokio::task::yield_now().await;
                cx.tool_unasked(call("2", "snail")).await
            };
            let (first, second) = futures_util::future::join(first, second).await;
            first?;
            second?;
        }
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("hare", Effect::Read, 0))
    .tool(stage.tool("snail", Effect::Read, 0));
    let system = stage.start(pair).await;
    // The stage replays the journal of this run when the test ends.
    assert_eq!(text(&ask(&system, "pair", "go").await).await, "done");
}
