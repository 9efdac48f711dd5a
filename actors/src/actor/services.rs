//! The services through which runs reach the world.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};

use super::{
    agent_command::AgentCommand,
    companion::Companions,
    group_commit::GroupCommit,
    loaded::end_of,
    model_gateway::{Gateways, ModelGateway},
    poll_interval::PollInterval,
    previewer::Previewer,
    state_cache::StateCache,
    tool_executor::ToolExecutor,
};
use crate::{
    assembly::Registry,
    contract::{
        Batch, BoxFuture, Clock, Credential, Entropy, MailboxItem, Notice, PreviewSink, StateSlot,
        StoreHandle, Surroundings,
    },
    run::{
        Called, Carried, ChildResult, ChildStart, Command, ModelAnswer, ModelCall, ModelEnd,
        OnCommitted, Ports, StateLock, ToolEnd, ToolInvocation, ToolSlot,
    },
    vocabulary::{ErrorKind, OperationError, OperationId, Retry, RunId, Usage},
};

/// The least number of values whose locks are kept before unused ones are forgotten.
const IDLE_LOCKS: usize = 1024;

/// The locks by which changes of one value of shared state follow each other.
#[derive(Default)]
pub(crate) struct StateLocks {
    by_value: HashMap<(String, String), Arc<tokio::sync::Mutex<()>>>,
    /// The number of locks at which unused ones are searched for and forgotten: twice as many as
    /// were in use after the last search, so that the cost of a change does not grow with their
    /// number.
    bound: usize,
}

impl StateLocks {
    fn of(&mut self, value: (String, String)) -> Arc<tokio::sync::Mutex<()>> {
        if self.by_value.len() >= self.bound.max(IDLE_LOCKS) {
            self.by_value.retain(|_, lock| Arc::strong_count(lock) > 1);
            self.bound = 2 * self.by_value.len();
        }
        self.by_value.entry(value).or_default().clone()
    }
}

/// The services that every part of a System shares.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) store: StoreHandle,
    pub(crate) committer: GroupCommit,
    pub(crate) gateways: Arc<RwLock<Gateways>>,
    pub(crate) executor: Arc<ToolExecutor>,
    pub(crate) state: Arc<StateCache>,
    pub(crate) companions: Arc<Companions>,
    pub(crate) state_locks: Arc<Mutex<StateLocks>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// A number that tells this process apart from those before it, in what a run records of who took it over.
    pub(crate) process: u32,
    pub(crate) previewer: Previewer,
    pub(crate) credentials: Arc<Mutex<VecDeque<Given>>>,
}

/// A credential that no call has taken yet.
type Given = ((RunId, OperationId), Credential);

/// The use of a credential that is given to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It waits for the call.
    New,
    /// It was given before, and waits for the call.
    Again,
    /// Another one was given before, and waits for the call.
    Other,
}

/// How many credentials wait for their calls before the oldest is forgotten, and asked for again.
const CREDENTIALS: usize = 256;

impl Services {
    /// An id that nothing else has.
    pub(crate) fn fresh_id(&self) -> String {
        format!("{:032x}", self.entropy.bits())
    }

    /// The ways to all models.
    pub(crate) fn gateways(&self) -> Vec<Arc<ModelGateway>> {
        self.gateways.read().named.values().cloned().collect()
    }

    /// Keeps the credential that answers a question until its call takes it, unless another one waits for the call.
    pub(crate) fn give(&self, run: RunId, question: OperationId, credential: Credential) -> Kept {
        let mut given = self.credentials.lock();
        if let Some((_, before)) = given.iter().find(|(key, _)| *key == (run, question)) {
            return match before.reveal() == credential.reveal() {
                true => Kept::Again,
                false => Kept::Other,
            };
        }
        if given.len() >= CREDENTIALS {
            given.pop_front();
        }
        given.push_back(((run, question), credential));
        Kept::New
    }
}

impl Surroundings for Services {
    fn post(
        &self,
        run: RunId,
        item: MailboxItem,
    ) -> BoxFuture<'static, Result<(), OperationError>> {
        let services = self.clone();
        Box::pin(async move {
            if services.post_to(run, item).await?.is_none() {
                let message = format!("run {run} has ended, or there is none of this id");
                return Err(OperationError::new(ErrorKind::NotFound, message));
            }
            Ok(())
        })
    }

    fn companions(&self) -> Arc<dyn Any + Send + Sync> {
        self.companions.clone()
    }

    fn store(&self) -> &StoreHandle {
        &self.store
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl Ports for Services {
    fn commit(&self, batch: Batch, on_committed: OnCommitted) {
        self.committer.commit(batch, on_committed);
    }

    fn model(&self, call: Arc<ModelCall>, before: Option<Retry>) -> Carried<ModelAnswer> {
        let Some(gateway) = self.gateways.read().to(&call.code.model) else {
            let model = &call.request.model;
            let message = format!("the model {model:?} is of another System");
            let error = OperationError::new(ErrorKind::NotFound, message);
            let failed = async move { ModelEnd::Failed(error, Usage::default()).into() };
            return Carried::alone(Box::pin(failed));
        };
        gateway.carry(call, before)
    }

    fn slot(&self, call: &ToolInvocation) -> BoxFuture<'static, ToolSlot> {
        self.executor.slot(call)
    }

    fn tool(&self, call: Arc<ToolInvocation>) -> Carried<Called<ToolEnd>> {
        self.executor.clone().carry(call, false)
    }

    fn reconcile(&self, call: Arc<ToolInvocation>) -> Carried<Called<ToolEnd>> {
        self.executor.clone().carry(call, true)
    }

    fn abort_tool(
        &self,
        run: RunId,
        operation: OperationId,
    ) -> BoxFuture<'static, Option<ToolEnd>> {
        Box::pin(self.executor.clone().abort((run, operation)))
    }

    fn forget_calls(&self, run: RunId) -> Option<BoxFuture<'static, ()>> {
        let calls = self.executor.calls.clone();
        calls
            .is_away()
            .then(|| async move { calls.forget_run(run).await }.boxed())
    }

    fn previews(&self, run: RunId) -> PreviewSink {
        self.previewer.sink(run)
    }

    fn saying(&self, run: RunId) -> Option<String> {
        self.previewer.observers.saying(run)
    }

    fn credential(&self, run: RunId, question: OperationId) -> Option<Credential> {
        let mut given = self.credentials.lock();
        let place = given.iter().position(|(key, _)| *key == (run, question))?;
        given.remove(place).map(|(_, credential)| credential)
    }

    fn child(&self, child: ChildStart) {
        // A parent that is gone begins its child again.
        let live = &self.previewer.live;
        live.tell_host(child.parent, AgentCommand::Child(Box::new(child)));
    }

    fn tree(&self, parent: RunId, run: RunId) {
        let live = &self.previewer.live;
        live.tell_host(parent, AgentCommand::Tree(run));
    }

    fn cancel_child(&self, parent: RunId, run: RunId, reason: String) {
        // The message takes the same way as the start of the child, so it cannot overtake that.
        let live = &self.previewer.live;
        live.tell_host(parent, AgentCommand::CancelChild(run, reason));
    }

    fn outcome(&self, run: RunId) -> BoxFuture<'static, Result<ChildResult, OperationError>> {
        let services = self.clone();
        Box::pin(async move {
            let (mut run, mut interval) = (run, PollInterval::new());
            loop {
                let mut watch = services.previewer.live.watch(run);
                let told = services.store.news(Notice::Rested(run));
                // The journals that the run left may be deleted.
                let row = services.current(run).await?;
                if row.is_none() && services.store.deleted(run).await?.is_some() {
                    let message = format!("run {run} was deleted after its retention time");
                    return Err(OperationError::new(ErrorKind::NotFound, message));
                }
                match row {
                    Some(row) if row.run != run => {
                        run = row.run;
                        continue;
                    }
                    Some(row) if row.status.is_ended() => {
                        let end = end_of(&services.store, run).await?;
                        let end = end.and_then(|end| Some((end.outcome()?, end.spent())));
                        if let Some((outcome, spent)) = end {
                            return Ok(ChildResult::new(run, outcome, spent));
                        }
                    }
                    _ => {}
                }
                tokio::select! {
                    () = watch.rung() => {}
                    () = interval.next(&*services.clock, told) => {}
                }
            }
        })
    }

    fn state(
        &self,
        scope: String,
        key: String,
    ) -> BoxFuture<'static, Result<StateSlot, OperationError>> {
        let cache = self.state.clone();
        Box::pin(async move { Ok(cache.get((scope, key)).await?) })
    }

    fn lock_state(&self, scope: String, key: String) -> BoxFuture<'static, StateLock> {
        let lock = self.state_locks.lock().of((scope, key));
        Box::pin(lock.lock_owned())
    }

    fn state_changed(&self, keys: Vec<(String, String)>) {
        self.state.changed(&keys);
    }

    fn forget_state(&self, scope: String) {
        self.state.forget(&scope);
    }

    fn posted(&self, runs: Vec<RunId>) {
        // A run that sleeps, or that another process carries, is looked up in the store.
        for run in runs {
            self.previewer.live.tell(run, Command::Mailbox);
        }
    }

    fn ended(&self, runs: Vec<RunId>) -> BoxFuture<'static, Result<Vec<RunId>, OperationError>> {
        let services = self.clone();
        Box::pin(async move {
            let mut ended = Vec::new();
            for run in runs {
                // A run that goes on in another journal has not ended.
                let row = services.current(run).await?;
                if row.is_none_or(|row| row.status.is_ended()) {
                    ended.push(run);
                }
            }
            Ok(ended)
        })
    }

    fn published(&self, root: RunId, position: u64) {
        self.previewer.observers.published(root, position);
    }

    fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.entropy
    }
}

opaque!(Services);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_nobody_wants_are_forgotten_however_many_are_wanted() {
        let mut locks = StateLocks::default();
        let value = |key: usize| ("scope".to_owned(), key.to_string());
        let wanted: Vec<_> = (0..5_000).map(|key| locks.of(value(key))).collect();
        for key in 5_000..50_000 {
            drop(locks.of(value(key)));
        }
        assert!(locks.by_value.len() <= 2 * wanted.len() + IDLE_LOCKS);
        assert!(Arc::ptr_eq(&locks.of(value(7)), &wanted[7]));
        drop(wanted);
        for key in 50_000..100_000 {
            drop(locks.of(value(key)));
        }
        assert!(
            locks.by_value.len() <= IDLE_LOCKS,
            "{}",
            locks.by_value.len()
        );
    }
}
