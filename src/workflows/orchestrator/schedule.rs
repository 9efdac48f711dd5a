//! The execution of a plan's tasks.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{FuturesUnordered, StreamExt},
};
use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, StopReason},
};
use serde_json::json;

use super::{Orchestrator, TaskPlan};
use crate::workflows::ends::MemberEnd;

/// The end of a task.
#[derive(Clone, Debug)]
pub(super) enum TaskEnd {
    /// It was done, with this result.
    Done(String),
    /// It has no answer after all its attempts.
    Failed(MemberEnd),
    /// It was not begun, since this dependency was not done.
    Skipped(String),
}

impl TaskEnd {
    /// Whether there is a result, or a part of one.
    pub(super) fn has_made(&self) -> bool {
        match self {
            Self::Done(_) => true,
            Self::Failed(end) => end.made().is_some(),
            Self::Skipped(_) => false,
        }
    }

    /// The used-up budget that ended it.
    pub(super) fn exhausted(&self) -> Option<StopReason> {
        match self {
            Self::Failed(MemberEnd::Stopped(reason @ StopReason::BudgetExhausted(_), _)) => {
                Some(reason.clone())
            }
            _ => None,
        }
    }
}

/// The end of a plan.
pub(super) struct PlanEnd {
    /// Each task's end, in the order of the plan; `None` for a task that was not begun or not
    /// finished when the workflow ended.
    pub(super) ends: Vec<Option<TaskEnd>>,
    /// The end of a member that ends the workflow early.
    pub(super) leaves: Option<MemberEnd>,
}

/// The end of a task after its attempts, or the end that ends the workflow.
type Attempted = Result<Result<TaskEnd, MemberEnd>, AgentError>;

/// A plan in progress.
pub(super) struct Schedule<'a> {
    pub(super) cx: &'a RunContext,
    pub(super) plan: &'a TaskPlan,
    pub(super) settings: &'a Orchestrator,
}

impl Schedule<'_> {
    /// Does all tasks: each as soon as its dependencies are done and there is room, those with the
    /// lower priority number first. A task whose dependency failed is skipped, and the others
    /// continue.
    pub(super) async fn run(&self) -> Result<PlanEnd, AgentError> {
        let count = self.plan.tasks().len();
        let mut ends: Vec<Option<TaskEnd>> = vec![None; count];
        let mut waiting = self.plan.by_priority();
        let mut working = FuturesUnordered::new();
        let leaves = loop {
            self.skip(&mut waiting, &mut ends);
            let room = (self.settings.max_at_once as usize).saturating_sub(working.len());
            for place in self.ready(&waiting, &ends).into_iter().take(room) {
                waiting.retain(|other| *other != place);
                let inputs = self.inputs(place, &ends);
                self.tell(place, "begun", "");
                working.push(self.attempts(place, inputs));
            }
            let Some((place, ended)) = working.next().await else {
                break None;
            };
            let end = match ended? {
                Ok(end) => end,
                Err(leaves) => {
                    ends[place] = Some(TaskEnd::Failed(leaves.clone()));
                    break Some(leaves);
                }
            };
            match &end {
                TaskEnd::Failed(end) => self.tell(place, "failed", &end.told()),
                _ => self.tell(place, "done", ""),
            }
            ends[place] = Some(end);
        };
        drop(working);
        Ok(PlanEnd { ends, leaves })
    }

    fn tell(&self, place: usize, what: &str, reason: &str) {
        let id = &self.plan.tasks()[place].id;
        self.cx.emit("task", &json!({ "id": id, what: reason }));
    }

    /// Skips the tasks that depend on a task that was not done, directly or through others.
    fn skip(&self, waiting: &mut Vec<usize>, ends: &mut [Option<TaskEnd>]) {
        loop {
            let missed = waiting.iter().find_map(|place| {
                let not_done = |need: &&usize| {
                    matches!(ends[**need], Some(TaskEnd::Failed(_) | TaskEnd::Skipped(_)))
                };
                let need = self.plan.needs(*place).iter().find(not_done)?;
                Some((*place, *need))
            });
            let Some((place, need)) = missed else { return };
            waiting.retain(|other| *other != place);
            let need = self.plan.tasks()[need].id.clone();
            self.tell(place, "skipped", &need);
            ends[place] = Some(TaskEnd::Skipped(need));
        }
    }

    /// The tasks that may begin now, in their order.
    fn ready(&self, waiting: &[usize], ends: &[Option<TaskEnd>]) -> Vec<usize> {
        let phase = (0..ends.len())
            .filter(|place| ends[*place].is_none())
            .map(|place| self.plan.level(place))
            .min()
            .unwrap_or(0);
        let may_begin = |place: &usize| {
            let is_done = |need: &usize| matches!(ends[*need], Some(TaskEnd::Done(_)));
            let in_phase = !self.settings.phases || self.plan.level(*place) == phase;
            in_phase && self.plan.needs(*place).iter().all(is_done)
        };
        waiting.iter().copied().filter(may_begin).collect()
    }

    /// The results of a task's dependencies, by the tasks' ids.
    fn inputs(&self, place: usize, ends: &[Option<TaskEnd>]) -> BTreeMap<String, String> {
        let needs = self.plan.needs(place).iter();
        let results = needs.filter_map(|need| match &ends[*need] {
            Some(TaskEnd::Done(text)) => Some((self.plan.tasks()[*need].id.clone(), text.clone())),
            _ => None,
        });
        results.collect()
    }

    /// Tries a task until it is done or its attempts are used up, with growing pauses.
    fn attempts(
        &self,
        place: usize,
        inputs: BTreeMap<String, String>,
    ) -> BoxFuture<'_, (usize, Attempted)> {
        let task = &self.plan.tasks()[place];
        async move {
            let mut pause = self.settings.retry_pause_ms as f64;
            let mut attempt = 0;
            loop {
                attempt += 1;
                let end = match self.settings.process(self.cx, task, &inputs).await {
                    Ok(end) => end,
                    Err(error) => return Err(error),
                };
                if end.leaves() {
                    return Ok(Err(end));
                }
                if end.is_answer() {
                    return Ok(Ok(TaskEnd::Done(end.told())));
                }
                if attempt >= self.settings.max_attempts || !end.may_be_tried_again() {
                    return Ok(Ok(TaskEnd::Failed(end)));
                }
                // Full jitter: tasks that failed together are not retried at the same moment.
                let part = self.cx.random().await?;
                self.cx
                    .sleep(Duration::from_millis((pause * part) as u64))
                    .await?;
                pause *= self.settings.retry_multiplier;
            }
        }
        .map(move |end| (place, end))
        .boxed()
    }
}
