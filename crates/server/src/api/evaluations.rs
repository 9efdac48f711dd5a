//! Evaluations, scored from what is recorded of their cells.

use std::sync::Arc;

use axum::Json;
use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{RunFilter, RunStatus},
    run::Registry,
    vocabulary::{RunId, Timestamp},
};
use ghostlight_evals::{Cell, Compared, Evaluation, Reach, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::Mutex, task::spawn_blocking};

use super::{ADMIN, Asked, GET, views::Shown};
use crate::{
    address::{Path, Query},
    endpoint::Endpoints,
    problem::Problem,
};

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/evaluations",
            ADMIN,
            "The evaluations that are shown.",
            list,
        )
        .gives::<Vec<EvaluationView>>()
        .add(
            GET,
            "/api/v1/evaluations/{name}",
            ADMIN,
            "The report of an evaluation, its worst cells first. No model is asked: a cell without a record is `not_run`.",
            report,
        )
        .gives::<Value>()
        .add(
            GET,
            "/api/v1/evaluations/{name}/comparison",
            ADMIN,
            "Two variants of an evaluation beside each other.",
            comparison,
        )
        .asks::<ComparisonQuery>()
        .gives::<Value>()
}

/// An evaluation.
#[derive(Debug, Serialize, JsonSchema)]
struct EvaluationView {
    /// Its name.
    name: String,
    /// Its variants.
    variants: Vec<String>,
    /// Its scorers.
    scorers: Vec<String>,
    /// How many cells it has.
    cells: usize,
}

async fn list(asked: Asked) -> Json<Vec<EvaluationView>> {
    let views = asked.state.evaluations.iter().map(|scored| {
        let evaluation = &scored.evaluation;
        let suite = evaluation.suite();
        EvaluationView {
            name: suite.evaluation.clone(),
            variants: suite.variant_names(),
            scorers: evaluation.scorer_names(),
            cells: evaluation.cells(),
        }
    });
    Json(views.collect())
}

/// An evaluation with its latest report.
#[derive(Debug)]
pub(crate) struct Scored {
    evaluation: Arc<Evaluation>,
    latest: Arc<Mutex<Option<Latest>>>,
}

#[derive(Debug)]
struct Latest {
    of: Vec<RunState>,
    report: Arc<Report>,
}

/// Everything of a run on which a report depends: its journal grows only while it has not ended.
type RunState = (RunId, RunStatus, Timestamp);

impl From<Arc<Evaluation>> for Scored {
    fn from(evaluation: Arc<Evaluation>) -> Self {
        let latest = Arc::default();
        Self { evaluation, latest }
    }
}

fn named<'a>(asked: &'a Asked, name: &str) -> Result<&'a Scored, Problem> {
    let mut all = asked.state.evaluations.iter();
    let found = all.find(|scored| scored.evaluation.suite().evaluation == name);
    found.ok_or_else(|| Problem::not_found(format!("evaluation {name:?}")))
}

/// The report of what is recorded. Scoring keeps a thread busy, so it has one that serves nobody else meanwhile, and only where
/// a run of the evaluation has changed.
async fn recorded(asked: &Asked, scored: &Scored) -> Result<Arc<Report>, Problem> {
    // The scoring holds it to its end, even where its caller goes away: there is one at a time.
    let mut latest = scored.latest.clone().lock_owned().await;
    let evaluation = scored.evaluation.clone();
    let (system, runtime) = (asked.system.clone(), Handle::current());
    let scored = spawn_blocking(move || {
        runtime.block_on(async {
            let of = runs_of(&system, &evaluation).await?;
            if let Some(latest) = latest.as_ref().filter(|latest| latest.of == of) {
                return Ok(latest.report.clone());
            }
            let cells = evaluation.run_within(&system, Reach::Look, |_| {}).await?;
            let judged = evaluation.judge(&system, Reach::Look, &cells).await?;
            let report = Arc::new(Report::with_judged(&evaluation, cells, &judged));
            let kept = report.clone();
            *latest = Some(Latest { of, report: kept });
            Ok::<_, SystemError>(report)
        })
    });
    let scored = scored.await.map_err(|error| Problem::internal(&error))?;
    Ok(scored?)
}

/// The runs of the variants and of the judges.
async fn runs_of(system: &System, evaluation: &Evaluation) -> Result<Vec<RunState>, SystemError> {
    let mut states = Vec::new();
    for team in evaluation.teams(&Registry::new()) {
        let mut filter = RunFilter::default();
        filter.team = Some(team.spec.name);
        let rows = system.store().runs(filter).await?;
        states.extend(
            rows.into_iter()
                .map(|row| (row.run, row.status, row.updated_at)),
        );
    }
    Ok(states)
}

async fn report(asked: Asked, Path(name): Path<String>) -> Result<Shown<Value>, Problem> {
    let report = recorded(&asked, named(&asked, &name)?).await?;
    let cells = Cell::worst_first(&report.cells);
    let with_success = |cell: &Cell| {
        let mut view = json!(cell);
        view["success"] = json!(cell.success());
        view
    };
    let cells: Vec<Value> = cells.into_iter().map(with_success).collect();
    let mut view = json!(*report);
    view["cells"] = Value::Array(cells);
    Ok(Shown(view))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ComparisonQuery {
    /// The variant that is compared with.
    base: String,
    /// The other one.
    other: String,
}

async fn comparison(
    asked: Asked,
    Path(name): Path<String>,
    Query(query): Query<ComparisonQuery>,
) -> Result<Shown<Compared>, Problem> {
    let scored = named(&asked, &name)?;
    let variants = scored.evaluation.suite().variant_names();
    if let Some(unknown) = [&query.base, &query.other]
        .into_iter()
        .find(|variant| !variants.contains(variant))
    {
        return Err(Problem::not_found(format!("variant {unknown:?}")));
    }
    let report = recorded(&asked, scored).await?;
    let of = |variant: &str| -> Vec<&Cell> {
        let cells = report.cells.iter();
        cells.filter(|cell| cell.variant == variant).collect()
    };
    Ok(Shown(Compared::new(
        (&query.base, &of(&query.base)),
        (&query.other, &of(&query.other)),
        0.0,
    )))
}
