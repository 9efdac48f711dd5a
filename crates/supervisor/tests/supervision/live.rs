//! The supervisor with real actors: what callers and parents see.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ghostlight_supervisor::{
    AutoShutdown, Backoff, ChildError, ChildInfo, ChildRef, ChildSpec, ChildState, Exit,
    RestartDecision, SpecError, StartError, Strategy, Supervisor, SupervisorSpec,
};
use ractor::Actor;
use tokio::time::Instant;

use crate::actors::{Log, Order, Parent, Probe, Start, actor, order, seen, state_of, supervise};

#[tokio::test(start_paused = true)]
async fn children_start_in_order_and_a_tree_is_shown_as_plain_data() {
    let log = Log::default();
    let leaf = |id: &str| Probe::new(id, &log).child(ChildSpec::worker(id));
    let below = Supervisor::builder(SupervisorSpec::default()).children([leaf("b"), leaf("c")]);
    let children = [
        leaf("a"),
        below.into_child(ChildSpec::supervisor("below")),
        leaf("d"),
    ];
    let supervisor = supervise(Strategy::OneForOne, 1, children).await;
    let started: Vec<_> = log
        .take()
        .into_iter()
        .filter(|line| line.ends_with("started"))
        .collect();
    assert_eq!(
        started,
        ["a started", "b started", "c started", "d started"]
    );

    let tree = supervisor.which_children().await.unwrap();
    let ids = |children: &[ChildInfo]| -> Vec<String> {
        children.iter().map(|child| child.id.clone()).collect()
    };
    assert_eq!(ids(&tree), ["a", "below", "d"]);
    assert_eq!(ids(&tree[1].children), ["b", "c"]);
    assert!(
        tree.iter()
            .all(|child| child.state == ChildState::Running && child.actor.is_some())
    );
    let json = serde_json::to_string(&tree).unwrap();
    assert_eq!(serde_json::from_str::<Vec<ChildInfo>>(&json).unwrap(), tree);

    let below = Supervisor::from_actor(actor(&supervisor, "below").await).unwrap();
    below.start_child(leaf("e")).await.unwrap();
    assert_eq!(
        ids(&supervisor.which_children().await.unwrap()[1].children),
        ["b", "c", "e"]
    );
    assert!(Supervisor::from_actor(actor(&supervisor, "a").await).is_none());
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_child_that_does_not_start_stops_those_before_it_and_says_so() {
    let log = Log::default();
    let broken = Probe {
        start: Start::Fail(Arc::new(AtomicU32::new(1))),
        ..Probe::new("c", &log)
    };
    let result = Supervisor::builder(SupervisorSpec::default())
        .children(["a", "b"].map(|id| Probe::new(id, &log).child(ChildSpec::worker(id))))
        .child(broken.child(ChildSpec::worker("c")))
        .start()
        .await;
    let error = StartError::Child {
        child: "c".to_owned(),
        error: "not yet".to_owned(),
    };
    assert_eq!(result.unwrap_err(), error);
    let stopped: Vec<_> = log
        .take()
        .into_iter()
        .filter(|line| line.ends_with("stopped"))
        .collect();
    assert_eq!(stopped, ["b stopped", "a stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_spec_starts_nothing() {
    let log = Log::default();
    let twice = ["a", "a"].map(|id| Probe::new(id, &log).child(ChildSpec::worker(id)));
    let result = Supervisor::builder(SupervisorSpec::default())
        .children(twice)
        .start()
        .await;
    let error = StartError::Spec(SpecError::DuplicateId { id: "a".to_owned() });
    assert_eq!(result.unwrap_err(), error);
    assert!(log.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_parent_hears_that_restarts_are_used_up_and_then_that_the_supervisor_ended() {
    let log = Log::default();
    let (parent, _) = Actor::spawn(None, Parent(log.clone()), ()).await.unwrap();
    let spec = SupervisorSpec::default().intensity(0, Duration::from_secs(5));
    let (supervisor, task) = Supervisor::builder(spec)
        .children(["a", "b"].map(|id| Probe::new(id, &log).child(ChildSpec::worker(id))))
        .escalate_to(parent.clone())
        .start_linked(parent.get_cell())
        .await
        .unwrap();
    log.take();
    order(&supervisor, "b", Order::Fail).await;
    task.await.unwrap();
    parent.drain().unwrap();
    parent.get_cell().wait(None).await.unwrap();
    let what = "1 restarts in 5s are too many; the last was of `b`: failed: as ordered";
    let mut lines = log.take();
    lines.retain(|line| line.contains(':') || line == "a stopped");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.contains(&format!("escalated: {what}")), "{lines:?}");
    let ended = lines
        .iter()
        .position(|line| *line == format!("ended: shutdown: {what}"))
        .unwrap();
    let stopped = lines.iter().position(|line| line == "a stopped").unwrap();
    assert!(stopped < ended, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_used_up_its_restarts_is_restarted_whole_by_its_parent() {
    let log = Log::default();
    let leaf = |id: &str| Probe::new(id, &log).child(ChildSpec::worker(id));
    let spec = SupervisorSpec::default().intensity(0, Duration::from_secs(5));
    let below = Supervisor::builder(spec).children([leaf("b"), leaf("c")]);
    let below = below.into_child(ChildSpec::supervisor("below"));
    let supervisor = supervise(Strategy::OneForOne, 1, [leaf("a"), below]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let inner = Supervisor::from_actor(actor(&supervisor, "below").await).unwrap();
    order(&inner, "b", Order::Panic).await;
    seen(&mut changes, "below", ChildState::Running).await;
    assert_eq!(
        ["a", "b", "c"].map(|id| log.count(&format!("{id} started"))),
        [1, 2, 2]
    );
    assert_eq!(log.count("c stopped"), 1);
    let tree = supervisor.which_children().await.unwrap();
    assert_eq!((tree[1].restarts, tree[1].children.len()), (1, 2));
    assert_eq!(inner.which_children().await, Err(ChildError::Ended));
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn significant_children_end_their_supervisor() {
    let log = Log::default();
    let (parent, _) = Actor::spawn(None, Parent(log.clone()), ()).await.unwrap();
    let spec = SupervisorSpec::default().auto_shutdown(AutoShutdown::AnySignificant);
    let job = ChildSpec::worker("job").transient().significant();
    let (supervisor, task) = Supervisor::builder(spec)
        .child(Probe::new("help", &log).child(ChildSpec::worker("help")))
        .child(Probe::new("job", &log).child(job))
        .start_linked(parent.get_cell())
        .await
        .unwrap();
    actor(&supervisor, "job").await.stop(None);
    task.await.unwrap();
    parent.drain().unwrap();
    parent.get_cell().wait(None).await.unwrap();
    let lines = log.take();
    assert!(lines.contains(&"help stopped".to_owned()), "{lines:?}");
    assert!(
        lines.contains(&"ended: shutdown: significant child `job` ended".to_owned()),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_the_child_excuses_is_outlived() {
    let log = Log::default();
    let child = Probe::new("a", &log)
        .child(ChildSpec::worker("a"))
        .classify_exits(|exit| match exit {
            Exit::Failed { error } if error == "as ordered" => RestartDecision::Excused,
            _ => RestartDecision::Counted,
        });
    let supervisor = supervise(Strategy::OneForOne, 0, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    for _ in 0..10 {
        order(&supervisor, "a", Order::Fail).await;
        seen(&mut changes, "a", ChildState::Running).await;
    }
    actor(&supervisor, "a").await.kill();
    supervisor.wait().await;
    assert_eq!(log.count("a started"), 11);
}

#[tokio::test(start_paused = true)]
async fn a_back_off_with_one_seed_is_the_same_every_time() {
    async fn waits(seed: u64) -> Vec<Duration> {
        let log = Log::default();
        let backoff = Backoff {
            jitter: 1.0,
            ..Backoff::exponential(Duration::from_secs(1), Duration::from_secs(20))
        };
        let spec = SupervisorSpec::default()
            .intensity(9, Duration::from_secs(5))
            .backoff(backoff)
            .seed(seed);
        let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
        let (supervisor, _) = Supervisor::builder(spec)
            .child(child)
            .start()
            .await
            .unwrap();
        let mut changes = supervisor.watch().await.unwrap();
        let mut waits = Vec::new();
        for _ in 0..4 {
            let began = Instant::now();
            order(&supervisor, "a", Order::Panic).await;
            seen(&mut changes, "a", ChildState::Running).await;
            waits.push(began.elapsed());
        }
        supervisor.stop().await;
        waits
    }
    let first = waits(7).await;
    assert_eq!(first, waits(7).await);
    assert_ne!(first, waits(8).await);
}

#[tokio::test(start_paused = true)]
async fn commands_do_with_actors_what_they_say() {
    let log = Log::default();
    let child = |id: &str| Probe::new(id, &log).child(ChildSpec::worker(id));
    let supervisor = supervise(Strategy::OneForOne, 0, [child("a")]).await;
    let b = supervisor.start_child(child("b")).await.unwrap();
    assert_eq!(supervisor.find_child("b").await.unwrap(), Some(b.clone()));
    b.send_message(Order::Note("works".to_owned())).unwrap();
    supervisor.terminate_child("b").await.unwrap();
    assert_eq!(b.get_status(), ractor::ActorStatus::Stopped);
    assert_eq!(supervisor.find_child("b").await.unwrap(), None);
    assert_eq!(state_of(&supervisor, "b").await, Some(ChildState::Stopped));
    let again = supervisor.restart_child("b").await.unwrap();
    assert_ne!(again, b);
    assert_eq!(supervisor.delete_child("b").await, Err(ChildError::Running));
    supervisor.terminate_child("b").await.unwrap();
    supervisor.delete_child("b").await.unwrap();
    assert_eq!(state_of(&supervisor, "b").await, None);
    assert_eq!(
        supervisor.restart_child("b").await,
        Err(ChildError::NotFound)
    );
    supervisor.stop().await;
    assert_eq!(
        supervisor.start_child(child("c")).await,
        Err(ChildError::Ended)
    );
    assert_eq!(
        supervisor.terminate_child("a").await,
        Err(ChildError::Ended)
    );
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_every_change_in_order() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "a", ChildState::Starting).await;
    seen(&mut changes, "a", ChildState::Running).await;
    supervisor.terminate_child("a").await.unwrap();
    supervisor.delete_child("a").await.unwrap();
    let mut states = Vec::new();
    while let Ok(change) = changes.try_recv() {
        states.push(change.state);
    }
    assert_eq!(
        states,
        [
            ChildState::Stopping,
            ChildState::Stopped,
            ChildState::Removed
        ]
    );
    supervisor.stop().await;
    assert!(changes.recv().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exits_are_understood_on_several_threads() {
    // ractor tells of an end on another port than our own tasks do; with threads either may be seen
    // first. A transient child that is now stopped and now killed tells the two apart.
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a").transient());
    let supervisor = supervise(Strategy::OneForOne, 1_000, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    for round in 0..500 {
        let running = actor(&supervisor, "a").await;
        if round % 2 == 0 {
            running.stop(None);
            seen(&mut changes, "a", ChildState::Stopped).await;
            supervisor.restart_child("a").await.unwrap();
        } else {
            running.kill();
        }
        seen(&mut changes, "a", ChildState::Running).await;
    }
    supervisor.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ends_at_once_are_understood_on_several_threads() {
    let log = Log::default();
    let children: Vec<_> = (0..100)
        .map(|id| Probe::new("a", &log).child(ChildSpec::worker(format!("a{id}")).transient()))
        .collect();
    for _ in 0..20 {
        let supervisor = supervise(Strategy::OneForOne, 0, children.clone()).await;
        let mut changes = supervisor.watch().await.unwrap();
        let mut running = Vec::new();
        for id in 0..100 {
            running.push(actor(&supervisor, &format!("a{id}")).await);
        }
        running.iter().for_each(|actor| actor.stop(None));
        // A normal end that is taken for an abnormal one would end the supervisor.
        for _ in 0..100 {
            assert_eq!(changes.recv().await.unwrap().state, ChildState::Stopped);
        }
        supervisor.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_child_leads_to_the_incarnation_that_runs() {
    let log = Log::default();
    let leaf = Probe::new("leaf", &log).child(ChildSpec::worker("leaf"));
    let below = Supervisor::builder(SupervisorSpec::default()).child(leaf);
    let children = [below.into_child(ChildSpec::supervisor("below"))];
    let supervisor = supervise(Strategy::OneForOne, 10, children).await;
    let address = supervisor.child("below").child("leaf");
    for killed in [address.clone(), supervisor.child("below")] {
        let before = address.actor().await.unwrap();
        killed.actor().await.unwrap().kill();
        let mut after = address.actor().await.unwrap();
        while after.get_id() == before.get_id() {
            // The kill has not reached it yet.
            tokio::task::yield_now().await;
            after = address.actor().await.unwrap();
        }
    }
    let error = |address: ChildRef| async move { address.actor().await.unwrap_err() };
    assert_eq!(error(supervisor.child("other")).await, ChildError::NotFound);
    assert_eq!(
        error(address.clone().child("lower")).await,
        ChildError::NotFound
    );
    supervisor.terminate_child("below").await.unwrap();
    assert_eq!(error(address.clone()).await, ChildError::Stopped);
    supervisor.stop().await;
    assert_eq!(error(address).await, ChildError::Ended);
}
