//! A tree that grows during the work: agents that reason, act, or divide their goal.

mod acts;
mod node;
mod notes;

use std::sync::atomic::{AtomicU32, Ordering};

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Answer, Outcome, StopReason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::node::{Goal, NodeEnd};
use super::{ends::stopped, member::at_least_one};
use crate::behaviors::{Prompt, task};

const NODE: &str = "\
You work on one goal: {goal}
{place}
In each turn call tools that bring you nearer to it, or one of these:
- `expand`: divide the goal into sub-goals, when it is too much for a few steps. In a `sequence` \
each must be reached in turn; a `fallback` tries them in turn until one is reached; in `parallel` \
they are worked on side by side. What comes of them is what comes of your goal.
- `done`: the goal is reached, with the result.
- `fail`: the goal cannot be reached, with the reason. That is no shame: whoever set the goal may \
know another way.
- `remember`, `recall`: notes that all who work on the whole task share.
{notes}{episodes}";

/// Agent nodes and control-flow nodes in a tree that the model builds while it works, after
/// Choi et al., "ReAcTree: Hierarchical LLM Agent Trees with Control Flow for Long-Horizon Task
/// Planning" (arXiv 2511.02424).
///
/// Each agent node works on one goal in its own conversation: it calls the agent's tools, says that
/// it is done or has failed, or expands into sub-goals under a sequence, a fallback or a parallel
/// node; each sub-goal is an agent node again. Failure is an outcome, so a fallback can try its
/// next way. All nodes share the working memory of the run. If the agent has a
/// [`memory`](AgentSpec::memory) with `episodes`, each node leaves its whole trajectory there, and
/// sees the outcomes of similar goals; an outcome that nobody has confirmed yet is marked as such.
///
/// ```yaml
/// behavior: { name: reactree, max_depth: 4, max_nodes: 20, vote: all }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ReAcTree {
    /// How many levels of agent nodes there may be.
    pub max_depth: u32,
    /// How many agent nodes there may be in all.
    pub max_nodes: u32,
    /// How many turns one agent node has; then it has failed.
    pub max_decisions: u32,
    /// How many turns all nodes have together.
    pub max_total_decisions: u32,
    /// How many sub-goals one expansion may have.
    pub max_subgoals: u32,
    /// When a parallel node has succeeded.
    pub vote: ParallelVote,
    /// How many sub-goals of a parallel node are worked on at once.
    pub max_at_once: u32,
    /// The prompt of a node, below the agent's instructions: `{goal}`, `{place}`, `{notes}` (where
    /// the notes stand: they are a message of their own below the goal), `{episodes}`.
    pub prompt: Prompt,
}

/// When a parallel node of a [`ReAcTree`] has succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParallelVote {
    /// More than half of the sub-goals were reached.
    #[default]
    Majority,
    /// All were.
    All,
    /// One was.
    Any,
    /// At least this many were.
    Quorum(u32),
}

impl ParallelVote {
    /// Whether this many reached sub-goals out of that many are enough.
    pub fn is_won(self, reached: usize, of: usize) -> bool {
        match self {
            Self::Majority => reached * 2 > of,
            Self::All => reached == of,
            Self::Any => reached > 0,
            Self::Quorum(quorum) => reached >= quorum as usize,
        }
    }
}

impl Default for ReAcTree {
    fn default() -> Self {
        Self {
            max_depth: 5,
            max_nodes: 30,
            max_decisions: 20,
            max_total_decisions: 100,
            max_subgoals: 8,
            vote: ParallelVote::Majority,
            max_at_once: 4,
            prompt: Prompt::new(NODE),
        }
    }
}

/// The counts over all nodes of a tree. Nodes of one run take turns, so the counts are the same in
/// a replay.
#[derive(Default)]
struct Counts {
    nodes: AtomicU32,
    decisions: AtomicU32,
}

impl Counts {
    /// Counts one more, unless that would exceed the bound.
    fn one_more(count: &AtomicU32, bound: u32) -> bool {
        count.fetch_add(1, Ordering::Relaxed) < bound
    }
}

/// A tree in progress.
struct Tree<'a> {
    settings: &'a ReAcTree,
    counts: Counts,
}

impl Behavior for ReAcTree {
    fn asks_model(&self) -> bool {
        true
    }

    fn tools(&self) -> Vec<String> {
        acts::NAMES.map(str::to_owned).to_vec()
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let tree = Tree {
            settings: self,
            counts: Counts::default(),
        };
        let root = Goal::root(task(&cx));
        Ok(match tree.walk(&cx, root).await? {
            NodeEnd::Reached(result) => Outcome::answer(result),
            NodeEnd::Missed(reason) => Outcome::Stopped {
                partial: Some(Answer::text(reason.as_str())),
                reason: StopReason::GaveUp(reason),
            },
            NodeEnd::Stopped(reason, made) => stopped(reason, made),
        })
    }

    fn check(&self, _agent: &AgentSpec) -> Result<(), String> {
        for (setting, bound) in [
            ("max_depth", self.max_depth),
            ("max_nodes", self.max_nodes),
            ("max_decisions", self.max_decisions),
            ("max_total_decisions", self.max_total_decisions),
            ("max_subgoals", self.max_subgoals),
            ("max_at_once", self.max_at_once),
        ] {
            at_least_one(setting, Some(bound))?;
        }
        if self.vote == ParallelVote::Quorum(0) {
            return Err("vote: the quorum must be at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_won_by_its_own_rule() {
        for (vote, won) in [
            (ParallelVote::Majority, [false, false, true, true]),
            (ParallelVote::All, [false, false, false, true]),
            (ParallelVote::Any, [false, true, true, true]),
            (ParallelVote::Quorum(2), [false, false, true, true]),
        ] {
            let told: Vec<bool> = (0..4).map(|reached| vote.is_won(reached, 3)).collect();
            assert_eq!(told, won, "{vote:?}");
        }
        assert!(
            !ParallelVote::Majority.is_won(1, 2),
            "a half is not a majority"
        );
    }
}
