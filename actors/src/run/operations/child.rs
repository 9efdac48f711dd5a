use std::sync::Arc;

use crate::{
    run::{
        Arrival, Begin, Child, ChildResult, ChildStart, Composed, Operation, OperationContext,
        RunContext, Task, Wait, WaitFor,
    },
    vocabulary::{
        AgentError, Budget, Digest, ErrorKind, Message, OperationError, OperationId, Outcome,
        RunId, RunStart, Spent,
    },
};

/// How deep delegations may nest.
const MAX_DEPTH: usize = 64;

/// A task for another agent, done in a child run whose end is waited for.
#[derive(Debug)]
pub struct Delegate {
    agent: String,
    message: Message,
}

/// A task for another agent, done in a child run beside the function.
#[derive(Debug)]
pub struct Spawn(Delegate);

/// The end of a child run that was spawned.
#[derive(Debug)]
pub struct Join(Spawned);

/// A child run beside the function. It is stopped when the run that began it ends.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Spawned {
    /// The child run.
    pub run: RunId,
    /// The agent that carries it.
    pub agent: String,
    /// The operation that began it.
    pub operation: OperationId,
}

/// What a delegated task came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delegated {
    /// The child run.
    pub run: RunId,
    /// The answer's text, or the partial answer's.
    pub text: String,
    /// The outcome.
    pub outcome: Outcome,
    /// What the child and its own children consumed.
    pub spent: Spent,
}

impl Delegate {
    fn digest(&self) -> Digest {
        let message = serde_json::to_vec(&self.message).unwrap_or_default();
        Digest::of_parts(&[self.agent.as_bytes(), &message])
    }

    fn start(self, cx: &OperationContext) -> Result<ChildStart, OperationError> {
        let parent = cx.start();
        let pinned = cx.leg.pinned.clone();
        let Some(spec) = pinned.team.find(&self.agent) else {
            let message = format!("there is no agent {:?} in team {}", self.agent, parent.team);
            return Err(OperationError::new(ErrorKind::NotFound, message));
        };
        if parent.path.len() >= MAX_DEPTH {
            let message = format!("delegations nest deeper than {MAX_DEPTH}");
            return Err(OperationError::new(ErrorKind::Denied, message));
        }
        let run = cx.run.child(cx.id);
        let message = self.message;
        let mut start = RunStart::new(
            run,
            parent.team.clone(),
            self.agent.clone(),
            parent.definition,
            message,
        );
        start.root = parent.root;
        start.parent = Some((cx.run, cx.id));
        start.path = parent.path.iter().cloned().chain([self.agent]).collect();
        start.deadline = parent.deadline;
        start.owner.clone_from(&parent.owner);
        start.dry_run = parent.dry_run;
        let spent = cx.leg.books.lock().spent;
        start.budget = remaining(&parent.budget, &spec.budget, &spent);
        start.at = cx.ports.clock().now();
        Ok(ChildStart {
            run,
            parent: cx.run,
            agent: start.agent.clone(),
            start: Arc::new(start),
            pinned,
            fresh: true,
            operation: cx.id,
            cancel: None,
            news: cx.leg.news.clone(),
        })
    }
}

/// What a child may consume: what its agent may, and no more than the parent has left.
fn remaining(parent: &Budget, own: &Budget, spent: &Spent) -> Budget {
    let least = |own: Option<u64>, parent: Option<u64>, spent: u64| {
        own.into_iter()
            .chain(parent.map(|bound| bound.saturating_sub(spent)))
            .min()
    };
    Budget {
        model_calls: least(own.model_calls, parent.model_calls, spent.model_calls),
        tool_calls: least(own.tool_calls, parent.tool_calls, spent.tool_calls),
        tokens: least(own.tokens, parent.tokens, spent.usage.total_tokens()),
        cost_micros: least(own.cost_micros, parent.cost_micros, spent.usage.cost_micros),
        wall_time_ms: own.wall_time_ms,
    }
}

impl Operation for Delegate {
    type Output = ChildResult;

    fn kind(&self) -> &'static str {
        "delegate"
    }

    fn name(&self) -> &str {
        &self.agent
    }

    fn digest(&self) -> Digest {
        self.digest()
    }

    fn spent(result: &ChildResult) -> Spent {
        result.spent
    }

    fn begin(self, cx: OperationContext) -> Begin<ChildResult> {
        let start = match self.start(&cx) {
            Ok(start) => start,
            Err(error) => return Begin::Ready(Err(error)),
        };
        Begin::Child(Child {
            start,
            awaited: true,
            finish: Box::new(|run, end| {
                end.ok_or_else(|| {
                    let message = format!("the child run {run} has no end");
                    OperationError::new(ErrorKind::Delegation, message)
                })
            }),
        })
    }
}

impl Operation for Spawn {
    type Output = Spawned;

    fn kind(&self) -> &'static str {
        "spawn"
    }

    fn name(&self) -> &str {
        &self.0.agent
    }

    fn digest(&self) -> Digest {
        self.0.digest()
    }

    fn begin(self, cx: OperationContext) -> Begin<Spawned> {
        let (agent, operation) = (self.0.agent.clone(), cx.id);
        let start = match self.0.start(&cx) {
            Ok(start) => start,
            Err(error) => return Begin::Ready(Err(error)),
        };
        Begin::Child(Child {
            start,
            awaited: false,
            finish: Box::new(move |run, _| {
                Ok(Spawned {
                    run,
                    agent,
                    operation,
                })
            }),
        })
    }
}

impl Operation for Join {
    type Output = ChildResult;

    fn kind(&self) -> &'static str {
        "join"
    }

    fn name(&self) -> &str {
        &self.0.agent
    }

    fn digest(&self) -> Digest {
        // Not of the child's id: in a fork it is another one.
        Digest::of(self.0.operation.to_string().as_bytes())
    }

    fn spent(result: &ChildResult) -> Spent {
        result.spent
    }

    fn begin(self, _cx: OperationContext) -> Begin<ChildResult> {
        Begin::Wait(Wait {
            wait_for: WaitFor::Child(self.0.run),
            finish: Box::new(|arrival| match arrival {
                Arrival::Child(result) => Ok(*result),
                other => Err(super::tool::unexpected(&other)),
            }),
        })
    }
}

impl RunContext {
    /// Gives a task to another agent of the team and waits for what comes of it. It is done in a
    /// child run with a journal, a transcript and a budget of its own.
    ///
    /// # Errors
    /// A failed child is [`ErrorKind::Delegation`], with the path of agents through which the
    /// failure came; a child that stopped early is an outcome.
    pub fn delegate(&self, agent: impl Into<String>, task: impl Into<Task>) -> Composed<Delegated> {
        let (agent, message) = (agent.into(), task.into().message);
        let name = agent.clone();
        let performing = self.perform(Delegate { agent, message });
        Composed(Box::pin(async move { delegated(&name, performing.await?) }))
    }

    /// Gives a task to another agent of the team and goes on at once. The child is stopped when
    /// this run ends; [`join`](Self::join) waits for it.
    pub fn spawn(&self, agent: impl Into<String>, task: impl Into<Task>) -> Composed<Spawned> {
        let (agent, message) = (agent.into(), task.into().message);
        let performing = self.perform(Spawn(Delegate { agent, message }));
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
        let performing = self.perform(Join(child.clone()));
        Composed(Box::pin(async move { delegated(&name, performing.await?) }))
    }
}

fn delegated(agent: &str, result: ChildResult) -> Result<Delegated, AgentError> {
    let ChildResult {
        run,
        outcome,
        spent,
        ..
    } = result;
    match outcome {
        Ok(outcome) => Ok(Delegated {
            run,
            text: outcome.text().to_owned(),
            outcome,
            spent,
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
