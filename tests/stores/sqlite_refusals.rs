//! A run whose journal cannot be written or read is tried again when somebody asks for it, and not
//! without end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{Batch, Committed, DynStore, RunStatus, StoreError, StoreWrapper, StoredLine},
    run::{Agent, RunContext},
    vocabulary::{AgentError, Effect, ErrorKind, JournalId, Outcome},
};

use crate::folder::Folder;

/// The longest entry that is taken while the store is narrow, in bytes.
const LONGEST: usize = 10_000;

/// A store in a file that refuses long entries while it is narrow, as a database does with rows that
/// are larger than it can hold.
#[derive(Clone, Debug)]
struct Narrow {
    inner: Arc<SqliteStore>,
    is_narrow: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
    read: Arc<AtomicU32>,
}

impl Narrow {
    fn over(folder: &Folder) -> Self {
        Self {
            inner: Arc::new(SqliteStore::open(folder.store()).unwrap()),
            is_narrow: Arc::new(AtomicBool::new(true)),
            refused: Arc::default(),
            read: Arc::default(),
        }
    }

    fn takes(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut appends = batch.appends.iter();
        let is_long = |line: &ghostlight_actors::contract::Line| line.text.len() > LONGEST;
        let long = appends.find(|append| append.lines.iter().any(is_long));
        let Some(append) = long.filter(|_| self.is_narrow.load(SeqCst)) else {
            return Ok(());
        };
        self.refused.fetch_add(1, SeqCst);
        Err(StoreError::Refused {
            place: self.inner.description(),
            to: append.journal.to_string(),
            reason: "too long".to_owned(),
        })
    }
}

impl StoreWrapper for Narrow {
    fn inner(&self) -> &dyn DynStore {
        &*self.inner
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let mut told = Vec::new();
        for batch in batches {
            told.push(match self.takes(&batch) {
                Ok(()) => self.inner.commit(vec![batch]).await?.remove(0),
                Err(refused) => Err(refused),
            });
        }
        Ok(told)
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        if matches!(journal, JournalId::Run(_)) {
            self.read.fetch_add(1, SeqCst);
        }
        self.inner.read(journal, from, limit).await
    }
}

async fn start(store: &Narrow, agent: Agent) -> System {
    System::builder(store.clone())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

async fn ended<T>(waited: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(20), waited).await;
    ended.expect("nothing happens")
}

async fn parked(run: &Run) -> AgentError {
    match ended(run.outcome()).await {
        Err(SystemError::Parked { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// Makes a text that is longer than a narrow store takes, here or in a run below.
fn writer() -> Agent {
    let write = |cx: RunContext| async move {
        let long = cx.step("write", Effect::Read, async {
            Ok::<_, AgentError>("x".repeat(2 * LONGEST))
        });
        let long = long.await?;
        // So that its journal is written before it ends.
        cx.sleep(Duration::from_millis(1)).await?;
        Ok(Outcome::answer(long.len().to_string()))
    };
    let clerk = Agent::from_fn("clerk", write);
    let desk = Agent::from_fn("desk", move |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "delegate" => {
                let error = cx.delegate("clerk", "go").await.unwrap_err();
                Ok(Outcome::answer(format!("{:?}", error.kind())))
            }
            _ => write(cx).await,
        }
    });
    desk.agent(clerk)
}

#[tokio::test]
async fn a_run_that_records_what_cannot_be_stored_is_parked_until_it_is_tried_again() {
    let folder = Folder::new();
    let store = Narrow::over(&folder);
    let system = start(&store, writer()).await;
    let run = system.session("desk", "s").send("write").await.unwrap();
    let reason = parked(&run).await;
    assert_eq!(reason.kind(), Some(&ErrorKind::Store));
    assert!(reason.to_string().contains("too long"), "{reason}");
    assert_eq!(run.status().await.unwrap().status, RunStatus::Parked);
    let refused = store.refused.load(SeqCst);
    for _ in 0..3 {
        system.recover().await.unwrap();
    }
    assert_eq!(parked(&run).await, reason);
    assert_eq!(store.refused.load(SeqCst), refused);
    // The next process leaves it parked too.
    system.stop().await.unwrap();
    let store = Narrow::over(&folder);
    let system = start(&store, writer()).await;
    let run = system.run(run.id());
    assert_eq!(parked(&run).await, reason);
    run.retry().await.unwrap();
    assert_eq!(parked(&run).await, reason);
    store.is_narrow.store(false, SeqCst);
    run.retry().await.unwrap();
    assert_eq!(ended(run.outcome()).await.unwrap().text(), "20000");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_delegation_that_records_what_cannot_be_stored_has_failed() {
    let folder = Folder::new();
    let system = start(&Narrow::over(&folder), writer()).await;
    let run = system.session("desk", "s").send("delegate").await.unwrap();
    let told = ended(run.outcome()).await.unwrap();
    assert_eq!(told.text(), "Some(Delegation)");
    system.stop().await.unwrap();
}

/// Hangs in its first life.
fn sleeper(wakes: bool) -> Agent {
    Agent::from_fn("sleeper", move |cx: RunContext| async move {
        let waited = cx.step("wait", Effect::Read, async move {
            match wakes {
                true => Ok::<(), AgentError>(()),
                false => std::future::pending().await,
            }
        });
        waited.await?;
        Ok(Outcome::answer("awake"))
    })
}

fn edit(folder: &Folder, from: &str, to: &str) {
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let edit = "UPDATE entries SET body = replace(body, ?1, ?2) WHERE instr(body, ?1) > 0";
    assert_eq!(connection.execute(edit, [from, to]).unwrap(), 1);
}

#[tokio::test]
async fn a_run_whose_journal_is_damaged_is_taken_up_once_and_then_only_when_it_is_asked_for() {
    let folder = Folder::new();
    let system = start(&Narrow::over(&folder), sleeper(false)).await;
    let run = system.session("sleeper", "s").send("go").await.unwrap();
    let run = run.id();
    system.stop().await.unwrap();
    drop(system);
    edit(&folder, "\"run_started\"", "\"run_stArted\"");
    let store = Narrow::over(&folder);
    let system = start(&store, sleeper(true)).await;
    let run = system.run(run);
    let told = ended(run.outcome()).await.unwrap_err();
    let damaged =
        |told: &SystemError| matches!(told, SystemError::Store(StoreError::Damaged { .. }));
    assert!(damaged(&told), "{told}");
    let read = store.read.load(SeqCst);
    for _ in 0..3 {
        system.recover().await.unwrap();
    }
    assert_eq!(store.read.load(SeqCst), read, "it is read again and again");
    assert!(damaged(&run.retry().await.unwrap_err()));
    edit(&folder, "\"run_stArted\"", "\"run_started\"");
    run.retry().await.unwrap();
    assert_eq!(ended(run.outcome()).await.unwrap().text(), "awake");
    system.stop().await.unwrap();
}
