//! Approval of tool calls before they are made.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
};

use ghostlight_safety::deciding;
use serde_json::{Value, json};

use super::{CallTool, answered::Answered, ask::Ask, asking::about, fitting::is_readable};
use crate::{
    contract::ToolHandle,
    definition::{ApprovalRule, OnExpiry},
    run::{
        RunContext, answers,
        decision::{Decision, PERSON, denied},
    },
    vocabulary::{
        AgentError, AnsweredBy, ApprovalDecision, Approved, Arguments, ErrorKind, Question,
        ToolCall, ToolDefinition, ToolResult, ToolStatus, as_text,
    },
};

/// How often a person is asked about one call, if the arguments that the person gives do not fit.
const ASKED: u32 = 3;
/// How often a person is asked for a credential, if it is lost with its process before it is used.
const AUTHENTICATED: u32 = 5;
/// How many characters of an argument stand in a question's prompt. The call that the question
/// shows has all of them.
const IN_PROMPT: usize = 160;

/// The decision about a call.
enum CallVerdict {
    /// The call may be made with these arguments.
    Approved(Arguments, Approved),
    /// A person supplied this value as the result.
    Supplied(Value, Approved),
    /// The call may not be made, for this reason.
    Denied(Option<String>, Approved),
}

impl CallVerdict {
    fn denied(reason: Option<String>, by: Option<String>) -> Self {
        Self::Denied(reason, Approved::new(by, ApprovalDecision::Denied))
    }
}

/// The result of a call that this decision answered.
fn decided(rule: &ApprovalRule, approved: Approved, result: ToolResult) -> Answered {
    let by = match &rule.by {
        Some(tool) => AnsweredBy::Approver(tool.clone()),
        None => AnsweredBy::Person(approved.by.clone()),
    };
    let by = Some((by, Some(approved)));
    Answered { result, by }
}

/// How far a call has come for which somebody is asked first: it has its end, or it may be made. Time has passed then, so
/// the policies are asked again before it is made.
pub(super) type ApprovalProgress = ControlFlow<Result<Answered, AgentError>, Box<AllowedCall>>;

/// A call that may be made, since everybody who had to be asked has agreed.
pub(super) struct AllowedCall {
    cx: RunContext,
    /// The call as the model wrote it.
    call: ToolCall,
    making: CallTool,
    /// How often a person was asked for the credential.
    authenticated: u32,
}

impl AllowedCall {
    /// The call as it will be made.
    pub(super) fn call(&self) -> &ToolCall {
        &self.making.call
    }

    /// The decision that approved it.
    pub(super) fn approval(&self) -> Option<&Approved> {
        self.making.approval.as_ref()
    }

    /// Whether somebody outside was asked, so that time has passed since the policies decided.
    pub(super) fn has_waited(&self) -> bool {
        let is_remembered = |approved: &Approved| approved.decision == ApprovalDecision::Remembered;
        self.authenticated > 0 || !self.approval().is_none_or(is_remembered)
    }

    /// Makes the call. If its credential was lost with a process, the person is asked again.
    pub(super) async fn make(self) -> ApprovalProgress {
        let Self { cx, making, .. } = &self;
        if making.asked.is_none() {
            return Break(cx.carried(making.clone()).await);
        }
        match cx.perform(making.clone()).await {
            Err(AgentError::Operation(error))
                if error.kind == ErrorKind::Authentication && error.retryable =>
            {
                self.authenticate().await
            }
            end => {
                let again = CallTool {
                    asked: None,
                    ..making.clone()
                };
                Break(cx.carried_on(&again, end).await)
            }
        }
    }

    /// Asks for the credential of the call, where it needs one.
    async fn authenticate(mut self) -> ApprovalProgress {
        let Some(prompt) = &self.making.definition.authentication else {
            return Continue(Box::new(self));
        };
        let unauthenticated = |who: &str, by: AnsweredBy, reason: &str| {
            Break(Ok(Answered::by(by, denied(&self.call, who, Some(reason)))))
        };
        if self.authenticated == AUTHENTICATED {
            let reason = "the credential was lost again and again";
            return unauthenticated("This call was not made", AnsweredBy::Engine, reason);
        }
        let approved = &self.making.call;
        let question = Question::authentication(prompt, ToolCall::clone(approved));
        let question = about(question, approved, &[]);
        let ask = self
            .cx
            .perform(Ask::about(question, approved, "authentication").operation());
        self.making.asked = Some(ask.id());
        self.authenticated += 1;
        match ask.await {
            Ok(answer) if answer.get("given").is_some() => Continue(Box::new(self)),
            Ok(_) => {
                let reason = "no credential was given";
                unauthenticated(PERSON, AnsweredBy::Person(None), reason)
            }
            Err(error) => Break(Answered::called(&self.call, Err(error))),
        }
    }
}

impl RunContext {
    /// Asks for approval and for a credential, as the call needs them. The context is a lane of its own, so the
    /// number of questions does not move the operations of other lanes.
    pub(super) async fn ask_first(
        self,
        rule: Option<ApprovalRule>,
        call: ToolCall,
        definition: Arc<ToolDefinition>,
    ) -> ApprovalProgress {
        // A call that cannot be read is not run, and nobody is asked to approve it.
        let code = self.leg().code.tool_of(self.agent(), &call.name);
        let called = (&definition, code.as_ref().ok().map(|code| &code.tool));
        if let Err(fault) = is_readable(called, &call.arguments) {
            let text = format!("{fault} Send the call again.");
            let result = ToolResult::new(&call, ToolStatus::Error, text);
            return Break(Ok(Answered::by(AnsweredBy::Engine, result)));
        }
        let mut making = CallTool::new(call.clone(), definition.clone());
        if let Some(rule) = rule {
            match self.verdict(&rule, &call, called).await {
                Ok(CallVerdict::Approved(arguments, by)) => {
                    Arc::make_mut(&mut making.call).arguments = arguments;
                    making.approval = Some(by);
                }
                Ok(CallVerdict::Supplied(value, by)) => {
                    let text = ghostlight_safety::sanitize(&as_text(&value)).into_owned();
                    let result = ToolResult::new(&call, ToolStatus::Success, text);
                    return Break(Ok(decided(&rule, by, result)));
                }
                Ok(CallVerdict::Denied(reason, by)) => {
                    let who = match (&rule.denial, &rule.by) {
                        (Some(denial), _) => denial.as_str(),
                        (None, Some(_)) => "This call was refused",
                        (None, None) => PERSON,
                    };
                    let result = denied(&call, who, reason.as_deref());
                    return Break(Ok(decided(&rule, by, result)));
                }
                Err(error) => return Break(Answered::called(&call, Err(error))),
            }
        }
        let allowed = AllowedCall {
            cx: self,
            call,
            making,
            authenticated: 0,
        };
        allowed.authenticate().await
    }

    async fn verdict(
        &self,
        rule: &ApprovalRule,
        call: &ToolCall,
        called: (&Arc<ToolDefinition>, Option<&ToolHandle>),
    ) -> Result<CallVerdict, AgentError> {
        let (definition, _) = called;
        let final_verdict = |decision: Decision| {
            let by = decision.by.clone();
            let verdict = read(decision, rule, call, called);
            verdict.unwrap_or_else(|reason| CallVerdict::denied(reason, by))
        };
        if rule.remember
            && let Some(decision) = self.remembered(call, definition).await?
        {
            return Ok(match final_verdict(decision) {
                CallVerdict::Approved(arguments, by) => {
                    let remembered = Approved::new(by.by, ApprovalDecision::Remembered);
                    CallVerdict::Approved(arguments, remembered)
                }
                other => other,
            });
        }
        if let Some(approver) = &rule.by {
            let mut decision = self.decided_by(approver, rule, call, definition).await?;
            decision.by = Some(approver.clone());
            return Ok(final_verdict(decision));
        }
        let (mut fault, mut by): (Option<String>, _) = (None, None);
        for time in 0..ASKED {
            let mut question = question(rule, call, definition);
            if let Some(fault) = &fault {
                question.prompt = format!("{} ({fault})", question.prompt);
            }
            let mut ask = Ask::about(question, call, &format!("approval {time}"));
            if let Some(time) = rule.expires {
                let approved = rule.on_expiry == OnExpiry::Approve;
                let default = json!({ "approved": approved, "reason": "nobody answered in time" });
                ask = ask.expires_after(time, default);
            }
            let decision = Decision::from(self.perform(ask.operation()).await?);
            by.clone_from(&decision.by);
            let remember = decision.remember.clone().filter(|_| rule.remember);
            match read(decision.clone(), rule, call, called) {
                Ok(verdict) => {
                    // The grant follows from the decision, not from the question. A supplied value
                    // was for this call alone.
                    let decided = match &verdict {
                        CallVerdict::Approved(arguments, _) => Some(arguments),
                        CallVerdict::Denied(..) => Some(&call.arguments),
                        CallVerdict::Supplied(..) => None,
                    };
                    if let (Some(pattern), Some(arguments)) = (remember, decided) {
                        let arguments = arguments.value().cloned().unwrap_or_default();
                        self.remember(call, definition, &arguments, &pattern, &decision)
                            .await?;
                    }
                    return Ok(verdict);
                }
                Err(reason) => fault = reason,
            }
        }
        Ok(CallVerdict::denied(fault, by))
    }

    /// Asks a tool for the decision. Any result that is not a clear approval is a refusal.
    async fn decided_by(
        &self,
        approver: &str,
        rule: &ApprovalRule,
        call: &ToolCall,
        called: &ToolDefinition,
    ) -> Result<Decision, AgentError> {
        let pinned = &self.leg().pinned;
        let Some(definition) = pinned.tool(&self.spec().name, approver).cloned() else {
            return Ok(Decision::denied(format!(
                "there is no tool {approver:?} to decide it"
            )));
        };
        let question = question(rule, call, called);
        let asked = json!({
            "question": question.prompt,
            "tool": call.name,
            "arguments": question.call.as_ref().and_then(|call| call.arguments.value().ok()),
            "agent": self.spec().name,
            "call": call.id,
            "digest": call.digest(),
        });
        let call = ToolCall::new(call.id.clone(), approver, asked);
        let result = match self.perform(CallTool::new(call, definition)).await {
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
        match ghostlight_safety::unambiguous_json(result.text.as_bytes()) {
            Ok(answer) if answers(&question, &answer) => Ok(Decision::from(answer)),
            _ => Ok(Decision::denied(format!("{approver} gave no decision"))),
        }
    }
}

/// The effect of a decision on this call. The error says why the decision has none.
fn read(
    mut decision: Decision,
    rule: &ApprovalRule,
    call: &ToolCall,
    called: (&Arc<ToolDefinition>, Option<&ToolHandle>),
) -> Result<CallVerdict, Option<String>> {
    if !decision.approved {
        return Ok(CallVerdict::denied(decision.reason, decision.by));
    }
    decision.is_for(call)?;
    if let Some(value) = decision.value.take() {
        let by = Approved::new(decision.by, ApprovalDecision::Supplied);
        return Ok(CallVerdict::Supplied(value, by));
    }
    let Some(arguments) = decision.meant(call, &rule.reveal) else {
        let by = Approved::new(decision.by, ApprovalDecision::Approved);
        return Ok(CallVerdict::Approved(call.arguments.clone(), by));
    };
    match is_readable(called, &arguments) {
        Ok(()) => {
            let by = Approved::new(decision.by, ApprovalDecision::Edited);
            Ok(CallVerdict::Approved(arguments, by))
        }
        Err(fault) => Err(Some(fault)),
    }
}

/// The question whether a call may be made.
fn question(rule: &ApprovalRule, call: &ToolCall, definition: &ToolDefinition) -> Question {
    let mut prompt = match &rule.prompt {
        Some(template) => fill_in(template, call, &rule.reveal),
        None => format!("May {} be called?", ghostlight_safety::visible(&call.name)),
    };
    if let Some(source) = &definition.source {
        prompt = format!(
            "{prompt} (a tool of {})",
            ghostlight_safety::visible(source)
        );
    }
    about(Question::approval(prompt, call.clone()), call, &rule.reveal)
}

/// Fills the call's arguments into a template, in one pass: an argument is not read as a template.
fn fill_in(template: &str, call: &ToolCall, reveal: &[String]) -> String {
    let arguments = call.arguments.value().cloned().unwrap_or_default();
    let arguments = deciding::show(&arguments, reveal).arguments;
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
            Some(Value::String(text)) => filled.push_str(&in_prompt(text)),
            Some(value) => filled.push_str(&in_prompt(&value.to_string())),
            None if name == "tool" => filled.push_str(&ghostlight_safety::visible(&call.name)),
            None if is_name(name) => filled.push_str("(not given)"),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    filled + rest
}

/// A value as it stands inside a sentence: on one line, and cut to its beginning and its length if
/// it is long. The call shows the whole value.
fn in_prompt(shown: &str) -> String {
    let count = shown.chars().count();
    let mut text: String = shown.chars().take(IN_PROMPT).collect();
    if count > IN_PROMPT {
        text.push_str(&format!("⟦the first {IN_PROMPT} of {count} characters⟧"));
    }
    text.replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

/// Whether this text in braces may be an argument's name.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.chars().all(fits)
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
        let fill = |template| fill_in(template, &call, &[]);
        assert_eq!(fill("Delete {path}?"), "Delete {token}?");
        assert_eq!(
            fill("{tool} {token} {n} {to}"),
            "wipe ⟦redacted 1: 3 characters⟧ 3 a\\u{a}b"
        );
        assert_eq!(
            fill("{file} {missing} {\"a\": 1} {"),
            "/etc/passwd (not given) {\"a\": 1} {"
        );
        let rule = ApprovalRule::required().prompt("{token}").reveal("token");
        assert_eq!(
            question(&rule, &call, &ToolDefinition::new("a", "")).prompt,
            "⟦redacted 1: 3 characters⟧"
        );
        let call = ToolCall::new(
            "1",
            "wipe",
            json!({ "a": format!("{}; rm", "x".repeat(200)) }),
        );
        let prompt = fill_in("{a}", &call, &[]);
        assert!(
            prompt.ends_with("x⟦the first 160 of 204 characters⟧"),
            "{prompt}"
        );
    }
}
