//! Members that speak in turns until it is enough: what loops and conversations share.

use std::time::Duration;

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, Answer, Outcome, StopReason},
};

use super::{
    OnFailure, Termination, Utterance,
    conversation::{last, with_transcript},
    member::{MemberEnd, ask},
};

pub(super) struct Turns<'a> {
    pub(super) members: Vec<&'a str>,
    /// The condition by which it ends, asked after each answer.
    pub(super) until: Option<&'a Termination>,
    /// The condition by which it goes on, asked before each round of what was said last, and
    /// before the first of the task.
    pub(super) as_long_as: Option<&'a Termination>,
    /// How many turns there are at most.
    pub(super) most: usize,
    /// How many of the last turns a member sees.
    pub(super) seen: usize,
    pub(super) on_failure: OnFailure,
    pub(super) limit: Option<Duration>,
}

impl Turns<'_> {
    /// Lets the members speak, each with the task and what it sees of what was said, until the
    /// condition holds, the one to go on holds no more, or one of them exits the loop. When the
    /// turns are used up that is the end of the work, or, where a condition is set, the stop
    /// `used_up` with the last answer as a partial one.
    pub(super) async fn run(
        &self,
        cx: &RunContext,
        task: &str,
        used_up: StopReason,
    ) -> Result<Outcome, AgentError> {
        let mut said: Vec<Utterance> = Vec::new();
        let turns = self.members.iter().copied().cycle().enumerate();
        for (place, member) in turns.take(self.most) {
            if place % self.members.len() == 0 && !self.goes_on(task, &said) {
                return Ok(Outcome::answer(said.last().map_or(task, |last| &last.text)));
            }
            let asked = with_transcript(task, &said[said.len().saturating_sub(self.seen)..]);
            let end = ask(cx, member, asked, self.limit).await?;
            if let MemberEnd::Stopped(StopReason::LoopExited, text) = end {
                let answer = if text.is_empty() { last(&said) } else { &text };
                return Ok(Outcome::answer(answer));
            }
            if !end.is_answer() && (end.leaves() || self.on_failure == OnFailure::Stop) {
                return end.into_outcome(last(&said));
            }
            said.push(Utterance::new(member, end.told()));
            if self.until.is_some_and(|until| until.is_met(&said)) {
                return Ok(Outcome::answer(last(&said)));
            }
        }
        let is_done = match (self.until, self.as_long_as) {
            (None, None) => true,
            (_, Some(_)) => !self.goes_on(task, &said),
            (Some(_), None) => false,
        };
        Ok(match is_done {
            true => Outcome::answer(last(&said)),
            false => Outcome::Stopped {
                reason: used_up,
                partial: Some(Answer::text(last(&said))),
            },
        })
    }

    fn goes_on(&self, task: &str, said: &[Utterance]) -> bool {
        let last = said.last().cloned();
        let last = last.unwrap_or_else(|| Utterance::new("task", task));
        self.as_long_as.is_none_or(|holds| holds.is_met(&[last]))
    }
}
