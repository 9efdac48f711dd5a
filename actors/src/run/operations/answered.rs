//! Results of calls, and who gave them.

use crate::{
    contract::BoxFuture,
    run::recorded_result::as_result,
    vocabulary::{AgentError, AnsweredBy, Approved, ToolCall, ToolResult, ToolStatus},
};

pub(super) type CallEnd = BoxFuture<'static, Result<Answered, AgentError>>;

/// The result of a call, and who gave it.
pub(super) struct Answered {
    pub(super) result: ToolResult,
    /// The source of the result. `None` if the entry of a tool's operation records that.
    pub(super) by: Option<(AnsweredBy, Option<Approved>)>,
}

impl Answered {
    /// A result from this source, without the operation of a tool.
    pub(super) fn by(by: AnsweredBy, result: ToolResult) -> Self {
        let by = Some((by, None));
        Self { result, by }
    }

    /// The result of the operation of a tool.
    pub(super) fn called(
        call: &ToolCall,
        end: Result<ToolResult, AgentError>,
    ) -> Result<Self, AgentError> {
        let by = end.is_err().then_some((AnsweredBy::Engine, None));
        as_result(call, end).map(|result| Self { result, by })
    }
}

/// The end of a call that is refused, in words for the model.
pub(super) fn refused(call: &ToolCall, reason: impl Into<String>) -> CallEnd {
    ready(ToolResult::new(call, ToolStatus::Error, reason))
}

pub(super) fn ready(result: ToolResult) -> CallEnd {
    Box::pin(async move { Ok(Answered::by(AnsweredBy::Engine, result)) })
}
