//! Asking before a tool is called.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{Ask, CallTool, Decision, authentication::CallAuthenticated, toolset::as_result};
use crate::{
    definition::{ApprovalRule, OnExpiry},
    run::{OperationContext, RunContext, answers},
    safety::{self, Redaction},
    vocabulary::{
        AgentError, Arguments, ErrorKind, Question, ToolCall, ToolDefinition, ToolResult,
        ToolStatus,
    },
};

/// How often a person is asked about one call, when what they made of its arguments does not fit.
const ASKED: u32 = 3;
/// How often a credential is asked for that was lost with its process before it was used.
const AUTHENTICATED: u32 = 5;
/// How many characters of a reason the model reads.
const REASON: usize = 500;
/// How the result of a call begins that a person refused.
pub(super) const PERSON: &str = "A person refused this call";

/// What became of the question whether a call may be made.
enum Verdict {
    /// It may, with these arguments.
    Approved(Arguments),
    /// A person gave this in the place of its result.
    Supplied(Value),
    /// It may not.
    Denied(Option<String>),
}

impl RunContext {
    /// Asks what must be asked, and then makes the call. Its context is a branch of its own, so
    /// that how often was asked moves the operations of nobody else.
    pub(super) async fn ask_then_call(
        self,
        rule: Option<ApprovalRule>,
        call: ToolCall,
        definition: Arc<ToolDefinition>,
    ) -> Result<ToolResult, AgentError> {
        // Nobody is asked to approve what cannot be read, and it is not run.
        if let Err(fault) = fits(&definition, &call.arguments) {
            let text = format!("{fault} Send the call again.");
            return Ok(ToolResult::new(&call, ToolStatus::Error, text));
        }
        let mut approved = call.clone();
        if let Some(rule) = rule {
            match self.verdict(&rule, &call, &definition).await {
                Ok(Verdict::Approved(arguments)) => approved.arguments = arguments,
                Ok(Verdict::Supplied(value)) => {
                    let text = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    let text = safety::sanitize(&text).into_owned();
                    return Ok(ToolResult::new(&call, ToolStatus::Success, text));
                }
                Ok(Verdict::Denied(reason)) => {
                    let who = match rule.by {
                        Some(_) => "This call was refused",
                        None => PERSON,
                    };
                    return Ok(denied(&call, who, reason.as_deref()));
                }
                Err(error) => return as_result(&call, Err(error)),
            }
        }
        let Some(prompt) = definition.authentication.clone() else {
            let call_tool = CallTool {
                call: approved,
                definition,
            };
            return as_result(&call, self.perform(call_tool).await);
        };
        for _ in 0..AUTHENTICATED {
            let question = Question::authentication(&prompt, shown(&approved, &[]));
            let ask = self.perform(Ask::about(question, &approved, "authentication"));
            let asked = ask.id();
            match ask.await {
                Ok(answer) if answer.get("given").is_some() => {}
                Ok(_) => return Ok(denied(&call, PERSON, Some("no credential was given"))),
                Err(error) => return as_result(&call, Err(error)),
            }
            let (call, definition) = (approved.clone(), definition.clone());
            let call_tool = CallTool { call, definition };
            match self.perform(CallAuthenticated::new(call_tool, asked)).await {
                // It was lost with the process that had it: it is asked for again.
                Err(AgentError::Operation(error))
                    if error.kind == ErrorKind::Authentication && error.retryable => {}
                end => return as_result(&approved, end),
            }
        }
        Ok(denied(
            &call,
            "This call was not made",
            Some("the credential was lost again and again"),
        ))
    }

    async fn verdict(
        &self,
        rule: &ApprovalRule,
        call: &ToolCall,
        definition: &ToolDefinition,
    ) -> Result<Verdict, AgentError> {
        if rule.remember
            && let Some(decision) = self.remembered(call).await?
        {
            return Ok(read(decision, call, definition).unwrap_or_else(Verdict::Denied));
        }
        if let Some(approver) = &rule.by {
            let decision = self.decided_by(approver, rule, call).await?;
            return Ok(read(decision, call, definition).unwrap_or_else(Verdict::Denied));
        }
        let mut fault: Option<String> = None;
        for time in 0..ASKED {
            let mut question = question(rule, call);
            if let Some(fault) = &fault {
                question.prompt = format!("{} ({fault})", question.prompt);
            }
            let mut ask = Ask::about(question, call, &format!("approval {time}"));
            if let Some(seconds) = rule.expires_s {
                let approved = rule.on_expiry == OnExpiry::Approve;
                let default = json!({ "approved": approved, "reason": "nobody answered in time" });
                ask = ask.expires_after(Duration::from_secs(seconds), default);
            }
            let decision = Decision::from(self.perform(ask).await?);
            let remember = decision.remember.clone().filter(|_| rule.remember);
            match read(decision.clone(), call, definition) {
                Ok(verdict) => {
                    // What was decided, and not what was asked; a value was for this call alone.
                    let decided = match &verdict {
                        Verdict::Approved(arguments) => Some(arguments),
                        Verdict::Denied(_) => Some(&call.arguments),
                        Verdict::Supplied(_) => None,
                    };
                    if let (Some(pattern), Some(arguments)) = (remember, decided) {
                        let arguments = arguments.value().cloned().unwrap_or_default();
                        self.remember(call, &arguments, &pattern, &decision).await?;
                    }
                    return Ok(verdict);
                }
                Err(reason) => fault = reason,
            }
        }
        Ok(Verdict::Denied(fault))
    }

    /// Asks a tool. Whatever is not plainly a yes is a no.
    async fn decided_by(
        &self,
        approver: &str,
        rule: &ApprovalRule,
        call: &ToolCall,
    ) -> Result<Decision, AgentError> {
        let pinned = &self.leg().pinned;
        let Some(definition) = pinned.tool(&self.spec().name, approver).cloned() else {
            return Ok(Decision::denied(format!(
                "there is no tool {approver:?} to decide it"
            )));
        };
        let question = question(rule, call);
        let asked = json!({
            "question": question.prompt,
            "tool": call.name,
            "arguments": question.call.as_ref().and_then(|call| call.arguments.value().ok()),
            "agent": self.spec().name,
            "run": self.run(),
            "call": call.id,
        });
        let call = ToolCall::new(call.id.clone(), approver, asked);
        let result = match self.perform(CallTool { call, definition }).await {
            Ok(result) => result,
            Err(error) => match error.kind() {
                None | Some(ErrorKind::Budget(_) | ErrorKind::Store) => return Err(error),
                Some(_) => return Ok(Decision::denied(format!("{approver} failed: {error}"))),
            },
        };
        if result.status != ToolStatus::Success {
            return Ok(Decision::denied(format!(
                "{approver} failed: {}",
                result.text
            )));
        }
        match serde_json::from_str::<Value>(&result.text) {
            Ok(answer) if answers(&question, &answer) => Ok(Decision::from(answer)),
            _ => Ok(Decision::denied(format!("{approver} gave no decision"))),
        }
    }
}

/// What a decision means for this call; the error says why it means nothing.
fn read(
    decision: Decision,
    call: &ToolCall,
    definition: &ToolDefinition,
) -> Result<Verdict, Option<String>> {
    if !decision.approved {
        return Ok(Verdict::Denied(decision.reason));
    }
    if let Some(value) = decision.value {
        return Ok(Verdict::Supplied(value));
    }
    let Some(edited) = decision.arguments else {
        return Ok(Verdict::Approved(call.arguments.clone()));
    };
    let original = call.arguments.value().cloned().unwrap_or_default();
    let arguments = Arguments::from(safety::restore(&edited, &original));
    match fits(definition, &arguments) {
        Ok(()) => Ok(Verdict::Approved(arguments)),
        Err(fault) => Err(Some(fault)),
    }
}

/// Whether arguments are JSON that fits the tool's schema, or why not.
pub(super) fn fits(definition: &ToolDefinition, arguments: &Arguments) -> Result<(), String> {
    let value = arguments
        .value()
        .map_err(|fault| format!("The arguments are not valid JSON ({fault})."))?;
    match misfit(&definition.parameters, value) {
        None => Ok(()),
        Some(fault) => Err(format!("The arguments do not fit the tool: {fault}.")),
    }
}

/// Where a value does not fit a schema, as a model and a person may read it.
pub(super) fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(fault) => return Some(format!("the schema is wrong: {fault}")),
    };
    let fault = validator.iter_errors(value).next()?;
    let fault = fault.to_string();
    Some(safety::sanitize_line(&safety::redact_text(&fault), REASON))
}

pub(super) fn denied(call: &ToolCall, who: &str, reason: Option<&str>) -> ToolResult {
    let reason = reason.map(|reason| safety::sanitize_line(reason, REASON));
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let text = format!("{who}{reason}. Do not repeat it.");
    ToolResult::new(call, ToolStatus::Denied, text)
}

/// The question whether a call may be made, as it may be shown.
fn question(rule: &ApprovalRule, call: &ToolCall) -> Question {
    let call = shown(call, &rule.reveal);
    let prompt = match &rule.prompt {
        Some(template) => fill_in(template, &call, &rule.reveal),
        None => format!("May {} be called?", call.name),
    };
    Question::approval(prompt, call)
}

/// A call with its arguments as they may be shown.
pub(super) fn shown(call: &ToolCall, reveal: &[String]) -> ToolCall {
    let arguments = call.arguments.value().cloned().unwrap_or_default();
    let redaction = Redaction::default().texts(safety::SHOWN);
    let arguments = redaction.revealing(&arguments, reveal);
    ToolCall::new(call.id.clone(), call.name.clone(), arguments)
}

/// A template with the call's arguments put in, in one pass: what stands in an argument is not
/// read as a template.
fn fill_in(template: &str, call: &ToolCall, reveal: &[String]) -> String {
    let arguments = call.arguments.value().cloned().unwrap_or_default();
    let arguments = Redaction::default().revealing(&arguments, reveal);
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        match arguments.get(name) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(value) => filled.push_str(&safety::sanitize_line(&value.to_string(), 160)),
            None if name == "tool" => filled.push_str(&call.name),
            None if is_name(name) => filled.push_str("(not given)"),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    filled + rest
}

/// Whether this may be an argument's name, rather than something else that stands in braces.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.chars().all(fits)
}

/// Who asks: the agents from the root's to the one whose function it is.
pub(super) fn asking(cx: &OperationContext) -> Vec<String> {
    let mut path = cx.start().path.clone();
    if let Some(last) = path.last_mut() {
        *last = cx.agent().spec.name.clone();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in_once_and_shows_no_secret() {
        let arguments = json!({
            "path": "{token}", "token": "abc", "n": 3, "to": "a\nb", "where": "/x",
            "file": "/etc/passwd",
        });
        let call = ToolCall::new("1", "wipe", arguments);
        let shown = shown(&call, &[]);
        let fill = |template| fill_in(template, &shown, &[]);
        assert_eq!(fill("Delete {path}?"), "Delete {token}?");
        assert_eq!(fill("{tool} {token} {n} {to}"), "wipe [redacted] 3 a b");
        assert_eq!(
            fill("{file} {missing} {\"a\": 1} {"),
            "[redacted-path] (not given) {\"a\": 1} {"
        );
        let rule = ApprovalRule::required().prompt("{file}").reveal("file");
        assert_eq!(question(&rule, &call).prompt, "/etc/passwd");
        let rule = ApprovalRule::required().prompt("{token}").reveal("token");
        assert_eq!(question(&rule, &call).prompt, "[redacted]");
    }
}
