//! Context in bounds: what of a conversation a model reads when it grows longer than that.
//!
//! An agent gets it as data, [`ContextSpec`](crate::definition::ContextSpec), from the builder or
//! as `context:` in a team file:
//!
//! ```yaml
//! context:
//!   max_tokens: 32000
//!   strategies:
//!     - { name: compact, keep_recent: 2 }
//!     - { name: token_window }
//! ```
//!
//! [`ContextOptimizer`] carries it out, for every behavior that is made of loops. Tokens are
//! counted by a [`TokenCounter`]: by [`Estimate`], or by a vocabulary with the feature `tiktoken`.

mod compaction;
mod counter;
mod cutting;
mod draft;
mod estimate;
mod layout;
mod optimizer;
#[cfg(test)]
mod properties;
mod summary;
#[cfg(feature = "tiktoken")]
mod vocabulary;

use ghostlight_actors::{
    definition::ContextSpec,
    run::{PolicyHandle, Registry},
};
use serde::Deserialize;
use serde_json::Value;

pub use counter::{TokenCounter, TokenCounterHandle};
pub use estimate::Estimate;
pub use optimizer::ContextOptimizer;
#[cfg(feature = "tiktoken")]
pub use vocabulary::Vocabulary;

/// Registers the policy that agents with a `context` are watched over by.
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
