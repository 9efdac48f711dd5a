//! The questions of runs, and their answers.

use axum::{Json, http::StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Asked, GET, POST, READ, RUN, runs::operation, views::QuestionView};
use crate::{address::Path, body::Json as Body, endpoint::Endpoints, problem::Problem};

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/questions",
            READ,
            "What is still to be answered.",
            all,
        )
        .gives::<Vec<QuestionView>>()
        .add(
            GET,
            "/api/v1/runs/{run}/questions",
            READ,
            "What a run and the runs below it ask.",
            of_run,
        )
        .gives::<Vec<QuestionView>>()
        .add(
            POST,
            "/api/v1/runs/{run}/answers",
            RUN,
            "Answers a question. A question has one answer: a later one changes nothing.",
            answer,
        )
        .takes::<AnswerBody>()
}

async fn all(asked: Asked) -> Result<Json<Vec<QuestionView>>, Problem> {
    let mut open = Vec::new();
    for question in asked.system.open_questions().await? {
        let row = asked.system.run(question.0).status().await?;
        if asked.state.check_team(&row.team).is_ok() && asked.owns(&row).await? {
            open.push(question);
        }
    }
    Ok(Json(QuestionView::all(open)))
}

async fn of_run(asked: Asked, Path(id): Path<String>) -> Result<Json<Vec<QuestionView>>, Problem> {
    let (run, _) = asked.run(&id).await?;
    Ok(Json(QuestionView::all(run.questions().await?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    /// The operation that asks.
    operation: String,
    /// The answer: to an approval `true`, `false` or an object with `approved` and more; to a choice one of its
    /// options; to a form an object that fits its schema; else any value.
    value: Value,
}

async fn answer(
    asked: Asked,
    Path(id): Path<String>,
    Body(body): Body<AnswerBody>,
) -> Result<StatusCode, Problem> {
    let (run, _) = asked.run(&id).await?;
    run.answer(operation(&body.operation)?, body.value).await?;
    Ok(StatusCode::ACCEPTED)
}
