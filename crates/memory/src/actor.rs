//! The actor of a memory: it caches the content of scopes, and answers from the cache.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{EmbeddingSpace, StateSlot, StateValue},
    run::operations::ScopedState,
    vocabulary::{OperationError, Timestamp},
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    MemoryHit, MemoryQuery,
    view::{Head, Keys, View},
};

/// How many scopes are cached; beyond that the least recently used ones are dropped.
const SCOPES: usize = 256;
/// How many writes of a scope may be under way at once with an unknown outcome.
const PENDING: usize = 8;

type ViewResult = Result<Arc<View>, OperationError>;

/// A search, with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) query: MemoryQuery,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) decay_hours: f64,
    pub(crate) now: Timestamp,
}

impl Search {
    pub(crate) fn over(&self, view: &View) -> Vec<MemoryHit> {
        view.search(
            &self.query,
            self.vector.as_deref(),
            self.decay_hours,
            self.now,
        )
    }
}

pub(crate) enum MemoryMessage {
    /// Asks for the current content of a scope.
    View(ScopedState, oneshot::Sender<ViewResult>),
    /// Searches a scope.
    Search(
        ScopedState,
        Box<Search>,
        oneshot::Sender<Result<Vec<MemoryHit>, OperationError>>,
    ),
    /// Announces the content that a scope will have after a write that is about to be committed.
    Writing(String, Arc<View>),
    /// The head of a scope was read.
    Looked(String, Result<StateSlot, OperationError>),
    /// The whole scope was read.
    Read(String, Result<Vec<(String, StateValue)>, OperationError>),
}

/// A caller that gets its answer after the scope's head was read.
enum Waiter {
    View(oneshot::Sender<ViewResult>),
    Search(
        Box<Search>,
        oneshot::Sender<Result<Vec<MemoryHit>, OperationError>>,
    ),
}

impl Waiter {
    fn answer(self, view: ViewResult, work: &mut JoinSet<()>) {
        match self {
            Self::View(reply) => drop(reply.send(view)),
            // The search runs outside of the mailbox.
            Self::Search(search, reply) => {
                work.spawn(async move {
                    let _ = reply.send(view.map(|view| search.over(&view)));
                });
            }
        }
    }
}

/// One scope in the cache.
struct Known {
    state: ScopedState,
    view: Option<Arc<View>>,
    /// The views that pending writes would give.
    writing: VecDeque<Arc<View>>,
    /// The callers that wait for the read under way.
    looking: Vec<Waiter>,
    /// The callers that came after that read began: it may be too old for them.
    queued: Vec<Waiter>,
    asked: u64,
}

/// Serves one memory in all scopes of a System. Its content is a cache: before each answer it reads the head of the
/// scope in the store, so that writes of another process, a fork or a rewound session are seen.
pub(crate) struct MemoryActor {
    pub(crate) keys: Keys,
    pub(crate) space: Option<Arc<EmbeddingSpace>>,
}

#[derive(Default)]
pub(crate) struct MemoryCache {
    scopes: HashMap<String, Known>,
    asked: u64,
    work: JoinSet<()>,
}

impl Actor for MemoryActor {
    type Msg = MemoryMessage;
    type State = MemoryCache;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<MemoryMessage>,
        (): (),
    ) -> Result<MemoryCache, ActorProcessingErr> {
        Ok(MemoryCache::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<MemoryMessage>,
        message: MemoryMessage,
        cache: &mut MemoryCache,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            MemoryMessage::View(state, reply) => {
                self.look(&myself, cache, state, Waiter::View(reply));
            }
            MemoryMessage::Search(state, search, reply) => {
                self.look(&myself, cache, state, Waiter::Search(search, reply));
            }
            MemoryMessage::Writing(scope, view) => {
                if let Some(known) = cache.scopes.get_mut(&scope) {
                    known.writing.retain(|known| known.head != view.head);
                    known.writing.push_back(view);
                    while known.writing.len() > PENDING {
                        known.writing.pop_front();
                    }
                }
            }
            MemoryMessage::Looked(scope, slot) => self.looked(&myself, cache, scope, slot),
            MemoryMessage::Read(scope, rows) => {
                let view =
                    rows.and_then(|rows| View::read(&self.keys, rows, self.space.as_deref()));
                self.found(&myself, cache, &scope, view.map(Arc::new));
            }
        }
        while cache.work.try_join_next().is_some() {}
        Ok(())
    }
}

impl MemoryActor {
    fn look(
        &self,
        myself: &ActorRef<MemoryMessage>,
        cache: &mut MemoryCache,
        state: ScopedState,
        waiter: Waiter,
    ) {
        cache.asked += 1;
        let asked = cache.asked;
        let scope = state.stored_as().to_owned();
        if cache.scopes.len() >= SCOPES && !cache.scopes.contains_key(&scope) {
            cache.forget_half();
        }
        let known = cache.scopes.entry(scope.clone()).or_insert_with(|| Known {
            state,
            view: None,
            writing: VecDeque::new(),
            looking: Vec::new(),
            queued: Vec::new(),
            asked,
        });
        known.asked = asked;
        match known.looking.is_empty() {
            true => {
                known.looking.push(waiter);
                self.begin(myself, cache, scope);
            }
            false => known.queued.push(waiter),
        }
    }

    /// Begins to read the head of a scope.
    fn begin(&self, myself: &ActorRef<MemoryMessage>, cache: &mut MemoryCache, scope: String) {
        let Some(known) = cache.scopes.get(&scope) else {
            return;
        };
        let (read, myself) = (known.state.get(self.keys.head()), myself.clone());
        cache.work.spawn(async move {
            let _ = myself.cast(MemoryMessage::Looked(scope, read.await));
        });
    }

    fn looked(
        &self,
        myself: &ActorRef<MemoryMessage>,
        cache: &mut MemoryCache,
        scope: String,
        slot: Result<StateSlot, OperationError>,
    ) {
        let Some(known) = cache.scopes.get_mut(&scope) else {
            return;
        };
        let head = slot.and_then(|slot| Head::read(slot.version, slot.value.as_ref()));
        let head = match head {
            Ok(head) => head,
            Err(error) => return self.found(myself, cache, &scope, Err(error)),
        };
        let is_it = |view: &&Arc<View>| view.head == head;
        let there = known.view.iter().chain(&known.writing).find(is_it).cloned();
        if let Some(view) = there {
            return self.found(myself, cache, &scope, Ok(view));
        }
        let (read, myself) = (known.state.all(), myself.clone());
        cache.work.spawn(async move {
            let _ = myself.cast(MemoryMessage::Read(scope, read.await));
        });
    }

    /// Answers the callers that waited for this read, and reads again for those that came later.
    fn found(
        &self,
        myself: &ActorRef<MemoryMessage>,
        cache: &mut MemoryCache,
        scope: &str,
        view: ViewResult,
    ) {
        let Some(known) = cache.scopes.get_mut(scope) else {
            return;
        };
        if let Ok(view) = &view {
            let version = view.head.version;
            known
                .writing
                .retain(|writing| writing.head.version > version);
            known.view = Some(view.clone());
        }
        for waiter in std::mem::take(&mut known.looking) {
            waiter.answer(view.clone(), &mut cache.work);
        }
        if !known.queued.is_empty() {
            known.looking = std::mem::take(&mut known.queued);
            self.begin(myself, cache, scope.to_owned());
        }
    }
}

impl MemoryCache {
    /// Drops the least recently used scopes for which nobody waits.
    fn forget_half(&mut self) {
        let mut asked: Vec<u64> = self.scopes.values().map(|known| known.asked).collect();
        asked.sort_unstable();
        let bound = asked.get(asked.len() / 2).copied().unwrap_or_default();
        self.scopes
            .retain(|_, known| known.asked > bound || !known.looking.is_empty());
    }
}
