//! Tasks in a list.

use std::collections::HashSet;

use ghostlight_a2a::{
    protocol::{ListTasks, ListTasksResponse, ProtocolError, TaskState, timestamp_of},
    translation::known_state,
};
use ghostlight_actors::{
    contract::{RunFilter, RunRow, RunStatus},
    vocabulary::{RunId, Timestamp},
};

use super::{refused, tasks::Agent};

/// The number of tasks in a page: the default, and the maximum.
const PAGE: (u32, u32) = (50, 100);
/// How many of the latest runs are searched.
const LOOKED_THROUGH: usize = 10_000;

impl Agent {
    /// A page of the caller's tasks, among the latest runs.
    pub(super) async fn list(&self, query: ListTasks) -> Result<ListTasksResponse, ProtocolError> {
        let size = query.page_size.unwrap_or(PAGE.0);
        if !(1..=PAGE.1).contains(&size) {
            let text = format!("`pageSize` is 1 to {}", PAGE.1);
            return Err(ProtocolError::invalid(text));
        }
        let since = query.status_timestamp_after.as_deref().map(|text| {
            let wrong =
                || ProtocolError::invalid("`statusTimestampAfter` is a point in time of RFC 3339");
            timestamp_of(text).ok_or_else(wrong)
        });
        let since = since.transpose()?;
        let after = match query.page_token.as_str() {
            "" => None,
            token => Some(read_token(token).ok_or_else(|| {
                ProtocolError::invalid("`pageToken` is the `nextPageToken` of the page before")
            })?),
        };
        let mut rows = self.rows(&query.context_id).await?;
        rows.retain(|row| since.is_none_or(|since| row.updated_at >= since));
        if query.status != TaskState::Unspecified {
            rows = self.standing(rows, query.status).await?;
        }
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        let total_size = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        rows.retain(|row| after.is_none_or(|after| key(row) < after));
        let more = rows.len() > size as usize;
        rows.truncate(size as usize);
        let mut tasks = Vec::new();
        for row in &rows {
            let seen = self
                .seen(&self.asked.system.run(row.run), row, None)
                .await?;
            let mut task = seen.task.with_history(query.history_length);
            if !query.include_artifacts {
                task.artifacts.clear();
            }
            tasks.push(task);
        }
        let next = rows.last().filter(|_| more);
        let next_page_token = next.map_or_else(String::new, |row| {
            format!("{}.{}", row.updated_at.0, row.run)
        });
        Ok(ListTasksResponse {
            tasks,
            next_page_token,
            page_size: size,
            total_size,
        })
    }

    /// The caller's tasks, of one context or of all.
    async fn rows(&self, context: &str) -> Result<Vec<RunRow>, ProtocolError> {
        let mut filter = RunFilter::default();
        (filter.roots, filter.limit) = (true, LOOKED_THROUGH);
        if !context.is_empty() {
            let session = self
                .asked
                .session(&self.team, context)
                .map_err(|problem| refused(&problem))?;
            filter.session = Some(session);
        }
        let store = self.asked.system.store();
        let found = store.runs(filter).await;
        let mut rows = Vec::new();
        for row in found.map_err(|error| refused(&error.into()))? {
            let is_task = row.team == self.team && row.session.is_some();
            let listed = self.asked.lists(&row).await;
            if is_task && listed.map_err(|problem| refused(&problem))? {
                rows.push(row);
            }
        }
        // A run and its continuation in another journal are one task.
        let continued = rows.iter().filter(|row| row.status == RunStatus::Continued);
        let continuations: HashSet<RunId> = continued.map(|row| row.run.next()).collect();
        rows.retain(|row| !continuations.contains(&row.run));
        Ok(rows)
    }

    /// The rows of tasks in the wanted state. Where a run's row does not tell the state, its events do.
    async fn standing(
        &self,
        rows: Vec<RunRow>,
        wanted: TaskState,
    ) -> Result<Vec<RunRow>, ProtocolError> {
        let mut found = Vec::new();
        for row in rows {
            let state = match known_state(row.status) {
                Some(state) => state,
                None => {
                    let run = self.asked.system.run(row.run);
                    self.seen(&run, &row, None).await?.task.status.state
                }
            };
            if state == wanted {
                found.push(row);
            }
        }
        Ok(found)
    }
}

/// The key by which a list is sorted.
fn key(row: &RunRow) -> (Timestamp, RunId) {
    (row.updated_at, row.run)
}

fn read_token(token: &str) -> Option<(Timestamp, RunId)> {
    let (at, run) = token.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), run.parse().ok()?))
}
