//! The consequences of a turn.

use ghostlight_actors::{
    run::{Judgement, RunContext},
    vocabulary::{
        AgentError, Answer, ErrorKind, Message, Outcome, Resource, Role, StopReason, Transcript,
    },
};

use super::{AgentLoop, Draft, FINISH_TOOL, FinishMode};
use crate::behaviors::turn_format::ModelTurn;

const EMPTY_NUDGE: &str =
    "Your last answer was empty. Go on with the task: call a tool, or give the answer.";
const FINISH_NUDGE: &str = "The task is not ended yet. When it is done, call the tool `finish` \
     with the answer; otherwise go on with it.";

impl AgentLoop<'_> {
    pub(super) async fn try_step(&mut self) -> Result<Option<Outcome>, AgentError> {
        let turn = self.ask_model().await?;
        let steered = self.turn.interrupted;
        if self.turn.cut.is_none() && !matches!(turn, ModelTurn::Unreadable(_)) {
            self.counts.unreadable_turns = 0;
        }
        let is_idle = match &turn {
            ModelTurn::Empty => true,
            ModelTurn::Answer(_) => self.rules.completion == FinishMode::Tool,
            _ => false,
        };
        if !is_idle {
            self.counts.empty_turns = 0;
        }
        if let ModelTurn::Answer(text) = &turn
            && let Some(next) = self.reflected(text).await?
        {
            return Ok(self.reflects(next));
        }
        match turn {
            ModelTurn::Calls(_) => self.calls_asked(steered).await,
            // A message that a person has just sent is answered before the task ends.
            _ if steered => Ok(None),
            ModelTurn::Answer(text) if !is_idle => self.answered(text).await,
            ModelTurn::Answer(_) => Ok(self.idle(FINISH_NUDGE, |_| StopReason::NoToolCalls)),
            ModelTurn::Empty => Ok(self.idle(EMPTY_NUDGE, StopReason::EmptyTurns)),
            ModelTurn::Unreadable(feedback) => Ok(self.unreadable(feedback)),
        }
    }

    async fn calls_asked(&mut self, steered: bool) -> Result<Option<Outcome>, AgentError> {
        self.counts.reflections = 0;
        let mut acted = self.call(&self.turn.open).await?;
        let ending = acted.ending_text();
        self.record(std::mem::take(&mut acted.results));
        if let Some(error) = acted.exhausted {
            return Err(error.into());
        }
        if let Some(transfer) = acted.transfer {
            let said = self.said();
            return Ok(Some(Outcome::Transfer(transfer.with_messages(said))));
        }
        if let Some(reason) = acted.stop {
            return Ok(Some(self.stop(reason)));
        }
        if self.turn.cut.is_some() {
            self.counts.unreadable_turns += 1;
            if self.counts.unreadable_turns > self.rules.limits.max_unreadable_turns {
                return Ok(Some(self.stop(StopReason::Truncated)));
            }
        }
        if acted.rejected {
            self.counts.repairs += 1;
            if self.counts.repairs > self.rules.limits.max_repairs {
                let reason = format!("the tool {FINISH_TOOL:?} was called wrongly too often");
                return Ok(Some(self.stop(StopReason::GaveUp(reason))));
            }
        }
        if steered {
            return Ok(None);
        }
        let Some(text) = acted.finished.or(ending) else {
            return Ok(None);
        };
        self.done(text).await
    }

    async fn answered(&mut self, text: String) -> Result<Option<Outcome>, AgentError> {
        let Some(output) = &self.rules.output else {
            return self.done(text).await;
        };
        let reason = match output.read(&text) {
            Ok(json) => return self.done(json).await,
            Err(reason) => reason,
        };
        self.cx
            .emit("answer_rejected", &serde_json::json!({ "reason": reason }));
        if self.counts.repairs >= self.rules.limits.max_repairs {
            let reason = format!("the answer does not fit its schema: {reason}");
            return Ok(Some(self.stop(StopReason::GaveUp(reason))));
        }
        self.counts.repairs += 1;
        self.say(format!(
            "Your answer does not fit the schema that it must fit: {reason}\nGive the whole \
             answer again, as JSON only."
        ));
        Ok(None)
    }

    /// Ends with this answer, unless a policy objects or a person has said something since.
    async fn done(&mut self, text: String) -> Result<Option<Outcome>, AgentError> {
        let judgement = match self.rules.is_gated {
            true => self.cx.loop_context().judged(self.moment(), &text).await?,
            false => Judgement::default(),
        };
        if !judgement.objections.is_empty() {
            let feedback = judgement.feedback();
            let objections = judgement.objections.len();
            return self.rejected(text, objections, feedback).await;
        }
        // A message that comes after the last step stays in the mailbox, and begins the next turn.
        if self.counts.steps < self.rules.limits.max_steps && self.listen() {
            return Ok(None);
        }
        let flagged = (!judgement.flags.is_empty()).then(|| judgement.flags.join("; "));
        self.end(text, flagged).await.map(Some)
    }

    /// Ends with this answer, flagged with the objections.
    async fn end(&mut self, text: String, flagged: Option<String>) -> Result<Outcome, AgentError> {
        match self.answer(text) {
            Outcome::Answer(mut answer) => {
                answer.flagged = flagged;
                match self.rules.is_inner {
                    true => Ok(Outcome::Answer(answer)),
                    false => within_budget(self.cx, answer).await,
                }
            }
            outcome => Ok(outcome),
        }
    }

    /// Gives a text to the policies that asked for a reflection; `None` if it is an answer.
    pub(crate) async fn reflected(&self, text: &str) -> Result<Option<String>, AgentError> {
        match self.works() {
            true => self.cx.loop_context().reflected(self.moment(), text).await,
            false => Ok(None),
        }
    }

    /// Goes on after a text that a policy asked for. Texts without a call between them come to an end.
    fn reflects(&mut self, next: String) -> Option<Outcome> {
        self.counts.reflections += 1;
        if self.counts.reflections >= self.rules.max_rejections {
            let texts = self.counts.reflections;
            let reason = format!("{texts} reflections, and no call between them");
            return Some(self.stop(StopReason::GaveUp(reason)));
        }
        self.say(next);
        None
    }

    /// Tells the model why its draft was not accepted as the answer, with the number of objections. After too many
    /// rejections the best draft is the answer, flagged.
    async fn rejected(
        &mut self,
        text: String,
        objections: usize,
        feedback: String,
    ) -> Result<Option<Outcome>, AgentError> {
        self.counts.rejections += 1;
        let best = match self.best.take() {
            Some(best) if best.objections < objections => best,
            _ => Draft {
                text: text.clone(),
                objections,
                feedback: feedback.clone(),
            },
        };
        if self.counts.rejections < self.rules.max_rejections {
            self.best = Some(best);
            self.say(feedback);
            return Ok(None);
        }
        let told =
            serde_json::json!({ "rejections": self.counts.rejections, "reason": best.feedback });
        self.cx.emit("gave_up", &told);
        if best.text != text {
            // The conversation ends with the answer that is given.
            self.say(feedback);
        }
        self.end(best.text, Some(best.feedback)).await.map(Some)
    }

    fn idle(&mut self, nudge: &str, reason: impl FnOnce(u32) -> StopReason) -> Option<Outcome> {
        self.counts.empty_turns += 1;
        if self.counts.empty_turns >= self.rules.limits.max_empty_turns {
            return Some(self.stop(reason(self.counts.empty_turns)));
        }
        self.say(nudge);
        None
    }

    fn unreadable(&mut self, feedback: String) -> Option<Outcome> {
        self.counts.unreadable_turns += 1;
        if self.counts.unreadable_turns > self.rules.limits.max_unreadable_turns {
            let turns = self.counts.unreadable_turns;
            let reason = format!("{turns} answers in a row could not be read: {feedback}");
            return Some(self.stop(StopReason::GaveUp(reason)));
        }
        self.say(feedback);
        None
    }
}

/// This answer, or a stop if the run's last act exceeded a budget.
pub(crate) async fn within_budget(cx: &RunContext, answer: Answer) -> Result<Outcome, AgentError> {
    // Consumption is known only afterwards; numbers of calls are never exceeded.
    let consumed = [
        Resource::Tokens,
        Resource::InputTokens,
        Resource::OutputTokens,
        Resource::CostMicros,
    ];
    let bounds = cx.start().budget;
    if consumed.iter().all(|what| bounds.bound(*what).is_none()) {
        return Ok(Outcome::Answer(answer));
    }
    let spent = cx.budget().await?.spent;
    let over = |what: &Resource| {
        bounds
            .bound(*what)
            .is_some_and(|bound| spent.used(*what) > bound)
    };
    let Some(resource) = consumed.into_iter().find(over) else {
        return Ok(Outcome::Answer(answer));
    };
    Ok(Outcome::Stopped {
        reason: StopReason::FinishOverBudget(resource),
        partial: Some(answer),
    })
}

/// A stop with this partial answer and the messages from `begin` on. The conversation ends with the
/// reason, so that the model of the next turn knows it. This is a message of the model, because
/// some providers require one before a user's message.
pub(crate) fn stopped(
    cx: &RunContext,
    conversation: &mut Transcript,
    begin: usize,
    reason: StopReason,
    partial: String,
) -> Outcome {
    let last = conversation.last().map(|message| message.role);
    if last != Some(Role::Assistant) {
        let note = Message::assistant(format!("[{reason}]"));
        conversation.push(note.by(cx.spec().name.as_str()));
    }
    let partial = Answer::text(partial).with_messages(conversation.since(begin));
    Outcome::Stopped {
        reason,
        partial: Some(partial),
    }
}

/// The stop for an exhausted budget or a policy's request; any other failure stays a failure.
pub(crate) fn exhausted(error: AgentError) -> Result<StopReason, AgentError> {
    match (error.kind(), error.early_stop()) {
        (Some(ErrorKind::Budget(resource)), _) => Ok(StopReason::BudgetExhausted(*resource)),
        (_, Some(reason)) => Ok(reason.clone()),
        _ => Err(error),
    }
}
