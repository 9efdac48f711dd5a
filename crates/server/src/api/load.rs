//! The load of the System: slots, topics, and the use of budgets.

use std::collections::BTreeMap;

use axum::Json;
use ghostlight_actors::{
    actor::SlotCounts,
    contract::{RunFilter, RunRow},
    run::operations::{Allowance, TopicCounts},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ADMIN, Asked, GET, READ,
    runs::listed,
    views::{RunView, Shown},
};
use crate::{
    address::{Path, Query},
    endpoint::Endpoints,
    problem::Problem,
};

/// The number of open runs that are read: the default, and the maximum. Each is read from the store.
const RUNS: (usize, usize) = (20, 100);

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/load",
            ADMIN,
            "How busy this process is: the slots of models and tools, and its bounds.",
            load,
        )
        .gives::<LoadView>()
        .add(
            GET,
            "/api/v1/topics",
            READ,
            "Topics of open runs with their queues, the run begun last first.",
            topics,
        )
        .asks::<OpenQuery>()
        .gives::<Vec<RunTopics>>()
        .add(
            GET,
            "/api/v1/runs/{run}/topics",
            READ,
            "The topics that a run shares with its tree.",
            topics_of_run,
        )
        .gives::<Vec<TopicView>>()
        .add(
            GET,
            "/api/v1/budgets",
            READ,
            "What open runs may consume and what they have, the run begun last first.",
            budgets,
        )
        .asks::<OpenQuery>()
        .gives::<Vec<RunBudget>>()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenQuery {
    /// The most open runs that are read; 20 when left out, 100 at the most.
    limit: Option<usize>,
}

/// The load of this process.
#[derive(Debug, Serialize, JsonSchema)]
struct LoadView {
    /// The slots of each model.
    models: Vec<SlotView>,
    /// The slots that all tools share, and those of each called tool that has a limit of its own.
    tools: Vec<SlotView>,
    /// Root runs that are live in this process.
    live_runs: Bounded,
    /// Turns that are on their way into sessions.
    admissions: Bounded,
    /// How many turns may wait in one session.
    queued_turns: usize,
    /// The most entries of a run's journal.
    max_entries: u64,
    /// How many attempts a model call has.
    model_attempts: u32,
    /// The timeout of a tool call, in milliseconds, where its tool sets none.
    tool_timeout_ms: u64,
}

/// An amount with its limit.
#[derive(Debug, Serialize, JsonSchema)]
struct Bounded {
    /// The amount in use.
    used: usize,
    /// The limit.
    most: usize,
}

/// Slots for calls.
#[derive(Debug, Serialize, JsonSchema)]
struct SlotView {
    /// The model or tool; `all tools` for the slots that all tools share.
    name: String,
    /// How many calls may run at once.
    slots: usize,
    /// How many run now.
    used: usize,
    /// How many wait.
    waiting: usize,
}

impl SlotView {
    fn of((name, counts): (String, SlotCounts)) -> Self {
        let SlotCounts {
            slots,
            used,
            waiting,
            ..
        } = counts;
        Self {
            name,
            slots,
            used,
            waiting,
        }
    }
}

async fn load(asked: Asked) -> Json<LoadView> {
    let (load, limits) = (asked.system.load(), asked.system.options());
    let all = [("all tools".to_owned(), load.tools)].into_iter();
    let timeout = limits.executor.timeout.as_millis();
    Json(LoadView {
        models: load.models.into_iter().map(SlotView::of).collect(),
        tools: all.chain(load.by_tool).map(SlotView::of).collect(),
        live_runs: Bounded {
            used: load.live_runs,
            most: limits.max_live_runs,
        },
        admissions: Bounded {
            used: load.admissions,
            most: limits.max_admissions,
        },
        queued_turns: limits.max_queued_turns,
        max_entries: limits.max_entries,
        model_attempts: limits.gateway.attempts,
        tool_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
    })
}

/// The state of a topic.
#[derive(Debug, Serialize, JsonSchema)]
struct TopicView {
    /// Its name.
    name: String,
    /// How many events were published on it.
    published: u64,
    /// How many publishers wait for room.
    blocked: u64,
    /// Its queues.
    queues: Vec<QueueView>,
}

/// The state of a queue of a topic.
#[derive(Debug, Serialize, JsonSchema)]
struct QueueView {
    /// Its name.
    name: String,
    /// How many events wait in it.
    waiting: u64,
    /// How many events may wait in it.
    capacity: u64,
    /// How many events were received from it.
    received: u64,
    /// How many events were dropped.
    dropped: u64,
}

impl TopicView {
    fn all(topics: BTreeMap<String, TopicCounts>) -> Vec<Self> {
        let view = |(name, topic): (String, TopicCounts)| Self {
            name,
            published: topic.published,
            blocked: topic.blocked,
            queues: topic
                .queues
                .into_iter()
                .map(|(name, queue)| QueueView {
                    name,
                    waiting: queue.waiting,
                    capacity: queue.capacity,
                    received: queue.received,
                    dropped: queue.dropped,
                })
                .collect(),
        };
        topics.into_iter().map(view).collect()
    }
}

/// The topics of a run.
#[derive(Debug, Serialize, JsonSchema)]
struct RunTopics {
    run: RunView,
    topics: Vec<TopicView>,
}

/// The budget of a run.
#[derive(Debug, Serialize, JsonSchema)]
struct RunBudget {
    run: RunView,
    /// `budget`, `spent`, `reserved` and `deadline`.
    #[schemars(with = "Value")]
    allowance: Allowance,
}

/// The latest open root runs that the caller lists.
async fn open(
    asked: &Asked,
    query: &OpenQuery,
) -> Result<Vec<(ghostlight_actors::actor::Run, RunView)>, Problem> {
    let mut filter = RunFilter::default();
    (filter.open, filter.roots) = (true, true);
    let most = query.limit.unwrap_or(RUNS.0).clamp(1, RUNS.1);
    let rows = listed(asked, filter, None, most, |_| true).await?;
    let shown = |row: RunRow| (asked.system.run(row.run), RunView::of(&row, &asked.caller));
    Ok(rows.into_iter().map(shown).collect())
}

async fn topics(
    asked: Asked,
    Query(query): Query<OpenQuery>,
) -> Result<Shown<Vec<RunTopics>>, Problem> {
    let mut found = Vec::new();
    for (run, view) in open(&asked, &query).await? {
        let topics = TopicView::all(run.topics().await?);
        if !topics.is_empty() {
            found.push(RunTopics { run: view, topics });
        }
    }
    Ok(Shown(found))
}

async fn topics_of_run(
    asked: Asked,
    Path(id): Path<String>,
) -> Result<Shown<Vec<TopicView>>, Problem> {
    let (run, _) = asked.run(&id).await?;
    Ok(Shown(TopicView::all(run.topics().await?)))
}

async fn budgets(
    asked: Asked,
    Query(query): Query<OpenQuery>,
) -> Result<Json<Vec<RunBudget>>, Problem> {
    let mut found = Vec::new();
    for (run, view) in open(&asked, &query).await? {
        let allowance = run.budget().await?;
        found.push(RunBudget {
            run: view,
            allowance,
        });
    }
    Ok(Json(found))
}
