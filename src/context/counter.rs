//! A counter of tokens of any type.

use std::{fmt, sync::Arc};

use ghostlight_actors::definition::TokenCounting;
use ghostlight_models::{Estimate, TokenCounter};

/// A counter of any type. Cloning shares it.
#[derive(Clone)]
pub struct TokenCounterHandle(Arc<dyn TokenCounter>);

impl TokenCounterHandle {
    /// Wraps a counter.
    pub fn new(counter: impl TokenCounter) -> Self {
        Self(Arc::new(counter))
    }

    /// The counter that a setting selects for a model, given by its registered name or by the name
    /// that its server uses.
    pub fn of(counting: TokenCounting, model: &str) -> Self {
        #[cfg(any(feature = "tiktoken", test))]
        if let Some(vocabulary) = super::Vocabulary::of(counting, model) {
            return Self::new(vocabulary);
        }
        let _ = (counting, model);
        Self::new(Estimate)
    }
}

impl std::ops::Deref for TokenCounterHandle {
    type Target = dyn TokenCounter;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for TokenCounterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenCounterHandle")
            .field(&self.name())
            .finish()
    }
}
