//! The wrappers around the models and tools of a simulated System: delays, faults, and a witness.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use super::{
    store::SimulatedStore,
    world::{Begin, World},
};
use crate::{
    contract::{
        Model, ModelContext, ModelError, ModelHandle, Reconciled, Tool, ToolContext, ToolError,
        ToolHandle, ToolOutput,
    },
    testing::check_transcript,
    vocabulary::{
        Arguments, Delta, ErrorKind, ModelRequest, ModelResponse, ToolCall, ToolDefinition,
    },
};

/// The longest extra delay of a call, in milliseconds.
const DELAY_MS: u64 = 120;
/// The delay of a slow call, in milliseconds.
const SLOW_MS: u64 = 1_500;

/// One process, as its own code sees it.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) world: Arc<World>,
    pub(super) store: SimulatedStore,
    pub(super) process: u32,
    pub(super) faulty: bool,
}

impl Place {
    /// Whether a fault with this share strikes here, and which of its kinds.
    fn struck(&self, share: f64, sorts: u64) -> Option<u64> {
        let struck = self.faulty && self.world.chance.happens(share);
        struck.then(|| self.world.chance.below(sorts))
    }

    async fn slowly(&self) {
        tokio::time::sleep(self.world.chance.millis(SLOW_MS)).await;
        self.store.runs().await;
    }

    /// Panics without a message, because the panic is planned.
    fn panics(&self, what: &'static str) -> ! {
        self.world.strike(what);
        resume_unwind(Box::new(what))
    }
}

pub(super) struct SimulatedModel {
    pub(super) inner: ModelHandle,
    pub(super) place: Place,
}

impl Model for SimulatedModel {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let Place { world, store, .. } = &self.place;
        store.runs().await;
        let call = (cx.run(), cx.operation());
        world.tell(format_args!("model asked by {}/{}", call.0, call.1));
        if let Err(breach) = check_transcript(&request.conversation.messages()) {
            let (run, op) = call;
            world.violate(format!(
                "{run}/{op} asks a model what no provider takes: {breach}"
            ));
        }
        world.pause(DELAY_MS).await;
        store.runs().await;
        let fails = |fault, kind, message: &str| {
            world.strike(fault);
            ModelError::new(kind, message)
        };
        match self.place.struck(world.faults.models, 7) {
            Some(0) => {
                let pause = world.chance.millis(900);
                let error = fails("model: 429", ErrorKind::RateLimited, "slow down");
                return Err(error.retryable().status(429).retry_after(pause));
            }
            Some(1) => {
                let error = fails("model: 500", ErrorKind::Model, "internal server error");
                return Err(error.retryable().status(500));
            }
            Some(2) => {
                self.place.slowly().await;
                let error = fails("model: timeout", ErrorKind::Timeout, "no answer in time");
                return Err(error.retryable());
            }
            Some(3) => {
                cx.delta(Delta::Text("half of an ans".to_owned()));
                let error = fails("model: cut off", ErrorKind::Model, "the stream was cut off");
                return Err(error.retryable());
            }
            Some(4) => {
                let error = fails("model: malformed", ErrorKind::Malformed, "no JSON: {\"cho");
                return Err(error);
            }
            Some(5) => self.place.panics("model: panic"),
            Some(_) => self.place.slowly().await,
            None => {}
        }
        let response = self.inner.respond(request, cx).await?;
        world.pause(DELAY_MS).await;
        store.runs().await;
        let said = serde_json::to_string(&response.message).unwrap_or_default();
        world.ledger.lock().said.entry(call).or_default().push(said);
        Ok(response)
    }

    fn description(&self) -> String {
        self.inner.description()
    }
}

pub(super) struct SimulatedTool {
    pub(super) inner: ToolHandle,
    pub(super) place: Place,
}

impl SimulatedTool {
    /// Notes the tool's output and returns it.
    fn gives(&self, cx: &ToolContext, output: &ToolOutput) {
        if !output.later {
            let call = (cx.run(), cx.operation());
            let mut ledger = self.place.world.ledger.lock();
            ledger
                .given
                .entry(call)
                .or_default()
                .push(output.text.clone());
        }
    }
}

impl Tool for SimulatedTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::clone(self.inner.definition())
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Place { world, store, .. } = &self.place;
        store.runs().await;
        let definition = self.inner.definition();
        let begin = Begin {
            process: self.place.process,
            call: (cx.run(), cx.operation()),
            name: definition.name.clone(),
            effect: definition.effect,
        };
        world.begins(begin, store.is_fenced());
        world.pause(DELAY_MS).await;
        store.runs().await;
        let fault = self.place.struck(world.faults.tools, 7);
        match fault {
            Some(0) => self.place.panics("tool: panic before its effect"),
            Some(1) => {
                world.strike("tool: hangs");
                tokio::time::sleep(Duration::from_secs(3_600)).await;
            }
            Some(2) => {
                world.strike("tool: fails");
                return Err(ToolError::new("a fault of the simulation"));
            }
            Some(3 | 4) => self.place.slowly().await,
            _ => {}
        }
        let output = self.inner.call(arguments, cx.clone()).await?;
        store.runs().await;
        world.pause(DELAY_MS).await;
        store.runs().await;
        match fault {
            Some(5) => self.place.panics("tool: panic after its effect"),
            Some(6) => {
                world.strike("tool: answer lost");
                return Err(ToolError::in_doubt("the connection was lost"));
            }
            _ => {}
        }
        self.gives(&cx, &output);
        Ok(output)
    }

    async fn reconcile(&self, call: &ToolCall, cx: ToolContext) -> Reconciled {
        self.place.store.runs().await;
        self.place.world.pause(DELAY_MS).await;
        let answer = self.inner.reconcile(call, cx.clone()).await;
        if let Reconciled::Happened(output) = &answer {
            self.gives(&cx, output);
        }
        answer
    }
}
