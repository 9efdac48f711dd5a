//! What people say to a run, on its way from the mailbox to the function.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::leg::Leg;
use crate::vocabulary::{Entry, Message, OperationId, Timestamp, WORDS_COME_FIRST};

/// What the function was told, by the lane that heard it and the place among those at which the
/// lane listened.
pub(crate) type HeardAt = BTreeMap<(u32, u32), Vec<Message>>;

/// A message of a person to a run that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// Its id in the mailbox.
    pub(crate) item: String,
    /// When it was said.
    pub(crate) at: Timestamp,
    /// The turn that the message makes, where it was sent to the session.
    pub(crate) turn: Option<String>,
    pub(crate) message: Message,
}

/// What people say to a leg's run.
#[derive(Default)]
pub(crate) struct Words(Mutex<State>);

#[derive(Default)]
struct State {
    /// Messages that the function has not heard.
    waiting: Vec<Said>,
    /// Messages that the function has just got. The commit that records them strikes them off the
    /// mailbox.
    taken: Vec<Said>,
    /// Messages that came with model answers which the function dropped unread. They are heard
    /// next.
    unheard: Vec<Message>,
    /// What earlier lives heard, and this one has not asked for yet.
    recorded: HeardAt,
    /// The lanes that hear nothing: those of policies, whose model calls are about something
    /// else.
    deaf: BTreeSet<u32>,
}

impl Words {
    /// With what earlier lives of the run heard.
    pub(super) fn recorded(recorded: HeardAt) -> Self {
        Self(Mutex::new(State {
            recorded,
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Adds messages that came later than all others.
    pub(super) fn add(&self, said: &mut Vec<Said>) {
        if !said.is_empty() {
            self.state().waiting.append(said);
        }
    }

    /// Adds messages that came before all others: they were taken, and could not be recorded.
    pub(super) fn give_back(&self, said: Vec<Said>) {
        self.state().waiting.splice(..0, said);
    }

    /// Takes the messages that the function has not heard.
    pub(super) fn take_waiting(&self) -> Vec<Said> {
        std::mem::take(&mut self.state().waiting)
    }

    /// Takes the messages that the function has just got.
    pub(super) fn take_taken(&self) -> Vec<Said> {
        std::mem::take(&mut self.state().taken)
    }

    /// Keeps messages that came with a model answer which the function dropped unread.
    pub(super) fn unheard(&self, said: Vec<Message>) {
        self.state().unheard.extend(said);
    }

    /// Takes these messages, for a lane that hears.
    pub(super) fn take_unheard(&self, lane: u32) -> Vec<Message> {
        let mut state = self.state();
        match state.deaf.contains(&lane) {
            true => Vec::new(),
            false => std::mem::take(&mut state.unheard),
        }
    }

    /// Takes the messages that came by now, for an answer to this lane that is being recorded.
    pub(super) fn with_answer(&self, lane: u32) -> Vec<Message> {
        let mut state = self.state();
        match state.deaf.contains(&lane) {
            true => Vec::new(),
            false => state.take(),
        }
    }

    /// Lets a lane hear nothing, and those that begin on it.
    pub(super) fn deafen(&self, lane: u32) {
        self.state().deaf.insert(lane);
    }

    pub(super) fn is_deaf(&self, lane: u32) -> bool {
        self.state().deaf.contains(&lane)
    }
}

impl State {
    fn take(&mut self) -> Vec<Message> {
        let said = std::mem::take(&mut self.waiting);
        let messages = said.iter().map(|said| said.message.clone()).collect();
        self.taken.extend(said);
        messages
    }
}

impl Leg {
    /// What a lane hears at this place: what is recorded there, and else what people have said by
    /// now, if the function is not past the place. A function is past it while the leg has a
    /// recorded operation for which it has not asked. `next` is the lane's next operation.
    pub(super) fn hear(&self, next: OperationId, place: u32) -> Vec<Arc<Message>> {
        let mut books = self.books.lock();
        let mut words = self.words.state();
        if books.machine.end.is_some() || words.deaf.contains(&next.lane) {
            return Vec::new();
        }
        let mut heard = Vec::new();
        // In older journals these messages came with the next answer.
        if self.start.format >= WORDS_COME_FIRST {
            heard.append(&mut words.unheard);
        }
        let is_past = books.machine.is_past();
        match words.recorded.remove(&(next.lane, place)) {
            Some(recorded) => heard.extend(recorded),
            None if is_past => {}
            None => {
                let said = words.take();
                books.notes.extend(said.iter().map(|said| Entry::Heard {
                    op: next,
                    place,
                    message: Box::new(said.clone()),
                }));
                heard.extend(said);
            }
        }
        let heard: Vec<_> = heard.into_iter().map(Arc::new).collect();
        let [_, here] = &self.heard;
        here.lock().extend(heard.iter().cloned());
        heard
    }
}
