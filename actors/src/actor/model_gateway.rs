//! The way to one model.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::{
    call_table::CallTable,
    fair_slots::{FairSlots, Permit, SlotCounts},
    previewer::Previewer,
    supervisor::Backoff,
};
use crate::{
    assembly::Registry,
    contract::{
        BoxFuture, Entropy, ModelContext, ModelError, ModelHandle, ModelHost, NextModel, Slot,
        Telling,
    },
    run::{Asked, Carried, Manner, ModelAnswer, ModelCall, ModelEnd},
    vocabulary::{
        ErrorKind, ModelRequest, ModelResponse, OperationError, OperationId, Preview, Retry, RunId,
    },
};

/// The settings of a model's gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// How many calls run at once. When more wait, the trees of runs take turns, call by call.
    pub concurrency: usize,
    /// How many attempts a call has.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles with each further one, with jitter.
    pub base_pause: Duration,
    /// The longest pause where the server does not say how long.
    pub max_pause: Duration,
    /// The longest pause that a server may ask for. A call whose server asks for more fails at once
    /// and carries the pause that was asked for ([`OperationError::retry_after_ms`]), unless
    /// `patience` covers it.
    pub max_retry_after: Duration,
    /// How long a call is tried again past its attempts while its provider is down, so that its run
    /// waits, over restarts too. With zero, the default, the run gets the error, which is marked as retryable.
    ///
    /// Before a pause that is not shorter than [`SystemOptions::linger`](super::SystemOptions::linger) the run falls
    /// asleep. It does not count as a live run then, and the end of the pause wakes it.
    pub patience: Duration,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            concurrency: 256,
            attempts: 4,
            base_pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(60),
            max_retry_after: Duration::from_secs(120),
            patience: Duration::ZERO,
        }
    }
}

setters!(GatewayOptions {
    concurrency: usize,
    attempts: u32,
    base_pause: Duration,
    max_pause: Duration,
    max_retry_after: Duration,
    patience: Duration,
});

/// The way to one model: how many calls run at once, and how often each is tried. A call belongs to
/// its operation: a restarted run finds it again with the keeper of [`calls`](Self::calls), the
/// actor `model NAME`.
pub(crate) struct ModelGateway {
    pub(crate) calls: Arc<CallTable<ModelAnswer>>,
    model: ModelHandle,
    options: GatewayOptions,
    linger: Duration,
    slots: FairSlots,
    entropy: Arc<dyn Entropy>,
    previews: Previewer,
}

/// How many untaken answers are kept for runs that come back.
pub(crate) const KEPT_ANSWERS: usize = 256;

/// The ways to all models of a System. A model that several teams name has one way, and so one
/// bound for all of them.
pub(crate) struct Gateways {
    options: GatewayOptions,
    /// The shortest pause for which a run falls asleep.
    linger: Duration,
    entropy: Arc<dyn Entropy>,
    previews: Previewer,
    by_model: HashMap<usize, Arc<ModelGateway>>,
    /// Each gateway once, under the first name that was found for it.
    pub(crate) named: BTreeMap<String, Arc<ModelGateway>>,
}

impl Gateways {
    pub(crate) fn new(
        (options, linger): (GatewayOptions, Duration),
        entropy: Arc<dyn Entropy>,
        previews: Previewer,
    ) -> Self {
        Self {
            options,
            linger,
            entropy,
            previews,
            by_model: HashMap::new(),
            named: BTreeMap::new(),
        }
    }

    /// Adds the ways to a registry's models, unless they are there. Returns the new gateways, each
    /// with a name that no other has: it begins with `place`.
    pub(crate) fn add(
        &mut self,
        place: &str,
        registry: &Registry,
    ) -> Vec<(String, Arc<ModelGateway>)> {
        let mut added = Vec::new();
        for (name, model) in registry.models_by_place() {
            let Entry::Vacant(vacant) = self.by_model.entry(model.address()) else {
                continue;
            };
            let gateway = Arc::new(ModelGateway {
                calls: Arc::default(),
                model: model.clone(),
                options: self.options,
                linger: self.linger,
                slots: FairSlots::new(self.options.concurrency),
                entropy: self.entropy.clone(),
                previews: self.previews.clone(),
            });
            vacant.insert(gateway.clone());
            let mut name = format!("{place}{name}");
            if self.named.contains_key(&name) {
                // The model was defined anew under its name.
                name = format!("{name} {}", self.named.len());
            }
            self.named.insert(name.clone(), gateway.clone());
            added.push((name, gateway));
        }
        added
    }

    pub(crate) fn to(&self, model: &ModelHandle) -> Option<Arc<ModelGateway>> {
        self.by_model.get(&model.address()).cloned()
    }
}

impl ModelGateway {
    /// Begins the work that the model does beside its calls.
    pub(crate) async fn attend(&self, host: &ModelHost) {
        self.model.attend(host).await;
    }

    pub(crate) fn slots(&self) -> SlotCounts {
        self.slots.counts()
    }

    /// Makes a call on which this was spent before, or joins it if it is under way.
    pub(crate) fn carry(
        self: Arc<Self>,
        call: Arc<ModelCall>,
        before: Option<Retry>,
    ) -> Carried<ModelAnswer> {
        let manner = Manner {
            key: (call.run, call.operation),
            asked: Asked::Model(call.digest.clone()),
            unwanted: call.cancelled.clone(),
            settles: false,
        };
        let calls = self.calls.clone();
        let before = before.unwrap_or_else(|| Retry::new(self.previews.clock.forward()));
        let answer = self.answer(call, before).boxed();
        if !calls.is_away() {
            return calls.carry(manner, answer);
        }
        Carried::alone(Box::pin(async move {
            match calls.join(&manner).await {
                Some(answer) if !is_outdone(&answer.end, &before) => answer,
                _ => calls.carry(manner, answer).await,
            }
        }))
    }

    async fn answer(self: Arc<Self>, call: Arc<ModelCall>, before: Retry) -> ModelAnswer {
        let telling = Telling::default();
        let mut answering = Answering {
            previews: &self.previews,
            call: (call.run, call.operation),
            has_ended: false,
        };
        let end = tokio::select! {
            biased;
            end = self.tried(&call, &telling, before) => end,
            // Interceptors are called again when the call goes on.
            () = call.attempts.suspended() => {
                answering.has_ended = true;
                return ModelEnd::Suspended.into();
            }
        };
        answering.has_ended = true;
        drop(answering);
        ModelAnswer {
            told: telling.into_emissions(),
            ..end.into()
        }
    }

    async fn tried(&self, call: &Arc<ModelCall>, telling: &Telling, mut spent: Retry) -> ModelEnd {
        let (clock, attempts) = (&self.previews.clock, &call.attempts);
        loop {
            let outcome = self.intercepted(call, telling).await;
            let took = clock.forward().since(spent.since);
            let attempt = attempts.begun();
            (spent.attempts, spent.answers) = (attempt, attempts.taken());
            let error = match outcome {
                Ok(mut response) => {
                    response.attempts = attempt;
                    response.usage += attempts.lost();
                    response.latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                    return ModelEnd::Over(response);
                }
                Err(error) => error,
            };
            spent.tries += 1;
            spent.usage = call.loses(error.usage);
            let patience = self.options.patience.saturating_sub(took);
            let over = error.exhausted || spent.tries >= self.options.attempts;
            let longest = self.options.max_retry_after.max(patience);
            let is_asked_too_much = error.retry_after.is_some_and(|asked| asked > longest);
            if !error.retryable || is_asked_too_much || (over && patience.is_zero()) {
                let longest = is_asked_too_much.then_some(longest);
                return ModelEnd::Failed(give_up(error, attempt, longest), spent.usage);
            }
            let pause = self.pause(&error, spent.tries);
            let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            let operation = call.operation;
            tracing::debug!(run = %call.run, %operation, attempt, pause_ms, "model call fails");
            let error = error.message.clone();
            let retry = Preview::ModelRetry {
                operation,
                attempt,
                error,
                pause_ms,
            };
            self.previews.show(call.run, retry);
            if pause >= self.linger {
                spent.at = clock.forward().after(pause);
                return ModelEnd::Paused(Box::new(spent));
            }
            clock.sleep(pause).await;
        }
    }

    /// One try, through the interceptors: none, one or several real attempts.
    async fn intercepted(
        &self,
        call: &Arc<ModelCall>,
        telling: &Telling,
    ) -> Result<ModelResponse, ModelError> {
        let chain = &call.code.chain;
        let asked = || {
            let (of, cancelled) = ((call.run, call.operation), call.cancelled.clone());
            let cx = ModelContext::of_call(of, call.clone(), cancelled)
                .with_origin(call.origin.clone())
                .previews(call.previews.clone());
            (call.request.clone(), cx)
        };
        if chain.is_empty() {
            return self.attempt(call, asked).await;
        }
        let real = |request, cx| -> BoxFuture<'_, _> {
            Box::pin(self.attempt(call, move || (request, cx)))
        };
        let (callee, clock) = (self.model.callee(), &self.previews.clock);
        let next = NextModel::new(chain, &real, &callee, clock, &self.entropy).telling(telling);
        let (request, cx) = asked();
        // Few models have interceptors, and the calls of the others keep no room for them.
        Box::pin(AssertUnwindSafe(next.respond(request, cx)).catch_unwind())
            .await
            .unwrap_or_else(|_| {
                let model = &call.request.model;
                let message = format!("an interceptor of the model {model:?} panicked");
                Err(ModelError::new(ErrorKind::Panicked, message))
            })
    }

    /// One real attempt. It holds a slot, which is free while the call pauses.
    async fn attempt(
        &self,
        call: &Arc<ModelCall>,
        asked: impl FnOnce() -> (ModelRequest, ModelContext),
    ) -> Result<ModelResponse, ModelError> {
        let permit = self.slots.acquire(call.root).await;
        let slot: Arc<dyn Slot> = Arc::new(Mutex::new(Some(permit)));
        let answer = {
            let (request, cx) = asked();
            let cx = cx.beginning(call.clone()).in_slot(&slot);
            let (operation, attempt) = (cx.operation(), cx.attempt());
            let started = || Preview::ModelStarted {
                operation,
                attempt,
                model: request.model.to_string(),
            };
            match request.stream {
                true => self.previews.show(cx.run(), started()),
                false => self.previews.preview(cx.run(), started),
            }
            self.model.respond(request, cx)
        };
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        let mut answer = answer.unwrap_or_else(|_| {
            let model = &call.request.model;
            let message = format!("the model {model:?} panicked");
            Err(ModelError::new(ErrorKind::Panicked, message))
        });
        match &mut answer {
            Ok(response) if response.message.tool_calls().nth(1).is_some() => {
                Arc::make_mut(&mut response.message).drop_repeated_calls();
            }
            Ok(_) => {}
            // Taken: an interceptor may silently try again after this failure.
            Err(error) => {
                call.loses(std::mem::take(&mut error.usage));
            }
        }
        answer
    }

    /// The pause that the server asks for and up to a quarter of it, or half to all of an exponential pause, at random:
    /// those whom a server sends away together do not come back together.
    fn pause(&self, error: &ModelError, attempt: u32) -> Duration {
        let pauses = Backoff {
            jitter: 0.5,
            ..Backoff::exponential(self.options.base_pause, self.options.max_pause)
        };
        let random = self.entropy.fraction();
        match error.retry_after {
            Some(asked) => asked + (asked / 4).max(self.options.base_pause).mul_f64(random),
            None => pauses.delay(attempt, 1.0 - random),
        }
    }
}

impl Slot for Mutex<Option<Permit>> {
    fn free(&self) {
        drop(self.lock().take());
    }
}

/// A call whose answer is awaited. When it is dropped before its end, what its model said is kept: it is the partial
/// answer of a run that is cancelled.
struct Answering<'p> {
    previews: &'p Previewer,
    call: (RunId, OperationId),
    has_ended: bool,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let (run, operation) = self.call;
        match self.has_ended {
            true => self.previews.observers.said(run, operation),
            false => self.previews.observers.answer_dropped(run, operation),
        }
    }
}

/// Whether the call waited again after this end: another process carried the run meanwhile.
fn is_outdone(end: &ModelEnd, before: &Retry) -> bool {
    matches!(end, ModelEnd::Paused(wait) if wait.tries <= before.tries)
}

/// The failure of a call after this many attempts. `longest` is the bound on the server's pauses,
/// where the server asked for a longer one.
fn give_up(error: ModelError, attempts: u32, longest: Option<Duration>) -> OperationError {
    let (retryable, asked) = (error.retryable, error.retry_after);
    let mut error = OperationError::from(error);
    if retryable && attempts > 1 {
        error.message = format!("{} (after {attempts} attempts)", error.message);
    }
    if let (Some(asked), Some(longest)) = (asked, longest) {
        let (asked, longest) = (asked.as_secs(), longest.as_secs());
        error.message = format!(
            "{}; it asks to be left alone for {asked} s, and a call waits {longest} s at most \
             (GatewayOptions::max_retry_after): try again later or use another model",
            error.message
        );
    }
    error
}
