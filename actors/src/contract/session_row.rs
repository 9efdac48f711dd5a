//! Sessions in a store's lists.

use serde::{Deserialize, Serialize};

use crate::vocabulary::{SessionId, Timestamp};

/// The knowledge that a store has of a session without reading its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub session: SessionId,
    /// How many entries its journal has.
    pub entries: u64,
    /// When its last entry was written.
    pub updated_at: Timestamp,
}

/// A filter for lists of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only those with this team.
    pub team: Option<String>,
    /// Only those whose last entry was written at this time or later.
    pub since: Option<Timestamp>,
    /// Only those after this one in the order of the list.
    pub after: Option<SessionRow>,
    /// The most rows; 0 means no bound.
    pub limit: usize,
}

impl SessionFilter {
    /// Whether the filter accepts this session; `limit` does not count here.
    pub fn wants(&self, row: &SessionRow) -> bool {
        let place = |row: &SessionRow| (std::cmp::Reverse(row.updated_at), row.session.to_string());
        self.team
            .as_ref()
            .is_none_or(|team| *row.session.team == **team)
            && self.since.is_none_or(|since| row.updated_at >= since)
            && self
                .after
                .as_ref()
                .is_none_or(|after| place(row) > place(after))
    }

    /// The sessions that the filter accepts, in the order of the list.
    pub fn pick(&self, rows: impl IntoIterator<Item = SessionRow>) -> Vec<SessionRow> {
        let mut wanted: Vec<SessionRow> = rows.into_iter().filter(|row| self.wants(row)).collect();
        wanted
            .sort_by_cached_key(|row| (std::cmp::Reverse(row.updated_at), row.session.to_string()));
        if self.limit > 0 {
            wanted.truncate(self.limit);
        }
        wanted
    }
}
