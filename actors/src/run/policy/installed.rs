//! The policies of one leg, and the rules by which they are asked.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Mutex as Turn, MutexGuard};

use super::{
    BeforeTool, Moment, Notes, PolicyContext, PolicyHandle, Verdict, erased::ErasedPolicy,
};
use crate::{
    run::{BehaviorHandle, RunContext, operations::as_result},
    vocabulary::{
        AgentError, Message, ModelRequest, ModelResponse, OperationError, Outcome, Part, Question,
        Role, StopReason, ToolCall, ToolResult, ToolStatus, Transcript,
    },
};

/// The policies of one leg of a run, in the order in which the agent names them. A loop asks them
/// where [`Policy`](super::Policy) says; see [`RunContext::policies`].
///
/// They are asked one at a time, also where several parts of a function ask at once.
pub struct Policies {
    installed: Turn<Vec<Installed>>,
    notes: Mutex<Notes>,
}

struct Installed {
    /// A branch of its own, without policies: a policy may use loops itself.
    cx: RunContext,
    policy: Box<dyn ErasedPolicy>,
}

impl Installed {
    fn name(&self) -> &str {
        self.cx.branch_name()
    }
}

/// Asks each policy in turn until one answers.
macro_rules! first {
    ($self:ident, $moment:ident, $hook:ident($($argument:expr),*)) => {{
        for installed in $self.turn().await.iter_mut() {
            let cx = PolicyContext { run: &installed.cx, moment: $moment, notes: &$self.notes };
            if let Some(answer) = installed.policy.$hook(&cx, $($argument),*).await? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }};
}

impl Policies {
    /// Makes the policies of a leg; `None` when there are none.
    pub(crate) fn install(cx: &RunContext, made: &[(String, PolicyHandle)]) -> Option<Self> {
        let install = |(name, policy): &(String, PolicyHandle)| {
            // What the builder registers is called `agent:desk:0:name`.
            let name = name.rsplit(':').next().unwrap_or_default();
            Installed {
                cx: cx.branch(name),
                policy: policy.make(),
            }
        };
        let installed: Vec<Installed> = made.iter().map(install).collect();
        (!installed.is_empty()).then(|| Self {
            installed: Turn::new(installed),
            notes: Mutex::default(),
        })
    }

    /// Runs an agent's function between the hooks of a run's start and end.
    pub(crate) async fn around(
        behavior: &BehaviorHandle,
        cx: RunContext,
    ) -> Result<Outcome, AgentError> {
        let Some(policies) = cx.shared_policies() else {
            return behavior.run(cx).await;
        };
        let transcript = cx.conversation();
        let moment = Moment {
            transcript: &transcript,
            steps: 0,
        };
        let outcome = match policies.before_run(moment).await? {
            Some(outcome) => outcome,
            None => match policies.take_stop() {
                Some(reason) => Outcome::stopped(reason),
                None => behavior.run(cx).await?,
            },
        };
        Ok(match policies.after_run(moment, &outcome).await? {
            Some(other) => other,
            None => outcome,
        })
    }

    /// Waits until no other part of the function asks.
    async fn turn(&self) -> MutexGuard<'_, Vec<Installed>> {
        // Mostly nobody does, and then there is nothing to queue for.
        match self.installed.try_lock() {
            Ok(installed) => installed,
            Err(_) => self.installed.lock().await,
        }
    }

    async fn before_run(&self, moment: Moment<'_>) -> Result<Option<Outcome>, AgentError> {
        first!(self, moment, before_run())
    }

    async fn after_run(
        &self,
        moment: Moment<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        first!(self, moment, after_run(outcome))
    }

    /// Lets policies change a request, and gives the response that takes the call's place, if one
    /// does.
    ///
    /// # Errors
    /// What a hook fails with; so for all others here.
    pub async fn before_model(
        &self,
        moment: Moment<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        // What was for a request that was not made.
        self.notes.lock().reminders.clear();
        first!(self, moment, before_model(request))
    }

    /// Lets policies change a request as it is sent, and puts at its end what they remind of.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn before_sending(
        &self,
        moment: Moment<'_>,
        request: &mut ModelRequest,
    ) -> Result<(), AgentError> {
        for installed in self.installed.lock().await.iter_mut() {
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            installed.policy.before_sending(&cx, request).await?;
        }
        let reminders = std::mem::take(&mut self.notes.lock().reminders);
        if !reminders.is_empty() {
            remind(&mut request.conversation, reminders);
        }
        Ok(())
    }

    /// What takes the place of a response, if something does.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn after_model(
        &self,
        moment: Moment<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        if !response.steering.is_empty()
            && let Some(installed) = self.turn().await.first()
        {
            let [_, here] = &installed.cx.leg().heard;
            let said = response.steering.iter().cloned();
            here.lock().extend(said.map(Arc::new));
        }
        first!(self, moment, after_model(response))
    }

    /// What takes the place of a failed model call, if something does.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn on_model_error(
        &self,
        moment: Moment<'_>,
        error: &OperationError,
    ) -> Result<Option<ModelResponse>, AgentError> {
        first!(self, moment, on_model_error(error))
    }

    /// What is to become of a call.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn before_tool(
        &self,
        moment: Moment<'_>,
        call: ToolCall,
    ) -> Result<Decided, AgentError> {
        self.decide(moment, call, 0, None).await
    }

    /// What is to become of a call of which somebody was asked, now that the question has its
    /// answer or an error in its place.
    ///
    /// # Errors
    /// What the question failed with when the run must stop for it, and what a hook fails with.
    pub async fn answered(
        &self,
        moment: Moment<'_>,
        asking: Asking,
        answer: Result<Value, AgentError>,
    ) -> Result<Decided, AgentError> {
        let Asking { policy, call, .. } = asking;
        match answer {
            Ok(answer) => self.decide(moment, call, policy, Some(answer)).await,
            Err(error) => as_result(&call, Err(error)).map(Decided::Answered),
        }
    }

    /// Asks from this policy on; the first is given the answer that it waited for.
    async fn decide(
        &self,
        moment: Moment<'_>,
        mut call: ToolCall,
        from: usize,
        mut answer: Option<Value>,
    ) -> Result<Decided, AgentError> {
        let mut installed = self.turn().await;
        for (place, installed) in installed.iter_mut().enumerate().skip(from) {
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            let policy = &mut installed.policy;
            let decided = match answer.take() {
                Some(answer) => policy.answered(&cx, &call, answer).await?,
                None => policy.before_tool(&cx, &call).await?,
            };
            match decided {
                BeforeTool::Go => {}
                BeforeTool::GoWith(arguments) => call.arguments = arguments,
                BeforeTool::Result(result) => {
                    if result.status != ToolStatus::Success {
                        let told = json!({
                            "policy": cx.name(),
                            "call": call.id,
                            "tool": call.name,
                            "status": result.status,
                            "reason": result.text,
                        });
                        cx.emit("call_held_back", &told);
                    }
                    return Ok(Decided::Answered(result));
                }
                BeforeTool::Ask(question) => {
                    return Ok(Decided::Ask(Asking {
                        policy: place,
                        call,
                        question,
                    }));
                }
            }
        }
        Ok(Decided::Run(call))
    }

    /// What takes the place of a call's result, if something does.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn after_tool(
        &self,
        moment: Moment<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        for installed in self.turn().await.iter_mut() {
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            let other = installed.policy.after_tool(&cx, call, result).await?;
            if let Some(other) = other {
                let told = json!({ "policy": cx.name(), "call": call.id, "tool": call.name });
                cx.emit("result_replaced", &told);
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Tells all policies what the calls of a step came to.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn after_tools(
        &self,
        moment: Moment<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        for installed in self.turn().await.iter_mut() {
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            installed.policy.after_tools(&cx, calls, results).await?;
        }
        Ok(())
    }

    /// Gives a text to the policies that wanted a reflection, and what they say to it, as one
    /// message. `None` when none wanted one: then the text is an answer.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn reflected(
        &self,
        moment: Moment<'_>,
        text: &str,
    ) -> Result<Option<String>, AgentError> {
        let mut next: Option<Vec<String>> = None;
        for installed in self.turn().await.iter_mut() {
            if !installed.policy.wants_reflection() {
                continue;
            }
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            let said = installed.policy.reflected(&cx, text).await?;
            next.get_or_insert_default().push(said);
        }
        Ok(next.map(merged))
    }

    /// Has an answer judged by all policies.
    ///
    /// # Errors
    /// What a hook fails with.
    pub async fn before_answer(
        &self,
        moment: Moment<'_>,
        draft: &str,
    ) -> Result<Judgement, AgentError> {
        let mut judgement = Judgement::default();
        for installed in self.turn().await.iter_mut() {
            let cx = PolicyContext {
                run: &installed.cx,
                moment,
                notes: &self.notes,
            };
            let verdict = installed.policy.before_answer(&cx, draft).await?;
            let policy = installed.name();
            match verdict {
                Verdict::Pass => {}
                Verdict::Accept => cx.emit("answer_accepted", &json!({ "policy": policy })),
                Verdict::Flag(reason) => {
                    let told = json!({ "policy": policy, "reason": reason });
                    cx.emit("answer_flagged", &told);
                    judgement.flags.push(reason);
                }
                Verdict::Reject(reason) => {
                    let told = json!({ "policy": policy, "reason": reason });
                    cx.emit("answer_rejected", &told);
                    judgement.objections.push(reason);
                }
            }
        }
        Ok(judgement)
    }

    /// Takes what policies want to say to the model, in the order in which they said it.
    pub fn take_deferred(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().deferred)
    }

    /// Takes the reason for which a policy wants the loop to stop, if one does.
    pub fn take_stop(&self) -> Option<StopReason> {
        self.notes.lock().stop.take()
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policies(..)")
    }
}

/// What the policies want to become of a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decided {
    /// It runs, with these arguments.
    Run(ToolCall),
    /// It does not run: this is its result.
    Answered(ToolResult),
    /// Somebody is asked, and [`Policies::answered`] is told what was said.
    Ask(Asking),
}

/// A call that waits for an answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Asking {
    /// The place of the policy that asks.
    policy: usize,
    /// The call, with the arguments that earlier policies gave it.
    pub call: ToolCall,
    /// What is asked.
    pub question: Box<Question>,
}

/// What all policies think of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// Why it is rejected; empty when it is not.
    pub objections: Vec<String>,
    /// What whoever reads the outcome is told of it.
    pub flags: Vec<String>,
}

impl Judgement {
    /// All objections as one message for the model; each reason once.
    pub fn feedback(&self) -> String {
        merged(self.objections.clone())
    }
}

/// One message of several; equal ones are said once.
fn merged(texts: Vec<String>) -> String {
    let mut said: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if !text.trim().is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    said.join("\n\n")
}

/// Puts these texts at the end of a conversation, as a part of what the user said last or else as a
/// user's message, so that users' and the model's messages go on alternating.
fn remind(conversation: &mut Transcript, reminders: Vec<String>) {
    let mut parts: Vec<Part> = reminders.into_iter().map(Part::Text).collect();
    let mut last = Message {
        role: Role::User,
        author: None,
        parts: Vec::new(),
        synthetic: true,
    };
    if let Some(said) = conversation.last().filter(|said| said.role == Role::User) {
        *conversation = conversation.truncated(conversation.len() - 1);
        last = Message::clone(&said);
    }
    last.parts.append(&mut parts);
    conversation.push(last);
}
