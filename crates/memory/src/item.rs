//! Items of a memory.

use std::collections::BTreeSet;

use ghostlight_actors::vocabulary::{OperationId, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many characters of an item's content are kept.
pub const MAX_CONTENT: usize = 4_000;
/// How many tags an item has at most.
pub const MAX_TAGS: usize = 16;
/// How many characters of a tag, and of a fact's subject, are kept.
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
    /// A thought that matters now and fades within a day or so.
    Working,
    /// An event.
    Episodic,
    /// A fact, with tags.
    #[default]
    Semantic,
    /// How a task was done, and whether that was right.
    Task,
    /// A lesson that helps or hurts, and is cited where it is used.
    Learning,
    /// A lesson of many episodes together.
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

    /// Whether a search that names no kinds includes it. The graph is left out, and so are conversations, whose content
    /// may be outdated.
    pub(crate) fn is_found_unnamed(self) -> bool {
        !matches!(self, Self::Entity | Self::Relation | Self::Conversation)
    }

    /// Its name.
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
    /// The content, by which it is found.
    pub content: String,
    /// Further words by which it is found.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Its importance, 0 to 1.
    pub importance: f64,
    /// Whether it is exempt from automatic forgetting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When its content was last written.
    pub updated_at: Timestamp,
    /// The time from which on it is not found any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The run and the operation that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Provenance>,
    /// The data of its kind beside the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// When it was last found or read. It is stored in a row of its own, so that a search does not rewrite the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed_at: Option<Timestamp>,
    /// How many times it was found or read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accesses: u64,
    /// Whether a person has switched it off: then it is kept and listed, and no search finds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The factor by which a person has raised or lowered its score, from 0.1 to 10; 1 for most.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub boost: f64,
}

fn one() -> f64 {
    1.0
}

fn is_one(number: &f64) -> bool {
    (*number - 1.0).abs() < f64::EPSILON
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl MemoryItem {
    /// When it was last found, read or written.
    pub fn used_at(&self) -> Timestamp {
        self.accessed_at.unwrap_or_default().max(self.updated_at)
    }

    /// How many hours ago it was written.
    pub fn age_hours(&self, now: Timestamp) -> f64 {
        now.since(self.updated_at).as_secs_f64() / 3600.0
    }

    /// Whether it has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The origin of an item: a run, and the operation in its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// The run.
    pub run: RunId,
    /// The operation whose entry in the run's journal records it.
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

/// The data that some kinds have beside a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// A fact about a subject: a later fact about the same subject replaces it.
    Fact {
        /// The subject.
        about: String,
        /// Its earlier contents, the last first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<String>,
    },
    /// Work on a goal; the goal is the content.
    Episode(crate::Episode),
    /// The way in which a task was done; the task is the content.
    Task(crate::TaskRecord),
    /// A learning, with its success where it was cited.
    Learning(crate::Learning),
    /// An edge between two entities.
    Relation {
        /// The entity that it begins at.
        from: String,
        /// The relation's name.
        relation: String,
        /// The entity that it leads to.
        to: String,
    },
}

/// A new item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewMemory {
    /// Its kind.
    pub kind: MemoryKind,
    /// The content.
    pub content: String,
    /// Further words by which it is found.
    pub tags: BTreeSet<String>,
    /// Its importance, 0 to 1; 0.5 when left out.
    pub importance: Option<f64>,
    /// Whether it is exempt from automatic forgetting.
    pub pinned: bool,
    /// How long it is found, in seconds; for ever when left out.
    pub expires_in_s: Option<u64>,
    /// The subject of a fact, which replaces an earlier fact about the same subject.
    pub about: Option<String>,
}

impl NewMemory {
    /// A fact.
    pub fn fact(content: impl Into<String>) -> Self {
        Self::of(MemoryKind::Semantic, content)
    }

    /// An item of this kind.
    pub fn of(kind: MemoryKind, content: impl Into<String>) -> Self {
        Self {
            kind,
            content: content.into(),
            ..Self::default()
        }
    }

    /// Sets its importance, 0 to 1.
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

    /// Sets its subject.
    #[must_use]
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    /// Exempts it from automatic forgetting.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Sets how long it is found, in seconds.
    #[must_use]
    pub fn expires_in_s(mut self, seconds: u64) -> Self {
        self.expires_in_s = Some(seconds);
        self
    }
}

/// A change of an item; fields that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryPatch {
    /// The content.
    pub content: Option<String>,
    /// Further words by which it is found.
    pub tags: Option<BTreeSet<String>>,
    /// Its importance, 0 to 1.
    pub importance: Option<f64>,
    /// Whether it is exempt from automatic forgetting.
    pub pinned: Option<bool>,
    /// Whether no search finds it.
    pub disabled: Option<bool>,
    /// The factor of its score, from 0.1 to 10.
    pub boost: Option<f64>,
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

    /// A change of the exemption from automatic forgetting.
    pub fn pinned(pinned: bool) -> Self {
        let pinned = Some(pinned);
        Self {
            pinned,
            ..Self::default()
        }
    }
}

/// A number limited to 0 to 1; `otherwise` if it is not a number.
pub(crate) fn share(number: f64, otherwise: f64) -> f64 {
    match number.is_finite() {
        true => number.clamp(0.0, 1.0),
        false => otherwise,
    }
}

/// A factor of a score within its bounds.
pub(crate) fn boosted(factor: f64) -> f64 {
    match factor.is_finite() {
        true => factor.clamp(0.1, 10.0),
        false => 1.0,
    }
}

/// A text that is safe to store and to show to a model: without hidden characters and forged marks, and of at most this
/// many characters.
pub fn clean(text: &str, characters: usize) -> String {
    // The text is cut before it is cleaned, since a model may send any length.
    let bounded: String = text.chars().take(characters.saturating_mul(2)).collect();
    let clean = ghostlight_safety::sanitize(bounded.trim());
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
pub(crate) fn clean_line(text: &str, characters: usize) -> String {
    let bounded: String = text.chars().take(characters.saturating_mul(4)).collect();
    ghostlight_safety::sanitize_line(&bounded, characters)
}

/// Tags in the form in which they are stored.
pub(crate) fn clean_tags(tags: &BTreeSet<String>) -> BTreeSet<String> {
    let tags = tags
        .iter()
        .map(|tag| clean_line(tag, MAX_TAG).to_lowercase());
    tags.filter(|tag| !tag.is_empty()).take(MAX_TAGS).collect()
}

/// The earlier contents of a fact that had this content until now.
pub(crate) fn earlier(before: &str, mut earlier: Vec<String>) -> Vec<String> {
    earlier.insert(0, before.to_owned());
    earlier.truncate(MAX_EARLIER);
    earlier
}

impl MemoryItem {
    /// An imported item with its bounds enforced, or the reason why it is invalid.
    pub(crate) fn checked(mut self) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let well_formed =
            !self.id.is_empty() && self.id.len() <= 64 && self.id.chars().all(is_plain);
        self.content = clean(&self.content, MAX_CONTENT);
        self.tags = clean_tags(&self.tags);
        self.importance = share(self.importance, 0.5);
        self.boost = boosted(self.boost);
        // A model sees the detail as it sees the content.
        if let Some(detail) = &mut self.detail {
            let wrong = |error: serde_json::Error| format!("its detail: {error}");
            let mut value = serde_json::to_value(&*detail).map_err(wrong)?;
            clean_value(&mut value);
            *detail = serde_json::from_value(value).map_err(wrong)?;
        }
        match (well_formed, self.content.is_empty()) {
            (false, _) => Err("its `id` must have 1 to 64 letters, digits, `-` and `_`".to_owned()),
            (true, true) => Err("its `content` is empty".to_owned()),
            (true, false) => Ok(self),
        }
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
