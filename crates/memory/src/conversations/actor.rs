//! The actor of the index of conversations.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use ghostlight_actors::{
    contract::{StoreError, StoreHandle},
    vocabulary::OperationError,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{sync::oneshot, task::JoinSet};

use super::reading::{Conversations, Whose};

/// How many turns are held for all users together; beyond that those of the users who asked least recently go.
const TURNS: usize = 200_000;

type Answer = oneshot::Sender<Result<Arc<Conversations>, OperationError>>;

pub(super) enum ConversationsMessage {
    /// Asks for the turns that are recorded now.
    Turns(StoreHandle, Whose, Answer),
    /// The turns were read on.
    Read(Whose, Result<Conversations, StoreError>),
    /// A turn of these was not there any more: they are read again from their beginning.
    Gone(Whose),
}

/// The turns of one user or session.
#[derive(Default)]
struct Known {
    turns: Arc<Conversations>,
    /// Those who wait for the read under way.
    reading: Vec<Answer>,
    /// Those who came after that read began, with the store: it may be too old for them.
    queued: Vec<(StoreHandle, Answer)>,
    asked: u64,
}

/// Holds what is derived from the journals of sessions, so that a search reads only what was recorded since the last one.
pub(super) struct ConversationsActor;

#[derive(Default)]
pub(super) struct ConversationsCache {
    known: HashMap<Whose, Known>,
    asked: u64,
    work: JoinSet<()>,
}

impl Actor for ConversationsActor {
    type Msg = ConversationsMessage;
    type State = ConversationsCache;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<ConversationsMessage>,
        (): (),
    ) -> Result<ConversationsCache, ActorProcessingErr> {
        Ok(ConversationsCache::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<ConversationsMessage>,
        message: ConversationsMessage,
        cache: &mut ConversationsCache,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ConversationsMessage::Turns(store, whose, answer) => {
                cache.asked += 1;
                let known = cache.known.entry(whose.clone()).or_default();
                known.asked = cache.asked;
                match known.reading.is_empty() {
                    true => {
                        known.reading.push(answer);
                        cache.read(&myself, store, whose);
                    }
                    false => known.queued.push((store, answer)),
                }
            }
            ConversationsMessage::Read(whose, read) => cache.found(&myself, whose, read),
            ConversationsMessage::Gone(whose) => {
                if let Some(known) = cache.known.get_mut(&whose) {
                    known.turns = Arc::default();
                }
            }
        }
        while cache.work.try_join_next().is_some() {}
        Ok(())
    }
}

impl ConversationsCache {
    /// Reads on, outside of the mailbox.
    fn read(&mut self, myself: &ActorRef<ConversationsMessage>, store: StoreHandle, whose: Whose) {
        let turns = self.known.get(&whose).map(|known| known.turns.clone());
        let myself = myself.clone();
        self.work.spawn(async move {
            let mut turns = Conversations::clone(&turns.unwrap_or_default());
            // Without an answer all who wait for this user's turns would wait for ever.
            let read = AssertUnwindSafe(turns.read_on(&store, &whose)).catch_unwind();
            let read = match read.await {
                Ok(read) => read.map(|()| turns),
                Err(_) => Err(StoreError::Io {
                    place: String::from("the turns of conversations"),
                    reason: String::from("reading them panicked"),
                }),
            };
            let _ = myself.cast(ConversationsMessage::Read(whose, read));
        });
    }

    fn found(
        &mut self,
        myself: &ActorRef<ConversationsMessage>,
        whose: Whose,
        read: Result<Conversations, StoreError>,
    ) {
        let Some(known) = self.known.get_mut(&whose) else {
            return;
        };
        let answer = match read {
            Ok(turns) => {
                known.turns = Arc::new(turns);
                Ok(known.turns.clone())
            }
            Err(error) => Err(OperationError::from(error)),
        };
        for waiting in std::mem::take(&mut known.reading) {
            let _ = waiting.send(answer.clone());
        }
        let mut queued = std::mem::take(&mut known.queued).into_iter();
        if let Some((store, first)) = queued.next() {
            known.reading.push(first);
            known.reading.extend(queued.map(|(_, answer)| answer));
            self.read(myself, store, whose);
        }
        self.make_room();
    }

    /// Drops the turns of those who asked least recently, while there are too many.
    fn make_room(&mut self) {
        let size = |known: &Known| known.turns.len() + 1;
        let mut held: usize = self.known.values().map(size).sum();
        let idle = |(_, known): &(&Whose, &Known)| known.reading.is_empty();
        while held > TURNS && self.known.len() > 1 {
            let known = self.known.iter().filter(idle);
            let Some(least) = known.min_by_key(|(_, known)| known.asked) else {
                return;
            };
            let least = least.0.clone();
            held -= self.known.remove(&least).map_or(0, |known| size(&known));
        }
    }
}
