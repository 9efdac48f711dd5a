//! The content of one scope of a memory after some write, and the search in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use ghostlight_actors::{
    contract::{EmbeddingSpace, StateValue},
    vocabulary::{Digest, ErrorKind, OperationError, Timestamp},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Alike, Detail, DuplicateCheck, EpisodeStatus, MemoryItem, MemoryKind, NEAREST, SAME_COSINE,
    items::{Items, Name},
    scoring::{self, Likeness},
    terms::{query_terms, terms},
};

/// The format of a memory's rows. A program leaves rows of a later format alone.
const FORMAT: u64 = 2;

/// The keys of a memory's rows in a scope's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys(String);

/// The content of a row of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Item,
    /// The number of uses, and the last one.
    Use,
    /// The item's vector: derived data, made again when it is missing.
    Vector,
}

impl Keys {
    pub(crate) fn new(memory: &str) -> Self {
        Self(format!("memory:{memory}"))
    }

    /// The row that every write changes: while it is the same, a cached view is current.
    pub(crate) fn head(&self) -> &str {
        &self.0
    }

    pub(crate) fn row(&self, row: Row, id: &str) -> String {
        let end = match row {
            Row::Item => "",
            Row::Use => "#use",
            Row::Vector => "#vector",
        };
        format!("{}/{id}{end}", self.0)
    }

    fn parse<'k>(&self, key: &'k str) -> Option<(Row, &'k str)> {
        let rest = key.strip_prefix(&self.0)?.strip_prefix('/')?;
        Some(match rest.split_once('#') {
            None => (Row::Item, rest),
            Some((id, "use")) => (Row::Use, id),
            Some((id, "vector")) => (Row::Vector, id),
            Some(_) => return None,
        })
    }
}

/// The write that a view shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) version: u64,
    /// The writer: it tells a version that a rewound session wrote from another one with the same number.
    pub(crate) by: String,
    /// Numbers that outlast the items that they are of: the highest number of a removed learning's code by its letter,
    /// and the day that was summed up last.
    pub(crate) marks: BTreeMap<String, u64>,
}

impl Head {
    pub(crate) fn read(version: u64, value: Option<&Value>) -> Result<Self, OperationError> {
        let by = value
            .and_then(|value| value["by"].as_str())
            .unwrap_or_default();
        let format = value.and_then(|value| value["format"].as_u64());
        if format.is_some_and(|format| format > FORMAT) {
            let message =
                "a later program wrote this memory: read it with that program, or a later one";
            return Err(OperationError::new(ErrorKind::Malformed, message));
        }
        let marks = value.and_then(|value| BTreeMap::deserialize(&value["marks"]).ok());
        Ok(Self {
            version,
            by: by.to_owned(),
            marks: marks.unwrap_or_default(),
        })
    }

    pub(crate) fn value(&self) -> Value {
        match self.marks.is_empty() {
            true => json!({ "format": FORMAT, "by": self.by }),
            false => json!({ "format": FORMAT, "by": self.by, "marks": self.marks }),
        }
    }
}

/// An item with its derived data.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) item: MemoryItem,
    pub(crate) terms: BTreeSet<String>,
    pub(crate) vector: Option<Arc<Vec<f32>>>,
    /// The versions of the item's row and of its use.
    pub(crate) versions: (u64, u64),
}

impl Kept {
    pub(crate) fn new(item: MemoryItem) -> Self {
        Self {
            terms: terms(&text_of(&item)),
            item,
            vector: None,
            versions: (0, 0),
        }
    }
}

/// The text by which an item is found.
pub(crate) fn text_of(item: &MemoryItem) -> String {
    match &item.detail {
        Some(Detail::Fact { about, .. }) => format!("{about}: {}", item.content),
        Some(Detail::Task(_)) => format!("Task: {}", item.content),
        Some(Detail::Relation { from, relation, to }) => {
            format!("{from} {relation} {to} {}", item.content)
        }
        _ => item.content.clone(),
    }
}

/// The content of one scope of a memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) head: Head,
    pub(crate) kept: Items,
}

#[derive(Serialize, Deserialize)]
struct UseRow {
    at: u64,
    n: u64,
}

#[derive(Serialize, Deserialize)]
struct VectorRow {
    space: String,
    of: String,
    v: String,
}

pub(crate) fn use_row(item: &MemoryItem) -> Value {
    json!(UseRow {
        at: item.accessed_at.unwrap_or_default().0,
        n: item.accesses,
    })
}

/// The row of an item, without its use, which has a row of its own.
pub(crate) fn item_row(item: &MemoryItem) -> Value {
    let mut item = item.clone();
    (item.accessed_at, item.accesses) = (None, 0);
    json!(item)
}

fn digest_of(item: &MemoryItem) -> String {
    Digest::of(text_of(item).as_bytes()).to_string()[..16].to_owned()
}

pub(crate) fn vector_row(space: &EmbeddingSpace, item: &MemoryItem, vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    json!(VectorRow {
        space: space.name.clone(),
        of: digest_of(item),
        v: STANDARD_NO_PAD.encode(bytes),
    })
}

/// The vector of a row, if it belongs to this space and to the current content of the item.
fn read_vector(row: &Value, space: &EmbeddingSpace, item: &MemoryItem) -> Option<Vec<f32>> {
    let row = VectorRow::deserialize(row).ok()?;
    if row.space != space.name || row.of != digest_of(item) {
        return None;
    }
    let bytes = STANDARD_NO_PAD.decode(row.v).ok()?;
    let numbers = bytes.chunks_exact(4).map(|four| {
        let four: [u8; 4] = four.try_into().unwrap_or_default();
        f32::from_le_bytes(four)
    });
    let vector: Vec<f32> = numbers.collect();
    (vector.len() == space.dimension).then_some(vector)
}

impl View {
    /// Reads the rows of a scope's state.
    pub(crate) fn read(
        keys: &Keys,
        rows: Vec<(String, StateValue)>,
        space: Option<&EmbeddingSpace>,
    ) -> Result<Self, OperationError> {
        let mut view = Self::default();
        let mut read: BTreeMap<String, Kept> = BTreeMap::new();
        let (mut uses, mut vectors) = (Vec::new(), Vec::new());
        for (key, row) in rows {
            if key == keys.head() {
                view.head = Head::read(row.version, Some(&row.value))?;
                continue;
            }
            match keys.parse(&key) {
                Some((Row::Item, id)) => {
                    let item = MemoryItem::deserialize(&row.value).map_err(|error| {
                        let message = format!("the memory {key:?} does not read: {error}");
                        OperationError::new(ErrorKind::Malformed, message)
                    })?;
                    let mut kept = Kept::new(item);
                    kept.versions.0 = row.version;
                    read.insert(id.to_owned(), kept);
                }
                Some((Row::Use, id)) => uses.push((id.to_owned(), row)),
                Some((Row::Vector, id)) => vectors.push((id.to_owned(), row)),
                None => {}
            }
        }
        for (id, row) in uses {
            if let Some(kept) = read.get_mut(&id) {
                kept.versions.1 = row.version;
                if let Ok(used) = UseRow::deserialize(&row.value) {
                    kept.item.accessed_at = Some(Timestamp(used.at));
                    kept.item.accesses = used.n;
                }
            }
        }
        for (id, row) in vectors {
            if let (Some(kept), Some(space)) = (read.get_mut(&id), space)
                && let Some(vector) = read_vector(&row.value, space, &kept.item)
            {
                kept.vector = Some(Arc::new(vector));
            }
        }
        // A row is found by its key, so the key counts, whatever the item says.
        for (id, mut kept) in read {
            kept.item.id = id;
            view.kept.put(kept);
        }
        Ok(view)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&MemoryItem> {
        self.kept.get(id).map(|kept| &kept.item)
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &MemoryItem> {
        self.kept.values().map(|kept| &kept.item)
    }

    /// The items of this name, by their ids.
    pub(crate) fn named<'s>(
        &'s self,
        name: &Name,
    ) -> impl Iterator<Item = &'s MemoryItem> + use<'s> {
        self.kept.named(name).map(|kept| &kept.item)
    }

    /// The items of its kind that may say the same as a new item: in like words or, if it has a vector, with a like one.
    pub(crate) fn alike<'v>(
        &'v self,
        new: &'v Kept,
        vector: Option<&'v [f32]>,
    ) -> impl Iterator<Item = &'v Arc<Kept>> {
        let of_kind = vector.map(|_| self.kept.named(&Name::Kind(new.item.kind)));
        let is_near = move |kept: &&Arc<Kept>| {
            let both = vector.zip(kept.vector.as_ref());
            both.is_some_and(|(a, b)| scoring::cosine(a, b) >= SAME_COSINE)
        };
        let near = of_kind.into_iter().flatten().filter(is_near);
        self.kept.in_like_words(new).chain(near)
    }

    /// The item of its kind that says the same as a new one: the most alike, and of equals the earlier one.
    pub(crate) fn saying_the_same(
        &self,
        new: &Kept,
        vector: Option<&[f32]>,
        check: Option<&dyn DuplicateCheck>,
    ) -> Option<MemoryItem> {
        let detail = |item: &MemoryItem| item.detail.as_ref().map(mem::discriminant);
        let pair = |kept: &'_ Arc<Kept>| {
            let meaning = vector.zip(kept.vector.as_ref());
            let words = scoring::jaccard(&kept.terms, &new.terms);
            (words, meaning.map(|(a, b)| scoring::cosine(a, b)))
        };
        let candidates: Vec<&Arc<Kept>> = match check {
            None => self.alike(new, vector).collect(),
            Some(_) => self.kept.named(&Name::Kind(new.item.kind)).collect(),
        };
        let of_detail = candidates
            .into_iter()
            .filter(|kept| detail(&kept.item) == detail(&new.item));
        let mut pairs: Vec<Alike<'_>> = of_detail
            .map(|kept| {
                let (words, meaning) = pair(kept);
                Alike {
                    new: &new.item,
                    before: &kept.item,
                    words,
                    meaning,
                }
            })
            .collect();
        pairs.sort_by(|a, b| {
            let first =
                (a.before.created_at, &a.before.id).cmp(&(b.before.created_at, &b.before.id));
            b.likeness().total_cmp(&a.likeness()).then(first)
        });
        let same = match check {
            None => pairs.iter().find(|pair| pair.is_usually_same()),
            Some(check) => pairs.iter().take(NEAREST).find(|pair| check.is_same(pair)),
        };
        same.map(|pair| pair.before.clone())
    }

    /// The items that answer a query best, the best first; of equals the earlier one.
    pub(crate) fn search(
        &self,
        query: &MemoryQuery,
        vector: Option<&[f32]>,
        decay_hours: f64,
        now: Timestamp,
    ) -> Vec<MemoryHit> {
        let asked = query.parsed();
        let mut found: Vec<(f64, &MemoryItem)> = self
            .kept
            .values()
            .filter(|kept| asked.admits(query, &kept.item, now))
            .filter_map(|kept| {
                let like = asked.like(kept, vector);
                let relevant = like.relevance() > query.min_relevance.max(0.0);
                let score = score(&kept.item, like, decay_hours, now);
                relevant.then_some((score, &kept.item))
            })
            .collect();
        found.sort_by(|(a, one), (b, other)| {
            let first = (one.created_at, &one.id).cmp(&(other.created_at, &other.id));
            b.total_cmp(a).then(first)
        });
        let best = found.into_iter().take(query.k as usize);
        best.map(|(score, item)| MemoryHit {
            score,
            item: item.clone(),
        })
        .collect()
    }

    /// The `count` items that are least worth keeping (of all, or of the working memories only), among those that are not
    /// pinned, the least first.
    pub(crate) fn worst(
        &self,
        working_only: bool,
        count: usize,
        probe: Option<&Kept>,
        decay_hours: f64,
        now: Timestamp,
    ) -> Vec<String> {
        let except = probe.map(|probe| probe.item.id.as_str());
        let working = self.kept.named(&Name::Kind(MemoryKind::Working));
        let working =
            working.filter(|kept| !kept.item.pinned && Some(kept.item.id.as_str()) != except);
        let others = (!working_only).then(|| self.kept.longest_unused(count, except));
        let rated = working.chain(others.into_iter().flatten()).map(|kept| {
            let item = &kept.item;
            let worth = match (item.kind, probe) {
                (MemoryKind::Working, Some(probe)) => {
                    let like = Likeness {
                        cosine: probe
                            .vector
                            .as_ref()
                            .zip(kept.vector.as_ref())
                            .map(|(a, b)| scoring::cosine(a, b)),
                        keyword: scoring::keyword_score(&probe.terms, &kept.terms),
                        tags: 0.0,
                    };
                    scoring::working_score(like, item.age_hours(now), decay_hours, item.importance)
                }
                _ => {
                    let hours = now.since(item.used_at()).as_secs_f64() / 3600.0;
                    scoring::retention(hours, item.importance, item.accesses)
                }
            };
            (worth, item)
        });
        let mut rated: Vec<(f64, &MemoryItem)> = rated.collect();
        // Of equals the least important one goes, then the one that was not used for longest.
        rated.sort_by(|(a, one), (b, other)| {
            let age = (one.used_at(), one.created_at, &one.id);
            let age = age.cmp(&(other.used_at(), other.created_at, &other.id));
            a.total_cmp(b)
                .then(one.importance.total_cmp(&other.importance))
                .then(age)
        });
        let worst = rated.into_iter().take(count);
        worst.map(|(_, item)| item.id.clone()).collect()
    }
}

/// A query of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryQuery {
    /// The question. If it begins with `tag:a,b`, only items with one of these tags are searched.
    pub text: String,
    /// The kinds to search; when empty, all but the graph's and conversations.
    pub kinds: BTreeSet<MemoryKind>,
    /// The most items to find.
    pub k: u32,
    /// The relevance that an item must exceed, 0 to 1.
    pub min_relevance: f64,
    /// Whether to find unconfirmed episodes, too.
    pub pending: bool,
    /// Whether finding an item counts as a use of it.
    pub counts: bool,
}

impl Default for MemoryQuery {
    fn default() -> Self {
        Self {
            text: String::new(),
            kinds: BTreeSet::new(),
            k: 5,
            min_relevance: 0.0,
            pending: false,
            counts: true,
        }
    }
}

impl MemoryQuery {
    /// The most items that one search finds.
    pub const MOST: u32 = 100;

    /// The five best for this question.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            text,
            ..Self::default()
        }
    }

    /// Sets how many items are found at most.
    #[must_use]
    pub fn k(mut self, k: u32) -> Self {
        self.k = k.min(Self::MOST);
        self
    }

    /// Searches this kind only; further calls add kinds.
    #[must_use]
    pub fn kind(mut self, kind: MemoryKind) -> Self {
        self.kinds.insert(kind);
        self
    }

    /// Finds unconfirmed episodes, too.
    #[must_use]
    pub fn pending(mut self) -> Self {
        self.pending = true;
        self
    }

    /// Does not count finding as a use.
    #[must_use]
    pub fn unseen(mut self) -> Self {
        self.counts = false;
        self
    }

    /// The question without its tags.
    pub(crate) fn parsed(&self) -> Asked {
        let text = self.text.trim();
        let (tags, rest) = match text.strip_prefix("tag:") {
            Some(tagged) => tagged
                .split_once(char::is_whitespace)
                .unwrap_or((tagged, "")),
            None => ("", text),
        };
        let tags = tags.split(',').map(|tag| tag.trim().to_lowercase());
        Asked {
            tags: tags.filter(|tag| !tag.is_empty()).collect(),
            terms: query_terms(rest),
            text: rest.trim().to_owned(),
        }
    }
}

/// A parsed query.
#[derive(Debug)]
pub(crate) struct Asked {
    tags: BTreeSet<String>,
    pub(crate) terms: BTreeSet<String>,
    pub(crate) text: String,
}

impl Asked {
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.text.is_empty()
    }

    fn admits(&self, query: &MemoryQuery, item: &MemoryItem, now: Timestamp) -> bool {
        let of_kind = match query.kinds.is_empty() {
            true => item.kind.is_found_unnamed(),
            false => query.kinds.contains(&item.kind),
        };
        let is_pending = matches!(&item.detail, Some(Detail::Episode(episode))
            if episode.status == EpisodeStatus::Pending);
        let tagged = self.tags.is_empty() || !self.tags.is_disjoint(&item.tags);
        of_kind
            && tagged
            && !item.disabled
            && !item.is_expired(now)
            && (query.pending || !is_pending)
    }

    fn like(&self, kept: &Kept, vector: Option<&[f32]>) -> Likeness {
        let tags = match self.tags.is_empty() {
            true => scoring::keyword_score(&self.terms, &kept.item.tags),
            false => scoring::keyword_score(&self.tags, &kept.item.tags),
        };
        Likeness {
            cosine: vector
                .zip(kept.vector.as_ref())
                .map(|(asked, own)| scoring::cosine(asked, own)),
            keyword: scoring::keyword_score(&self.terms, &kept.terms),
            tags,
        }
    }
}

fn score(item: &MemoryItem, like: Likeness, decay_hours: f64, now: Timestamp) -> f64 {
    let age = item.age_hours(now);
    let score = match item.kind {
        MemoryKind::Working => scoring::working_score(like, age, decay_hours, item.importance),
        MemoryKind::Episodic if matches!(item.detail, Some(Detail::Episode(_))) => {
            scoring::episode_score(like, age, item.importance)
        }
        MemoryKind::Episodic | MemoryKind::Conversation => {
            scoring::episodic_score(like, age, item.importance)
        }
        MemoryKind::Learning => {
            let rate = match &item.detail {
                Some(Detail::Learning(learning)) => learning.success_rate(),
                _ => 0.5,
            };
            like.relevance() * (0.5 + 0.5 * rate) * scoring::importance_factor(item.importance)
        }
        _ => scoring::semantic_score(like, item.importance),
    };
    score * item.boost
}

/// An item that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryHit {
    /// Its score, by the formula of its kind. Scores of different kinds can be compared only roughly.
    pub score: f64,
    /// The item.
    pub item: MemoryItem,
}
