//! Tasks, their dependencies, and the order in which they may begin.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A part of the work in a model's plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct PlannedTask {
    /// Its name in the plan.
    pub id: String,
    /// The name of the agent, tool or function that does it.
    pub processor: String,
    /// The task, in words.
    pub description: String,
    /// The tasks whose results it needs.
    pub dependencies: Vec<String>,
    /// Of two tasks that may begin, the one with the lower number begins first.
    pub priority: i64,
    /// The sort of the task, in the planner's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// The planner's further words; for a tool its arguments.
    pub metadata: Map<String, Value>,
}

impl PlannedTask {
    /// A task of this name, for this processor.
    pub fn new(
        id: impl Into<String>,
        processor: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            processor: processor.into(),
            description: description.into(),
            ..Self::default()
        }
    }

    /// Sets the tasks on which it depends.
    #[must_use]
    pub fn after<D: Into<String>>(mut self, ids: impl IntoIterator<Item = D>) -> Self {
        self.dependencies = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Sets its priority: lower begins first.
    #[must_use]
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }
}

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It has no tasks, or too many.
    #[error("the plan has {found} tasks, and must have 1 to {most}")]
    Size {
        /// The number of its tasks.
        found: usize,
        /// The most tasks that it may have.
        most: usize,
    },
    /// A task lacks its id, processor or description.
    #[error("task {place} ({id:?}) has no {what}")]
    Lacks {
        /// Its place in the plan, from 1.
        place: usize,
        /// Its id.
        id: String,
        /// The part that is missing.
        what: &'static str,
    },
    /// Two tasks have the same id.
    #[error("two tasks have the id {0:?}: give each its own")]
    Twice(String),
    /// A task depends on a task that is not in the plan.
    #[error(
        "task {task:?} depends on {dependency:?}, which is not in the plan; there are: {known}"
    )]
    Unknown {
        /// The task.
        task: String,
        /// The missing task's id.
        dependency: String,
        /// The ids in the plan.
        known: String,
    },
    /// Tasks depend on each other in a circle.
    #[error("tasks wait for each other in a circle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// A task names an unknown processor.
    #[error("task {task:?} names the processor {processor:?}; there are: {known}")]
    Processor {
        /// The task.
        task: String,
        /// The name that it gives.
        processor: String,
        /// The known names.
        known: String,
    },
}

ghostlight_actors::parts_of_system_error!(PlanError);

/// Tasks whose dependencies all exist and form no circle.
///
/// Tasks that may begin are started in the order of their priority and, with equal priority, in the
/// order of the plan, so the same plan is always done in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPlan {
    tasks: Vec<PlannedTask>,
    /// The places of the tasks on which each task depends.
    needs: Vec<BTreeSet<usize>>,
    /// The length of the longest chain of dependencies of each task.
    levels: Vec<usize>,
}

impl TaskPlan {
    /// A plan of these tasks, at most `most`.
    ///
    /// # Errors
    /// The first fault.
    pub fn new(tasks: Vec<PlannedTask>, most: usize) -> Result<Self, PlanError> {
        if tasks.is_empty() || tasks.len() > most {
            let found = tasks.len();
            return Err(PlanError::Size { found, most });
        }
        let mut places = BTreeMap::new();
        for (place, task) in tasks.iter().enumerate() {
            let lacks = [
                ("id", &task.id),
                ("processor", &task.processor),
                ("description", &task.description),
            ];
            if let Some((what, _)) = lacks.into_iter().find(|(_, text)| text.trim().is_empty()) {
                return Err(PlanError::Lacks {
                    place: place + 1,
                    id: task.id.clone(),
                    what,
                });
            }
            if places.insert(task.id.as_str(), place).is_some() {
                return Err(PlanError::Twice(task.id.clone()));
            }
        }
        let mut needs = Vec::with_capacity(tasks.len());
        for task in &tasks {
            let mut own = BTreeSet::new();
            for dependency in &task.dependencies {
                let Some(place) = places.get(dependency.as_str()) else {
                    let known: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
                    return Err(PlanError::Unknown {
                        task: task.id.clone(),
                        dependency: dependency.clone(),
                        known: known.join(", "),
                    });
                };
                own.insert(*place);
            }
            needs.push(own);
        }
        let levels = levels(&needs).map_err(|circle| {
            let ids = circle.into_iter().map(|place| tasks[place].id.clone());
            PlanError::Cycle(ids.collect())
        })?;
        Ok(Self {
            tasks,
            needs,
            levels,
        })
    }

    /// The tasks, in the order in which they were planned.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }

    /// The tasks in phases: each phase holds the tasks that depend only on earlier phases, in the
    /// order in which they begin.
    pub fn phases(&self) -> Vec<Vec<&PlannedTask>> {
        let count = self.levels.iter().max().map_or(0, |level| level + 1);
        let mut phases = vec![Vec::new(); count];
        for place in self.by_priority() {
            phases[self.levels[place]].push(&self.tasks[place]);
        }
        phases
    }

    pub(super) fn level(&self, place: usize) -> usize {
        self.levels[place]
    }

    pub(super) fn needs(&self, place: usize) -> &BTreeSet<usize> {
        &self.needs[place]
    }

    /// All places, in the order in which the tasks would begin if all could.
    pub(super) fn by_priority(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.tasks.len()).collect();
        // The sort is stable, so equals stay in the order of the plan.
        places.sort_by_key(|place| self.tasks[*place].priority);
        places
    }
}

/// The level of each task, or a circle. It removes, again and again, the tasks that depend on no
/// remaining task (Kahn 1962), so it needs no recursion, however long a chain is.
fn levels(needs: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut levels = vec![0; needs.len()];
    let mut open: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (place, own) in needs.iter().enumerate() {
        for need in own {
            wanted_by[*need].push(place);
        }
    }
    let mut ready: Vec<usize> = (0..needs.len()).filter(|place| open[*place] == 0).collect();
    let mut done = 0;
    while let Some(place) = ready.pop() {
        done += 1;
        for wanting in &wanted_by[place] {
            levels[*wanting] = levels[*wanting].max(levels[place] + 1);
            open[*wanting] -= 1;
            if open[*wanting] == 0 {
                ready.push(*wanting);
            }
        }
    }
    if done == needs.len() {
        return Ok(levels);
    }
    Err(circle(needs, &open))
}

/// A circle among the tasks that still wait: from any waiting task, following the waiting
/// dependencies leads into a circle.
fn circle(needs: &[BTreeSet<usize>], open: &[usize]) -> Vec<usize> {
    let waits = |place: &usize| open[*place] > 0;
    let mut at = (0..needs.len()).find(waits).unwrap_or(0);
    let mut path: Vec<usize> = Vec::new();
    loop {
        if let Some(begin) = path.iter().position(|seen| *seen == at) {
            let mut circle = path.split_off(begin);
            circle.push(at);
            return circle;
        }
        path.push(at);
        match needs[at].iter().find(|place| waits(place)) {
            Some(next) => at = *next,
            None => return path,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(id: &str, after: &[&str]) -> PlannedTask {
        PlannedTask::new(id, "p", "d").after(after.iter().copied())
    }

    #[test]
    fn phases_hold_what_needs_only_earlier_ones_by_priority() {
        let tasks = vec![
            task("late", &["a", "b"]),
            task("b", &[]).priority(2),
            task("a", &[]).priority(1),
            task("c", &[]).priority(2),
            task("last", &["late", "c"]),
        ];
        let plan = TaskPlan::new(tasks, 10).unwrap();
        let phases: Vec<Vec<&str>> = plan
            .phases()
            .into_iter()
            .map(|phase| phase.into_iter().map(|task| task.id.as_str()).collect())
            .collect();
        assert_eq!(phases, [vec!["a", "b", "c"], vec!["late"], vec!["last"]]);
    }

    #[test]
    fn what_is_wrong_is_told_by_name() {
        let wrong = |tasks| TaskPlan::new(tasks, 3).unwrap_err().to_string();
        assert!(wrong(vec![]).contains("0 tasks"));
        assert!(wrong(vec![task("a", &[]); 4]).contains("4 tasks"));
        assert!(wrong(vec![task("a", &[]), task("a", &[])]).contains("the id \"a\""));
        assert!(wrong(vec![task("a", &["z"])]).contains("\"z\", which is not in the plan"));
        assert!(wrong(vec![task("", &[])]).contains("has no id"));
        let circle = vec![task("a", &[]), task("b", &["c", "a"]), task("c", &["b"])];
        assert!(wrong(circle).contains("b -> c -> b"));
        assert!(wrong(vec![task("a", &["a"])]).contains("a -> a"));
    }

    #[test]
    fn a_long_chain_takes_no_stack() {
        let tasks: Vec<PlannedTask> = (0..50_000_usize)
            .map(|n| match n {
                0 => task("0", &[]),
                n => task(&n.to_string(), &[&(n - 1).to_string()]),
            })
            .collect();
        let plan = TaskPlan::new(tasks, 50_000).unwrap();
        assert_eq!(plan.level(49_999), 49_999);
    }

    proptest! {
        #[test]
        fn a_plan_is_either_in_phases_that_keep_all_dependencies_or_has_the_circle_that_it_tells(
            edges in (1usize..9).prop_flat_map(|n| prop::collection::vec(
                prop::collection::btree_set(0..n, 0..3), n,
            )),
        ) {
            let tasks: Vec<PlannedTask> = edges
                .iter()
                .enumerate()
                .map(|(place, needs)| {
                    let needs: Vec<String> = needs.iter().map(usize::to_string).collect();
                    PlannedTask::new(place.to_string(), "p", "d").after(needs)
                })
                .collect();
            match TaskPlan::new(tasks, 9) {
                Ok(plan) => {
                    prop_assert_eq!(plan.phases().iter().map(Vec::len).sum::<usize>(), edges.len());
                    for (place, needs) in edges.iter().enumerate() {
                        prop_assert!(needs.iter().all(|need| plan.level(*need) < plan.level(place)));
                    }
                }
                Err(PlanError::Cycle(circle)) => {
                    let places: Vec<usize> = circle.iter().map(|id| id.parse().unwrap()).collect();
                    prop_assert!(places.len() > 1 && places.first() == places.last());
                    prop_assert!(places.windows(2).all(|two| edges[two[0]].contains(&two[1])));
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
