//! The turns of a session as the index of conversations keeps them: by what they are found, and where their text is.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, OnceLock},
};

use ghostlight_actors::{
    contract::StoredLine,
    vocabulary::{Entry, Message, Role, RunId, Timestamp, TurnEnd},
};

use crate::{clean_line, terms::terms};

/// How many characters of each side of a turn are searched and shown.
const SAID: usize = 1_500;

/// A turn of a session. Its text is in the session's journal.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The run that carried it last.
    pub(super) run: RunId,
    /// The entry of the session's journal with which it begins.
    pub(super) began: u64,
    /// The position of that entry among the store's commits. An entry never changes, so a journal that has it there has
    /// the rest of the turn as well.
    pub(super) position: u64,
    pub(super) began_at: Timestamp,
    /// The entry with which it ended, and its time; `None` as long as it has not ended.
    pub(super) ended: Option<(u64, Timestamp)>,
    /// The terms of both sides, in order.
    terms: Arc<[u32]>,
    /// The vector of its text, once an embedder has made it.
    pub(super) vector: Arc<OnceLock<Vec<f32>>>,
}

/// A term as a number. Two terms may have the same one; of four thousand million numbers hardly ever two in one question.
pub(super) fn number_of(term: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The terms of a turn with this text beside those that it has, in order.
fn with_terms_of(has: &[u32], text: &str) -> Arc<[u32]> {
    let new = terms(text);
    let mut all: Vec<u32> = has.to_vec();
    all.extend(new.iter().map(|term| number_of(term)));
    all.sort_unstable();
    all.dedup();
    all.into()
}

impl Turn {
    /// The share of these terms that the turn has.
    pub(super) fn keyword(&self, asked: &[u32]) -> f64 {
        let has = |term: &&u32| self.terms.binary_search(term).is_ok();
        asked.iter().filter(has).count() as f64 / asked.len().max(1) as f64
    }

    /// When something was last said in it.
    pub(super) fn at(&self) -> Timestamp {
        self.ended.map_or(self.began_at, |(_, at)| at)
    }
}

/// A person's message, for the index and for people.
pub(super) fn said(message: &Message) -> String {
    clean_line(&message.content(), SAID)
}

/// The answer to a turn, for the index and for people.
pub(super) fn answered(end: &TurnEnd) -> String {
    let mut messages = end.messages.iter().rev();
    let last = messages.find(|message| message.role == Role::Assistant);
    last.map_or_else(String::new, |message| said(message))
}

/// The turns of one session that count, as far as its journal was read.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTurns {
    /// How many entries were read.
    pub(super) entries: u64,
    /// The position of the last one.
    pub(super) position: u64,
    pub(super) owner: Option<Arc<str>>,
    turns: Vec<Turn>,
    /// How many turns went before these, to stay within a bound.
    dropped: u64,
}

impl SessionTurns {
    /// The turns that have ended.
    pub(super) fn ended(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.ended.is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// When something was last said.
    pub(super) fn at(&self) -> Timestamp {
        self.turns.last().map_or(Timestamp(0), Turn::at)
    }

    /// Reads the next entry of the journal.
    pub(super) fn add(&mut self, stored: &StoredLine, entry: Entry) {
        (self.entries, self.position) = (stored.sequence + 1, stored.position);
        match entry {
            Entry::TurnStarted(turn) => {
                let owner = turn.owner.as_deref().map(Arc::from);
                self.owner = self.owner.take().or(owner);
                self.turns.push(Turn {
                    run: turn.run,
                    began: stored.sequence,
                    position: stored.position,
                    began_at: stored.line.at,
                    ended: None,
                    terms: with_terms_of(&[], &said(&turn.message)),
                    vector: Arc::default(),
                });
            }
            Entry::TurnEnded(end) => {
                if let Some(turn) = self.turn_of(end.run) {
                    turn.terms = with_terms_of(&turn.terms, &answered(&end));
                    turn.ended = Some((stored.sequence, stored.line.at));
                    turn.vector = Arc::default();
                }
            }
            Entry::TurnContinued { run, next, .. } => {
                if let Some(turn) = self.turn_of(run) {
                    turn.run = next;
                }
            }
            Entry::SessionRewound { turns, .. } => {
                let kept = turns.saturating_sub(self.dropped);
                self.turns
                    .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
                self.dropped = self.dropped.min(turns);
            }
            Entry::SessionForked { owner, .. } => {
                self.owner = self.owner.take().or(owner.as_deref().map(Arc::from));
            }
            _ => {}
        }
    }

    /// Keeps only the last turns, at most this many.
    pub(super) fn keep_last(&mut self, most: usize) {
        let over = self.turns.len().saturating_sub(most);
        self.turns.drain(..over);
        self.dropped += over as u64;
    }

    fn turn_of(&mut self, run: RunId) -> Option<&mut Turn> {
        self.turns.iter_mut().rev().find(|turn| turn.run == run)
    }
}
