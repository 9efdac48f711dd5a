//! Adding, reading, changing, moving and forgetting items of one scope.

use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};

use ghostlight_actors::{
    run::Performing,
    vocabulary::{ErrorKind, OperationError, Timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{
    Detail, MemoryItem, MemoryKind, MemoryOperation, MemoryPatch, NewMemory, ScopedMemory,
    draft::Draft,
    item::{MAX_CONTENT, MAX_TAG, boosted, clean, clean_line, clean_tags, earlier, share},
    items::Name,
    memory::later,
    scoring,
    view::{Kept, View},
};

/// The likeness of their terms from which two items count as the same.
pub const SAME: f64 = 0.85;
/// The cosine from which two items with vectors count as the same.
pub const SAME_COSINE: f64 = 0.97;

/// The result of adding an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Added {
    /// The item, as it is now.
    pub item: MemoryItem,
    /// Whether it was merged with an item, or replaced one.
    pub merged: bool,
    /// The items that were removed to make room for it.
    pub forgotten: Vec<String>,
}

/// Statistics of a scope of a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// How many items there are.
    pub items: usize,
    /// How many items there are of each kind.
    pub kinds: BTreeMap<MemoryKind, usize>,
    /// How many items are pinned.
    pub pinned: usize,
    /// The characters of all contents.
    pub characters: usize,
    /// The mean importance; 0 without items.
    pub importance: f64,
}

/// The items to forget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Forget {
    /// Items that are less important than this, 0 to 1.
    Importance {
        /// The bound.
        below: f64,
    },
    /// Items that were written longer ago than this.
    Age {
        /// In hours.
        older_than_hours: f64,
    },
    /// All but the most important items.
    Capacity {
        /// How many items stay.
        keep: usize,
    },
    /// Items that were not used in the last day, and whose remaining strength on the forgetting curve
    /// (its retention) is below this bound; 0.3 is usual.
    Unused {
        /// The bound, 0 to 1.
        below: f64,
    },
    /// Items that have expired.
    Expired,
}

impl Forget {
    /// The matching items, in order. Pinned items never match.
    pub(crate) fn takes<'v>(
        &self,
        items: impl Iterator<Item = &'v MemoryItem>,
        now: Timestamp,
    ) -> Vec<&'v MemoryItem> {
        let mut free: Vec<&MemoryItem> = items.filter(|item| !item.pinned).collect();
        match *self {
            Self::Importance { below } => free.retain(|item| item.importance < below),
            Self::Age { older_than_hours } => {
                free.retain(|item| item.age_hours(now) > older_than_hours)
            }
            Self::Expired => free.retain(|item| item.is_expired(now)),
            Self::Unused { below } => free.retain(|item| {
                let hours = now.since(item.used_at()).as_secs_f64() / 3600.0;
                hours > 24.0 && scoring::retention(hours, item.importance, item.accesses) < below
            }),
            Self::Capacity { keep } => {
                // The most important first; of equals the later one.
                free.sort_by(|a, b| {
                    let order = b.importance.total_cmp(&a.importance);
                    order.then((b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)))
                });
                free.drain(..keep.min(free.len()));
                free.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
            }
        }
        free
    }
}

/// A request to forget items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Forgetting {
    /// The items to forget.
    pub what: Forget,
    /// Their kinds; all when empty.
    pub kinds: BTreeSet<MemoryKind>,
    /// Whether to only report the items.
    pub dry_run: bool,
}

impl From<Forget> for Forgetting {
    fn from(what: Forget) -> Self {
        let (kinds, dry_run) = (BTreeSet::new(), false);
        Self {
            what,
            kinds,
            dry_run,
        }
    }
}

impl Forgetting {
    /// Forgets only items of this kind; further calls add kinds.
    #[must_use]
    pub fn kind(mut self, kind: MemoryKind) -> Self {
        self.kinds.insert(kind);
        self
    }

    /// Only reports the items that would be forgotten.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub(crate) fn decide(&self, draft: &mut Draft) -> Vec<MemoryItem> {
        let of_kind = |item: &&MemoryItem| self.kinds.is_empty() || self.kinds.contains(&item.kind);
        let taken = self
            .what
            .takes(draft.view().items().filter(of_kind), draft.now);
        let taken: Vec<MemoryItem> = taken.into_iter().cloned().collect();
        if !self.dry_run {
            for item in &taken {
                draft.remove(&item.id);
            }
        }
        taken
    }
}

pub(crate) fn not_found(id: &str) -> OperationError {
    let message = format!("there is no memory {id:?} here; search for it, or list what there is");
    OperationError::new(ErrorKind::NotFound, message)
}

/// Stores a new item, or merges it with the item that says the same.
pub(crate) fn add(
    draft: &mut Draft,
    new: &NewMemory,
    vector: Option<&[f32]>,
) -> Result<(MemoryItem, bool), OperationError> {
    let content = clean(&new.content, MAX_CONTENT);
    if content.is_empty() {
        let message = "there is nothing to remember: the content is empty";
        return Err(OperationError::new(ErrorKind::InvalidInput, message));
    }
    let about = new.about.as_deref().map(|about| clean_line(about, MAX_TAG));
    let about = about.filter(|about| !about.is_empty());
    let mut item = draft.item(new.kind, content);
    item.tags = clean_tags(&new.tags);
    item.importance = share(new.importance.unwrap_or(0.5), 0.5);
    item.pinned = new.pinned;
    item.expires_at = new.expires_in_s.map(|seconds| later(draft.now, seconds));
    if let Some(about) = &about {
        let (about, earlier) = (about.clone(), Vec::new());
        item.detail = Some(Detail::Fact { about, earlier });
    }
    let kept = Kept::new(item);
    let found = match &about {
        Some(about) => about_the_same(draft.view(), new.kind, about),
        None => saying_the_same(draft, &kept, vector),
    };
    let Some(before) = found else {
        let item = kept.item.clone();
        draft.put_kept(kept);
        return Ok((item, false));
    };
    let merged = merge(before, kept.item);
    draft.put(merged.clone());
    Ok((merged, true))
}

/// The item of this kind about the same subject, if there is one. A fact does not change what happened.
fn about_the_same(view: &View, kind: MemoryKind, about: &str) -> Option<MemoryItem> {
    let mut items = view.named(&Name::fact(about));
    items.find(|item| item.kind == kind).cloned()
}

/// The item that says the same, if there is one. Events never count as the same.
fn saying_the_same(draft: &Draft, new: &Kept, vector: Option<&[f32]>) -> Option<MemoryItem> {
    let is_event = matches!(
        new.item.kind,
        MemoryKind::Episodic | MemoryKind::Conversation
    );
    match is_event {
        true => None,
        false => draft.view().saying_the_same(new, vector, draft.same()),
    }
}

/// An item merged with a new one.
fn merge(before: MemoryItem, new: MemoryItem) -> MemoryItem {
    let mut merged = before.clone();
    if let Some(Detail::Fact {
        about,
        earlier: past,
    }) = before.detail
        && before.content != new.content
    {
        let earlier = earlier(&before.content, past);
        merged.detail = Some(Detail::Fact { about, earlier });
    }
    merged.content = new.content;
    merged.tags.extend(new.tags);
    merged.tags = clean_tags(&merged.tags);
    merged.importance = before.importance.max(new.importance);
    merged.pinned |= new.pinned;
    merged.updated_at = new.updated_at;
    merged.expires_at = new.expires_at;
    merged.source = new.source;
    merged
}

pub(crate) fn patch(
    mut item: MemoryItem,
    patch: &MemoryPatch,
    now: Timestamp,
) -> Result<MemoryItem, OperationError> {
    if let Some(content) = &patch.content {
        let content = clean(content, MAX_CONTENT);
        if content.is_empty() {
            let message = "the new content is empty; remove the memory instead";
            return Err(OperationError::new(ErrorKind::InvalidInput, message));
        }
        if let Some(Detail::Fact { earlier: past, .. }) = &mut item.detail
            && item.content != content
        {
            *past = earlier(&item.content, std::mem::take(past));
        }
        item.content = content;
        item.updated_at = now;
    }
    if let Some(tags) = &patch.tags {
        item.tags = clean_tags(tags);
    }
    if let Some(importance) = patch.importance {
        item.importance = share(importance, item.importance);
    }
    item.pinned = patch.pinned.unwrap_or(item.pinned);
    item.disabled = patch.disabled.unwrap_or(item.disabled);
    if let Some(boost) = patch.boost {
        item.boost = boosted(boost);
    }
    Ok(item)
}

/// Moves working memories that are important and old enough to episodic memory.
pub(crate) fn consolidate(draft: &mut Draft, threshold: f64, min_age: Duration) -> Vec<String> {
    let min_hours = min_age.as_secs_f64() / 3600.0;
    let now = draft.now;
    let matters = |item: &&MemoryItem| {
        item.importance >= threshold
            && now.since(item.created_at).as_secs_f64() / 3600.0 >= min_hours
    };
    let working = draft.view().named(&Name::Kind(MemoryKind::Working));
    let moved: Vec<MemoryItem> = working.filter(matters).cloned().collect();
    for mut item in moved.iter().cloned() {
        item.kind = MemoryKind::Episodic;
        draft.put(item);
    }
    moved.into_iter().map(|item| item.id).collect()
}

pub(crate) fn stats<'v>(items: impl Iterator<Item = &'v MemoryItem>) -> MemoryStats {
    let mut stats = MemoryStats::default();
    for item in items {
        stats.items += 1;
        *stats.kinds.entry(item.kind).or_default() += 1;
        stats.pinned += usize::from(item.pinned);
        stats.characters += item.content.chars().count();
        stats.importance += item.importance;
    }
    stats.importance /= stats.items.max(1) as f64;
    stats
}

impl ScopedMemory<'_> {
    /// Adds an item. A fact replaces the earlier one about the same subject; an item in almost the same words is
    /// updated; beyond the limits the item least worth keeping is forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty content.
    pub fn add(&self, new: NewMemory) -> Performing<MemoryOperation<Added>> {
        let memory = self.memory.clone();
        let text = || {
            let text = clean(&new.content, MAX_CONTENT);
            match &new.about {
                Some(about) => format!("{}: {text}", clean_line(about, MAX_TAG)),
                None => text,
            }
        };
        let texts = memory.space().map(|_| text()).into_iter().collect();
        self.perform("memory_add", &new.clone(), texts, move |draft, vectors| {
            let vector = vectors.first();
            let found = vector.and_then(Option::as_ref).map(Vec::as_slice);
            let (item, merged) = add(draft, &new, found)?;
            memory.put_vector(draft, &item.id, vector);
            let forgotten = draft.make_room(&item.id);
            Ok(Added {
                item,
                merged,
                forgotten,
            })
        })
    }

    /// The item with this id. Reading it counts as a use.
    pub fn get(&self, id: impl Into<String>) -> Performing<MemoryOperation<Option<MemoryItem>>> {
        let id = id.into();
        self.perform("memory_get", &id.clone(), Vec::new(), move |draft, _| {
            draft.touch(&id);
            Ok(draft.view().get(&id).cloned())
        })
    }

    /// Counts a use of these items.
    pub fn used(&self, ids: Vec<String>) -> Performing<MemoryOperation<()>> {
        self.perform("memory_use", &ids.clone(), Vec::new(), move |draft, _| {
            ids.iter().for_each(|id| draft.touch(id));
            Ok(())
        })
    }

    /// Whether there is an item with this id. The check does not count as a use.
    pub fn holds(&self, id: &str) -> Performing<MemoryOperation<bool>> {
        let id = id.to_owned();
        self.perform("memory_holds", &id.clone(), Vec::new(), move |draft, _| {
            Ok(draft.view().get(&id).is_some())
        })
    }

    /// All items of these kinds (of all kinds, if none is named), sorted by id. Listing does not count as a use.
    pub fn list(
        &self,
        kinds: impl IntoIterator<Item = MemoryKind>,
    ) -> Performing<MemoryOperation<Vec<MemoryItem>>> {
        let kinds: BTreeSet<MemoryKind> = kinds.into_iter().collect();
        self.perform(
            "memory_list",
            &kinds.clone(),
            Vec::new(),
            move |draft, _| {
                let of_kind = |item: &&MemoryItem| kinds.is_empty() || kinds.contains(&item.kind);
                Ok(draft.view().items().filter(of_kind).cloned().collect())
            },
        )
    }

    /// Changes an item.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and [`ErrorKind::InvalidInput`] for an empty content.
    pub fn update(
        &self,
        id: impl Into<String>,
        change: MemoryPatch,
    ) -> Performing<MemoryOperation<MemoryItem>> {
        let (id, memory) = (id.into(), self.memory.clone());
        let texts: Vec<String> = change
            .content
            .iter()
            .map(|text| clean(text, MAX_CONTENT))
            .collect();
        self.perform(
            "memory_update",
            &(&id.clone(), &change.clone()),
            texts,
            move |draft, vectors| {
                let item = draft
                    .view()
                    .get(&id)
                    .cloned()
                    .ok_or_else(|| not_found(&id))?;
                let plain = item.detail.is_none();
                let item = patch(item, &change, draft.now)?;
                draft.put(item.clone());
                // An item with a detail is found by more than its content; a later search makes its vector.
                if plain {
                    memory.put_vector(draft, &id, vectors.first());
                }
                draft.touch(&id);
                draft.view().get(&id).cloned().ok_or_else(|| not_found(&id))
            },
        )
    }

    /// Forgets one item, even a pinned one; `false` if it did not exist.
    pub fn remove(&self, id: impl Into<String>) -> Performing<MemoryOperation<bool>> {
        let id = id.into();
        self.perform("memory_remove", &id.clone(), Vec::new(), move |draft, _| {
            Ok(draft.remove(&id).is_some())
        })
    }

    /// Statistics of the scope.
    pub fn stats(&self) -> Performing<MemoryOperation<MemoryStats>> {
        self.perform("memory_stats", &(), Vec::new(), |draft, _| {
            Ok(stats(draft.view().items()))
        })
    }

    /// Moves working memories of at least this importance and age to episodic memory, and returns their ids. A second
    /// call moves nothing.
    pub fn consolidate(
        &self,
        threshold: f64,
        min_age: Duration,
    ) -> Performing<MemoryOperation<Vec<String>>> {
        let input = (threshold.to_bits(), min_age.as_millis() as u64);
        self.perform("memory_consolidate", &input, Vec::new(), move |draft, _| {
            Ok(consolidate(draft, threshold, min_age))
        })
    }

    /// Forgets items, or reports those that would be forgotten. Pinned items stay.
    pub fn forget(
        &self,
        what: impl Into<Forgetting>,
    ) -> Performing<MemoryOperation<Vec<MemoryItem>>> {
        let what = what.into();
        self.perform(
            "memory_forget",
            &what.clone(),
            Vec::new(),
            move |draft, _| Ok(what.decide(draft)),
        )
    }
}
