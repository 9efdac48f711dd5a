//! The events of a run and the runs below it.

use std::collections::{BTreeSet, VecDeque};

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response, sse},
};
use futures_util::StreamExt as _;
use ghostlight_actors::{
    actor::EventStream,
    contract::{RunFilter, RunRow, RunStatus, StoreError, StoreHandle, TreeLine},
    run::Observer,
    vocabulary::{Event, EventRecord, RunId},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Asked, GET, READ};
use crate::{
    address::{Path, Query},
    endpoint::Endpoints,
    problem::Problem,
    server::Shared,
    sse::{Place, last_event_id, respond, wants_stream},
};

/// The number of events in a page: the default, and the maximum.
const PAGE: (usize, usize) = (200, 1000);
/// The least and the most entries that are read at once.
const READ_AT_ONCE: (usize, usize) = (16, 512);
/// How many readings are kept for their next page. Each takes a few hundred bytes for every run of its tree.
const READINGS: usize = 32;

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/runs/{run}/events",
            READ,
            "The events of a run and of all runs below it: a page, or with `Accept: text/event-stream` a stream from \
             the first, or from `Last-Event-ID` on, and then live.",
            events,
        )
        .asks::<EventsQuery>()
        .gives::<Page>()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Only events behind this one: the `next` of the page before, or the id of an event of a stream.
    after: Option<String>,
    /// The most events in a page; 200 when left out, 1000 at the most.
    limit: Option<usize>,
    /// Whether a stream shows what is under way and not recorded, such as pieces of a model's answer; yes, when left
    /// out.
    previews: Option<bool>,
    /// Whether a stream shows what is under way in this process alone, and asks no other one: processes ask each other so.
    own: Option<bool>,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    /// Events in the order of their commits: `run`, `sequence`, `position`, `part` (where an entry has several), `at`,
    /// `path`, `type`, `data`.
    #[schemars(with = "Vec<Value>")]
    events: Vec<EventRecord>,
    /// The value of `after` for the next page; `null` where there are no more events now.
    next: Option<String>,
}

async fn events(
    asked: Asked,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (run, row) = asked.run(&id).await?;
    let after = match (last_event_id(&headers)?, &query.after) {
        (Some(last), _) => Some(last),
        (None, after) => after.as_deref().map(str::parse::<Place>).transpose()?,
    };
    if !wants_stream(&headers) {
        let within = within(&asked, &row).await?;
        let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
        return Ok(Json(page(&asked, &row, within, (after, limit)).await?).into_response());
    }
    let is_over = row.status.is_ended() && row.status != RunStatus::Continued;
    if let Some(after) = after.filter(|_| is_over) {
        // Reading one entry is quick, and a second event of the same entry is rare.
        let more = asked
            .system
            .store()
            .read_tree(row.root, after.position, 1)
            .await?;
        if more.is_empty()
            && page(&asked, &row, None, (Some(after), 1))
                .await?
                .events
                .is_empty()
        {
            // To browsers this status means that they are not to reconnect.
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let mut events = match query.own {
        Some(true) => run.own_events(),
        _ => run.events(),
    };
    if let Some(after) = after {
        events = events.after_event(after.position, after.part);
    }
    if query.previews == Some(false) {
        events = events.recorded();
    }
    Ok(stream(&asked.state, events))
}

/// A run below the root, with the runs below it that exist by now.
#[derive(Debug)]
pub(super) struct Within {
    top: RunId,
    runs: BTreeSet<RunId>,
}

impl Within {
    /// Whether an event belongs to these runs; an event that starts a run below them adds it.
    fn has(&mut self, record: &EventRecord) -> bool {
        if let Event::RunStarted {
            parent: Some(parent),
            ..
        } = &record.event
            && self.runs.contains(parent)
        {
            self.runs.insert(record.run);
        }
        self.runs.contains(&record.run)
    }
}

/// The part of a run's tree that is shown; `None` where that is the whole tree.
async fn within(asked: &Asked, row: &RunRow) -> Result<Option<Within>, Problem> {
    if row.root == row.run {
        return Ok(None);
    }
    let mut filter = RunFilter::default();
    filter.root = Some(row.root);
    let mut rows = asked.system.store().runs(filter).await?;
    rows.sort_by_key(|row| row.path.len());
    let mut within = Within {
        top: row.run,
        runs: BTreeSet::from([row.run]),
    };
    for row in rows {
        if row
            .parent
            .is_some_and(|parent| within.runs.contains(&parent))
        {
            within.runs.insert(row.run);
        }
    }
    Ok(Some(within))
}

/// The events behind a place, up to a limit.
async fn page(
    asked: &Asked,
    row: &RunRow,
    mut within: Option<Within>,
    (after, limit): (Option<Place>, usize),
) -> Result<Page, Problem> {
    let store = asked.system.store();
    let top = within.as_ref().map_or(row.root, |within| within.top);
    let readings = &asked.state.readings;
    let mut reading = readings.take(top, after).unwrap_or_default();
    let mut events: Vec<EventRecord> = Vec::new();
    let mut has_more = false;
    'page: loop {
        let most = (limit + 1 - events.len()).clamp(READ_AT_ONCE.0, READ_AT_ONCE.1);
        let lines = store.read_tree(row.root, reading.read, most).await?;
        let is_last = lines.len() < most;
        // The rest of an entry of which the page before had some events comes first.
        for line in [None].into_iter().chain(lines.into_iter().map(Some)) {
            if let Some(line) = line {
                reading.observe(store, &line).await?;
            }
            while let Some(record) = reading.rest.pop_front() {
                let is_wanted = within.as_mut().is_none_or(|within| within.has(&record));
                if !is_wanted || Place::of(&record) <= after {
                    continue;
                }
                if events.len() == limit {
                    reading.rest.push_front(record);
                    has_more = true;
                    break 'page;
                }
                events.push(record);
            }
        }
        if is_last {
            break;
        }
    }
    let end = events.last().and_then(Place::of).or(after);
    let events = events.into_iter().map(EventRecord::redacted).collect();
    if let Some(end) = end {
        readings.keep(top, end, reading);
    }
    let next = end.filter(|_| has_more).map(|place| place.to_string());
    Ok(Page { events, next })
}

/// A tree that is read page by page. The meaning of an entry depends on the entries before it, so the observer of one
/// page is kept for the next.
#[derive(Debug, Default)]
struct Reading {
    observer: Observer,
    /// The position of the last entry that was observed.
    read: u64,
    /// The events of that entry that no page has shown yet.
    rest: VecDeque<EventRecord>,
}

impl Reading {
    async fn observe(&mut self, store: &StoreHandle, line: &TreeLine) -> Result<(), Problem> {
        if !self.observer.knows(line.run)
            && let Some(row) = store.run(line.run).await?
        {
            self.observer.learn(&row);
        }
        self.rest = self.observer.observe(line)?.into();
        self.read = line.stored.position;
        Ok(())
    }
}

/// The latest readings, by the run and the last event of their page; the page behind that event continues the reading.
/// A page without a kept reading is read from the tree's beginning.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<VecDeque<(RunId, Place, Reading)>>);

impl Readings {
    fn take(&self, run: RunId, after: Option<Place>) -> Option<Reading> {
        let mut readings = self.0.lock();
        let is_it = |(of, end, _): &(RunId, Place, Reading)| (*of, Some(*end)) == (run, after);
        let place = readings.iter().position(is_it)?;
        readings.remove(place).map(|(_, _, reading)| reading)
    }

    fn keep(&self, run: RunId, end: Place, reading: Reading) {
        let mut readings = self.0.lock();
        if readings.len() == READINGS {
            readings.pop_front();
        }
        readings.push_back((run, end, reading));
    }
}

/// A response that streams events.
pub(crate) fn stream(state: &Shared, events: EventStream) -> Response {
    respond(state, events.map(sent))
}

fn sent(record: Result<EventRecord, StoreError>) -> sse::Event {
    match record {
        Ok(record) => event_of(record),
        Err(error) => {
            let problem = Problem::from(error);
            let text = serde_json::to_string(&problem).unwrap_or_default();
            sse::Event::default().event("problem").data(text)
        }
    }
}

/// A recorded event with its place as its id; a preview has no id.
fn event_of(record: EventRecord) -> sse::Event {
    let name = match &record.event {
        Event::Unknown(_) => "unknown",
        event => event.name(),
    };
    let event = sse::Event::default().event(name);
    let place = Place::of(&record);
    let event = event.data(serde_json::to_string(&record.redacted()).unwrap_or_default());
    match place {
        Some(place) => event.id(place.to_string()),
        None => event,
    }
}
