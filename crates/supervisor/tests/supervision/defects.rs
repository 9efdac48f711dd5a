//! Ten cases in which a supervisor for ractor that we examined fails. Ours must not.

use std::sync::Arc;
use std::time::Duration;

use ghostlight_supervisor::{
    Backoff, ChildError, ChildSpec, ChildState, Escalation, Shutdown, Strategy, Supervisor,
    SupervisorMessage, SupervisorSpec,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::actors::{Log, Order, Probe, Start, actor, order, seen, state_of, supervise};

#[tokio::test(start_paused = true)]
async fn defect_1_a_caller_that_goes_away_does_not_end_the_supervisor() {
    let log = Log::default();
    let supervisor = supervise(
        Strategy::OneForOne,
        0,
        [Probe::new("a", &log).child(ChildSpec::worker("a"))],
    )
    .await;
    let mut changes = supervisor.watch().await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let slow = Probe {
        start: Start::Gate(Arc::clone(&gate)),
        ..Probe::new("b", &log)
    };
    let call = supervisor.start_child(slow.child(ChildSpec::worker("b")));
    tokio::time::timeout(Duration::from_secs(1), call)
        .await
        .expect_err("it cannot have started");

    gate.add_permits(1);
    seen(&mut changes, "b", ChildState::Running).await;
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Running));

    // The same for the callers of the other commands.
    for id in ["a", "b"] {
        let mut call = Box::pin(supervisor.terminate_child(id));
        assert!(futures_util::poll!(&mut call).is_pending());
        drop(call);
        seen(&mut changes, id, ChildState::Stopped).await;
    }
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_2_an_id_in_use_is_refused_and_harms_nobody() {
    let log = Log::default();
    let supervisor = supervise(
        Strategy::OneForAll,
        0,
        [Probe::new("a", &log).child(ChildSpec::worker("a"))],
    )
    .await;
    let before = actor(&supervisor, "a").await;
    let again = supervisor
        .start_child(Probe::new("a2", &log).child(ChildSpec::worker("a")))
        .await;
    assert_eq!(again, Err(ChildError::AlreadyStarted));
    assert_eq!(actor(&supervisor, "a").await, before);
    assert_eq!(log.lines(), ["a starts", "a started"]);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_3_a_child_terminated_during_its_back_off_stays_down() {
    let log = Log::default();
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .intensity(9, Duration::from_secs(5))
        .backoff(Backoff::exponential(
            Duration::from_secs(1),
            Duration::from_secs(9),
        ));
    let builder = Supervisor::builder(spec);
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let (supervisor, _) = builder.child(child).start().await.unwrap();
    let mut changes = supervisor.watch().await.unwrap();
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "a", ChildState::Restarting).await;

    supervisor.terminate_child("a").await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopped));
    assert_eq!(log.count("a started"), 1);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_4_children_added_during_a_back_off_do_not_end_the_supervisor() {
    let log = Log::default();
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .intensity(1, Duration::from_secs(5))
        .backoff(Backoff::exponential(
            Duration::from_secs(1),
            Duration::from_secs(9),
        ));
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let (supervisor, _) = Supervisor::builder(spec)
        .child(child)
        .start()
        .await
        .unwrap();
    let mut changes = supervisor.watch().await.unwrap();
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "a", ChildState::Restarting).await;
    for id in ["b", "c", "d"] {
        let child = Probe::new(id, &log).child(ChildSpec::worker(id));
        supervisor.start_child(child).await.unwrap();
    }
    seen(&mut changes, "a", ChildState::Running).await;
    assert_eq!(supervisor.which_children().await.unwrap().len(), 4);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_5_actors_without_names_are_children_and_strangers_are_left_alone() {
    let log = Log::default();
    let supervisor = supervise(
        Strategy::OneForAll,
        0,
        [Probe::new("a", &log).child(ChildSpec::worker("a"))],
    )
    .await;
    assert_eq!(actor(&supervisor, "a").await.get_name(), None);
    assert_eq!(supervisor.actor().get_name(), None);

    // Somebody else's actor, linked to the supervisor by hand, comes and goes, well and badly.
    for end in [Order::Panic, Order::Fail] {
        let stranger = Probe::new("stranger", &log);
        let (stranger, task) = supervisor
            .actor()
            .spawn_linked(None, stranger, ())
            .await
            .unwrap();
        stranger.cast(end).unwrap();
        task.await.unwrap();
    }
    assert_eq!(supervisor.which_children().await.unwrap().len(), 1);
    assert_eq!(log.count("a started"), 1);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_6_a_transient_child_that_is_killed_is_restarted() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a").transient());
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    actor(&supervisor, "a").await.kill();
    seen(&mut changes, "a", ChildState::Running).await;
    assert_eq!(
        log.lines(),
        [
            "a starts",
            "a started",
            "a dropped",
            "a starts",
            "a started"
        ]
    );
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_7_a_group_whose_members_fail_together_restarts_once_and_is_charged_once() {
    let log = Log::default();
    let children = ["a", "b", "c"].map(|id| Probe::new(id, &log).child(ChildSpec::worker(id)));
    let supervisor = supervise(Strategy::OneForAll, 1, children).await;
    let mut changes = supervisor.watch().await.unwrap();
    let actors = [actor(&supervisor, "a").await, actor(&supervisor, "b").await];
    for actor in actors {
        actor.send_message(Order::Panic).unwrap();
    }
    seen(&mut changes, "c", ChildState::Running).await;
    for id in ["a", "b", "c"] {
        assert_eq!(log.count(&format!("{id} started")), 2);
    }
    // One restart is borne, so a second one would have ended it.
    assert_eq!(supervisor.which_children().await.unwrap().len(), 3);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn defect_8_siblings_are_stopped_gently_in_reverse_order_each_within_its_time() {
    let log = Log::default();
    let children = ["a", "b", "c", "d"].map(|id| {
        let probe = Probe {
            stubborn: id == "c",
            ..Probe::new(id, &log)
        };
        let time = Shutdown::Within(Duration::from_secs(3));
        probe.child(ChildSpec::worker(id).stopped_by(time))
    });
    let supervisor = supervise(Strategy::OneForAll, 1, children).await;
    let mut changes = supervisor.watch().await.unwrap();
    log.take();
    let began = Instant::now();
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "d", ChildState::Running).await;
    let restart = [
        "a dropped",
        "d stops",
        "d stopped",
        "d dropped",
        "c stops",
        "c dropped",
        "b stops",
        "b stopped",
        "b dropped",
        "a starts",
        "a started",
        "b starts",
        "b started",
        "c starts",
        "c started",
        "d starts",
        "d started",
    ];
    assert_eq!(log.take(), restart);
    assert_eq!(began.elapsed().as_secs(), 3);

    supervisor.stop().await;
    let stop = [
        "d stops",
        "d stopped",
        "c stops",
        "b stops",
        "b stopped",
        "a stops",
        "a stopped",
    ];
    let lines: Vec<_> = log
        .take()
        .into_iter()
        .filter(|line| !line.contains("dropped"))
        .collect();
    assert_eq!(lines, stop);
    assert_eq!(began.elapsed().as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn defect_9_two_hundred_children_that_crash_together_are_back_without_any_wait() {
    let log = Log::default();
    let ids: Vec<_> = (0..200).map(|id| format!("c{id}")).collect();
    let children = ids
        .iter()
        .map(|id| Probe::new(id, &log).child(ChildSpec::worker(id)));
    let supervisor = supervise(Strategy::OneForOne, 200, children).await;
    let mut changes = supervisor.watch().await.unwrap();
    let mut actors = Vec::new();
    for id in &ids {
        actors.push(actor(&supervisor, id).await);
    }
    let began = Instant::now();
    for actor in actors {
        actor.send_message(Order::Panic).unwrap();
    }
    let mut left = ids.len();
    while left > 0 {
        let change = changes.recv().await.unwrap();
        left -= usize::from(change.state == ChildState::Running);
    }
    // The clock moves only when everybody waits for it: nobody did.
    assert_eq!(began.elapsed(), Duration::ZERO);
    supervisor.stop().await;
}

/// Says most in a build with the feature `cluster`, in which ractor makes nothing a message by itself:
/// there this does not compile when one of ours is not.
#[test]
fn defect_10_messages_are_messages_with_and_without_ractors_cluster_feature() {
    fn is_message<M: ractor::Message>() {}
    is_message::<SupervisorMessage>();
    is_message::<Escalation>();
}
