//! Bounded context: the part of a conversation that a model reads when the whole is too long.
//!
//! An agent gets it as data, [`ContextSpec`], from the builder or as `context:` in a team file:
//!
//! ```yaml
//! context:
//!   max_tokens: 32000
//!   strategies:
//!     - { name: compact, keep_recent: 2 }
//!     - { name: token_window }
//! ```
//!
//! [`ContextOptimizer`] applies it, for every behavior that is made of loops. Tokens are counted by
//! a [`TokenCounter`]: by [`Estimate`], or by a vocabulary with the feature `tiktoken`.
//!
//! Some parts can be used alone: [`ContextBuilder`] builds a prompt from gathered items,
//! [`ContextProvider`] appends the findings of a memory to requests, [`StablePrefix`] measures how
//! much of a request a provider's cache may serve, and [`paired`] repairs conversations from
//! elsewhere.

mod builder;
mod compaction;
mod context_item;
mod counter;
mod cutting;
mod draft;
mod history;
mod layout;
mod message_cache;
mod optimizer;
mod prefix;
#[cfg(test)]
mod properties;
mod provider;
mod relevance;
mod spill;
mod summary;
#[cfg(any(feature = "tiktoken", test))]
mod vocabulary;

use ghostlight_actors::{
    definition::ContextSpec,
    run::{PolicyHandle, Registry},
};
use serde::Deserialize;
use serde_json::Value;

pub use builder::{Built, ContextBuilder};
pub use context_item::{ContextItem, ContextItemSource};
pub use counter::TokenCounterHandle;
pub use ghostlight_models::{Estimate, TokenCounter};
pub use history::paired;
pub use optimizer::ContextOptimizer;
pub use prefix::{PrefixReport, StablePrefix};
pub use provider::{ContextProvider, ContextSource};
pub use relevance::{Relevance, cosine};
pub use spill::READ_RESULT;
#[cfg(any(feature = "tiktoken", test))]
pub use vocabulary::Vocabulary;

/// Registers the policy behind `context:`.
#[must_use]
pub fn register(registry: Registry) -> Registry {
    registry.policy("context", make)
}

fn make(given: &Value) -> Result<PolicyHandle, String> {
    let spec = ContextSpec::deserialize(given).map_err(|error| error.to_string())?;
    spec.check()?;
    let spec = std::sync::Arc::new(spec);
    Ok(PolicyHandle::new(move || {
        ContextOptimizer::new(spec.clone())
    }))
}
