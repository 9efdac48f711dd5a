//! Long calls as tasks: a task is a run and has its id, so it still exists after a restart of this process.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::{RunRow, RunStatus},
    vocabulary::{RunId, Timestamp},
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CreateTaskResult, DetailedTask, GetTaskResult, InputResponses, JsonObject, Task,
        TaskPayload, TaskStatus,
    },
    service::RequestContext,
};
use serde_json::Value;

use super::{
    call,
    handler::{Handler, space},
    questions,
    resources::internal,
};

/// How often a client should poll a task.
const LOOK: Duration = Duration::from_secs(1);

/// The task of a run.
pub(super) async fn made(run: &Run) -> Result<CreateTaskResult, SystemError> {
    let row = run.status().await?;
    Ok(CreateTaskResult::new(task(&row, TaskStatus::Working)))
}

/// The state of a task.
///
/// # Errors
/// There is no such task for this client.
pub(super) async fn get(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (run, row) = find(handler, context, id).await?;
    let payload = match row.status {
        RunStatus::Cancelled => TaskPayload::Cancelled,
        status if status.is_ended() || status == RunStatus::Parked => {
            let result = call::result_of(handler, context, &run, row.session.as_ref()).await;
            let result = serde_json::to_value(result);
            let result = result.map_err(|error| internal(&error))?;
            let result: JsonObject = match result {
                Value::Object(result) => result,
                _ => JsonObject::default(),
            };
            TaskPayload::Completed { result }
        }
        _ => {
            let asked = questions::open(&handler.system(context), &run).await;
            match asked.map_err(|error| internal(&error))? {
                Some(input_requests) => TaskPayload::InputRequired { input_requests },
                None => TaskPayload::Working,
            }
        }
    };
    let task = task(&row, payload.status());
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Takes answers to a task's questions.
///
/// # Errors
/// There is no such task for this client, or an answer does not fit its question.
pub(super) async fn update(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    id: &str,
    answers: &InputResponses,
) -> Result<(), ErrorData> {
    let (run, _) = find(handler, context, id).await?;
    let system = handler.system(context);
    for (key, answer) in answers {
        let taken = questions::take(&system, &run, key, answer).await;
        taken.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    }
    Ok(())
}

/// Cancels a task.
///
/// # Errors
/// There is no such task for this client.
pub(super) async fn cancel(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    id: &str,
) -> Result<(), ErrorData> {
    let (run, row) = find(handler, context, id).await?;
    if !row.status.is_ended() {
        let cancelled = run.cancel("the client cancelled the task").await;
        cancelled.map_err(|error| internal(&error))?;
    }
    Ok(())
}

/// The run of a task, if it belongs to a served team and to a session that the client can name. Handles also reach the
/// sessions that belong to nobody, such as those of schedules: they are no tasks of a client that has an owner.
async fn find(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    id: &str,
) -> Result<(Run, RunRow), ErrorData> {
    let unknown = || ErrorData::invalid_params("there is no such task", None);
    let id: RunId = id.parse().map_err(|_| unknown())?;
    let run = handler.system(context).run(id);
    let row = run.status().await.map_err(|_| unknown())?;
    let is_served = row.parent.is_none() && handler.served.teams.contains_key(&row.team);
    let space = space(context);
    let session = row.session.as_ref();
    let is_named = session.is_some_and(|session| space.name(&session.key).is_some());
    match is_served && is_named {
        true => Ok((run, row)),
        false => Err(unknown()),
    }
}

fn task(row: &RunRow, status: TaskStatus) -> Task {
    // A timestamp may be out of the calendar's range.
    let at = |time: Timestamp| {
        let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis)
            .unwrap_or_default()
            .to_string()
    };
    let look = u64::try_from(LOOK.as_millis()).unwrap_or(u64::MAX);
    Task::new(
        row.run.to_string(),
        status,
        at(row.started_at),
        at(row.updated_at),
    )
    .with_poll_interval_ms(look)
}
