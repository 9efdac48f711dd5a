//! What an agent remembers, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an agent remembers from one run to the next, and what it may do with it. The policy that is
/// registered as `memory` carries it out; the package `ghostlight-memory` has it.
///
/// ```yaml
/// agent:
///   name: desk
///   memory: { user: write, team: read, recall: 5 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemorySpec {
    /// The memory's name: agents of a team that name the same one share it. Letters, digits, `_` and `-`.
    pub name: String,
    /// What the agent may do with what belongs to this conversation.
    pub session: MemoryAccess,
    /// What it may do with what belongs to the user, in all of the user's conversations.
    pub user: MemoryAccess,
    /// What it may do with what belongs to the user's tenant: all owners with the same text before the first `/`, or
    /// before the colon as in `acme:ada`.
    pub tenant: MemoryAccess,
    /// What it may do with what belongs to the whole team.
    pub team: MemoryAccess,
    /// Whether its model gets the tool `memory`.
    pub tool: bool,
    /// How many memories are brought to its requests; 0 brings none.
    pub recall: u32,
    /// The most tokens of what is brought.
    pub max_tokens: u64,
    /// How many items one scope keeps; past it the worst that is not pinned is forgotten.
    pub capacity: u32,
    /// How many working memories one scope keeps, among them; past it the one that scores lowest beside a new one is
    /// forgotten.
    pub working_capacity: u32,
    /// In how many hours a working memory fades to a third.
    pub working_decay_h: f64,
    /// Whether what its runs did is kept as a task memory when they end.
    pub learn: bool,
    /// Whether what its runs did is kept as an episode, which a person's reaction confirms or refutes.
    pub episodes: bool,
    /// From which score on, 0 to 1, a finished task is worth keeping.
    pub learn_threshold: f64,
    /// Whether a model takes facts out of what is said. A fact that changed takes the earlier one's place, and one
    /// that is no longer so is not found any more. It costs a model call at the end of each run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub extract: bool,
    /// Whether a model looks back at each run: it rates how much it matters, says what a failure taught, and keeps
    /// learnings. The call is the one of `extract`, where both are wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reflect: bool,
    /// Whether a model sums up once a day what the runs of the last day teach together.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wisdom: bool,
    /// Whether the tool finds what was said in all conversations of the user. The recorded turns are searched, also those
    /// from before this was set.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conversations: bool,
    /// The embedder, so that memories are found by meaning; left out, they are found by their words. The program
    /// that registers the policy says which embedders there are: `ghostlight` has those of `document_search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<serde_json::Value>,
}

/// What may be done with the memories of a scope.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAccess {
    /// Nothing.
    #[default]
    None,
    /// They may be read.
    Read,
    /// They may be read and changed.
    Write,
}

impl Default for MemorySpec {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            session: MemoryAccess::Write,
            user: MemoryAccess::Write,
            tenant: MemoryAccess::None,
            team: MemoryAccess::Read,
            tool: true,
            recall: 3,
            max_tokens: 1_000,
            capacity: 1_000,
            working_capacity: 50,
            working_decay_h: 24.0,
            learn: false,
            episodes: false,
            learn_threshold: 0.5,
            extract: false,
            reflect: false,
            wisdom: false,
            conversations: false,
            embedder: None,
        }
    }
}

impl MemorySpec {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), String> {
        if !super::form::well_formed(&self.name) {
            return Err("name: use 1 to 64 letters, digits, `_` or `-`".to_owned());
        }
        if self.capacity == 0 {
            return Err("capacity: it must keep at least 1 item".to_owned());
        }
        if self.working_capacity == 0 {
            return Err("working_capacity: it must keep at least 1 item".to_owned());
        }
        // Ten years, so that it is a time that a program can count.
        if !(self.working_decay_h > 0.0 && self.working_decay_h <= 87_600.0) {
            return Err(
                "working_decay_h: it is a number of hours from above 0 to 87600".to_owned(),
            );
        }
        if !(0.0..=1.0).contains(&self.learn_threshold) {
            return Err("learn_threshold: it is a score from 0 to 1".to_owned());
        }
        Ok(())
    }
}
