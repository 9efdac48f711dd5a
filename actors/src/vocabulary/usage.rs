//! The consumption of model calls.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};

/// Tokens and money, as the provider reported them, or estimated where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the response, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the request that the provider served from its cache.
    pub cached_tokens: u64,
    /// Tokens of the request that the provider wrote into its cache, where it tells so.
    pub cache_write_tokens: u64,
    /// Tokens of the response that were reasoning.
    pub reasoning_tokens: u64,
    /// Cost in millionths of the currency in which the model's prices are set; 0 when unknown.
    pub cost_micros: u64,
    /// How many of the request's and response's tokens are an estimate, because the provider did not report them.
    /// They count like the others.
    pub estimated_tokens: u64,
}

/// JSON has the tokens of a cache's writes only where there are some, as journals of earlier programs; `bincode` needs
/// every field.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_writes = self.cache_write_tokens > 0 || !serializer.is_human_readable();
        let mut usage = serializer.serialize_struct("Usage", 6 + usize::from(has_writes))?;
        usage.serialize_field("input_tokens", &self.input_tokens)?;
        usage.serialize_field("output_tokens", &self.output_tokens)?;
        usage.serialize_field("cached_tokens", &self.cached_tokens)?;
        if has_writes {
            usage.serialize_field("cache_write_tokens", &self.cache_write_tokens)?;
        }
        usage.serialize_field("reasoning_tokens", &self.reasoning_tokens)?;
        usage.serialize_field("cost_micros", &self.cost_micros)?;
        usage.serialize_field("estimated_tokens", &self.estimated_tokens)?;
        usage.end()
    }
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
        self.cache_write_tokens = add(self.cache_write_tokens, other.cache_write_tokens);
        self.reasoning_tokens = add(self.reasoning_tokens, other.reasoning_tokens);
        self.cost_micros = add(self.cost_micros, other.cost_micros);
        self.estimated_tokens = add(self.estimated_tokens, other.estimated_tokens);
    }
}
