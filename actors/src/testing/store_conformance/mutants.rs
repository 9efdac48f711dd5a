//! Checks the checks: each store here breaks one promise, and must be found out.
#![allow(clippy::unwrap_used)]

use super::{Place, check};
use crate::{
    contract::{
        Batch, Claim, Committed, Deleted, Deletion, DynDeletion, DynStore, Expected, Expiry,
        Inventory, MailboxItem, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot,
        StateWrite, StoreError, StoreWrapper, StoredLine, artifact_scopes,
    },
    testing::InMemoryStore,
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};

/// The fault of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    TearsBatches,
    StopsAtRefusal,
    IgnoresExpectedState,
    TakesOverUnasked,
    ForgetsEpochs,
    LosesTheLastLine,
    ForgetsFilters,
    ForgetsTeams,
    BeginsPagesAnew,
    ListsOldestFirst,
    ForgetsTakenIds,
    RepeatsMarks,
    ReadsAllAnew,
    ClaimsBelowUnasked,
    ConfirmsUnasked,
    ForgetsBlobs,
    KeepsCheckpoints,
    StaysOpen,
    OwnsForEver,
    StopsClaimingAtRefusal,
    KnowsNoOwners,
    LosesPosts,
    CountsCopies,
    ReadsTogetherWithoutBound,
    MixesUpJournals,
    WakesSleepers,
    WakesTooEarly,
    DeletesNothing,
    RefusesInSilence,
    ForgetsWhatItSpares,
    ForgetsDeletions,
    KeepsBlobs,
    ForgetsArtifacts,
    ForgetsPages,
    ForgetsVersions,
    ListsNoTakenItems,
    KeepsWhatASessionHad,
    KeepsSessionsInSilence,
    ForgetsCode,
}

#[derive(Debug)]
struct Mutant(InMemoryStore, Flaw);

impl Mutant {
    fn has(&self, flaw: Flaw) -> bool {
        self.1 == flaw
    }
}

impl StoreWrapper for Mutant {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    async fn commit(
        &self,
        mut batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        for batch in &mut batches {
            if self.has(Flaw::IgnoresExpectedState) {
                batch
                    .writes
                    .iter_mut()
                    .for_each(|write| write.expected = Expected::Any);
            }
            if self.has(Flaw::ForgetsArtifacts) {
                let refers =
                    |write: &StateWrite| write.scope.starts_with(artifact_scopes::REFERRING);
                batch.writes.retain(|write| !refers(write));
            }
            if self.has(Flaw::ForgetsBlobs) {
                batch.blobs.clear();
            }
            if self.has(Flaw::LosesPosts) {
                batch.posts.clear();
            }
            for write in &mut batch.writes {
                if self.has(Flaw::CountsCopies) && matches!(write.expected, Expected::Copy(_)) {
                    write.expected = Expected::Any;
                }
            }
        }
        let mut told = Vec::new();
        for mut batch in batches {
            let mut first = None;
            while self.has(Flaw::TearsBatches) && batch.appends.len() > 1 {
                let part = Batch::of(batch.appends.remove(0));
                first = first.or(Some(self.0.commit(vec![part]).await?.remove(0)));
            }
            let rest = self.0.commit(vec![batch]).await?.remove(0);
            let stops = self.has(Flaw::StopsAtRefusal) && rest.is_err();
            told.push(match (first, rest) {
                (Some(Ok(first)), Ok(_)) => Ok(first),
                (_, rest) => rest,
            });
            if stops {
                break;
            }
        }
        Ok(told)
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        let take_over = take_over || self.has(Flaw::TakesOverUnasked);
        let mut claim = self.0.claim(journal, take_over).await?;
        if self.has(Flaw::ForgetsEpochs) {
            claim.epoch = 1;
        }
        Ok(claim)
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        match self.0.confirm(journal, epoch).await {
            Err(_) if self.has(Flaw::ConfirmsUnasked) => Ok(0),
            told => told,
        }
    }

    async fn held_elsewhere(&self, journals: Vec<JournalId>) -> Result<Vec<bool>, StoreError> {
        let mut held = self.0.held_elsewhere(journals).await?;
        held.iter_mut()
            .for_each(|held| *held &= !self.has(Flaw::KnowsNoOwners));
        Ok(held)
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        if self.has(Flaw::ClaimsBelowUnasked) {
            return StoreWrapper::claim(self, journal, true).await;
        }
        self.0.claim_below(journal, above, epoch).await
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        let mut claims = Vec::new();
        for journal in journals {
            claims.push(StoreWrapper::claim(self, journal, false).await);
            if self.has(Flaw::StopsClaimingAtRefusal) && claims.iter().any(Result::is_err) {
                break;
            }
        }
        Ok(claims)
    }

    async fn read_all(
        &self,
        journals: Vec<JournalId>,
        limit: usize,
    ) -> Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError> {
        let unbounded = self.has(Flaw::ReadsTogetherWithoutBound);
        let limit = if unbounded { usize::MAX } else { limit };
        let mut found = self.0.read_all(journals, limit).await?;
        if self.has(Flaw::MixesUpJournals) {
            found.reverse();
        }
        Ok(found)
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        let mut found = self.0.read(journal, from, limit).await?;
        if self.has(Flaw::LosesTheLastLine) && found.len() > 1 {
            found.pop();
        }
        Ok(found)
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        let mut found = self.0.run(run).await?;
        if self.has(Flaw::ForgetsCode) {
            found.iter_mut().for_each(|row| row.version = 0);
        }
        Ok(found)
    }

    async fn runs(&self, mut filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        if self.has(Flaw::ForgetsFilters) {
            filter.roots = false;
        }
        if self.has(Flaw::ForgetsTeams) {
            filter.team = None;
        }
        if self.has(Flaw::BeginsPagesAnew) {
            filter.after = None;
        }
        if self.has(Flaw::WakesSleepers) {
            filter.awake_by = None;
        }
        if self.has(Flaw::WakesTooEarly) && filter.awake_by.is_some() {
            filter.awake_by = Some(Timestamp(u64::MAX));
        }
        let mut runs = self.0.runs(filter).await?;
        if self.has(Flaw::ListsOldestFirst) {
            runs.reverse();
        }
        Ok(runs)
    }

    async fn sessions(&self, mut filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        if self.has(Flaw::ForgetsPages) {
            filter.after = None;
        }
        self.0.sessions(filter).await
    }

    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        let slot = self.0.state(scope, key).await?;
        Ok(match slot.value {
            None if self.has(Flaw::ForgetsVersions) => StateSlot::default(),
            _ => slot,
        })
    }

    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        let waiting = self
            .0
            .mailbox(mailbox.clone())
            .await?
            .iter()
            .any(|old| old.id == item.id);
        let new = self.0.post(mailbox, item).await?;
        Ok(new || (self.has(Flaw::ForgetsTakenIds) && !waiting))
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        let after = if self.has(Flaw::ReadsAllAnew) {
            0
        } else {
            after
        };
        self.0.mailbox_after(mailbox, after).await
    }

    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        let after = if self.has(Flaw::RepeatsMarks) {
            0
        } else {
            after
        };
        self.0.posted(after).await
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        if self.has(Flaw::KeepsCheckpoints) && bytes.is_none() {
            return Ok(());
        }
        self.0.put_checkpoint(session, bytes).await
    }

    async fn expired(&self, mut expiry: Expiry) -> Result<Vec<RunRow>, StoreError> {
        if self.has(Flaw::ForgetsWhatItSpares) {
            expiry.keep = 0;
        }
        Deletion::expired(&self.0, expiry).await
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        if self.has(Flaw::DeletesNothing) {
            return Ok(Deleted::default());
        }
        match Deletion::delete_tree(&self.0, root, at, limit).await {
            Err(_) if self.has(Flaw::RefusesInSilence) => Ok(Deleted::default()),
            told => told,
        }
    }

    async fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        if self.has(Flaw::KeepsWhatASessionHad) {
            return Ok(Deleted::default());
        }
        match Deletion::delete_session(&self.0, session, limit).await {
            Err(_) if self.has(Flaw::KeepsSessionsInSilence) => Ok(Deleted::default()),
            told => told,
        }
    }

    async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        let found = Deletion::deleted(&self.0, run).await?;
        Ok(found.filter(|_| !self.has(Flaw::ForgetsDeletions)))
    }

    async fn drop_blobs(&self) -> Result<u64, StoreError> {
        if self.has(Flaw::KeepsBlobs) {
            return Ok(0);
        }
        Deletion::drop_blobs(&self.0).await
    }

    async fn inventory(&self) -> Result<Inventory, StoreError> {
        let mut found = self.0.inventory().await?;
        if self.has(Flaw::ListsNoTakenItems) {
            let mut waiting = Vec::new();
            for (mailbox, id) in found.items {
                let left = self.0.mailbox(mailbox.clone()).await?;
                if left.iter().any(|item| item.id == id) {
                    waiting.push((mailbox, id));
                }
            }
            found.items = waiting;
        }
        Ok(found)
    }

    async fn close(&self) -> Result<(), StoreError> {
        if self.has(Flaw::StaysOpen) {
            return Ok(());
        }
        self.0.close().await
    }

    fn description(&self) -> String {
        format!("{:?}", self.1)
    }
}

/// No mutant: a store that deletes nothing, and says so.
struct KeepsAll(InMemoryStore);

impl StoreWrapper for KeepsAll {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        None
    }
}

struct Archive(InMemoryStore);

impl Place for Archive {
    type Store = KeepsAll;

    async fn open(&self) -> Result<KeepsAll, StoreError> {
        Ok(KeepsAll(self.0.another_process()))
    }

    async fn crash(&self, store: KeepsAll) {
        store.0.crash();
    }
}

#[tokio::test]
async fn a_store_that_deletes_nothing_and_says_so_keeps_every_promise() {
    let checked = check(async || Archive(InMemoryStore::new())).await;
    checked.unwrap();
}

struct Laboratory(InMemoryStore, Flaw);

impl Place for Laboratory {
    type Store = Mutant;

    async fn open(&self) -> Result<Mutant, StoreError> {
        Ok(Mutant(self.0.another_process(), self.1))
    }

    async fn crash(&self, store: Mutant) {
        if self.1 != Flaw::OwnsForEver {
            store.0.crash();
        }
    }
}

#[tokio::test]
async fn a_store_that_breaks_a_promise_is_told_which() {
    let cases = [
        (Flaw::TearsBatches, "all or nothing"),
        (Flaw::StopsAtRefusal, "does not hinder others"),
        (Flaw::IgnoresExpectedState, "expects something else"),
        (Flaw::TakesOverUnasked, "owner lives is refused"),
        (Flaw::ForgetsEpochs, "outlives the process"),
        (Flaw::LosesTheLastLine, "read as they were committed"),
        (Flaw::ForgetsFilters, "runs are filtered"),
        (Flaw::ForgetsTeams, "runs are filtered"),
        (Flaw::BeginsPagesAnew, "runs are filtered"),
        (Flaw::ListsOldestFirst, "latest begun first"),
        (Flaw::ForgetsTakenIds, "outlives the process"),
        (Flaw::RepeatsMarks, "marks tell"),
        (Flaw::ReadsAllAnew, "after a mark"),
        (Flaw::ClaimsBelowUnasked, "goes with another"),
        (Flaw::ConfirmsUnasked, "asks is told"),
        (Flaw::ForgetsBlobs, "a batch may be large"),
        (Flaw::KeepsCheckpoints, "checkpoints are replaced"),
        (Flaw::StaysOpen, "closed store refuses"),
        (Flaw::OwnsForEver, "everything outlives"),
        (
            Flaw::StopsClaimingAtRefusal,
            "claims that are made together",
        ),
        (Flaw::KnowsNoOwners, "a claim would be refused"),
        (Flaw::LosesPosts, "posted with the batch"),
        (Flaw::CountsCopies, "copied value keeps"),
        (
            Flaw::ReadsTogetherWithoutBound,
            "journals that are read together",
        ),
        (Flaw::MixesUpJournals, "journals that are read together"),
        (Flaw::WakesSleepers, "runs that go on by themselves"),
        (Flaw::WakesTooEarly, "runs that go on by themselves"),
        (Flaw::DeletesNothing, "deleted as a whole"),
        (Flaw::RefusesInSilence, "has not ended is not deleted"),
        (Flaw::ForgetsWhatItSpares, "trees that may go"),
        (Flaw::ForgetsDeletions, "deleted as a whole"),
        (Flaw::KeepsBlobs, "blobs go with"),
        (Flaw::ForgetsArtifacts, "contents of artifacts"),
        (Flaw::ForgetsPages, "sessions are listed"),
        (Flaw::ForgetsVersions, "versions that never come again"),
        (Flaw::ListsNoTakenItems, "listed by name"),
        (Flaw::KeepsWhatASessionHad, "a session is deleted"),
        (Flaw::KeepsSessionsInSilence, "is carried is not deleted"),
        (Flaw::ForgetsCode, "the latest that was committed"),
    ];
    for (flaw, promise) in cases {
        let checked = check(async || Laboratory(InMemoryStore::new(), flaw)).await;
        let found = checked.unwrap_err();
        assert!(found.promise.contains(promise), "{flaw:?}: {found}");
    }
}
