//! What ractor's stop, drain, kill, panic and abort really do, and that the supervisor is not surprised.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::future::BoxFuture;
use ghostlight_supervisor::{
    Backoff, Child, ChildError, ChildSpec, ChildState, Exit, RestartDecision, Shutdown, Strategy,
    Supervisor, SupervisorSpec,
};
use parking_lot::Mutex;
use ractor::{ActorCell, ActorRuntime};
use tokio::sync::Semaphore;

use crate::actors::{Log, Order, Probe, Start, actor, order, seen, state_of, supervise};

/// A child that tells its classifier's exits to the test.
fn classified(probe: Probe, spec: ChildSpec) -> (Child, Arc<Mutex<Vec<Exit>>>) {
    let exits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&exits);
    let child = probe.child(spec).classify_exits(move |exit| {
        seen.lock().push(exit.clone());
        RestartDecision::Counted
    });
    (child, exits)
}

/// How a permanent child's end by this deed is understood.
async fn exit_after(deed: impl AsyncFnOnce(ActorCell)) -> Exit {
    let log = Log::default();
    let (child, exits) = classified(Probe::new("a", &log), ChildSpec::worker("a"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    deed(actor(&supervisor, "a").await).await;
    seen(&mut changes, "a", ChildState::Running).await;
    supervisor.stop().await;
    let exits = std::mem::take(&mut *exits.lock());
    // The stop at the end was asked for and is an exit, too.
    exits.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_kill_is_reported_as_a_termination_and_is_abnormal_all_the_same() {
    let exit = exit_after(async |actor: ActorCell| actor.kill()).await;
    assert_eq!(exit, Exit::Killed);
    assert!(!exit.is_normal());
}

#[tokio::test(start_paused = true)]
async fn a_kill_in_the_middle_of_a_handler_is_a_kill() {
    let exit = exit_after(async |actor: ActorCell| {
        actor.send_message(Order::Hang).unwrap();
        tokio::task::yield_now().await;
        actor.kill();
    })
    .await;
    assert_eq!(exit, Exit::Killed);
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_an_error_are_failures_with_their_text() {
    let panic = exit_after(async |actor: ActorCell| actor.send_message(Order::Panic).unwrap());
    assert_eq!(
        panic.await,
        Exit::Failed {
            error: "as ordered".to_owned()
        }
    );
    let error = exit_after(async |actor: ActorCell| actor.send_message(Order::Fail).unwrap());
    assert_eq!(
        error.await,
        Exit::Failed {
            error: "as ordered".to_owned()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_and_a_drain_are_normal_whatever_their_reason() {
    let plain = exit_after(async |actor: ActorCell| actor.stop(None)).await;
    assert_eq!(plain, Exit::Stopped { reason: None });
    let reason = exit_after(async |actor: ActorCell| actor.stop(Some("done".to_owned()))).await;
    assert_eq!(
        reason,
        Exit::Stopped {
            reason: Some("done".to_owned())
        }
    );
    let drain = exit_after(async |actor: ActorCell| actor.drain().unwrap()).await;
    assert_eq!(
        drain,
        Exit::Stopped {
            reason: Some("Drained".to_owned())
        }
    );
    assert!(plain.is_normal() && reason.is_normal() && drain.is_normal());
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_is_abnormal() {
    let log = Log::default();
    let tasks = Arc::new(Mutex::new(Vec::new()));
    let (kept, probe) = (Arc::clone(&tasks), Probe::new("a", &log));
    let child = Child::new(ChildSpec::worker("a").transient(), move |supervisor| {
        let (kept, probe) = (Arc::clone(&kept), probe.clone());
        async move {
            let (actor, task) = ActorRuntime::spawn_linked(None, probe, (), supervisor).await?;
            kept.lock().push(task.abort_handle());
            Ok((actor.get_cell(), task))
        }
    });
    let exits = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&exits);
    let child = child.classify_exits(move |exit| {
        told.lock().push(exit.clone());
        RestartDecision::Counted
    });
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    tasks.lock().pop().unwrap().abort();
    seen(&mut changes, "a", ChildState::Running).await;
    assert_eq!(*exits.lock(), [Exit::Aborted]);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn post_stop_runs_after_a_gentle_stop_and_not_after_a_brutal_kill() {
    let log = Log::default();
    let gentle = Probe::new("gentle", &log).child(ChildSpec::worker("gentle"));
    let brutal = ChildSpec::worker("brutal").stopped_by(Shutdown::BrutalKill);
    let brutal = Probe::new("brutal", &log).child(brutal);
    let supervisor = supervise(Strategy::OneForOne, 0, [gentle, brutal]).await;
    supervisor.stop().await;
    assert_eq!(
        (log.count("gentle stopped"), log.count("brutal stops")),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_killed_child_is_dropped_unread_before_its_successor_starts() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    order(&supervisor, "a", Order::Hang).await;
    tokio::task::yield_now().await;
    actor(&supervisor, "a").await.kill();
    seen(&mut changes, "a", ChildState::Running).await;
    let lines = [
        "a starts",
        "a started",
        "a half changed dropped",
        "a starts",
        "a started",
    ];
    assert_eq!(log.lines(), lines);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_a_tree_stops_it_gently_down_to_its_leaves() {
    let log = Log::default();
    let leaf = |id: &str| Probe::new(id, &log).child(ChildSpec::worker(id));
    let inner = Supervisor::builder(SupervisorSpec::default()).children([leaf("c"), leaf("d")]);
    let middle = Supervisor::builder(SupervisorSpec::default())
        .children([leaf("b"), inner.into_child(ChildSpec::supervisor("inner"))]);
    let children = [
        leaf("a"),
        middle.into_child(ChildSpec::supervisor("middle")),
        leaf("e"),
    ];
    let supervisor = supervise(Strategy::OneForOne, 0, children).await;
    log.take();
    // By ractor's own stop, as any parent would do it.
    supervisor.actor().stop(None);
    supervisor.wait().await;
    let lines: Vec<_> = log
        .take()
        .into_iter()
        .filter(|line| line.ends_with("stopped"))
        .collect();
    assert_eq!(
        lines,
        [
            "e stopped",
            "d stopped",
            "c stopped",
            "b stopped",
            "a stopped"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn killing_a_supervisor_leaves_nothing_running_and_nothing_to_come() {
    let log = Log::default();
    let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(9));
    let spec = SupervisorSpec::default()
        .intensity(9, Duration::from_secs(5))
        .backoff(backoff);
    let gate = Arc::new(Semaphore::new(0));
    let children = ["runs", "waits"].map(|id| Probe::new(id, &log).child(ChildSpec::worker(id)));
    let (supervisor, task) = Supervisor::builder(spec)
        .children(children)
        .start()
        .await
        .unwrap();
    let mut changes = supervisor.watch().await.unwrap();
    order(&supervisor, "waits", Order::Panic).await;
    seen(&mut changes, "waits", ChildState::Restarting).await;
    let slow = Probe {
        start: Start::Gate(Arc::clone(&gate)),
        ..Probe::new("slow", &log)
    };
    let asked = supervisor.clone();
    let call = tokio::spawn(async move {
        asked
            .start_child(slow.child(ChildSpec::worker("slow")))
            .await
    });
    seen(&mut changes, "slow", ChildState::Starting).await;

    let runs = actor(&supervisor, "runs").await;
    supervisor.actor().kill();
    task.await.unwrap();
    runs.wait(None).await.unwrap();
    assert_eq!(call.await.unwrap(), Err(ChildError::Ended));
    log.take();
    gate.add_permits(1);
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::task::yield_now().await;
    assert_eq!(log.lines(), Vec::<String>::new());
    assert_eq!(gate.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_waits_for_the_end_as_the_first_does() {
    let log = Log::default();
    let probe = Probe {
        stubborn: true,
        ..Probe::new("a", &log)
    };
    let time = Shutdown::Within(Duration::from_secs(3));
    let child = probe.child(ChildSpec::worker("a").stopped_by(time));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let began = tokio::time::Instant::now();
    tokio::join!(supervisor.stop(), supervisor.stop());
    assert_eq!(began.elapsed().as_secs(), 3);
    supervisor.stop().await;
    assert_eq!(supervisor.which_children().await, Err(ChildError::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_somebody_else_has_stopped_already_is_still_waited_for_and_killed_in_time() {
    let log = Log::default();
    let probe = Probe {
        stubborn: true,
        ..Probe::new("a", &log)
    };
    let time = Shutdown::Within(Duration::from_secs(3));
    let child = probe.child(ChildSpec::worker("a").stopped_by(time));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let began = tokio::time::Instant::now();
    // ractor takes one stop only; ours comes second.
    actor(&supervisor, "a").await.stop(None);
    supervisor.terminate_child("a").await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopped));
    supervisor.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_waits_for_the_real_end_of_a_predecessor_that_blocks_its_thread() {
    let log = Log::default();
    let spec = ChildSpec::worker("a").stopped_by(Shutdown::BrutalKill);
    let supervisor = supervise(Strategy::OneForOne, 1, [Probe::new("a", &log).child(spec)]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let (release, until) = mpsc::channel();
    order(&supervisor, "a", Order::Block(until)).await;
    while log.count("a blocks") == 0 {
        tokio::task::yield_now().await;
    }
    // Killed, and yet it goes on: a kill cannot interrupt synchronous code.
    let asked = supervisor.clone();
    let stop = tokio::spawn(async move { asked.terminate_child("a").await });
    seen(&mut changes, "a", ChildState::Stopping).await;
    let asked = supervisor.clone();
    let start = tokio::spawn(async move { asked.restart_child("a").await });
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopping));
    release.send(()).unwrap();
    stop.await.unwrap().unwrap();
    start.await.unwrap().unwrap();
    let lines = log.lines();
    assert_eq!(
        lines,
        [
            "a starts",
            "a started",
            "a blocks",
            "a blocked",
            "a dropped",
            "a starts",
            "a started"
        ]
    );
    supervisor.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_waits_for_the_descendants_of_a_predecessor_that_was_killed() {
    let log = Log::default();
    let below = |log: Log, parent: ActorCell| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            parent
                .spawn_linked(None, Probe::new("below", &log), ())
                .await
                .unwrap();
        })
    };
    let probe = Probe {
        below: Some(below),
        ..Probe::new("a", &log)
    };
    let child = probe.child(ChildSpec::worker("a").stopped_by(Shutdown::BrutalKill));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let (release, until) = mpsc::channel();
    let parent = actor(&supervisor, "a").await;
    let below = parent.get_children().pop().unwrap();
    below.send_message(Order::Block(until)).unwrap();
    while log.count("below blocks") == 0 {
        tokio::task::yield_now().await;
    }
    let asked = supervisor.clone();
    let stop = tokio::spawn(async move { asked.terminate_child("a").await });
    seen(&mut changes, "a", ChildState::Stopping).await;
    let asked = supervisor.clone();
    let start = tokio::spawn(async move { asked.restart_child("a").await });
    parent.wait(None).await.unwrap();
    for _ in 0..100 {
        assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopping));
    }
    release.send(()).unwrap();
    stop.await.unwrap().unwrap();
    start.await.unwrap().unwrap();
    let lines = log.lines();
    let position = |line: &str| lines.iter().rposition(|other| other == line).unwrap();
    assert!(
        position("below blocked") < position("a starts"),
        "{lines:?}"
    );
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_unlinks_itself_is_still_watched() {
    let log = Log::default();
    let (child, exits) = classified(Probe::new("a", &log), ChildSpec::worker("a").transient());
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let naughty = actor(&supervisor, "a").await;
    naughty.unlink(supervisor.actor());
    naughty.stop(None);
    seen(&mut changes, "a", ChildState::Running).await;
    assert_eq!(*exits.lock(), [Exit::Unobserved]);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_reaches_a_watcher_whole() {
    let log = Log::default();
    let supervisor = supervise(Strategy::SimpleOneForOne, 0, []).await;
    let mut changes = supervisor.watch().await.unwrap();
    for id in 0..300 {
        let child = Probe::new("a", &log).child(ChildSpec::worker(format!("a{id}")).temporary());
        supervisor.start_child(child).await.unwrap();
    }
    for id in 0..300 {
        for state in [ChildState::Starting, ChildState::Running] {
            let change = changes.try_recv().unwrap();
            assert_eq!((change.id, change.state), (format!("a{id}"), state));
        }
    }
    supervisor.stop().await;
}
