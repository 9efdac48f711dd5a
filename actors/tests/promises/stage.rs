//! A store, a log of effects, and the processes that come and go over them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::{
        Batch, Claim, Committed, DynStore, Entropy, MailboxItem, RunFilter, RunRow, StoreError,
        StoreHandle, StoreWrapper, StoredLine, SystemClock, SystemEntropy,
    },
    run::{Agent, Registry},
    session::Turn,
    testing::{EffectLog, Fault, Harm, InMemoryStore, ScriptedModel, Strike},
    vocabulary::{
        Effect, Entry, JournalId, ModelResponse, Outcome, RunId, ToolCall, ToolDefinition,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use crate::records::{check_conversations, check_journals};

pub(crate) struct Stage {
    pub(crate) store: InMemoryStore,
    pub(crate) log: EffectLog,
    pub(crate) limits: SystemOptions,
    /// One for all processes: time that a slow machine takes between them does not count.
    pub(crate) clock: SystemClock,
    /// The code of the teams that were started, the latest last. What is recorded is replayed against it
    /// when the test is over.
    pub(crate) code: Arc<Mutex<Option<Vec<Registry>>>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            store: InMemoryStore::new(),
            log: EffectLog::new(),
            limits: SystemOptions::default(),
            clock: SystemClock::new(),
            code: Arc::new(Mutex::new(Some(Vec::new()))),
        }
    }

    /// One on which nothing comes from other processes: its Systems look for it once a minute, so
    /// that hours are over in no time.
    pub(crate) fn alone() -> Self {
        let mut stage = Self::new();
        stage.limits.poll_interval = Duration::from_secs(60);
        stage
    }

    /// A System of this team, in the process that the stage stands for now.
    pub(crate) async fn start(&self, agent: Agent) -> System {
        self.start_with(agent, silent()).await
    }

    pub(crate) async fn start_with(&self, agent: Agent, model: ScriptedModel) -> System {
        self.start_by(agent, model, SystemEntropy).await
    }

    /// The same with other chances.
    pub(crate) async fn start_by(
        &self,
        agent: Agent,
        model: ScriptedModel,
        entropy: impl Entropy,
    ) -> System {
        let team = agent.into_team().unwrap();
        if let Some(code) = &mut *self.code.lock() {
            code.push(team.registry.clone());
        }
        System::builder(self.store.clone())
            .options(self.limits)
            .clock(self.clock.clone())
            .entropy(entropy)
            .model("default", model)
            .team(team)
            .start()
            .await
            .unwrap()
    }

    /// The process dies; the stage stands for the next one.
    pub(crate) async fn crash(&mut self, system: &System) {
        self.store.crash();
        system.supervisor().unwrap().actor().kill();
        self.store = self.store.another_process();
        self.log = self.log.next_process();
        pause(1).await;
    }

    /// A logged tool that takes some milliseconds.
    pub(crate) fn tool(
        &self,
        name: &str,
        effect: Effect,
        millis: u64,
    ) -> ghostlight_actors::testing::LoggedTool {
        let definition = ToolDefinition::new(name, "is logged").effect(effect);
        self.log.tool(definition, Duration::from_millis(millis))
    }

    /// What is left is not replayed: the functions of this test do other things in each life, on purpose.
    pub(crate) fn not_replayed(&self, _why: &str) {
        *self.code.lock() = None;
    }

    pub(crate) async fn entries(&self, run: RunId) -> Vec<Entry> {
        let store = StoreHandle::new(self.store.clone());
        let lines = store.read(JournalId::Run(run), 0, 10_000).await;
        let lines = lines.unwrap().into_iter();
        lines.map(|stored| stored.line.decode().unwrap()).collect()
    }

    /// How many last entries a run has; never more than one.
    pub(crate) async fn ends(&self, run: RunId) -> usize {
        let entries = self.entries(run).await;
        let ends = entries.iter().filter(|e| matches!(e, Entry::RunEnded(_)));
        assert!(matches!(entries.last(), Some(Entry::RunEnded(_))));
        ends.count()
    }

    pub(crate) async fn rows(&self) -> Vec<RunRow> {
        self.store.runs(RunFilter::default()).await.unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            check_conversations(&self.store);
            check_journals(&self.store, self.code.lock().take().unwrap_or_default());
        }
    }
}

pub(crate) fn silent() -> ScriptedModel {
    ScriptedModel::replies(Vec::<ModelResponse>::new())
}

pub(crate) async fn ask(system: &System, team: &str, text: &str) -> Run {
    let session = system.session(team, "s");
    session.send(Turn::text(text)).await.unwrap()
}

/// The crashes of a process, in order: before and after each of its commits.
pub(crate) fn crash(number: u64) -> Fault {
    Fault {
        call: 1 + number / 2,
        strike: [Strike::Before, Strike::After][(number % 2) as usize],
        harm: Harm::Crash,
    }
}

pub(crate) fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, json!({}))
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// The outcome within an hour of paused time; a run that hangs fails its test.
pub(crate) async fn outcome(run: &Run) -> Outcome {
    let hour = Duration::from_secs(3600);
    let outcome = tokio::time::timeout(hour, run.outcome()).await;
    outcome.expect("the run hangs").unwrap()
}

pub(crate) async fn text(run: &Run) -> String {
    outcome(run).await.text().to_owned()
}

/// A store whose commits and mailboxes take their time.
#[derive(Debug)]
pub(crate) struct SlowStore {
    inner: InMemoryStore,
    commit_ms: u64,
    mailbox_ms: u64,
    read_ms: u64,
    moves: Option<AtomicU32>,
    move_ms: u64,
    settles_in: Duration,
}

impl SlowStore {
    pub(crate) fn new(inner: InMemoryStore) -> Self {
        Self {
            inner,
            commit_ms: 7,
            mailbox_ms: 7,
            read_ms: 0,
            moves: None,
            move_ms: 7,
            settles_in: Duration::ZERO,
        }
    }

    /// One whose claims say that a former owner may begin effects for so long.
    pub(crate) fn settling(inner: InMemoryStore, settles_in: Duration) -> Self {
        Self {
            settles_in,
            ..Self::new(inner)
        }
    }

    /// Where only commits take their time, and more of it.
    pub(crate) fn to_commit(inner: InMemoryStore) -> Self {
        Self {
            commit_ms: 50,
            mailbox_ms: 0,
            ..Self::new(inner)
        }
    }

    /// Where commits that only move what was posted take far longer than a tree needs to fall asleep.
    pub(crate) fn to_move(inner: InMemoryStore) -> Self {
        Self {
            move_ms: 1_000,
            ..Self::new(inner)
        }
    }

    /// Where reading a journal takes its time.
    pub(crate) fn to_read(inner: InMemoryStore) -> Self {
        Self {
            commit_ms: 0,
            mailbox_ms: 0,
            read_ms: 1_000,
            ..Self::new(inner)
        }
    }

    /// Where every second commit that only moves what was posted takes much more time.
    pub(crate) fn uneven(inner: InMemoryStore) -> Self {
        Self {
            moves: Some(AtomicU32::new(0)),
            ..Self::new(inner)
        }
    }
}

impl StoreWrapper for SlowStore {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        pause(self.read_ms).await;
        self.inner.read(journal, from, limit).await
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        let claim = self.inner.claim(journal, take_over).await?;
        Ok(Claim {
            settles_in: self.settles_in,
            ..claim
        })
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        let claim = self.inner.claim_below(journal, above, epoch).await?;
        Ok(Claim {
            settles_in: self.settles_in,
            ..claim
        })
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let only_moves = |batch: &Batch| batch.appends.is_empty() && !batch.posts.is_empty();
        let pause_ms = match &self.moves {
            _ if !batches.iter().any(only_moves) => self.commit_ms,
            Some(moves) if moves.fetch_add(1, SeqCst) % 2 == 1 => 70,
            _ => self.move_ms,
        };
        pause(pause_ms).await;
        self.inner.commit(batches).await
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        let found = self.inner.mailbox_after(mailbox, after).await;
        pause(self.mailbox_ms).await;
        found
    }

    fn description(&self) -> String {
        "a slow store".to_owned()
    }
}
