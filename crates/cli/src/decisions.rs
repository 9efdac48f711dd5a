//! Decisions of policies and guards, in words.

use ghostlight::interceptors::{GUARDED, GuardAction, GuardDecision, GuardedPoint};
use serde_json::Value;

use super::timeline::Tone;

/// A decision in words; `None` for another event of the same name, whose data has a different form.
pub(super) fn in_words(name: &str, data: &Value) -> Option<(Tone, String)> {
    let text = |field: &str| data.get(field).and_then(Value::as_str);
    let policy = || text("policy").map(|policy| format!("the policy {policy}"));
    Some(match name {
        "answer_accepted" => (Tone::Quiet, format!("{} accepts the answer", policy()?)),
        "answer_flagged" => {
            let (policy, reason) = (policy()?, text("reason")?);
            (
                Tone::Alarm,
                format!("{policy} lets the answer pass, but: {reason}"),
            )
        }
        "answer_rejected" => {
            let schema = || String::from("the answer's schema");
            let (who, reason) = (policy().unwrap_or_else(schema), text("reason")?);
            (Tone::Alarm, format!("{who} rejects the answer: {reason}"))
        }
        "gave_up" => {
            let (rejections, reason) = (data.get("rejections")?.as_u64()?, text("reason")?);
            let answers = match rejections {
                1 => String::from("a rejected answer"),
                more => format!("{more} rejected answers"),
            };
            let text = format!("gives up after {answers} and gives the best, flagged: {reason}");
            (Tone::Alarm, text)
        }
        "call_held_back" => {
            let (policy, tool) = (policy()?, text("tool")?);
            let reason = text("reason")?;
            // A tool that a policy brings along is answered by it, also when it fails.
            let text = match text("status") {
                Some("error") => format!("{policy}: {tool} failed: {reason}"),
                _ => format!("{policy} holds {tool} back: {reason}"),
            };
            (Tone::Alarm, text)
        }
        "result_replaced" => {
            let (policy, tool) = (policy()?, text("tool")?);
            (
                Tone::Quiet,
                format!("{policy} gives another result for {tool}"),
            )
        }
        GUARDED => {
            let decision: GuardDecision = serde_json::from_value(data.clone()).ok()?;
            let what = match decision.at {
                GuardedPoint::Input => "the model's input",
                GuardedPoint::Output => "the model's answer",
                GuardedPoint::Arguments => "the call",
                GuardedPoint::Results => "the result",
                _ => "a text",
            };
            let (tone, did) = match decision.action {
                GuardAction::Refused => (Tone::Alarm, "refuses"),
                GuardAction::Changed => (Tone::Quiet, "changes"),
                GuardAction::Reported => (Tone::Quiet, "reports on"),
                _ => (Tone::Quiet, "decides about"),
            };
            let guard = match decision.guard.as_str() {
                "guard" => "a guard".to_owned(),
                kind => format!("the guard {kind}"),
            };
            let reason = decision.reason;
            let severity = decision.severity.map(|severity| {
                let severity = serde_json::to_value(severity).unwrap_or_default();
                format!(" ({})", severity.as_str().unwrap_or_default())
            });
            let severity = severity.unwrap_or_default();
            (tone, format!("{guard} {did} {what}{severity}: {reason}"))
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_decision_says_who_decided_what_and_why() {
        for (name, data, expected) in [
            (
                "answer_accepted",
                json!({"policy": "recovery"}),
                "the policy recovery accepts the answer",
            ),
            (
                "answer_flagged",
                json!({"policy": "recovery", "reason": "search stayed broken"}),
                "the policy recovery lets the answer pass, but: search stayed broken",
            ),
            (
                "answer_rejected",
                json!({"policy": "verification", "reason": "one source is not enough"}),
                "the policy verification rejects the answer: one source is not enough",
            ),
            (
                "answer_rejected",
                json!({"reason": "$.n: is not a number"}),
                "the answer's schema rejects the answer: $.n: is not a number",
            ),
            (
                "gave_up",
                json!({"rejections": 3, "reason": "too short"}),
                "gives up after 3 rejected answers and gives the best, flagged: too short",
            ),
            (
                "call_held_back",
                json!({"policy": "planning", "call": "1", "tool": "search", "status": "blocked", "reason": "reflect first"}),
                "the policy planning holds search back: reflect first",
            ),
            (
                "call_held_back",
                json!({"policy": "memory", "call": "1", "tool": "memory", "status": "error", "reason": "no such item"}),
                "the policy memory: memory failed: no such item",
            ),
            (
                "result_replaced",
                json!({"policy": "notes", "call": "1", "tool": "search"}),
                "the policy notes gives another result for search",
            ),
            (
                GUARDED,
                json!({"guard": "personal_data", "at": "output", "action": "changed", "reason": "1 email"}),
                "the guard personal_data changes the model's answer: 1 email",
            ),
            (
                GUARDED,
                json!({"guard": "guard", "at": "input", "action": "reported", "reason": "careful, rule 1: too long", "severity": "high"}),
                "a guard reports on the model's input (high): careful, rule 1: too long",
            ),
        ] {
            assert_eq!(in_words(name, &data).unwrap().1, expected);
        }
    }

    #[test]
    fn what_a_function_tells_under_the_same_name_is_no_decision() {
        for name in [
            "answer_accepted",
            "answer_rejected",
            "gave_up",
            "call_held_back",
            GUARDED,
            "other",
        ] {
            for data in [
                json!({}),
                json!("text"),
                json!({"policy": 3, "reason": [], "rejections": -1}),
            ] {
                assert_eq!(in_words(name, &data), None, "{name} {data}");
            }
        }
    }
}
