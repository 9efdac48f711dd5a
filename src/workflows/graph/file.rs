//! A graph as plain data: nodes are agents and tools by name, the state is named values.

mod rule;
mod state;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, ToolCall, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Graph, GraphEnd, GraphError, Halt, StateGraph, Unfinished, Walked, Way, so_far};
use crate::{
    behaviors::{Prompt, task},
    workflows::{
        ends::{MemberEnd, stopped},
        member::{ask, called, check_name},
        tool_chain::filled,
    },
};

pub use rule::Rule;
pub use state::Reducer;
use state::State;

/// A graph of steps in a team file. Its state consists of named values: it begins with `task`, and
/// each node adds its result, under its own name or the name in `into`. In a prompt or an argument,
/// `{name}` stands for a value, and `NODE.times` for how often a node was walked.
///
/// ```yaml
/// behavior:
///   name: graph
///   entry: draft
///   nodes:
///     draft: { agent: writer, prompt: "{task}\n{judge}", then: judge }
///     judge:
///       agent: critic
///       prompt: "{draft}"
///       then:
///         - { when: { contains: { judge: APPROVED } }, to: end }
///         - { when: { at_least: { draft.times: 3 } }, to: end }
///         - { to: draft }
///   answer: "{draft}"
/// ```
///
/// It is the [`StateGraph`] that code would build, with its checks, its bound and its pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GraphSpec {
    /// The node with which it begins.
    pub entry: String,
    /// The nodes, by name; `end` is not a node.
    pub nodes: BTreeMap<String, GraphNode>,
    /// The values with which it begins, beside the task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// The template of the answer; the result of the last node when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Prompt>,
    /// How a value that branches changed is merged, by its name; when left out, the value of the
    /// last branch counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merge: BTreeMap<String, Reducer>,
    /// How many nodes may be walked in all, branches included.
    #[serde(default = "default_steps")]
    pub max_steps: u32,
}

fn default_steps() -> u32 {
    100
}

/// A node of a [`GraphSpec`]: what is done there (an agent, a tool, a graph, or nothing but
/// setting values), and where it leads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GraphNode {
    /// The agent below that works here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The question to it; the task when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    /// The tool of the agent's that is called here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments, each text filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// A graph within: it is walked over the same values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<GraphSpec>>,
    /// Values that are set before anything is done, each text filled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// The name under which its result is kept; its own name when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The question that a person is asked before it; a refusal ends the run as denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// The longest that it may take.
    #[serde(
        rename = "timeout_s",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub timeout: Option<Duration>,
    /// Where it leads when it fails; `NODE.failed` holds why. The graph fails when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// Where it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

/// Where a node of a [`GraphSpec`] leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a node's name, a list of `{ when, to }`, or `{ all, join }`"
)]
#[non_exhaustive]
pub enum Then {
    /// To this node, or to `end`.
    To(String),
    /// To the first whose rule holds.
    First(Vec<Choice>),
    /// To all of these at once, which meet again.
    All {
        /// The nodes with which the branches begin.
        all: Vec<String>,
        /// The node at which they meet.
        join: String,
    },
}

/// One of several ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Choice {
    /// The rule by which it is taken; always, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Rule>,
    /// The node, or `end`.
    pub to: String,
}

impl<S: Clone + Send + 'static> StateGraph<S> {
    /// [`route`](Self::route) with the condition of each target in words.
    pub(super) fn told_route(
        self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = (String, String)>,
        choose: impl Fn(&S) -> String + Send + Sync + 'static,
    ) -> Self {
        let (targets, words) = targets.into_iter().unzip();
        let choose = Arc::new(choose);
        self.way(
            from,
            Way::Choice {
                targets,
                words,
                choose,
            },
        )
    }
}

impl GraphSpec {
    /// The graph in Mermaid's language.
    ///
    /// # Errors
    /// The graph's first fault.
    pub fn mermaid(&self) -> Result<String, GraphError> {
        Ok(self.compile()?.mermaid())
    }

    /// The graph in Graphviz's language.
    ///
    /// # Errors
    /// The graph's first fault.
    pub fn dot(&self) -> Result<String, GraphError> {
        Ok(self.compile()?.dot())
    }

    fn compile(&self) -> Result<Graph<State>, GraphError> {
        let mut graph = StateGraph::new(self.entry.as_str()).max_steps(self.max_steps);
        for (name, node) in &self.nodes {
            graph = match &node.graph {
                Some(within) => graph.graph(name.as_str(), within.compile()?),
                None => {
                    let (node, called) = (node.clone(), name.clone());
                    graph.halting_node(name.as_str(), move |cx, state| {
                        let (node, called) = (node.clone(), called.clone());
                        async move { node.walk(&called, &cx, state).await }
                    })
                }
            };
            if let Some(question) = &node.confirm {
                graph = graph.interrupt_before(name.as_str(), question.as_str());
            }
            graph = self.lead_on(graph, name, node);
        }
        graph.compile()
    }

    fn lead_on(&self, graph: StateGraph<State>, name: &str, node: &GraphNode) -> StateGraph<State> {
        let choices = match &node.then {
            // The node leads nowhere, which the graph's check reports.
            None => return graph,
            Some(Then::All { all, join }) => {
                let rules = self.merge.clone();
                let merge = move |fork, branches| State::merge(fork, branches, &rules);
                return graph.fork(name, all.clone(), join.as_str(), merge);
            }
            Some(Then::To(to)) if node.on_failure.is_none() => {
                return graph.edge(name, to.as_str());
            }
            Some(Then::To(to)) => vec![Choice {
                when: None,
                to: to.clone(),
            }],
            Some(Then::First(choices)) => choices.clone(),
        };
        let failed = format!("{name}.failed");
        let on_failure = node.on_failure.clone();
        let told = choices.iter().map(|choice| {
            let words = match &choice.when {
                Some(rule) => rule.to_string(),
                None if choices.len() > 1 => "otherwise".to_owned(),
                None => String::new(),
            };
            (choice.to.clone(), words)
        });
        let failing = on_failure.clone().map(|to| (to, "on failure".to_owned()));
        let targets: Vec<(String, String)> = told.chain(failing).collect();
        graph.told_route(name, targets, move |state: &State| {
            if let Some(to) = on_failure.as_ref().filter(|_| state.has(&failed)) {
                return to.clone();
            }
            let mut open = choices.iter().filter(|choice| {
                let rule = choice.when.as_ref();
                rule.is_none_or(|rule| rule.holds(state))
            });
            open.next()
                .map(|choice| choice.to.clone())
                .unwrap_or_default()
        })
    }

    /// Whether the answer needs the result of a node that has none yet.
    fn lacks(&self, state: &State) -> bool {
        let answer = self
            .answer
            .as_ref()
            .map(Prompt::to_string)
            .unwrap_or_default();
        let names = self.nodes.iter();
        let mut names = names.map(|(name, node)| node.into.as_ref().unwrap_or(name));
        names.any(|name| !state.has(name) && answer.contains(&format!("{{{name}}}")))
    }

    /// The faults of the graph for this agent, beside those that the graph's own check
    /// finds.
    fn fault(&self, agent: &AgentSpec) -> Result<(), String> {
        for (name, node) in &self.nodes {
            let place = format!("nodes.{name}");
            let does = [
                node.agent.is_some(),
                node.tool.is_some(),
                node.graph.is_some(),
            ];
            if does.iter().filter(|does| **does).count() > 1 {
                return Err(format!(
                    "{place}: it has more than one of agent, tool and graph"
                ));
            }
            if let Some(member) = &node.agent {
                check_name(agent, &format!("{place}.agent"), member)?;
            }
            if let Some(tool) = node
                .tool
                .as_ref()
                .filter(|tool| !agent.tools.contains(tool))
            {
                return Err(format!(
                    "{place} names the tool {tool:?}, which {} does not have; it has: {}",
                    agent.name,
                    agent.tools.join(", ")
                ));
            }
            if let Some(within) = &node.graph {
                within.fault(agent)?;
            }
            match &node.then {
                Some(Then::All { .. }) if node.on_failure.is_some() => {
                    return Err(format!("{place}: a node that forks has no on_failure"));
                }
                Some(Then::First(choices)) => {
                    let last = choices.last().is_some_and(|choice| choice.when.is_none());
                    if !last {
                        return Err(format!("{place}.then: the last way must have no `when`"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl GraphNode {
    async fn walk(&self, name: &str, cx: &RunContext, mut state: State) -> Walked<State> {
        let times = state.walked(name);
        state.clear(&format!("{name}.failed"));
        for (key, value) in &self.set {
            let value = filled(value, &|name| state.text_of(name));
            state.put(key, value);
        }
        let end = if let Some(agent) = &self.agent {
            let asked = match &self.prompt {
                Some(prompt) => prompt.fill_by(&|name| state.text_of(name)),
                None => state.text("task"),
            };
            ask(cx, agent, asked, self.timeout).await?
        } else if let Some(tool) = &self.tool {
            self.call(tool, format!("{name}-{times}"), cx, &state)
                .await?
        } else {
            return Ok(state);
        };
        match end {
            MemberEnd::Answered(text) => {
                let typed = self.agent.as_ref().and_then(|agent| {
                    let below = cx.spec().agents.iter();
                    let output = below.filter(|below| below.name == *agent);
                    output.filter_map(|below| below.output.as_ref()).next()
                });
                let value = match typed {
                    Some(_) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                    None => Value::String(text),
                };
                state.result(self.into.as_deref().unwrap_or(name), value);
                Ok(state)
            }
            end if self.on_failure.is_some() && !end.leaves() => {
                state.put(&format!("{name}.failed"), Value::String(end.told()));
                Ok(state)
            }
            MemberEnd::Stopped(reason, text) => {
                let moved = !text.is_empty();
                if moved {
                    let into = self.into.as_deref().unwrap_or(name);
                    state.result(into, Value::String(text));
                }
                let halt = Unfinished::from(Halt::new(reason, state));
                Err(halt.after(moved))
            }
            // The graph fails with the member's error.
            MemberEnd::Failed(error) => Err(AgentError::from(error).into()),
        }
    }

    async fn call(
        &self,
        tool: &str,
        id: String,
        cx: &RunContext,
        state: &State,
    ) -> Result<MemberEnd, AgentError> {
        let template = self.arguments.clone().unwrap_or_default();
        let arguments = filled(&template, &|name| state.text_of(name));
        let call = ToolCall::new(id, tool, arguments);
        let calling = cx.tools([call]);
        match self.timeout {
            None => called(calling.await),
            Some(limit) => match cx.timeout(limit, calling).await {
                Ok(ended) => called(ended),
                Err(elapsed) => {
                    let error = OperationError::new(ErrorKind::Timeout, elapsed.to_string());
                    Ok(MemberEnd::Failed(error))
                }
            },
        }
    }
}

impl Behavior for GraphSpec {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let graph = self.compile().map_err(AgentError::failed)?;
        let mut state = State::begin(task(&cx));
        for (name, value) in &self.values {
            state.put(name, value.clone());
        }
        let answer = |state: &State| match &self.answer {
            Some(answer) => answer.fill_by(&|name| state.text_of(name)),
            None => state.last(),
        };
        let partial = |state: State| match &self.answer {
            Some(_) if !self.lacks(&state) => answer(&state),
            _ => state.made(),
        };
        Ok(match graph.run(&cx, state).await? {
            GraphEnd::Done(state) => Outcome::answer(answer(&state)),
            GraphEnd::Stopped {
                reason,
                state,
                branches,
            } => stopped(reason, so_far(state, branches, partial)),
        })
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        self.fault(agent)?;
        let graph = self.compile();
        graph.map(drop).map_err(|fault| fault.to_string())
    }
}
