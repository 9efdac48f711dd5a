//! The one writer.

use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    contract::{Batch, Committed, StoreError, StoreHandle},
    run::Acknowledge,
};

/// Commits batches in the order in which they come. While one commit is under way the next
/// batches gather, and become durable together.
pub(crate) struct Journal;

pub(crate) enum JournalMessage {
    /// Commit this, and tell when it is durable.
    Commit(Batch, Acknowledge),
    /// The commit under way has ended.
    Committed(CommitResult),
}

type CommitResult = Result<Vec<Result<Committed, StoreError>>, StoreError>;

pub(crate) struct JournalState {
    store: StoreHandle,
    waiting: Vec<(Batch, Acknowledge)>,
    committing: Vec<Acknowledge>,
    commit: Option<AbortOnDropHandle<()>>,
}

/// How many batches one commit takes at the most.
const GROUP: usize = 4096;

impl Actor for Journal {
    type Msg = JournalMessage;
    type State = JournalState;
    type Arguments = StoreHandle;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        store: StoreHandle,
    ) -> Result<JournalState, ActorProcessingErr> {
        let (waiting, committing) = (Vec::new(), Vec::new());
        Ok(JournalState {
            store,
            waiting,
            committing,
            commit: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: JournalMessage,
        state: &mut JournalState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            JournalMessage::Commit(batch, acknowledge) => state.waiting.push((batch, acknowledge)),
            JournalMessage::Committed(result) => state.committed(result),
        }
        while state.commit.is_none() && !state.waiting.is_empty() {
            state.begin(&myself);
        }
        Ok(())
    }
}

impl JournalState {
    fn begin(&mut self, myself: &ActorRef<JournalMessage>) {
        let taken = self.waiting.len().min(GROUP);
        let (batches, acknowledges) = self.waiting.drain(..taken).unzip();
        self.committing = acknowledges;
        let store = self.store.clone();
        let mut commit = Box::pin(async move { store.commit(batches).await });
        // A store in memory is done at once; nothing is handed to a task then.
        if let Some(result) = (&mut commit).now_or_never() {
            self.committed(result);
            return;
        }
        let myself = myself.clone();
        self.commit = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let result = commit.await;
            // A journal that is gone needs no answer: whoever waits hears that it is gone.
            let _ = myself.cast(JournalMessage::Committed(result));
        })));
    }

    fn committed(&mut self, result: CommitResult) {
        self.commit = None;
        let acknowledges = std::mem::take(&mut self.committing);
        match result {
            Ok(results) => {
                for (acknowledge, result) in acknowledges.into_iter().zip(results) {
                    acknowledge(result);
                }
            }
            Err(error) => {
                tracing::error!(%error, "a commit failed");
                acknowledges
                    .into_iter()
                    .for_each(|acknowledge| acknowledge(Err(error.clone())));
            }
        }
    }
}
