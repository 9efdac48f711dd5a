//! Plans as the model writes them.

use std::{collections::BTreeSet, fmt};

use ghostlight_actors::vocabulary::{Arguments, Effect, ToolDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the tool with which a model writes its plan.
pub const CREATE_TASKS: &str = "create_tasks";

const DESCRIPTION: &str = "\
Writes the plan of a task that takes several steps, or brings it up to date. Use it before such a \
task, and again whenever a step begins, ends, or turns out to be another one; not for a single \
trivial step. Give the whole list each time, with the status of each task as it is now; at most \
one task is in progress.";

/// The tool with which a model writes its plan.
pub(super) fn create_tasks() -> ToolDefinition {
    ToolDefinition::new(CREATE_TASKS, DESCRIPTION)
        .parameters_of::<Plan>()
        .effect(Effect::Read)
}

/// A plan: its tasks in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The tasks, in order.
    pub tasks: Vec<PlanTask>,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TaskStatus,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    Pending,
    /// Being done now.
    InProgress,
    /// Done.
    Completed,
}

/// The changes that a revision of a plan made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanDifference {
    /// Tasks that are new.
    pub added: Vec<String>,
    /// Tasks that are gone.
    pub removed: Vec<String>,
    /// Tasks whose status changed, with the status before and now.
    pub changed: Vec<(String, TaskStatus, TaskStatus)>,
}

impl Plan {
    /// The plan in these arguments of `create_tasks`.
    ///
    /// # Errors
    /// The fault that the model has to mend.
    pub fn parse(arguments: &Arguments) -> Result<Self, String> {
        let plan: Self = arguments.parse().map_err(|error| error.to_string())?;
        if plan.tasks.is_empty() {
            return Err("a plan has at least one task".to_owned());
        }
        let mut known = BTreeSet::new();
        for task in &plan.tasks {
            let content = task.content.trim();
            if content.is_empty() {
                return Err("a task has no content".to_owned());
            }
            if !known.insert(content) {
                return Err(format!("the task {content:?} stands twice in the plan"));
            }
        }
        let in_progress = plan.tasks.iter();
        let in_progress = in_progress.filter(|task| task.status == TaskStatus::InProgress);
        match in_progress.count() {
            0 | 1 => Ok(plan),
            several => Err(format!(
                "{several} tasks are in progress: at most one may be"
            )),
        }
    }

    /// The changes of this revision from the one before.
    pub fn since(&self, before: &Plan) -> PlanDifference {
        let find = |plan: &Plan, content: &str| {
            let mut tasks = plan.tasks.iter();
            tasks
                .find(|task| task.content.trim() == content.trim())
                .map(|task| task.status)
        };
        let mut difference = PlanDifference::default();
        for task in &self.tasks {
            match find(before, &task.content) {
                None => difference.added.push(task.content.clone()),
                Some(status) if status != task.status => {
                    let change = (task.content.clone(), status, task.status);
                    difference.changed.push(change);
                }
                Some(_) => {}
            }
        }
        let gone = before.tasks.iter();
        let gone = gone.filter(|task| find(self, &task.content).is_none());
        difference.removed = gone.map(|task| task.content.clone()).collect();
        difference
    }
}

/// One line a task: `[ ] pending`, `[>] **in progress**`, `[x] ~~completed~~`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, PlanTask { content, status }) in self.tasks.iter().enumerate() {
            let line = match status {
                TaskStatus::Pending => format!("[ ] {content}"),
                TaskStatus::InProgress => format!("[>] **{content}**"),
                TaskStatus::Completed => format!("[x] ~~{content}~~"),
            };
            let end = if place == 0 { "" } else { "\n" };
            write!(f, "{end}{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(tasks: Value) -> Result<Plan, String> {
        Plan::parse(&json!({ "tasks": tasks }).into())
    }

    fn task(content: &str, status: &str) -> Value {
        json!({"content": content, "status": status})
    }

    #[test]
    fn a_plan_is_written_in_the_form_that_its_schema_describes() {
        let written = json!({"tasks": [task("a", "in_progress"), task("b", "pending")]});
        let plan = Plan::parse(&written.clone().into()).unwrap();
        assert_eq!(serde_json::to_value(&plan).unwrap(), written);
        let schema = jsonschema_of_tool();
        assert!(schema.is_valid(&written));
        assert!(!schema.is_valid(&json!({"tasks": [task("a", "done")]})));
    }

    fn jsonschema_of_tool() -> jsonschema::Validator {
        jsonschema::validator_for(&create_tasks().parameters).unwrap()
    }

    #[test]
    fn what_is_wrong_with_a_plan_is_said() {
        for (tasks, reason) in [
            (json!([]), "at least one task"),
            (json!([task(" ", "pending")]), "no content"),
            (
                json!([task("a", "pending"), task("a ", "completed")]),
                "twice",
            ),
            (json!([task("a", "done")]), "unknown variant `done`"),
            (json!([{"content": "a"}]), "missing field `status`"),
            (
                json!([task("a", "in_progress"), task("b", "in_progress")]),
                "2 tasks are in progress",
            ),
        ] {
            let told = plan(tasks).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
        assert!(Plan::parse(&Arguments::from_text("{")).is_err());
    }

    #[test]
    fn tasks_show_their_status_and_revisions_what_they_changed() {
        let first = plan(json!([task("a", "in_progress"), task("b", "pending")])).unwrap();
        let second = plan(json!([task("a", "completed"), task("c", "pending")])).unwrap();
        assert_eq!(first.to_string(), "[>] **a**\n[ ] b");
        assert_eq!(second.to_string(), "[x] ~~a~~\n[ ] c");
        let difference = second.since(&first);
        assert_eq!(
            (difference.added, difference.removed),
            (vec!["c".to_owned()], vec!["b".to_owned()])
        );
        let change = (
            "a".to_owned(),
            TaskStatus::InProgress,
            TaskStatus::Completed,
        );
        assert_eq!(difference.changed, [change]);
        assert_eq!(first.since(&first), PlanDifference::default());
    }
}
