//! The words of people to a run that wait to be heard: by its function, or by the runs below it that work instead of
//! the function.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;

use crate::vocabulary::{Message, Timestamp};

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
    /// Whether it was said to a run above. It stays in that run's mailbox until a run that has heard it ends.
    pub(crate) is_from_above: bool,
}

/// The words to a run that nobody has heard. All that waits here is in a mailbox too, so nothing is lost with it.
#[derive(Debug, Default)]
pub(crate) struct SteeringInbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    own: Vec<Said>,
    /// The words to the run above, where this one works instead of it.
    above: Option<Arc<SteeringInbox>>,
    /// The items of words to the run above that this run, or one below it, has heard.
    heard: BTreeSet<String>,
}

impl SteeringInbox {
    /// From here on the run hears what is said to the run above as well, but for these items, which it has heard.
    pub(crate) fn hear_above(&self, above: Arc<Self>, heard: &[String]) {
        let mut state = self.0.lock();
        state.above = Some(above);
        state.heard.extend(heard.iter().cloned());
    }

    /// Adds messages to the run. Returns the items of those that it has heard already, as words to the run above.
    pub(crate) fn add(&self, said: Vec<Said>) -> Vec<String> {
        let mut state = self.0.lock();
        let (known, new): (Vec<_>, Vec<_>) = said
            .into_iter()
            .partition(|said| state.heard.contains(&said.item));
        state.own.extend(new);
        known.into_iter().map(|said| said.item).collect()
    }

    /// Takes all that waits, for a function that hears it now.
    pub(crate) fn take(&self) -> Vec<Said> {
        let above = self.words_above();
        let mut state = self.0.lock();
        state
            .heard
            .extend(above.iter().map(|said| said.item.clone()));
        let mut said = std::mem::take(&mut state.own);
        if !above.is_empty() {
            said.extend(above);
            said.sort_by_key(|said| said.at);
        }
        said
    }

    /// Takes the messages with these items, which a run below has heard.
    pub(crate) fn take_items(&self, items: &[String]) -> Vec<Said> {
        if items.is_empty() {
            return Vec::new();
        }
        let items: BTreeSet<&str> = items.iter().map(String::as_str).collect();
        let is_heard = |said: &mut Said| items.contains(said.item.as_str());
        let mut above = self.words_above();
        above.retain_mut(|said| is_heard(said));
        let mut state = self.0.lock();
        state
            .heard
            .extend(above.iter().map(|said| said.item.clone()));
        state.own.extract_if(.., is_heard).chain(above).collect()
    }

    /// Puts messages back that were taken, and whose hearing could not be recorded. They came before all others.
    pub(crate) fn give_back(&self, said: Vec<Said>) {
        let mut state = self.0.lock();
        let (above, own): (Vec<_>, Vec<_>) = said.into_iter().partition(|said| said.is_from_above);
        for said in above {
            state.heard.remove(&said.item);
        }
        state.own.splice(..0, own);
    }

    /// The words to the run above that were not heard here.
    fn words_above(&self) -> Vec<Said> {
        let Some(above) = self.0.lock().above.clone() else {
            return Vec::new();
        };
        let mut said = above.words_above();
        said.extend(above.0.lock().own.iter().cloned());
        let state = self.0.lock();
        said.retain(|said| !state.heard.contains(&said.item));
        said.iter_mut().for_each(|said| said.is_from_above = true);
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(item: &str, at: u64) -> Said {
        Said {
            item: item.to_owned(),
            at: Timestamp(at),
            turn: None,
            message: Message::user(item),
            is_from_above: false,
        }
    }

    fn below(above: &Arc<SteeringInbox>) -> Arc<SteeringInbox> {
        let words = Arc::<SteeringInbox>::default();
        words.hear_above(above.clone(), &[]);
        words
    }

    fn items(said: &[Said]) -> Vec<&str> {
        said.iter().map(|said| said.item.as_str()).collect()
    }

    #[test]
    fn each_run_below_hears_once_what_is_said_above_in_the_order_of_time() {
        let root = Arc::<SteeringInbox>::default();
        let (first, inner) = (below(&root), below(&root));
        let leaf = below(&inner);
        root.add(vec![said("a", 1), said("c", 3)]);
        leaf.add(vec![said("b", 2)]);
        assert_eq!(items(&first.take()), ["a", "c"]);
        assert_eq!(items(&leaf.take()), ["a", "b", "c"]);
        assert!(first.take().is_empty() && leaf.take().is_empty());
        assert_eq!(items(&root.take()), ["a", "c"], "nobody took them from it");
    }

    #[test]
    fn what_a_run_below_has_heard_is_hidden_from_those_that_come_later() {
        let root = Arc::<SteeringInbox>::default();
        let inner = below(&root);
        let leaf = below(&inner);
        root.add(vec![said("a", 1), said("b", 2)]);
        inner.add(vec![said("c", 3)]);
        leaf.take();
        let heard = ["a".to_owned(), "c".to_owned()];
        let taken = inner.take_items(&heard);
        assert_eq!(items(&taken), ["c", "a"]);
        let above: Vec<bool> = taken.iter().map(|said| said.is_from_above).collect();
        assert_eq!(above, [false, true]);
        assert!(inner.take_items(&heard).is_empty(), "once");
        assert_eq!(items(&below(&inner).take()), ["b"]);
        assert_eq!(items(&below(&root).take()), ["a", "b"]);
        // A copy that comes after it was heard above is no news.
        assert_eq!(inner.add(vec![said("a", 1), said("d", 4)]), ["a"]);
        assert_eq!(items(&inner.take()), ["b", "d"]);
    }

    #[test]
    fn what_is_given_back_is_heard_again() {
        let root = Arc::<SteeringInbox>::default();
        let leaf = below(&root);
        root.add(vec![said("a", 1)]);
        leaf.add(vec![said("b", 2)]);
        let taken = leaf.take();
        leaf.give_back(taken);
        leaf.add(vec![said("c", 3)]);
        assert_eq!(items(&leaf.take()), ["a", "b", "c"]);
    }
}
