//! Runs: their status, their records, and the operations on them.

use std::collections::BTreeSet;

use axum::{Json, http::StatusCode};
use ghostlight_actors::{
    actor::{Fork, Run, SessionQuery, SystemError, pinned_team},
    contract::{RunFilter, RunRow, RunStatus},
    definition::TeamSpec,
    run::{Recorded, operations::Allowance},
    vocabulary::{Begun, Entry, JournalId, OperationId, Outcome, RunId, SessionId},
};
use ghostlight_safety::{redact_definition, redact_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ADMIN, Asked, GET, POST, READ, RUN, events,
    turns::{WaitQuery, awaited, stands},
    views::{End, QuestionView, RunView, Shown},
};
use crate::{
    access::fresh_id,
    address::{Path, Query},
    body::{Json as Body, MaybeJson},
    endpoint::Endpoints,
    problem::Problem,
    quotas::used,
};

/// The number of runs or entries in a page: the default, and the maximum.
const PAGE: (usize, usize) = (50, 500);

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    let endpoints = endpoints
        .add(
            GET,
            "/api/v1/runs",
            READ,
            "Runs, the latest begun first.",
            list,
        )
        .asks::<ListQuery>()
        .gives::<Page>()
        .add(
            GET,
            "/api/v1/runs/{run}",
            READ,
            "How a run stands, now or with `wait` as soon as it ends or asks something.",
            one,
        )
        .asks::<WaitQuery>()
        .gives::<Details>()
        .add(
            GET,
            "/api/v1/runs/{run}/tree",
            READ,
            "All runs of a run's tree.",
            tree,
        )
        .gives::<Vec<RunView>>()
        .add(
            GET,
            "/api/v1/runs/{run}/entries",
            ADMIN,
            "The journal of a run.",
            entries,
        )
        .asks::<EntriesQuery>()
        .gives::<Vec<Value>>()
        .add(
            GET,
            "/api/v1/runs/{run}/definition",
            ADMIN,
            "The definition of the team to which a run is pinned.",
            definition,
        )
        .gives::<Value>()
        .add(
            POST,
            "/api/v1/runs/{run}/cancel",
            RUN,
            "Cancels a run and all below it. Cancelling twice is cancelling once.",
            cancel,
        )
        .takes::<CancelBody>()
        .gives::<Cancelled>()
        .add(
            POST,
            "/api/v1/runs/{run}/calls/{operation}/cancel",
            RUN,
            "Cancels one call of a run, which goes on without its result.",
            cancel_call,
        )
        .gives::<Cancelled>()
        .add(
            POST,
            "/api/v1/runs/{run}/steer",
            RUN,
            "Says something to a run at work.",
            steer,
        )
        .takes::<SteerBody>()
        .add(
            POST,
            "/api/v1/runs/{run}/tell",
            RUN,
            "Sends a typed message to a run.",
            tell,
        )
        .takes::<TellBody>()
        .add(
            POST,
            "/api/v1/runs/{run}/retry",
            RUN,
            "Tries a parked run again.",
            retry,
        )
        .add(
            POST,
            "/api/v1/runs/{run}/resume",
            RUN,
            "Takes up an open run that nobody carries, in the process of this server.",
            resume,
        )
        .add(
            POST,
            "/api/v1/runs/{run}/fork",
            RUN,
            "Begins a run that goes on from a point of this one.",
            fork,
        )
        .takes::<ForkBody>()
        .gives::<RunView>();
    events::endpoints(endpoints)
}

impl End {
    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        Self {
            answer: outcome.as_answer().map(|answer| answer.text.clone()),
            stopped: outcome.stop_reason().map(ToString::to_string),
            error: None,
        }
    }

    pub(crate) fn of_error(error: &dyn std::fmt::Display) -> Self {
        Self {
            error: Some(redact_text(&error.to_string()).into_owned()),
            ..Self::default()
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only runs of this team.
    team: Option<String>,
    /// Only runs of the session with this key; needs `team`.
    session: Option<String>,
    /// Only runs of this status, or of one of several statuses with commas between.
    status: Option<String>,
    /// Only runs in sessions of this owner; for the operator and readers of tenants.
    owner: Option<String>,
    /// Only runs that this agent carries.
    agent: Option<String>,
    /// Only runs with this text in the first characters of their task, their team, their agents, their session's key,
    /// or at the beginning of their id. Case does not matter.
    text: Option<String>,
    /// Only runs that began at this time or later, in milliseconds since 1970.
    since: Option<u64>,
    /// Only runs that began before this time, in milliseconds since 1970.
    before: Option<u64>,
    /// Only runs that have not ended.
    open: Option<bool>,
    /// Whether to list the runs below other runs, too.
    all: Option<bool>,
    /// The most runs in a page; 50 when left out, 500 at the most.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    runs: Vec<RunView>,
    /// The value of `after` for the next page; `null` where this is the last.
    next: Option<String>,
}

async fn list(asked: Asked, Query(query): Query<ListQuery>) -> Result<Json<Page>, Problem> {
    let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let statuses = query.status.as_deref().map(read_statuses).transpose()?;
    let mut filter = RunFilter::default();
    filter.open = query.open.unwrap_or_default();
    filter.roots = !query.all.unwrap_or_default();
    if let Some(key) = &query.session {
        let team = query.team.as_deref();
        let team = team.ok_or_else(|| Problem::invalid("`session` needs `team`"))?;
        filter.session = Some(asked.session(team, key)?);
    }
    let after: Option<RunId> = match &query.after {
        None => None,
        Some(run) => {
            let fault = || Problem::invalid("`after` is the `next` of the page before");
            Some(run.parse().map_err(|_| fault())?)
        }
    };
    let owned = match &query.owner {
        None => None,
        Some(owner) => Some(sessions_of(&asked, owner, query.team.as_ref()).await?),
    };
    let in_owned = |row: &RunRow, owned: &BTreeSet<SessionId>| {
        row.session
            .as_ref()
            .is_some_and(|session| owned.contains(session))
    };
    let text = query.text.as_ref().map(|text| text.to_lowercase());
    let wanted = |row: &RunRow| {
        query.team.as_ref().is_none_or(|team| row.team == *team)
            && owned.as_ref().is_none_or(|owned| in_owned(row, owned))
            && query.agent.as_ref().is_none_or(|agent| row.agent == *agent)
            && query.since.is_none_or(|since| row.started_at.0 >= since)
            && query.before.is_none_or(|before| row.started_at.0 < before)
            && text.as_ref().is_none_or(|text| has_text(row, text))
            && statuses
                .as_ref()
                .is_none_or(|statuses| statuses.contains(&row.status))
    };
    // One more than a page tells whether there is another page.
    let found = listed(&asked, filter, after, limit + 1, wanted).await?;
    let more = found.len() > limit;
    let runs = found.iter().take(limit);
    let runs: Vec<RunView> = runs.map(|row| RunView::of(row, &asked.caller)).collect();
    let next = runs.last().filter(|_| more).map(|run| run.id.clone());
    Ok(Json(Page { runs, next }))
}

/// The first of the runs behind another one that the caller lists and wants.
pub(super) async fn listed(
    asked: &Asked,
    mut filter: RunFilter,
    after: Option<RunId>,
    most: usize,
    wanted: impl Fn(&RunRow) -> bool,
) -> Result<Vec<RunRow>, Problem> {
    // The store cannot filter by all of this, so a wider window may be needed; each is four times the one before.
    filter.limit = most.saturating_mul(2);
    loop {
        let mut rows = asked.system.store().runs(filter.clone()).await?;
        let all = rows.len() < filter.limit;
        if let Some(after) = after {
            let place = rows.iter().position(|row| row.run == after);
            rows.drain(..place.map_or(rows.len(), |at| at + 1));
        }
        let mut found = Vec::new();
        for row in rows {
            if found.len() < most && wanted(&row) && asked.lists(&row).await? {
                found.push(row);
            }
        }
        if all || found.len() == most {
            return Ok(found);
        }
        filter.limit = filter.limit.saturating_mul(4);
    }
}

/// The sessions of an owner. The store does not know the owner of a run, but finds the runs of a session.
async fn sessions_of(
    asked: &Asked,
    owner: &str,
    team: Option<&String>,
) -> Result<BTreeSet<SessionId>, Problem> {
    if !asked.caller.reaches(Some(owner)) {
        return Ok(BTreeSet::new());
    }
    let mut query = SessionQuery::default();
    (query.owner, query.team) = (Some(owner.to_owned()), team.cloned());
    let page = asked.system.sessions().list(query).await?;
    Ok(page.sessions.into_iter().map(|one| one.session).collect())
}

/// Whether a text in small letters occurs in the names of a run.
fn has_text(row: &RunRow, text: &str) -> bool {
    let key = row.session.as_ref().map(|session| &*session.key);
    let names = [
        row.title.as_str(),
        row.team.as_str(),
        key.unwrap_or_default(),
    ];
    let agents = row.path.iter().map(String::as_str);
    let mut all = names.into_iter().chain(agents);
    all.any(|name| name.to_lowercase().contains(text)) || row.run.to_string().starts_with(text)
}

fn read_statuses(words: &str) -> Result<Vec<RunStatus>, Problem> {
    let read = |word: &str| {
        let fault = || Problem::invalid(format!("there is no status {word:?}"));
        RunStatus::parse(word.trim()).ok_or_else(fault)
    };
    words.split(',').map(read).collect()
}

/// A run with its result and its open questions.
#[derive(Debug, Serialize, JsonSchema)]
struct Details {
    run: RunView,
    /// Its result, if it has ended or is parked.
    end: Option<End>,
    /// The open questions of the run and of the runs below it.
    questions: Vec<QuestionView>,
    /// The run from which it was forked.
    forked: Option<ForkedFrom>,
    /// Its budget and its use: `budget`, `spent`, `reserved`, `deadline`.
    #[schemars(with = "Value")]
    allowance: Allowance,
}

/// The origin of a forked run.
#[derive(Debug, Serialize, JsonSchema)]
struct ForkedFrom {
    /// The original run.
    run: String,
    /// How many entries of the original count in the fork.
    at: u64,
}

/// The origin that a run's first entry records.
async fn forked_from(asked: &Asked, run: RunId) -> Result<Option<ForkedFrom>, Problem> {
    let journal = JournalId::Run(run);
    let first = asked.system.store().read(journal, 0, 1).await?;
    let start = Recorded::fold(&first, run)?.start;
    let forked = start.and_then(|start| start.forked);
    Ok(forked.map(|forked| ForkedFrom {
        run: forked.run.to_string(),
        at: forked.at,
    }))
}

async fn one(
    asked: Asked,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<Details>, Problem> {
    let (run, row) = asked.run(&id).await?;
    let (row, end, questions) = match query.longest() {
        None => stands(&run, row).await?,
        Some(longest) => awaited(&asked, &run, longest).await?,
    };
    Ok(Json(Details {
        run: RunView::of(&row, &asked.caller),
        end,
        questions,
        forked: forked_from(&asked, row.run).await?,
        allowance: run.budget().await?,
    }))
}

async fn definition(asked: Asked, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let (run, _) = asked.run(&id).await?;
    let team = json!(pinned_team(asked.system.store(), run.id()).await?);
    Ok(Json(redact_definition(&team)))
}

async fn tree(asked: Asked, Path(id): Path<String>) -> Result<Json<Vec<RunView>>, Problem> {
    let (_, row) = asked.run(&id).await?;
    let tree = asked.system.run(row.root).tree().await?;
    let rows = tree.rows();
    Ok(Json(
        rows.map(|(_, row)| RunView::of(row, &asked.caller))
            .collect(),
    ))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntriesQuery {
    /// The number of the first entry; 0, when left out.
    from: Option<u64>,
    /// The most entries; 50 when left out, 500 at the most.
    limit: Option<usize>,
}

async fn entries(
    asked: Asked,
    Path(id): Path<String>,
    Query(query): Query<EntriesQuery>,
) -> Result<Shown<Vec<Value>>, Problem> {
    let (run, _) = asked.run(&id).await?;
    let journal = JournalId::Run(run.id());
    let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let from = query.from.unwrap_or_default();
    let mut shown = Vec::new();
    for stored in asked
        .system
        .store()
        .read(journal.clone(), from, limit)
        .await?
    {
        let entry = withheld(stored.decode(&journal)?);
        shown.push(json!({
            "sequence": stored.sequence,
            "position": stored.position,
            "at": stored.line.at,
            "entry": entry,
        }));
    }
    Ok(Shown(shown))
}

/// An entry without the secrets of a call that waits for approval: they are for the journal alone.
fn withheld(mut entry: Entry) -> Entry {
    if let Entry::Started {
        begun: Begun::Question(question),
        ..
    } = &mut entry
    {
        **question = question.withheld();
    }
    entry
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct CancelBody {
    /// The reason for the cancellation.
    reason: Option<String>,
}

/// The result of a cancellation.
#[derive(Debug, Serialize, JsonSchema)]
struct Cancelled {
    /// Whether there was anything left to cancel.
    cancelled: bool,
}

async fn cancel(
    asked: Asked,
    Path(id): Path<String>,
    MaybeJson(body): MaybeJson<CancelBody>,
) -> Result<Json<Cancelled>, Problem> {
    let (run, _) = asked.run(&id).await?;
    let reason = body
        .reason
        .unwrap_or_else(|| "a client cancelled it".to_owned());
    let cancelled = run.cancel(reason).await?;
    Ok(Json(Cancelled { cancelled }))
}

/// The operation that a text names.
pub(super) fn operation(text: &str) -> Result<OperationId, Problem> {
    let fault = |_| Problem::invalid(format!("{text:?} is not an operation, such as 0.0.3"));
    text.parse().map_err(fault)
}

async fn cancel_call(
    asked: Asked,
    Path((id, call)): Path<(String, String)>,
) -> Result<Json<Cancelled>, Problem> {
    let (run, _) = asked.run(&id).await?;
    let cancelled = run.cancel_call(operation(&call)?).await?;
    Ok(Json(Cancelled { cancelled }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SteerBody {
    /// The message; the agent's model reads it before its next step.
    text: String,
}

async fn steer(
    asked: Asked,
    Path(id): Path<String>,
    Body(body): Body<SteerBody>,
) -> Result<StatusCode, Problem> {
    let (run, _) = asked.run(&id).await?;
    if body.text.trim().is_empty() {
        return Err(Problem::invalid("`text` is empty"));
    }
    run.steer(body.text)
        .await
        .map_err(|error| ended(&error, error_of(&run)).unwrap_or_else(|| error.into()))?;
    Ok(StatusCode::ACCEPTED)
}

fn error_of(run: &Run) -> Problem {
    Problem::conflict(format!(
        "run {} has ended: send a turn to its session",
        run.id()
    ))
}

/// The caller can see the run, so a run that cannot take messages has ended.
fn ended(error: &SystemError, problem: Problem) -> Option<Problem> {
    matches!(error, SystemError::UnknownRun(_)).then_some(problem)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TellBody {
    /// The stable name of the message's type.
    name: String,
    /// The message.
    value: Value,
}

async fn tell(
    asked: Asked,
    Path(id): Path<String>,
    Body(body): Body<TellBody>,
) -> Result<StatusCode, Problem> {
    let (run, _) = asked.run(&id).await?;
    let told = run.tell_named(&body.name, body.value).await;
    told.map_err(|error| ended(&error, error_of(&run)).unwrap_or_else(|| error.into()))?;
    Ok(StatusCode::ACCEPTED)
}

async fn retry(asked: Asked, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let (run, _) = asked.run(&id).await?;
    run.retry().await?;
    Ok(StatusCode::ACCEPTED)
}

async fn resume(asked: Asked, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let (run, _) = asked.run(&id).await?;
    asked.system.resume(run.id(), false).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ForkBody {
    /// How many entries of the run are kept; as many as there are before its end, when left out.
    at: Option<u64>,
    /// The message at that point.
    input: Option<String>,
    /// The key of the session in which the fork goes on; a fresh one, when left out.
    session: Option<String>,
    /// Whether the fork runs with today's definition of the team.
    todays_team: bool,
    /// Another definition of the team for the fork: another model, other instructions, other agents. Its `models`,
    /// `tools` and `interceptors` are those of the team as it is served. For the operator.
    #[schemars(with = "Option<Value>")]
    definition: Option<Box<TeamSpec>>,
}

async fn fork(
    asked: Asked,
    Path(id): Path<String>,
    MaybeJson(body): MaybeJson<ForkBody>,
) -> Result<Json<RunView>, Problem> {
    let (run, row) = asked.run(&id).await?;
    let mut fork = body.at.map_or_else(Fork::latest, Fork::at);
    if let Some(input) = body.input {
        fork = fork.input(input);
    }
    let key = match body.session {
        Some(key) => key,
        None => format!("fork-{}", fresh_id()?),
    };
    fork = fork.session(asked.session(&row.team, &key)?.key);
    if body.todays_team {
        fork = fork.todays_team();
    }
    if let Some(definition) = body.definition {
        if asked.caller.subject().is_some() {
            let detail = "another `definition` is the operator's to give";
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        fork = fork.team(*definition);
    }
    let quotas = &asked.state.quotas;
    let admission = quotas
        .admit_fork(&asked.caller, &row.team, &asked.slot)
        .await?;
    let forked = run.fork(fork).await;
    match (&forked, admission) {
        // The use before the fork was paid by the original run.
        (Ok(forked), Some(admission)) => quotas.follow(admission, forked, used(forked).await?),
        (Err(_), Some(admission)) => quotas.give_back(admission).await,
        (_, None) => {}
    }
    let forked = forked?;
    Ok(Json(RunView::of(&forked.status().await?, &asked.caller)))
}
