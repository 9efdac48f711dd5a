//! A list of things to do, which lives in the session.

use std::{collections::BTreeSet, fmt};

use ghostlight_actors::{
    run::{BeforeTool, OwnTool, Policy, PolicyContext, operations::Scope},
    vocabulary::{
        AgentError, Effect, ModelRequest, ModelResponse, Outcome, ToolCall, ToolDefinition,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checked;

/// The name of the tool with which a model keeps its list.
pub const TODO_WRITE: &str = "todo_write";

/// Where the list is in the session's state.
pub(super) const KEY: &str = "todos";

/// Gives the agent the tool `todo_write`. The list is the session's, so later turns go on with it
/// and other agents of the session see it; every request shows it at its end, where it is
/// read best, and no conversation grows by it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Todos {
    #[serde(skip)]
    list: TodoList,
    #[serde(skip, default = "own_tool")]
    tool: OwnTool,
}

fn own_tool() -> OwnTool {
    let description = "Keeps the list of what is to be done. With `merge` the given items are \
                       changed or added by their id, without it they are the whole list.";
    let definition = ToolDefinition::new(TODO_WRITE, description);
    OwnTool::new(definition.parameters_of::<Write>().effect(Effect::Read))
}

impl Default for Todos {
    fn default() -> Self {
        Self {
            list: TodoList::default(),
            tool: own_tool(),
        }
    }
}

impl Checked for Todos {}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What tells it from others.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done now.
    InProgress,
    /// Done.
    Completed,
    /// No longer wanted.
    Canceled,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// Whether the items are changes of the list, and not the whole list.
    #[serde(default)]
    merge: bool,
    /// The items.
    todos: Vec<Todo>,
}

impl Write {
    fn check(&self) -> Result<(), String> {
        if self.todos.is_empty() {
            return Err("the list is empty".to_owned());
        }
        let mut known = BTreeSet::new();
        for Todo { id, content, .. } in &self.todos {
            if id.trim().is_empty() || content.trim().is_empty() {
                return Err("an item needs an id and a content".to_owned());
            }
            if !known.insert(id) {
                return Err(format!("the id {id:?} stands twice in the list"));
            }
        }
        Ok(())
    }
}

/// The list of tasks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TodoList(pub Vec<Todo>);

impl TodoList {
    /// The list with these items changed or added by their ids, or with these alone.
    #[must_use]
    pub fn written(mut self, items: &[Todo], merge: bool) -> Self {
        if !merge {
            return Self(items.to_vec());
        }
        for item in items {
            match self.0.iter_mut().find(|known| known.id == item.id) {
                Some(known) => known.clone_from(item),
                None => self.0.push(item.clone()),
            }
        }
        self
    }

    /// How many there are, and how far.
    pub fn summary(&self) -> String {
        let count = |status| self.0.iter().filter(|todo| todo.status == status).count();
        format!(
            "{} items: {} pending, {} in progress, {} completed, {} canceled",
            self.0.len(),
            count(TodoStatus::Pending),
            count(TodoStatus::InProgress),
            count(TodoStatus::Completed),
            count(TodoStatus::Canceled),
        )
    }
}

/// One line an item: `[ ] id: content`.
impl fmt::Display for TodoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Todo {
            id,
            content,
            status,
        } in &self.0
        {
            let mark = match status {
                TodoStatus::Pending => ' ',
                TodoStatus::InProgress => '>',
                TodoStatus::Completed => 'x',
                TodoStatus::Canceled => '-',
            };
            writeln!(f, "[{mark}] {id}: {content}")?;
        }
        Ok(())
    }
}

impl Policy for Todos {
    fn tools(&self) -> Vec<String> {
        vec![self.tool.name()]
    }

    async fn before_run(&mut self, cx: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        let kept = cx.state(Scope::Session).get::<TodoList>(KEY).await?;
        self.list = kept.unwrap_or_default();
        Ok(None)
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.tool.offer(request);
        if !self.list.0.is_empty() {
            let list = &self.list;
            cx.remind(format!(
                "[What is to be done; keep it up to date with `{TODO_WRITE}`:]\n{list}"
            ));
        }
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != TODO_WRITE {
            return Ok(BeforeTool::Go);
        }
        let write = call.arguments.parse::<Write>();
        let write = write.map_err(|error| error.to_string());
        let write = write.and_then(|write| write.check().map(|()| write));
        let Write { merge, todos } = match write {
            Ok(write) => write,
            Err(reason) => {
                let text = format!("Not written: {reason}.");
                return Ok(BeforeTool::failed(call, text));
            }
        };
        let change = move |kept: Option<TodoList>| kept.unwrap_or_default().written(&todos, merge);
        self.list = cx.state(Scope::Session).update(KEY, change).await?;
        Ok(BeforeTool::done(call, self.list.summary()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn todo(id: &str, status: TodoStatus) -> Todo {
        Todo {
            id: id.to_owned(),
            content: format!("do {id}"),
            status,
        }
    }

    #[test]
    fn a_list_is_replaced_or_merged_by_id() {
        use TodoStatus::{Canceled, Completed, Pending};
        let first = TodoList::default().written(&[todo("a", Pending), todo("b", Pending)], false);
        let second = first.written(&[todo("b", Completed), todo("c", Canceled)], true);
        assert_eq!(
            second.to_string(),
            "[ ] a: do a\n[x] b: do b\n[-] c: do c\n"
        );
        let summary = "3 items: 1 pending, 0 in progress, 1 completed, 1 canceled";
        assert_eq!(second.summary(), summary);
        assert_eq!(second.written(&[todo("d", Pending)], false).0.len(), 1);
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        use TodoStatus::Pending;
        let write = |todos| Write { merge: true, todos }.check().unwrap_err();
        assert!(write(vec![]).contains("empty"));
        assert!(write(vec![todo(" ", Pending)]).contains("an id"));
        assert!(write(vec![todo("a", Pending), todo("a", Pending)]).contains("twice"));
    }
}
