//! How the requests of an agent are kept in bounds, as plain data.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// How many tokens a request of an agent may have, and what is left out of it when the
/// conversation grows beyond. The conversation itself stays whole: only requests are shaped.
///
/// ```
/// use ghostlight_actors::definition::{ContextSpec, ContextStrategy, Summarize};
///
/// let context = ContextSpec::new(32_000)
///     .strategy(ContextStrategy::Summarize(Summarize::default()))
///     .strategy(ContextStrategy::TokenWindow);
/// assert!(context.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ContextSpec {
    /// The most tokens of a request: instructions, tools and conversation. What the model's
    /// window must hold beside them, its answer, is not among them.
    pub max_tokens: u32,
    /// The share of `max_tokens` from which on the strategies work, in percent: 0 (always) to 100.
    pub trigger_percent: u8,
    /// The share of `max_tokens` to which they cut a request down, in percent: 1 to
    /// `trigger_percent`, or to 100 where they always work. Later steps fill the room in between;
    /// their requests begin as the last one did, so that the provider's cache serves them.
    pub target_percent: u8,
    /// How tokens are counted.
    pub counting: TokenCounting,
    /// What is done, in order, until the request is small enough.
    pub strategies: Vec<ContextStrategy>,
    /// Moves long results out of the conversation, into artifacts that a tool reads again. Results
    /// stay when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill: Option<Spill>,
    /// How the agent reads what other agents of the conversation said.
    pub other_agents: OtherAgents,
    /// Wordings for results of tools, used in turn: `{result}` stands for the result and `{tool}` for the tool's name.
    /// A model that reads many results in the same words goes on in the same way. The first result of a tool has the
    /// first wording. When left out, results read as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phrasings: Vec<String>,
    /// How many of the last messages a window of tokens keeps even where they do not fit.
    #[serde(skip_serializing_if = "is_none_kept")]
    pub preserve_recent: u32,
    /// How many failures of the current task's tools stay visible although their messages are left
    /// out.
    pub failures: u32,
    /// Whether an event tells, for each request, how much of its beginning it shares with the
    /// request before.
    pub report: bool,
}

fn is_none_kept(messages: &u32) -> bool {
    *messages == 0
}

impl Default for ContextSpec {
    fn default() -> Self {
        Self {
            max_tokens: 100_000,
            trigger_percent: 85,
            target_percent: 60,
            counting: TokenCounting::default(),
            strategies: vec![
                ContextStrategy::Compact(Compact::default()),
                ContextStrategy::TokenWindow,
            ],
            spill: None,
            other_agents: OtherAgents::default(),
            phrasings: Vec::new(),
            preserve_recent: 0,
            failures: 3,
            report: false,
        }
    }
}

impl ContextSpec {
    /// A bound of this many tokens, without strategies yet.
    pub fn new(max_tokens: u32) -> Self {
        Self {
            max_tokens,
            strategies: Vec::new(),
            ..Self::default()
        }
    }

    /// Adds a strategy after those that are there.
    #[must_use]
    pub fn strategy(mut self, strategy: ContextStrategy) -> Self {
        self.strategies.push(strategy);
        self
    }

    /// Sets the share of `max_tokens` from which on the strategies work, and the share to which
    /// they cut a request down, both in percent.
    #[must_use]
    pub fn between(mut self, target_percent: u8, trigger_percent: u8) -> Self {
        (self.target_percent, self.trigger_percent) = (target_percent, trigger_percent);
        self
    }

    /// Sets how tokens are counted.
    #[must_use]
    pub fn counting(mut self, counting: TokenCounting) -> Self {
        self.counting = counting;
        self
    }

    /// Moves long results out of the conversation.
    #[must_use]
    pub fn spill(mut self, spill: Spill) -> Self {
        self.spill = Some(spill);
        self
    }

    /// Sets how the agent reads what other agents of the conversation said.
    #[must_use]
    pub fn other_agents(mut self, other_agents: OtherAgents) -> Self {
        self.other_agents = other_agents;
        self
    }

    /// Sets how results of tools read, in turn.
    #[must_use]
    pub fn phrasings(mut self, phrasings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.phrasings = phrasings.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many of the last messages a window of tokens keeps even where they do not fit.
    #[must_use]
    pub fn preserve_recent(mut self, messages: u32) -> Self {
        self.preserve_recent = messages;
        self
    }

    /// Sets how many failures of the current task's tools stay visible.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Emits an event for each request that tells how much of its beginning it shares with the
    /// request before.
    #[must_use]
    pub fn reported(mut self) -> Self {
        self.report = true;
        self
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// Which setting is wrong, and what it must be.
    pub fn check(&self) -> Result<(), String> {
        if self.max_tokens == 0 {
            return Err("max_tokens must be at least 1".to_owned());
        }
        let highest = match self.trigger_percent {
            0 => 100,
            1..=100 => self.trigger_percent,
            _ => return Err("trigger_percent must be from 0 to 100".to_owned()),
        };
        if !(1..=highest).contains(&self.target_percent) {
            return Err(format!("target_percent must be from 1 to {highest}"));
        }
        if let Some(Spill {
            above_tokens,
            keep_tokens,
        }) = self.spill
            && !(1..above_tokens).contains(&keep_tokens)
        {
            return Err(
                "keep_tokens of `spill` must be at least 1 and less than above_tokens".to_owned(),
            );
        }
        if let Some(phrasing) = self.phrasings.iter().find(|one| !one.contains("{result}")) {
            return Err(format!("the phrasing {phrasing:?} lacks `{{result}}`"));
        }
        let mut names = BTreeSet::new();
        for strategy in &self.strategies {
            strategy.check()?;
            if !names.insert(strategy.name()) {
                return Err(format!("the strategy {} stands twice", strategy.name()));
            }
        }
        Ok(())
    }

    /// The registered names of the models that the strategies ask.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.strategies
            .iter()
            .filter_map(|strategy| match strategy {
                ContextStrategy::Summarize(summarize) => summarize.model.as_deref(),
                _ => None,
            })
    }
}

/// How tokens are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenCounting {
    /// By the vocabulary of the model where its name tells it and vocabularies are built in
    /// (feature `tiktoken`); otherwise by the estimate.
    #[default]
    Model,
    /// By kinds of characters; rather too many than too few.
    Estimate,
    /// By OpenAI's vocabulary since GPT-4o.
    O200kBase,
    /// By OpenAI's vocabulary of GPT-4 and GPT-3.5.
    Cl100kBase,
}

/// Moves long results of tools into artifacts of the session, so that neither the conversation nor
/// its requests carry them. What stands in their place is their beginning and end, and how the tool
/// `read_result` reads the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Spill {
    /// A result of more tokens is moved. It is read back in pieces of this size.
    pub above_tokens: u32,
    /// How many of its tokens stay; fewer than `above_tokens`.
    pub keep_tokens: u32,
}

impl Default for Spill {
    fn default() -> Self {
        Self {
            above_tokens: 4_000,
            keep_tokens: 400,
        }
    }
}

/// How an agent reads what other agents of a conversation said, after a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OtherAgents {
    /// As if it had said and done it itself.
    AsOwn,
    /// As messages of a user that name the other agent, with its calls and results in words.
    #[default]
    AsTold,
}

/// One way to make a request smaller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextStrategy {
    /// Keeps the last turns, and leaves the earlier ones out.
    SlidingWindow(SlidingWindow),
    /// Leaves out as many of the oldest turns as it takes, and then the oldest steps of the current
    /// one. What the current turn asks for stays, and so does the last step.
    #[serde(deserialize_with = "no_settings")]
    #[schemars(extend("additionalProperties" = false))]
    TokenWindow,
    /// Puts placeholders where older calls and results are bulky.
    Compact(Compact),
    /// Has a model sum up what is left out; a later summary takes the earlier one in.
    Summarize(Summarize),
}

/// What stands beside the name of a strategy that has no settings: a variant without fields would
/// take anything.
fn no_settings<'de, D: Deserializer<'de>>(given: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoSettings {}
    NoSettings::deserialize(given).map(|NoSettings {}| ())
}

impl ContextStrategy {
    /// What it is called in a team file and in events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SlidingWindow(_) => "sliding_window",
            Self::TokenWindow => "token_window",
            Self::Compact(_) => "compact",
            Self::Summarize(_) => "summarize",
        }
    }

    fn check(&self) -> Result<(), String> {
        let at_least_one = |setting: &str, value: u32| match value {
            0 => Err(format!("{setting} must be at least 1")),
            _ => Ok(()),
        };
        match self {
            Self::SlidingWindow(window) => {
                at_least_one("turns", window.turns)?;
                at_least_one("messages", window.messages.unwrap_or(1))
            }
            Self::TokenWindow | Self::Compact(_) => Ok(()),
            Self::Summarize(summarize) => {
                at_least_one("keep_recent", summarize.keep_recent)?;
                at_least_one("max_summary_tokens", summarize.max_summary_tokens)?;
                match summarize.max_input_tokens {
                    least if least < summarize.max_summary_tokens.saturating_add(300) => Err(
                        "max_input_tokens must be max_summary_tokens and 300 more, at least: the \
                         prompt and the earlier summary are a part of what is read"
                            .to_owned(),
                    ),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Keeps the last turns of a conversation. A turn begins with what a user says, and not with what
/// the agent's loop says in a user's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindow {
    /// How many, with the current one; at least 1.
    pub turns: u32,
    /// How many messages at most, as far as that is possible without parting a call from its result
    /// or leaving out what must stay; as many as there are, when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
}

impl Default for SlidingWindow {
    fn default() -> Self {
        Self {
            turns: 10,
            messages: None,
        }
    }
}

/// Puts placeholders instead of bulky payloads of tools. Calls keep their results, and what
/// failed stays as it is. So do results that are text of the conversation, as in ReAct: a window
/// leaves those out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compact {
    /// How many of the last steps with calls stay as they are. The results of the last step stay in
    /// any case: the model has not read them yet.
    pub keep_recent: u32,
    /// A payload of fewer tokens stays as it is, and so does one that is no longer than what
    /// would stand in its place.
    pub min_tokens: u32,
    /// What is replaced, by the tool's name; `*` is for all that are not named.
    pub tools: BTreeMap<String, CompactRule>,
}

impl Default for Compact {
    fn default() -> Self {
        let any = CompactRule {
            arguments: Vec::new(),
            result: Some("the result of {tool} is left out; call it again if needed".to_owned()),
        };
        Self {
            keep_recent: 2,
            min_tokens: 100,
            tools: BTreeMap::from([("*".to_owned(), any)]),
        }
    }
}

/// What is replaced of a tool's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactRule {
    /// The arguments whose values are replaced, such as the content of a file that was written.
    pub arguments: Vec<String>,
    /// The text that replaces a result; the result stays when this is left out. `{tool}` is
    /// the tool's name, and `{path}` the argument `path` of the call, on one line and shortened.
    pub result: Option<String>,
}

/// Has a model sum up what is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Summarize {
    /// The registered name of the model that does it; the agent's own when left out.
    pub model: Option<String>,
    /// How many turns at the end, or steps of the current turn, stay as they are at least.
    pub keep_recent: u32,
    /// The most tokens of a summary; what is longer is cut.
    pub max_summary_tokens: u32,
    /// The most tokens that one call reads, its prompt and the earlier summary among them; at least
    /// `max_summary_tokens` and 300 more. What is more takes several calls.
    pub max_input_tokens: u32,
}

impl Default for Summarize {
    fn default() -> Self {
        Self {
            model: None,
            keep_recent: 4,
            max_summary_tokens: 1_000,
            max_input_tokens: 16_000,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused_with_its_name() {
        let spec = |json: serde_json::Value| {
            let spec: ContextSpec = serde_json::from_value(json).unwrap();
            spec.check()
        };
        assert_eq!(spec(serde_json::json!({})), Ok(()));
        assert_eq!(
            spec(serde_json::json!({"trigger_percent": 0, "target_percent": 90})),
            Ok(())
        );
        for (json, named) in [
            (serde_json::json!({"max_tokens": 0}), "max_tokens"),
            (
                serde_json::json!({"trigger_percent": 101}),
                "trigger_percent",
            ),
            (serde_json::json!({"target_percent": 90}), "from 1 to 85"),
            (serde_json::json!({"target_percent": 0}), "target_percent"),
            (
                serde_json::json!({"strategies": [{"name": "sliding_window", "turns": 0}]}),
                "turns",
            ),
            (
                serde_json::json!({"strategies": [{"name": "token_window"}, {"name": "token_window"}]}),
                "stands twice",
            ),
            (
                serde_json::json!({"strategies": [{"name": "summarize", "max_input_tokens": 1000}]}),
                "max_input_tokens",
            ),
        ] {
            let refused = spec(json).unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn strategies_are_told_by_name_with_their_settings_beside_it() {
        let json = serde_json::json!({
            "max_tokens": 8000,
            "strategies": [{"name": "compact", "min_tokens": 5}, {"name": "token_window"}],
        });
        let spec: ContextSpec = serde_json::from_value(json).unwrap();
        assert_eq!(spec.strategies.len(), 2);
        let again = serde_json::to_value(&spec).unwrap();
        assert_eq!(serde_json::from_value::<ContextSpec>(again).unwrap(), spec);
        for (name, setting) in [("compact", "keep"), ("token_window", "max_tokens")] {
            let wrong = serde_json::json!({"strategies": [{"name": name, setting: 4000}]});
            let refused = serde_json::from_value::<ContextSpec>(wrong).unwrap_err();
            let told = format!("unknown field `{setting}`");
            assert!(refused.to_string().contains(&told), "{refused}");
        }
    }
}
