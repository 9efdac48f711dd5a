//! How the members of a workflow end, and how the workflow ends then.

use ghostlight_actors::vocabulary::{
    AgentError, Answer, ErrorKind, OperationError, Outcome, StopReason,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Utterance,
    conversation::{together, transcript},
};

/// The reaction of a workflow to a member that fails, or stops before its task is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFailure {
    /// The workflow ends as the member did: failed, or stopped for the same reason.
    #[default]
    Stop,
    /// The workflow continues, and the following members are told that this one failed.
    GoOn,
}

impl OnFailure {
    /// Whether the workflow ends as this member did.
    pub(super) fn ends_by(self, end: &MemberEnd) -> bool {
        end.leaves() || self == Self::Stop && !end.is_answer()
    }
}

/// The end of a member's task.
#[derive(Clone, Debug)]
pub(super) enum MemberEnd {
    /// It answered.
    Answered(String),
    /// It stopped before its end, with what it had made so far.
    Stopped(StopReason, String),
    /// It failed.
    Failed(OperationError),
}

impl MemberEnd {
    /// Its answer, or a text that says why there is none.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Answered(text) => text.clone(),
            Self::Stopped(reason, text) if text.is_empty() => format!("[stopped: {reason}]"),
            Self::Stopped(reason, text) => format!("{text}\n[stopped: {reason}]"),
            Self::Failed(error) => format!("[failed: {error}]"),
        }
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// The text that it made, complete or not: its answer, or what it had when it stopped.
    pub(super) fn made(&self) -> Option<&str> {
        match self {
            Self::Answered(text) | Self::Stopped(_, text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether it ends the workflow, whatever the settings say.
    pub(super) fn leaves(&self) -> bool {
        let reason = match self {
            Self::Stopped(reason, _) => reason,
            _ => return false,
        };
        matches!(reason, StopReason::Escalated(_) | StopReason::LoopExited)
    }

    /// Whether the task may be tried again. Not if its effect may have happened already, if
    /// somebody refused or cancelled it, or if no budget is left.
    pub(super) fn may_be_tried_again(&self) -> bool {
        match self {
            Self::Answered(_) | Self::Stopped(StopReason::BudgetExhausted(_), _) => false,
            Self::Stopped(..) => true,
            Self::Failed(error) => may_be_repeated(error),
        }
    }

    /// The workflow's end, if it ends as this member did. `made` is what all members have made, this
    /// one included; where it is empty, what this one made takes its place.
    pub(super) fn into_outcome(self, made: String) -> Result<Outcome, AgentError> {
        match self {
            Self::Answered(text) => Ok(Outcome::answer(text)),
            Self::Stopped(reason, own) => {
                Ok(stopped(reason, if made.is_empty() { own } else { made }))
            }
            Self::Failed(error) => Err(error.into()),
        }
    }

    /// The workflow's end, if it ends as this member did after the others made this.
    pub(super) fn into_outcome_after(
        self,
        by: &str,
        mut made: Vec<Utterance>,
    ) -> Result<Outcome, AgentError> {
        made.extend(self.made().map(|own| Utterance::new(by, own)));
        self.into_outcome(together(&made))
    }
}

/// How the members ended that worked so far, each under the name of its work.
#[derive(Default)]
pub(super) struct Ends(Vec<(String, MemberEnd)>);

impl FromIterator<(String, MemberEnd)> for Ends {
    fn from_iter<T: IntoIterator<Item = (String, MemberEnd)>>(ends: T) -> Self {
        Self(ends.into_iter().collect())
    }
}

impl Ends {
    pub(super) fn push(&mut self, by: impl Into<String>, end: MemberEnd) {
        self.0.push((by.into(), end));
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &MemberEnd> {
        self.0.iter().map(|(_, end)| end)
    }

    /// The answer of each, or why there is none.
    pub(super) fn told(&self) -> Vec<Utterance> {
        let told = self.0.iter();
        told.map(|(by, end)| Utterance::new(by.as_str(), end.told()))
            .collect()
    }

    /// The text of each that made one, complete or not.
    pub(super) fn made(&self) -> Vec<Utterance> {
        let made = self.0.iter();
        made.filter_map(|(by, end)| Some(Utterance::new(by.as_str(), end.made()?)))
            .collect()
    }

    /// The answers alone.
    pub(super) fn answers(&self) -> Vec<Utterance> {
        let answers = self.0.iter().filter(|(_, end)| end.is_answer());
        answers
            .map(|(by, end)| Utterance::new(by.as_str(), end.told()))
            .collect()
    }

    /// Puts what was made since instead of what the same members made before.
    pub(super) fn take_over(&mut self, since: &Self) {
        for (by, end) in since.0.iter().filter(|(_, end)| end.made().is_some()) {
            match self.0.iter_mut().find(|(earlier, _)| earlier == by) {
                Some((_, earlier)) => *earlier = end.clone(),
                None => self.push(by.as_str(), end.clone()),
            }
        }
    }

    /// Why those have no answer that have none.
    pub(super) fn reasons(&self) -> String {
        let unanswered = self.0.iter().filter(|(_, end)| !end.is_answer());
        let reasons: Vec<String> = unanswered
            .map(|(by, end)| format!("{by}: {}", end.told()))
            .collect();
        reasons.join("; ")
    }

    /// The last answer; empty if nobody answered.
    pub(super) fn last_answer(&self) -> &str {
        let last = self.iter().rev().find(|end| end.is_answer());
        last.and_then(MemberEnd::made).unwrap_or_default()
    }

    /// All that was made, each text under the name of its work; the unfinished text of one alone
    /// as it is.
    fn all_made(&self) -> String {
        match self.made().as_slice() {
            [alone] if !self.iter().any(MemberEnd::is_answer) => alone.text.clone(),
            made => transcript(made),
        }
    }

    /// The workflow's end, as the first of these members did that ends it.
    pub(super) fn ending(
        &self,
        ends: impl Fn(&MemberEnd) -> bool,
    ) -> Option<Result<Outcome, AgentError>> {
        let end = self.iter().find(|end| ends(end))?;
        Some(end.clone().into_outcome(self.all_made()))
    }

    /// The reason for which a workflow stops where too few answered: the one of a member that
    /// escalated, or else of one whose budget was used up, or else of the last that stopped.
    pub(super) fn stop_reason(&self) -> Option<&StopReason> {
        let reasons = self.iter().filter_map(|end| match end {
            MemberEnd::Stopped(reason, _) => Some(reason),
            _ => None,
        });
        reasons.max_by_key(|reason| match reason {
            StopReason::Escalated(_) => 2,
            StopReason::BudgetExhausted(_) => 1,
            _ => 0,
        })
    }

    /// The workflow's end where too few answered and some stopped before their end.
    pub(super) fn stopped(&self) -> Option<Outcome> {
        let reason = self.stop_reason()?.clone();
        Some(stopped(reason, self.all_made()))
    }

    /// The end of a workflow whose members build on each other, as this member did.
    pub(super) fn ended_by(&self, by: &str, end: MemberEnd) -> Result<Outcome, AgentError> {
        let mut ends = self.0.iter().rev();
        let answer = ends.clone().find(|(_, end)| end.is_answer());
        let last = answer.or_else(|| ends.find(|(_, end)| end.made().is_some()));
        let last = last.and_then(|(by, end)| Some(Utterance::new(by.as_str(), end.made()?)));
        end.into_outcome_after(by, last.into_iter().collect())
    }

    /// The workflow's end where nobody answered: as one that stopped, or else as the last one.
    /// `None` where somebody answered, or there was nothing to do.
    pub(super) fn without_answer(&self) -> Option<Result<Outcome, AgentError>> {
        if self.iter().any(MemberEnd::is_answer) {
            return None;
        }
        let failed = || Some(self.iter().next_back()?.clone().into_outcome(String::new()));
        self.stopped().map(Ok).or_else(failed)
    }

    /// The workflow's end when all have had their turn: with the last answer.
    pub(super) fn into_end(self) -> Result<Outcome, AgentError> {
        let end = self.without_answer();
        end.unwrap_or_else(|| Ok(Outcome::answer(self.last_answer())))
    }
}

/// A stop with this text as its partial answer, if it is not empty.
pub(super) fn stopped(reason: StopReason, text: String) -> Outcome {
    let partial = (!text.is_empty()).then(|| Answer::text(text));
    Outcome::Stopped { reason, partial }
}

/// Whether a task that failed so can be repeated. The failure of a delegated task is judged by its
/// cause, too.
fn may_be_repeated(error: &OperationError) -> bool {
    let repeats = !matches!(
        error.kind,
        ErrorKind::InDoubt
            | ErrorKind::StillRunning
            | ErrorKind::Cancelled
            | ErrorKind::Denied
            | ErrorKind::Expired
            | ErrorKind::Store
            | ErrorKind::Budget(_)
    );
    let cause = match error.cause.as_deref() {
        Some(AgentError::Operation(cause)) => may_be_repeated(cause),
        _ => true,
    };
    repeats && cause
}
