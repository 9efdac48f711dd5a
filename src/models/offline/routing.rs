//! Which tool is nearest to a part of a task.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use ghostlight_actors::{
    definition::{DELEGATE_PREFIX, TRANSFER_PREFIX},
    vocabulary::{Effect, ToolDefinition, ToolSet},
};
use serde_json::Value;

use super::question::Part;
use crate::retrieval::terms::{content_terms, terms};

/// How much a word in a tool's name counts beside one in its description.
const NAME_WEIGHT: f64 = 2.0;
/// How much a word counts that the part does not say but implies, beside one that it says.
const ARITHMETIC_WEIGHT: f64 = 2.0;
const LOOKUP_WEIGHT: f64 = 0.5;

/// Words of tools and agents that calculate. A part with arithmetic in it implies them.
const ARITHMETIC_WORDS: &str =
    "calculate arithmetic compute math mathematics mathematical number expression percentage sum";
/// Words of tools and agents that look things up. A question implies them.
const LOOKUP_WORDS: &str = "search find look lookup document docs documentation knowledge \
                            information question answer research reference fact passage guide";
/// Words that every request may have, whatever it is about.
const COMMON_WORDS: &str = "give tell show make want need help ask say use thing tool agent task";

/// How near another agent is beside a tool of one's own that fits as well.
const DELEGATE_WEIGHT: f64 = 0.95;
const TRANSFER_WEIGHT: f64 = 0.9;

/// What kind of tool it is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does something itself.
    Tool,
    /// It has another agent do a sub-task.
    Delegate,
    /// It hands the conversation to another agent.
    Transfer,
}

pub(super) fn kind(name: &str) -> Kind {
    if name.starts_with(TRANSFER_PREFIX) {
        Kind::Transfer
    } else if name.starts_with(DELEGATE_PREFIX) {
        Kind::Delegate
    } else {
        Kind::Tool
    }
}

/// The tools of a request with the words by which they are found.
pub(super) struct Router<'a> {
    tools: Vec<Candidate<'a>>,
    /// In how many tools each term stands.
    having: BTreeMap<String, usize>,
}

struct Candidate<'a> {
    definition: &'a Arc<ToolDefinition>,
    /// The weight of each term: that of the most telling place where it stands.
    terms: BTreeMap<String, f64>,
}

impl<'a> Router<'a> {
    pub(super) fn new(tools: &'a ToolSet) -> Self {
        let tools: Vec<Candidate<'a>> = tools.iter().map(Candidate::new).collect();
        let mut having = BTreeMap::new();
        for term in tools.iter().flat_map(|tool| tool.terms.keys()) {
            *having.entry(term.clone()).or_default() += 1;
        }
        Self { tools, having }
    }

    /// The tools that fit a part, the nearest first; of equals the first of the request.
    pub(super) fn ranked(&self, part: &Part) -> Vec<&'a Arc<ToolDefinition>> {
        let wanted = wanted_terms(part);
        let mut ranked: Vec<(f64, &Candidate<'a>)> = self
            .tools
            .iter()
            .filter(|tool| tool.is_safe_for(part))
            .map(|tool| (self.score(tool, &wanted), tool))
            .filter(|(score, _)| *score > 0.0)
            .collect();
        ranked.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
        ranked
            .into_iter()
            .map(|(_, tool)| tool.definition)
            .collect()
    }

    fn score(&self, tool: &Candidate<'_>, wanted: &BTreeMap<String, f64>) -> f64 {
        let count = self.tools.len() as f64;
        let matches = wanted.iter().filter_map(|(term, weight)| {
            let place = tool.terms.get(term)?;
            let having = self.having.get(term).copied().unwrap_or_default() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            Some(weight * place * rarity)
        });
        let nearness = match kind(&tool.definition.name) {
            Kind::Tool => 1.0,
            Kind::Delegate => DELEGATE_WEIGHT,
            Kind::Transfer => TRANSFER_WEIGHT,
        };
        matches.sum::<f64>() * nearness
    }
}

impl<'a> Candidate<'a> {
    fn new(definition: &'a Arc<ToolDefinition>) -> Self {
        let common = terms(COMMON_WORDS);
        let mut found = BTreeMap::new();
        let mut add = |text: &str, weight: f64| {
            for term in content_terms(text) {
                if !common.contains(&term) {
                    let place: &mut f64 = found.entry(term).or_default();
                    *place = place.max(weight);
                }
            }
        };
        let name = &definition.name;
        let prefixes = [TRANSFER_PREFIX, DELEGATE_PREFIX];
        let agent = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        add(agent.unwrap_or(name), NAME_WEIGHT);
        // Only the agent's own words tell it from the others.
        let own = agent.and_then(|agent| {
            let introduction = format!("{agent}: ");
            definition
                .description
                .split_once(&introduction)
                .map(|(_, own)| own)
        });
        add(own.unwrap_or(&definition.description), 1.0);
        if kind(name) == Kind::Tool {
            let properties = definition
                .parameters
                .get("properties")
                .and_then(Value::as_object);
            for property in properties
                .into_iter()
                .flat_map(|properties| properties.keys())
            {
                add(property, 1.0);
            }
        }
        Self {
            definition,
            terms: found,
        }
    }

    /// A stand-in does not act on a guess: what changes the world must be asked for by a word
    /// of the tool's name, and never by a question.
    fn is_safe_for(&self, part: &Part) -> bool {
        if self.definition.effect == Effect::Read || kind(&self.definition.name) != Kind::Tool {
            return true;
        }
        let name = content_terms(&self.definition.name);
        let said = content_terms(&part.text);
        !part.asks && name.iter().any(|term| said.contains(term))
    }
}

/// The terms of a part and those that it implies, each with its weight.
fn wanted_terms(part: &Part) -> BTreeMap<String, f64> {
    let mut wanted = BTreeMap::new();
    if part.arithmetic.is_some() {
        wanted.extend(
            terms(ARITHMETIC_WORDS)
                .into_iter()
                .map(|t| (t, ARITHMETIC_WEIGHT)),
        );
    } else if part.asks {
        wanted.extend(terms(LOOKUP_WORDS).into_iter().map(|t| (t, LOOKUP_WEIGHT)));
    }
    for term in content_terms(&part.text) {
        let weight: &mut f64 = wanted.entry(term).or_default();
        *weight = weight.max(1.0);
    }
    for term in terms(COMMON_WORDS) {
        wanted.remove(&term);
    }
    wanted
}
