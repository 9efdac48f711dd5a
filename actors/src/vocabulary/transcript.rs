//! A conversation that is cheap to clone and to extend.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{Digest, Message, canonical};

/// An append-only list of messages with a rolling digest.
///
/// Clones share one log: a clone costs one reference count, and the clone at the log's end extends it in place. A
/// clone that ends earlier (a branch of the conversation) copies only when it is extended with a message other than
/// the next one in the log. Each message is hashed at most once, when a digest that covers it is asked for, so the cost
/// of a step does not grow with the length of the conversation. Neither does the cost of a turn, because the session
/// adds what its run has pushed to what it kept.
#[derive(Clone, Default)]
pub struct Transcript {
    log: Arc<RwLock<Vec<Line>>>,
    /// How many messages of the log it has.
    len: usize,
    /// A last message, which is not in the log.
    aside: Option<Arc<Line>>,
}

/// The initial room for the hashed bytes of a message; most messages fit.
const HASHED: usize = 512;

#[derive(Clone)]
struct Line {
    message: Arc<Message>,
    /// The digest of all messages up to and including this one, once it was asked for.
    digest: OnceLock<Digest>,
    /// The place of the last message up to here that comes from a user.
    from_user: Option<usize>,
}

impl Line {
    /// Its digest after this one, which covers the messages before it.
    fn digest(&self, before: Digest) -> Digest {
        *self.digest.get_or_init(|| {
            let mut bytes = Vec::with_capacity(HASHED);
            bytes.extend_from_slice(&before.0);
            match self.message.synthetic {
                false => canonical::write(&*self.message, &mut bytes),
                true => canonical::write(&unmarked(&self.message), &mut bytes),
            }
            Digest::of(&bytes)
        })
    }
}

impl Transcript {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.aside.is_some())
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The line with which this message goes on.
    fn line(&self, message: Arc<Message>) -> Line {
        let from_user = match message.is_from_user() {
            true => Some(self.len()),
            false => self.last_from_user(),
        };
        Line {
            message,
            digest: OnceLock::new(),
            from_user,
        }
    }

    /// Adds a message that other clones will not have, such as one that a single request has at its end. Nothing is copied
    /// for it, here or where another clone goes on.
    pub fn push_aside(&mut self, message: impl Into<Arc<Message>>) {
        if let Some(before) = self.aside.take() {
            self.push(before.message.clone());
        }
        self.aside = Some(Arc::new(self.line(message.into())));
    }

    /// Adds a message.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        let message = message.into();
        if let Some(before) = self.aside.take() {
            self.push(before.message.clone());
        }
        // Another clone may have pushed this very message already: then it is in its place.
        let next = self
            .log
            .read()
            .get(self.len)
            .map(|line| Arc::as_ptr(&line.message));
        if next == Some(Arc::as_ptr(&message)) {
            self.len += 1;
            return;
        }
        let line = self.line(message);
        // A part that only this clone had after its end is of no use to another.
        if let Some(log) = Arc::get_mut(&mut self.log) {
            log.get_mut().truncate(self.len);
        }
        let mut log = self.log.write();
        if log.len() == self.len {
            log.push(line);
        } else {
            let mut copy = log[..self.len].to_vec();
            copy.push(line);
            drop(log);
            self.log = Arc::new(RwLock::new(copy));
        }
        self.len += 1;
    }

    /// The rolling digest over all messages, as far as a model reads them.
    pub fn digest(&self) -> Digest {
        let log = self.log.read();
        let lines = &log[..self.len];
        let known = lines.iter().rposition(|line| line.digest.get().is_some());
        let rest = &lines[known.unwrap_or(0)..];
        rest.iter()
            .chain(self.aside.as_deref())
            .fold(Digest([0; 32]), |before, line| line.digest(before))
    }

    /// Whether its messages are in another clone's log, too.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.log) > 1
    }

    /// The message at this place.
    pub fn get(&self, index: usize) -> Option<Arc<Message>> {
        if index < self.len {
            return Some(self.log.read()[index].message.clone());
        }
        let aside = self.aside.as_ref().filter(|_| index == self.len);
        aside.map(|line| line.message.clone())
    }

    /// The last message.
    pub fn last(&self) -> Option<Arc<Message>> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    /// The place of the last message that [comes from a user](Message::is_from_user). It is known without a search.
    pub fn last_from_user(&self) -> Option<usize> {
        match &self.aside {
            Some(line) => line.from_user,
            None => self.log.read().get(self.len.checked_sub(1)?)?.from_user,
        }
    }

    /// The messages from this place on, shared and not copied.
    pub fn since(&self, start: usize) -> Vec<Arc<Message>> {
        let log = self.log.read();
        let lines = log.get(start..self.len).unwrap_or_default().iter();
        let aside = self.aside.as_deref().filter(|_| start <= self.len);
        let lines = lines.chain(aside);
        lines.map(|line| line.message.clone()).collect()
    }

    /// All messages, shared and not copied.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.since(0)
    }

    /// All messages, shared and not copied, as they are now.
    pub fn iter(&self) -> std::vec::IntoIter<Arc<Message>> {
        self.messages().into_iter()
    }

    /// The conversation as it was after its first `len` messages.
    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        Self {
            log: self.log.clone(),
            len: len.min(self.len),
            aside: self.aside.clone().filter(|_| len > self.len),
        }
    }
}

/// The message without its `synthetic` mark, which does not change what a model reads.
fn unmarked(message: &Message) -> Message {
    Message {
        synthetic: false,
        ..message.clone()
    }
}

impl<M: Into<Arc<Message>>> Extend<M> for Transcript {
    fn extend<I: IntoIterator<Item = M>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl<M: Into<Arc<Message>>> FromIterator<M> for Transcript {
    fn from_iter<I: IntoIterator<Item = M>>(messages: I) -> Self {
        let mut transcript = Self::new();
        transcript.extend(messages);
        transcript
    }
}

impl IntoIterator for &Transcript {
    type Item = Arc<Message>;
    type IntoIter = std::vec::IntoIter<Arc<Message>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.digest() == other.digest()
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.messages()).finish()
    }
}

impl Serialize for Transcript {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.messages())
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Message>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_that_is_extended_leaves_the_other_as_it_was() {
        let mut first = Transcript::from_iter([Message::user("a")]);
        let mut second = first.clone();
        first.push(Message::user("b"));
        second.push(Message::user("c"));
        second.push(Message::user("d"));
        let texts = |t: &Transcript| t.iter().map(|m| m.content()).collect::<Vec<_>>();
        assert_eq!(texts(&first), ["a", "b"]);
        assert_eq!(texts(&second), ["a", "c", "d"]);
        assert_ne!(first.digest(), second.truncated(2).digest());
        let places = [1, 2, 3].map(|len| second.truncated(len).last_from_user());
        assert_eq!(places, [Some(0), Some(1), Some(2)]);
        first.push(Message::assistant("e"));
        first.push(Message::synthetic("f"));
        assert_eq!(first.last_from_user(), Some(1));
        assert_eq!(Transcript::new().last_from_user(), None);
        assert_eq!(first.truncated(1), second.truncated(1));
    }

    #[test]
    fn a_clone_that_catches_up_with_what_the_other_pushed_copies_nothing() {
        let kept = Transcript::from_iter([Message::user("a")]);
        let mut run = kept.clone();
        run.extend([Message::assistant("b"), Message::user("c")]);
        let mut same = kept.clone();
        same.extend(run.since(1));
        assert!(Arc::ptr_eq(&same.log, &run.log) && same == run);
        // Another message at that place begins a branch, even if its text is the same.
        let mut other = kept.clone();
        other.extend([Message::assistant("b"), Message::user("c")]);
        assert!(!Arc::ptr_eq(&other.log, &run.log) && other == run);
    }

    #[test]
    fn a_message_aside_is_in_one_clone_and_nothing_is_copied_for_it() {
        let mut kept = Transcript::from_iter([Message::user("a"), Message::assistant("b")]);
        let log = Arc::as_ptr(&kept.log);
        let mut request = kept.clone();
        request.push_aside(Message::synthetic("now: noon"));
        kept.push(Message::assistant("c"));
        assert!(Arc::as_ptr(&kept.log) == log && Arc::as_ptr(&request.log) == log);
        let texts = |t: &Transcript| t.iter().map(|m| m.content()).collect::<Vec<_>>();
        assert_eq!(texts(&request), ["a", "b", "now: noon"]);
        assert_eq!(texts(&kept), ["a", "b", "c"]);
        let plain = Transcript::from_iter(request.iter());
        assert!(request == plain && request != kept && request.truncated(3) == plain);
        assert_eq!(request.last().unwrap(), request.get(2).unwrap());
        assert_eq!((request.len(), request.get(3)), (3, None));
        assert_eq!(request.last_from_user(), Some(0));
        assert_eq!(request.truncated(2), kept.truncated(2));
        assert_eq!((request.since(2).len(), request.since(3).len()), (1, 0));
        request.push_aside(Message::user("d"));
        request.push(Message::assistant("e"));
        assert_eq!(texts(&request), ["a", "b", "now: noon", "d", "e"]);
        assert_eq!(texts(&kept), ["a", "b", "c"]);
        assert_eq!(request.last_from_user(), Some(3));
    }

    #[test]
    fn who_made_a_message_is_kept_and_no_part_of_the_digest() {
        let plain = Transcript::from_iter([Message::user("go on")]);
        let made = Transcript::from_iter([Message::synthetic("go on")]);
        assert_eq!(plain.digest(), made.digest());
        let json = |said: &Transcript| serde_json::to_string(said).unwrap();
        assert!(!json(&plain).contains("synthetic"));
        let again: Transcript = serde_json::from_str(&json(&made)).unwrap();
        assert!(again.last().unwrap().synthetic && !again.last().unwrap().is_from_user());
    }

    #[test]
    fn the_digest_depends_on_content_and_order_only() {
        let one = Transcript::from_iter([Message::user("a"), Message::user("b")]);
        let json = serde_json::to_string(&one).unwrap();
        let same: Transcript = serde_json::from_str(&json).unwrap();
        let other = Transcript::from_iter([Message::user("b"), Message::user("a")]);
        assert_eq!(one, same);
        assert_ne!(one, other);
    }
}
