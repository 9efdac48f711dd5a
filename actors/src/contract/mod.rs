//! The parts that are plugged into the engine: models, tools, stores, the clock and randomness.
//!
//! Each trait is implemented as plain `async fn` and kept as `Arc<dyn …>` behind one erasing
//! adapter ([`ModelHandle`], [`EmbedderHandle`], [`ToolHandle`], [`StoreHandle`]), so no public type has a
//! parameter for its model, tools or store.
//!
//! Architecture invariant: a contract depends on the vocabulary and on redaction, and on nothing else.

pub mod artifact_scopes;
mod batch;
mod callee;
mod clock;
mod copying;
mod credential;
mod deletion;
mod detached;
mod dyn_parts;
mod dyn_store;
mod embedder;
mod entropy;
mod files_apart;
mod in_memory_store;
mod interceptor;
mod inventory;
mod line;
mod line_text;
mod mailbox;
mod membership;
mod model;
mod news;
mod origin;
mod paging;
mod run_row;
mod run_status;
mod run_tree;
mod session_row;
mod state;
mod store;
mod store_error;
mod store_handle;
mod store_methods;
mod store_wrapper;
mod suspension;
mod tool;
mod tool_access;
mod tool_pace;
mod tool_state;
mod toolset;
pub(crate) mod turn;
mod typed_tool;

pub use batch::{Append, Batch, Claim, Committed, StoredLine, TreeLine};
pub use callee::Callee;
pub use clock::{Clock, ClockJump, SystemClock};
pub(crate) use clock::{WallWatch, pause_until};
pub(crate) use copying::check_finished;
pub use copying::{Copied, CopyError, copy_store};
pub use credential::Credential;
pub use deletion::{DELETIONS_KNOWN, Deleted, Deletion, Expiry};
pub(crate) use detached::may_have_files;
pub use dyn_parts::{DynDeletion, DynMembership};
pub(crate) use dyn_store::Commits;
pub use dyn_store::DynStore;
pub use embedder::{
    Embedder, EmbedderHandle, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace,
};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use in_memory_store::InMemoryStore;
pub(crate) use interceptor::{Emission, Telling};
pub use interceptor::{Interceptor, InterceptorHandle, NextModel, NextTool, Unattempted};
pub use inventory::Inventory;
pub use line::{EntryError, Line};
pub(crate) use line_text::{AsText, LineText, Unread};
pub use mailbox::{ItemBody, MailboxItem};
pub use membership::{CarriedTeam, Membership};
pub(crate) use model::Slot;
pub use model::{Model, ModelContext, ModelError, ModelHandle};
pub use news::{News, Notice};
pub use origin::Origin;
pub use paging::{JournalPages, TreePages};
pub use run_row::{RunFilter, RunRow};
pub use run_status::RunStatus;
pub use run_tree::RunTree;
pub use session_row::{SessionFilter, SessionRow};
pub use state::{Expected, StateSlot, StateValue, StateWrite};
pub use store::{Index, Journals, Mailboxes, State, Store};
pub use store_error::StoreError;
pub use store_handle::StoreHandle;
pub use store_wrapper::StoreWrapper;
pub(crate) use suspension::{AttemptedCall, Attempts, Surroundings, SuspendableCall};
pub use suspension::{ModelHost, Suspension};
pub use tool::{
    Reconciled, Ticket, Tool, ToolContext, ToolError, ToolErrorKind, ToolHandle, ToolOutput,
};
pub(crate) use tool_pace::ToolPace;
pub use tool_state::Change;
pub(crate) use tool_state::ToolState;
pub use toolset::{Toolset, ToolsetHandle};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives previews: pieces of answers, progress. It never waits. Previews without an observer are lost.
pub(crate) type PreviewSink = std::sync::Arc<dyn Fn(crate::vocabulary::Preview) + Send + Sync>;

/// A sink that passes each preview through this function, which changes or drops it.
fn through<F>(to: Option<PreviewSink>, change: F) -> Option<PreviewSink>
where
    F: Fn(crate::vocabulary::Preview) -> Option<crate::vocabulary::Preview> + Send + Sync + 'static,
{
    let to = to?;
    Some(std::sync::Arc::new(move |preview| {
        if let Some(preview) = change(preview) {
            to(preview);
        }
    }))
}
