//! The policies of one leg, and the rules by which they are asked.

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Mutex as Turn, MutexGuard};

use super::{
    BeforeTool, GoalEnd, HookContext, Notes, PolicyContext, Verdict,
    erased::{ErasedPolicy, PolicyHandle},
};
use crate::{
    run::{RunContext, recorded_result::as_result},
    vocabulary::{
        AgentError, AnsweredBy, Digest, Message, ModelRequest, ModelResponse, OperationError,
        Outcome, Part, Question, Role, StopReason, ToolCall, ToolResult, ToolStatus, Transcript,
    },
};

/// The policies of one leg of a run, in the order in which the agent names them.
///
/// They are asked one at a time, even if several parts of a function ask at once.
pub(crate) struct Policies {
    installed: Turn<Vec<Installed>>,
    notes: Mutex<Notes>,
}

struct Installed {
    /// A lane of its own, without policies: a policy may use loops itself. What people say is not
    /// for these.
    cx: RunContext,
    policy: Box<dyn ErasedPolicy>,
}

/// Tells that a policy gave this result instead of a call's, and names the policy as its source.
fn held_back(cx: &PolicyContext<'_>, call: &ToolCall, result: &ToolResult) -> AnsweredBy {
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
    AnsweredBy::Policy(cx.name().to_owned())
}

/// Hooks that every policy is told.
macro_rules! all {
    ($($hook:ident($($argument:ident: $type:ty),*);)*) => {
        $(pub(crate) async fn $hook(
            &self,
            moment: HookContext<'_>,
            $($argument: $type),*
        ) -> Result<(), AgentError> {
            for (cx, policy) in self.each(&mut self.turn().await, moment) {
                policy.$hook(&cx, $($argument),*).await?;
            }
            Ok(())
        })*
    };
}

/// Hooks that are asked of each policy in turn until one answers.
macro_rules! first {
    ($($hook:ident($($argument:ident: $type:ty)?) -> $answer:ty;)*) => {
        $(pub(crate) async fn $hook(
            &self,
            moment: HookContext<'_>,
            $($argument: $type)?
        ) -> Result<Option<$answer>, AgentError> {
            for (cx, policy) in self.each(&mut self.turn().await, moment) {
                if let Some(answer) = policy.$hook(&cx, $($argument)?).await? {
                    return Ok(Some(answer));
                }
            }
            Ok(None)
        })*
    };
}

impl Policies {
    /// Makes the policies of a leg; `None` when there are none.
    pub(super) fn install(cx: &RunContext, made: &[(String, PolicyHandle)]) -> Option<Self> {
        let install = |(name, policy): &(String, PolicyHandle)| {
            // The builder registers policies under names such as `agent:desk:0:name`.
            let name = name.rsplit(':').next().unwrap_or_default();
            Installed {
                cx: cx.aside(name),
                policy: policy.make(),
            }
        };
        let installed: Vec<Installed> = made.iter().map(install).collect();
        (!installed.is_empty()).then(|| Self {
            installed: Turn::new(installed),
            notes: Mutex::default(),
        })
    }

    /// Waits until no other part of the function asks.
    async fn turn(&self) -> MutexGuard<'_, Vec<Installed>> {
        // Usually no other part asks, so there is no need to queue.
        match self.installed.try_lock() {
            Ok(installed) => installed,
            Err(_) => self.installed.lock().await,
        }
    }

    /// The policies in their order, each with what its hooks see.
    fn each<'t>(
        &'t self,
        turn: &'t mut [Installed],
        moment: HookContext<'t>,
    ) -> impl Iterator<Item = (PolicyContext<'t>, &'t mut Box<dyn ErasedPolicy>)> {
        turn.iter_mut().map(move |Installed { cx: run, policy }| {
            let notes = &self.notes;
            let asked_again = false;
            let cx = PolicyContext {
                run,
                moment,
                notes,
                asked_again,
            };
            (cx, policy)
        })
    }

    first! {
        before_run() -> Outcome;
        after_model(response: &ModelResponse) -> ModelResponse;
        on_model_error(error: &OperationError) -> ModelResponse;
    }

    all! {
        after_failure(error: &AgentError);
        after_tools(calls: &[ToolCall], results: &[ToolResult]);
        after_goal(ended: &GoalEnd);
    }

    /// The outcome that takes the place of the function's, if any. Each policy gets what those before it made of it.
    pub(crate) async fn after_run(
        &self,
        moment: HookContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let mut other = None;
        for (cx, policy) in self.each(&mut self.turn().await, moment) {
            let so_far = other.as_ref().unwrap_or(outcome);
            other = policy.after_run(&cx, so_far).await?.or(other);
        }
        Ok(other)
    }

    /// Lets policies change a request. Returns the response that takes the call's place, if any,
    /// and the reminders for the end of the request.
    pub(super) async fn before_model(
        &self,
        moment: HookContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<(Option<ModelResponse>, Vec<String>), AgentError> {
        let mut turn = self.turn().await;
        // These reminders were for a request that was not made.
        self.notes.lock().reminders.clear();
        let mut answered = None;
        for (cx, policy) in self.each(&mut turn, moment) {
            answered = policy.before_model(&cx, request).await?;
            if answered.is_some() {
                break;
            }
        }
        // Another call may be made beside this one.
        Ok((answered, std::mem::take(&mut self.notes.lock().reminders)))
    }

    /// Lets policies change a request as it is sent, and puts their reminders at its end.
    pub(super) async fn before_sending(
        &self,
        moment: HookContext<'_>,
        request: &mut ModelRequest,
        reminders: Vec<String>,
    ) -> Result<(), AgentError> {
        let mut turn = self.turn().await;
        self.notes.lock().reminders = reminders;
        for (cx, policy) in self.each(&mut turn, moment) {
            policy.before_sending(&cx, request).await?;
        }
        let reminders = std::mem::take(&mut self.notes.lock().reminders);
        if !reminders.is_empty() {
            remind(&mut request.conversation, reminders);
        }
        Ok(())
    }

    /// The decision of the policies about a call.
    pub(crate) async fn before_tool(
        &self,
        moment: HookContext<'_>,
        call: ToolCall,
    ) -> Result<Decided, AgentError> {
        self.decide(moment, call, 0, None).await
    }

    /// Asks the policies again about a call that somebody outside has allowed meanwhile, and returns the result that
    /// takes its place, if one of them holds it back now. An allowed call is made as it is or not at all, so other
    /// arguments and further questions do not count.
    pub(crate) async fn asked_again(
        &self,
        moment: HookContext<'_>,
        call: &ToolCall,
    ) -> Result<Option<(ToolResult, AnsweredBy)>, AgentError> {
        self.first_asked_again(usize::MAX, moment, call).await
    }

    /// The same of the first policies alone.
    async fn first_asked_again(
        &self,
        count: usize,
        moment: HookContext<'_>,
        call: &ToolCall,
    ) -> Result<Option<(ToolResult, AnsweredBy)>, AgentError> {
        for (mut cx, policy) in self.each(&mut self.turn().await, moment).take(count) {
            cx.asked_again = true;
            if let BeforeTool::Result(result) = policy.before_tool(&cx, call).await? {
                return Ok(Some((result.clone(), held_back(&cx, call, &result))));
            }
        }
        Ok(None)
    }

    /// The decision about a call after its question was answered or failed.
    pub(crate) async fn answered(
        &self,
        moment: HookContext<'_>,
        asking: Asking,
        answer: Result<Value, AgentError>,
    ) -> Result<Decided, AgentError> {
        let Asking { policy, call, .. } = asking;
        match answer {
            Ok(answer) => match self.first_asked_again(policy, moment, &call).await? {
                Some((result, by)) => {
                    let call = Box::new(call);
                    Ok(Decided::Answered { call, result, by })
                }
                None => self.decide(moment, call, policy, Some(answer)).await,
            },
            Err(error) => {
                let result = as_result(&call, Err(error))?;
                let (call, by) = (Box::new(call), AnsweredBy::Engine);
                Ok(Decided::Answered { call, result, by })
            }
        }
    }

    /// Asks from this policy on; the first is given the answer that it waited for.
    async fn decide(
        &self,
        moment: HookContext<'_>,
        mut call: ToolCall,
        from: usize,
        mut answer: Option<Value>,
    ) -> Result<Decided, AgentError> {
        let mut turn = self.turn().await;
        for (place, (cx, policy)) in self.each(&mut turn, moment).enumerate().skip(from) {
            let decided = match answer.take() {
                Some(answer) => policy.answered(&cx, &call, answer).await?,
                None => policy.before_tool(&cx, &call).await?,
            };
            match decided {
                BeforeTool::Go => {}
                BeforeTool::GoWith(arguments) => call.arguments = arguments,
                BeforeTool::Result(result) => {
                    let by = held_back(&cx, &call, &result);
                    let call = Box::new(call);
                    return Ok(Decided::Answered { call, result, by });
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

    /// The result that takes the place of a call's result, if any. Each policy gets what those before it made of it.
    pub(crate) async fn after_tool(
        &self,
        moment: HookContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        let mut other = None;
        for (cx, policy) in self.each(&mut self.turn().await, moment) {
            let so_far = other.as_ref().unwrap_or(result);
            let changed = policy.after_tool(&cx, call, so_far).await?;
            if changed.is_some() {
                let told = json!({ "policy": cx.name(), "call": call.id, "tool": call.name });
                cx.emit("result_replaced", &told);
            }
            other = changed.or(other);
        }
        Ok(other)
    }

    /// Gives a text to the policies that wanted a reflection, and returns their replies as one
    /// message. `None` when no policy wanted one: then the text is an answer.
    pub(crate) async fn reflected(
        &self,
        moment: HookContext<'_>,
        text: &str,
    ) -> Result<Option<String>, AgentError> {
        let mut next: Option<Vec<String>> = None;
        for (cx, policy) in self.each(&mut self.turn().await, moment) {
            if policy.wants_reflection() {
                let said = policy.reflected(&cx, text).await?;
                next.get_or_insert_default().push(said);
            }
        }
        Ok(next.map(merged))
    }

    /// Asks all policies what they know of a goal, as one text.
    pub(super) async fn before_goal(
        &self,
        moment: HookContext<'_>,
        goal: &str,
    ) -> Result<Option<String>, AgentError> {
        let mut told = Vec::new();
        for (cx, policy) in self.each(&mut self.turn().await, moment) {
            told.extend(policy.before_goal(&cx, goal).await?);
        }
        Ok((!told.is_empty()).then(|| merged(told)))
    }

    /// Has an answer judged by all policies.
    pub(crate) async fn before_answer(
        &self,
        moment: HookContext<'_>,
        draft: &str,
    ) -> Result<Judgement, AgentError> {
        self.notes
            .lock()
            .judged
            .insert(Digest::of(draft.as_bytes()));
        let mut judgement = Judgement::default();
        for (cx, policy) in self.each(&mut self.turn().await, moment) {
            let verdict = policy.before_answer(&cx, draft).await?;
            let policy = cx.name();
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

    /// Takes the deferred messages of policies to the model, in their order.
    pub(super) fn take_deferred(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().deferred)
    }

    /// Defers a message to the next request to the model.
    pub(super) fn defer(&self, text: String) {
        self.notes.lock().defer(text);
    }

    /// Why a policy wants the function to stop, if one does.
    pub(super) fn stopping(&self) -> Option<StopReason> {
        self.notes.lock().stop.clone()
    }

    /// Whether this text was judged as an answer.
    pub(super) fn has_judged(&self, text: &str) -> bool {
        let judged = Digest::of(text.as_bytes());
        self.notes.lock().judged.contains(&judged)
    }
}

/// The policies' decision about a call.
pub(crate) enum Decided {
    /// It runs, with these arguments.
    Run(ToolCall),
    /// It does not run. This is the call, with changed arguments, and its result.
    Answered {
        call: Box<ToolCall>,
        result: ToolResult,
        by: AnsweredBy,
    },
    /// Somebody is asked, and [`Policies::answered`] gets the answer.
    Ask(Asking),
}

/// A call that waits for an answer.
pub(crate) struct Asking {
    /// The place of the policy that asks.
    policy: usize,
    /// The call, with the arguments that earlier policies gave it.
    call: ToolCall,
    /// The question.
    pub(crate) question: Box<Question>,
}

/// The judgement of all policies about an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// Why it is rejected; empty when it is not.
    pub objections: Vec<String>,
    /// The flags for readers of the outcome.
    pub flags: Vec<String>,
}

impl Judgement {
    /// All objections as one message for the model; each reason once.
    pub fn feedback(&self) -> String {
        merged(self.objections.clone())
    }
}

/// One message made of several texts. Equal texts stand once.
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
pub(super) fn remind(conversation: &mut Transcript, reminders: Vec<String>) {
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
    // The function goes on without it.
    conversation.push_aside(last);
}
