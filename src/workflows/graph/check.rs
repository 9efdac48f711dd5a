//! The checks of a graph.

use std::collections::{BTreeMap, BTreeSet};

use super::{END, StateGraph, Way};

/// A fault of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A node's name stands for two things.
    #[error("the node {0:?} is there twice, or leads on twice: remove one")]
    Twice(String),
    /// A node has the name of the end.
    #[error("a node is called {END:?}, which stands for the end: rename it")]
    NamedEnd,
    /// A name belongs to no node.
    #[error("{wanted_by} names {name:?}, which is not a node; there are: {known}")]
    Missing {
        /// The place of the name.
        wanted_by: String,
        /// The name.
        name: String,
        /// The names of the nodes.
        known: String,
    },
    /// A node leads nowhere.
    #[error("the node {0:?} leads nowhere: add an edge from it, to {END:?} if it is the last")]
    DeadEnd(String),
    /// No way leads to a node.
    #[error("no way leads from the entry to the node {0:?}: add an edge to it, or remove it")]
    Unreachable(String),
    /// A node has no way to the end.
    #[error("no way leads from the node {0:?} to the end: add an edge that leaves its circle")]
    Endless(String),
    /// The branches of a fork do not meet at its join.
    #[error(
        "the fork at {fork:?} has the branch {branch:?}, from which there is a way past {join:?}: \
         let every way from it lead there"
    )]
    Astray {
        /// The node that forks.
        fork: String,
        /// The branch.
        branch: String,
        /// The join of the fork.
        join: String,
    },
    /// A fork has no branches.
    #[error("the fork at {0:?} has no branches")]
    NoBranches(String),
    /// The graph may walk no step.
    #[error("max_steps must be at least 1")]
    NoSteps,
}

ghostlight_actors::parts_of_system_error!(GraphError);

pub(super) fn check<S>(graph: &StateGraph<S>) -> Result<(), GraphError> {
    if let Some(name) = graph.twice.first() {
        return Err(GraphError::Twice(name.clone()));
    }
    if graph.nodes.contains_key(END) {
        return Err(GraphError::NamedEnd);
    }
    if graph.max_steps == 0 {
        return Err(GraphError::NoSteps);
    }
    check_names(graph)?;
    let ways = plain(graph);
    let reached = reach(&graph.entry, None, &ways);
    if let Some(name) = graph
        .nodes
        .keys()
        .find(|name| !reached.contains(name.as_str()))
    {
        return Err(GraphError::Unreachable(name.clone()));
    }
    let leads_out = |name: &&String| !reach(name, None, &ways).contains(END);
    if let Some(name) = graph.nodes.keys().find(leads_out) {
        return Err(GraphError::Endless(name.clone()));
    }
    check_forks(graph, &ways)
}

fn check_names<S>(graph: &StateGraph<S>) -> Result<(), GraphError> {
    let known: Vec<&str> = graph.nodes.keys().map(String::as_str).collect();
    let missing = |wanted_by: String, name: &str| GraphError::Missing {
        wanted_by,
        name: name.to_owned(),
        known: known.join(", "),
    };
    if !graph.nodes.contains_key(&graph.entry) {
        return Err(missing("the entry".to_owned(), &graph.entry));
    }
    let no_node = |name: &&String| !graph.nodes.contains_key(*name);
    if let Some(name) = graph.gates.keys().find(no_node) {
        return Err(missing("an interrupt".to_owned(), name));
    }
    for (from, way) in &graph.ways {
        let wanted_by = format!("the node {from:?}");
        if !graph.nodes.contains_key(from) {
            return Err(missing("an edge".to_owned(), from));
        }
        let mut targets = way.targets();
        if let Way::Fork { branches, join, .. } = way {
            if branches.is_empty() {
                return Err(GraphError::NoBranches(from.clone()));
            }
            targets.push(join);
        }
        let unknown = |name: &&&str| **name != END && !graph.nodes.contains_key(**name);
        if let Some(name) = targets.iter().find(unknown) {
            return Err(missing(wanted_by, name));
        }
        if targets.is_empty() {
            return Err(GraphError::DeadEnd(from.clone()));
        }
    }
    match graph
        .nodes
        .keys()
        .find(|name| !graph.ways.contains_key(*name))
    {
        Some(name) => Err(GraphError::DeadEnd(name.clone())),
        None => Ok(()),
    }
}

/// The ways of each node, by names alone.
fn plain<S>(graph: &StateGraph<S>) -> BTreeMap<&str, Vec<&str>> {
    let ways = graph.ways.iter();
    ways.map(|(from, way)| (from.as_str(), way.targets()))
        .collect()
}

/// All nodes that can be reached from a node, including itself, without going on from `stop`.
fn reach<'a>(
    from: &'a str,
    stop: Option<&str>,
    ways: &BTreeMap<&'a str, Vec<&'a str>>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if Some(at) == stop {
            continue;
        }
        let targets = ways.get(at).into_iter().flatten();
        open.extend(targets.filter(|target| reached.insert(**target)));
    }
    reached
}

fn check_forks<S>(
    graph: &StateGraph<S>,
    ways: &BTreeMap<&str, Vec<&str>>,
) -> Result<(), GraphError> {
    for (fork, way) in &graph.ways {
        let Way::Fork { branches, join, .. } = way else {
            continue;
        };
        for branch in branches {
            let within = reach(branch, Some(join), ways);
            let goes_past = join != END && within.contains(END);
            if goes_past || !within.contains(join.as_str()) || within.contains(fork.as_str()) {
                return Err(GraphError::Astray {
                    fork: fork.clone(),
                    branch: branch.clone(),
                    join: join.clone(),
                });
            }
        }
    }
    Ok(())
}
