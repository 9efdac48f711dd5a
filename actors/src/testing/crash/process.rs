//! The processes of a scenario, one after another, until its work is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::options::CrashOptions;
use crate::{
    actor::{Run, System, SystemError, from_checkpoint, recording},
    assembly::{Registry, replay},
    contract::{
        Clock, DynStore, MailboxItem, RunFilter, RunRow, RunStatus, SeededEntropy, StoreHandle,
        StoredLine, SystemClock, Ticket,
    },
    session::SessionFold,
    testing::{EffectLog, Fault, FaultyStore, InMemoryStore, Scenario, effect_log::LoggedEffect},
    vocabulary::{Begun, Entry, EventRecord, JournalId, OperationId, RunId, SessionId, Timestamp},
};

/// The session's key; one is enough.
const KEY: &str = "crash";
/// How often it is checked within the patience whether runs sleep.
const LOOKS: u32 = 100;
/// How long a run has recorded nothing that sleeps.
const REST: Duration = Duration::from_secs(1);

/// The contents of the store and the world after a scenario.
pub(super) struct Life {
    /// The outcomes of the turns, in words.
    pub(super) outcomes: Vec<String>,
    /// The commits of the first process.
    pub(super) commits: u64,
    /// The record when each process but the last died.
    pub(super) crashes: Vec<Journals>,
    /// The journals at the end.
    pub(super) journals: Journals,
    pub(super) rows: Vec<RunRow>,
    pub(super) session: Vec<StoredLine>,
    pub(super) checkpoint: Option<SessionFold>,
    /// The events of each turn's tree.
    pub(super) events: Vec<Vec<EventRecord>>,
    pub(super) effects: Vec<LoggedEffect>,
    /// The places at which replay asks for something else than what is recorded.
    pub(super) unfaithful: Vec<String>,
    /// The obstacle that kept the work from going on, if there was one.
    pub(super) stuck: Option<String>,
}

pub(super) type Journals = BTreeMap<RunId, Vec<StoredLine>>;

/// Holds the System of one process: killing it kills everything in it.
struct Process;

impl Actor for Process {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Runs a scenario to its end; each fault strikes one process after the other.
pub(super) async fn live_through(
    scenario: &Scenario,
    options: CrashOptions,
    faults: &[Fault],
    is_replayed: bool,
) -> Life {
    let memory = InMemoryStore::new();
    let clock = SystemClock::starting_at(Timestamp(1_700_000_000_000));
    let mut log = EffectLog::new();
    let mut life = Life {
        outcomes: Vec::new(),
        commits: 0,
        crashes: Vec::new(),
        journals: Journals::new(),
        rows: Vec::new(),
        session: Vec::new(),
        checkpoint: None,
        events: Vec::new(),
        effects: Vec::new(),
        unfaithful: Vec::new(),
        stuck: None,
    };
    let mut code = None;
    let mut faults = faults.iter();
    loop {
        let inner = memory.another_process();
        let store = match (faults.next(), options.calls) {
            (Some(fault), None) => FaultyStore::at_commit(inner.clone(), *fault),
            (Some(fault), Some(_)) => FaultyStore::at_call(inner.clone(), *fault),
            (None, None) => FaultyStore::new(inner.clone()),
            (None, Some(_)) => FaultyStore::counting_calls(inner.clone()),
        };
        let Ok((process, _)) = Actor::spawn(None, Process, ()).await else {
            life.stuck = Some("the process does not start".to_owned());
            return life;
        };
        let entropy = SeededEntropy::new(options.seed);
        let builder = System::builder(store.clone())
            .clock(clock.clone())
            .entropy(entropy);
        let builder = (scenario.build)(builder, log.clone());
        let work = async {
            let system = builder.start_linked(process.get_cell()).await?;
            code = system.shared().team(&scenario.team);
            work(scenario, &system).await
        };
        let end = tokio::select! {
            biased;
            () = store.crashed() => None,
            done = patiently(options.patience, &memory, &clock, work) => Some(done),
        };
        if life.crashes.is_empty() {
            life.commits = store.calls();
        }
        // A dying process takes its unfinished work along.
        log = log.next_process();
        store.kill();
        process.kill();
        inner.crash();
        settle().await;
        match end {
            None => life.crashes.push(journals(&memory).await),
            Some(Some(Ok((outcomes, events)))) => {
                (life.outcomes, life.events) = (outcomes, events);
                break;
            }
            Some(Some(Err(error))) => {
                life.stuck = Some(format!("the work failed: {error}"));
                break;
            }
            Some(None) => {
                life.stuck = Some(format!("the work hung: {}", standing(&memory).await));
                break;
            }
        }
    }
    life.journals = journals(&memory).await;
    life.rows = rows(&memory).await;
    let session = SessionId {
        team: scenario.team.as_str().into(),
        key: KEY.into(),
    };
    let journal = JournalId::Session(session.clone());
    if let Some(code) = code.filter(|_| is_replayed) {
        life.unfaithful = replayed(&memory, &life.rows, &code.registry).await;
    }
    let store = StoreHandle::new(memory.clone());
    let lines = store.read(journal, 0, usize::MAX).await;
    life.session = lines.unwrap_or_default();
    life.checkpoint = from_checkpoint(&store, &session).await;
    life.effects = log.effects();
    life
}

/// Replays the journals of all roots, and returns where the code asks for something else than what is recorded.
async fn replayed(store: &InMemoryStore, rows: &[RunRow], registry: &Registry) -> Vec<String> {
    let store = StoreHandle::new(store.clone());
    let mut unfaithful = Vec::new();
    for root in rows.iter().filter(|row| row.run == row.root) {
        let replayed = match recording(&store, root.run).await {
            Ok(recording) => replay(&recording, registry, None).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match replayed {
            Ok(replay) => unfaithful.extend(replay.runs.into_iter().filter_map(|run| {
                let at = run.divergence?;
                Some(format!(
                    "run {} of {} recorded {} and does {}",
                    run.run, run.agent, at.recorded, at.found
                ))
            })),
            Err(error) => unfaithful.push(error),
        }
    }
    unfaithful
}

type Done = (Vec<String>, Vec<Vec<EventRecord>>);

/// The end of the work; `None` when it takes longer than the patience. Time for which a timer of a run must wait does
/// not count, unless the run is never at [rest](REST): one that only ticks comes to no end.
async fn patiently<T>(
    patience: Duration,
    memory: &InMemoryStore,
    clock: &SystemClock,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let (step, mut left) = (patience / LOOKS, LOOKS);
    while left > 0 {
        if let Ok(done) = tokio::time::timeout(step, &mut work).await {
            return Some(done);
        }
        let (now, rows) = (clock.now(), rows(memory).await);
        let rested = rows
            .into_iter()
            .filter(|row| !row.status.is_ended() && now.since(row.updated_at) >= REST);
        let asleep = rested.filter_map(|row| Some(row.wake_at?.since(now))).max();
        match asleep.filter(|asleep| !asleep.is_zero()) {
            Some(asleep) => {
                if let Ok(done) = tokio::time::timeout(asleep, &mut work).await {
                    return Some(done);
                }
            }
            None => left -= 1,
        }
    }
    None
}

/// Begins each turn and plays the world outside until the turn has ended. A repetition after a crash changes nothing,
/// because turns and messages carry ids.
async fn work(scenario: &Scenario, system: &System) -> Result<Done, SystemError> {
    let session = system.session(&*scenario.team, KEY);
    let (mut outcomes, mut events) = (Vec::new(), Vec::new());
    for (number, text) in scenario.turns.iter().enumerate() {
        let turn = crate::session::Turn::text(text).id(format!("turn-{number}"));
        let run = session.send(turn).await?;
        for (place, body) in scenario.messages.iter().enumerate() {
            let item = MailboxItem::new(
                format!("message-{place}"),
                Timestamp::default(),
                body.clone(),
            );
            system.store().post(run.id().into(), item).await?;
        }
        outcomes.push(attend(scenario, system, &run).await?);
        events.push(run.events().recorded().so_far().await?);
        if parked(system, &run).await?.is_some() {
            // The session waits for a person, and no later turn would begin.
            break;
        }
    }
    // Checkpoints are written in the background.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok((outcomes, events))
}

async fn attend(scenario: &Scenario, system: &System, run: &Run) -> Result<String, SystemError> {
    loop {
        // A run above a parked one waits until a person acts.
        let row = tokio::select! {
            biased;
            parked = parked_below(system, run) => return parked,
            row = run.wait() => row?,
        };
        if row.status.is_ended() || row.status == RunStatus::Parked {
            return Ok(match run.outcome().await {
                Ok(outcome) => format!("{outcome:?}"),
                // The run's id is the same in every life.
                Err(error) => format!("failed: {error}"),
            });
        }
        for (asking, operation, question) in run.questions().await? {
            let answer = (scenario.policy)(&question);
            match system.run(asking).answer(operation, answer).await {
                // The question may have expired since.
                Ok(()) | Err(SystemError::Answer { .. } | SystemError::UnknownRun(_)) => {}
                Err(error) => return Err(error),
            }
        }
        for ticket in open_tickets(system, run.id()).await? {
            match system.complete(ticket, Ok("it came later".into())).await {
                Ok(()) | Err(SystemError::UnknownRun(_)) => {}
                Err(error) => return Err(error),
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The parked run of this tree, if there is one.
async fn parked(system: &System, root: &Run) -> Result<Option<RunRow>, SystemError> {
    let mut filter = RunFilter::default();
    (filter.open, filter.root) = (true, Some(root.id()));
    let rows = system.store().runs(filter).await?;
    let mut rows = rows.into_iter();
    Ok(rows.find(|row| row.status == RunStatus::Parked))
}

/// Waits until a run below this one is parked, and returns the reason.
async fn parked_below(system: &System, root: &Run) -> Result<String, SystemError> {
    loop {
        if let Some(row) = parked(system, root).await?
            && row.run != root.id()
        {
            let journal = JournalId::Run(row.run);
            let lines = system.store().read(journal, 0, usize::MAX).await?;
            let entries = lines
                .iter()
                .rev()
                .filter_map(|line| line.line.decode().ok());
            let mut reasons = entries.filter_map(|entry| match entry {
                Entry::Parked { reason } => Some(reason.to_string()),
                _ => None,
            });
            let reason = reasons.next().unwrap_or_default();
            return Ok(format!("failed: run {} is parked: {reason}", row.run));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn open_tickets(system: &System, root: RunId) -> Result<Vec<Ticket>, SystemError> {
    let mut open: BTreeSet<(RunId, OperationId)> = BTreeSet::new();
    for line in system.store().read_tree(root, 0, usize::MAX).await? {
        match line.stored.line.decode() {
            Ok(Entry::Started {
                op,
                begun: Begun::Ticket,
                ..
            }) => {
                open.insert((line.run, op));
            }
            Ok(Entry::Completed { op, .. } | Entry::Dropped { op, .. }) => {
                open.remove(&(line.run, op));
            }
            _ => {}
        }
    }
    let tickets = open.into_iter();
    Ok(tickets
        .map(|(run, operation)| Ticket { run, operation })
        .collect())
}

/// Lets killed tasks come to their end.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

async fn rows(memory: &InMemoryStore) -> Vec<RunRow> {
    memory.runs(RunFilter::default()).await.unwrap_or_default()
}

async fn journals(memory: &InMemoryStore) -> Journals {
    let mut journals = Journals::new();
    let store = StoreHandle::new(memory.clone());
    for row in rows(memory).await {
        let lines = store.read(JournalId::Run(row.run), 0, usize::MAX).await;
        journals.insert(row.run, lines.unwrap_or_default());
    }
    journals
}

/// The status of each run and its last entry, for a person who investigates a hang.
async fn standing(memory: &InMemoryStore) -> String {
    let mut words = Vec::new();
    for row in rows(memory).await {
        let lines = memory.read(JournalId::Run(row.run), 0, usize::MAX).await;
        let last = lines.unwrap_or_default().pop();
        let last = last.map_or_else(String::new, |line| line.line.text.to_string());
        words.push(format!(
            "{} ({}) is {}: {last}",
            row.run, row.agent, row.status
        ));
    }
    words.join("; ")
}
