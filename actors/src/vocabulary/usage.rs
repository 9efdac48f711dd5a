//! What model calls consumed.

use serde::{Deserialize, Serialize};

/// Tokens and money, as the provider reported them, or estimated where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the response, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the request that the provider served from its cache.
    pub cached_tokens: u64,
    /// Tokens of the response that were reasoning.
    pub reasoning_tokens: u64,
    /// Cost in millionths of the currency in which the model's prices are set; 0 when unknown.
    pub cost_micros: u64,
    /// How many of the request's and response's tokens are an estimate, because the provider did not report them.
    /// They count like the others.
    pub estimated_tokens: u64,
}

impl Usage {
    /// Request and response tokens together.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = u64::saturating_add;
        self.input_tokens = add(self.input_tokens, other.input_tokens);
        self.output_tokens = add(self.output_tokens, other.output_tokens);
        self.cached_tokens = add(self.cached_tokens, other.cached_tokens);
        self.reasoning_tokens = add(self.reasoning_tokens, other.reasoning_tokens);
        self.cost_micros = add(self.cost_micros, other.cost_micros);
        self.estimated_tokens = add(self.estimated_tokens, other.estimated_tokens);
    }
}
