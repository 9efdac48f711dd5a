//! Looking back over what an agent really did.

use std::collections::{BTreeSet, VecDeque};

use ghostlight_actors::{
    run::{Policy, PolicyContext},
    vocabulary::{
        AgentError, Digest, ModelRequest, ModelResponse, Outcome, Role, RunId, Scope, ToolCall,
        ToolResult, ToolStatus, Transcript,
    },
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checked, at_least_one, is_bookkeeping, signature, tell};

/// How many steps, and how many failures, are remembered.
const REMEMBERED: usize = 200;
/// How many earlier turns the session's record has.
const TURNS: usize = 20;

/// Looks back over the recorded history of the agent's session: the calls that were really made,
/// with their results, and how its turns ended. What it finds is told to the model, and to observers
/// as an event.
///
/// | event | when |
/// |---|---|
/// | `repeated_calls` | the same calls of a step had the same results more than `same_calls` times, wherever in the history |
/// | `similar_errors` | a tool failed `similar_errors` times in a similar way |
/// | `long_turns` | the earlier turns took more than `average_steps` steps on average |
/// | `few_answers` | fewer than `least_answered` of the earlier turns ended with an answer |
///
/// The first two are told after the step that adds to them, the others once at the beginning of a
/// turn, over the last 20 turns when there are `after_turns`. Bounds stay as they are: an agent whose
/// turns end too soon is given more steps by whoever sets its bound.
///
/// [`Repetition`](super::Repetition) ends a run that goes round in circles; this policy ends nothing,
/// and also sees what returns after other steps or in a later turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SelfReflection {
    /// How often the same calls may have the same results before the model is told.
    pub same_calls: u32,
    /// How many similar failures of a tool are told.
    pub similar_errors: u32,
    /// The average number of steps of a turn above which the model is told.
    pub average_steps: u32,
    /// The share of turns that end with an answer below which the model is told, from 0 to 1.
    pub least_answered: f64,
    /// How many turns there must be before they are judged together, at most 20.
    pub after_turns: u32,
    #[serde(skip)]
    state: SelfReflectionState,
    /// The model calls of this leg.
    #[serde(skip)]
    steps: u32,
    /// The findings over earlier turns, until the first request tells them.
    #[serde(skip)]
    of_turns: Vec<Finding>,
}

impl Default for SelfReflection {
    fn default() -> Self {
        Self {
            same_calls: 3,
            similar_errors: 3,
            average_steps: 7,
            least_answered: 0.6,
            after_turns: 5,
            state: SelfReflectionState::default(),
            steps: 0,
            of_turns: Vec::new(),
        }
    }
}

impl Checked for SelfReflection {
    fn check(&self) -> Result<(), String> {
        at_least_one("same_calls", self.same_calls)?;
        at_least_one("similar_errors", self.similar_errors)?;
        at_least_one("after_turns", self.after_turns)?;
        if self.after_turns as usize > TURNS {
            return Err(format!("after_turns must be at most {TURNS}"));
        }
        match (0.0..=1.0).contains(&self.least_answered) {
            true => Ok(()),
            false => Err("least_answered must be from 0 to 1".to_owned()),
        }
    }
}

/// A pattern in the recorded history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// The same calls of a step had the same results.
    RepeatedCalls {
        /// The calls.
        calls: String,
        /// How often, with the last time.
        times: u32,
    },
    /// A tool failed in a similar way.
    SimilarErrors {
        /// The tool.
        tool: String,
        /// The last of the errors.
        error: String,
        /// How often, with the last time.
        times: u32,
    },
    /// The turns took many steps.
    LongTurns {
        /// The average number of their steps.
        average: f64,
        /// How many turns ended with an outcome.
        turns: u32,
    },
    /// Few turns ended with an answer.
    FewAnswers {
        /// How many did.
        answered: u32,
        /// Of how many turns.
        turns: u32,
    },
}

impl Finding {
    fn words(&self) -> String {
        match self {
            Self::RepeatedCalls { calls, times } => format!(
                "You have made these calls {times} times, with the same results each time: \
                 {calls}. They bring nothing new: take another way, or answer with what you have \
                 and say what is missing."
            ),
            Self::SimilarErrors { tool, error, times } => format!(
                "`{tool}` has failed {times} times in a similar way, the last time with: {error}. \
                 Find the cause before you call it again, or do without it."
            ),
            Self::LongTurns { average, turns } => format!(
                "Your last {turns} tasks took {average:.1} steps on average. Plan first, and take \
                 the shortest way."
            ),
            Self::FewAnswers { answered, turns } => format!(
                "Of your last {turns} tasks {answered} ended with an answer. Take on less at once, \
                 and answer with what you have before your steps are used up."
            ),
        }
    }
}

/// The state machine of [`SelfReflection`]: the steps and failures that were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfReflectionState {
    steps: VecDeque<Digest>,
    failures: VecDeque<(String, BTreeSet<String>)>,
}

impl SelfReflectionState {
    /// A step made these calls with these results. The findings count how often that was, from 1.
    pub fn did(&mut self, calls: &[ToolCall], results: &[ToolResult]) -> Vec<Finding> {
        let done = calls.iter().zip(results);
        let done: Vec<_> = done
            .filter(|(call, _)| !is_bookkeeping(&call.name))
            .collect();
        if done.is_empty() {
            return Vec::new();
        }
        let line = |(call, result): &(&ToolCall, &ToolResult)| {
            format!("{} = {:?} {}", signature(call), result.status, result.text)
        };
        let lines: Vec<String> = done.iter().map(line).collect();
        let step = Digest::of(lines.join("\n").as_bytes());
        let signatures: Vec<String> = done.iter().map(|(call, _)| signature(call)).collect();
        let mut found = vec![Finding::RepeatedCalls {
            calls: cut(&signatures.join("; "), 300).into_owned(),
            times: 1 + count(&self.steps, |other| *other == step),
        }];
        remember(&mut self.steps, step);
        let failed = |(_, result): &&(&ToolCall, &ToolResult)| result.status == ToolStatus::Error;
        for (call, result) in done.iter().filter(failed) {
            let failure = (call.name.clone(), words(&result.text));
            let times = 1 + count(&self.failures, |other| are_similar(other, &failure));
            // Of similar failures of one step the last tells the count.
            found.retain(|other| {
                !matches!(other, Finding::SimilarErrors { tool, error, .. }
                    if are_similar(&(tool.clone(), words(error)), &failure))
            });
            found.push(Finding::SimilarErrors {
                tool: call.name.clone(),
                error: cut(&result.text, 300).into_owned(),
                times,
            });
            remember(&mut self.failures, failure);
        }
        found
    }

    /// Goes through a conversation, as if its steps were done now.
    pub fn recall(&mut self, conversation: &Transcript) {
        let mut calls: Vec<ToolCall> = Vec::new();
        for message in conversation.messages() {
            match message.role {
                Role::Assistant => calls = message.tool_calls().cloned().collect(),
                Role::Tool => {
                    let results: Vec<ToolResult> = message.tool_results().cloned().collect();
                    self.did(&calls, &results);
                    calls.clear();
                }
                _ => {}
            }
        }
    }
}

fn count<T>(remembered: &VecDeque<T>, is_same: impl Fn(&T) -> bool) -> u32 {
    let same = remembered.iter().filter(|other| is_same(other)).count();
    u32::try_from(same).unwrap_or(u32::MAX)
}

fn remember<T>(remembered: &mut VecDeque<T>, new: T) {
    if remembered.len() >= REMEMBERED {
        remembered.pop_front();
    }
    remembered.push_back(new);
}

/// The words of an error. Numbers are left out, since they differ from time to time.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphabetic());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether two failures are of one tool, with more than half of all their words in common.
fn are_similar(one: &(String, BTreeSet<String>), other: &(String, BTreeSet<String>)) -> bool {
    let shared = one.1.intersection(&other.1).count();
    let all = one.1.union(&other.1).count();
    one.0 == other.0 && (2 * shared > all || all == 0)
}

/// One turn of the session's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PastTurn {
    run: RunId,
    /// `None` for a turn that failed or has not ended.
    steps: Option<u32>,
    answered: bool,
}

impl SelfReflection {
    /// The key of the agent's record in the session's state.
    fn key(cx: &PolicyContext<'_>) -> String {
        format!("self_reflection:{}", cx.agent().name)
    }

    fn is_worth_telling(&self, finding: &Finding) -> bool {
        match finding {
            Finding::RepeatedCalls { times, .. } => *times > self.same_calls,
            Finding::SimilarErrors { times, .. } => *times >= self.similar_errors,
            Finding::LongTurns { average, turns } => {
                *turns >= self.after_turns && *average > f64::from(self.average_steps)
            }
            Finding::FewAnswers { answered, turns } => {
                *turns >= self.after_turns
                    && f64::from(*answered) < self.least_answered * f64::from(*turns)
            }
        }
    }

    /// The findings over these turns that are worth telling.
    fn judge(&self, turns: &[PastTurn]) -> Vec<Finding> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let steps: Vec<u32> = turns.iter().filter_map(|turn| turn.steps).collect();
        let sum: f64 = steps.iter().copied().map(f64::from).sum();
        let answered = turns.iter().filter(|turn| turn.answered).count();
        let mut found = vec![
            Finding::LongTurns {
                average: sum / f64::from(number(steps.len()).max(1)),
                turns: number(steps.len()),
            },
            Finding::FewAnswers {
                answered: number(answered),
                turns: number(turns.len()),
            },
        ];
        found.retain(|finding| self.is_worth_telling(finding));
        found
    }
}

impl Policy for SelfReflection {
    async fn before_run(&mut self, cx: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        self.state.recall(cx.transcript());
        let run = cx.run();
        let with_this = move |turns: Option<Vec<PastTurn>>| {
            let mut turns = turns.unwrap_or_default();
            if !turns.iter().any(|turn| turn.run == run) {
                turns.push(PastTurn {
                    run,
                    steps: None,
                    answered: false,
                });
                let excess = turns.len().saturating_sub(TURNS + 1);
                turns.drain(..excess);
            }
            turns
        };
        let state = cx.state(Scope::Session);
        let mut turns = state.update(Self::key(cx), with_this).await?;
        turns.retain(|turn| turn.run != run);
        self.of_turns = self.judge(&turns);
        tell(cx, &self.of_turns);
        Ok(None)
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        for finding in self.of_turns.drain(..) {
            cx.remind(finding.words());
        }
        Ok(None)
    }

    async fn after_model(
        &mut self,
        _: &PolicyContext<'_>,
        _: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.steps = self.steps.saturating_add(1);
        Ok(None)
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let mut found = self.state.did(calls, results);
        found.retain(|finding| self.is_worth_telling(finding));
        tell(cx, &found);
        for finding in found {
            cx.defer(finding.words());
        }
        Ok(())
    }

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let (run, steps) = (cx.run(), self.steps);
        let answered = matches!(outcome, Outcome::Answer(_));
        let with_end = move |turns: Option<Vec<PastTurn>>| {
            let mut turns = turns.unwrap_or_default();
            if let Some(turn) = turns.iter_mut().find(|turn| turn.run == run) {
                turn.steps = Some(turn.steps.unwrap_or(0).saturating_add(steps));
                turn.answered = answered;
            }
            turns
        };
        let state = cx.state(Scope::Session);
        state.update(Self::key(cx), with_end).await?;
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(state: &mut SelfReflectionState, text: &str, error: Option<&str>) -> Vec<Finding> {
        let call = ToolCall::new("1", "look", json!({ "text": text }));
        let result = match error {
            Some(error) => ToolResult::new(&call, ToolStatus::Error, error),
            None => ToolResult::new(&call, ToolStatus::Success, text),
        };
        state.did(&[call], &[result])
    }

    fn times(found: &[Finding]) -> Vec<u32> {
        let times = found.iter().map(|finding| match finding {
            Finding::RepeatedCalls { times, .. } | Finding::SimilarErrors { times, .. } => *times,
            other => panic!("{other:?}"),
        });
        times.collect()
    }

    #[test]
    fn a_step_counts_however_far_apart_and_only_with_the_same_results() {
        let mut state = SelfReflectionState::default();
        for (text, expected) in [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("d", 1), ("a", 3)] {
            assert_eq!(times(&step(&mut state, text, None)), [expected], "{text}");
        }
        assert_eq!(times(&step(&mut state, "a", Some("no"))), [1, 1]);
        assert_eq!(times(&step(&mut state, "a", None)), [4]);
    }

    #[test]
    fn errors_are_similar_by_their_words_and_not_by_their_numbers() {
        let mut state = SelfReflectionState::default();
        let errors = [
            ("no such file: 17", 1),
            ("No such file: 8.", 2),
            ("the disk is full", 1),
            ("", 1),
            ("?", 2),
            ("no such file here", 3),
        ];
        for (place, (error, expected)) in errors.into_iter().enumerate() {
            let found = step(&mut state, &place.to_string(), Some(error));
            assert_eq!(times(&found), [1, expected], "{error}");
        }
    }

    #[test]
    fn similar_errors_of_one_step_are_one_finding() {
        let mut state = SelfReflectionState::default();
        let calls: Vec<ToolCall> = (0..4)
            .map(|n| ToolCall::new(n.to_string(), "look", json!({ "n": n })))
            .collect();
        let failed =
            |call| ToolResult::new(call, ToolStatus::Error, format!("no page {}", call.id));
        let results: Vec<ToolResult> = calls.iter().map(failed).collect();
        assert_eq!(times(&state.did(&calls, &results)), [1, 4]);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut state = SelfReflectionState::default();
        for number in 0..3 * REMEMBERED {
            step(&mut state, &number.to_string(), Some("no"));
        }
        let remembered = (state.steps.len(), state.failures.len());
        assert_eq!(remembered, (REMEMBERED, REMEMBERED));
    }
}
