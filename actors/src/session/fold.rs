use std::collections::BTreeMap;

use ghostlight_safety::cut;
use serde::{Deserialize, Serialize};

use crate::{
    contract::{EntryError, StoreError, StoredLine},
    vocabulary::{
        Digest, Entry, Message, RunId, SessionTurn, Spent, Transcript, TurnEnd, canonical,
    },
};

/// The state to which a session's journal is folded: the conversation, the agent that answers next,
/// and the turns. A checkpoint of it only saves reading the journal.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionFold {
    /// The number of folded entries.
    pub entries: u64,
    /// The conversation.
    pub transcript: Transcript,
    /// The agent that answers the next turn; the team's root before the first.
    pub active_agent: Option<String>,
    /// The turns, by the callers' ids.
    pub turns: BTreeMap<String, KnownTurn>,
    /// The owner of the session.
    pub owner: Option<String>,
    /// The run of the turn that has begun and not ended.
    pub open: Option<RunId>,
    /// The run with which the open turn began, if it goes on in another run.
    pub origin: Option<RunId>,
    /// The runs of turns that were quarantined: parked for crashing, and not ended since. Each has the number of its turn
    /// among those that count, from 1, or 0 where a rewind took the turn back: then its end does not count.
    pub aside: BTreeMap<RunId, u64>,
    /// The consumption of all runs.
    pub spent: Spent,
    /// The first characters of each turn that counts.
    pub titles: Vec<String>,
}

/// A turn that was sent to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KnownTurn {
    /// Its run.
    pub run: RunId,
    /// The mark that tells its message from others; `None` for a turn that was said to a run under way.
    pub said: Option<u64>,
}

impl KnownTurn {
    /// Whether this is its message, as far as is known.
    pub(crate) fn says(&self, message: &Message) -> bool {
        self.said.is_none_or(|said| said == told_apart(message))
    }
}

fn told_apart(message: &Message) -> u64 {
    Digest::of(&canonical::to_vec(message)).short()
}

/// How many characters a turn's title has at most.
const TITLE: usize = 80;

impl SessionFold {
    /// Folds further entries.
    ///
    /// # Errors
    /// When an entry does not read.
    pub fn extend(&mut self, lines: &[StoredLine], place: &str) -> Result<(), StoreError> {
        for stored in lines {
            let entry = stored.line.decode();
            let at = |error: EntryError| error.at(stored.sequence, &format!("session {place}"));
            self.add(entry.map_err(at)?);
        }
        Ok(())
    }

    /// Folds the first entry of a turn.
    pub(crate) fn add_start(&mut self, turn: SessionTurn) {
        self.entries += 1;
        self.turn_started(turn);
    }

    /// Folds the last entry of a turn.
    pub(crate) fn add_end(&mut self, end: &TurnEnd) {
        self.entries += 1;
        self.turn_ended(end);
    }

    /// Folds one entry.
    pub fn add(&mut self, entry: Entry) {
        self.entries += 1;
        match entry {
            Entry::TurnStarted(turn) => self.turn_started(*turn),
            Entry::TurnEnded(end) => self.turn_ended(&end),
            Entry::TurnContinued { run, next, heard } => {
                self.heard(heard, next);
                if let Some(number) = self.aside.remove(&run) {
                    self.aside.insert(next, number);
                } else {
                    self.open = Some(next);
                    self.origin.get_or_insert(run);
                }
            }
            Entry::TurnQuarantined { run, heard } => {
                let number = self.close(run);
                self.heard(heard, run);
                self.aside.insert(run, number);
            }
            Entry::SessionRewound {
                turns,
                messages,
                active_agent,
                ..
            } => {
                let kept = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                self.transcript = self.transcript.truncated(kept(messages));
                self.titles.truncate(kept(turns));
                let behind = self.aside.values_mut().filter(|number| **number > turns);
                behind.for_each(|number| *number = 0);
                self.active_agent = active_agent;
            }
            Entry::SessionForked { owner, .. } => self.owner = self.owner.take().or(owner),
            _ => {}
        }
    }

    /// The run that carries the turn which began with this run.
    pub fn current(&self, run: RunId) -> RunId {
        let goes_on = self.origin == Some(run);
        self.open.filter(|_| goes_on).unwrap_or(run)
    }

    /// Closes the turn of this run, and returns its number; 0 for one that was taken back.
    fn close(&mut self, run: RunId) -> u64 {
        self.aside.remove(&run).unwrap_or_else(|| {
            (self.open, self.origin) = (None, None);
            self.titles.len() as u64
        })
    }

    fn turn_started(&mut self, turn: SessionTurn) {
        self.open = Some(turn.run);
        let said = turn.message.content();
        self.titles.push(cut(&said, TITLE).into_owned());
        let (run, said) = (turn.run, Some(told_apart(&turn.message)));
        self.turns.insert(turn.turn, KnownTurn { run, said });
        if self.owner.is_none() {
            self.owner = turn.owner;
        }
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        let number = self.close(end.run);
        self.heard(end.heard.iter().cloned(), end.run);
        self.spent += end.spent;
        if number == 0 {
            return;
        }
        self.transcript.extend(end.messages.iter().cloned());
        if self.active_agent.as_ref() != Some(&end.active_agent) {
            self.active_agent = Some(end.active_agent.clone());
        }
    }

    /// Notes turns that were said to a run under way. Sent again, they are the same turns.
    fn heard(&mut self, turns: impl IntoIterator<Item = String>, run: RunId) {
        let known = KnownTurn { run, said: None };
        self.turns
            .extend(turns.into_iter().map(|turn| (turn, known)));
    }
}
