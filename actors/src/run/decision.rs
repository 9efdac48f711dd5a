//! Decisions of people about calls.

use ghostlight_safety::deciding;
use serde_json::Value;

use crate::vocabulary::{Arguments, ToolCall, ToolResult, ToolStatus};

/// How many characters of a reason the model reads.
const REASON: usize = 500;
/// The beginning of the result of a call that a person refused.
pub(super) const PERSON: &str = "A person refused this call";
/// The answer to a question for approval.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether it may be done.
    pub approved: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Other arguments than those that the model wrote.
    pub arguments: Option<Value>,
    /// A value that takes the place of the call's result. The call is not made then.
    pub value: Option<Value>,
    /// Whether the decision holds for the session: `true` for exactly these arguments, an object of
    /// patterns for all arguments that fit them.
    pub remember: Option<Value>,
    /// The person or rule that decided.
    pub by: Option<String>,
    /// The digest of the call that the decision is for, if given. The decision has no effect on
    /// another call.
    pub digest: Option<String>,
}

impl Decision {
    /// A refusal for this reason.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Checks that the decision is for this call.
    ///
    /// # Errors
    /// Why the decision is not for this call, in words for a person.
    pub(crate) fn is_for(&self, call: &ToolCall) -> Result<(), String> {
        match &self.digest {
            Some(digest) if *digest != call.digest().to_string() => Err(format!(
                "the decision is for another call of {}, with the digest {}",
                call.name,
                ghostlight_safety::printable_line(digest, 64)
            )),
            _ => Ok(()),
        }
    }

    /// The arguments that the person meant, who edited them: each token stands for the secret in whose place the person saw
    /// it. `None` where the call is made as it is.
    pub(crate) fn meant(&self, call: &ToolCall, reveal: &[String]) -> Option<Arguments> {
        let edited = self.arguments.as_ref()?;
        let original = call.arguments.value().cloned().unwrap_or_default();
        Some(deciding::show(&original, reveal).meant(edited).into())
    }

    /// The result of a call that was refused, as the model reads it.
    pub fn refusal(&self, call: &ToolCall) -> ToolResult {
        denied(call, PERSON, self.reason.as_deref())
    }
}

impl From<Value> for Decision {
    /// Reads `true`, `false`, or an object with `approved` and the fields of this type. Anything
    /// else is a refusal.
    fn from(mut answer: Value) -> Self {
        let approved = answer
            .as_bool()
            .or_else(|| answer.get("approved")?.as_bool());
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let (reason, by, digest) = (text("reason"), text("by"), text("digest"));
        let mut take = |name: &str| {
            let value = answer.get_mut(name).map(Value::take);
            value.filter(|value| !value.is_null())
        };
        Self {
            approved: approved.unwrap_or(false),
            reason,
            by,
            digest,
            arguments: take("arguments").filter(Value::is_object),
            value: take("value"),
            remember: take("remember"),
        }
    }
}

/// The result of a call that was refused, as the model reads it.
pub(super) fn denied(call: &ToolCall, who: &str, reason: Option<&str>) -> ToolResult {
    let reason = reason.map(|reason| ghostlight_safety::sanitize_line(reason, REASON));
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let text = format!("{who}{reason}. Do not repeat it.");
    ToolResult::new(call, ToolStatus::Denied, text)
}
