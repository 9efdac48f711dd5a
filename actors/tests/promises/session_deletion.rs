//! A session that is deleted is gone, and nothing else is.

use ghostlight_actors::{
    actor::{Session, System, SystemError, SystemOptions},
    contract::{DynStore, RunFilter, RunStatus, Store, StoreError, artifact_scopes},
    definition::Durability,
    run::{Agent, RunContext},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, Strike},
    vocabulary::{JournalId, Outcome, Question, Scope, SessionId},
};
use serde_json::json;

use crate::{
    contested::start,
    stage::{Stage, outcome, pause, silent, text},
};

/// Counts its turns for the session, its user and its team, keeps each as an artifact, and delegates one thing.
fn clerk() -> Agent {
    let below = Agent::from_fn("below", |_: RunContext| async {
        Ok(Outcome::answer("done"))
    });
    Agent::from_fn("clerk", |cx: RunContext| async move {
        if cx.input().content() == "ask" {
            cx.ask(Question::new("go on?")).await?;
        }
        cx.delegate("below", "something").await?;
        let mut counts = Vec::new();
        for scope in [Scope::Session, Scope::User("ada".into()), Scope::App] {
            let state = cx.state(scope);
            let add = |n: Option<u32>| n.unwrap_or(0) + 1;
            counts.push(state.update("turns", add).await?);
        }
        let text = cx.input().content().into_bytes();
        let artifacts = cx.artifacts(Scope::Session);
        artifacts.save("page", "text/plain", text).await?;
        Ok(Outcome::answer(format!("{counts:?}")))
    })
    .agent(below)
}

async fn say(session: &Session, what: &str) -> String {
    let turn = Turn::text(what).id(what).owner("ada");
    text(&session.send(turn).await.unwrap()).await
}

fn id(key: &str) -> SessionId {
    SessionId {
        team: "clerk".into(),
        key: key.into(),
    }
}

/// What a store has of a session: entries, rows of runs, values and checkpoints.
async fn left(store: &impl Store, key: &str) -> (usize, usize, usize, bool) {
    let session = id(key);
    let mut filter = RunFilter::default();
    filter.session = Some(session.clone());
    let mut values = 0;
    for scope in artifact_scopes::of_session(&session) {
        values += store.scope(scope).await.unwrap().len();
    }
    let journal = JournalId::Session(session.clone());
    (
        store.read(journal, 0, 1_000).await.unwrap().len(),
        store.runs(filter).await.unwrap().len(),
        values,
        store.checkpoint(session).await.unwrap().is_some(),
    )
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_deleted_session_is_left_and_all_else_is() {
    let stage = Stage::new();
    let system = stage.start(clerk()).await.as_operator();
    let session = system.session("clerk", "s");
    let mut runs = Vec::new();
    for what in ["one", "two", "three"] {
        let turn = Turn::text(what).id(what).owner("ada");
        let run = session.send(turn).await.unwrap();
        outcome(&run).await;
        runs.push(run.id());
    }
    session.fork(1, "branch").await.unwrap();
    assert_eq!(
        say(&system.session("clerk", "other"), "x").await,
        "[1, 4, 4]"
    );
    let other = left(&stage.store, "other").await;

    let deleted = session.delete().await.unwrap();
    assert_eq!((deleted.trees, deleted.runs), (3, 6), "{deleted:?}");
    assert!(deleted.blobs >= 2, "the contents of two of its artifacts");
    assert_eq!(left(&stage.store, "s").await, (0, 0, 0, false));
    assert_eq!(left(&stage.store, "other").await, other);
    assert_eq!(
        system
            .session("clerk", "branch")
            .log()
            .await
            .unwrap()
            .turns
            .len(),
        1
    );
    for run in runs {
        let gone = system.run(run).outcome().await.unwrap_err();
        let is_told = matches!(gone, SystemError::Store(StoreError::Deleted { .. }));
        assert!(is_told, "{gone}");
    }
    let again = session.delete().await.unwrap_err();
    assert!(
        matches!(again, SystemError::UnknownSession { .. }),
        "{again}"
    );
    // Its key is free: a turn of the same id is said anew. What it shares went on.
    assert_eq!(say(&session, "one").await, "[1, 5, 5]");
    let page = session
        .artifact(Scope::Session, "page", None)
        .await
        .unwrap();
    assert_eq!(page.unwrap().info.version, 1);
    session.delete().await.unwrap();
    assert_eq!(left(&stage.store, "s").await, (0, 0, 0, false));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_deleted_while_it_is_used_or_by_a_stranger() {
    let mut stage = Stage::new();
    let system = stage.start(clerk()).await.as_operator();
    let session = system.session("clerk", "s");
    let turn = Turn::text("ask").owner("ada");
    let run = session.send(turn).await.unwrap();
    let question = loop {
        match run.questions().await.unwrap().first() {
            Some(question) => break question.1,
            None => pause(1).await,
        }
    };
    let refused = session.delete().await.unwrap_err();
    assert!(matches!(refused, SystemError::UnderWay { .. }), "{refused}");
    run.answer(question, json!("yes")).await.unwrap();
    outcome(&run).await;
    let stranger = system.acting_for("eve").session("clerk", "s");
    let refused = stranger.delete().await.unwrap_err();
    assert!(matches!(refused, SystemError::Foreign { .. }), "{refused}");
    // Another process may not while this one holds it, and may once it is gone.
    let elsewhere = stage.store.another_process();
    let other = start(&stage, elsewhere, clerk()).await.as_operator();
    let refused = other.session("clerk", "s").delete().await.unwrap_err();
    let is_owned = matches!(refused, SystemError::Store(StoreError::Owned { .. }));
    assert!(is_owned, "{refused}");
    assert_eq!(session.log().await.unwrap().turns.len(), 1);
    stage.crash(&system).await;
    let ada = other.acting_for("ada");
    ada.session("clerk", "s").delete().await.unwrap();
    assert_eq!(left(&stage.store, "s").await, (0, 0, 0, false));
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_keeps_its_session() {
    let stage = Stage::new();
    stage.not_replayed("its function panics");
    let clumsy = Agent::from_fn("clerk", |cx: RunContext| async move {
        assert_ne!(cx.input().content(), "panic");
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(clumsy).await.as_operator();
    let session = system.session("clerk", "s");
    let run = session.send(Turn::text("panic")).await.unwrap();
    let parked = async || {
        let row = stage.store.run(run.id()).await.unwrap();
        row.is_some_and(|row| row.status == RunStatus::Parked)
    };
    while !parked().await {
        pause(100).await;
    }
    session
        .send(Turn::text("go"))
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    let refused = session.delete().await.unwrap_err();
    let is_open = matches!(refused, SystemError::Store(StoreError::Open { .. }));
    assert!(is_open, "{refused}");
    assert_eq!(session.log().await.unwrap().turns.len(), 2);
    // Its agent may still be at the run's end.
    run.cancel("enough").await.unwrap();
    run.wait().await.unwrap();
    session.delete().await.unwrap();
    assert_eq!(left(&stage.store, "s").await, (0, 0, 0, false));
}

/// Wherever it dies, nothing of the session is read any more or all of it, and deleting it again deletes the rest.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_crash_interrupts_is_done_by_the_next() {
    let mut calls = 0;
    loop {
        calls += 1;
        let mut stage = Stage::new();
        stage.not_replayed("nothing is left");
        let system = stage.start(clerk()).await.as_operator();
        for what in ["one", "two", "three"] {
            say(&system.session("clerk", "s"), what).await;
        }
        stage.crash(&system).await;
        let fault = Fault {
            call: calls,
            strike: Strike::After,
            harm: Harm::Crash,
        };
        let faulty = FaultyStore::at_call(stage.store.clone(), fault);
        let kept = ghostlight_actors::actor::Sessions::of(faulty.clone());
        let session = id("s");
        let done = tokio::select! {
            done = kept.delete(&session) => { done.unwrap(); true }
            () = faulty.crashed() => false,
        };
        let (entries, runs, values, _) = left(&stage.store, "s").await;
        assert!(
            (entries, values) == (0, 0) || (entries > 0 && runs == 3),
            "after call {calls}: {entries} entries, {runs} runs, {values} values"
        );
        stage.store.crash();
        stage.store = stage.store.another_process();
        let kept = ghostlight_actors::actor::Sessions::of(stage.store.clone());
        match kept.delete(&id("s")).await {
            Ok(_) | Err(SystemError::UnknownSession { .. }) => {}
            Err(error) => panic!("after call {calls}: {error}"),
        }
        assert_eq!(left(&stage.store, "s").await, (0, 0, 0, false));
        let left = stage.store.inventory().await.unwrap();
        assert_eq!(left.blobs, [], "after call {calls}");
        if done {
            break;
        }
    }
    assert!(calls > 6, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn a_session_in_memory_is_deleted_there() {
    let stage = Stage::new();
    stage.not_replayed("its team is in memory only");
    let team = clerk().into_team().unwrap().durability(Durability::Memory);
    let system = System::builder(stage.store.clone())
        .options(SystemOptions::default())
        .model("default", silent())
        .team(team)
        .start()
        .await
        .unwrap()
        .as_operator();
    let session = system.session("clerk", "s");
    assert_eq!(say(&session, "one").await, "[1, 1, 1]");
    session.delete().await.unwrap();
    assert_eq!(say(&session, "one").await, "[1, 2, 2]");
}
