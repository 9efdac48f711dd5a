//! Synthesis: the answer is written once more, from what the tools found.

use std::collections::{HashSet, VecDeque};

use ghostlight_actors::{
    run::{Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, Digest, ToolCall, ToolResult, ToolStatus},
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Checked, at_least_one,
    evidence::{finds_out, found, says_nothing_found},
};

/// How many characters of an observation the model is reminded of.
const REMINDER: usize = 120;

/// Rejects the first answer after tools found something new, once: the model is reminded of what was
/// observed, and writes the answer from it. The answer must cite at least one observation, as
/// `[O1]`; one that cites none although it is told so often enough is flagged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Synthesis {
    /// How many observations are kept; older ones are forgotten.
    pub max_observations: u32,
    /// How often an answer without a citation is rejected.
    pub patience: u32,
    #[serde(skip)]
    state: SynthesisState,
}

impl Default for Synthesis {
    fn default() -> Self {
        Self {
            max_observations: 32,
            patience: 2,
            state: SynthesisState::default(),
        }
    }
}

impl Checked for Synthesis {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_observations", self.max_observations)
    }
}

/// A result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Observation {
    /// The label that an answer cites: `O1` and so on over the whole run.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The beginning of what was found.
    pub content: String,
}

/// The state machine of [`Synthesis`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SynthesisState {
    /// The results since the last synthesis, oldest first.
    pub observations: VecDeque<Observation>,
    /// Whether something was found that no answer was written from.
    pub incomplete: bool,
    /// The labels from which syntheses were written, the latest last; an answer must cite one of them.
    pub history: Vec<Vec<Observation>>,
    observed: u32,
    /// The digests of what was found, so that finding it again is not a new observation.
    known: HashSet<Digest>,
    /// How often an answer cited nothing; `None` while no answer has to.
    uncited: Option<u32>,
}

impl SynthesisState {
    /// A tool found something. At most this many observations are kept. `None` for what was found
    /// before.
    pub fn observed(&mut self, tool: &str, content: &str, most: u32) -> Option<&Observation> {
        if !self.known.insert(Digest::of(content.trim().as_bytes())) {
            return None;
        }
        self.observed += 1;
        self.incomplete = true;
        if self.observations.len() >= most.max(1) as usize {
            self.observations.pop_front();
        }
        self.observations.push_back(Observation {
            id: format!("O{}", self.observed),
            tool: tool.to_owned(),
            content: cut(content.trim(), REMINDER).into_owned(),
        });
        self.observations.back()
    }

    /// An answer came; the number is that of the observations in a synthesis that it completed.
    pub fn answered(&mut self, text: &str, patience: u32) -> (Verdict, Option<usize>) {
        if self.incomplete {
            self.incomplete = false;
            self.uncited = Some(0);
            let record: Vec<Observation> = self.observations.drain(..).collect();
            let line = |o: &Observation| format!("[{}] {}: {}", o.id, o.tool, o.content);
            let lines: Vec<String> = record.iter().map(line).collect();
            let reason = format!(
                "Before you answer, put together what was found:\n{}\nWrite the answer from these \
                 observations, and cite those that you use, as [{}].",
                lines.join("\n"),
                record.first().map_or("O1", |first| &first.id),
            );
            let count = record.len();
            self.history.push(record);
            return (Verdict::Reject(reason), Some(count));
        }
        let Some(rejected) = self.uncited else {
            return (Verdict::Accept, None);
        };
        let mut known = self.history.iter().flatten();
        if known.any(|observation| text.contains(&format!("[{}]", observation.id))) {
            self.uncited = None;
            return (Verdict::Accept, None);
        }
        if rejected >= patience {
            let reason = "the answer cites none of the observations".to_owned();
            return (Verdict::Flag(reason), None);
        }
        self.uncited = Some(rejected + 1);
        let reason = "The answer cites no observation: write it from what was found, and cite what \
                      you use, as [O1].";
        (Verdict::Reject(reason.to_owned()), None)
    }
}

impl Policy for Synthesis {
    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let made = calls
            .iter()
            .zip(results)
            .filter(|(call, result)| result.status == ToolStatus::Success && finds_out(&call.name));
        for (call, result) in made {
            let items = found(call, result);
            let mut texts: Vec<&str> = items.iter().map(|item| item.content.as_str()).collect();
            if texts.is_empty() && !says_nothing_found(&result.text) {
                texts.push(&result.text);
            }
            for text in texts {
                if let Some(observation) =
                    self.state
                        .observed(&result.name, text, self.max_observations)
                {
                    cx.emit("observation_recorded", observation);
                }
            }
        }
        Ok(())
    }

    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        let (verdict, completed) = self.state.answered(draft, self.patience);
        if let Some(count) = completed {
            cx.emit("synthesis_complete", &json!({ "observations": count }));
        }
        Ok(verdict)
    }
}

/// One test for each row of the specification's table, and for what it lacks.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;

    #[test]
    fn a_success_is_an_observation() {
        let mut state = SynthesisState::default();
        let observed = state.observed("search", "42", 9).unwrap().clone();
        assert_eq!(
            (observed.id.as_str(), observed.content.as_str()),
            ("O1", "42")
        );
        assert!(state.incomplete);
    }

    #[test]
    fn the_same_thing_found_twice_is_one_observation() {
        let mut state = SynthesisState::default();
        state.observed("search", "42", 9);
        state.answered("It is 42.", 2);
        assert_eq!(state.observed("search", "42 ", 9), None);
        assert!(!state.incomplete);
    }

    #[test]
    fn the_first_answer_is_rejected_once_and_the_record_is_kept() {
        let mut state = SynthesisState::default();
        state.observed("search", "42", 9);
        state.observed("browse", "43", 9);
        let (verdict, completed) = state.answered("It is 42.", 2);
        let Verdict::Reject(reason) = verdict else {
            panic!("it is rejected");
        };
        assert!(
            reason.contains("[O1] search: 42\n[O2] browse: 43"),
            "{reason}"
        );
        assert_eq!(completed, Some(2));
        assert!(!state.incomplete && state.observations.is_empty());
        assert_eq!(state.history[0].len(), 2);
        assert_eq!(state.answered("It is 42 [O1].", 2), (Verdict::Accept, None));
    }

    #[test]
    fn an_answer_without_observations_is_accepted() {
        assert_eq!(
            SynthesisState::default().answered("hi", 2),
            (Verdict::Accept, None)
        );
    }

    #[test]
    fn the_second_answer_must_cite_and_is_flagged_in_the_end() {
        let mut state = SynthesisState::default();
        state.observed("search", "42", 9);
        state.answered("It is 42.", 2);
        for _ in 0..2 {
            let (verdict, _) = state.answered("It is 42 [O7].", 2);
            assert!(matches!(verdict, Verdict::Reject(_)));
        }
        assert!(matches!(state.answered("It is 42.", 2).0, Verdict::Flag(_)));
    }

    #[test]
    fn what_is_found_later_is_put_together_again_and_the_list_is_bounded() {
        let mut state = SynthesisState::default();
        for number in 0..9 {
            state.observed("search", &number.to_string(), 3);
        }
        assert_eq!(state.answered("x", 2).1, Some(3));
        state.observed("search", "new", 3);
        assert_eq!(state.answered("x [O9]", 2).1, Some(1));
        assert_eq!(state.answered("x [O10]", 2).0, Verdict::Accept);
    }

    proptest! {
        #[test]
        fn the_list_is_bounded_and_answers_end(steps in prop::collection::vec(prop::bool::ANY, 0..60)) {
            let mut state = SynthesisState::default();
            for (number, observed) in steps.into_iter().enumerate() {
                if observed {
                    state.observed("search", &number.to_string(), 4);
                } else {
                    state.answered("x", 2);
                }
                prop_assert!(state.observations.len() <= 4);
            }
            let ends = (0..4).any(|_| !matches!(state.answered("x", 2).0, Verdict::Reject(_)));
            prop_assert!(ends);
        }
    }
}
