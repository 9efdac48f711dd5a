use std::sync::Arc;

use super::{Assignee, PlainOperation};
use crate::{
    definition::AgentSpec,
    run::{
        Arrival, Begin, Child, ChildResult, ChildStart, Composed, Gate, OperationContext,
        RunContext, Task, Wait, WaitFor,
        delegated::{Delegated, Spawned},
    },
    vocabulary::{
        AgentError, Budget, Digest, ErrorKind, Message, OperationError, ParentPolicy, RunId,
        RunStart, SessionId, canonical,
    },
};

/// How deep delegations may nest.
const MAX_DEPTH: usize = 64;

/// A task for another agent, done in a child run.
struct Delegate {
    agent: Assignee,
    task: Task,
}

/// The terms of a task, as digests have them.
#[derive(Default, PartialEq, serde::Serialize)]
struct Terms(Budget, Option<u8>, ParentPolicy);

impl Delegate {
    fn digest(&self) -> Digest {
        let Task {
            message,
            budget,
            share,
            when_parent_ends,
            ..
        } = &self.task;
        let terms = Terms(*budget, *share, *when_parent_ends);
        let message = canonical::to_vec(message);
        if terms == Terms::default() {
            return Digest::of_parts(&[&self.agent.identity(), &message]);
        }
        let terms = canonical::to_vec(&terms);
        Digest::of_parts(&[&self.agent.identity(), &message, &terms])
    }

    /// The operation that waits for the child's end.
    fn awaited(self) -> PlainOperation<ChildResult> {
        let (name, digest, cause) = (self.name(), self.digest(), self.task.cause);
        let operation = PlainOperation::new("delegate", name, digest, move |cx| {
            self.begin_child(&cx, true, |run, end| {
                end.ok_or_else(|| {
                    let message = format!("the child run {run} has no end");
                    OperationError::new(ErrorKind::Delegation, message)
                })
            })
        });
        operation.caused(cause)
    }

    /// The operation after which the child works while the function goes on.
    fn beside(self) -> PlainOperation<Spawned> {
        let (name, digest, cause) = (self.name(), self.digest(), self.task.cause);
        let operation = PlainOperation::new("spawn", name, digest, move |cx| {
            let (agent, operation) = (self.name(), cx.id);
            let when_parent_ends = self.task.when_parent_ends;
            self.begin_child(&cx, false, move |run, _| {
                Ok(Spawned {
                    run,
                    agent,
                    operation,
                    when_parent_ends,
                })
            })
        });
        operation.caused(cause)
    }

    fn name(&self) -> String {
        self.agent.name().to_owned()
    }

    /// Begins the child. `finish` makes the operation's result, of the child's end where it is awaited.
    fn begin_child<T>(
        self,
        cx: &OperationContext,
        awaited: bool,
        finish: impl FnOnce(RunId, Option<ChildResult>) -> Result<T, OperationError> + Send + 'static,
    ) -> Begin<T> {
        let share = self.task.share;
        match self.start(cx) {
            Ok(start) => Begin::Child(Child {
                start,
                awaited,
                share,
                finish: Box::new(finish),
            }),
            Err(error) => Begin::Ready(Err(error)),
        }
    }

    /// The child, with the requested bounds. The ledger decides which bounds it gets.
    fn start(self, cx: &OperationContext) -> Result<ChildStart, OperationError> {
        let parent = cx.start();
        let name = self.agent.name().to_owned();
        let (pinned, made) = self.agent.definition(cx)?;
        // The child's own leg asks for the agent in the same way, so the agent is made once.
        let Some(agent) = pinned.agent(&name, Some(&name)) else {
            let message = format!("there is no agent {name:?} in team {}", parent.team);
            return Err(OperationError::new(ErrorKind::NotFound, message));
        };
        check_input(&agent.spec, &self.task.message)?;
        if parent.path.len() >= MAX_DEPTH {
            let message = format!("delegations nest deeper than {MAX_DEPTH}");
            return Err(OperationError::new(ErrorKind::Denied, message));
        }
        let run = cx.run.child(cx.id);
        let task = self.task;
        let mut start = RunStart::new(
            run,
            parent.team.clone(),
            name.clone(),
            made.as_ref()
                .map_or(parent.definition, |(digest, _)| *digest),
            task.message,
        );
        start.display_name.clone_from(&agent.spec.display_name);
        start.parent = Some((cx.run, cx.id));
        start.owner.clone_from(&parent.owner);
        (start.dry_run, start.streaming) = (parent.dry_run, parent.streaming);
        start.when_parent_ends = task.when_parent_ends;
        if task.when_parent_ends.outlives() {
            // A tree of its own, in a session of its own.
            start.session = Some(SessionId {
                team: parent.team.as_str().into(),
                key: run.to_string().into(),
            });
        } else {
            start.root = parent.root;
            start.path = parent.path.iter().cloned().chain([name]).collect();
        }
        if task.when_parent_ends != ParentPolicy::Adopt {
            start.deadline = parent.ends_by();
        }
        start.budget = task.budget.narrowed(&agent.spec.budget);
        start.at = cx.ports.clock().now();
        Ok(ChildStart {
            run,
            parent: cx.run,
            epoch: cx.leg.epoch,
            agent: start.agent.clone(),
            start: Arc::new(start),
            pinned,
            definition: made.map(|(_, bytes)| bytes),
            fresh: true,
            operation: cx.id,
            cancel: None,
            hears: task.hears && !task.when_parent_ends.outlives(),
            sender: cx.leg.sender.clone(),
        })
    }
}

/// Checks that a task fits the agent's input type.
fn check_input(agent: &AgentSpec, task: &Message) -> Result<(), OperationError> {
    let Some(schema) = &agent.input else {
        return Ok(());
    };
    let text = task.content();
    let fault = match ghostlight_safety::unambiguous_json(&text) {
        Err(fault) => Some(format!("it is no JSON ({fault})")),
        Ok(value) => super::fitting::misfit(schema, &value),
    };
    match fault {
        None => Ok(()),
        Some(fault) => {
            let message = format!("the task does not fit what {} takes: {fault}", agent.name);
            Err(OperationError::new(ErrorKind::Malformed, message))
        }
    }
}

impl RunContext {
    /// Gives a task to another agent and waits for its outcome. The agent is one of the team, by
    /// its name, or one that is made for this task, by its definition. The task is done in a child
    /// run with a journal, a transcript and a budget of its own.
    ///
    /// The child's budget is set aside in the commit that begins the child, so children that run
    /// side by side cannot overspend together. The rest of it returns when the child ends.
    /// [`Task::share`] says how much the child gets.
    ///
    /// # Errors
    /// [`ErrorKind::Delegation`] for a failed child, with the path of agents through which the
    /// failure came. A child that stopped early is an outcome and no error.
    /// [`ErrorKind::Malformed`] for a task that does not fit the agent's
    /// [`input`](AgentSpec::input), and for a definition that names something unknown, and
    /// [`ErrorKind::Denied`] below the 64th level of a tree: no child begins then.
    pub fn delegate(
        &self,
        agent: impl Into<Assignee>,
        task: impl Into<Task>,
    ) -> Composed<Delegated> {
        let (agent, task) = (agent.into(), task.into());
        if task.when_parent_ends.outlives() {
            let (spawn, join) = (self.spawn(agent, task), self.allocate());
            let cx = RunContext::new(self.leg().clone());
            return Composed(Box::pin(async move {
                let child = spawn.await?;
                let name = child.agent.clone();
                delegated(&name, cx.perform_as(join, joining(child)).await?)
            }));
        }
        let name = agent.name().to_owned();
        let performing = self.perform(Delegate { agent, task }.awaited());
        Composed(Box::pin(async move { delegated(&name, performing.await?) }))
    }

    /// Gives a task to another agent, as [`delegate`](Self::delegate) does, and goes on at once.
    /// [`Task::when_parent_ends`] says whether the child stops or goes on when this run ends or is
    /// cancelled first. [`join`](Self::join) waits for the child.
    ///
    /// A child that can outlive this run is a tree of its own from its first entry. It is recovered
    /// by itself, it has a session of its own whose key is its id, it has its own events, and its
    /// share of the budget is given to it for good.
    pub fn spawn(&self, agent: impl Into<Assignee>, task: impl Into<Task>) -> Composed<Spawned> {
        let (agent, task) = (agent.into(), task.into());
        let performing = self.perform(Delegate { agent, task }.beside());
        let leg = self.leg().clone();
        Composed(Box::pin(async move {
            let spawned = performing.await?;
            leg.books
                .lock()
                .spawned
                .push((spawned.agent.clone(), spawned.run));
            Ok(spawned)
        }))
    }

    /// Waits for a child run that was spawned.
    ///
    /// # Errors
    /// As [`delegate`](Self::delegate).
    pub fn join(&self, child: &Spawned) -> Composed<Delegated> {
        let name = child.agent.clone();
        let performing = self.perform(joining(child.clone()));
        Composed(Box::pin(async move { delegated(&name, performing.await?) }))
    }
}

/// The operation that waits for the end of a child run that was spawned.
fn joining(child: Spawned) -> PlainOperation<ChildResult> {
    // The child's id is left out of the digest, since it differs in a fork.
    let digest = Digest::of(child.operation.to_string().as_bytes());
    PlainOperation::new("join", child.agent.clone(), digest, move |cx| {
        if child.when_parent_ends.outlives() {
            return Begin::act(Gate::Before, cx.ports.outcome(child.run));
        }
        let (begun_by, run) = (child.operation, child.run);
        let child = WaitFor::Child { begun_by, run };
        Begin::Wait(Wait::new(child, |arrival| match arrival {
            Arrival::Child(result) => Ok(*result),
            other => Err(other.unexpected()),
        }))
    })
}

fn delegated(agent: &str, result: ChildResult) -> Result<Delegated, AgentError> {
    match result.outcome {
        Ok(outcome) => Ok(Delegated {
            run: result.run,
            text: outcome.text().to_owned(),
            outcome,
            spent: result.spent,
        }),
        Err(cause) => {
            let mut path = vec![agent.to_owned()];
            let (message, cause) = match cause {
                AgentError::Operation(mut error) => {
                    path.append(&mut error.path);
                    let message = error.message.clone();
                    let first = error.cause.take();
                    (message, first.unwrap_or_else(|| Box::new(error.into())))
                }
                other => (other.to_string(), Box::new(other)),
            };
            let mut error = OperationError::new(ErrorKind::Delegation, message);
            (error.path, error.cause) = (path, Some(cause));
            Err(AgentError::Operation(error))
        }
    }
}
