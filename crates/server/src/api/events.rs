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
    sse::{last_event_id, respond, wants_stream},
};

/// How many events a page has, if not said otherwise, and at the most.
const PAGE: (usize, usize) = (200, 1000);

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
    /// Only events behind this position.
    after: Option<u64>,
    /// At most so many in a page; 200, and 1000 at the most.
    limit: Option<usize>,
    /// Whether a stream shows what is under way and not recorded, such as pieces of a model's answer; yes, when left
    /// out.
    previews: Option<bool>,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    /// Events in the order of their commits: `run`, `sequence`, `position`, `at`, `path`, `type`, `data`.
    #[schemars(with = "Vec<Value>")]
    events: Vec<EventRecord>,
    /// The position after which the next page begins; `null` where there is no more by now.
    next: Option<u64>,
}

async fn events(
    asked: Asked,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (run, row) = asked.run(&id).await?;
    let after = last_event_id(&headers)?.or(query.after).unwrap_or_default();
    let within = within(&asked, &row).await?;
    if !wants_stream(&headers) {
        let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
        return Ok(Json(page(&asked, &row, within, (after, limit)).await?).into_response());
    }
    let is_over = row.status.is_ended() && row.status != RunStatus::Continued;
    if is_over && after > 0 {
        let more = asked.system.store().read_tree(row.root, after, 1).await?;
        if more.is_empty() {
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
    events = events.after(after);
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

async fn page(
    asked: &Asked,
    row: &RunRow,
    mut within: Option<Within>,
    (mut after, limit): (u64, usize),
) -> Result<Page, Problem> {
    let store = asked.system.store();
    let mut observer = Observer::new();
    let mut events = Vec::new();
    loop {
        let lines = store.read_tree(row.root, after, limit).await?;
        let is_last = lines.len() < limit;
        for line in lines {
            if !observer.knows(line.run)
                && let Some(row) = store.run(line.run).await?
            {
                observer.learn(&row);
            }
            after = line.stored.position;
            if let Some(record) = observer.observe(&line)?
                && within.as_mut().is_none_or(|within| within.has(&record))
            {
                events.push(record);
                if events.len() == limit {
                    return Ok(Page {
                        events,
                        next: Some(after),
                    });
                }
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

/// A recorded event with its position as its id; a preview has none.
fn event_of(record: &EventRecord) -> sse::Event {
    let name = match &record.event {
        Event::Unknown(_) => "unknown",
        event => event.name(),
    };
    let text = serde_json::to_string(record).unwrap_or_default();
    let event = sse::Event::default().event(name).data(text);
    match record.position {
        Some(position) => event.id(position.to_string()),
        None => event,
    }
}
