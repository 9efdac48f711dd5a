//! Recovery: a failed call is reflected on, and made good or told.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, ToolCall, ToolResult, ToolStatus},
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checked, at_least_one, held_back, is_bookkeeping, says_something, signature, tell};

const REFLECT: &str = "\
A call failed. Call no tool now. Write a short reflection first: why it failed, and what you will \
do differently.";
const REFLECT_BETTER: &str = "\
That is no reflection. Write in a sentence or two why the call failed, and what you will do \
differently.";
const RETRY: &str = "Now try again, by what you wrote.";

/// Holds the agent to its failed calls: after one it has to write a reflection before any other
/// tool, and an answer waits until the failure is made good.
///
/// Failures are told apart by call. A failure is made good by a later success of the same call,
/// by one of the same tool with other arguments once a reflection was written, or by a tool that
/// [`alternatives`](Self::alternatives) names in its place. After some tries an answer that names
/// the tool that failed is accepted, and flagged. What a person denied, a policy held back, or
/// was interrupted is not a failure, and neither is a call of a tool that does not exist.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Recovery {
    /// After how many tries, failed calls and answers without one, a failure may be disclosed
    /// instead.
    pub max_tries: u32,
    /// Tools whose success makes good a failure of another: from the tool that failed to those
    /// that take its place.
    pub alternatives: BTreeMap<String, Vec<String>>,
    #[serde(skip)]
    state: RecoveryState,
    /// The calls under way: what could not even begin, a tool that does not exist, cannot be made
    /// good.
    #[serde(skip)]
    begun: BTreeSet<String>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            max_tries: 3,
            alternatives: BTreeMap::new(),
            state: RecoveryState::default(),
            begun: BTreeSet::new(),
        }
    }
}

impl Recovery {
    /// Sets after how many tries a failure may be disclosed instead.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = tries;
        self
    }

    /// Lets the success of one tool make good a failure of another.
    #[must_use]
    pub fn alternative(mut self, failed: impl Into<String>, instead: impl Into<String>) -> Self {
        let instead = instead.into();
        self.alternatives
            .entry(failed.into())
            .or_default()
            .push(instead);
        self
    }
}

impl Checked for Recovery {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_tries", self.max_tries)
    }
}

/// A call that failed and was not made good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The id of the call that failed first.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Why it failed, the last time.
    pub reason: String,
    /// Failed calls, and answers that came instead of another try.
    pub tries: u32,
    /// The calls that were tried.
    signatures: Vec<String>,
    /// Whether a reflection was written since, or none is wanted any more.
    reflected: bool,
}

/// A call that made a failure good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The id of the call that had failed.
    pub recovers: String,
}

/// An event that [`RecoveryState`] noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecoveryEvent {
    /// A call failed.
    FailureObserved {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// A failure was made good.
    Recovered {
        /// The id of the call that made it good.
        call: String,
        /// The tool that had failed.
        tool: String,
    },
    /// A reflection was written.
    ReflectionRecorded {
        /// The reflection.
        text: String,
    },
}

/// The state machine of [`Recovery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryState {
    /// The failures that were not made good, oldest first.
    pub unresolved: Vec<Failure>,
    /// The calls that made failures good.
    pub attempts: Vec<Attempt>,
    /// Whether a reflection must follow before any tool.
    pub needs_reflection: bool,
    /// The reflections that were written, the latest last.
    pub reflections: Vec<String>,
    /// How often in a row a text was no reflection.
    blank: u32,
}

impl RecoveryState {
    /// A call failed.
    pub fn failed(&mut self, call: &ToolCall, reason: &str, max_tries: u32) -> Vec<RecoveryEvent> {
        let signature = signature(call);
        // The same call, or, after a reflection, another try of it.
        let same = |failure: &Failure| failure.signatures.contains(&signature);
        let retried = |failure: &Failure| failure.reflected && failure.tool == call.name;
        let mut unresolved = self.unresolved.iter();
        let known = unresolved
            .position(same)
            .or_else(|| self.unresolved.iter().position(retried));
        match known.and_then(|place| self.unresolved.get_mut(place)) {
            Some(failure) => {
                failure.tries += 1;
                failure.reflected = failure.tries >= max_tries;
                reason.clone_into(&mut failure.reason);
                if !failure.signatures.contains(&signature) {
                    failure.signatures.push(signature);
                }
            }
            None => self.unresolved.push(Failure {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                reason: reason.to_owned(),
                tries: 1,
                signatures: vec![signature],
                reflected: max_tries <= 1,
            }),
        }
        self.needs_reflection = self.unresolved.iter().any(|failure| !failure.reflected);
        vec![RecoveryEvent::FailureObserved {
            call: call.id.clone(),
            tool: call.name.clone(),
            reason: reason.to_owned(),
        }]
    }

    /// A call succeeded.
    pub fn succeeded(
        &mut self,
        call: &ToolCall,
        alternatives: &BTreeMap<String, Vec<String>>,
    ) -> Vec<RecoveryEvent> {
        let signature = signature(call);
        let same = |failure: &Failure| failure.signatures.contains(&signature);
        let instead = |failure: &Failure| {
            let others = alternatives.get(&failure.tool);
            let other = others.is_some_and(|others| others.contains(&call.name));
            failure.reflected && (failure.tool == call.name || other)
        };
        let mut unresolved = self.unresolved.iter();
        let resolved = unresolved
            .position(same)
            .or_else(|| self.unresolved.iter().position(instead));
        let Some(place) = resolved else {
            return Vec::new();
        };
        let failure = self.unresolved.remove(place);
        // What made itself good asks for nothing more.
        self.needs_reflection &= self.unresolved.iter().any(|failure| !failure.reflected);
        self.attempts.push(Attempt {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            recovers: failure.call_id,
        });
        vec![RecoveryEvent::Recovered {
            call: call.id.clone(),
            tool: failure.tool,
        }]
    }

    /// A text came while a reflection was needed. `None` when it says nothing and is asked for
    /// once more.
    pub fn reflected(&mut self, text: &str, patience: u32) -> Option<Vec<RecoveryEvent>> {
        if !says_something(text, self.reflections.last()) && self.blank < patience {
            self.blank += 1;
            return None;
        }
        self.blank = 0;
        self.needs_reflection = false;
        for failure in &mut self.unresolved {
            failure.reflected = true;
        }
        self.reflections.push(text.to_owned());
        let text = text.to_owned();
        Some(vec![RecoveryEvent::ReflectionRecorded { text }])
    }

    /// An answer came while no reflection was needed.
    pub fn answered(&mut self, text: &str, max_tries: u32) -> Verdict {
        if self.unresolved.is_empty() {
            return Verdict::Accept;
        }
        let told = |failures: Vec<&Failure>| {
            let told =
                |failure: &&Failure| format!("`{}` ({})", failure.tool, cut(&failure.reason, 160));
            failures.iter().map(told).collect::<Vec<_>>().join(", ")
        };
        let open = self.unresolved.iter();
        let open: Vec<&Failure> = open.filter(|failure| failure.tries < max_tries).collect();
        let verdict = if !open.is_empty() {
            let failed = told(open);
            Verdict::Reject(format!(
                "These calls failed and were not made good: {failed}. Try again, in another way \
                 if need be, before you answer."
            ))
        } else {
            let spoken = text.to_lowercase().replace('_', " ");
            let names = |failure: &&Failure| {
                spoken.contains(&failure.tool.to_lowercase().replace('_', " "))
            };
            let hidden = self.unresolved.iter();
            let hidden: Vec<&Failure> = hidden.filter(|failure| !names(failure)).collect();
            if hidden.is_empty() {
                let failed = told(self.unresolved.iter().collect());
                return Verdict::Flag(format!("answered although calls failed: {failed}"));
            }
            let failed = told(hidden);
            Verdict::Reject(format!(
                "Answer with what you have, and say in the answer which tool failed and what is \
                 therefore missing: {failed}."
            ))
        };
        for failure in &mut self.unresolved {
            failure.tries += 1;
        }
        verdict
    }
}

impl Policy for Recovery {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let blocked = held_back(cx, call, self.state.needs_reflection, REFLECT);
        if blocked.is_none() {
            self.begun.insert(call.id.clone());
        }
        Ok(blocked.unwrap_or(BeforeTool::Go))
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        for (call, result) in calls.iter().zip(results) {
            let has_begun = self.begun.remove(&call.id);
            if is_bookkeeping(&call.name) {
                continue;
            }
            let events = match result.status {
                ToolStatus::Error if has_begun => {
                    self.state.failed(call, &result.text, self.max_tries)
                }
                ToolStatus::Success => self.state.succeeded(call, &self.alternatives),
                _ => continue,
            };
            tell(cx, &events);
        }
        Ok(())
    }

    fn wants_reflection(&self) -> bool {
        self.state.needs_reflection
    }

    async fn reflected(
        &mut self,
        cx: &PolicyContext<'_>,
        text: &str,
    ) -> Result<String, AgentError> {
        let Some(events) = self.state.reflected(text, self.max_tries) else {
            return Ok(REFLECT_BETTER.to_owned());
        };
        tell(cx, &events);
        Ok(RETRY.to_owned())
    }

    async fn before_answer(
        &mut self,
        _: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        Ok(self.state.answered(draft, self.max_tries))
    }
}

/// One test for each row of the specification's table, and for what it lacks.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    const REFLECTION: &str = "The query was too long; I shorten it.";

    fn call(id: &str, tool: &str, query: &str) -> ToolCall {
        ToolCall::new(id, tool, json!({ "query": query }))
    }

    fn failed(state: &mut RecoveryState, id: &str, query: &str) {
        state.failed(&call(id, "search", query), "too long", 3);
    }

    fn succeeded(state: &mut RecoveryState, tool: &str, query: &str) -> usize {
        state.succeeded(&call("s", tool, query), &BTreeMap::new());
        state.unresolved.len()
    }

    #[test]
    fn an_error_is_a_failure_that_wants_a_reflection() {
        let mut state = RecoveryState::default();
        let events = state.failed(&call("1", "search", "a"), "too long", 3);
        let [RecoveryEvent::FailureObserved { call, tool, reason }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!([call, tool, reason], ["1", "search", "too long"]);
        assert!(state.needs_reflection);
    }

    /// Scenario 6 of the conformance list.
    #[test]
    fn two_failures_and_one_success_leave_one_and_a_second_success_clears() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        failed(&mut state, "2", "b");
        assert_eq!(state.unresolved.len(), 2);
        assert_eq!(succeeded(&mut state, "search", "a"), 1);
        assert_eq!(state.unresolved[0].call_id, "2");
        assert_eq!(succeeded(&mut state, "search", "b"), 0);
        assert_eq!(state.attempts.len(), 2);
    }

    #[test]
    fn a_success_of_another_call_of_the_same_batch_makes_nothing_good() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        assert_eq!(succeeded(&mut state, "search", "c"), 1);
    }

    #[test]
    fn a_mended_call_after_a_reflection_makes_it_good() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        state.reflected(REFLECTION, 3).unwrap();
        assert_eq!(succeeded(&mut state, "other", "a"), 1);
        assert_eq!(succeeded(&mut state, "search", "c"), 0);
    }

    #[test]
    fn another_tool_counts_where_it_is_named() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        state.reflected(REFLECTION, 3).unwrap();
        let instead = BTreeMap::from([("search".to_owned(), vec!["browse".to_owned()])]);
        state.succeeded(&call("2", "browse", "a"), &instead);
        assert!(state.unresolved.is_empty());
    }

    #[test]
    fn what_makes_itself_good_asks_for_nothing_more() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        assert_eq!(succeeded(&mut state, "search", "a"), 0);
        assert!(!state.needs_reflection);
        assert_eq!(state.answered("done", 3), Verdict::Accept);
    }

    #[test]
    fn a_reflection_is_recorded_once_and_a_blank_one_is_asked_for_again() {
        let mut state = RecoveryState::default();
        failed(&mut state, "1", "a");
        assert_eq!(state.reflected(" \n", 3), None);
        assert!(state.needs_reflection);
        assert!(state.reflected(REFLECTION, 3).is_some());
        assert!(!state.needs_reflection);
        assert_eq!(state.reflections, [REFLECTION]);
    }

    #[test]
    fn an_answer_without_failures_is_accepted_and_one_with_a_failure_is_not() {
        let mut state = RecoveryState::default();
        assert_eq!(state.answered("done", 3), Verdict::Accept);
        failed(&mut state, "1", "a");
        state.reflected(REFLECTION, 3).unwrap();
        let Verdict::Reject(reason) = state.answered("done", 3) else {
            panic!("it is rejected");
        };
        assert!(reason.contains("`search` (too long)"), "{reason}");
    }

    #[test]
    fn after_some_tries_an_answer_that_discloses_the_failure_is_accepted() {
        let mut state = RecoveryState::default();
        for (id, query) in [("1", "a"), ("2", "b"), ("3", "c")] {
            failed(&mut state, id, query);
            assert_eq!(state.unresolved.len(), 1, "it is one failure, tried again");
            if state.needs_reflection {
                state.reflected(&format!("{REFLECTION} {id}"), 3).unwrap();
            }
        }
        assert!(!state.needs_reflection);
        let Verdict::Reject(reason) = state.answered("It is 5.", 3) else {
            panic!("it hides the failure");
        };
        assert!(reason.contains("say in the answer"), "{reason}");
        let verdict = state.answered("It may be 5; Search failed.", 3);
        assert!(matches!(verdict, Verdict::Flag(_)), "{verdict:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_ever_lost_and_a_need_has_its_failure(
            happenings in prop::collection::vec((0_u8..4, 0_u8..3), 0..60)
                .prop_map(|all| all.into_iter().enumerate()),
        ) {
            let mut state = RecoveryState::default();
            let (mut failures, mut resolved) = (0, 0);
            for (number, (kind, query)) in happenings {
                let call = call(&number.to_string(), "search", &query.to_string());
                let before = state.unresolved.len();
                match kind {
                    0 if !state.needs_reflection => {
                        state.failed(&call, "no", 3);
                        failures += state.unresolved.len() - before;
                    }
                    1 if !state.needs_reflection => {
                        state.succeeded(&call, &BTreeMap::new());
                        resolved += before - state.unresolved.len();
                    }
                    2 if state.needs_reflection => {
                        state.reflected(&format!("reflection number {number}"), 3);
                    }
                    3 if !state.needs_reflection => {
                        let accepted = state.answered("done", 3) == Verdict::Accept;
                        prop_assert_eq!(accepted, state.unresolved.is_empty());
                    }
                    _ => {}
                }
                prop_assert_eq!(failures - resolved, state.unresolved.len());
                prop_assert!(!state.needs_reflection || !state.unresolved.is_empty());
            }
        }
    }
}
