//! Checks of the simulation: stores that break one promise each, as an engine with that defect would,
//! and that it must find.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ghostlight_actors::{
    contract::{
        Batch, Claim, Committed, DynStore, MailboxItem, RunFilter, RunRow, RunStatus,
        SessionFilter, SessionRow, StateSlot, StateValue, StoreError, StoreHandle, StoreWrapper,
        StoredLine, TreeLine,
    },
    testing::{Faults, InMemoryStore, Simulation, SimulationReport},
    vocabulary::{Digest, JournalId, RunId},
};
use parking_lot::Mutex;

use crate::{alone, team};

/// In how many seeds each defect must be found. The rarest shows in 1 of 20: that none of so many finds it is no chance.
const SEEDS: u64 = 300;
/// An entry that says nothing, in the place of one that is hidden.
const NOTHING: &str = r#"{"activated":{"epoch":1}}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// A commit is acknowledged, and written only when somebody reads.
    AcknowledgesBeforeItIsDurable,
    /// An owner whose run was taken over may still write.
    AcceptsStaleEpochs,
    /// What is posted to a run is now and then forgotten.
    LosesMailboxItems,
    /// What is taken from a mailbox comes again in the next life.
    DeliversTwice,
    /// That a `once` call began is not found again, so it is made again.
    RetriesOnceCalls,
    /// Recorded results come back in another order.
    DeliversOutOfOrder,
    /// A cancelled run wakes up as if it were not.
    WakesCancelledRuns,
    /// A model's recorded answer is charged once more in replay.
    ChargesReplays,
    /// Changes that belong together are made in part, where a write fails.
    TearsBatches,
}

/// The disk of one process, seen through an engine with a defect.
struct Defective {
    disk: InMemoryStore,
    defect: Defect,
    calls: AtomicU64,
    /// What was acknowledged and not yet written, and the next entry's position.
    held: Mutex<(Vec<Batch>, Option<u64>)>,
    /// What was ever posted; it outlives the process.
    posted: Arc<Mutex<Vec<(JournalId, MailboxItem)>>>,
}

impl Defective {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// Whether it is this call's turn, of so many.
    fn every(&self, calls: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % calls == calls - 1
    }

    async fn write_held(&self) -> Result<(), StoreError> {
        let batches = std::mem::take(&mut self.held.lock().0);
        if !batches.is_empty() {
            self.disk.commit(batches).await?;
        }
        Ok(())
    }

    fn hold(&self, batches: &[Batch]) -> Option<Vec<Result<Committed, StoreError>>> {
        let (held, next) = &mut *self.held.lock();
        let position = next.as_mut()?;
        let told = batches.iter().map(|batch| {
            let committed = Committed {
                position: *position,
            };
            *position += lines(batch);
            Ok(committed)
        });
        let told = told.collect();
        held.extend(batches.iter().cloned());
        Some(told)
    }

    fn hide(&self, lines: &mut [StoredLine]) {
        for stored in lines.iter_mut() {
            let text = &stored.line.text;
            let hidden = match self.defect {
                Defect::RetriesOnceCalls => text.contains(r#""begun":"effect""#),
                Defect::WakesCancelledRuns => text.starts_with(r#"{"cancel_requested"#),
                _ => false,
            };
            if hidden {
                stored.line.text = NOTHING.into();
            } else if self.has(Defect::ChargesReplays) {
                let more = text.replace(r#""input_tokens":11"#, r#""input_tokens":22"#);
                stored.line.text = more.into();
            }
        }
        let ends = |stored: &StoredLine| stored.line.text.starts_with(r#"{"completed"#);
        if self.has(Defect::DeliversOutOfOrder) {
            for place in 1..lines.len() {
                if ends(&lines[place - 1]) && ends(&lines[place]) {
                    let (before, after) = lines.split_at_mut(place);
                    std::mem::swap(&mut before[place - 1].line, &mut after[0].line);
                    return;
                }
            }
        }
    }

    fn wake(&self, row: &mut RunRow) {
        if self.has(Defect::WakesCancelledRuns) && row.status == RunStatus::Cancelling {
            row.status = RunStatus::Running;
        }
    }
}

fn lines(batch: &Batch) -> u64 {
    let appends = batch.appends.iter();
    appends.map(|append| append.lines.len() as u64).sum()
}

impl fmt::Debug for Defective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Defective({:?})", self.defect)
    }
}

impl StoreWrapper for Defective {
    fn inner(&self) -> &dyn DynStore {
        &self.disk
    }

    async fn commit(
        &self,
        mut batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        if self.has(Defect::AcknowledgesBeforeItIsDurable) {
            self.write_held().await?;
            if let Some(told) = self.hold(&batches) {
                return Ok(told);
            }
        }
        if self.has(Defect::TearsBatches)
            && batches.iter().any(|batch| batch.appends.len() > 1)
            && self.every(3)
        {
            for batch in &mut batches {
                batch.appends.truncate(1);
            }
            self.disk.commit(batches).await?;
            return Err(StoreError::Io {
                place: StoreWrapper::description(self),
                reason: "a part was not written".to_owned(),
            });
        }
        let brought: Vec<u64> = batches.iter().map(lines).collect();
        let mut told = self.disk.commit(batches.clone()).await?;
        for ((told, batch), brought) in told.iter_mut().zip(batches).zip(brought) {
            if let Ok(committed) = told {
                self.held.lock().1 = Some(committed.position + brought);
            }
            if self.has(Defect::AcceptsStaleEpochs) && matches!(told, Err(StoreError::Stale { .. }))
            {
                *told = self.force(batch).await;
            }
        }
        Ok(told)
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        self.write_held().await?;
        self.disk.claim(journal, take_over).await
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        self.write_held().await?;
        self.disk.claim_below(journal, above, epoch).await
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        self.write_held().await?;
        let mut lines = self.disk.read(journal, from, limit).await?;
        self.hide(&mut lines);
        Ok(lines)
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        self.write_held().await?;
        self.disk.read_tree(root, after, limit).await
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.write_held().await?;
        let mut row = self.disk.run(run).await?;
        row.iter_mut().for_each(|row| self.wake(row));
        Ok(row)
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.write_held().await?;
        let mut rows = self.disk.runs(filter).await?;
        rows.iter_mut().for_each(|row| self.wake(row));
        Ok(rows)
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.write_held().await?;
        self.disk.sessions(filter).await
    }

    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        self.write_held().await?;
        self.disk.state(scope, key).await
    }

    async fn scope(&self, scope: String) -> Result<Vec<(String, StateValue)>, StoreError> {
        self.write_held().await?;
        self.disk.scope(scope).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.write_held().await?;
        self.disk.blob(digest).await
    }

    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        if self.has(Defect::LosesMailboxItems) && self.every(3) {
            return Ok(true);
        }
        self.posted.lock().push((mailbox.clone(), item.clone()));
        self.disk.post(mailbox, item).await
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        if self.has(Defect::DeliversTwice) {
            let posted = self.posted.lock();
            let marked = posted.iter().zip(1..);
            let mine = marked.filter(|((to, _), mark)| *to == mailbox && *mark > after);
            return Ok(mine.map(|((_, item), mark)| (mark, item.clone())).collect());
        }
        self.disk.mailbox_after(mailbox, after).await
    }

    fn description(&self) -> String {
        format!("a store that {:?}", self.defect)
    }
}

impl Defective {
    /// Writes what a stale owner wants to write.
    async fn force(&self, mut batch: Batch) -> Result<Committed, StoreError> {
        for append in &mut batch.appends {
            let claim = self.disk.claim(append.journal.clone(), true).await?;
            (append.epoch, append.expected) = (claim.epoch, claim.entries);
        }
        self.disk.commit(vec![batch]).await?.remove(0)
    }
}

/// The faults in which a defect shows: some need a process that stands still, or one that dies while
/// it cancels, more often than both happen by chance.
fn faults(defect: Defect) -> Faults {
    let mut faults = Faults::all();
    match defect {
        Defect::AcceptsStaleEpochs => (faults.frozen, faults.crashes) = (1.0, 8),
        Defect::WakesCancelledRuns => (faults.cancels, faults.crashes) = (1.0, 10),
        Defect::DeliversTwice => (faults.messages, faults.crashes) = (1.0, 5),
        _ => {}
    }
    faults
}

fn simulation(defect: Defect, seed: u64) -> Simulation {
    Simulation::new(team::scenario(seed)).faults(faults(defect))
}

fn live_through(defect: Defect, seed: u64) -> SimulationReport {
    let posted = Arc::default();
    let simulation = simulation(defect, seed).disk(move |disk| {
        StoreHandle::new(Defective {
            disk,
            defect,
            calls: AtomicU64::new(0),
            held: Mutex::default(),
            posted: Arc::clone(&posted),
        })
    });
    alone(simulation.run(seed))
}

/// The first seed that finds it.
fn found(defect: Defect) {
    for seed in 0..SEEDS {
        let report = live_through(defect, seed);
        if let Some(violation) = report.violations.first() {
            let sound = alone(simulation(defect, seed).run(seed)).violations;
            assert!(
                sound.is_empty(),
                "seed {seed} fails without the defect: {sound:?}"
            );
            println!("{defect:?} is found by seed {seed}: {violation}");
            return;
        }
    }
    panic!("{defect:?} is not found in {SEEDS} seeds");
}

macro_rules! each_is_found {
    ($(#[$test:meta] fn $name:ident($defect:ident);)*) => {
        $(#[$test]
        fn $name() {
            found(Defect::$defect);
        })*
    };
}

each_is_found! {
    #[test] fn an_acknowledgement_before_it_is_durable_is_found(AcknowledgesBeforeItIsDurable);
    #[test] fn a_lost_mailbox_item_is_found(LosesMailboxItems);
    #[test] fn a_once_call_that_is_retried_is_found(RetriesOnceCalls);
    #[test] fn a_delivery_out_of_order_is_found(DeliversOutOfOrder);
    #[test] fn a_budget_that_is_charged_in_replay_is_found(ChargesReplays);
    #[test] fn a_torn_batch_is_found(TearsBatches);
    #[test] fn a_stale_epoch_that_is_accepted_is_found(AcceptsStaleEpochs);
    #[test] fn a_message_that_comes_twice_is_found(DeliversTwice);
    #[test] fn a_cancelled_run_that_wakes_is_found(WakesCancelledRuns);
}
