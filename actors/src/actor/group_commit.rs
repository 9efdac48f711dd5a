//! The committer: commits the batches of all running agents, in order and in groups.

use std::{collections::VecDeque, sync::Arc};

use futures_util::FutureExt;
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::task::AbortOnDropHandle;

use super::supervised_ref::SupervisedRef;
use crate::{
    contract::{Batch, BoxFuture, Commits, StoreError, StoreHandle},
    run::OnCommitted,
};

/// How many batches one commit takes at the most.
const GROUP: usize = 4096;

/// How many commits a caller makes for other callers before it leaves them to the actor.
const FOR_OTHERS: usize = 16;

/// Commits batches in the order in which they come. While one commit is under way the next
/// batches gather, and become durable together. Cloning shares it.
///
/// A caller that comes while no commit is under way begins one itself; a store in memory is done
/// with it at once. The committer's actor waits for a store that needs time.
#[derive(Clone)]
pub(crate) struct GroupCommit(Arc<Inner>);

struct Inner {
    store: StoreHandle,
    queue: Mutex<Queue>,
    actor: SupervisedRef<CommitterMessage>,
}

#[derive(Default)]
struct Queue {
    /// The batches that wait.
    batches: Vec<Batch>,
    /// Their callers, after those of the commit under way.
    callers: VecDeque<OnCommitted>,
    committing: bool,
}

impl GroupCommit {
    pub(crate) fn new(store: StoreHandle) -> Self {
        Self(Arc::new(Inner {
            store,
            queue: Mutex::default(),
            actor: SupervisedRef::default(),
        }))
    }

    /// The address of the committer's actor.
    pub(crate) fn actor(&self) -> SupervisedRef<CommitterMessage> {
        self.0.actor.clone()
    }

    /// Commits this, and tells when it is durable.
    pub(crate) fn commit(&self, batch: Batch, on_committed: OnCommitted) {
        {
            let mut queue = self.0.queue.lock();
            if queue.batches.is_empty() {
                // A batch is mostly alone, and a list makes room for four by itself.
                queue.batches.reserve_exact(1);
            }
            queue.batches.push(batch);
            queue.callers.push_back(on_committed);
            if std::mem::replace(&mut queue.committing, true) {
                return;
            }
        }
        let mut permit = CommitPermit(Some(self.clone()));
        for _ in 0..FOR_OTHERS {
            let Some((mut commit, batches)) = permit.next() else {
                return;
            };
            let Some(result) = (&mut commit).now_or_never() else {
                let under_way = Some((commit, batches));
                return self.leave(CommitterMessage { under_way, permit });
            };
            permit.tell(batches, result);
        }
        let under_way = None;
        self.leave(CommitterMessage { under_way, permit });
    }

    fn leave(&self, message: CommitterMessage) {
        // Without the actor nobody learns the commit's result: the message is dropped, and the
        // waiting callers are told that the committer is gone.
        let _ = self.0.actor.send(message);
    }
}

/// A commit that the store has begun, and the number of its batches.
type UnderWay = (BoxFuture<'static, Commits>, usize);

/// The right to commit, which has one holder at a time.
struct CommitPermit(Option<GroupCommit>);

impl CommitPermit {
    /// The next commit; without one the right is given back.
    fn next(&mut self) -> Option<UnderWay> {
        let committer = self.0.as_ref()?;
        let mut queue = committer.0.queue.lock();
        let taken = queue.batches.len().min(GROUP);
        if taken == 0 {
            queue.committing = false;
            drop(queue);
            self.0 = None;
            return None;
        }
        let later = queue.batches.split_off(taken);
        let batches = std::mem::replace(&mut queue.batches, later);
        drop(queue);
        Some((committer.0.store.commit_shared(batches), taken))
    }

    /// Tells the callers of these batches, which came first.
    fn tell(&self, batches: usize, result: Commits) {
        let Some(committer) = &self.0 else { return };
        let results = result.unwrap_or_else(|error| {
            tracing::error!(%error, "a commit failed");
            vec![Err(error); batches]
        });
        let lost = std::iter::repeat(Err(StoreError::Closed));
        for result in results.into_iter().chain(lost).take(batches) {
            let caller = committer.0.queue.lock().callers.pop_front();
            if let Some(mut caller) = caller {
                caller.give(result);
            }
        }
    }
}

impl Drop for CommitPermit {
    /// The holder of the permit is lost with the batches that waited: their callers are told, and those of the commit
    /// under way.
    fn drop(&mut self) {
        if let Some(committer) = self.0.take() {
            let lost = std::mem::take(&mut *committer.0.queue.lock());
            drop(lost);
        }
    }
}

/// Carries the commits for which the store needs time.
pub(crate) struct CommitterActor;

/// Carry this commit, and all that wait behind it.
pub(crate) struct CommitterMessage {
    under_way: Option<UnderWay>,
    permit: CommitPermit,
}

impl Actor for CommitterActor {
    type Msg = CommitterMessage;
    type State = Option<AbortOnDropHandle<()>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(None)
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        mut message: CommitterMessage,
        carrying: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        // There is one permit, so what was carried before has ended.
        *carrying = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let CommitterMessage { under_way, permit } = &mut message;
                let Some((commit, batches)) = under_way.take().or_else(|| permit.next()) else {
                    return;
                };
                let result = commit.await;
                permit.tell(batches, result);
            }
        })));
        Ok(())
    }
}
