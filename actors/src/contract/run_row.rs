//! The rows of a store's index of runs, and the filters for lists of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RunStatus;
use crate::vocabulary::{JournalId, OperationId, RunId, SessionId, Timestamp};

/// How far [`RunRow::updated_at`] may be behind the last entry of a run that is at work.
const ROW_LAG: Duration = Duration::from_secs(60);

/// The index's knowledge of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// The run as which it began, where it went on from there in this journal. It reads that run's mailbox, too: what comes
    /// for the run stays there in whatever journal the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<RunId>,
    /// The root of its tree.
    pub root: RunId,
    /// The run that delegated it.
    pub parent: Option<RunId>,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The owner of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The team.
    pub team: String,
    /// The highest version of the team's code that has carried it. Processes with older code leave it alone.
    #[serde(default)]
    pub version: u32,
    /// The agent that carries it.
    pub agent: String,
    /// The agents from the root's to this one.
    pub path: Vec<String>,
    /// Its status.
    pub status: RunStatus,
    /// The first characters of its input, for lists.
    pub title: String,
    /// When it must be woken, if it sleeps.
    pub wake_at: Option<Timestamp>,
    /// When it began.
    pub started_at: Timestamp,
    /// When its last entry was written; up to a minute earlier while the run is at work.
    pub updated_at: Timestamp,
    /// The questions that it waits for, each with the sequence number of its entry, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<(OperationId, u64)>,
}

impl RunRow {
    /// The row of a root run that begins now.
    pub fn new(run: RunId, team: impl Into<String>, agent: impl Into<String>) -> Self {
        let agent = agent.into();
        Self {
            run,
            first: None,
            root: run,
            parent: None,
            session: None,
            owner: None,
            team: team.into(),
            version: 0,
            path: vec![agent.clone()],
            agent,
            status: RunStatus::Running,
            title: String::new(),
            wake_at: None,
            started_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            asks: Vec::new(),
        }
    }

    /// The run as which it began: its own id, unless it went on from another journal.
    pub fn begun_as(&self) -> RunId {
        self.first.unwrap_or(self.run)
    }

    /// The mailboxes that it reads: its own, for what belongs to this journal, and the one of the run as which it began.
    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = JournalId> {
        [Some(self.run), self.first]
            .into_iter()
            .flatten()
            .map(JournalId::Run)
    }

    /// The mailboxes that are deleted with this row. One that the run continues with stays: see
    /// [`mailbox_left`](Self::mailbox_left).
    pub fn mailboxes_deleted(&self) -> impl Iterator<Item = JournalId> {
        let left = self.mailbox_left().map(|(mailbox, _)| mailbox);
        self.mailboxes()
            .filter(move |mailbox| Some(mailbox) != left.as_ref())
    }

    /// The mailbox that stays when the row is deleted, since the run goes on in another journal, and the time until when
    /// the ids of its taken items are forgotten with the row: a run that goes on for ever would keep more and more.
    pub fn mailbox_left(&self) -> Option<(JournalId, Timestamp)> {
        let goes_on = self.status == RunStatus::Continued;
        goes_on.then(|| (self.begun_as().into(), self.updated_at))
    }

    /// A time by which its last entry was written.
    pub(crate) fn last_entry_by(&self) -> Timestamp {
        match self.status.is_under_way() {
            true => self.updated_at.after(ROW_LAG),
            false => self.updated_at,
        }
    }

    /// Whether the row is to be written again with an entry of this time, although nothing else of it has changed.
    pub(crate) fn is_behind(&self, entry_at: Timestamp) -> bool {
        entry_at.since(self.updated_at) >= ROW_LAG
    }

    /// Whether the run continues without input from outside by this time: it runs, is being cancelled, or waits until
    /// this time or an earlier one.
    pub fn is_awake_by(&self, time: Timestamp) -> bool {
        self.due().is_some_and(|due| due <= time)
    }

    /// The time by which the run continues without input from outside: 0 if it runs or is being cancelled.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        match self.status {
            RunStatus::Running | RunStatus::Cancelling => Some(Timestamp(0)),
            RunStatus::Waiting => self.wake_at,
            _ => None,
        }
    }
}

/// A filter for lists of runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only runs that have not ended.
    pub open: bool,
    /// Only runs that nobody delegated: the roots of trees, and the runs that continue them.
    pub roots: bool,
    /// Only runs that go on by themselves by this time: see [`RunRow::is_awake_by`]. A System asks for them again and
    /// again, so runs that wake later must not affect the cost.
    pub awake_by: Option<Timestamp>,
    /// Only runs of this session.
    pub session: Option<SessionId>,
    /// Only runs whose id begins with these hexadecimal digits.
    pub prefix: Option<String>,
    /// Only runs of this tree.
    pub root: Option<RunId>,
    /// Only runs of this team.
    pub team: Option<String>,
    /// Only runs with one of these statuses; an empty list takes any.
    pub statuses: Vec<RunStatus>,
    /// Only runs that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only runs after this one in the order of the list: the next page. If the run was deleted meanwhile, the page
    /// holds the runs that began before it.
    pub after: Option<RunRow>,
    /// The most rows; 0 means no bound.
    pub limit: usize,
}

impl RunFilter {
    /// All runs that have not ended.
    pub fn open() -> Self {
        Self {
            open: true,
            ..Self::default()
        }
    }
}
