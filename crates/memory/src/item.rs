//! Items of a memory.

use std::collections::BTreeSet;

use ghostlight_actors::{
    safety,
    vocabulary::{OperationId, RunId, Timestamp},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many characters of an item's content are kept.
pub const MAX_CONTENT: usize = 4_000;
/// How many tags an item has at most.
pub const MAX_TAGS: usize = 16;
/// How many characters of a tag, and of what a fact is about, are kept.
pub const MAX_TAG: usize = 64;
/// How many earlier contents of a fact are kept.
const MAX_EARLIER: usize = 5;

/// Of which kind something that is remembered is. Each is found by a score of its own.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemoryKind {
    /// What matters now and fades within a day or so.
    Working,
    /// What happened.
    Episodic,
    /// What is so: facts, with tags.
    #[default]
    Semantic,
    /// How a task was done, and whether that was right.
    Task,
    /// What helps or hurts, and is cited where it is used.
    Learning,
    /// What many episodes teach together.
    Wisdom,
    /// A node of the knowledge graph.
    Entity,
    /// An edge of the knowledge graph.
    Relation,
    /// A turn of a conversation: what was said, and what was answered.
    Conversation,
}

impl MemoryKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Working,
        Self::Episodic,
        Self::Semantic,
        Self::Task,
        Self::Learning,
        Self::Wisdom,
        Self::Entity,
        Self::Relation,
        Self::Conversation,
    ];

    /// Whether a search that names no kinds looks at it: not at the graph, and not at what was merely said, which
    /// may be outdated.
    pub(crate) fn is_found_unnamed(self) -> bool {
        !matches!(self, Self::Entity | Self::Relation | Self::Conversation)
    }

    /// The word for people and for stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Episodic => "episodic",
            Self::Semantic => "semantic",
            Self::Task => "task",
            Self::Learning => "learning",
            Self::Wisdom => "wisdom",
            Self::Entity => "entity",
            Self::Relation => "relation",
            Self::Conversation => "conversation",
        }
    }
}

/// An item of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryItem {
    /// Its id, unique in its scope.
    pub id: String,
    /// Its kind.
    pub kind: MemoryKind,
    /// What is remembered, and found by.
    pub content: String,
    /// Words under which it is found too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// How much it matters, 0 to 1.
    pub importance: f64,
    /// Whether it is never forgotten by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// When it was first remembered.
    pub created_at: Timestamp,
    /// When its content was written last.
    pub updated_at: Timestamp,
    /// From when on it is not found any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Provenance>,
    /// What its kind has beside the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// When it was found or read last. It is kept beside the item, so that a search does not write it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed_at: Option<Timestamp>,
    /// How often it was found or read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accesses: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl MemoryItem {
    /// When it was used last: found, read or written.
    pub fn used_at(&self) -> Timestamp {
        self.accessed_at.unwrap_or_default().max(self.updated_at)
    }

    /// How many hours ago it was written.
    pub fn age_hours(&self, now: Timestamp) -> f64 {
        now.since(self.updated_at).as_secs_f64() / 3600.0
    }

    /// Whether its time is over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The run and the entry from which something that is remembered comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// The run.
    pub run: RunId,
    /// The operation whose entry in the run's journal says so.
    pub operation: OperationId,
    /// The agent that wrote it.
    pub agent: String,
}

impl Provenance {
    /// This operation of this agent.
    pub fn new(run: RunId, operation: OperationId, agent: impl Into<String>) -> Self {
        let agent = agent.into();
        Self {
            run,
            operation,
            agent,
        }
    }
}

/// What the kinds have beside a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// A fact about something: a later one about the same takes its place.
    Fact {
        /// What it is about.
        about: String,
        /// What was so before, the last first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<String>,
    },
    /// Work on a goal, which is the content.
    Episode(crate::Episode),
    /// A task, which is the content, and how it was done.
    Task(crate::TaskRecord),
    /// What is learnt, and how it turned out where it was cited.
    Learning(crate::Learning),
    /// An edge between two entities.
    Relation {
        /// The entity that it begins at.
        from: String,
        /// What the edge says.
        relation: String,
        /// The entity that it leads to.
        to: String,
    },
}

/// An item that is to be added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewMemory {
    /// Its kind.
    pub kind: MemoryKind,
    /// The content.
    pub content: String,
    /// Words under which it is found too.
    pub tags: BTreeSet<String>,
    /// How much it matters, 0 to 1; 0.5 when left out.
    pub importance: Option<f64>,
    /// Whether it is never forgotten by itself.
    pub pinned: bool,
    /// How long it is found, in seconds; for ever when left out.
    pub expires_in_s: Option<u64>,
    /// What the fact is about: one about the same takes the earlier one's place.
    pub about: Option<String>,
}

impl NewMemory {
    /// A fact.
    pub fn fact(content: impl Into<String>) -> Self {
        Self::of(MemoryKind::Semantic, content)
    }

    /// Something of this kind.
    pub fn of(kind: MemoryKind, content: impl Into<String>) -> Self {
        Self {
            kind,
            content: content.into(),
            ..Self::default()
        }
    }

    /// Sets how much it matters, 0 to 1.
    #[must_use]
    pub fn importance(mut self, importance: f64) -> Self {
        self.importance = Some(importance);
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.insert(tag.into());
        self
    }

    /// Sets what it is about.
    #[must_use]
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    /// Keeps it from being forgotten by itself.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Sets for how many seconds it is found.
    #[must_use]
    pub fn expires_in_s(mut self, seconds: u64) -> Self {
        self.expires_in_s = Some(seconds);
        self
    }
}

/// A change of something that is remembered; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryPatch {
    /// The content.
    pub content: Option<String>,
    /// Words under which it is found too.
    pub tags: Option<BTreeSet<String>>,
    /// How much it matters, 0 to 1.
    pub importance: Option<f64>,
    /// Whether it is never forgotten by itself.
    pub pinned: Option<bool>,
}

impl MemoryPatch {
    /// A change of the content.
    pub fn content(content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self {
            content,
            ..Self::default()
        }
    }

    /// A change of whether it stays.
    pub fn pinned(pinned: bool) -> Self {
        let pinned = Some(pinned);
        Self {
            pinned,
            ..Self::default()
        }
    }
}

/// A share from 0 to 1; what is no number is `otherwise`.
pub(crate) fn share(number: f64, otherwise: f64) -> f64 {
    match number.is_finite() {
        true => number.clamp(0.0, 1.0),
        false => otherwise,
    }
}

/// A text as it may be kept and shown to a model: without hidden characters and forged marks, and of at most
/// so many characters.
pub fn clean(text: &str, characters: usize) -> String {
    // Bounded before it is looked through: what a model sends may be of any length.
    let bounded: String = text.chars().take(characters.saturating_mul(2)).collect();
    let clean = safety::sanitize(bounded.trim());
    let clean = clean.trim();
    match clean.char_indices().nth(characters) {
        None => clean.to_owned(),
        Some(_) => {
            let kept: String = clean.chars().take(characters.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// The same on one line.
pub fn clean_line(text: &str, characters: usize) -> String {
    let bounded: String = text.chars().take(characters.saturating_mul(4)).collect();
    safety::sanitize_line(&bounded, characters)
}

/// Tags as they are kept.
pub(crate) fn clean_tags(tags: &BTreeSet<String>) -> BTreeSet<String> {
    let tags = tags
        .iter()
        .map(|tag| clean_line(tag, MAX_TAG).to_lowercase());
    tags.filter(|tag| !tag.is_empty()).take(MAX_TAGS).collect()
}

/// The earlier contents of a fact whose content was this until now.
pub(crate) fn earlier(before: &str, mut earlier: Vec<String>) -> Vec<String> {
    earlier.insert(0, before.to_owned());
    earlier.truncate(MAX_EARLIER);
    earlier
}

impl MemoryItem {
    /// An item that comes from outside, as it may be kept; `None` where it cannot be.
    pub(crate) fn checked(mut self) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let well_formed =
            !self.id.is_empty() && self.id.len() <= 64 && self.id.chars().all(is_plain);
        self.content = clean(&self.content, MAX_CONTENT);
        self.tags = clean_tags(&self.tags);
        self.importance = share(self.importance, 0.5);
        // What a detail says reaches a model as the content does.
        if let Some(detail) = &mut self.detail {
            let mut value = serde_json::to_value(&*detail).ok()?;
            clean_value(&mut value);
            *detail = serde_json::from_value(value).ok()?;
        }
        (well_formed && !self.content.is_empty()).then_some(self)
    }
}

fn clean_value(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = clean(text, MAX_CONTENT),
        serde_json::Value::Array(values) => values.iter_mut().for_each(clean_value),
        serde_json::Value::Object(members) => members.values_mut().for_each(clean_value),
        _ => {}
    }
}
