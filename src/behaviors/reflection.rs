//! Drafting, critique and revision.

use std::sync::Arc;

use ghostlight_actors::{
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Answer, Message, Outcome, StopReason, ToolSet},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AgentLoop, Checked, LoopOptions, Prompt,
    agent_loop::{Thread, within_budget},
    at_least_one,
    prompt::{BuiltIn, task},
};

const CRITIC: BuiltIn = BuiltIn {
    version: 1,
    text: "\
You are a strict and fair critic. You judge the last answer of a conversation and do not write \
one yourself. Judge whether it does all that was asked, whether it is right and supported by what \
the conversation shows, and whether it is clear. Approve it only if nothing has to be changed.",
};

const JUDGE: BuiltIn = BuiltIn {
    version: 1,
    text: "\
Judge the answer above. What was asked is:

{task}

Give a score from 0 (useless) to 10 (perfect), whether you approve the answer as it is, and in the \
critique what has to be changed, in one to three sentences.",
};

const REVISE: BuiltIn = BuiltIn {
    version: 1,
    text: "\
A critic read your answer and says:

{critique}

Give the whole answer again, with what the critic is right about changed. Do not mention the \
critic.",
};

/// Drafts an answer, has it judged, and revises it until it is approved or the rounds are used up.
/// Then the draft with the best score is the answer, flagged with its remaining faults.
///
/// A message that a person sends while a draft is judged is answered by one more draft.
///
/// Drafts are made with the agent's tools, as in [`FunctionCalling`](super::FunctionCalling). The
/// judgement is a value and not a word in a text, so "not approved" approves nothing. After Madaan
/// et al., "Self-Refine" (2023), with best-of-drafts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Reflection {
    /// How often a draft is revised.
    pub max_rounds: u32,
    /// The most steps of one draft; by default the agent's own limit.
    pub max_steps: Option<u32>,
    /// The critic's system prompt.
    pub critic: Prompt,
    /// The prompt for the critic; `{task}` is the task of the agent.
    pub judge: Prompt,
    /// The prompt for a revision; `{critique}` is the text of the critic.
    pub revise: Prompt,
}

impl Default for Reflection {
    fn default() -> Self {
        Self {
            max_rounds: 2,
            max_steps: None,
            critic: CRITIC.into(),
            judge: JUDGE.into(),
            revise: REVISE.into(),
        }
    }
}

impl Checked for Reflection {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_steps", self.max_steps)?;
        self.revise.needs("revise", &["critique"])
    }
}

/// What the critic thinks of a draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
// Its schema, and so the requests of recorded runs, call it a verdict.
#[serde(deny_unknown_fields, rename = "Verdict")]
struct Critique {
    /// Whether the answer can stay as it is.
    approved: bool,
    /// How good the answer is, from 0 to 10.
    #[schemars(range(min = 0, max = 10))]
    score: f64,
    /// What has to be changed; empty if nothing.
    critique: String,
}

/// A draft that may become the answer.
struct Draft {
    text: String,
    /// The length of the conversation when it was written.
    length: usize,
    score: f64,
    /// The faults of the draft.
    critique: String,
    /// Whether a person has sent a message since: then any later draft is better.
    outdated: bool,
}

impl Behavior for Reflection {
    fn asks_model(&self) -> bool {
        true
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let mut work = Work::new(&cx);
        let mut last = self.max_rounds;
        for round in 0_u32.. {
            let draft = self.draft(&mut work).await;
            let draft = draft.map_err(|end| end.map_early(|outcome| work.end_early(outcome)))?;
            work.flagged = draft.flagged;
            let text = draft.text;
            let length = work.thread.conversation.len();
            let (verdict, said) = self.judge(&work).await?;
            let outdated = !said.is_empty();
            work.thread.conversation.extend(said);
            if outdated {
                // A person's message is answered, whatever the limit and the critic say.
                last = last.max(round.saturating_add(1));
            }
            let verdict = match verdict {
                Ok(verdict) => verdict,
                Err(end) => match end.early_stop().cloned() {
                    None => return Err(end),
                    Some(reason @ StopReason::BudgetExhausted(_)) => {
                        return Ok(work.stop(reason, text));
                    }
                    Some(_) if outdated => continue,
                    Some(_) => {
                        let mut answer = work.answer(&text, length);
                        answer.flagged = Some("the critic's verdict could not be read".to_owned());
                        return Ok(Outcome::Answer(answer));
                    }
                },
            };
            cx.emit(
                "draft_judged",
                &serde_json::json!({"round": round, "verdict": verdict}),
            );
            if verdict.approved && !outdated {
                return within_budget(&cx, work.answer(&text, length)).await;
            }
            work.judged(Draft {
                text,
                length,
                score: verdict.score,
                critique: verdict.critique.clone(),
                outdated,
            });
            if round >= last {
                break;
            }
            let critique = verdict.critique.as_str();
            let revise = self.revise.fill(&[("critique", critique)]);
            work.thread.conversation.push(Message::synthetic(revise));
        }
        match work.best() {
            Some(answer) => within_budget(&cx, answer).await,
            None => Ok(Outcome::stopped(StopReason::Other(
                "no draft was written".to_owned(),
            ))),
        }
    }
}

impl Reflection {
    /// Writes the next draft; any other outcome ends the work.
    async fn draft(&self, work: &mut Work<'_>) -> Result<Answer, AgentError> {
        let limits = LoopOptions::of(work.thread.cx, self.max_steps);
        let mut author = work.thread.next()?.options(limits).inner().gated();
        let outcome = author.run().await?;
        work.thread.conversation = author.transcript().clone();
        if !author.steered().is_empty() {
            // Earlier drafts do not take a person's later message into account.
            work.best = None;
        }
        match outcome {
            Outcome::Answer(answer) => Ok(answer),
            outcome => Err(AgentError::early(outcome)),
        }
    }

    /// Judges the last draft, and returns the messages that people sent meanwhile.
    async fn judge(
        &self,
        work: &Work<'_>,
    ) -> Result<(Result<Critique, AgentError>, Vec<Arc<Message>>), AgentError> {
        let mut conversation = work.thread.conversation.clone();
        let question = self.judge.fill(&[("task", &task(work.thread.cx))]);
        conversation.push(Message::user(question));
        let mut critic = AgentLoop::new(work.thread.cx)?
            .instructions(self.critic.to_string())
            .tools(ToolSet::default())
            .conversation(conversation)
            .options(LoopOptions::of_steps(8))
            .inner()
            .typed::<Critique>()?;
        let verdict = critic.run_as::<Critique>().await;
        Ok((verdict, critic.steered().to_vec()))
    }
}

/// The drafts so far.
struct Work<'a> {
    thread: Thread<'a>,
    best: Option<Draft>,
    /// The objections of policies to the current draft.
    flagged: Option<String>,
}

impl<'a> Work<'a> {
    fn new(cx: &'a RunContext) -> Self {
        Self {
            thread: Thread::new(cx),
            best: None,
            flagged: None,
        }
    }

    fn judged(&mut self, draft: Draft) {
        let is_worse = |best: &Draft| !best.outdated && draft.score < best.score;
        if draft.outdated || !self.best.as_ref().is_some_and(is_worse) {
            self.best = Some(draft);
        }
    }

    /// This draft as the answer, with the conversation up to it.
    fn answer(&self, text: &str, length: usize) -> Answer {
        let said = self.thread.said_until(length);
        let mut answer = Answer::text(text).with_messages(said);
        answer.flagged.clone_from(&self.flagged);
        answer
    }

    fn best(&self) -> Option<Answer> {
        let best = self.best.as_ref()?;
        let mut answer = self.answer(&best.text, best.length);
        answer.flagged = Some(format!("not approved: {}", best.critique));
        Some(answer)
    }

    /// A stop after this draft, with all messages.
    fn stop(&mut self, reason: StopReason, text: String) -> Outcome {
        let mut outcome = self.thread.stop(reason, text);
        if let Outcome::Stopped { partial, .. } = &mut outcome
            && let Some(partial) = partial
        {
            partial.flagged.clone_from(&self.flagged);
        }
        outcome
    }

    /// A draft that did not become an answer: the best draft so far is the partial answer.
    fn end_early(&mut self, outcome: Outcome) -> Outcome {
        match (outcome, self.best.take()) {
            (Outcome::Stopped { reason, .. }, Some(best)) if best.outdated => {
                self.stop(reason, best.text)
            }
            (Outcome::Stopped { reason, .. }, Some(best)) => Outcome::Stopped {
                reason,
                partial: Some(self.answer(&best.text, best.length)),
            },
            (outcome, _) => outcome,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::behaviors::settings;

    #[test]
    fn a_prompt_of_ones_own_needs_its_places() {
        let set = settings::<Reflection>(&json!({"max_rounds": 1, "revise": "Mind {critique}"}));
        assert_eq!(set.unwrap().max_rounds, 1);
        let reason = settings::<Reflection>(&json!({"revise": "Again."})).unwrap_err();
        assert!(reason.contains("{critique}"), "{reason}");
    }
}
