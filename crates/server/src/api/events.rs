//! The events of a run and the runs below it.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, Query},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response, sse},
};
use futures_util::{Stream, stream::unfold};
use ghostlight_actors::{
    actor::EventStream,
    contract::{RunFilter, RunRow, RunStatus},
    run::Observer,
    vocabulary::{Event, EventRecord, RunId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Asked, GET, READ};
use crate::{
    endpoint::Endpoints,
    problem::Problem,
    server::Shared,
    sse::{Place, last_event_id, respond, wants_stream},
};

/// How many events a page has, if not said otherwise, and at the most.
const PAGE: (usize, usize) = (200, 1000);
/// How many entries are read at once.
const READ_AT_ONCE: usize = 512;

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
    /// At most so many in a page; 200, and 1000 at the most.
    limit: Option<usize>,
    /// Whether a stream shows what is under way and not recorded, such as pieces of a model's answer; yes, when left
    /// out.
    previews: Option<bool>,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    /// Events in the order of their commits: `run`, `sequence`, `position`, `part` (where an entry has several), `at`,
    /// `path`, `type`, `data`.
    #[schemars(with = "Vec<Value>")]
    events: Vec<EventRecord>,
    /// What the next page is asked for with; `null` where there is no more by now.
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
    let within = within(&asked, &row).await?;
    if !wants_stream(&headers) {
        let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
        return Ok(Json(page(&asked, &row, within, (after, limit)).await?).into_response());
    }
    let is_over = row.status.is_ended() && row.status != RunStatus::Continued;
    if let Some(after) = after.filter(|_| is_over) {
        // A look at what comes next is quick, and an event of the same entry is rare.
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
            // To browsers this says that there is nothing to come back for.
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let of_root = asked.system.run(row.root);
    let mut events = if row.root == row.run {
        run.events()
    } else {
        of_root.events()
    };
    if let Some(after) = after {
        events = events.after_event(after.position, after.part);
    }
    if query.previews == Some(false) {
        events = events.recorded();
    }
    Ok(stream(&asked.state, events, within))
}

/// A run below another, with the runs below it that there are by now.
#[derive(Debug)]
pub(super) struct Within {
    top: RunId,
    runs: BTreeSet<RunId>,
}

impl Within {
    /// Whether an event is of these runs, to which it may add one.
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

    /// Whether nothing of them comes after this.
    fn ends_with(&self, record: &EventRecord) -> bool {
        record.run == self.top && matches!(record.event, Event::RunEnded { .. })
    }
}

/// What is shown of the tree of a run; `None` where that is all.
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

/// Events behind a place, at most so many. The tree is read from its beginning, since what an entry tells depends on
/// those before it.
async fn page(
    asked: &Asked,
    row: &RunRow,
    mut within: Option<Within>,
    (after, limit): (Option<Place>, usize),
) -> Result<Page, Problem> {
    let store = asked.system.store();
    let (mut observer, mut read) = (Observer::new(), 0);
    let mut events: Vec<EventRecord> = Vec::new();
    loop {
        let lines = store.read_tree(row.root, read, READ_AT_ONCE).await?;
        let is_last = lines.len() < READ_AT_ONCE;
        for line in lines {
            if !observer.knows(line.run)
                && let Some(row) = store.run(line.run).await?
            {
                observer.learn(&row);
            }
            read = line.stored.position;
            for record in observer.observe(&line)? {
                let is_wanted = within.as_mut().is_none_or(|within| within.has(&record));
                if !is_wanted || Place::of(&record) <= after {
                    continue;
                }
                if events.len() == limit {
                    let next = events.last().and_then(Place::of);
                    let next = next.map(|place| place.to_string());
                    return Ok(Page { events, next });
                }
                events.push(record);
            }
        }
        if is_last {
            return Ok(Page { events, next: None });
        }
    }
}

/// A response that streams events.
pub(crate) fn stream(state: &Shared, events: EventStream, within: Option<Within>) -> Response {
    respond(state, sent(events, within))
}

fn sent(
    events: EventStream,
    within: Option<Within>,
) -> impl Stream<Item = sse::Event> + Send + 'static {
    unfold(Some((events, within)), |state| async move {
        let (mut events, mut within) = state?;
        loop {
            match events.next().await? {
                Ok(record) => {
                    if within.as_mut().is_some_and(|within| !within.has(&record)) {
                        continue;
                    }
                    let ends = within
                        .as_ref()
                        .is_some_and(|within| within.ends_with(&record));
                    let sent = event_of(&record);
                    return Some((sent, (!ends).then_some((events, within))));
                }
                Err(error) => {
                    let problem = Problem::from(error);
                    let text = serde_json::to_string(&problem).unwrap_or_default();
                    return Some((sse::Event::default().event("problem").data(text), None));
                }
            }
        }
    })
}

/// A recorded event with its place as its id; a preview has none.
fn event_of(record: &EventRecord) -> sse::Event {
    let name = match &record.event {
        Event::Unknown(_) => "unknown",
        event => event.name(),
    };
    let text = serde_json::to_string(record).unwrap_or_default();
    let event = sse::Event::default().event(name).data(text);
    match Place::of(record) {
        Some(place) => event.id(place.to_string()),
        None => event,
    }
}
