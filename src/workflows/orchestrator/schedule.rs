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
    /// It was begun, and its last attempt ended so.
    Tried(MemberEnd),
    /// It was not begun, since this dependency was not done.
    Skipped(String),
}

impl TaskEnd {
    /// Its result, if it was done.
    pub(super) fn answer(&self) -> Option<&str> {
        match self {
            Self::Tried(MemberEnd::Answered(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether there is a result, or a part of one.
    pub(super) fn has_made(&self) -> bool {
        matches!(self, Self::Tried(end) if end.is_answer() || end.made().is_some())
    }

    /// The used-up budget that ended it.
    pub(super) fn exhausted(&self) -> Option<&StopReason> {
        match self {
            Self::Tried(MemberEnd::Stopped(reason @ StopReason::BudgetExhausted(_), _)) => {
                Some(reason)
            }
            _ => None,
        }
    }
}

/// A plan in progress.
pub(super) struct Schedule<'a> {
    pub(super) cx: &'a RunContext,
    pub(super) plan: &'a TaskPlan,
    pub(super) settings: &'a Orchestrator,
}

impl Schedule<'_> {
    /// Does all tasks: each as soon as its dependencies are done and there is room, those with the
    /// lower priority number first. A task whose dependency failed is skipped, and the others
    /// continue. Returns each task's end, in the order of the plan; `None` for a task that was not begun or
    /// not finished when a member ended the workflow early.
    pub(super) async fn run(&self) -> Result<Vec<Option<TaskEnd>>, AgentError> {
        let count = self.plan.tasks().len();
        let mut ends: Vec<Option<TaskEnd>> = vec![None; count];
        let mut waiting = self.plan.by_priority();
        let mut working = FuturesUnordered::new();
        loop {
            self.skip(&mut waiting, &mut ends);
            let room = (self.settings.max_at_once as usize).saturating_sub(working.len());
            for place in self.ready(&waiting, &ends).into_iter().take(room) {
                waiting.retain(|other| *other != place);
                let inputs = self.inputs(place, &ends);
                self.tell(place, "begun", "");
                working.push(self.attempts(place, inputs));
            }
            let Some((place, ended)) = working.next().await else {
                break;
            };
            let end: MemberEnd = ended?;
            let leaves = end.leaves();
            if end.is_answer() {
                self.tell(place, "done", "");
            } else if !leaves {
                self.tell(place, "failed", &end.told());
            }
            ends[place] = Some(TaskEnd::Tried(end));
            if leaves {
                break;
            }
        }
        drop(working);
        Ok(ends)
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
                    let end = ends[**need].as_ref();
                    end.is_some_and(|end| end.answer().is_none())
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
            let is_done = |need: &usize| ends[*need].as_ref().and_then(TaskEnd::answer).is_some();
            let in_phase = !self.settings.phases || self.plan.level(*place) == phase;
            in_phase && self.plan.needs(*place).iter().all(is_done)
        };
        waiting.iter().copied().filter(may_begin).collect()
    }

    /// The results of a task's dependencies, by the tasks' ids.
    fn inputs(&self, place: usize, ends: &[Option<TaskEnd>]) -> BTreeMap<String, String> {
        let needs = self.plan.needs(place).iter();
        let results = needs.filter_map(|need| {
            let text = ends[*need].as_ref()?.answer()?;
            Some((self.plan.tasks()[*need].id.clone(), text.to_owned()))
        });
        results.collect()
    }

    /// Tries a task until it is done or its attempts are used up, with growing pauses.
    fn attempts(
        &self,
        place: usize,
        inputs: BTreeMap<String, String>,
    ) -> BoxFuture<'_, (usize, Result<MemberEnd, AgentError>)> {
        let task = &self.plan.tasks()[place];
        async move {
            let mut pause = self.settings.retry_pause.as_millis() as f64;
            let mut attempt = 0;
            loop {
                attempt += 1;
                let end = self.settings.process(self.cx, task, &inputs).await?;
                let is_last = attempt >= self.settings.max_attempts;
                if is_last || end.leaves() || !end.may_be_tried_again() {
                    return Ok(end);
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
