//! The prices of models whose settings have none: a dated table, which can be replaced.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use ghostlight_actors::vocabulary::{Prices, Usage};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// The table of this version.
const OWN: &str = include_str!("table.json");

static IN_USE: LazyLock<RwLock<Arc<PriceTable>>> = LazyLock::new(|| {
    let own = PriceTable::read(OWN).unwrap_or_default();
    RwLock::new(Arc::new(own))
});

/// The prices of models at their providers' own servers, in US dollars per million tokens.
///
/// A model whose settings have no `prices` has those of the table that is in use: that of this version, or the one that was
/// [put into use](Self::put_into_use) last. The command does that with the file of `ghostlight prices update`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// The day of its latest figures, such as `2026-10-24`.
    pub dated: String,
    /// Always `USD`.
    pub currency: String,
    providers: BTreeMap<String, ProviderPrices>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderPrices {
    /// The origin of the figures, and their day.
    source: String,
    dated: String,
    /// The servers that charge them.
    hosts: Vec<String>,
    /// The share of a price that a request in a batch costs; left out where there are no batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_share: Option<f64>,
    models: BTreeMap<String, ModelPrices>,
}

/// The price of one model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelPrices {
    input: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_input: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
    output: f64,
    /// The prices of requests with more tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    long: Option<LongPrices>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPrices {
    above: u64,
    input: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_input: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
    output: f64,
}

impl ModelPrices {
    /// The prices of a request with this many tokens.
    fn of(&self, tokens: u64) -> Prices {
        match self.long.filter(|long| tokens > long.above) {
            Some(long) => Prices {
                input: long.input,
                cached_input: long.cached_input,
                cache_write: long.cache_write,
                output: long.output,
            },
            None => Prices {
                input: self.input,
                cached_input: self.cached_input,
                cache_write: self.cache_write,
                output: self.output,
            },
        }
    }

    fn is_sound(&self) -> bool {
        [Some(0), self.long.map(|long| long.above + 1)]
            .into_iter()
            .flatten()
            .map(|tokens| self.of(tokens))
            .all(|prices| {
                let figures = [Some(prices.input), prices.cached_input, prices.cache_write];
                let mut figures = figures.into_iter().flatten().chain([prices.output]);
                figures.all(|figure| figure.is_finite() && figure >= 0.0)
            })
    }
}

impl PriceTable {
    /// Reads a table from JSON.
    ///
    /// # Errors
    /// The fault in it, with its place.
    pub fn read(text: &str) -> Result<Self, String> {
        let table: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if table.currency != "USD" {
            return Err(format!(
                "its currency is {:?}: give prices in USD",
                table.currency
            ));
        }
        for (provider, of) in &table.providers {
            if let Some((model, _)) = of.models.iter().find(|(_, prices)| !prices.is_sound()) {
                return Err(format!("the prices of {provider}'s {model} are not prices"));
            }
            if of
                .batch_share
                .is_some_and(|share| !(0.0..=1.0).contains(&share))
            {
                return Err(format!("batch_share of {provider} is not between 0 and 1"));
            }
        }
        match table.providers.values().all(|of| of.models.is_empty()) {
            true => Err("it has no prices".to_owned()),
            false => Ok(table),
        }
    }

    /// The table of this version.
    pub fn of_this_version() -> Self {
        Self::read(OWN).unwrap_or_default()
    }

    /// The table in use.
    pub fn in_use() -> Arc<Self> {
        IN_USE.read().clone()
    }

    /// Has all models of this process go by the table from now on.
    pub fn put_into_use(self) {
        *IN_USE.write() = Arc::new(self);
    }

    /// Each model with its provider, in alphabetical order, and what it costs.
    pub fn models(&self) -> impl Iterator<Item = (&str, &str, Prices)> {
        self.providers.iter().flat_map(|(provider, of)| {
            let models = of.models.iter();
            models.map(|(model, prices)| (provider.as_str(), model.as_str(), prices.of(0)))
        })
    }

    /// The name of each provider, with the origin of its figures and their day.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let each = self.providers.iter();
        each.map(|(name, of)| (name.as_str(), of.source.as_str(), of.dated.as_str()))
    }

    fn provider(&self, host: &str) -> Option<&ProviderPrices> {
        let mut providers = self.providers.values();
        providers.find(|of| of.hosts.iter().any(|known| known == host))
    }

    /// The share of a price that a request in a batch costs at this server.
    fn batch_share(&self, host: &str) -> Option<f64> {
        self.provider(host)?.batch_share
    }

    /// The price of a model at this server, by its name there; a version of it costs the same.
    fn of(&self, host: &str, model: &str) -> Option<&ModelPrices> {
        let of = self.provider(host)?;
        let exact = of.models.get(model);
        exact.or_else(|| {
            let versions = of.models.iter().filter(|(known, _)| {
                let version = model.strip_prefix(known.as_str());
                version.is_some_and(is_version)
            });
            versions
                .max_by_key(|(known, _)| known.len())
                .map(|(_, of)| of)
        })
    }
}

/// Whether the end of a model's name tells its version only: `-2025-08-07`, `-20250929`, `-latest`, `-preview-09-2025`.
fn is_version(end: &str) -> bool {
    let Some(end) = end.strip_prefix('-') else {
        return false;
    };
    let is_date = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    end.split('-')
        .all(|part| is_date(part) || matches!(part, "latest" | "preview"))
}

/// By what a model is charged.
#[derive(Clone, Copy)]
pub(crate) struct Tariff<'a> {
    /// The model's own prices.
    pub(crate) prices: Option<&'a Prices>,
    /// Its name at the server.
    pub(crate) model: &'a str,
    /// Whether its requests go in batches. Its own prices are those of batches then.
    pub(crate) is_batched: bool,
    /// Whether tokens are written to the provider's cache in a request of their own. Neither request is longer for the
    /// tokens of the other then.
    pub(crate) writes_apart: bool,
}

impl<'a> Tariff<'a> {
    /// The tariff of requests that go alone.
    pub(crate) fn new(prices: Option<&'a Prices>, model: &'a str) -> Self {
        Self {
            prices,
            model,
            is_batched: false,
            writes_apart: false,
        }
    }

    /// The tokens of the longest request of a usage.
    fn length(&self, usage: &Usage) -> u64 {
        let (all, written) = (usage.input_tokens, usage.cache_write_tokens);
        match self.writes_apart {
            true => all.saturating_sub(written).max(written),
            false => all,
        }
    }
}

/// Whether the table in use has a price for a model at this server.
pub(crate) fn is_known(tariff: Tariff<'_>, host: &str) -> bool {
    let table = IN_USE.read();
    table.of(host, tariff.model).is_some()
        && (!tariff.is_batched || table.batch_share(host).is_some())
}

/// The cost of a usage, by the model's own prices, or else by the table in use; `None` where neither has it.
pub(crate) fn cost_micros(tariff: Tariff<'_>, host: &str, usage: &Usage) -> Option<u64> {
    if let Some(given) = tariff.prices {
        return Some(given.cost_micros(usage));
    }
    let table = IN_USE.read();
    let prices = table.of(host, tariff.model)?.of(tariff.length(usage));
    let cost = prices.cost_micros(usage);
    Some(match tariff.is_batched {
        true => (cost as f64 * table.batch_share(host)?).round() as u64,
        false => cost,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_this_version_reads_and_says_where_it_is_from() {
        let table = PriceTable::read(OWN).unwrap();
        assert!(table.models().count() > 20);
        for (provider, source, dated) in table.sources() {
            assert!(source.starts_with("https://"), "{provider}");
            assert!(dated <= table.dated.as_str(), "{provider}");
        }
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(PriceTable::read(&text).unwrap(), table);
    }

    #[test]
    fn a_version_of_a_model_costs_what_it_does_and_another_model_does_not() {
        let table = PriceTable::read(OWN).unwrap();
        let input = |host: &str, model: &str| Some(table.of(host, model)?.of(0).input);
        let openai = "api.openai.com";
        for (model, price) in [
            ("gpt-5", Some(1.25)),
            ("gpt-5-2025-08-07", Some(1.25)),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("gpt-5-turbo", None),
            ("gpt-55", None),
        ] {
            assert_eq!(input(openai, model), price, "{model}");
        }
        let anthropic = "api.anthropic.com";
        assert_eq!(input(anthropic, "claude-opus-4-20250514"), Some(15.0));
        assert_eq!(input(anthropic, "claude-opus-4-5-20251101"), Some(5.0));
        // One digit is a version of its own.
        assert_eq!(input(anthropic, "claude-opus-4-9"), None);
        assert_eq!(input("127.0.0.1:9", "gpt-5"), None);
    }

    #[test]
    fn long_requests_have_their_own_price() {
        let table = PriceTable::read(OWN).unwrap();
        let prices = table.of("generativelanguage.googleapis.com", "gemini-2.5-pro");
        let prices = prices.unwrap();
        assert_eq!(
            (prices.of(200_000).input, prices.of(200_001).input),
            (1.25, 2.5)
        );
    }

    #[test]
    fn tokens_that_are_written_in_a_request_of_their_own_make_no_other_one_long() {
        let google = "generativelanguage.googleapis.com";
        let together = Tariff::new(None, "gemini-2.5-pro");
        let apart = Tariff {
            writes_apart: true,
            ..together
        };
        let usage = Usage {
            input_tokens: 300_000,
            cached_tokens: 140_000,
            cache_write_tokens: 150_000,
            ..Usage::default()
        };
        assert_eq!(cost_micros(apart, google, &usage), Some(217_500));
        assert_eq!(cost_micros(together, google, &usage), Some(435_000));
        // A request that writes so many is long itself.
        let usage = Usage {
            input_tokens: 250_000,
            cache_write_tokens: 250_000,
            ..Usage::default()
        };
        assert_eq!(cost_micros(apart, google, &usage), Some(625_000));
    }

    #[test]
    fn a_request_in_a_batch_costs_the_share_that_its_provider_charges() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            ..Usage::default()
        };
        let alone = Tariff::new(None, "gpt-5");
        let batched = Tariff {
            is_batched: true,
            ..alone
        };
        let cost = |tariff, host: &str| cost_micros(tariff, host, &usage);
        assert_eq!(cost(alone, "api.openai.com"), Some(1_250_000 + 1_000_000));
        assert_eq!(cost(batched, "api.openai.com"), Some(625_000 + 500_000));
        assert!(is_known(batched, "api.openai.com"));
        let claude = Tariff {
            model: "claude-opus-4-5",
            ..batched
        };
        let anthropic = "api.anthropic.com";
        assert_eq!(cost(claude, anthropic), Some(2_500_000 + 1_250_000));
        // Nothing is known of what others charge for batches.
        let gemini = Tariff {
            model: "gemini-2.5-flash",
            ..batched
        };
        let google = "generativelanguage.googleapis.com";
        assert_eq!(cost(gemini, google), None);
        assert!(!is_known(gemini, google));
        let own = Prices {
            input: 1.0,
            cached_input: None,
            cache_write: None,
            output: 2.0,
        };
        let own = Tariff {
            prices: Some(&own),
            ..batched
        };
        assert_eq!(cost(own, "127.0.0.1"), Some(1_200_000));
    }

    #[test]
    fn a_table_with_faults_is_refused() {
        let of = |models: &str| {
            format!(
                r#"{{"dated": "2026-01-01", "currency": "USD", "providers": {{"a": {{"source": "s", "dated": "d",
                "hosts": ["h"], "models": {models}}}}}}}"#
            )
        };
        PriceTable::read(&of(r#"{"m": {"input": 1, "output": 2}}"#)).unwrap();
        for wrong in [
            "{}",
            r#"{"m": {"input": -1, "output": 2}}"#,
            r#"{"m": {"inptu": 1}}"#,
        ] {
            assert!(PriceTable::read(&of(wrong)).is_err(), "{wrong}");
        }
        let euros = of(r#"{"m": {"input": 1, "output": 2}}"#).replace("USD", "EUR");
        assert!(PriceTable::read(&euros).unwrap_err().contains("USD"));
    }
}
