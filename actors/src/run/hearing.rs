//! The words of people to a run, on their way from the mailbox to the function.

use std::sync::Arc;

use super::leg::{Books, Leg};
use crate::vocabulary::{Entry, Message, ModelResponse, OperationId};

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
