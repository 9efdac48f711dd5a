//! Words for ends and errors: few of them, whatever happened.

use ghostlight_actors::vocabulary::{AgentError, ErrorKind, RunEnd, StopReason, ToolStatus};
use serde::Serialize;
use serde_json::Value;

use crate::conventions::OTHER;

/// The name of a variant, without what is in it.
pub(crate) fn word(variant: &impl Serialize) -> String {
    let word = match serde_json::to_value(variant) {
        Ok(Value::String(word)) => Some(word),
        Ok(Value::Object(fields)) => fields.into_iter().next().map(|(name, _)| name),
        _ => None,
    };
    word.unwrap_or_else(|| OTHER.to_owned())
}

pub(crate) fn of_error(error: &AgentError) -> String {
    match error {
        AgentError::Operation(error) => of_kind(&error.kind),
        other => word(other),
    }
}

pub(crate) fn of_kind(kind: &ErrorKind) -> String {
    word(kind)
}

/// How a run ended, and the kind of its error if that is not as it should be.
pub(crate) fn of_end(end: &RunEnd) -> (&'static str, Option<String>) {
    match end {
        RunEnd::Answered { .. } => ("answered", None),
        RunEnd::Continued { .. } => ("continued", None),
        RunEnd::Failed { error, .. } => ("failed", Some(of_error(error))),
        RunEnd::Stopped { reason, .. } => match reason {
            StopReason::Cancelled(_) => ("cancelled", Some(word(reason))),
            _ => ("stopped", Some(word(reason))),
        },
        _ => (OTHER, None),
    }
}

/// The kind of a tool call's error; `None` for one that did what was asked.
pub(crate) fn of_status(status: ToolStatus) -> Option<String> {
    (status != ToolStatus::Success).then(|| word(&status))
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::vocabulary::{OperationError, Resource, Spent};

    use super::*;

    #[test]
    fn an_error_is_one_of_few_words_whatever_it_says() {
        let error = |kind| OperationError::new(kind, "sk-1234 is not a key").into();
        assert_eq!(
            of_error(&error(ErrorKind::Authentication)),
            "authentication"
        );
        assert_eq!(
            of_error(&error(ErrorKind::Budget(Resource::ToolCalls))),
            "budget"
        );
        assert_eq!(of_error(&AgentError::failed("anything")), "failed");
        let reason = StopReason::Cancelled("by ada".to_owned());
        let stopped = RunEnd::Stopped {
            reason,
            partial: None,
            spent: Spent::default(),
        };
        assert_eq!(
            of_end(&stopped),
            ("cancelled", Some("cancelled".to_owned()))
        );
    }
}
