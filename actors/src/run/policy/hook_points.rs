//! Where policies act on a context: model calls, and the outcome of the function. Tool calls are in
//! `operations/batch.rs`.

use super::{
    GoalEnd, HookContext, Judgement,
    installed::remind,
    watch::{Seen, Watch},
};
use crate::{
    run::{LoopContext, RunContext, loop_context::Answering},
    vocabulary::{
        AgentError, ErrorKind, ModelRequest, ModelResponse, Outcome, StopReason, ToolCall,
        ToolResult, ToolStatus,
    },
};

impl Answering for &Seen {
    fn refuse(&mut self, call: &ToolCall) -> Option<ToolResult> {
        let is_withheld = self.withheld.contains(&call.name);
        let text = || format!("The tool {:?} cannot be called now.", call.name);
        is_withheld.then(|| ToolResult::new(call, ToolStatus::Error, text()))
    }
}

impl LoopContext<'_> {
    /// Whether policies watch over the function.
    pub fn is_watched(self) -> bool {
        self.watch().is_some()
    }

    /// Asks a model for a loop that is at this point of its conversation. Policies change the
    /// request first. `ready` then turns it into the request that is sent, and is called even if a
    /// policy answers in the model's place. The call gets its id when it is sent.
    ///
    /// # Errors
    /// As [`model`](RunContext::model).
    pub async fn model_at(
        self,
        moment: HookContext<'_>,
        mut request: ModelRequest,
        ready: impl FnOnce(ModelRequest) -> ModelRequest + Send,
    ) -> Result<ModelResponse, AgentError> {
        let Some(Watch { policies, .. }) = self.watch() else {
            return self.call_model(ready(request)).await;
        };
        let (answered, reminders) = policies.before_model(moment, &mut request).await?;
        self.go_on()?;
        let mut request = ready(request);
        let response = match answered {
            Some(response) => response,
            None => {
                let sent = async {
                    let sending = policies.before_sending(moment, &mut request, reminders);
                    sending.await?;
                    self.call_model(request).await
                };
                match sent.await {
                    Err(AgentError::Operation(error))
                        if !matches!(error.kind, ErrorKind::Budget(_)) =>
                    {
                        let instead = policies.on_model_error(moment, &error).await?;
                        instead.ok_or(error)?
                    }
                    end => end?,
                }
            }
        };
        Ok(match policies.after_model(moment, &response).await? {
            Some(mut other) => {
                // A policy must not drop messages of people.
                if other.steering.is_empty() {
                    other.steering = response.steering;
                }
                other
            }
            None => response,
        })
    }

    /// Lets the policies judge an answer. It is not judged again when the function returns it.
    ///
    /// # Errors
    /// The error of a hook, and [`AgentError::Early`], where a policy wants to stop.
    pub async fn judged(
        self,
        moment: HookContext<'_>,
        draft: &str,
    ) -> Result<Judgement, AgentError> {
        let Some(watch) = self.watch() else {
            return Ok(Judgement::default());
        };
        let judgement = watch.policies.before_answer(moment, draft).await?;
        self.go_on().map(|()| judgement)
    }

    /// Gives a text of the model to the policies that wanted a reflection, and returns the next
    /// message to the model. `None` when no policy wanted one, so that the text is an answer.
    ///
    /// # Errors
    /// The error of a hook.
    pub async fn reflected(
        self,
        moment: HookContext<'_>,
        text: &str,
    ) -> Result<Option<String>, AgentError> {
        match self.watch() {
            Some(watch) => watch.policies.reflected(moment, text).await,
            None => Ok(None),
        }
    }

    /// Takes the messages that policies have deferred, in their order: for loops, which add them to
    /// their conversation.
    pub fn take_deferred(self) -> Vec<String> {
        self.watch()
            .map(|watch| watch.policies.take_deferred())
            .unwrap_or_default()
    }

    /// Tells the policies that work on a goal begins, and returns their knowledge of similar goals.
    ///
    /// # Errors
    /// The error of a hook.
    pub async fn goal_begins(
        self,
        moment: HookContext<'_>,
        goal: &str,
    ) -> Result<Option<String>, AgentError> {
        match self.watch() {
            Some(watch) => watch.policies.before_goal(moment, goal).await,
            None => Ok(None),
        }
    }

    /// Tells the policies how work on a goal ended; `moment` has that work's own conversation.
    ///
    /// # Errors
    /// The error of a hook.
    pub async fn goal_ended(
        self,
        moment: HookContext<'_>,
        ended: &GoalEnd,
    ) -> Result<(), AgentError> {
        match self.watch() {
            Some(watch) => watch.policies.after_goal(moment, ended).await,
            None => Ok(()),
        }
    }

    /// Why a policy wants the function to stop, when one does.
    pub fn stopping(self) -> Option<StopReason> {
        self.watch()?.policies.stopping()
    }
}

impl RunContext {
    /// Asks a model for a function that is not made of loops. Messages of policies since its last
    /// request stand at the end of the request. Its conversation is the request and the model's
    /// answer.
    pub(crate) async fn watched_model(
        &self,
        mut request: ModelRequest,
    ) -> Result<ModelResponse, AgentError> {
        let Some(watch) = self.watch() else {
            return self.call_model(request).await;
        };
        let mut seen = self.seen();
        seen.transcript = request.conversation.clone();
        let deferred = watch.policies.take_deferred();
        if !deferred.is_empty() {
            remind(&mut request.conversation, deferred);
        }
        if request.model.is_empty() {
            request.model.clone_from(&self.agent().model);
        }
        let given = request.tools.clone();
        let mut offered = given.clone();
        let ready = |mut request: ModelRequest| {
            if given.is_empty() {
                request.tools = given.clone();
            }
            offered = request.tools.clone();
            request
        };
        let response = self
            .loop_context()
            .model_at(seen.moment(), request, ready)
            .await?;
        let names = given.iter().map(|tool| &tool.name);
        let withheld = names.filter(|name| offered.get(name).is_none());
        seen.withheld = withheld.cloned().collect();
        seen.transcript.push(response.message.clone());
        seen.steps += 1;
        watch.seen.lock().clone_from(&seen);
        if response.message.tool_calls().next().is_none() {
            let text = response.content();
            if let Some(next) = watch.policies.reflected(seen.moment(), &text).await? {
                watch.policies.defer(next);
            }
        }
        Ok(response)
    }

    /// The state of the function on this lane.
    pub(crate) fn seen(&self) -> Seen {
        match self.watch() {
            Some(watch) => watch.seen.lock().clone(),
            None => Seen::new(self.conversation()),
        }
    }

    /// Goes on, unless a policy wants the function to stop.
    pub(crate) fn go_on(&self) -> Result<(), AgentError> {
        match self.loop_context().stopping() {
            Some(reason) => Err(AgentError::early(Outcome::stopped(reason))),
            None => Ok(()),
        }
    }
}

impl RunContext {
    /// The outcome of a function, after its policies have judged an answer that is new to them. The
    /// answer cannot be written again, so an answer to which they object is flagged.
    pub(crate) async fn last_word(&self, outcome: Outcome) -> Result<Outcome, AgentError> {
        let mut answer = match outcome {
            Outcome::Answer(answer) => answer,
            other => return Ok(other),
        };
        if let Some(watch) = self.watch()
            && !watch.policies.has_judged(&answer.text)
        {
            let seen = self.seen();
            let judged = watch.policies.before_answer(seen.moment(), &answer.text);
            let Judgement { objections, flags } = judged.await?;
            let told: Vec<String> = objections.into_iter().chain(flags).collect();
            if !told.is_empty() && answer.flagged.is_none() {
                answer.flagged = Some(told.join("; "));
            }
        }
        Ok(match self.loop_context().stopping() {
            Some(reason) => Outcome::Stopped {
                reason,
                partial: Some(answer),
            },
            None => Outcome::Answer(answer),
        })
    }
}
