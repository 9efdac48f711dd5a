//! A fork keeps the children that came to their ends before its place, and none that its run let go.

use std::time::Duration;

use ghostlight_actors::{
    actor::Fork,
    run::{Agent, RunContext},
    vocabulary::{Effect, Outcome},
};

use crate::stage::{Stage, ask, call, pause, text};

#[tokio::test(start_paused = true)]
async fn a_run_is_forked_behind_the_end_of_a_child_that_was_stopped() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("never"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let child = cx.spawn("worker", "go").await?;
        let ended = cx.join(&child).await;
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer(format!("{:?}", ended.is_ok())))
    });
    let system = stage.start(agent.agent(worker)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "worker").unwrap();
    assert!(system.run(child.run).cancel("enough").await.unwrap());
    pause(10_000).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&fork).await, text(&run).await);
}

/// The loser of a race stays one in a fork: its child is not begun again.
#[tokio::test(start_paused = true)]
async fn a_fork_has_no_copy_of_a_child_that_the_run_let_go() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let boss = Agent::from_fn("a", |cx: RunContext| async move {
        let work = cx.delegate("worker", "go");
        let look = cx.tool_unasked(call("1", "look"));
        tokio::select! {
            biased;
            _ = work => {}
            _ = look => {}
        }
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer("done"))
    });
    let boss = boss
        .tool(stage.tool("look", Effect::Read, 50))
        .agent(worker);
    let system = stage.start(boss).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "done");
    assert_eq!(stage.rows().await.len(), 2, "the child had begun");
    let fork = run.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&fork).await, "done");
    let rows = stage.rows().await;
    let of_fork: Vec<&str> = rows
        .iter()
        .filter(|row| row.root == fork.id())
        .map(|row| row.agent.as_str())
        .collect();
    assert_eq!(of_fork, ["a"]);
}

/// The fork of a child has a session, which its recorded start does not name. It is found there by recovery
/// in every journal in which it goes on.
#[tokio::test(start_paused = true)]
async fn a_fork_of_a_child_that_goes_on_in_another_journal_outlives_its_process() {
    let boss = || {
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(10)).await?;
            Ok(match cx.input().content().as_str() {
                "go" => cx.continue_as("go on"),
                _ => Outcome::answer("worked"),
            })
        });
        let boss = Agent::from_fn("a", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("worker", "go").await?.text))
        });
        boss.agent(worker)
    };
    let mut stage = Stage::alone();
    let system = stage.start(boss()).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "worked");
    let rows = stage.rows().await;
    let child = rows
        .iter()
        .find(|row| row.agent == "worker" && row.title == "go");
    let child = system.run(child.unwrap().run);
    let next = rows.iter().find(|row| row.title == "go on").unwrap();
    let next = system.run(next.run);
    // One goes on in the next journal by itself, and of one that journal is a copy.
    let mut forks = Vec::new();
    for (run, at) in [(&child, 1), (&next, 2)] {
        forks.push(run.fork(Fork::at(at)).await.unwrap().id());
    }
    pause(15_000).await;
    stage.crash(&system).await;
    let system = stage.start(boss()).await;
    for fork in forks {
        assert_eq!(text(&system.run(fork)).await, "worked");
    }
    let rows = stage.rows().await;
    let lost = rows
        .iter()
        .filter(|row| row.root == row.run && row.session.is_none());
    assert_eq!(lost.count(), 0, "{rows:?}");
}

/// A child that its parent's end stops has no entry for that. What the engine then closes was never told to the
/// child's function, so a fork that had a part of it would be parked.
#[tokio::test(start_paused = true)]
async fn no_fork_of_a_child_that_was_stopped_begins_between_the_calls_that_were_closed() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.random().await?;
        let second = Duration::from_secs(1);
        let naps = [cx.sleep(second), cx.sleep(2 * second)];
        let slept = futures_util::future::join_all(naps).await;
        Ok(Outcome::answer(format!("{:?}", slept[1].is_ok())))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.spawn("worker", "go").await?;
        cx.sleep(Duration::from_millis(100)).await?;
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent.agent(worker)).await;
    assert_eq!(text(&ask(&system, "a", "go").await).await, "done");
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "worker").unwrap().run;
    let mut forked = 0;
    for at in 1..stage.entries(child).await.len() as u64 {
        if let Ok(fork) = system.run(child).fork(Fork::at(at)).await {
            assert_eq!(text(&fork).await, "true", "forked at {at}");
            forked += 1;
        }
    }
    assert!(forked > 1, "it is forked before it was stopped");
    let latest = system.run(child).fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&latest).await, "true");
}
