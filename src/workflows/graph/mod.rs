//! A graph of steps over a state of any type.

mod check;
mod drawing;
mod file;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{FuturesUnordered, StreamExt},
};
use ghostlight_actors::{
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, ErrorKind, OperationError, Outcome, Question, QuestionKind, StopReason,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    conversation::{Utterance, transcript},
    ends::stopped,
    member::exhausted,
};

pub use check::GraphError;
pub use file::{Choice, GraphNode, GraphSpec, Reducer, Rule, Then};

/// The name of the place where a graph ends.
pub const END: &str = "end";

type Work<S> = Arc<dyn Fn(RunContext, S) -> BoxFuture<'static, Walked<S>> + Send + Sync>;
/// The state after a walk.
type Walked<S> = Result<S, Unfinished<S>>;
type Choose<S> = Arc<dyn Fn(&S) -> String + Send + Sync>;
type Merge<S> = Arc<dyn Fn(S, Vec<S>) -> S + Send + Sync>;

/// A graph under construction: nodes that change a state, and the ways between them.
///
/// ```
/// use ghostlight::prelude::*;
/// use ghostlight::workflows::{END, StateGraph};
///
/// #[derive(Clone, Default)]
/// struct Draft {
///     text: String,
///     rounds: u32,
/// }
///
/// let graph = StateGraph::new("write")
///     .node("write", |cx: RunContext, mut draft: Draft| async move {
///         draft.text = cx.delegate("writer", draft.text.as_str()).await?.text;
///         draft.rounds += 1;
///         Ok(draft)
///     })
///     .route("write", ["write", END], |draft| {
///         if draft.rounds < 3 { "write".into() } else { END.into() }
///     })
///     .compile()?;
/// println!("{}", graph.mermaid());
///
/// let agent = Agent::new("author")
///     .agent(Agent::new("writer"))
///     .behavior(graph.into_behavior(
///         |cx| Draft { text: cx.input().content(), rounds: 0 },
///         |draft| draft.text,
///     ));
/// # let _ = agent;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A node is an async function of its own context and the state. Everything that it does through
/// the context is recorded, so after a crash the graph continues in the node that it had reached. A
/// node that [asks](RunContext::ask) suspends the graph. The branches of a fork are walked at once.
///
/// A node that begins is an event ([`Event::Custom`](ghostlight_actors::vocabulary::Event::Custom)) with the name `node`
/// and the fields `node` and `step`, the number of the step from 1.
pub struct StateGraph<S> {
    entry: String,
    nodes: BTreeMap<String, Work<S>>,
    /// The question to a person before a node.
    gates: BTreeMap<String, String>,
    ways: BTreeMap<String, Way<S>>,
    /// Names that were used twice.
    twice: Vec<String>,
    max_steps: u32,
}

/// Where a node leads.
enum Way<S> {
    To(String),
    Choice {
        targets: Vec<String>,
        /// When each target is chosen, for pictures; none where code chooses.
        words: Vec<String>,
        choose: Choose<S>,
    },
    /// Several ways at once, which meet again.
    Fork {
        branches: Vec<String>,
        join: String,
        merge: Merge<S>,
    },
}

impl<S> Way<S> {
    fn targets(&self) -> Vec<&str> {
        match self {
            Self::To(target) => vec![target],
            Self::Choice { targets, .. } => targets.iter().map(String::as_str).collect(),
            Self::Fork { branches, .. } => branches.iter().map(String::as_str).collect(),
        }
    }
}

impl<S: Clone + Send + 'static> StateGraph<S> {
    /// A graph that begins with this node, and may walk 100 steps.
    pub fn new(entry: impl Into<String>) -> Self {
        Self {
            entry: entry.into(),
            nodes: BTreeMap::new(),
            gates: BTreeMap::new(),
            ways: BTreeMap::new(),
            twice: Vec::new(),
            max_steps: 100,
        }
    }

    /// Adds a node. A budget that ends its work stops the graph, with the state before it.
    #[must_use]
    pub fn node<F, Fut>(self, name: impl Into<String>, work: F) -> Self
    where
        F: Fn(RunContext, S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, AgentError>> + Send + 'static,
    {
        self.halting_node(name, move |cx, state: S| {
            let before = state.clone();
            let work = work(cx, state);
            work.map(|end| {
                end.map_err(|error| match exhausted(error) {
                    Ok(reason) => Halt::new(reason, before).into(),
                    Err(error) => error.into(),
                })
            })
        })
    }

    /// Adds a node that may stop the graph.
    fn halting_node<F, Fut>(mut self, name: impl Into<String>, work: F) -> Self
    where
        F: Fn(RunContext, S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Walked<S>> + Send + 'static,
    {
        let name = name.into();
        let work: Work<S> = Arc::new(move |cx, state| work(cx, state).boxed());
        if self.nodes.insert(name.clone(), work).is_some() {
            self.twice.push(name);
        }
        self
    }

    /// Adds a graph as a node: it is walked from its entry to its end. Its steps count towards its
    /// own bound. If that bound or a budget stops it, the outer graph stops, too.
    #[must_use]
    pub fn graph(self, name: impl Into<String>, graph: Graph<S>) -> Self
    where
        S: Sync,
    {
        self.halting_node(name, move |cx, state| {
            let graph = graph.clone();
            async move { graph.walk(&cx, state).await }
        })
    }

    /// Adds a way from a node to another, or to [`END`].
    #[must_use]
    pub fn edge(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.way(from, Way::To(to.into()))
    }

    /// Adds a way from a node to whichever of the targets the function names.
    #[must_use]
    pub fn route<T: Into<String>>(
        self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
        choose: impl Fn(&S) -> String + Send + Sync + 'static,
    ) -> Self {
        let targets = targets.into_iter().map(|to| (to.into(), String::new()));
        self.told_route(from, targets, choose)
    }

    /// Adds ways from a node to several at once. Each branch begins with the state at the fork and
    /// is walked until it reaches `join`. Then the reducer merges the state at the fork and those
    /// of the branches, in their order, into the state with which the graph continues at `join`.
    #[must_use]
    pub fn fork<T: Into<String>>(
        self,
        from: impl Into<String>,
        branches: impl IntoIterator<Item = T>,
        join: impl Into<String>,
        reducer: impl Fn(S, Vec<S>) -> S + Send + Sync + 'static,
    ) -> Self {
        let branches = branches.into_iter().map(Into::into).collect();
        let (join, merge) = (join.into(), Arc::new(reducer));
        self.way(
            from,
            Way::Fork {
                branches,
                join,
                merge,
            },
        )
    }

    fn way(mut self, from: impl Into<String>, way: Way<S>) -> Self {
        let from = from.into();
        if self.ways.insert(from.clone(), way).is_some() {
            self.twice.push(from);
        }
        self
    }

    /// Asks a person before a node, each time that it is reached; a refusal ends the run as
    /// denied.
    #[must_use]
    pub fn interrupt_before(mut self, node: impl Into<String>, prompt: impl Into<String>) -> Self {
        self.gates.insert(node.into(), prompt.into());
        self
    }

    /// Sets how many nodes may be walked in all, branches included.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = steps;
        self
    }

    /// Checks the graph.
    ///
    /// # Errors
    /// The first fault: a name of no node or of two, a node that leads nowhere or cannot be
    /// reached, a graph without an end, branches that do not meet.
    pub fn compile(self) -> Result<Graph<S>, GraphError> {
        check::check(&self)?;
        Ok(Graph(Arc::new(self)))
    }
}

impl<S> fmt::Debug for StateGraph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateGraph")
            .field("entry", &self.entry)
            .field("nodes", &self.nodes.keys())
            .finish_non_exhaustive()
    }
}

/// A checked graph. Clones share it.
pub struct Graph<S>(Arc<StateGraph<S>>);

impl<S> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The end of a walk through a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphEnd<S> {
    /// It reached the end with this state.
    Done(S),
    /// It was stopped before its end: by its bound on steps, or by a budget.
    Stopped {
        /// Why.
        reason: StopReason,
        /// The state so far; with branches in progress, the state at their fork.
        state: S,
        /// The states of branches in progress, each with its first node; a branch that changed
        /// nothing is left out.
        branches: Vec<(String, S)>,
    },
}

/// Why a walk did not reach its end.
enum Unfinished<S> {
    Stopped(Halt<S>),
    Failed(AgentError),
}

impl<S> Unfinished<S> {
    /// The same, after the walk had changed the state or not.
    fn after(mut self, moved: bool) -> Self {
        if let Self::Stopped(halt) = &mut self {
            halt.moved |= moved;
        }
        self
    }
}

impl<S> From<Halt<S>> for Unfinished<S> {
    fn from(halt: Halt<S>) -> Self {
        Self::Stopped(halt)
    }
}

impl<S> From<AgentError> for Unfinished<S> {
    fn from(error: AgentError) -> Self {
        Self::Failed(error)
    }
}

/// Where a walk was stopped.
struct Halt<S> {
    reason: StopReason,
    state: S,
    /// Whether the state differs from the one with which the walk began.
    moved: bool,
    branches: Vec<(String, S)>,
}

impl<S> Halt<S> {
    fn new(reason: StopReason, state: S) -> Self {
        Self {
            reason,
            state,
            moved: false,
            branches: Vec::new(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Graph<S> {
    /// Walks the graph from its entry. Each step is told to observers as the event `node`.
    ///
    /// # Errors
    /// The error of a node, or a route that names none of its targets.
    pub async fn run(&self, cx: &RunContext, state: S) -> Result<GraphEnd<S>, AgentError> {
        match self.walk(cx, state).await {
            Ok(state) => Ok(GraphEnd::Done(state)),
            Err(Unfinished::Stopped(Halt {
                reason,
                state,
                branches,
                ..
            })) => Ok(GraphEnd::Stopped {
                reason,
                state,
                branches,
            }),
            Err(Unfinished::Failed(error)) => Err(error),
        }
    }

    async fn walk(&self, cx: &RunContext, state: S) -> Walked<S> {
        let steps = AtomicU32::new(0);
        let walk = Walk {
            graph: &self.0,
            cx,
            steps: &steps,
        };
        walk.go(&self.0.entry, END, state, None).await
    }

    /// A behavior that walks this graph, with functions for the first state and for the answer. If
    /// a bound or a budget stops the walk, the partial answer is made of the state so far, or of
    /// the state of each branch in progress.
    pub fn into_behavior(
        self,
        begin: impl Fn(&RunContext) -> S + Send + Sync + 'static,
        answer: impl Fn(S) -> String + Send + Sync + 'static,
    ) -> impl Behavior {
        GraphBehavior {
            graph: self,
            begin,
            answer,
        }
    }

    /// The graph in Mermaid's language.
    pub fn mermaid(&self) -> String {
        drawing::mermaid(&self.0)
    }

    /// The graph in Graphviz's language.
    pub fn dot(&self) -> String {
        drawing::dot(&self.0)
    }
}

struct Walk<'a, S> {
    graph: &'a StateGraph<S>,
    cx: &'a RunContext,
    steps: &'a AtomicU32,
}

impl<S: Clone + Send + Sync + 'static> Walk<'_, S> {
    /// Walks from a node to another one. The states of branches on the way are kept in `so_far`.
    fn go<'a>(
        &'a self,
        from: &'a str,
        until: &'a str,
        mut state: S,
        so_far: Option<&'a Mutex<Option<S>>>,
    ) -> BoxFuture<'a, Walked<S>> {
        async move {
            let mut at = from.to_owned();
            let mut moved = false;
            while at != until {
                // Walks of one run take turns, so only the count is shared.
                let step = self.steps.fetch_add(1, Ordering::Relaxed);
                if step >= self.graph.max_steps {
                    let reason = StopReason::MaxSteps(self.graph.max_steps);
                    let halt = Unfinished::from(Halt::new(reason, state));
                    return Err(halt.after(moved));
                }
                let stepped = self.step(&at, step + 1, state).await;
                state = stepped.map_err(|end| end.after(moved))?;
                moved = true;
                if let Some(so_far) = so_far {
                    *so_far.lock() = Some(state.clone());
                }
                at = match self.graph.ways.get(&at) {
                    Some(Way::To(target)) => target.clone(),
                    Some(Way::Choice {
                        targets, choose, ..
                    }) => {
                        let target = choose(&state);
                        if !targets.contains(&target) {
                            return Err(AgentError::failed(format!(
                                "node {at:?} leads to {target:?}, which is none of its targets: {}",
                                targets.join(", ")
                            ))
                            .into());
                        }
                        target
                    }
                    Some(Way::Fork {
                        branches,
                        join,
                        merge,
                    }) => {
                        let ends = self.fork(branches, join, &state).await;
                        let ends = ends.map_err(|end| end.after(moved))?;
                        state = merge(state, ends);
                        join.clone()
                    }
                    // The check has found a way out of every node.
                    None => END.to_owned(),
                };
            }
            Ok(state)
        }
        .boxed()
    }

    /// Walks branches side by side until they meet. If one is stopped, the states of all are
    /// returned: a bound lets the other branches walk as far as they can, anything else stops them,
    /// too.
    async fn fork(
        &self,
        branches: &[String],
        join: &str,
        state: &S,
    ) -> Result<Vec<S>, Unfinished<S>> {
        let so_far: Vec<Mutex<Option<S>>> = branches.iter().map(|_| Mutex::new(None)).collect();
        let walks = branches.iter().zip(&so_far).enumerate();
        let mut walks: FuturesUnordered<_> = walks
            .map(|(place, (branch, so_far))| {
                let walk = self.go(branch, join, state.clone(), Some(so_far));
                walk.map(move |end| (place, end))
            })
            .collect();
        let mut ends: Vec<Option<Result<S, Halt<S>>>> = branches.iter().map(|_| None).collect();
        let mut reason = None;
        while let Some((place, end)) = walks.next().await {
            let halt = match end {
                Ok(state) => {
                    ends[place] = Some(Ok(state));
                    continue;
                }
                Err(Unfinished::Stopped(halt)) => halt,
                Err(failed) => return Err(failed),
            };
            let is_bound = is_bound(&halt.reason);
            reason.get_or_insert_with(|| halt.reason.clone());
            ends[place] = Some(Err(halt));
            if !is_bound {
                break;
            }
        }
        drop(walks);
        let Some(reason) = reason else {
            let ends = ends.into_iter().flatten().filter_map(Result::ok);
            return Ok(ends.collect());
        };
        let mut halt = Halt::new(reason, state.clone());
        for ((branch, end), so_far) in branches.iter().zip(ends).zip(so_far) {
            let (state, within) = match end {
                Some(Ok(state)) => (Some(state), Vec::new()),
                Some(Err(halt)) => (halt.moved.then_some(halt.state), halt.branches),
                None => (so_far.into_inner(), Vec::new()),
            };
            let own = state.map(|state| (branch.clone(), state));
            halt.branches.extend(own.into_iter().chain(within));
        }
        Err(halt.into())
    }

    async fn step(&self, name: &str, number: u32, state: S) -> Walked<S> {
        let Some(work) = self.graph.nodes.get(name) else {
            return Err(AgentError::failed(format!("the graph has no node {name:?}")).into());
        };
        let cx = self.cx.lane(name);
        cx.emit("node", &json!({ "node": name, "step": number }));
        if let Some(prompt) = self.graph.gates.get(name) {
            let mut question = Question::new(prompt.as_str());
            question.kind = QuestionKind::Confirmation;
            let answer = cx.ask(question).await?;
            if answer != Value::Bool(true) {
                let message = format!("a person refused to let the graph go on at {name:?}");
                let denied = OperationError::new(ErrorKind::Denied, message);
                return Err(AgentError::from(denied).into());
            }
        }
        work(cx, state).await
    }
}

/// Whether this is a bound that all branches share, and not an end that a member chose.
fn is_bound(reason: &StopReason) -> bool {
    matches!(
        reason,
        StopReason::BudgetExhausted(_) | StopReason::MaxSteps(_)
    )
}

struct GraphBehavior<S, B, A> {
    graph: Graph<S>,
    begin: B,
    answer: A,
}

impl<S, B, A> Behavior for GraphBehavior<S, B, A>
where
    S: Clone + Send + Sync + 'static,
    B: Fn(&RunContext) -> S + Send + Sync + 'static,
    A: Fn(S) -> String + Send + Sync + 'static,
{
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let state = (self.begin)(&cx);
        Ok(match self.graph.run(&cx, state).await? {
            GraphEnd::Done(state) => Outcome::answer((self.answer)(state)),
            GraphEnd::Stopped {
                reason,
                state,
                branches,
            } => stopped(reason, so_far(state, branches, &self.answer)),
        })
    }

    /// Its nodes are functions.
    fn receives_any(&self) -> bool {
        true
    }
}

/// The partial answer of a stopped graph; with several branches, each under its name.
fn so_far<S>(state: S, mut branches: Vec<(String, S)>, answer: impl Fn(S) -> String) -> String {
    match branches.len() {
        0 => answer(state),
        1 => branches
            .pop()
            .map(|(_, state)| answer(state))
            .unwrap_or_default(),
        _ => {
            let said = branches.into_iter();
            let said = said.map(|(branch, state)| Utterance::new(branch, answer(state)));
            transcript(&said.collect::<Vec<_>>())
        }
    }
}
