//! Saying a turn.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::{RunRow, RunStatus},
    session::Turn,
    vocabulary::{Budget, DataSource, Message, Part, Role, RunId, SessionId, Timestamp},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    Asked, events,
    views::{End, QuestionView, RunView},
};
use crate::{
    address::{Path, Query},
    body::Json as Body,
    files::file,
    problem::Problem,
    quotas::Use,
    sse::wants_stream,
    waiting::{Waited, wait},
};

/// The header with the id of a turn, under which a turn that is sent again counts once.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long a turn waits for those before it in its session, where the request does not wait for the turn's end either.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long it takes at most to see how a run stands.
const STANDS: Duration = Duration::from_secs(1);
/// The longest id of a turn, in bytes.
const MAX_ID: usize = 200;

/// A message to a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnBody {
    /// The text.
    #[serde(default)]
    text: String,
    /// Files that go with it.
    #[serde(default)]
    files: Vec<File>,
    /// The turn's id: a turn that is sent twice under one id is one run. The header `Idempotency-Key` gives the same.
    id: Option<String>,
    /// Whether to call no tool that has an effect.
    #[serde(default)]
    dry_run: bool,
    /// Whether models give their answers piece by piece.
    streaming: Option<bool>,
    /// The budget of this turn's run, beyond the team's.
    #[serde(default)]
    budget: Budget,
    /// When the run must have ended, in milliseconds since 1970.
    deadline: Option<u64>,
}

/// A file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    /// Its media type, such as `image/png`.
    media_type: String,
    /// Its name, for people.
    name: Option<String>,
    /// Its bytes in base64.
    base64: Option<String>,
    /// An address that the model's server can reach, instead of the bytes.
    url: Option<String>,
}

impl File {
    fn into_part(self) -> Result<Part, Problem> {
        let source = match (self.base64, self.url) {
            (Some(text), None) => DataSource::Base64(text),
            (None, Some(url)) => DataSource::Url(url),
            _ => return Err(Problem::invalid("a file has either `base64` or `url`")),
        };
        file(self.media_type, self.name, source)
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    /// The longest wait in seconds for the run's end or its question; without it the response comes at once.
    wait: Option<u32>,
}

impl WaitQuery {
    pub(super) fn longest(&self) -> Option<Duration> {
        let seconds = self.wait?;
        Some(Duration::from_secs(seconds.into()))
    }
}

/// A recorded turn, with its result if the request waited for it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TurnView {
    /// Its run.
    run: RunView,
    /// Whether the turn was said to this run, which was under way with another. Where the run ends without it, the turn
    /// sent again under its id names the run that took it.
    joined: bool,
    /// The path of its events.
    events: String,
    /// Its result, if it has ended.
    end: Option<End>,
    /// Its open questions, if it waits for answers.
    questions: Vec<QuestionView>,
}

impl TurnBody {
    fn into_turn(self, headers: &HeaderMap) -> Result<Turn, Problem> {
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(Part::Text(self.text));
        }
        for file in self.files {
            parts.push(file.into_part()?);
        }
        let mut message = Message::text(Role::User, "");
        message.parts = parts;
        let mut turn = Turn::from(message).budget(self.budget);
        if let Some(id) = turn_id(headers, self.id)? {
            turn = turn.id(id);
        }
        turn.dry_run = self.dry_run;
        turn.streaming = self.streaming;
        turn.deadline = self.deadline.map(Timestamp);
        Ok(turn)
    }
}

/// The id of a turn: from the header, or from the request's body.
pub(crate) fn turn_id(
    headers: &HeaderMap,
    given: Option<String>,
) -> Result<Option<String>, Problem> {
    let header = match headers.get(&IDEMPOTENCY_KEY) {
        None => None,
        Some(key) => {
            let key = key
                .to_str()
                .map_err(|_| Problem::invalid("`Idempotency-Key` is ASCII"))?;
            Some(key.to_owned())
        }
    };
    let id = match (header, given) {
        (Some(header), Some(given)) if header != given => {
            return Err(Problem::invalid(
                "`id` and `Idempotency-Key` name the turn differently",
            ));
        }
        (header, given) => header.or(given),
    };
    let fits = |id: &String| (1..=MAX_ID).contains(&id.len()) && !id.chars().any(char::is_control);
    if id.as_ref().is_some_and(|id| !fits(id)) {
        let detail = format!("a turn's id is 1 to {MAX_ID} bytes without control characters");
        return Err(Problem::invalid(detail));
    }
    Ok(id)
}

/// Why a turn was not said.
pub(crate) enum Unsaid {
    /// The run under way waits for answers.
    Asking(RunId),
    /// Something else.
    Problem(Problem),
}

impl From<Unsaid> for Problem {
    fn from(unsaid: Unsaid) -> Self {
        match unsaid {
            Unsaid::Asking(run) => SystemError::Asking { run }.into(),
            Unsaid::Problem(problem) => problem,
        }
    }
}

impl From<Problem> for Unsaid {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Asked {
    /// Sends a turn, where its quotas allow it. To callers another owner's session is only a key that is taken.
    pub(crate) async fn say(&self, id: &SessionId, turn: Turn) -> Result<Run, Unsaid> {
        self.say_within(self.state.limits.max_wait, id, turn).await
    }

    /// The same, where the turns before it in its session end within this time, which is at most that for which a request
    /// may wait.
    pub(crate) async fn say_within(
        &self,
        most: Duration,
        id: &SessionId,
        mut turn: Turn,
    ) -> Result<Run, Unsaid> {
        let most = most.min(self.state.limits.max_wait);
        let quotas = &self.state.quotas;
        let admission = quotas
            .admit(&self.caller, id, &mut turn, &self.slot)
            .await?;
        let session = self.system.session(id.team.clone(), id.key.clone());
        let sent = tokio::select! {
            biased;
            sent = session.send(turn) => sent,
            () = self.state.stopping.cancelled() => return Err(Problem::stopping().into()),
            () = tokio::time::sleep(most) => return Err(Problem::busy().into()),
        };
        match (&sent, admission) {
            (Ok(run), Some(admission)) => quotas.follow(admission, run, Use::default()),
            // The turn may be recorded; its quotas are settled when that is known.
            (
                Err(SystemError::Stopped | SystemError::AgentLost { .. } | SystemError::Store(_)),
                _,
            )
            | (_, None) => {}
            (Err(_), Some(admission)) => quotas.give_back(admission).await,
        }
        sent.map_err(|error| match error {
            SystemError::Asking { run } => Unsaid::Asking(run),
            SystemError::Foreign { .. } => Problem::conflict("the session's key is taken").into(),
            error => Problem::from(error).into(),
        })
    }
}

pub(super) async fn say(
    asked: Asked,
    Path((team, key)): Path<(String, String)>,
    Query(query): Query<WaitQuery>,
    headers: HeaderMap,
    Body(body): Body<TurnBody>,
) -> Result<Response, Problem> {
    let session = asked.session(&team, &key)?;
    let mut turn = body.into_turn(&headers)?;
    let streams = wants_stream(&headers);
    if streams {
        turn.streaming.get_or_insert(true);
    }
    let run = match streams || query.wait.is_some() {
        true => asked.say(&session, turn).await?,
        false => asked.say_within(PATIENCE, &session, turn).await?,
    };
    if streams {
        return Ok(events::stream(&asked.state, run.events()));
    }
    answer(&asked, &run, query.longest()).await
}

/// The response to a turn, after at most this time.
pub(crate) async fn answer(
    asked: &Asked,
    run: &Run,
    most: Option<Duration>,
) -> Result<Response, Problem> {
    let (row, end, questions) = match most {
        None => (run.status().await?, None, Vec::new()),
        Some(most) => awaited(asked, run, most).await?,
    };
    let place = format!("/api/v1/runs/{}", row.run);
    let status = if end.is_some() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let view = TurnView {
        run: RunView::of(&row, &asked.caller),
        joined: run.has_joined() && row.run == run.id() && end.is_none(),
        events: format!("{place}/events"),
        end,
        questions,
    };
    let mut response = (status, Json(view)).into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// A run with its result, if it has ended or is parked, and its open questions.
pub(super) async fn stands(
    run: &Run,
    row: RunRow,
) -> Result<(RunRow, Option<End>, Vec<QuestionView>), Problem> {
    let end = match row.status {
        status if status.is_ended() && status != RunStatus::Continued => Some(run.outcome().await),
        RunStatus::Parked => Some(run.outcome().await),
        _ => None,
    };
    let end = match end {
        None => None,
        Some(Ok(outcome)) => Some(End::of_outcome(&outcome)),
        Some(Err(SystemError::Failed { error, .. } | SystemError::Parked { error, .. })) => {
            Some(End::of_error(&error))
        }
        Some(Err(error)) => return Err(error.into()),
    };
    let questions = match row.status {
        RunStatus::Waiting => run.questions().await?,
        _ => Vec::new(),
    };
    Ok((row, end, QuestionView::all(questions)))
}

/// The same, as soon as it has ended or asks something, after this time at the latest.
pub(super) async fn awaited(
    asked: &Asked,
    run: &Run,
    most: Duration,
) -> Result<(RunRow, Option<End>, Vec<QuestionView>), Problem> {
    let waited = wait(&asked.state, run, most, &[]).await;
    // A turn that was said to a run under way may be one of its own by now.
    let run = &run.taker().await?;
    let row = run.status().await?;
    let (end, questions) = match waited {
        Ok(Waited::Ended(outcome, _)) => (Some(End::of_outcome(&outcome)), Vec::new()),
        Ok(Waited::Asks(open)) => (None, QuestionView::all(open)),
        Ok(Waited::GoesOn) => match timeout(STANDS, stands(run, row.clone())).await {
            Ok(stands) => return stands,
            Err(_) => (None, Vec::new()),
        },
        // A run that ended badly is not a failure of the request.
        Err(problem) if row.status.is_ended() || problem.word() == "conflict" => {
            (Some(End::of_error(&problem.detail())), Vec::new())
        }
        Err(problem) => return Err(problem),
    };
    Ok((row, end, questions))
}
