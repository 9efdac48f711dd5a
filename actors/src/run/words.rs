//! The words of people to a run, on their way from the mailbox to the function.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    leg::{Books, Leg},
    waiting_words::{Said, WaitingWords},
};
use crate::vocabulary::{Entry, Message, ModelResponse, OperationId};

/// The words to the function, by the lane that heard them and the place among those at which the
/// lane listened.
pub(crate) type HeardAt = BTreeMap<(u32, u32), Vec<Message>>;

/// The words of people to a leg's run.
#[derive(Default)]
pub(crate) struct Words {
    /// Messages that the function has just got. The commit that records them strikes them off the
    /// mailbox.
    pub(super) taken: Vec<Said>,
    /// Messages that came with model answers which the function dropped unread. They are heard
    /// next.
    pub(super) unheard: Vec<Message>,
    /// The words that earlier incarnations heard, and this one has not asked for yet.
    pub(super) recorded: HeardAt,
    /// The lanes that hear nothing: those of policies, whose model calls are about something
    /// else.
    pub(super) deaf: BTreeSet<u32>,
}

impl Words {
    /// Takes the messages that came with answers which the function dropped unread, for a lane that hears.
    pub(super) fn take_unheard(&mut self, lane: u32) -> Vec<Message> {
        match self.deaf.contains(&lane) {
            true => Vec::new(),
            false => std::mem::take(&mut self.unheard),
        }
    }

    fn take(&mut self, waiting: &WaitingWords) -> Vec<Message> {
        let said = waiting.take();
        let messages = said.iter().map(|said| said.message.clone()).collect();
        self.taken.extend(said);
        messages
    }
}

impl Leg {
    /// Messages that people sent meanwhile come with an answer of a model when it is recorded. An answer that is cancelled
    /// or dropped before leaves them.
    pub(super) fn add_words(&self, op: OperationId, answer: &mut ModelResponse) {
        let mut books = self.books.lock();
        let words = &mut books.words;
        if !words.deaf.contains(&op.lane) {
            answer.steering.extend(words.take(self.sender.words()));
        }
    }

    /// A lane hears at this place first the words that are recorded there, and else those that people have said by
    /// now, if the function is not past the place. A function is past it while the leg has a
    /// recorded operation for which it has not asked. `next` is the lane's next operation.
    pub(super) fn hear(&self, next: OperationId, place: u32) -> Vec<Arc<Message>> {
        let mut books = self.books.lock();
        let Books {
            machine,
            words,
            heard: [_, here],
            ..
        } = &mut *books;
        if machine.end.is_some() || words.deaf.contains(&next.lane) {
            return Vec::new();
        }
        let mut heard = std::mem::take(&mut words.unheard);
        let is_past = machine.is_past();
        match words.recorded.remove(&(next.lane, place)) {
            Some(recorded) => heard.extend(recorded),
            None if is_past => {}
            None => {
                let said = words.take(self.sender.words());
                machine.notes.extend(said.iter().map(|said| Entry::Heard {
                    op: next,
                    place,
                    message: Box::new(said.clone()),
                }));
                heard.extend(said);
            }
        }
        let heard: Vec<_> = heard.into_iter().map(Arc::new).collect();
        here.extend(heard.iter().cloned());
        heard
    }
}
