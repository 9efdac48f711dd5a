//! The one who calls tools.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{doors::Previewer, tool_call::ToolCaller};
use crate::{
    contract::{Clock, Entropy},
    run::{Registry, ToolEnd, ToolInvocation},
    vocabulary::{Effect, OperationId, RunId},
};

/// How the executor treats tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorOptions {
    /// How many calls run at once over all tools; more wait their turn.
    pub concurrency: usize,
    /// How long a call may take where its tool sets no bound.
    pub timeout: Duration,
    /// How long a `once` call that was cancelled has to come to a known end.
    pub grace: Duration,
    /// How many results that nobody took are kept for a run that comes back.
    pub kept_results: usize,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self {
            concurrency: 256,
            timeout: Duration::from_secs(120),
            grace: Duration::from_secs(5),
            kept_results: 1024,
        }
    }
}

/// Calls tools: how many at once, how long each, with arguments that fit and output that is
/// bounded. A call belongs to the executor under its operation's id, so a restarted run finds
/// it again, and only cancelling aborts it.
pub(crate) struct ToolExecutor;

/// What became of a call that was aborted.
pub(crate) enum Aborted {
    /// It can do nothing more; with its end, if it told one.
    Ended(Option<ToolEnd>),
    /// It was told to stop, and has when its task ends.
    Stopping(AbortOnDropHandle<()>),
}

pub(crate) enum ExecutorMessage {
    /// Make this call, or join it if it is under way.
    Call(Box<ToolInvocation>, Reply),
    /// Ask the tool whether this call happened.
    Reconcile(Box<ToolInvocation>, Reply),
    /// Nobody wants this call any more.
    Abort(CallKey, oneshot::Sender<Aborted>),
    /// This call has ended; the result that nobody took comes along.
    Ended(CallKey, Option<ToolEnd>),
}

pub(crate) type CallKey = (RunId, OperationId);
pub(crate) type Reply = oneshot::Sender<ToolEnd>;

pub(crate) struct ExecutorArguments {
    pub(crate) registry: Arc<Registry>,
    pub(crate) options: ExecutorOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) previews: Previewer,
    /// Calls that this process began. A life of this actor that finds one here, without having
    /// begun it, knows that the one before was lost in the middle of it.
    pub(crate) begun: Arc<Mutex<HashSet<CallKey>>>,
}

pub(crate) struct ExecutorState {
    caller: Arc<ToolCaller>,
    slots: Arc<Semaphore>,
    by_tool: HashMap<String, Arc<Semaphore>>,
    calls: HashMap<CallKey, CallUnderWay>,
    kept: VecDeque<(CallKey, ToolEnd)>,
    options: ExecutorOptions,
    begun: Arc<Mutex<HashSet<CallKey>>>,
}

struct CallUnderWay {
    waiter: Arc<Mutex<Waiter>>,
    cancelled: CancellationToken,
    effect: Effect,
    aborting: Vec<oneshot::Sender<Aborted>>,
    task: AbortOnDropHandle<()>,
}

/// Who takes the result. A result that came while nobody waited stays here.
struct Waiter {
    reply: Option<Reply>,
    ended: bool,
}

impl Actor for ToolExecutor {
    type Msg = ExecutorMessage;
    type State = ExecutorState;
    type Arguments = ExecutorArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        arguments: ExecutorArguments,
    ) -> Result<ExecutorState, ActorProcessingErr> {
        let ExecutorArguments {
            registry,
            options,
            clock,
            entropy,
            previews,
            begun,
        } = arguments;
        Ok(ExecutorState {
            slots: Arc::new(Semaphore::new(options.concurrency.max(1))),
            caller: Arc::new(ToolCaller::new(
                registry,
                options.timeout,
                clock,
                entropy,
                previews,
            )),
            by_tool: HashMap::new(),
            calls: HashMap::new(),
            kept: VecDeque::new(),
            options,
            begun,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: ExecutorMessage,
        state: &mut ExecutorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ExecutorMessage::Call(call, reply) => state.call(&myself, *call, reply, false),
            ExecutorMessage::Reconcile(call, reply) => state.call(&myself, *call, reply, true),
            ExecutorMessage::Abort(key, reply) => state.abort(&myself, key, reply),
            ExecutorMessage::Ended(key, end) => state.ended(key, end),
        }
        Ok(())
    }
}

impl ExecutorState {
    fn call(
        &mut self,
        myself: &ActorRef<ExecutorMessage>,
        call: ToolInvocation,
        reply: Reply,
        reconcile: bool,
    ) {
        let key = (call.run, call.operation);
        if let Some(place) = self.kept.iter().position(|(kept, _)| *kept == key)
            && let Some((_, end)) = self.kept.remove(place)
        {
            // Nobody to take it means that the run is gone again.
            let _ = reply.send(end);
            return;
        }
        if let Some(under_way) = self.calls.get(&key) {
            let mut waiter = under_way.waiter.lock();
            if !waiter.ended {
                waiter.reply = Some(reply);
                return;
            }
        }
        let once = call.definition.effect == Effect::Once;
        if once && !reconcile && !self.begun.lock().insert(key) {
            let reason = "the tool executor was restarted in the middle of it".to_owned();
            let _ = reply.send(ToolEnd::InDoubt(reason));
            return;
        }
        self.begin(myself, call, reply, reconcile);
    }

    fn begin(
        &mut self,
        myself: &ActorRef<ExecutorMessage>,
        call: ToolInvocation,
        reply: Reply,
        reconcile: bool,
    ) {
        let key = (call.run, call.operation);
        let effect = call.definition.effect;
        let tool_slots = call.definition.concurrency.map(|bound| {
            let bound = (bound as usize).max(1);
            let slots = self.by_tool.entry(call.call.name.clone());
            slots
                .or_insert_with(|| Arc::new(Semaphore::new(bound)))
                .clone()
        });
        let waiter = Arc::new(Mutex::new(Waiter {
            reply: Some(reply),
            ended: false,
        }));
        let cancelled = CancellationToken::new();
        let (caller, slots) = (self.caller.clone(), self.slots.clone());
        let (answer_to, myself, token) = (waiter.clone(), myself.clone(), cancelled.clone());
        let task = tokio::spawn(async move {
            let end = async {
                let _tool_slot = match &tool_slots {
                    Some(slots) => slots.acquire().await.ok(),
                    None => None,
                };
                let _slot = slots.acquire().await.ok();
                if call.cancelled.is_cancelled() {
                    // It was cancelled while it waited for its slot.
                    ToolEnd::DidNotHappen
                } else if reconcile {
                    caller.reconcile(call, token).await
                } else {
                    caller.call(call, token).await
                }
            }
            .await;
            let untaken = {
                let mut waiter = answer_to.lock();
                waiter.ended = true;
                match waiter.reply.take() {
                    Some(reply) => reply.send(end).err(),
                    None => Some(end),
                }
            };
            let _ = myself.cast(ExecutorMessage::Ended(key, untaken));
        });
        let task = AbortOnDropHandle::new(task);
        let aborting = Vec::new();
        self.calls.insert(
            key,
            CallUnderWay {
                waiter,
                cancelled,
                effect,
                aborting,
                task,
            },
        );
    }

    fn abort(
        &mut self,
        myself: &ActorRef<ExecutorMessage>,
        key: CallKey,
        reply: oneshot::Sender<Aborted>,
    ) {
        let Some(under_way) = self.calls.get_mut(&key) else {
            let place = self.kept.iter().position(|(kept, _)| *kept == key);
            let end = place
                .and_then(|place| self.kept.remove(place))
                .map(|(_, end)| end);
            let _ = reply.send(Aborted::Ended(end));
            return;
        };
        under_way.waiter.lock().reply = None;
        under_way.cancelled.cancel();
        if under_way.effect != Effect::Once {
            under_way.task.abort();
            if let Some(stopping) = self.calls.remove(&key) {
                let _ = reply.send(Aborted::Stopping(stopping.task));
            }
            return;
        }
        under_way.aborting.push(reply);
        let (grace, myself) = (self.options.grace, myself.clone());
        // The timer hangs on this actor: it is dropped with it.
        drop(myself.send_after(grace, move || {
            let reason = "it was cancelled and did not end within its grace period".to_owned();
            ExecutorMessage::Ended(key, Some(ToolEnd::InDoubt(reason)))
        }));
    }

    fn ended(&mut self, key: CallKey, untaken: Option<ToolEnd>) {
        let Some(under_way) = self.calls.remove(&key) else {
            return;
        };
        self.begun.lock().remove(&key);
        if !under_way.aborting.is_empty() {
            for reply in under_way.aborting {
                let _ = reply.send(Aborted::Ended(untaken.clone()));
            }
            return;
        }
        if let Some(end) = untaken {
            if self.kept.len() >= self.options.kept_results {
                self.kept.pop_front();
            }
            self.kept.push_back((key, end));
        }
    }
}
