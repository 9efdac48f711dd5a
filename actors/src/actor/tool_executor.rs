//! The executor of tool calls.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::ready,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{Either, select},
};
use parking_lot::Mutex;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::JoinHandle,
};

use super::{
    call_table::CallTable,
    fair_slots::{FairSlots, Permit, SlotCounts},
    previewer::Previewer,
    tool_call::ToolCaller,
};
use crate::{
    contract::{BoxFuture, Clock, Entropy, ToolPace},
    run::{Asked, CallKey, Called, Carried, Manner, ToolEnd, ToolInvocation, ToolSlot},
    vocabulary::{Effect, ToolDefinition},
};

/// The settings of tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorOptions {
    /// How many calls run at once over all tools. When more wait, the trees of runs take turns,
    /// call by call. The same holds for a tool's own bound.
    pub concurrency: usize,
    /// How long a call may take where its tool sets no bound.
    pub timeout: Duration,
    /// How long a `once` call that was cancelled has to come to a known end.
    pub grace: Duration,
    /// How many results are kept for runs that come back.
    pub kept_results: usize,
    /// Whether calls get tasks of their own on a runtime with one thread too, as they do on one
    /// with several: with it the simulator covers these tasks.
    pub(crate) own_tasks: bool,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self {
            concurrency: 256,
            timeout: Duration::from_secs(120),
            grace: Duration::from_secs(5),
            kept_results: 1024,
            own_tasks: false,
        }
    }
}

setters!(ExecutorOptions {
    concurrency: usize,
    timeout: Duration,
    grace: Duration,
    kept_results: usize,
});

/// Calls tools, with bounds on concurrent calls, time and output, and with checked arguments. A
/// call belongs to its operation: a restarted run finds it again with the keeper of
/// [`calls`](Self::calls), the actor `tools`, and only cancelling aborts it.
pub(crate) struct ToolExecutor {
    pub(crate) calls: Arc<CallTable<Called<ToolEnd>>>,
    caller: ToolCaller,
    slots: FairSlots,
    /// The slots of tools with a bound of their own, each with the tool's first name.
    by_tool: Mutex<HashMap<usize, (String, FairSlots)>>,
    pub(crate) options: ExecutorOptions,
    clock: Arc<dyn Clock>,
    /// `once` calls that this process began and whose end it does not know. A call that is asked
    /// for again was lost in the middle, with the actor that kept it.
    begun: Mutex<HashSet<CallKey>>,
    /// Tasks that were told to stop and have not stopped yet.
    stopping: Stopping,
}

type Stopping = Arc<Mutex<HashMap<CallKey, JoinHandle<Called<ToolEnd>>>>>;

/// A call in a task of its own. If this is dropped before the end, it tells the task to stop.
struct OwnTask {
    key: CallKey,
    /// The task, until its end is taken.
    task: Option<JoinHandle<Called<ToolEnd>>>,
    stopping: Stopping,
}

impl OwnTask {
    async fn end(mut self) -> Called<ToolEnd> {
        let ended = match &mut self.task {
            Some(task) => task.await,
            None => return std::future::pending().await,
        };
        self.task = None;
        match ended {
            Ok(end) => end,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is going away, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Drop for OwnTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let mut stopping = self.stopping.lock();
            // Tasks that were not asked about have stopped by themselves.
            stopping.retain(|_, task| !task.is_finished());
            stopping.insert(self.key, task);
        }
    }
}

/// A call that is timed to see how long its code keeps the thread.
struct Watched {
    work: BoxFuture<'static, Called<ToolEnd>>,
    tool: Arc<ToolDefinition>,
    pace: Arc<ToolPace>,
    clock: Arc<dyn Clock>,
    longest: Duration,
}

impl Future for Watched {
    type Output = Called<ToolEnd>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let began = self.clock.monotonic();
        let polled = self.work.poll_unpin(cx);
        let kept = self.clock.monotonic().since(began);
        self.longest = self.longest.max(kept);
        if kept >= ToolPace::BLOCKING {
            let (tool, kept_ms) = (&self.tool.name, kept.as_millis() as u64);
            // It is for the tool's author, whom the people who use the tool need not be: they can leave the target out.
            tracing::warn!(
                target: "ghostlight_actors::blocking",
                %tool,
                kept_ms,
                "the tool's code blocks its thread: use spawn_blocking in it"
            );
        }
        if polled.is_ready() || kept >= ToolPace::BLOCKING {
            self.pace.kept(self.longest);
        }
        polled
    }
}

impl ToolExecutor {
    pub(crate) fn new(
        options: ExecutorOptions,
        entropy: Arc<dyn Entropy>,
        previews: Previewer,
    ) -> Self {
        let clock = previews.clock.clone();
        Self {
            calls: Arc::default(),
            caller: ToolCaller::new(options.timeout, entropy, previews),
            slots: FairSlots::new(options.concurrency),
            by_tool: Mutex::default(),
            options,
            clock,
            begun: Mutex::default(),
            stopping: Arc::default(),
        }
    }

    /// Makes a call, or asks the tool for its outcome; or joins the call, if it is under way.
    pub(crate) fn carry(
        self: Arc<Self>,
        call: Arc<ToolInvocation>,
        reconcile: bool,
    ) -> Carried<Called<ToolEnd>> {
        let manner = Manner {
            key: (call.run, call.operation),
            asked: Asked::Tool(call.clone()),
            unwanted: call.cancelled.clone(),
            settles: call.definition.effect == Effect::Once,
        };
        if !self.calls.is_away() {
            return self.begin(manner, call, reconcile);
        }
        Carried::alone(Box::pin(async move {
            match self.calls.join(&manner).await {
                Some(end) => end,
                None => self.begin(manner, call, reconcile).await,
            }
        }))
    }

    fn begin(
        self: Arc<Self>,
        manner: Manner,
        call: Arc<ToolInvocation>,
        reconcile: bool,
    ) -> Carried<Called<ToolEnd>> {
        let key = manner.key;
        if manner.settles && !reconcile && !self.begun.lock().insert(key) {
            let reason = "the tool executor was restarted in the middle of it";
            let end = ToolEnd::InDoubt(reason.into()).into();
            return Carried::alone(Box::pin(ready(end)));
        }
        // Code that blocks must not keep its run from being cancelled, so a call has a task of its own until its tool has
        // shown that it gives its thread back at once. On a runtime with one thread a task of its own would block that
        // thread as well.
        let several = self.options.own_tasks
            || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let code = call.code.as_ref().ok();
        let watched = code.map(|code| (code.tool.pace().clone(), call.definition.clone()));
        let work = self.clone().work(call, reconcile).boxed();
        let work = match watched {
            Some((pace, tool)) if several => {
                let is_quick = pace.is_quick();
                let watched = Watched {
                    work,
                    tool,
                    pace,
                    clock: self.clock.clone(),
                    longest: Duration::ZERO,
                };
                match is_quick {
                    true => watched.boxed(),
                    false => self.own_task(key, watched),
                }
            }
            None if several => self.own_task(key, work),
            _ => work,
        };
        self.calls.carry(manner, work)
    }

    fn own_task(
        &self,
        key: CallKey,
        work: impl Future<Output = Called<ToolEnd>> + Send + 'static,
    ) -> BoxFuture<'static, Called<ToolEnd>> {
        let own = OwnTask {
            key,
            task: Some(tokio::spawn(work)),
            stopping: self.stopping.clone(),
        };
        own.end().boxed()
    }

    async fn work(self: Arc<Self>, call: Arc<ToolInvocation>, reconcile: bool) -> Called<ToolEnd> {
        let end = self.end_of(&call, reconcile).await;
        if call.definition.effect == Effect::Once {
            self.begun.lock().remove(&(call.run, call.operation));
        }
        end
    }

    async fn end_of(&self, call: &ToolInvocation, reconcile: bool) -> Called<ToolEnd> {
        let _slot = match &call.slot {
            Some(slot) => Either::Left(slot.clone()),
            None => Either::Right(self.permits(call).await),
        };
        if call.cancelled.is_cancelled() {
            // The call was cancelled while it waited for its slot.
            ToolEnd::DidNotHappen.into()
        } else if reconcile {
            Box::pin(self.caller.reconcile(call)).await.into()
        } else {
            self.caller.call(call).await
        }
    }

    /// A slot that the call can hold before it begins.
    pub(crate) fn slot(&self, call: &ToolInvocation) -> BoxFuture<'static, ToolSlot> {
        let permits = self.permits(call);
        Box::pin(async move { Arc::new(permits.await) as ToolSlot })
    }

    /// Waits for a slot of the call's tool, and then for one of all tools.
    fn permits(
        &self,
        call: &ToolInvocation,
    ) -> impl Future<Output = (Option<Permit>, Permit)> + Send + use<> {
        let bound = call.definition.concurrency.zip(call.code.as_ref().ok());
        let of_tool = bound
            .map(|(bound, code)| self.slots_of(code.tool.address(), &call.definition.name, bound));
        let (of_all, root) = (self.slots.clone(), call.root);
        async move {
            let of_tool = match of_tool {
                Some(slots) => Some(slots.acquire(root).await),
                None => None,
            };
            (of_tool, of_all.acquire(root).await)
        }
    }

    /// The slots of one tool, under whatever names agents call it.
    fn slots_of(&self, tool: usize, name: &str, bound: u32) -> FairSlots {
        let mut by_tool = self.by_tool.lock();
        let slots = by_tool.entry(tool);
        let slots = slots.or_insert_with(|| (name.to_owned(), FairSlots::new(bound as usize)));
        slots.1.clone()
    }

    /// The slots of all tools together, and those of each tool with a bound of its own, by name.
    pub(crate) fn slots(&self) -> (SlotCounts, BTreeMap<String, SlotCounts>) {
        let by_tool = self.by_tool.lock();
        let each = by_tool.values();
        let each = each.map(|(name, slots)| (name.clone(), slots.counts()));
        (self.slots.counts(), each.collect())
    }

    /// Ends a call that is unwanted and that its run let go. A `once` call has a grace period to
    /// come to a known end, which is returned; code that blocks has the same time to stop.
    pub(crate) async fn abort(self: Arc<Self>, key: CallKey) -> Option<ToolEnd> {
        let settled = self.calls.abort(key).boxed();
        let grace = self.clock.sleep(self.options.grace);
        let (end, grace) = match select(settled, grace).await {
            Either::Left((called, grace)) => (called.map(|called| called.end), grace),
            Either::Right(_) => {
                self.calls.forget(key);
                self.begun.lock().remove(&key);
                let reason = "it was cancelled and did not end within its grace period";
                return Some(ToolEnd::InDoubt(reason.to_owned()));
            }
        };
        let stopping = self.stopping.lock().remove(&key);
        let Some(stopping) = stopping else {
            return end;
        };
        // Code that can be interrupted ends at once.
        match select(stopping, grace).await {
            Either::Left(_) => end,
            Either::Right(_) => Some(ToolEnd::StillRunning),
        }
    }
}
