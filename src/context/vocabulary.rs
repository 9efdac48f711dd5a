//! How many tokens a text has by OpenAI's vocabularies, which are a part of the program.

use std::fmt;

use ghostlight_actors::definition::TokenCounting;
use tiktoken_rs::{
    CoreBPE, cl100k_base_singleton, o200k_base_singleton,
    tokenizer::{Tokenizer, get_tokenizer},
};

use super::TokenCounter;

/// Counts tokens by a vocabulary. It is read when it is first used, which takes a sixth of a
/// second once for each process, and needs no network.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    name: &'static str,
    pairs: &'static CoreBPE,
}

impl Vocabulary {
    /// OpenAI's vocabulary since GPT-4o.
    pub fn o200k_base() -> Self {
        Self {
            name: "o200k_base",
            pairs: o200k_base_singleton(),
        }
    }

    /// OpenAI's vocabulary of GPT-4 and GPT-3.5.
    pub fn cl100k_base() -> Self {
        Self {
            name: "cl100k_base",
            pairs: cl100k_base_singleton(),
        }
    }

    /// The vocabulary of a model, by its name at OpenAI. `None` for models of others, which have
    /// vocabularies of their own.
    pub fn of_model(model: &str) -> Option<Self> {
        match get_tokenizer(model)? {
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(Self::o200k_base()),
            Tokenizer::Cl100kBase => Some(Self::cl100k_base()),
            _ => None,
        }
    }

    pub(super) fn of(counting: TokenCounting, model: &str) -> Option<Self> {
        match counting {
            TokenCounting::Model => Self::of_model(model),
            TokenCounting::O200kBase => Some(Self::o200k_base()),
            TokenCounting::Cl100kBase => Some(Self::cl100k_base()),
            _ => None,
        }
    }
}

impl TokenCounter for Vocabulary {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> u64 {
        self.pairs.count_ordinary(text) as u64
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vocabulary").field(&self.name).finish()
    }
}
