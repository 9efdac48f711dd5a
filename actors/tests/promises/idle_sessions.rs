//! Sessions in which nothing happens any more go after their time, and no other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Retention, Run, System, SystemError},
    contract::{
        BoxFuture, DynStore, RunFilter, SessionFilter, Store, StoreError, StoreWrapper,
        artifact_scopes,
    },
    run::{Agent, RunContext},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Outcome, Scope, SessionId},
};
use tokio::sync::Notify;

use crate::stage::{Stage, outcome, pause, silent, text};

const HOUR: u64 = 3_600_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Answers with how much was said before, and leaves state and an artifact in its session.
fn clerk() -> Agent {
    let below = Agent::from_fn("below", |_: RunContext| async {
        Ok(Outcome::answer("done"))
    });
    Agent::from_fn("clerk", |cx: RunContext| async move {
        let input = cx.input().content();
        if input == "ask" {
            cx.ask("Go on?").await?;
        }
        assert_ne!(input, "crash", "as told");
        cx.delegate("below", "something").await?;
        for scope in [Scope::Session, Scope::App] {
            let add = |n: Option<u32>| n.unwrap_or(0) + 1;
            cx.state(scope).update("turns", add).await?;
        }
        let artifacts = cx.artifacts(Scope::Session);
        artifacts
            .save("page", "text/plain", input.into_bytes())
            .await?;
        let said = cx.conversation().messages().len();
        Ok(Outcome::answer(said.to_string()))
    })
    .agent(below)
}

/// A stage on which hours pass quickly.
fn unhurried() -> Stage {
    let mut stage = Stage::new();
    stage.limits.poll_interval = Duration::from_secs(600);
    stage.not_replayed("its function panics where it is told to");
    stage
}

fn id(key: &str) -> SessionId {
    SessionId {
        team: "clerk".into(),
        key: key.into(),
    }
}

async fn begin(system: &System, key: &str, what: &str) -> Run {
    let turn = Turn::text(what).id(what);
    system.session("clerk", key).send(turn).await.unwrap()
}

async fn say(system: &System, key: &str, what: &str) -> String {
    text(&begin(system, key, what).await).await
}

/// The numbers of entries, rows of runs and values that a store has of a session.
async fn left(store: &impl Store, key: &str) -> (usize, usize, usize) {
    let mut filter = RunFilter::default();
    filter.session = Some(id(key));
    let mut values = 0;
    for scope in artifact_scopes::of_session(&id(key)) {
        values += store.scope(scope).await.unwrap().len();
    }
    let entries = store.read(id(key).into(), 0, 1_000).await.unwrap();
    (
        entries.len(),
        store.runs(filter).await.unwrap().len(),
        values,
    )
}

#[tokio::test(start_paused = true)]
async fn a_system_deletes_idle_sessions_by_itself_and_keeps_all_others() {
    let mut stage = unhurried();
    stage.limits.retention = Retention::default().sessions_idle_for(DAY);
    let system = stage.start(clerk()).await.as_operator();
    assert_eq!(say(&system, "old", "one").await, "1");
    let old = begin(&system, "old", "two").await;
    assert_eq!(text(&old).await, "3");
    system
        .session("clerk", "old")
        .fork(1, "branch")
        .await
        .unwrap();
    let waiting = begin(&system, "waiting", "ask").await;
    let parked = begin(&system, "parked", "crash").await;
    parked.outcome().await.unwrap_err();
    assert_eq!(say(&system, "used", "one").await, "1");
    pause(20 * HOUR).await;
    assert_eq!(say(&system, "used", "two").await, "3");
    assert_eq!(say(&system, "branch", "two").await, "3");
    let all = stage
        .store
        .sessions(SessionFilter::default())
        .await
        .unwrap();
    assert_eq!(all.len(), 5, "nothing is old enough");

    pause(6 * HOUR).await;
    let kept = stage
        .store
        .sessions(SessionFilter::default())
        .await
        .unwrap();
    let mut kept: Vec<_> = kept
        .into_iter()
        .map(|row| row.session.key.to_string())
        .collect();
    kept.sort();
    assert_eq!(kept, ["branch", "parked", "used", "waiting"]);
    assert_eq!(left(&stage.store, "old").await, (0, 0, 0));
    let gone = old.outcome().await.unwrap_err();
    let is_told = matches!(gone, SystemError::Store(StoreError::Deleted { .. }));
    assert!(is_told, "{gone}");
    // The branch has what was said, the state and the artifact as they were when it began.
    let branch = system.session("clerk", "branch");
    assert_eq!(branch.transcript().await.unwrap().messages().len(), 4);
    let page = branch.artifact(Scope::Session, "page", Some(1)).await;
    assert_eq!(&*page.unwrap().unwrap().content, b"one");
    let state = branch.state(Scope::Session).await.unwrap();
    assert_eq!(state, [("turns".to_owned(), 2.into())]);
    assert_eq!(waiting.questions().await.unwrap().len(), 1);
    // The key is free, and what the team has stays.
    assert_eq!(say(&system, "old", "one").await, "1");
    let team = branch.state(Scope::App).await.unwrap();
    assert_eq!(team, [("turns".to_owned(), 6.into())]);

    // Without the bound everything stays.
    pause(48 * HOUR).await;
    stage.crash(&system).await;
    stage.limits.retention = Retention::default();
    let system = stage.start(clerk()).await.as_operator();
    let kept = stage
        .store
        .sessions(SessionFilter::default())
        .await
        .unwrap();
    assert_eq!(say(&system, "new", "one").await, "1");
    pause(1_000 * HOUR).await;
    let all = stage
        .store
        .sessions(SessionFilter::default())
        .await
        .unwrap();
    assert_eq!(all.len(), kept.len() + 1);
}

/// Lets the first call of this name wait, before or after it was done.
#[derive(Clone)]
struct Gate {
    at: &'static str,
    after: bool,
    armed: Arc<AtomicBool>,
    reached: Arc<Notify>,
    open: Arc<Notify>,
}

impl Gate {
    fn new(at: &'static str, after: bool) -> Self {
        Self {
            at,
            after,
            armed: Arc::default(),
            reached: Arc::default(),
            open: Arc::default(),
        }
    }

    async fn pass(&self, name: &str, after: bool) {
        let is_here = (name, after) == (self.at, self.after);
        if is_here && self.armed.swap(false, Ordering::SeqCst) {
            self.reached.notify_one();
            self.open.notified().await;
        }
    }
}

struct Gated(InMemoryStore, Gate);

impl StoreWrapper for Gated {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    async fn around<T: Send>(
        &self,
        method: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.1.pass(method, false).await;
        let told = call.await;
        self.1.pass(method, true).await;
        told
    }

    fn description(&self) -> String {
        "a store with a gate".to_owned()
    }
}

const GATES: [&str; 5] = ["sessions", "runs", "claim", "delete_tree", "delete_session"];

async fn over(stage: &Stage, store: Gated) -> System {
    let team = clerk().into_team().unwrap();
    System::builder(store)
        .options(stage.limits)
        .clock(stage.clock.clone())
        .model("default", silent())
        .team(team)
        .start()
        .await
        .unwrap()
        .as_operator()
}

/// Wherever the deletion stands when a turn comes, the session is whole and has the turn, or it is gone and the turn
/// begins another.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_while_its_session_is_deleted_finds_all_of_it_or_begins_a_new_one() {
    let mut ends = [0, 0];
    for at in GATES {
        for after in [false, true] {
            for in_memory in [true, false] {
                let stage = unhurried();
                let gate = Gate::new(at, after);
                let system = over(&stage, Gated(stage.store.clone(), gate.clone())).await;
                let first = begin(&system, "s", "one").await;
                assert_eq!(text(&first).await, "1");
                // Its agent rests in memory for five minutes.
                pause(if in_memory { 1_000 } else { HOUR }).await;
                gate.armed.store(true, Ordering::SeqCst);
                let pruning = {
                    let system = system.clone();
                    let all = Retention::default().sessions_idle_for(Duration::ZERO);
                    tokio::spawn(async move { system.prune(all).await.unwrap() })
                };
                gate.reached.notified().await;
                pause(10).await;
                let turn = {
                    let system = system.clone();
                    tokio::spawn(async move { say(&system, "s", "two").await })
                };
                pause(1_000).await;
                gate.open.notify_one();
                let (pruned, said) = (pruning.await.unwrap(), turn.await.unwrap());
                let there = first.outcome().await.is_ok();
                let end = (pruned.sessions, pruned.trees, said.as_str(), there);
                let is_deleted = end == (1, 1, "1", false);
                let is_kept = end == (0, 0, "3", true);
                assert!(is_deleted || is_kept, "at {at}, {after}: {end:?}");
                ends[usize::from(is_kept)] += 1;
                let session = system.session("clerk", "s");
                let said = session.transcript().await.unwrap();
                assert_eq!(said.messages().len(), if is_kept { 4 } else { 2 });
            }
        }
    }
    assert!(ends[0] > 5 && ends[1] > 5, "{ends:?}");
}

/// The same for a turn in another process, which is refused while the session belongs to the one that deletes it.
#[tokio::test(start_paused = true)]
async fn a_turn_in_another_process_finds_all_of_a_session_or_begins_a_new_one() {
    let mut ends = [0, 0];
    for at in GATES {
        for after in [false, true] {
            let mut stage = unhurried();
            let system = stage.start(clerk()).await;
            assert_eq!(say(&system, "s", "one").await, "1");
            stage.crash(&system).await;
            let gate = Gate::new(at, after);
            let here = over(&stage, Gated(stage.store.clone(), gate.clone())).await;
            stage.store = stage.store.another_process();
            let elsewhere = stage.start(clerk()).await.as_operator();
            pause(1_000).await;
            gate.armed.store(true, Ordering::SeqCst);
            let pruning = {
                let all = Retention::default().sessions_idle_for(Duration::ZERO);
                tokio::spawn(async move { here.prune(all).await.unwrap() })
            };
            gate.reached.notified().await;
            pause(10).await;
            let session = elsewhere.session("clerk", "s");
            let turn = tokio::time::timeout(
                Duration::from_secs(1),
                session.send(Turn::text("two").id("two")),
            );
            let said = match turn.await {
                Ok(Ok(run)) => Some(text(&run).await),
                Ok(Err(_)) | Err(_) => None,
            };
            gate.open.notify_one();
            let pruned = pruning.await.unwrap();
            let said = match said {
                Some(said) => said,
                None => say(&elsewhere, "s", "two").await,
            };
            let end = (pruned.sessions, pruned.trees, said.as_str());
            let is_kept = end == (0, 0, "3");
            assert!(is_kept || end == (1, 1, "1"), "at {at}, {after}: {end:?}");
            ends[usize::from(is_kept)] += 1;
        }
    }
    assert!(ends[0] > 2 && ends[1] > 2, "{ends:?}");
}

/// Wherever it dies, the session has its conversation or is gone, and the next process deletes what is left of it.
#[tokio::test(start_paused = true)]
async fn what_a_crash_leaves_of_an_idle_session_goes_with_the_next() {
    let all = Retention::default().sessions_idle_for(Duration::ZERO);
    let (mut calls, mut half) = (0, 0);
    loop {
        calls += 1;
        let mut stage = unhurried();
        let system = stage.start(clerk()).await;
        for what in ["one", "two", "three"] {
            say(&system, "s", what).await;
        }
        stage.crash(&system).await;
        let whole = left(&stage.store, "s").await;
        let fault = Fault {
            call: calls,
            strike: [Strike::Before, Strike::After][usize::from(calls % 2 == 0)],
            harm: Harm::Crash,
        };
        let faulty = FaultyStore::at_call(stage.store.clone(), fault);
        let pruning = System::builder(faulty.clone())
            .clock(stage.clock.clone())
            .model("default", silent())
            .team(clerk().into_team().unwrap())
            .recover(false);
        let done = tokio::select! {
            done = async {
                pruning.start().await.unwrap().prune(all).await.unwrap()
            } => {
                assert_eq!((done.sessions, done.trees, done.runs), (1, 3, 6));
                true
            }
            () = faulty.crashed() => false,
        };
        let (entries, runs, values) = left(&stage.store, "s").await;
        let is_there = (entries, values) == (whole.0, whole.2);
        assert!(
            is_there || (entries, runs, values) == (0, 0, 0),
            "after call {calls}: {entries} entries, {runs} runs, {values} values"
        );
        half += usize::from(is_there && runs < whole.1);
        stage.store.crash();
        stage.store = stage.store.another_process();
        let system = stage.start(clerk()).await;
        pause(1).await;
        system.prune(all).await.unwrap();
        assert_eq!(left(&stage.store, "s").await, (0, 0, 0), "after {calls}");
        assert_eq!(stage.rows().await, []);
        if done {
            break;
        }
    }
    assert!(
        calls > 8 && half > 1,
        "{calls} calls, {half} of them in between"
    );
}

/// A run that is deleted by its own age leaves its session to the session's age.
#[tokio::test(start_paused = true)]
async fn runs_and_sessions_have_ages_of_their_own() {
    let stage = unhurried();
    let system = stage.start(clerk()).await.as_operator();
    say(&system, "s", "one").await;
    pause(HOUR).await;
    let hour = Duration::from_secs(3600);
    let runs = Retention::default().older_than(hour);
    let both = runs.sessions_idle_for(3 * hour);
    let pruned = system.prune(both).await.unwrap();
    assert_eq!((pruned.sessions, pruned.trees), (0, 1));
    assert_eq!(left(&stage.store, "s").await.1, 0);
    let session = system.session("clerk", "s");
    assert_eq!(session.transcript().await.unwrap().messages().len(), 2);
    pause(2 * HOUR).await;
    assert_eq!(system.prune(runs).await.unwrap(), Default::default());
    let pruned = system.prune(both).await.unwrap();
    assert_eq!((pruned.sessions, pruned.trees), (1, 0));
    assert_eq!(left(&stage.store, "s").await, (0, 0, 0));
    assert_eq!(outcome(&begin(&system, "s", "new").await).await.text(), "1");
}
