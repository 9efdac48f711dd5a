//! The knowledge graph: entities, and relations between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ghostlight_actors::{
    run::Performing,
    vocabulary::{ErrorKind, OperationError},
};
use serde::{Deserialize, Serialize};

use crate::{
    Detail, Memory, MemoryItem, MemoryKind, MemoryOperation, ScopedMemory,
    draft::Draft,
    item::{clean_line, clean_tags},
    items::Name,
    scoring,
    view::View,
};

/// How many characters of an entity's name or a relation are kept.
const NAME: usize = 120;
/// The greatest depth of a walk.
const DEPTH: u32 = 6;
/// The cosine from which an entity can be meant by a name that none has.
const NEAR: f64 = 0.6;
/// The most relations that a walk finds.
const FOUND: usize = 200;

/// A relation between two entities.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Triple {
    /// The entity that it begins at.
    pub from: String,
    /// The relation's name.
    pub relation: String,
    /// The entity that it leads to.
    pub to: String,
}

impl Triple {
    /// The relation with this name between these entities.
    pub fn new(
        from: impl Into<String>,
        relation: impl Into<String>,
        to: impl Into<String>,
    ) -> Self {
        let (from, relation, to) = (from.into(), relation.into(), to.into());
        Self { from, relation, to }
    }

    fn clean(&self) -> Result<Self, OperationError> {
        let clean = |text: &str| {
            let text = clean_line(text, NAME);
            let message = "a relation needs the entity that it begins at, what it says, and the one that \
                           it leads to";
            match text.is_empty() {
                true => Err(OperationError::new(ErrorKind::InvalidInput, message)),
                false => Ok(text),
            }
        };
        let Self { from, relation, to } = self;
        Ok(Self::new(clean(from)?, clean(relation)?, clean(to)?))
    }
}

/// A relation that a walk found, with its distance from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// The distance: 1 for a relation of the start itself.
    pub depth: u32,
    /// The relation.
    pub triple: Triple,
}

fn triple_of(item: &MemoryItem) -> Option<Triple> {
    match &item.detail {
        Some(Detail::Relation { from, relation, to }) => {
            Some(Triple::new(from.as_str(), relation.as_str(), to.as_str()))
        }
        _ => None,
    }
}

fn entity<'v>(view: &'v View, name: &str) -> Option<&'v MemoryItem> {
    view.named(&Name::entity(name)).next()
}

/// The stored name of an entity, which is created if it is unknown.
fn known(draft: &mut Draft, name: &str, tag: Option<&str>) -> String {
    let tags: BTreeSet<String> = tag.map(str::to_owned).into_iter().collect();
    if let Some(mut item) = entity(draft.view(), name).cloned() {
        let before = item.tags.len();
        item.tags.extend(clean_tags(&tags));
        item.tags = clean_tags(&item.tags);
        let name = item.content.clone();
        if item.tags.len() > before {
            draft.put(item);
        }
        return name;
    }
    let mut item = draft.item(MemoryKind::Entity, name.to_owned());
    item.tags = clean_tags(&tags);
    draft.put(item);
    name.to_owned()
}

pub(crate) fn relate(draft: &mut Draft, triple: &Triple) -> (MemoryItem, bool) {
    let from = known(draft, &triple.from, None);
    let to = known(draft, &triple.to, None);
    let name = Name::relation(&from, &triple.relation, &to);
    let there = draft.view().named(&name).next().cloned();
    if let Some(item) = there {
        return (item, true);
    }
    let relation = triple.relation.clone();
    let content = format!("{from} {relation} {to}");
    let mut item = draft.item(MemoryKind::Relation, content);
    item.detail = Some(Detail::Relation { from, relation, to });
    draft.put(item.clone());
    draft.make_room(&item.id);
    (item, false)
}

/// The name of the entity that is meant: the one of this name or, if there is none, the one whose vector is nearest to
/// this one.
fn meant(view: &View, name: &str, vector: Option<&[f32]>) -> String {
    if entity(view, name).is_some() {
        return name.to_owned();
    }
    let entities = view.kept.named(&Name::Kind(MemoryKind::Entity));
    let near = entities.filter_map(|kept| {
        let cosine = scoring::cosine(vector?, kept.vector.as_ref()?);
        (cosine >= NEAR).then_some((cosine, &kept.item))
    });
    let nearest = near.max_by(|(a, one), (b, other)| a.total_cmp(b).then(other.id.cmp(&one.id)));
    nearest.map_or_else(|| name.to_owned(), |(_, item)| item.content.clone())
}

/// The relations from or to an entity, and from there on, the nearest first.
fn walk(view: &View, start: &str, depth: u32) -> Vec<Found> {
    let mut edges: BTreeMap<String, Vec<Triple>> = BTreeMap::new();
    let relations = view.named(&Name::Kind(MemoryKind::Relation));
    let mut triples: Vec<Triple> = relations.filter_map(triple_of).collect();
    triples.sort();
    for triple in triples {
        for end in BTreeSet::from([triple.from.to_lowercase(), triple.to.to_lowercase()]) {
            edges.entry(end).or_default().push(triple.clone());
        }
    }
    let start = start.to_lowercase();
    let (mut seen, mut told) = (BTreeSet::from([start.clone()]), BTreeSet::new());
    let (mut open, mut found) = (VecDeque::from([(start, 1)]), Vec::new());
    while let Some((at, level)) = open.pop_front() {
        if level > depth.min(DEPTH) {
            break;
        }
        for triple in edges.get(&at).into_iter().flatten() {
            if !told.insert(triple.clone()) {
                continue;
            }
            if found.len() == FOUND {
                return found;
            }
            let triple = triple.clone();
            for end in [triple.from.to_lowercase(), triple.to.to_lowercase()] {
                if seen.insert(end.clone()) {
                    open.push_back((end, level + 1));
                }
            }
            found.push(Found {
                depth: level,
                triple,
            });
        }
    }
    found
}

/// Stores the vector of an entity that has none.
fn put_entity_vector(
    memory: &Memory,
    draft: &mut Draft,
    name: &str,
    vector: Option<&Option<Vec<f32>>>,
) {
    let found = entity(draft.view(), name).map(|item| item.id.clone());
    let bare = found.filter(|id| {
        let kept = draft.view().kept.get(id);
        kept.is_some_and(|kept| kept.vector.is_none())
    });
    if let Some(id) = bare {
        memory.put_vector(draft, &id, vector);
    }
}

impl ScopedMemory<'_> {
    /// Adds an entity to the knowledge graph, or a type to a known one; returns the entity's stored name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty name.
    pub fn add_entity(
        &self,
        name: impl Into<String>,
        of_type: Option<String>,
    ) -> Performing<MemoryOperation<String>> {
        let name = clean_line(&name.into(), NAME);
        let input = (&name.clone(), &of_type.clone());
        let memory = self.memory.clone();
        let texts = memory.space().map(|_| name.clone());
        self.perform(
            "memory_add_entity",
            &input,
            texts.into_iter().collect(),
            move |draft, vectors| {
                if name.is_empty() {
                    let message = "an entity needs a name";
                    return Err(OperationError::new(ErrorKind::InvalidInput, message));
                }
                let name = known(draft, &name, of_type.as_deref());
                put_entity_vector(&memory, draft, &name, vectors.first());
                Ok(name)
            },
        )
    }

    /// Adds a relation to the knowledge graph, with its entities if they are unknown; a known relation is not added
    /// again.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if a part is empty.
    pub fn relate(&self, triple: Triple) -> Performing<MemoryOperation<MemoryItem>> {
        let memory = self.memory.clone();
        let texts = match memory.space() {
            Some(_) => vec![clean_line(&triple.from, NAME), clean_line(&triple.to, NAME)],
            None => Vec::new(),
        };
        self.perform(
            "memory_relate",
            &triple.clone(),
            texts,
            move |draft, vectors| {
                let clean = triple.clean()?;
                let item = relate(draft, &clean).0;
                for (name, vector) in [&clean.from, &clean.to].into_iter().zip(vectors) {
                    put_entity_vector(&memory, draft, name, Some(vector));
                }
                Ok(item)
            },
        )
    }

    /// Removes a relation from the knowledge graph; `false` if it did not exist.
    pub fn unrelate(&self, triple: Triple) -> Performing<MemoryOperation<bool>> {
        self.perform(
            "memory_unrelate",
            &triple.clone(),
            Vec::new(),
            move |draft, _| {
                let wanted = triple.clean()?;
                let name = Name::relation(&wanted.from, &wanted.relation, &wanted.to);
                let there = draft.view().named(&name).next();
                let id = there.map(|item| item.id.clone());
                Ok(id.is_some_and(|id| draft.remove(&id).is_some()))
            },
        )
    }

    /// The relations from or to an entity, and from there on, up to `depth` (at most 6) steps away; the nearest first,
    /// at most 200. With an embedder a name that no entity has stands for the entity that is nearest by its meaning.
    pub fn walk(
        &self,
        entity: impl Into<String>,
        depth: u32,
    ) -> Performing<MemoryOperation<Vec<Found>>> {
        let entity = clean_line(&entity.into(), NAME);
        let texts = self.memory.space().map(|_| entity.clone());
        self.perform(
            "memory_walk",
            &(&entity.clone(), depth),
            texts.into_iter().collect(),
            move |draft, vectors| {
                let vector = vectors.first().and_then(Option::as_deref);
                let start = meant(draft.view(), &entity, vector);
                Ok(walk(draft.view(), &start, depth))
            },
        )
    }
}
