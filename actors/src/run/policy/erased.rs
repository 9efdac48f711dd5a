//! Policies of any type behind one type.

use std::sync::Arc;

use serde_json::Value;
use tracing::{
    Span,
    instrument::{Instrument as _, Instrumented},
};

use super::{BeforeTool, GoalEnd, Policy, PolicyContext, Verdict};
use crate::{
    contract::BoxFuture,
    vocabulary::{
        AgentError, ModelRequest, ModelResponse, OperationError, Outcome, ToolCall, ToolResult,
    },
};

/// A hook that is under way, in a span of its own. A subscriber sees when the hook began and how long it took; the journal
/// holds no times of hooks, since they are run again in replay.
pub(super) type Hook<'a, T> = Instrumented<BoxFuture<'a, Result<T, AgentError>>>;

/// The span of one hook of one policy, at the level `debug`.
fn span(cx: &PolicyContext<'_>, hook: &'static str) -> Span {
    let (policy, run, agent) = (cx.name(), cx.run(), &*cx.agent().name);
    tracing::debug_span!(target: "ghostlight_actors::hooks", "hook", policy, hook, %run, agent)
}

/// Declares each hook once: its erased form, and that it is the policy's own.
macro_rules! erased {
    ($($hook:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        /// A [`Policy`] whose futures are boxed.
        pub(super) trait ErasedPolicy: Send {
            $(fn $hook<'a>(&'a mut self, cx: &'a PolicyContext<'a>, $($argument: $type),*) -> Hook<'a, $output>;)*
            fn wants_reflection(&self) -> bool;
            fn is_inherited(&self) -> bool;
            fn tools(&self) -> Vec<String>;
        }

        impl<P: Policy> ErasedPolicy for P {
            $(fn $hook<'a>(&'a mut self, cx: &'a PolicyContext<'a>, $($argument: $type),*) -> Hook<'a, $output> {
                let hook: BoxFuture<'a, _> = Box::pin(Policy::$hook(self, cx, $($argument),*));
                hook.instrument(span(cx, stringify!($hook)))
            })*

            fn wants_reflection(&self) -> bool {
                Policy::wants_reflection(self)
            }

            fn is_inherited(&self) -> bool {
                Policy::is_inherited(self)
            }

            fn tools(&self) -> Vec<String> {
                Policy::tools(self)
            }
        }
    };
}

erased! {
    before_run() -> Option<Outcome>;
    after_run(outcome: &'a Outcome) -> Option<Outcome>;
    after_failure(error: &'a AgentError) -> ();
    before_model(request: &'a mut ModelRequest) -> Option<ModelResponse>;
    before_sending(request: &'a mut ModelRequest) -> ();
    after_model(response: &'a ModelResponse) -> Option<ModelResponse>;
    on_model_error(error: &'a OperationError) -> Option<ModelResponse>;
    before_tool(call: &'a ToolCall) -> BeforeTool;
    answered(call: &'a ToolCall, answer: Value) -> BeforeTool;
    after_tool(call: &'a ToolCall, result: &'a ToolResult) -> Option<ToolResult>;
    after_tools(calls: &'a [ToolCall], results: &'a [ToolResult]) -> ();
    reflected(text: &'a str) -> String;
    before_goal(goal: &'a str) -> Option<String>;
    after_goal(ended: &'a GoalEnd) -> ();
    before_answer(draft: &'a str) -> Verdict;
}

/// Makes a policy afresh for each leg of a run. Cloning shares it.
#[derive(Clone)]
pub struct PolicyHandle(Arc<dyn Fn() -> Box<dyn ErasedPolicy> + Send + Sync>);

impl PolicyHandle {
    /// Keeps how a policy is made.
    pub fn new<P: Policy>(make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    pub(super) fn make(&self) -> Box<dyn ErasedPolicy> {
        (self.0)()
    }

    /// Whether the policy also watches over agents that the agent makes.
    pub(crate) fn is_inherited(&self) -> bool {
        self.make().is_inherited()
    }

    /// The names of the tools that the policy offers and answers itself.
    pub(crate) fn tools(&self) -> Vec<String> {
        self.make().tools()
    }
}

opaque!(PolicyHandle);
