//! Planning: revisions of a plan, and reflection when it stagnates.

use ghostlight_actors::{
    run::{BeforeTool, OwnTool, Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, ModelRequest, ModelResponse, ToolCall, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Checked, Plan, held_back,
    plan::{CREATE_TASKS, create_tasks},
    says_something, tell,
};

const REFLECT: &str = "\
Your plan was revised several times and nothing was done. Call no tool now. Write a short \
reflection first: what keeps the task from going on, and what you will do differently.";
const REFLECT_BETTER: &str = "\
That is no reflection. Write in a sentence or two what keeps the task from going on, and what you \
will do differently.";
const REVISE: &str = "Now revise the plan with `create_tasks`, by what you wrote.";
const PLAN_FIRST: &str = "\
Not yet: bring the plan up to date with `create_tasks` before you answer, so that it shows what was \
done and what is left.";

/// Gives the agent the tool `create_tasks`, asks for a least number of plan revisions before an
/// answer, and, where the plan is revised again and again and nothing else is done, for a
/// reflection.
///
/// Every accepted plan is an event `plan_revision`, with what it changed of the one before. The
/// plan is this policy's own: writing it takes no operation and holds up no other call. A model
/// that does not plan although it is told so often enough may answer; the answer is flagged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Planning {
    /// How many revisions the plan must have before an answer.
    pub min_revisions: u32,
    /// After how many revisions in a row without another successful call a reflection is asked
    /// for; 0 for never.
    pub stagnation_threshold: u32,
    /// How often in a row the model is told the same before it may go on.
    pub patience: u32,
    #[serde(skip)]
    state: PlanningState,
    #[serde(skip)]
    plan: Option<Plan>,
    #[serde(skip, default = "own_tool")]
    tool: OwnTool,
}

fn own_tool() -> OwnTool {
    OwnTool::new(create_tasks())
}

impl Default for Planning {
    fn default() -> Self {
        Self {
            min_revisions: 2,
            stagnation_threshold: 0,
            patience: 3,
            state: PlanningState::default(),
            plan: None,
            tool: own_tool(),
        }
    }
}

impl Planning {
    /// Sets how many revisions the plan must have before an answer.
    #[must_use]
    pub fn min_revisions(mut self, revisions: u32) -> Self {
        self.min_revisions = revisions;
        self
    }

    /// Sets after how many revisions without another successful call a reflection is asked for.
    #[must_use]
    pub fn stagnation_threshold(mut self, revisions: u32) -> Self {
        self.stagnation_threshold = revisions;
        self
    }
}

impl Checked for Planning {}

/// The state machine of [`Planning`]. It counts revisions itself, so that there is one source of
/// their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanningState {
    /// Whether a revision must follow before an answer.
    pub revision_needed: bool,
    /// Whether a reflection must follow before any tool.
    pub reflection_needed: bool,
    /// How many revisions there were.
    pub revisions: u32,
    /// How many there were when one was asked for.
    pub requested_at: u32,
    /// Revisions since another call succeeded.
    pub since_reset: u32,
    /// The reflections that were written, the latest last.
    pub reflections: Vec<String>,
    /// How often in a row the model was told the same.
    pub refusals: u32,
}

/// An event that [`PlanningState`] noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanningEvent {
    /// The plan was revised again and again and nothing else was done.
    StagnationObserved,
    /// The revision that was asked for is there.
    RevisionResolved,
    /// An answer came before enough revisions.
    InsufficientProgress,
    /// A reflection was written.
    ReflectionRecorded {
        /// The reflection.
        text: String,
    },
    /// A revision is asked for.
    RevisionNeeded,
}

impl PlanningState {
    /// A call other than of `create_tasks` succeeded.
    pub fn tool_succeeded(&mut self) {
        self.since_reset = 0;
    }

    /// A plan was accepted.
    pub fn plan_succeeded(&mut self, stagnation_threshold: u32) -> Vec<PlanningEvent> {
        self.since_reset += 1;
        self.revisions += 1;
        self.refusals = 0;
        if self.revision_needed && self.revisions > self.requested_at {
            (self.revision_needed, self.since_reset) = (false, 0);
            return vec![PlanningEvent::RevisionResolved];
        }
        let stagnates = stagnation_threshold > 0 && self.since_reset >= stagnation_threshold;
        if stagnates && !self.reflection_needed && !self.revision_needed {
            self.reflection_needed = true;
            return vec![PlanningEvent::StagnationObserved];
        }
        Vec::new()
    }

    /// A text came while a reflection was needed. `None` when it says nothing and is asked for
    /// once more.
    pub fn reflected(&mut self, text: &str, patience: u32) -> Option<Vec<PlanningEvent>> {
        if !says_something(text, self.reflections.last()) && self.refusals < patience {
            self.refusals += 1;
            return None;
        }
        self.refusals = 0;
        self.reflection_needed = false;
        self.since_reset = 0;
        Some(self.record(text))
    }

    fn record(&mut self, text: &str) -> Vec<PlanningEvent> {
        self.reflections.push(text.to_owned());
        self.revision_needed = true;
        self.requested_at = self.revisions;
        vec![
            PlanningEvent::ReflectionRecorded {
                text: text.to_owned(),
            },
            PlanningEvent::RevisionNeeded,
        ]
    }

    /// An answer came while no reflection was needed. `true` when it is accepted.
    pub fn answered(&mut self, text: &str, min_revisions: u32) -> (bool, Vec<PlanningEvent>) {
        if self.revisions >= min_revisions && !self.revision_needed {
            return (true, Vec::new());
        }
        self.refusals += 1;
        if self.revision_needed {
            return (false, Vec::new());
        }
        let mut events = vec![PlanningEvent::InsufficientProgress];
        events.extend(self.record(text));
        (false, events)
    }
}

impl Policy for Planning {
    fn tools(&self) -> Vec<String> {
        vec![self.tool.name()]
    }

    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.tool.offer(request);
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if let Some(blocked) = held_back(cx, call, self.state.reflection_needed, REFLECT) {
            return Ok(blocked);
        }
        if call.name != CREATE_TASKS {
            return Ok(BeforeTool::Go);
        }
        Ok(match Plan::parse(&call.arguments) {
            Ok(plan) => BeforeTool::done(call, format!("The plan is now:\n{plan}")),
            Err(reason) => BeforeTool::failed(call, format!("The plan was not taken: {reason}.")),
        })
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let succeeded = calls.iter().zip(results);
        for (call, _) in succeeded.filter(|(_, result)| result.status == ToolStatus::Success) {
            if call.name != CREATE_TASKS {
                self.state.tool_succeeded();
                continue;
            }
            let Ok(plan) = Plan::parse(&call.arguments) else {
                continue;
            };
            let events = self.state.plan_succeeded(self.stagnation_threshold);
            let before = self.plan.take().unwrap_or_default();
            let revision = json!({
                "index": self.state.revisions,
                "tasks": plan.tasks,
                "task_count": plan.tasks.len(),
                "difference": plan.since(&before),
            });
            cx.emit("plan_revision", &revision);
            self.plan = Some(plan);
            tell(cx, &events);
        }
        Ok(())
    }

    fn wants_reflection(&self) -> bool {
        self.state.reflection_needed
    }

    async fn reflected(
        &mut self,
        cx: &PolicyContext<'_>,
        text: &str,
    ) -> Result<String, AgentError> {
        let Some(events) = self.state.reflected(text, self.patience) else {
            return Ok(REFLECT_BETTER.to_owned());
        };
        tell(cx, &events);
        Ok(REVISE.to_owned())
    }

    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        if self.state.refusals >= self.patience {
            let (have, want) = (self.state.revisions, self.min_revisions);
            let reason = format!("the plan was not revised: {have} of {want} revisions");
            return Ok(Verdict::Flag(reason));
        }
        let (accepted, events) = self.state.answered(draft, self.min_revisions);
        tell(cx, &events);
        Ok(match accepted {
            true => Verdict::Accept,
            false => Verdict::Reject(PLAN_FIRST.to_owned()),
        })
    }
}

/// One test for each row of the specification's table.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, proptest};
    use proptest::prop_oneof;

    use super::*;

    const REFLECTION: &str = "I search before I plan again.";

    fn stagnating() -> PlanningState {
        let mut state = PlanningState::default();
        assert_eq!(state.plan_succeeded(2), []);
        let observed = state.plan_succeeded(2);
        assert_eq!(observed, [PlanningEvent::StagnationObserved]);
        state
    }

    fn recorded(text: &str) -> [PlanningEvent; 2] {
        let text = text.to_owned();
        [
            PlanningEvent::ReflectionRecorded { text },
            PlanningEvent::RevisionNeeded,
        ]
    }

    #[test]
    fn another_successful_call_resets_the_count() {
        let mut state = PlanningState::default();
        state.plan_succeeded(2);
        state.tool_succeeded();
        assert_eq!(state.since_reset, 0);
        assert_eq!(state.plan_succeeded(2), []);
    }

    #[test]
    fn a_plan_counts_and_two_of_one_batch_count_once_each() {
        let mut state = PlanningState::default();
        state.plan_succeeded(0);
        state.plan_succeeded(0);
        assert_eq!((state.revisions, state.since_reset), (2, 2));
    }

    #[test]
    fn a_revision_that_was_asked_for_resolves_and_resets() {
        let mut state = stagnating();
        state.reflected(REFLECTION, 3).unwrap();
        assert_eq!(state.plan_succeeded(2), [PlanningEvent::RevisionResolved]);
        assert!(!state.revision_needed);
        assert_eq!(state.since_reset, 0);
    }

    #[test]
    fn the_threshold_asks_for_a_reflection_and_none_is_never() {
        assert!(stagnating().reflection_needed);
        let mut state = PlanningState::default();
        for _ in 0..9 {
            assert_eq!(state.plan_succeeded(0), []);
        }
    }

    #[test]
    fn a_reflection_is_recorded_asks_for_a_revision_and_resets_the_count() {
        let mut state = stagnating();
        assert_eq!(
            state.reflected(REFLECTION, 3).unwrap(),
            recorded(REFLECTION)
        );
        assert!(state.revision_needed && !state.reflection_needed);
        assert_eq!((state.requested_at, state.since_reset), (2, 0));
        assert_eq!(state.reflections, [REFLECTION]);
    }

    #[test]
    fn a_reflection_has_to_say_something_up_to_a_bound() {
        let mut state = stagnating();
        for _ in 0..3 {
            assert_eq!(state.reflected("ok", 3), None);
        }
        assert!(state.reflected("ok", 3).is_some(), "there is a way on");
    }

    #[test]
    fn an_answer_after_enough_revisions_is_accepted() {
        let mut state = PlanningState::default();
        state.plan_succeeded(0);
        state.plan_succeeded(0);
        assert_eq!(state.answered("done", 2), (true, Vec::new()));
    }

    #[test]
    fn an_early_answer_asks_for_a_revision_and_repeats_without_events() {
        let mut state = PlanningState::default();
        let (accepted, events) = state.answered("done", 2);
        assert!(!accepted);
        assert_eq!(events[0], PlanningEvent::InsufficientProgress);
        assert_eq!(events[1..], recorded("done"));
        assert_eq!(state.answered("done", 2), (false, Vec::new()));
        state.plan_succeeded(0);
        state.plan_succeeded(0);
        assert!(state.answered("done", 2).0);
    }

    proptest! {
        #[test]
        fn whatever_happens_the_two_needs_exclude_each_other_and_an_answer_has_its_revisions(
            happenings in prop::collection::vec(
                prop_oneof![Just(0), Just(1), Just(2)].prop_map(|kind: u8| kind), 0..60),
        ) {
            let mut state = PlanningState::default();
            let mut plans = 0;
            for kind in happenings {
                match kind {
                    0 if !state.reflection_needed => state.tool_succeeded(),
                    1 if !state.reflection_needed => {
                        plans += 1;
                        state.plan_succeeded(3);
                    }
                    2 if state.reflection_needed => {
                        state.reflected("what I do differently now", 1);
                    }
                    2 => {
                        let (accepted, _) = state.answered("done", 2);
                        prop_assert!(!accepted || plans >= 2);
                    }
                    _ => {}
                }
                prop_assert!(!(state.revision_needed && state.reflection_needed));
                prop_assert_eq!(state.revisions, plans);
            }
        }
    }
}
