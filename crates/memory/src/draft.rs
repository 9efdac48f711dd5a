//! A change of one scope of a memory, while it is being decided.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{EmbeddingSpace, Expected, StateWrite},
    run::{Changes, operations::ScopedState},
    vocabulary::{Digest, OperationError, OperationId, RunId, Timestamp},
};
use serde_json::{Value, value::to_raw_value};

use crate::{
    Detail, DuplicateCheck, MemoryItem, MemoryKind, Provenance,
    items::Name,
    view::{Head, Kept, Keys, Row, View, item_row, text_of, use_row, vector_row},
};

/// The limits of a scope's items, by their kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) working: usize,
    pub(crate) decay_hours: f64,
}

/// The input and the output of a decision. A change may be decided several times, so a draft has no effect outside.
pub(crate) struct Draft {
    base: Arc<View>,
    view: View,
    rows: BTreeMap<String, Option<Value>>,
    vectors: BTreeMap<String, Value>,
    pub(crate) now: Timestamp,
    pub(crate) bounds: Bounds,
    keys: Keys,
    /// The origin of the written items.
    pub(crate) source: Option<Provenance>,
    seed: String,
    made: u32,
    /// The rows of the ids that it made.
    fresh: BTreeSet<String>,
    marks: BTreeMap<String, u64>,
    same: Option<Arc<dyn DuplicateCheck>>,
}

impl Draft {
    pub(crate) fn new(base: Arc<View>, keys: Keys, now: Timestamp, bounds: Bounds) -> Self {
        Self {
            view: View::clone(&base),
            marks: base.head.marks.clone(),
            base,
            rows: BTreeMap::new(),
            vectors: BTreeMap::new(),
            now,
            bounds,
            keys,
            source: None,
            seed: String::new(),
            made: 0,
            fresh: BTreeSet::new(),
            same: None,
        }
    }

    /// Attributes the written items to this operation.
    pub(crate) fn by(mut self, run: RunId, operation: OperationId, agent: &str) -> Self {
        self.seed = format!("{run}/{operation}");
        self.source = Some(Provenance::new(run, operation, agent));
        self
    }

    /// Attributes the written items to a person or a program outside of any run.
    pub(crate) fn outside(mut self, seed: impl Into<String>) -> Self {
        self.seed = seed.into();
        self
    }

    /// Lets this check say which items are the same.
    pub(crate) fn compared_by(mut self, same: Option<Arc<dyn DuplicateCheck>>) -> Self {
        self.same = same;
        self
    }

    pub(crate) fn same(&self) -> Option<&dyn DuplicateCheck> {
        self.same.as_deref()
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.vectors.is_empty() && self.marks == self.base.head.marks
    }

    /// A number that outlasts the items that it is of; 0 if it was never set.
    pub(crate) fn mark(&self, name: &str) -> u64 {
        self.marks.get(name).copied().unwrap_or_default()
    }

    /// Sets such a number, unless it is higher.
    pub(crate) fn raise(&mut self, name: &str, to: u64) {
        let mark = self.marks.entry(name.to_owned()).or_default();
        *mark = to.max(*mark);
    }

    /// A unique id, which is the same when this write is decided again.
    pub(crate) fn fresh_id(&mut self) -> String {
        self.made += 1;
        let digest = Digest::of(format!("{}/{}", self.seed, self.made).as_bytes());
        let id = format!("mem-{}", &digest.to_string()[..32]);
        self.fresh.insert(self.keys.row(Row::Item, &id));
        id
    }

    /// A new item, not yet stored.
    pub(crate) fn item(&mut self, kind: MemoryKind, content: String) -> MemoryItem {
        MemoryItem {
            id: self.fresh_id(),
            kind,
            content,
            tags: Default::default(),
            importance: 0.5,
            pinned: false,
            created_at: self.now,
            updated_at: self.now,
            expires_at: None,
            source: self.source.clone(),
            detail: None,
            accessed_at: None,
            accesses: 0,
            disabled: false,
            boost: 1.0,
        }
    }

    /// Stores an item, or replaces the item with its id.
    pub(crate) fn put(&mut self, item: MemoryItem) {
        self.put_kept(Kept::new(item));
    }

    /// The same, with the terms of the item.
    pub(crate) fn put_kept(&mut self, mut kept: Kept) {
        if let Some(before) = self.view.kept.get(&kept.item.id) {
            kept.versions = before.versions;
            let same = text_of(&before.item) == text_of(&kept.item);
            kept.vector = before.vector.clone().filter(|_| same);
        }
        let id = kept.item.id.as_str();
        self.rows
            .insert(self.keys.row(Row::Item, id), Some(item_row(&kept.item)));
        if kept.item.accesses > 0 {
            self.rows
                .insert(self.keys.row(Row::Use, id), Some(use_row(&kept.item)));
        }
        self.view.kept.put(kept);
    }

    /// Stores the vector of an item beside it.
    pub(crate) fn put_vector(&mut self, id: &str, space: &EmbeddingSpace, vector: &[f32]) {
        self.view.kept.change(id, |kept| {
            let row = vector_row(space, &kept.item, vector);
            self.vectors.insert(self.keys.row(Row::Vector, id), row);
            kept.vector = Some(Arc::new(vector.to_vec()));
        });
    }

    /// Counts a use of an item.
    pub(crate) fn touch(&mut self, id: &str) {
        self.view.kept.change(id, |kept| {
            let item = &mut kept.item;
            item.accessed_at = Some(self.now);
            item.accesses = item.accesses.saturating_add(1);
            let row = use_row(item);
            self.rows.insert(self.keys.row(Row::Use, id), Some(row));
        });
    }

    /// Removes an item.
    pub(crate) fn remove(&mut self, id: &str) -> Option<MemoryItem> {
        let kept = self.view.kept.remove(id)?;
        if let Some(Detail::Learning(learning)) = &kept.item.detail
            && let Some((letter, number)) = learning.numbered()
        {
            self.raise(letter, number);
        }
        for row in [Row::Item, Row::Use, Row::Vector] {
            self.vectors.remove(&self.keys.row(row, id));
            self.rows.insert(self.keys.row(row, id), None);
        }
        Some(kept.item.clone())
    }

    /// Makes room for a stored item: the items least worth keeping are removed, pinned items stay.
    pub(crate) fn make_room(&mut self, id: &str) -> Vec<String> {
        match self.view.kept.get(id).cloned() {
            Some(probe) => self.fit(Some(&probe)),
            None => Vec::new(),
        }
    }

    /// Removes the items least worth keeping until the limits hold, and returns their ids. The item for which room is
    /// made stays, and working memories are compared with it.
    pub(crate) fn fit(&mut self, probe: Option<&Kept>) -> Vec<String> {
        let mut gone = Vec::new();
        let Bounds {
            all,
            working,
            decay_hours,
        } = self.bounds;
        let of_working = Name::Kind(MemoryKind::Working);
        for (working_only, most) in [(true, working), (false, all)] {
            let count = match (working_only, probe) {
                (false, _) => self.view.kept.len(),
                (true, Some(probe)) if probe.item.kind != MemoryKind::Working => continue,
                (true, _) => self.view.kept.count(&of_working),
            };
            if count > most {
                let (now, over) = (self.now, count - most);
                let worst = self.view.worst(working_only, over, probe, decay_hours, now);
                for id in worst {
                    self.remove(&id);
                    gone.push(id);
                }
            }
        }
        gone
    }

    /// The head after this change, and its row.
    pub(crate) fn head(&self) -> (Head, Value) {
        let version = self.base.head.version + 1;
        let head = Head {
            version,
            by: self.seed.clone(),
            marks: self.marks.clone(),
        };
        let value = head.value();
        (head, value)
    }

    /// The version of a row, if the view knows it.
    fn known_version(&self, key: &str) -> Option<u64> {
        let id = key.strip_prefix(self.keys.head())?.strip_prefix('/')?;
        let (id, of_use) = match id.split_once('#') {
            None => (id, false),
            Some((id, "use")) => (id, true),
            Some(_) => return None,
        };
        let kept = self.base.kept.get(id)?;
        let version = if of_use {
            kept.versions.1
        } else {
            kept.versions.0
        };
        (version > 0).then_some(version)
    }

    /// The changes to commit, and the scope's content after them.
    pub(crate) async fn changes(
        mut self,
        operation: OperationId,
        state: &ScopedState,
    ) -> Result<(Changes, View), OperationError> {
        let mut changes = Changes::none();
        let (head, value) = self.head();
        let before = self.base.head.version;
        changes.set(operation, state, self.keys.head(), (Some(value), before))?;
        for (key, value) in &self.rows {
            let before = match self.known_version(key) {
                Some(version) => version,
                // The id is derived from this operation, so nobody can have written the row before.
                None if self.fresh.contains(key) => 0,
                None => state.get(key).await?.version,
            };
            if value.is_none() && before == 0 {
                continue;
            }
            changes.set(operation, state, key.clone(), (value.clone(), before))?;
            self.view.written(&self.keys, key, before + 1);
        }
        // Vectors are derived from items, so no journal records them.
        for (key, value) in self.vectors {
            changes.writes.push(StateWrite {
                scope: state.stored_as().to_owned(),
                key,
                value: to_raw_value(&value).ok(),
                expected: Expected::Any,
            });
        }
        self.view.head = head;
        Ok((changes, self.view))
    }

    /// The writes of a change outside of runs. The head guards them: it identifies the write on which they are based.
    pub(crate) fn writes(&self, scope: &str) -> Vec<StateWrite> {
        let (_, value) = self.head();
        let write = |key: &str, value: Option<&Value>, expected: Expected| StateWrite {
            scope: scope.to_owned(),
            key: key.to_owned(),
            value: value.and_then(|value| to_raw_value(value).ok()),
            expected,
        };
        let before = Expected::Version(self.base.head.version);
        let head = write(self.keys.head(), Some(&value), before);
        let rows = self.rows.iter().filter(|(key, value)| {
            // A row that does not exist need not be deleted.
            value.is_some() || self.known_version(key).is_some() || key.ends_with("#vector")
        });
        let rows = rows.map(|(key, value)| write(key, value.as_ref(), Expected::Any));
        std::iter::once(head).chain(rows).collect()
    }
}

impl View {
    fn written(&mut self, keys: &Keys, key: &str, version: u64) {
        let Some(id) = key
            .strip_prefix(keys.head())
            .and_then(|id| id.strip_prefix('/'))
        else {
            return;
        };
        let (id, of_use) = match id.split_once('#') {
            Some((id, "use")) => (id, true),
            None => (id, false),
            Some(_) => return,
        };
        self.kept.change(id, |kept| {
            if of_use {
                kept.versions.1 = version;
            } else {
                kept.versions.0 = version;
            }
        });
    }
}
