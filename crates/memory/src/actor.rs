//! The actor of a memory: it caches the content of scopes, and answers from the cache.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{EmbeddingSpace, StateValue},
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
/// How many contents of a scope are cached: the latest ones, which share nearly everything.
const CONTENTS: usize = 8;

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
    /// Asks for the content of a scope that has this head, or a later one.
    View(ScopedState, Head, oneshot::Sender<ViewResult>),
    /// Searches it.
    Search(
        ScopedState,
        Head,
        Box<Search>,
        oneshot::Sender<Result<Vec<MemoryHit>, OperationError>>,
    ),
    /// Announces the content that a scope will have after a write that is about to be committed.
    Writing(String, Arc<View>),
    /// The whole scope was read.
    Read(String, Result<Vec<(String, StateValue)>, OperationError>),
}

/// A caller that gets its answer with the scope's content.
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
    /// The contents after the latest writes, also of those whose outcome is not known: each is found by its head alone. A
    /// caller may have seen the head before the last one.
    contents: VecDeque<Arc<View>>,
    /// The callers that wait for the read under way.
    reading: Vec<Waiter>,
    /// The callers that came after that read began, each with the head that it saw: the read may be too old for them.
    queued: Vec<(Head, Waiter)>,
    asked: u64,
}

/// Serves one memory in all scopes of a System. Its content is a cache: each caller has read the head of the scope in the
/// store before, so that writes of another process, a fork or a rewound session are seen.
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
            MemoryMessage::View(state, head, reply) => {
                cache.look(&myself, state, head, Waiter::View(reply));
            }
            MemoryMessage::Search(state, head, search, reply) => {
                cache.look(&myself, state, head, Waiter::Search(search, reply));
            }
            MemoryMessage::Writing(scope, view) => {
                if let Some(known) = cache.scopes.get_mut(&scope) {
                    known.announced(view);
                }
            }
            MemoryMessage::Read(scope, rows) => {
                let view =
                    rows.and_then(|rows| View::read(&self.keys, rows, self.space.as_deref()));
                cache.found(&myself, scope, view.map(Arc::new));
            }
        }
        while cache.work.try_join_next().is_some() {}
        Ok(())
    }
}

impl Known {
    /// The content with this head, if it is known.
    fn with(&self, head: &Head) -> Option<Arc<View>> {
        let mut contents = self.contents.iter();
        contents.find(|view| view.head == *head).cloned()
    }

    /// Keeps what the scope will have after a write.
    fn announced(&mut self, view: Arc<View>) {
        self.contents.retain(|other| other.head != view.head);
        self.contents.push_back(view);
        if self.contents.len() > CONTENTS {
            self.contents.pop_front();
        }
    }

    /// Keeps what was read. It shares nothing with the contents before it, so these are dropped.
    fn read(&mut self, view: Arc<View>) {
        let version = view.head.version;
        self.contents.retain(|other| other.head.version > version);
        self.contents.push_front(view);
    }
}

impl MemoryCache {
    /// Answers from the cache where it has what the caller saw, and reads the scope where it has not.
    fn look(
        &mut self,
        myself: &ActorRef<MemoryMessage>,
        state: ScopedState,
        head: Head,
        waiter: Waiter,
    ) {
        self.asked += 1;
        let asked = self.asked;
        let scope = state.stored_as().to_owned();
        if self.scopes.len() >= SCOPES && !self.scopes.contains_key(&scope) {
            self.forget_half();
        }
        let known = self.scopes.entry(scope.clone()).or_insert_with(|| Known {
            state,
            contents: VecDeque::new(),
            reading: Vec::new(),
            queued: Vec::new(),
            asked,
        });
        known.asked = asked;
        if let Some(view) = known.with(&head) {
            return waiter.answer(Ok(view), &mut self.work);
        }
        match known.reading.is_empty() {
            true => {
                known.reading.push(waiter);
                self.read(myself, scope);
            }
            false => known.queued.push((head, waiter)),
        }
    }

    /// Begins to read a scope.
    fn read(&mut self, myself: &ActorRef<MemoryMessage>, scope: String) {
        let Some(known) = self.scopes.get(&scope) else {
            return;
        };
        let (read, myself) = (known.state.all(), myself.clone());
        self.work.spawn(async move {
            let _ = myself.cast(MemoryMessage::Read(scope, read.await));
        });
    }

    /// Answers the callers that waited for this read, and reads again for those that saw a later head.
    fn found(&mut self, myself: &ActorRef<MemoryMessage>, scope: String, view: ViewResult) {
        let Some(known) = self.scopes.get_mut(&scope) else {
            return;
        };
        if let Ok(view) = &view {
            known.read(view.clone());
        }
        for waiter in std::mem::take(&mut known.reading) {
            waiter.answer(view.clone(), &mut self.work);
        }
        for (head, waiter) in std::mem::take(&mut known.queued) {
            match known.with(&head) {
                Some(view) => waiter.answer(Ok(view), &mut self.work),
                None => known.reading.push(waiter),
            }
        }
        if !known.reading.is_empty() {
            self.read(myself, scope);
        }
    }

    /// Drops the least recently used scopes for which nobody waits.
    fn forget_half(&mut self) {
        let mut asked: Vec<u64> = self.scopes.values().map(|known| known.asked).collect();
        asked.sort_unstable();
        let bound = asked.get(asked.len() / 2).copied().unwrap_or_default();
        self.scopes
            .retain(|_, known| known.asked > bound || !known.reading.is_empty());
    }
}
