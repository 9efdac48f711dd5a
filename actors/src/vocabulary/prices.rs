//! What tokens cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

/// Prices per million tokens, in any one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Tokens of the request.
    pub input: f64,
    /// Tokens of the request that came from the server's cache; as `input` when left out.
    #[serde(default)]
    pub cached_input: Option<f64>,
    /// Tokens of the request that were written into the server's cache; as `input` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Tokens of the answer.
    pub output: f64,
}

impl Prices {
    /// The cost in millionths of the currency, rounded to the nearest.
    pub fn cost_micros(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let fresh = usage.input_tokens - cached - written;
        // A price per million tokens is a price in millionths per token.
        let cost = fresh as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output;
        // The conversion is exact enough for money below 9e15 millionths, saturates above, and
        // makes 0 of a negative or absent price.
        cost.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_counts_cached_tokens_at_their_own_price() {
        let prices = Prices {
            input: 2.0,
            cached_input: Some(0.5),
            cache_write: None,
            output: 8.0,
        };
        let usage = Usage {
            input_tokens: 1_000,
            cached_tokens: 400,
            output_tokens: 100,
            ..Usage::default()
        };
        assert_eq!(prices.cost_micros(&usage), 600 * 2 + 200 + 800);
        let no_discount = Prices {
            cached_input: None,
            ..prices
        };
        assert_eq!(no_discount.cost_micros(&usage), 2_000 + 800);
    }

    #[test]
    fn tokens_that_are_written_into_a_cache_have_their_own_price() {
        let prices = Prices {
            input: 3.0,
            cached_input: Some(0.5),
            cache_write: Some(4.0),
            output: 8.0,
        };
        let usage = Usage {
            input_tokens: 1_000,
            cached_tokens: 400,
            cache_write_tokens: 500,
            ..Usage::default()
        };
        assert_eq!(prices.cost_micros(&usage), 200 + 500 * 4 + 100 * 3);
        let as_input = Prices {
            cache_write: None,
            ..prices
        };
        assert_eq!(as_input.cost_micros(&usage), 200 + 600 * 3);
    }

    #[test]
    fn absurd_prices_and_counts_do_not_overflow() {
        let usage = Usage {
            input_tokens: u64::MAX,
            cached_tokens: u64::MAX,
            output_tokens: u64::MAX,
            ..Usage::default()
        };
        let dear = Prices {
            input: f64::MAX,
            cached_input: None,
            cache_write: None,
            output: 1.0,
        };
        assert_eq!(dear.cost_micros(&usage), u64::MAX);
        let odd = Prices {
            input: -1.0,
            cached_input: Some(f64::NAN),
            cache_write: None,
            output: 0.0,
        };
        assert_eq!(odd.cost_micros(&usage), 0);
    }
}
