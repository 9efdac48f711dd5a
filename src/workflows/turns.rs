//! Members that take turns until a condition holds; loops and conversations share this.

use std::time::Duration;

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, Outcome, StopReason},
};

use super::{
    OnFailure, Termination, Utterance,
    conversation::with_transcript,
    ends::{Ends, MemberEnd, stopped},
    member::ask,
    termination::Listening,
};

pub(super) struct Turns<'a> {
    pub(super) members: Vec<&'a str>,
    /// The condition that ends the turns, checked after each answer.
    pub(super) until: Option<&'a Termination>,
    /// The condition to go on, checked before each round on the last answer, and before the first
    /// round on the task.
    pub(super) as_long_as: Option<&'a Termination>,
    /// The most turns.
    pub(super) most: usize,
    /// How many of the last turns a member sees.
    pub(super) seen: usize,
    pub(super) on_failure: OnFailure,
    pub(super) limit: Option<Duration>,
}

impl Turns<'_> {
    /// Lets the members take turns, each with the task and what it sees of the conversation, until
    /// the condition holds, the condition to go on no longer holds, or a member exits the loop.
    /// When the turns are used up, the work is done; but if a condition is set, it stops as
    /// `used_up` with the last answer as a partial one.
    pub(super) async fn run(
        &self,
        cx: &RunContext,
        task: &str,
        used_up: StopReason,
    ) -> Result<Outcome, AgentError> {
        let mut said: Vec<Utterance> = Vec::new();
        let mut listening = self.until.map(Listening::new);
        let mut ends = Ends::default();
        let turns = self.members.iter().copied().cycle().enumerate();
        for (place, member) in turns.take(self.most) {
            if place % self.members.len() == 0 && !self.goes_on(task, &said) {
                return match place {
                    0 => Ok(Outcome::answer(task)),
                    _ => ends.into_end(),
                };
            }
            let asked = with_transcript(task, &said[said.len().saturating_sub(self.seen)..]);
            let end = ask(cx, member, asked, self.limit).await?;
            if let MemberEnd::Stopped(StopReason::LoopExited, text) = end {
                let answer = match text.as_str() {
                    "" => ends.last_answer(),
                    text => text,
                };
                return Ok(Outcome::answer(answer));
            }
            if self.on_failure.ends_by(&end) {
                return ends.ended_by(member, end);
            }
            let told = Utterance::new(member, end.told());
            ends.push(member, end);
            if let Some(listening) = &mut listening {
                listening.hear(&told);
                if listening.is_over() {
                    return ends.into_end();
                }
            }
            said.push(told);
        }
        let is_done = match (self.until, self.as_long_as) {
            (None, None) => true,
            (_, Some(_)) => !self.goes_on(task, &said),
            (Some(_), None) => false,
        };
        match ends.without_answer() {
            None if !is_done => Ok(stopped(used_up, ends.last_answer().to_owned())),
            _ => ends.into_end(),
        }
    }

    fn goes_on(&self, task: &str, said: &[Utterance]) -> bool {
        let last = said.last().cloned();
        let last = last.unwrap_or_else(|| Utterance::new("task", task));
        self.as_long_as.is_none_or(|holds| holds.is_met(&[last]))
    }
}
