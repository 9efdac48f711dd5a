//! A session's journal as a list of turns.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    contract::{StoreError, StoredLine},
    vocabulary::{
        Entry, JournalId, Message, Part, Role, RunId, SessionId, SessionTurn, Timestamp, TurnEnd,
    },
};

/// The turns of a session that count, in order; turns that a rewind took back are left out.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionLog {
    /// The turns.
    pub turns: Vec<LoggedTurn>,
    /// The owner of the session.
    pub owner: Option<String>,
    /// The agent that answers the next turn; the team's root before the first.
    pub active_agent: Option<String>,
    /// How many messages the conversation has.
    pub messages: u64,
    /// How often the session was rewound.
    pub rewound: u64,
}

/// One turn of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoggedTurn {
    /// Its number among the turns that count, from 1.
    pub number: u64,
    /// The caller's id of the turn.
    pub turn: String,
    /// The run with which it began.
    pub run: RunId,
    /// The run that carries it, or carried it last.
    pub carried_by: RunId,
    /// The text of the turn.
    pub said: String,
    /// The files of the turn, by their names, or by their media types where they have none.
    pub files: Vec<String>,
    /// The answer that was given last; `None` as long as the turn has not ended.
    pub answer: Option<String>,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether the turn was quarantined: its run is parked for crashing, and the session went on.
    pub quarantined: bool,
    /// The entry of the session's journal with which it begins.
    pub entry: u64,
    /// The place of that entry in the order of the store's commits.
    pub position: u64,
    /// How many messages the conversation had before it.
    pub messages_before: u64,
    /// The agent that was to answer it.
    pub agent_before: Option<String>,
}

fn file_name(part: &Part) -> Option<String> {
    let Part::Data(data) = part else { return None };
    let name = data.name.clone().filter(|name| !name.is_empty());
    Some(name.unwrap_or_else(|| data.media_type.clone()))
}

impl LoggedTurn {
    /// Whether the turn is under way.
    pub fn is_open(&self) -> bool {
        self.ended_at.is_none() && !self.quarantined
    }
}

impl SessionLog {
    /// The turns of a session's journal, read from its beginning.
    ///
    /// # Errors
    /// When an entry does not read.
    pub fn of(lines: &[StoredLine], session: &SessionId) -> Result<Self, StoreError> {
        let mut log = Self::default();
        for stored in lines {
            let journal = JournalId::Session(session.clone());
            log.add(stored, stored.decode(&journal)?);
        }
        Ok(log)
    }

    /// Only its last turns, at most this many. They keep their numbers.
    #[must_use]
    pub fn last(mut self, turns: usize) -> Self {
        let passed = self.turns.len().saturating_sub(turns);
        self.turns.drain(..passed);
        self
    }

    /// Only the turns that began at this time or later. They keep their numbers.
    #[must_use]
    pub fn since(mut self, time: Timestamp) -> Self {
        self.turns.retain(|turn| turn.began_at >= time);
        self
    }

    /// The run of the turn that is under way.
    pub fn open(&self) -> Option<RunId> {
        let last = self.turns.last().filter(|turn| turn.is_open());
        last.map(|turn| turn.carried_by)
    }

    fn add(&mut self, stored: &StoredLine, entry: Entry) {
        let at = stored.line.at;
        match entry {
            Entry::TurnStarted(turn) => self.started(stored, *turn),
            Entry::TurnEnded(end) => self.ended(*end, at),
            Entry::TurnContinued { run, next, .. } => {
                if let Some(turn) = self.turn_of(run) {
                    turn.carried_by = next;
                }
            }
            Entry::TurnQuarantined { run, .. } => {
                if let Some(turn) = self.turn_of(run) {
                    turn.quarantined = true;
                }
            }
            Entry::SessionRewound {
                turns,
                messages,
                active_agent,
                ..
            } => {
                let kept = usize::try_from(turns).unwrap_or(usize::MAX);
                self.turns.truncate(kept);
                self.messages = messages;
                self.active_agent = active_agent;
                self.rewound += 1;
            }
            Entry::SessionForked { owner, .. } => self.owner = self.owner.take().or(owner),
            _ => {}
        }
    }

    fn turn_of(&mut self, run: RunId) -> Option<&mut LoggedTurn> {
        let mut turns = self.turns.iter_mut().rev();
        turns.find(|turn| turn.carried_by == run)
    }

    fn started(&mut self, stored: &StoredLine, turn: SessionTurn) {
        if self.owner.is_none() {
            self.owner = turn.owner;
        }
        self.turns.push(LoggedTurn {
            number: self.turns.len() as u64 + 1,
            turn: turn.turn,
            run: turn.run,
            carried_by: turn.run,
            said: turn.message.content(),
            files: turn.message.parts.iter().filter_map(file_name).collect(),
            answer: None,
            began_at: stored.line.at,
            ended_at: None,
            quarantined: false,
            entry: stored.sequence,
            position: stored.position,
            messages_before: self.messages,
            agent_before: self.active_agent.clone(),
        });
    }

    fn ended(&mut self, end: TurnEnd, at: Timestamp) {
        // The end of a turn that was taken back does not count.
        let Some(turn) = self.turn_of(end.run) else {
            return;
        };
        turn.answer = Some(answer(&end.messages));
        (turn.ended_at, turn.quarantined) = (Some(at), false);
        self.messages += end.messages.len() as u64;
        self.active_agent = Some(end.active_agent);
    }
}

fn answer(messages: &[Arc<Message>]) -> String {
    let mut said = messages.iter().rev();
    let last = said.find(|message| message.role == Role::Assistant);
    last.map_or_else(String::new, |message| message.content())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{contract::Line, session::SessionFold};

    fn lines(entries: Vec<Entry>) -> Vec<StoredLine> {
        let line = |(place, entry): (usize, Entry)| StoredLine {
            sequence: place as u64,
            position: 10 + place as u64,
            line: Line::encode(Timestamp(place as u64), &entry).unwrap(),
        };
        entries.into_iter().enumerate().map(line).collect()
    }

    fn turn(id: u128, text: &str) -> [Entry; 2] {
        let run = RunId::from_random(id);
        let said = SessionTurn::new(text, run, Message::user(text));
        let messages = vec![
            Arc::new(Message::user(text)),
            Arc::new(Message::assistant(format!("{text}!"))),
        ];
        let end = TurnEnd::new(run, format!("agent {text}"), messages);
        [
            Entry::TurnStarted(Box::new(said)),
            Entry::TurnEnded(Box::new(end)),
        ]
    }

    #[test]
    fn a_rewound_session_goes_on_from_the_turn_before_in_the_log_and_in_the_fold() {
        let mut entries: Vec<Entry> = [turn(1, "a"), turn(2, "b"), turn(3, "c")].concat();
        entries.push(Entry::SessionRewound {
            turns: 1,
            messages: 2,
            active_agent: Some("agent a".to_owned()),
            state: Default::default(),
        });
        entries.extend(turn(4, "d"));
        let lines = lines(entries);
        let id = SessionId {
            team: "t".into(),
            key: "s".into(),
        };
        let log = SessionLog::of(&lines, &id).unwrap();
        let said: Vec<&str> = log.turns.iter().map(|turn| turn.said.as_str()).collect();
        assert_eq!(said, ["a", "d"]);
        assert_eq!(log.turns[1].number, 2);
        assert_eq!(log.turns[1].messages_before, 2);
        assert_eq!(log.turns[1].answer.as_deref(), Some("d!"));
        assert_eq!(log.open(), None);
        let mut fold = SessionFold::default();
        fold.extend(&lines, "s").unwrap();
        let said: Vec<String> = fold
            .transcript
            .messages()
            .iter()
            .map(|m| m.content())
            .collect();
        assert_eq!(said, ["a", "a!", "d", "d!"]);
        assert_eq!(fold.active_agent.as_deref(), Some("agent d"));
        assert_eq!(fold.turns.len(), 4, "what was said keeps its run");
    }
}
