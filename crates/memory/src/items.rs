//! The items of a scope, and the lists by which a change finds the few of them that concern it.

use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::vocabulary::{RunId, Timestamp};
use rpds::{RedBlackTreeMapSync as Map, RedBlackTreeSetSync as Set};

use crate::{Detail, MemoryItem, MemoryKind, editing::SAME, view::Kept};

/// An item's id, shared by all lists that name it.
type Id = Arc<str>;

/// The importance of an item, as the bits of the number, and how often it was used.
type Standing = (u64, u64);
/// When an item was last used and when it was made.
type Age = (Timestamp, Timestamp, Id);

/// A margin for the rounding of bounds that decide which items are compared.
const SLACK: f64 = 1e-9;

/// The items of one scope by their ids, with lists that tell which of them concern a change. A clone shares all of it with
/// its original, and a change copies a few nodes of each tree that it touches: so the work of a change does not grow with
/// the number of items, but for the logarithm of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Items {
    kept: Map<Id, Arc<Kept>>,
    named: Map<Name, Set<Id>>,
    /// The items that may be merged with new ones, by their kind and each of their words, with the number of their words.
    words: Map<(MemoryKind, String), Set<(usize, Id)>>,
    /// The items that may be forgotten to make room, by their standing; the one that was not used
    /// for longest comes first. Of two items in one list the first one is therefore never worth more than the second one.
    /// Working memories are in none: their worth depends on the item for which room is made.
    unused: Map<Standing, Set<Age>>,
}

/// By what a change looks for items.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// All of this kind.
    Kind(MemoryKind),
    /// Facts about this subject.
    Fact(String),
    /// The entity of this name.
    Entity(String),
    /// The relation between these two.
    Relation(String, String, String),
    /// Episodes and tasks of this run.
    Run(RunId),
    /// Episodes and tasks whose result was sent in this message.
    Message(String),
}

impl Name {
    pub(crate) fn fact(about: &str) -> Self {
        Self::Fact(about.to_lowercase())
    }

    pub(crate) fn entity(name: &str) -> Self {
        Self::Entity(name.to_lowercase())
    }

    pub(crate) fn relation(from: &str, relation: &str, to: &str) -> Self {
        let [from, relation, to] = [from, relation, to].map(str::to_lowercase);
        Self::Relation(from, relation, to)
    }

    fn of(item: &MemoryItem) -> Vec<Self> {
        let mut names = vec![Self::Kind(item.kind)];
        if item.kind == MemoryKind::Entity {
            names.push(Self::entity(&item.content));
        }
        match &item.detail {
            Some(Detail::Fact { about, .. }) => names.push(Self::fact(about)),
            Some(Detail::Relation { from, relation, to }) => {
                names.push(Self::relation(from, relation, to));
            }
            Some(Detail::Episode(_) | Detail::Task(_)) => {
                names.extend(item.source.as_ref().map(|source| Self::Run(source.run)));
            }
            Some(Detail::Learning(_)) | None => {}
        }
        let sent = match &item.detail {
            Some(Detail::Episode(episode)) => episode.sent.as_ref(),
            Some(Detail::Task(task)) => task.sent.as_ref(),
            _ => None,
        };
        names.extend(sent.map(|sent| Self::Message(sent.message.clone())));
        names
    }
}

/// The words of an item that may be merged with a new one in almost the same words. One without any word is found by its
/// whole content.
fn words(kept: &Kept) -> Vec<String> {
    let item = &kept.item;
    let is_event = matches!(item.kind, MemoryKind::Episodic | MemoryKind::Conversation);
    let is_mergeable = matches!(
        item.detail,
        None | Some(Detail::Task(_) | Detail::Learning(_))
    );
    match (!is_event && is_mergeable, kept.terms.is_empty()) {
        (false, _) => Vec::new(),
        (true, true) => vec![item.content.clone()],
        (true, false) => kept.terms.iter().cloned().collect(),
    }
}

/// The list of an item among those that may be forgotten, and its place there.
fn place(id: &Id, item: &MemoryItem) -> Option<(Standing, Age)> {
    let may_go = !item.pinned && item.kind != MemoryKind::Working;
    may_go.then(|| {
        let list = (item.importance.to_bits(), item.accesses);
        (list, (item.used_at(), item.created_at, id.clone()))
    })
}

fn enter<K: Ord + Clone, V: Ord + Clone>(lists: &mut Map<K, Set<V>>, list: K, value: V) {
    match lists.get_mut(&list) {
        Some(values) => values.insert_mut(value),
        None => {
            let mut values = Set::new_sync();
            values.insert_mut(value);
            lists.insert_mut(list, values);
        }
    }
}

fn leave<K: Ord + Clone, V: Ord + Clone>(lists: &mut Map<K, Set<V>>, list: &K, value: &V) {
    if let Some(values) = lists.get_mut(list) {
        values.remove_mut(value);
        if values.is_empty() {
            lists.remove_mut(list);
        }
    }
}

impl Items {
    pub(crate) fn len(&self) -> usize {
        self.kept.size()
    }

    /// All of them, by their ids.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Kept>> {
        self.kept.values().inspect(|_| tests_count())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Kept>> {
        tests_count();
        self.kept.get(id)
    }

    /// Those that have this name, by their ids.
    pub(crate) fn named<'s>(
        &'s self,
        name: &Name,
    ) -> impl Iterator<Item = &'s Arc<Kept>> + use<'s> {
        let ids = self.named.get(name).into_iter().flat_map(Set::iter);
        ids.filter_map(|id| self.get(id))
    }

    /// How many have this name.
    pub(crate) fn count(&self, name: &Name) -> usize {
        self.named.get(name).map_or(0, Set::size)
    }

    /// The items that may be in almost the same words as this one, by their ids: all of its kind whose terms have a
    /// Jaccard index of [`SAME`] or more with its terms, and few others.
    ///
    /// Of two such sets of `a` and `s` terms at least `n = SAME / (1 + SAME) · (a + s)` are the same. So a set that is like
    /// the new one has one of its `a − n + 1` rarest terms, and only the lists of those are read: the prefix filter of
    /// Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in Data Cleaning", 2006.
    pub(crate) fn in_like_words(&self, new: &Kept) -> impl Iterator<Item = &Arc<Kept>> {
        let lists = words(new).into_iter();
        let lists = lists.map(|word| self.words.get(&(new.item.kind, word)));
        let mut rarest: Vec<_> = lists.collect();
        rarest.sort_by_key(|list| list.map_or(0, Set::size));
        let all = rarest.len() as f64;
        let fewest = (all * SAME - SLACK).ceil();
        let mut found = BTreeMap::new();
        for (place, list) in rarest.into_iter().enumerate() {
            // Larger sets than this must share one of the terms before this one.
            let most = (all - place as f64) * (1.0 + SAME) / SAME - all + SLACK;
            if most < fewest {
                break;
            }
            let from = (fewest as usize, Id::from(""));
            let end = (most as usize + 1, Id::from(""));
            for (_, id) in list
                .into_iter()
                .flat_map(|list| list.range(from.clone()..end.clone()))
            {
                if let Some(kept) = self.get(id) {
                    found.insert(id, kept);
                }
            }
        }
        found.into_values()
    }

    /// The items among which the `count` are that are least worth keeping: of each importance and number of uses as many
    /// as that, those that were not used for longest. Pinned items, working memories and this one are left out.
    pub(crate) fn longest_unused(
        &self,
        count: usize,
        except: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Kept>> {
        self.unused.values().flat_map(move |list| {
            let ids = list.iter().map(|(.., id)| id);
            let ids = ids.filter(move |id| Some(&***id) != except).take(count);
            ids.filter_map(|id| self.get(id))
        })
    }

    /// Stores an item, instead of the one with its id.
    pub(crate) fn put(&mut self, kept: Kept) {
        let id = Id::from(kept.item.id.as_str());
        self.remove(&id);
        for name in Name::of(&kept.item) {
            enter(&mut self.named, name, id.clone());
        }
        let words = words(&kept);
        let size = words.len();
        for word in words {
            enter(&mut self.words, (kept.item.kind, word), (size, id.clone()));
        }
        if let Some((list, place)) = place(&id, &kept.item) {
            enter(&mut self.unused, list, place);
        }
        self.kept.insert_mut(id, Arc::new(kept));
    }

    /// Changes when and how often an item was used, its vector, or the versions of its rows.
    pub(crate) fn change(&mut self, id: &str, change: impl FnOnce(&mut Kept)) {
        let Some((id, before)) = self.kept.get_key_value(id) else {
            return;
        };
        let (id, mut kept) = (id.clone(), before.clone());
        let before = place(&id, &kept.item);
        change(Arc::make_mut(&mut kept));
        let after = place(&id, &kept.item);
        if before != after {
            if let Some((list, place)) = before {
                leave(&mut self.unused, &list, &place);
            }
            if let Some((list, place)) = after {
                enter(&mut self.unused, list, place);
            }
        }
        self.kept.insert_mut(id, kept);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Arc<Kept>> {
        let (id, kept) = self.kept.get_key_value(id)?;
        let (id, kept) = (id.clone(), kept.clone());
        for name in Name::of(&kept.item) {
            leave(&mut self.named, &name, &id);
        }
        let words = words(&kept);
        let size = words.len();
        for word in words {
            leave(
                &mut self.words,
                &(kept.item.kind, word),
                &(size, id.clone()),
            );
        }
        if let Some((list, place)) = place(&id, &kept.item) {
            leave(&mut self.unused, &list, &place);
        }
        self.kept.remove_mut(&*id);
        Some(kept)
    }
}

/// Counts an item that is read, for tests.
#[inline]
fn tests_count() {
    #[cfg(test)]
    tests::READ.set(tests::READ.get() + 1);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ghostlight_actors::vocabulary::{OperationId, RunId};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        LearningCategory, NewMemory, TaskRecord, Triple, WriteDecision,
        draft::{Bounds, Draft},
        editing, episode, graph, learning,
        scoring::{self, jaccard},
        task,
        view::{Keys, View},
    };

    thread_local! {
        /// How many items were read in this thread.
        pub(super) static READ: Cell<usize> = const { Cell::new(0) };
    }

    fn draft(view: &Arc<View>, all: usize, now: u64) -> Draft {
        let (working, decay_hours) = (50, 24.0);
        let bounds = Bounds {
            all,
            working,
            decay_hours,
        };
        Draft::new(view.clone(), Keys::new("memory"), Timestamp(now), bounds)
    }

    fn kept() -> WriteDecision {
        WriteDecision::store(0.5, "a test")
    }

    fn run() -> RunId {
        RunId::from_random(7)
    }

    /// So many facts, a tenth as many tasks, relations and facts with a subject, and 50 working memories.
    fn filled(count: usize) -> Arc<View> {
        let mut draft = draft(&Arc::default(), usize::MAX, 0).outside("fill");
        for number in 0..count {
            draft.now = Timestamp(number as u64);
            let text = format!("lamp{number} hangs in room{number} of floor{}", number % 97);
            let mut item = draft.item(MemoryKind::Semantic, text);
            item.importance = (number % 7) as f64 / 10.0;
            item.accesses = (number % 5) as u64;
            draft.put(item);
            if number % 10 == 0 {
                let new = NewMemory::fact("in the hall").about(format!("lamp{number}"));
                editing::add(&mut draft, &new, None).unwrap();
                let record = TaskRecord::new("looked and counted", "there are some of them", true);
                let task = format!("count the lamps of room{number}");
                task::keep(&mut draft, &task, record, kept(), None);
                let room = format!("room{number}");
                graph::relate(&mut draft, &Triple::new(room, "is in", "the house"));
            }
        }
        for number in 0..50 {
            let new = NewMemory::of(MemoryKind::Working, format!("guest{number} waits"));
            editing::add(&mut draft, &new, None).unwrap();
        }
        Arc::new(draft.view().clone())
    }

    /// How many items a change reads, and how many rows it writes, in a full scope.
    fn work(view: &Arc<View>, change: impl Fn(&mut Draft)) -> (usize, usize) {
        let draft = draft(view, view.kept.len(), 40 * 3_600_000);
        let mut draft = draft.by(run(), OperationId::default(), "desk");
        READ.set(0);
        change(&mut draft);
        (READ.get(), draft.writes("s").len())
    }

    #[test]
    fn a_change_among_ten_thousand_items_reads_and_writes_as_little_as_among_a_few() {
        let add = |new: NewMemory| {
            move |draft: &mut Draft| {
                let (item, _) = editing::add(draft, &new, None).unwrap();
                draft.make_room(&item.id);
            }
        };
        let new = add(NewMemory::fact("a new chair stands in the kitchen"));
        let same = add(NewMemory::fact("lamp77 hangs in room77 of floor77"));
        let about = add(NewMemory::fact("in the cellar").about("Lamp20"));
        let working = add(NewMemory::of(MemoryKind::Working, "another guest waits"));
        let task = |draft: &mut Draft| {
            let record = TaskRecord::new("looked and counted", "there are some of them", true);
            assert!(
                task::keep(draft, "count the chairs", record, kept(), None)
                    .item
                    .is_some()
            );
        };
        let learnt = |draft: &mut Draft| {
            learning::keep(draft, LearningCategory::Strategies, "count twice").unwrap();
        };
        let related = |draft: &mut Draft| {
            graph::relate(draft, &Triple::new("room20", "is above", "the cellar"));
        };
        let sent = |draft: &mut Draft| {
            let time = std::time::Duration::from_secs(60);
            assert_eq!(episode::sent(draft, run(), "m1", "ada", time), 0);
        };
        let id = |view: &Arc<View>| view.items().next().unwrap().id.clone();
        let (few, many) = (filled(200), filled(10_000));
        let touch = |view: &Arc<View>| {
            let id = id(view);
            work(view, move |draft| draft.touch(&id))
        };
        type Change<'c> = (&'c str, &'c dyn Fn(&Arc<View>) -> (usize, usize));
        let all: [Change<'_>; 9] = [
            ("new", &|view| work(view, &new)),
            ("same", &|view| work(view, &same)),
            ("about", &|view| work(view, &about)),
            ("working", &|view| work(view, &working)),
            ("task", &|view| work(view, task)),
            ("learnt", &|view| work(view, learnt)),
            ("related", &|view| work(view, related)),
            ("sent", &|view| work(view, sent)),
            ("touch", &touch),
        ];
        for (name, change) in all {
            let ((read_few, rows_few), (read, rows)) = (change(&few), change(&many));
            assert!(
                read <= read_few + 2 && read < 200,
                "{name}: {read_few}, {read} items read"
            );
            assert!(
                rows == rows_few && rows < 12,
                "{name}: {rows_few}, {rows} rows written"
            );
        }
    }

    #[test]
    fn ten_thousand_items_are_consolidated_by_reading_each_a_few_times() {
        let mut base = draft(&Arc::default(), usize::MAX, 0).outside("fill");
        for number in 0..10_000 {
            let mut item = base.item(MemoryKind::Working, format!("guest{number} waits"));
            item.importance = 0.9;
            base.put(item);
        }
        let view = Arc::new(base.view().clone());
        let (read, rows) = work(&view, |draft| {
            let moved = editing::consolidate(draft, 0.7, std::time::Duration::ZERO);
            assert_eq!(moved.len(), 10_000);
        });
        assert!(read <= 40_000, "{read} items read");
        assert_eq!(rows, 10_001);
    }

    /// Items of few words, so that many are alike, with all that decides what they are worth.
    fn items() -> impl Strategy<Value = Vec<MemoryItem>> {
        let text = prop::collection::vec(0..14_u32, 0..16);
        let worth = (
            0..4_u32,
            0..3_u64,
            0..200_u64,
            0..200_u64,
            prop::bool::weighted(0.1),
        );
        let kind = prop::sample::select(vec![
            MemoryKind::Semantic,
            MemoryKind::Semantic,
            MemoryKind::Working,
            MemoryKind::Episodic,
        ]);
        prop::collection::vec((text, worth, kind), 1..40).prop_map(|all| {
            let mut draft = draft(&Arc::default(), usize::MAX, 0).outside("fill");
            let made = all.into_iter().map(|(text, worth, kind)| {
                let words: Vec<String> = text.iter().map(|word| format!("w{word}")).collect();
                let content = match words.is_empty() {
                    true => "🙂".to_owned(),
                    false => words.join(" "),
                };
                let mut item = draft.item(kind, content);
                let (importance, accesses, created, later, pinned) = worth;
                item.importance = f64::from(importance) / 3.0;
                item.accesses = accesses;
                item.pinned = pinned;
                item.created_at = Timestamp(created * 3_600_000);
                item.updated_at = Timestamp((created + later) * 3_600_000);
                item
            });
            made.collect()
        })
    }

    proptest! {
        #[test]
        fn every_item_in_like_words_is_found_and_what_goes_first_is_what_a_full_comparison_says(
            items in items(),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            used in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            count in 1..6_usize,
        ) {
            let mut view = View::default();
            for item in &items {
                view.kept.put(Kept::new(item.clone()));
            }
            let before = view.clone();
            for index in &used {
                view.kept.change(&index.get(&items).id, |kept| {
                    kept.item.accesses += 1;
                    kept.item.accessed_at = Some(Timestamp(300 * 3_600_000));
                });
            }
            for index in &removed {
                view.kept.remove(&index.get(&items).id);
            }
            prop_assert_eq!(before.kept.len(), items.len(), "a clone stays as it was");
            let now = Timestamp(400 * 3_600_000);
            for item in &items {
                let new = Kept::new(item.clone());
                let found: Vec<&str> =
                    view.kept.in_like_words(&new).map(|kept| kept.item.id.as_str()).collect();
                let is_like = |kept: &&Arc<Kept>| {
                    let same = kept.item.content == item.content;
                    let like = same || jaccard(&kept.terms, &new.terms) >= SAME;
                    kept.item.kind == item.kind && item.kind != MemoryKind::Episodic && like
                };
                for kept in view.kept.values().filter(is_like) {
                    prop_assert!(found.contains(&kept.item.id.as_str()), "{}", kept.item.content);
                }
            }
            let mut rated: Vec<(f64, &MemoryItem)> = view
                .items()
                .filter(|item| !item.pinned)
                .map(|item| {
                    let hours = now.since(item.used_at()).as_secs_f64() / 3600.0;
                    (scoring::retention(hours, item.importance, item.accesses), item)
                })
                .collect();
            rated.sort_by(|(a, one), (b, other)| {
                let age = |item: &MemoryItem| (item.used_at(), item.created_at, item.id.clone());
                let order = a.total_cmp(b).then(one.importance.total_cmp(&other.importance));
                order.then(age(one).cmp(&age(other)))
            });
            let expected: Vec<&str> = rated.iter().take(count).map(|(_, item)| &*item.id).collect();
            let worst = view.worst(false, count, None, 24.0, now);
            prop_assert_eq!(worst, expected);
        }
    }
}
