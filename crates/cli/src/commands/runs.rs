//! `ghostlight runs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    time::Duration,
};

use ghostlight_actors::{
    actor::{OpenRuns, newer_runs},
    contract::{Clock as _, RunFilter, RunRow, RunStatus, SystemClock},
    vocabulary::{JournalId, RunId, Timestamp},
};
use serde::Serialize;

use super::sessions::before;
use crate::{
    arguments::Runs,
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    more_arguments::State,
    plain_text, when,
};

/// How many runs a person sees at once.
const PAGE: usize = 50;

pub(super) async fn runs(arguments: Runs) -> Result<Exit, Failure> {
    let Some(keeping) = Keeping::open_to_read(&arguments.store).await? else {
        return super::no_runs_yet(&arguments.store);
    };
    if let Some(time) = arguments.silent {
        return silent(&keeping, time, arguments.show.json).await;
    }
    let page = page(&keeping, &arguments).await?;
    let open = page.rows.iter().filter(|(row, _)| !row.status.is_ended());
    let open: Vec<RunRow> = open.map(|(row, _)| row.clone()).collect();
    let newer = newer_runs(&keeping.store, &open).await?;
    let newer: BTreeMap<RunId, String> = newer
        .into_iter()
        .map(|(row, error)| (row.run, error.to_string()))
        .collect();
    if arguments.show.json {
        for (row, interrupted) in &page.rows {
            let left_alone = newer.get(&row.run).map(String::as_str);
            let interrupted = *interrupted;
            print_json(&Listed {
                row,
                interrupted,
                left_alone,
            })?;
        }
    } else {
        super::note(&format!("store {}", keeping.store.description()));
        if page.rows.is_empty() {
            let more = if ended_too(&arguments) {
                ""
            } else {
                "; `ghostlight runs --all` lists the ended ones"
            };
            let open = if ended_too(&arguments) { "" } else { "open " };
            super::note(&format!("no {open}runs{more}"));
            return Ok(Exit::Done);
        }
        super::print(&lines(&page.rows).join("\n"))?;
        for (run, error) in &newer {
            super::note(&format!("{} is left alone: {error}", run.short()));
        }
    }
    if let Some(next) = page.next {
        super::note(&format!("for more, add --after {next}"));
    }
    Ok(Exit::Done)
}

/// Lists the open runs that recorded nothing for this time, and says how all open runs stand.
async fn silent(keeping: &Keeping, time: Duration, json: bool) -> Result<Exit, Failure> {
    let now = SystemClock::new().now();
    let open = OpenRuns::read(&keeping.store, now, time).await?;
    let mut rows = Vec::new();
    for run in &open.expired {
        rows.extend(keeping.store.run(*run).await?);
    }
    let rows: Vec<(RunRow, bool)> = with_owners(keeping, rows).await?.collect();
    if json {
        for (row, interrupted) in &rows {
            print_json(&Listed {
                row,
                interrupted: *interrupted,
                left_alone: None,
            })?;
        }
    } else if !rows.is_empty() {
        super::print(&lines(&rows).join("\n"))?;
    }
    super::note(&said(&open, now));
    Ok(Exit::Done)
}

/// How the open runs stand, in words.
fn said(open: &OpenRuns, now: Timestamp) -> String {
    if open.total == 0 {
        return "no run is open".to_owned();
    }
    let began = |age: Duration| {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        when::ago(Timestamp(now.0.saturating_sub(age)), now)
    };
    format!(
        "{} open: {} under way, {} waiting, {} parked, {} cancelling; {} of them silent; the oldest began {}, on \
         average they began {}",
        super::counted(open.total as u64, "run"),
        open.running,
        open.waiting,
        open.parked,
        open.cancelling,
        open.expired.len(),
        began(open.oldest),
        began(open.average_age),
    )
}

/// Whether ended runs are wanted, too.
fn ended_too(arguments: &Runs) -> bool {
    arguments.all || !arguments.state.is_empty()
}

/// Some runs, each with whether it was interrupted: the process that carried it has ended.
struct Page {
    rows: Vec<(RunRow, bool)>,
    /// The last of them, if there are more.
    next: Option<RunId>,
}

async fn page(keeping: &Keeping, arguments: &Runs) -> Result<Page, Failure> {
    let usual = if arguments.show.json {
        usize::MAX
    } else {
        PAGE
    };
    let limit = arguments.limit.map_or(usual, NonZeroUsize::get);
    let now = SystemClock::new().now();
    let mut filter = RunFilter::default();
    (filter.roots, filter.open) = (true, !ended_too(arguments));
    filter.team.clone_from(&arguments.team);
    filter.statuses = arguments.state.iter().flat_map(statuses).copied().collect();
    filter.since = arguments.since.map(|age| before(now, age));
    // One more than the limit tells whether there is a next page.
    filter.limit = limit.saturating_add(1);
    if let Some(after) = &arguments.after {
        filter.after = Some(keeping.find(after).await?);
    }
    let wished = |(row, interrupted): &(RunRow, bool)| {
        let state = state_of(row.status, *interrupted);
        arguments.state.is_empty() || state.is_some_and(|state| arguments.state.contains(&state))
    };
    let mut rows = Vec::new();
    loop {
        let found = keeping.store.runs(filter.clone()).await?;
        let is_last = found.len() < filter.limit;
        filter.after = found.last().cloned();
        rows.extend(with_owners(keeping, found).await?.filter(wished));
        // The store does not distinguish runs in progress from interrupted ones.
        if is_last || rows.len() > limit {
            break;
        }
    }
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(row, _)| row.run);
    Ok(Page { rows, next })
}

/// These runs, each with whether it was interrupted.
async fn with_owners(
    keeping: &Keeping,
    rows: Vec<RunRow>,
) -> Result<impl Iterator<Item = (RunRow, bool)> + use<>, Failure> {
    let asked: Vec<RunId> = rows
        .iter()
        .filter(|row| row.status.is_under_way())
        .map(|row| row.run)
        .collect();
    let journals = asked.iter().map(|run| JournalId::Run(*run)).collect();
    let held = keeping.store.held_elsewhere(journals).await?;
    let dead = asked.into_iter().zip(held).filter(|(_, held)| !held);
    let dead: BTreeSet<RunId> = dead.map(|(run, _)| run).collect();
    Ok(rows.into_iter().map(move |row| {
        let interrupted = dead.contains(&row.run);
        (row, interrupted)
    }))
}

/// The statuses in the store that this state covers.
fn statuses(state: &State) -> &'static [RunStatus] {
    match state {
        State::Running => &[RunStatus::Running],
        State::Interrupted => &[RunStatus::Running, RunStatus::Cancelling],
        State::Waiting => &[RunStatus::Waiting],
        State::Parked => &[RunStatus::Parked],
        State::Cancelling => &[RunStatus::Cancelling],
        State::Answered => &[RunStatus::Answered],
        State::Stopped => &[RunStatus::Stopped],
        State::Failed => &[RunStatus::Failed],
        State::Cancelled => &[RunStatus::Cancelled],
    }
}

fn state_of(status: RunStatus, interrupted: bool) -> Option<State> {
    Some(match status {
        RunStatus::Running | RunStatus::Cancelling if interrupted => State::Interrupted,
        RunStatus::Running => State::Running,
        RunStatus::Waiting => State::Waiting,
        RunStatus::Parked => State::Parked,
        RunStatus::Cancelling => State::Cancelling,
        RunStatus::Answered => State::Answered,
        RunStatus::Stopped => State::Stopped,
        RunStatus::Failed => State::Failed,
        RunStatus::Cancelled => State::Cancelled,
        _ => return None,
    })
}

/// A run as a line of JSON.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    row: &'a RunRow,
    /// Whether it is in progress and the process that carried it has ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// Why this program leaves it to a newer version.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_alone: Option<&'a str>,
}

pub(super) fn table(rows: &[RunRow]) -> Vec<String> {
    let rows: Vec<(RunRow, bool)> = rows.iter().map(|row| (row.clone(), false)).collect();
    lines(&rows)
}

fn lines(rows: &[(RunRow, bool)]) -> Vec<String> {
    let now = SystemClock::new().now();
    let team = |row: &RunRow| plain_text::line(&row.team, 24);
    let width = rows
        .iter()
        .map(|(row, _)| team(row).chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    let line = |id: &str, status: &str, begun: &str, team: &str, title: &str| {
        format!("{id:8}  {status:11}  {begun:>10}  {team:width$}  {title}")
            .trim_end()
            .to_owned()
    };
    let heading = line("run", "status", "begun", "team", "task");
    let of = |(row, interrupted): &(RunRow, bool)| {
        let status = match interrupted {
            true => "interrupted",
            false => row.status.as_str(),
        };
        let begun = when::ago(row.started_at, now);
        let title = plain_text::line(&row.title, 60);
        line(&row.run.short(), status, &begun, &team(row), &title)
    };
    std::iter::once(heading)
        .chain(rows.iter().map(of))
        .collect()
}
