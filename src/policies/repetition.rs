//! Noticing that an agent goes round in circles.

use std::collections::VecDeque;

use ghostlight_actors::{
    run::{Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, Digest, StopReason, ToolCall, ToolResult},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Checked, at_least_one, signature};

/// The longest circle that is noticed, in steps.
const LONGEST: usize = 4;
/// The highest count of what is the same.
const MOST: u32 = 1000;

const WARNING: &str = "\
You repeat yourself: the same calls with the same results. Do something else, or answer with what \
you have and say what is missing.";

/// Notices that an agent repeats itself: the same calls with the same results, or the same answer,
/// one step after the other or in a circle of up to four. It is told so, and stopped when it goes
/// on. A call that is repeated because its results change (polling) is not a repetition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Repetition {
    /// After how many times the agent is told.
    pub warn_after: u32,
    /// After how many times the run stops; at most 1000.
    pub stop_after: u32,
    #[serde(skip)]
    state: RepetitionState,
}

impl Default for Repetition {
    fn default() -> Self {
        Self {
            warn_after: 3,
            stop_after: 5,
            state: RepetitionState::default(),
        }
    }
}

impl Checked for Repetition {
    fn check(&self) -> Result<(), String> {
        at_least_one("warn_after", self.warn_after)?;
        match self.stop_after {
            stop if stop <= self.warn_after => {
                Err("stop_after must be greater than warn_after".to_owned())
            }
            stop if stop > MOST => Err(format!("stop_after must be at most {MOST}")),
            _ => Ok(()),
        }
    }
}

/// The state machine of [`Repetition`]: what the last steps did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepetitionState {
    steps: VecDeque<Digest>,
}

impl RepetitionState {
    /// A step did this. The number says how often the last steps did the same in a row: the
    /// highest count over circles of one to four steps. It counts up to `most`, and to 1000.
    pub fn did(&mut self, what: &str, most: u32) -> u32 {
        let remembered = LONGEST * most.clamp(1, MOST) as usize;
        while self.steps.len() >= remembered {
            self.steps.pop_front();
        }
        self.steps.push_back(Digest::of(what.as_bytes()));
        (1..=LONGEST)
            .map(|circle| self.rounds(circle))
            .max()
            .unwrap_or(1)
    }

    /// How many times in a row the last steps went round a circle of this length.
    fn rounds(&self, circle: usize) -> u32 {
        let (mut rounds, mut end) = (1, self.steps.len());
        while end >= 2 * circle
            && (1..=circle)
                .all(|back| self.steps.get(end - back) == self.steps.get(end - back - circle))
        {
            rounds += 1;
            end -= circle;
        }
        rounds
    }
}

impl Repetition {
    fn did(&mut self, cx: &PolicyContext<'_>, what: &str) -> bool {
        let times = self.state.did(what, self.stop_after);
        if times >= self.stop_after {
            let reason = format!("the agent did the same {times} times in a row");
            cx.stop(StopReason::GaveUp(reason));
        }
        let repeats = times >= self.warn_after;
        if repeats {
            cx.emit("repetition_observed", &json!({ "times": times }));
        }
        repeats
    }
}

impl Policy for Repetition {
    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let line = |(call, result): (&ToolCall, &ToolResult)| {
            format!("{} = {:?} {}", signature(call), result.status, result.text)
        };
        let lines: Vec<String> = calls.iter().zip(results).map(line).collect();
        if self.did(cx, &lines.join("\n")) {
            cx.defer(WARNING);
        }
        Ok(())
    }

    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        // Whether it is an answer is for others to say; here it counts that it was given before.
        self.did(cx, draft);
        Ok(Verdict::Pass)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::*;

    fn times(steps: &str) -> u32 {
        let mut state = RepetitionState::default();
        let told = steps.chars().map(|step| state.did(&step.to_string(), 9));
        told.last().unwrap()
    }

    #[test]
    fn the_same_in_a_row_and_circles_are_counted() {
        for (steps, expected) in [
            ("a", 1),
            ("ab", 1),
            ("aa", 2),
            ("xaaa", 3),
            ("aab", 1),
            ("abab", 2),
            ("xababab", 3),
            ("abcabc", 2),
            ("abcdabcdabcd", 3),
            ("abcdeabcde", 1),
        ] {
            assert_eq!(times(steps), expected, "{steps}");
        }
    }

    #[test]
    fn any_bound_that_may_be_set_is_reached() {
        for most in [5, 100, MOST] {
            let mut state = RepetitionState::default();
            let steps = "abcd".repeat(most as usize);
            let told = steps.chars().map(|step| state.did(&step.to_string(), most));
            assert_eq!(told.last(), Some(most));
            assert_eq!(state.steps.len(), LONGEST * most as usize);
        }
    }

    proptest! {
        #[test]
        fn a_circle_counts_its_rounds(length in 1_usize..=4, rounds in 1_u32..9) {
            let circle = "abcd"[..length].repeat(rounds as usize);
            prop_assert_eq!(times(&circle), rounds);
        }

        #[test]
        fn what_is_always_new_is_no_repetition(steps in prop::collection::btree_set("[a-z]{1,6}", 1..40)) {
            let mut state = RepetitionState::default();
            for step in steps {
                prop_assert_eq!(state.did(&step, 9), 1);
            }
        }
    }
}
