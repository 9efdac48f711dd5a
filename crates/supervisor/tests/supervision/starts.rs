//! Starts that hang, fail, end at once or go their own way.

use std::sync::Arc;
use std::time::Duration;

use ghostlight_supervisor::{
    Child, ChildError, ChildSpec, ChildState, Strategy, Supervisor, SupervisorSpec,
};
use parking_lot::Mutex;
use ractor::{Actor, ActorRef, ActorRuntime};
use tokio::sync::Semaphore;

use crate::actors::{
    Log, Order, Probe, SUPERVISOR, Start, actor, order, seen, state_of, supervise,
};

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_in_its_start_keeps_nobody_waiting() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let never = Start::Gate(Arc::new(Semaphore::new(0)));
    let hangs = Probe {
        start: never,
        ..Probe::new("hangs", &log)
    };
    let asked = supervisor.clone();
    let call = tokio::spawn(async move {
        asked
            .start_child(hangs.child(ChildSpec::worker("hangs")))
            .await
    });
    seen(&mut changes, "hangs", ChildState::Starting).await;

    assert_eq!(
        state_of(&supervisor, "hangs").await,
        Some(ChildState::Starting)
    );
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "a", ChildState::Running).await;
    supervisor.terminate_child("hangs").await.unwrap();
    assert_eq!(call.await.unwrap(), Err(ChildError::Terminated));
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_start_that_hangs() {
    let log = Log::default();
    let supervisor = supervise(Strategy::OneForOne, 1, []).await;
    let mut changes = supervisor.watch().await.unwrap();
    let never = Start::Gate(Arc::new(Semaphore::new(0)));
    let hangs = Probe {
        start: never,
        ..Probe::new("hangs", &log)
    };
    let asked = supervisor.clone();
    let call = tokio::spawn(async move {
        asked
            .start_child(hangs.child(ChildSpec::worker("hangs")))
            .await
    });
    seen(&mut changes, "hangs", ChildState::Starting).await;
    supervisor.stop().await;
    assert_eq!(call.await.unwrap(), Err(ChildError::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_child_may_ask_its_supervisor_while_it_starts() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    SUPERVISOR.with(|cell| *cell.borrow_mut() = Some(supervisor.clone()));
    let asks = Probe {
        start: Start::AskSupervisor,
        ..Probe::new("b", &log)
    };
    supervisor
        .start_child(asks.child(ChildSpec::worker("b")))
        .await
        .unwrap();
    assert_eq!(log.count("b sees 2 children"), 1);
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_links_nothing_makes_a_child_all_the_same() {
    let log = Log::default();
    let probe = Probe::new("a", &log);
    let child = Child::new(ChildSpec::worker("a"), move |_| {
        let probe = probe.clone();
        async move {
            Actor::spawn(None, probe, ())
                .await
                .map(|(actor, task)| (actor.get_cell(), task))
        }
    });
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let first = actor(&supervisor, "a").await;
    assert_eq!(first.try_get_supervisor(), Some(supervisor.actor()));
    first.kill();
    seen(&mut changes, "a", ChildState::Running).await;
    let second = actor(&supervisor, "a").await;
    supervisor.actor().kill();
    second.wait(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_child_killed_during_its_start_has_not_started() {
    let log = Log::default();
    let supervisor = supervise(Strategy::OneForOne, 0, []).await;
    let never = Start::Gate(Arc::new(Semaphore::new(0)));
    let probe = Probe {
        start: never,
        ..Probe::new("a", &log)
    };
    let child = Child::new(ChildSpec::worker("a"), move |supervisor| {
        let probe = probe.clone();
        async move {
            let (actor, task) = ActorRuntime::spawn_linked_instant(None, probe, (), supervisor)?;
            actor.kill();
            let task = task
                .await
                .map_err(|error| ractor::SpawnErr::StartupFailed(error.into()))??;
            Ok((actor.get_cell(), task))
        }
    });
    let error = supervisor.start_child(child).await.unwrap_err();
    assert!(matches!(error, ChildError::StartFailed { .. }), "{error}");
    assert_eq!(supervisor.which_children().await, Ok(Vec::new()));
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn panics_in_a_factory_a_start_and_a_classifier_are_contained() {
    let log = Log::default();
    let child = Probe::new("a", &log).child(ChildSpec::worker("a"));
    let child = child.classify_exits(|_| panic!("in the classifier"));
    let supervisor = supervise(Strategy::OneForOne, 1, [child]).await;
    let mut changes = supervisor.watch().await.unwrap();
    let panics = Probe {
        start: Start::Panic,
        ..Probe::new("b", &log)
    };
    let failed = supervisor
        .start_child(panics.child(ChildSpec::worker("b")))
        .await;
    assert_eq!(
        failed,
        Err(ChildError::StartFailed {
            error: "in pre_start".to_owned()
        })
    );
    let child = Child::of::<Probe, _>(ChildSpec::worker("c"), || panic!("in the factory"));
    let failed = supervisor.start_child(child).await;
    let error = "its factory panicked: in the factory".to_owned();
    assert_eq!(failed, Err(ChildError::StartFailed { error }));
    order(&supervisor, "a", Order::Panic).await;
    seen(&mut changes, "a", ChildState::Running).await;
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_with_ignore_is_no_failure() {
    let log = Log::default();
    let supervisor = supervise(Strategy::OneForOne, 0, []).await;
    let probe = Probe {
        start: Start::Ignore,
        ..Probe::new("a", &log)
    };
    let answer = supervisor
        .start_child(probe.child(ChildSpec::worker("a")))
        .await;
    assert_eq!(answer, Err(ChildError::Ignored));
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopped));
    supervisor.stop().await;
}

/// Starts a transient `a` and then a slow `b`; while `b` starts, `a` ends. What `a` is afterwards.
async fn after_an_end_during_the_first_start(
    end: impl FnOnce(&ActorRef<Order>),
) -> (ChildState, usize) {
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let kept = Arc::new(Mutex::new(None));
    let (keep, probe) = (Arc::clone(&kept), Probe::new("a", &log));
    let a = Child::new(ChildSpec::worker("a").transient(), move |supervisor| {
        let (keep, probe) = (Arc::clone(&keep), probe.clone());
        async move {
            let (actor, task) = ActorRuntime::spawn_linked(None, probe, (), supervisor).await?;
            *keep.lock() = Some(actor.clone());
            Ok((actor.get_cell(), task))
        }
    });
    let slow = Probe {
        start: Start::Gate(Arc::clone(&gate)),
        ..Probe::new("b", &log)
    };
    let b = slow.child(ChildSpec::worker("b"));
    let builder = Supervisor::builder(SupervisorSpec::default())
        .child(a)
        .child(b);
    let starting = tokio::spawn(builder.start());
    while log.count("b starts") == 0 {
        tokio::task::yield_now().await;
    }
    let actor = kept.lock().clone().unwrap();
    end(&actor);
    actor.wait(None).await.unwrap();
    assert_eq!(
        log.count("a starts"),
        1,
        "restarted before the first start was over"
    );
    gate.add_permits(1);
    let (supervisor, _) = starting.await.unwrap().unwrap();
    // On a paused clock this ends when nobody has anything left to do.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = state_of(&supervisor, "a").await.unwrap();
    supervisor.stop().await;
    (state, log.count("a started"))
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_later_siblings_start_is_dealt_with_once_they_have() {
    let crash = |actor: &ActorRef<Order>| actor.cast(Order::Panic).unwrap();
    assert_eq!(
        after_an_end_during_the_first_start(crash).await,
        (ChildState::Running, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_normal_end_while_later_siblings_start_is_known_to_be_normal() {
    let stop = |actor: &ActorRef<Order>| actor.stop(None);
    assert_eq!(
        after_an_end_during_the_first_start(stop).await,
        (ChildState::Stopped, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_told_before_the_start_is_understood() {
    let log = Log::default();
    let supervisor = supervise(Strategy::OneForOne, 0, []).await;
    let probe = Probe {
        start: Start::StopAtOnce,
        ..Probe::new("a", &log)
    };
    let started = supervisor
        .start_child(probe.child(ChildSpec::worker("a").transient()))
        .await;
    started.unwrap().wait(None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state_of(&supervisor, "a").await, Some(ChildState::Stopped));
    supervisor.stop().await;
}
