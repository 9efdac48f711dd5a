//! The memory of agents, within a run and between runs.
//!
//! A memory is data of a team: it is in the team's store, a write is an operation whose data and entry are one commit,
//! and each read is recorded. So a replay sees the memory as it was, and a fork or a rewound session has the memory of
//! its conversation at that point.
//!
//! [`Memory`] names a memory. [`Memory::on`] is one scope of it for a run: add, find, change, consolidate, forget. An
//! agent gets a memory as data, [`MemorySpec`](ghostlight_actors::definition::MemorySpec) (`memory:` in a team file),
//! and the policy that [`register`] registers carries it out: it adds the tool `memory` for the agent's model, and
//! recalls items for each message of a user.
//!
//! Each memory is an actor that is supervised below its System's root. It holds caches and serves searches; after a
//! crash it is rebuilt from the store.

mod actor;
mod conversations;
mod deciding;
mod draft;
mod editing;
mod episode;
mod graph;
mod item;
mod items;
mod learning;
mod learning_markdown;
mod looking_back;
mod memory;
mod policy;
mod scoring;
mod showing;
mod stored;
mod task;
mod terms;
mod tool;
mod trajectory;
mod vectors;
mod view;
mod wisdom;

pub use conversations::SearchConversations;
pub use deciding::{Alike, DuplicateCheck, NEAREST, Threshold, WriteDecision, WritePolicy};
pub use editing::{Added, Forget, Forgetting, MemoryStats, SAME, SAME_COSINE};
pub use episode::{
    ACCOMPLISHMENT, Episode, EpisodeStatus, REACTION_TIME, Reacted, Reaction, Sent, judged,
};
pub use graph::{Found, Triple};
pub(crate) use item::clean_line;
pub use item::{
    Detail, MAX_CONTENT, MAX_TAG, MAX_TAGS, MemoryItem, MemoryKind, MemoryPatch, NewMemory,
    Provenance, clean,
};
pub use learning::{Credited, Learning, LearningCategory, citations};
pub use learning_markdown::{MarkdownError, learnings_from_markdown, learnings_to_markdown};
pub use looking_back::{ExtractedFact, ExtractedLearning, LookBack, LookedBack};
pub use memory::{Memory, MemoryOperation, MemoryScope, ScopedMemory, SearchMemory};
pub use policy::{MEMORY, policy, register, register_with};
pub use stored::{Import, MemoryDocument, StoredMemory, StoredMemoryError};
pub use task::{KeptTask, TaskRecord};
pub use view::{MemoryHit, MemoryQuery};
