//! Workflows: behaviors in which the agents below do the work.
//!
//! | name | workflow |
//! |---|---|
//! | `sequential` | [`Sequential`]: one after the other, each sees what was said before |
//! | `pipeline` | [`Pipeline`]: one after the other, each gets the answer of the one before |
//! | `loop` | [`Loop`]: the same agents again and again, until a condition holds |
//! | `parallel` | [`Parallel`]: all at once, their answers under their names or put together |
//! | `fallback` | [`Fallback`]: one after the other, until one answers |
//! | `for_each` | [`ForEach`]: one agent for each item of a list |
//! | `fan_out` | [`FanOut`]: a planner divides the task, workers do the parts, an aggregator answers |
//! | `graph` | [`GraphSpec`]: nodes and ways between them, by rules over named values |
//! | `router` | [`Router`]: the agent that fits the task |
//! | `round_robin` | [`RoundRobin`]: a conversation in which the agents take turns |
//! | `role_play` | [`RolePlay`]: one agent instructs, another one does |
//! | `debate` | [`Debate`]: agents argue over rounds, and a judge decides |
//! | `vote` | [`Vote`]: agents choose, the votes decide |
//! | `coordinator` | [`Coordinator`]: a model hands out work to the others over rounds |
//! | `orchestrator` | [`Orchestrator`]: a model plans tasks that depend on each other, which are then done |
//! | `reactree` | [`ReAcTree`]: a tree of goals that the model divides under sequence, fallback and parallel nodes |
//! | `tool_chain` | [`ToolChain`]: tools one after the other, without a model |
//!
//! Each workflow is straight-line code over a [`RunContext`](ghostlight_actors::run::RunContext).
//! Its members work in child runs, so a workflow is durable, cancelled, budgeted and observed
//! without code of its own for that, and workflows nest. A workflow's settings name its members;
//! without names, all agents below are its members, in their order.
//!
//! ```yaml
//! agent:
//!   name: article
//!   behavior: { name: loop, until: { text: APPROVED }, max_rounds: 3 }
//!   agents:
//!     - { name: writer, instructions: Write or revise the article. }
//!     - { name: critic, instructions: Criticise the article; say APPROVED when it is good. }
//! ```
//!
//! The condition of a loop is a [`Termination`]; the policy [`EndWhen`] ends an agent's own loop by one.
//!
//! A [`StateGraph`] is the graph for programs: nodes that change a state of any type, and the ways
//! between them.
//!
//! A member that fails, or that stops before its task is done, ends the workflow, unless the
//! workflow's settings say otherwise. A member that
//! [escalates](ghostlight_actors::vocabulary::StopReason::Escalated) ends every workflow on the way
//! up to an agent that can reason about it: a coordinator's model can, and a fallback continues
//! with its next member. A member that [exits the
//! loop](ghostlight_actors::vocabulary::StopReason::LoopExited) ends the innermost loop around it,
//! which then answers.

mod conversation;
mod coordinator;
mod debate;
mod ending;
mod ends;
mod fallback;
mod fan_out;
mod for_each;
mod graph;
mod looping;
mod member;
mod orchestrator;
mod parallel;
mod reactree;
mod role_play;
mod round_robin;
mod router;
mod sequential;
mod termination;
mod tool_chain;
mod turns;
mod vote;

use ghostlight_actors::run::{PolicyHandle, Registry};
use serde::Deserialize as _;

pub use conversation::Utterance;
pub use coordinator::Coordinator;
pub use debate::Debate;
pub use ending::EndWhen;
pub use ends::OnFailure;
pub use fallback::Fallback;
pub use fan_out::FanOut;
pub use for_each::ForEach;
pub use graph::{
    Choice, END, Graph, GraphEnd, GraphError, GraphNode, GraphSpec, Reducer, Rule, StateGraph, Then,
};
pub use looping::Loop;

pub use orchestrator::{
    Orchestrator, PlanError, PlanFormat, PlannedTask, TaskPlan, XmlError, read_xml,
};
pub use parallel::{Parallel, ParallelFailure};
pub use reactree::{ParallelVote, ReAcTree};
pub use role_play::RolePlay;
pub use round_robin::RoundRobin;
pub use router::{Route, Router};
pub use sequential::{Pipeline, Sequential, Stage};
pub use termination::Termination;
pub use tool_chain::{ToolChain, ToolStep};
pub use vote::{Tie, Vote};

/// Registers every built-in workflow under its name, and the policy `end_when` ([`EndWhen`]).
#[must_use]
pub fn register(registry: Registry) -> Registry {
    registry
        .behavior_type::<Coordinator>("coordinator")
        .behavior_type::<Debate>("debate")
        .behavior_type::<Fallback>("fallback")
        .behavior_type::<FanOut>("fan_out")
        .behavior_type::<ForEach>("for_each")
        .behavior_type::<GraphSpec>("graph")
        .behavior_type::<Orchestrator>("orchestrator")
        .behavior_type::<Parallel>("parallel")
        .behavior_type::<Pipeline>("pipeline")
        .behavior_type::<ReAcTree>("reactree")
        .behavior_type::<Loop>("loop")
        .behavior_type::<RolePlay>("role_play")
        .behavior_type::<RoundRobin>("round_robin")
        .behavior_type::<Router>("router")
        .behavior_type::<Sequential>("sequential")
        .behavior_type::<ToolChain>("tool_chain")
        .behavior_type::<Vote>("vote")
        .policy("end_when", |settings| {
            let policy = EndWhen::deserialize(settings).map_err(|error| error.to_string())?;
            Ok(PolicyHandle::new(move || policy.clone()))
        })
}
