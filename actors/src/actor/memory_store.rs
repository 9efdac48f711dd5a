//! Values of shared state, read through a cache.

use std::collections::{HashMap, HashSet};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{sync::oneshot, task::JoinSet};

use crate::contract::{StateSlot, StoreError, StoreHandle};

/// Caches the memories of runs. The store commits writes together with the journal entry of the
/// operation that made them; then this actor is told, and forgets the values that it had. Killing
/// it loses nothing but the cache.
pub(crate) struct MemoryStore;

pub(crate) enum MemoryMessage {
    /// The value under this scope and key.
    Get(Place, Reply),
    /// The store has read this value.
    Read(Place, Result<StateSlot, StoreError>),
    /// These values changed.
    Changed(Vec<Place>),
    /// Anything of this scope may have changed: its writer was lost before it could tell.
    Forget(String),
}

type Place = (String, String);
type Reply = oneshot::Sender<Result<StateSlot, StoreError>>;

pub(crate) struct MemoryState {
    store: StoreHandle,
    cached: HashMap<Place, StateSlot>,
    waiting: HashMap<Place, Vec<Reply>>,
    /// Places that changed while they were being read; they are read again.
    stale: HashSet<Place>,
    reads: JoinSet<()>,
}

/// How many values are kept; past it the cache starts anew.
const CACHED: usize = 16_384;

impl Actor for MemoryStore {
    type Msg = MemoryMessage;
    type State = MemoryState;
    type Arguments = StoreHandle;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        store: StoreHandle,
    ) -> Result<MemoryState, ActorProcessingErr> {
        Ok(MemoryState {
            store,
            cached: HashMap::new(),
            waiting: HashMap::new(),
            stale: HashSet::new(),
            reads: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: MemoryMessage,
        state: &mut MemoryState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            MemoryMessage::Get(place, reply) => state.get(&myself, place, reply),
            MemoryMessage::Read(place, result) => state.read(&myself, place, result),
            MemoryMessage::Changed(places) => {
                for place in places {
                    state.cached.remove(&place);
                    if state.waiting.contains_key(&place) {
                        state.stale.insert(place);
                    }
                }
            }
            MemoryMessage::Forget(scope) => {
                state.cached.retain(|(of, _), _| *of != scope);
                let reading = state.waiting.keys().filter(|(of, _)| *of == scope);
                state.stale.extend(reading.cloned());
            }
        }
        while state.reads.try_join_next().is_some() {}
        Ok(())
    }
}

impl MemoryState {
    fn get(&mut self, myself: &ActorRef<MemoryMessage>, place: Place, reply: Reply) {
        if let Some(value) = self.cached.get(&place) {
            let _ = reply.send(Ok(value.clone()));
            return;
        }
        let first = !self.waiting.contains_key(&place);
        self.waiting.entry(place.clone()).or_default().push(reply);
        if first {
            self.begin_read(myself, place);
        }
    }

    fn begin_read(&mut self, myself: &ActorRef<MemoryMessage>, place: Place) {
        let (store, myself) = (self.store.clone(), myself.clone());
        self.reads.spawn(async move {
            let result = store.state(place.0.clone(), place.1.clone()).await;
            let _ = myself.cast(MemoryMessage::Read(place, result));
        });
    }

    fn read(
        &mut self,
        myself: &ActorRef<MemoryMessage>,
        place: Place,
        result: Result<StateSlot, StoreError>,
    ) {
        if self.stale.remove(&place) {
            self.begin_read(myself, place);
            return;
        }
        // Only a run's own memory is kept: the runs of a tree live in one process, while another
        // process may write other values.
        if let (true, Ok(value)) = (place.0.starts_with("run:"), &result) {
            if self.cached.len() >= CACHED {
                self.cached.clear();
            }
            self.cached.insert(place.clone(), value.clone());
        }
        for reply in self.waiting.remove(&place).unwrap_or_default() {
            let _ = reply.send(result.clone());
        }
    }
}
