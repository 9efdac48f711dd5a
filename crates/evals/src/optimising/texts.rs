//! The texts of a team that an optimiser may change.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
};

use ghostlight_actors::{
    definition::{AgentSpec, TeamSpec},
    vocabulary::Digest,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::suite::VariantSpec;

/// The name of a text: the agent and which of its texts, such as `desk.instructions`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub struct TextName {
    /// The agent.
    pub agent: String,
    /// Which of its texts.
    pub kind: TextKind,
}

/// Which of an agent's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TextKind {
    /// The text for its own model.
    Instructions,
    /// The text about it for models of other agents.
    Description,
}

impl TextKind {
    /// The key under which a team file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Description => "description",
        }
    }
}

impl TextName {
    /// The name of this text of an agent.
    pub fn new(agent: impl Into<String>, kind: TextKind) -> Self {
        Self {
            agent: agent.into(),
            kind,
        }
    }

    /// The text in this team; `None` where the team has no such agent.
    pub fn of(&self, team: &TeamSpec) -> Option<String> {
        fn find<'a>(agent: &'a AgentSpec, name: &str) -> Option<&'a AgentSpec> {
            match agent.name == name {
                true => Some(agent),
                false => agent.agents.iter().find_map(|below| find(below, name)),
            }
        }
        let agent = find(&team.agent, &self.agent)?;
        Some(match self.kind {
            TextKind::Instructions => agent.instructions.clone(),
            TextKind::Description => agent.description.clone(),
        })
    }

    /// Sets the text in this team, if the team has the agent.
    pub(super) fn set(&self, team: &mut TeamSpec, text: &str) {
        fn find<'a>(agent: &'a mut AgentSpec, name: &str) -> Option<&'a mut AgentSpec> {
            match agent.name == name {
                true => Some(agent),
                false => agent.agents.iter_mut().find_map(|below| find(below, name)),
            }
        }
        if let Some(agent) = find(&mut team.agent, &self.agent) {
            match self.kind {
                TextKind::Instructions => agent.instructions = text.to_owned(),
                TextKind::Description => agent.description = text.to_owned(),
            }
        }
    }
}

impl fmt::Display for TextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.agent, self.kind.as_str())
    }
}

impl FromStr for TextName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = |kind: &str| match kind {
            "instructions" => Some(TextKind::Instructions),
            "description" => Some(TextKind::Description),
            _ => None,
        };
        let parts = name.rsplit_once('.');
        let named = parts.and_then(|(agent, last)| Some(Self::new(agent, kind(last)?)));
        named.ok_or_else(|| {
            format!("{name:?} names no text: write `AGENT.instructions` or `AGENT.description`")
        })
    }
}

impl TryFrom<String> for TextName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<TextName> for String {
    fn from(name: TextName) -> Self {
        name.to_string()
    }
}

/// An answer that is shown to an agent as a good one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demonstration {
    pub(super) asked: String,
    pub(super) answer: String,
}

/// A set of texts that is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) texts: BTreeMap<TextName, String>,
    pub(super) demonstrations: Vec<Demonstration>,
}

impl Candidate {
    /// The same with another text.
    pub(super) fn with(&self, name: &TextName, text: String) -> Self {
        let mut other = self.clone();
        other.texts.insert(name.clone(), text);
        other
    }

    /// The differences from the team, with demonstrations as a part of the root agent's instructions.
    pub(super) fn changes(&self, team: &TeamSpec) -> BTreeMap<TextName, String> {
        let mut texts = self.texts.clone();
        if !self.demonstrations.is_empty() {
            let name = TextName::new(&team.agent.name, TextKind::Instructions);
            let own = || team.agent.instructions.clone();
            let text = texts.entry(name).or_insert_with(own);
            *text = shown(text, &self.demonstrations);
        }
        texts.retain(|name, text| name.of(team).is_some_and(|own| own != *text));
        texts
    }

    /// The change of the team.
    pub(super) fn variant(&self, team: &TeamSpec) -> VariantSpec {
        let mut agents = BTreeMap::<String, Map<String, Value>>::new();
        for (name, text) in self.changes(team) {
            let settings = agents.entry(name.agent).or_default();
            settings.insert(name.kind.as_str().to_owned(), Value::from(text));
        }
        VariantSpec {
            agents,
            ..VariantSpec::default()
        }
    }

    /// A name that only this set has: `base` for the team's own texts.
    pub(super) fn name(&self, team: &TeamSpec) -> String {
        let changes = self.changes(team);
        if changes.is_empty() {
            return String::from("base");
        }
        let mut parts = Vec::new();
        for (name, text) in &changes {
            parts.extend([name.to_string(), text.clone()]);
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        format!("opt-{:016x}", Digest::of_parts(&parts).short())
    }
}

/// Instructions with demonstrations behind them.
fn shown(instructions: &str, demonstrations: &[Demonstration]) -> String {
    let mut text = instructions.trim_end().to_owned();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Examples of good answers:");
    for shown in demonstrations {
        let (asked, answer) = (shown.asked.trim(), shown.answer.trim());
        let _ = write!(text, "\n\nAsked: {asked}\nAnswer: {answer}");
    }
    text
}
