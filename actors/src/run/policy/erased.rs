//! Policies of any type behind one.

use serde_json::Value;

use stackfuture::StackFuture;

use super::{BeforeTool, Policy, PolicyContext, Verdict};
use crate::vocabulary::{
    AgentError, ModelRequest, ModelResponse, OperationError, Outcome, ToolCall, ToolResult,
};

/// How many bytes a hook's future has a place for; a bigger one is boxed. Hooks that are left as
/// they are, and most that wait for nothing, fit, so that a policy which looks on allocates nothing.
const PLACE: usize = 256;

pub(super) type Hook<'a, T> = StackFuture<'a, Result<T, AgentError>, PLACE>;

/// Declares each hook once: its erased form, and that it is the policy's own.
macro_rules! erased {
    ($($hook:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        /// A [`Policy`] whose futures have one type.
        pub(super) trait ErasedPolicy: Send {
            $(fn $hook<'a>(&'a mut self, cx: &'a PolicyContext<'a>, $($argument: $type),*) -> Hook<'a, $output>;)*
            fn wants_reflection(&self) -> bool;
        }

        impl<P: Policy> ErasedPolicy for P {
            $(fn $hook<'a>(&'a mut self, cx: &'a PolicyContext<'a>, $($argument: $type),*) -> Hook<'a, $output> {
                StackFuture::from_or_box(Policy::$hook(self, cx, $($argument),*))
            })*

            fn wants_reflection(&self) -> bool {
                Policy::wants_reflection(self)
            }
        }
    };
}

erased! {
    before_run() -> Option<Outcome>;
    after_run(outcome: &'a Outcome) -> Option<Outcome>;
    before_model(request: &'a mut ModelRequest) -> Option<ModelResponse>;
    after_model(response: &'a ModelResponse) -> Option<ModelResponse>;
    on_model_error(error: &'a OperationError) -> Option<ModelResponse>;
    before_tool(call: &'a ToolCall) -> BeforeTool;
    answered(call: &'a ToolCall, answer: Value) -> BeforeTool;
    after_tool(call: &'a ToolCall, result: &'a ToolResult) -> Option<ToolResult>;
    after_tools(calls: &'a [ToolCall], results: &'a [ToolResult]) -> ();
    reflected(text: &'a str) -> String;
    before_answer(draft: &'a str) -> Verdict;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_is_left_as_it_is_allocates_nothing() {
        type Left<T> = std::future::Ready<Result<T, AgentError>>;
        let sizes = [
            size_of::<Left<Option<Outcome>>>(),
            size_of::<Left<Option<ModelResponse>>>(),
            size_of::<Left<BeforeTool>>(),
            size_of::<Left<Option<ToolResult>>>(),
            size_of::<Left<Verdict>>(),
        ];
        assert!(sizes.into_iter().all(|size| size <= PLACE), "{sizes:?}");
    }
}
