//! A tool call as a turn of a team's session.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ghostlight_actors::{
    actor::{EventStream, Run, SystemError},
    contract::{Entropy as _, SystemEntropy},
    session::Turn,
    vocabulary::{ArtifactInfo, Changed, Event, Outcome, Preview, RunId, Scope, SessionId},
};
use ghostlight_safety::{redact_text, sanitize_line};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, MetaObject,
        ProgressNotificationParam, ProgressToken,
    },
    service::RequestContext,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Stopping,
    handler::{Handler, send, space},
    logging,
    questions::{self, Answers, Asked},
    tasks,
};

/// The metadata keys by which a client names a call and a conversation.
const IDEMPOTENCY_KEY: &str = "ghostlight/idempotencyKey";
const SESSION: &str = "ghostlight/session";
/// The longest name of a session or turn, in bytes, and the longest progress message, in characters.
const NAME: usize = 200;
/// The most artifacts of one result.
const MAX_ARTIFACTS: usize = 20;
/// The most progress notifications of one call.
const MAX_PROGRESS: u32 = 10_000;
/// How long a result may wait until the earlier progress was sent.
const REST: Duration = Duration::from_secs(1);

/// A call of a team.
pub(super) struct Call {
    team: String,
    message: String,
    place: Place,
    answers: Answers,
}

/// The place of a call's turn. The client returns it after it has answered questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    session: String,
    turn: String,
    /// The questions that the client was asked last, by the keys of the requests.
    #[serde(default)]
    asked: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    message: String,
    session: Option<String>,
    turn_id: Option<String>,
}

impl Call {
    pub(super) fn read(
        handler: &Handler,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Self, ErrorData> {
        let team = params.name.into_owned();
        if !handler.served.teams.contains_key(&team) {
            let known: Vec<&str> = handler.served.teams.keys().map(String::as_str).collect();
            let message = format!("there is no tool {team:?}; there are: {}", known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        }
        let wrong = |reason: String| ErrorData::invalid_params(reason, None);
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let meta = |key: &str| {
            let value = context.meta.get(key).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let given = match handler.served.input_of(&team) {
            // The arguments follow the team's own input schema.
            Some(_) => Given {
                message: arguments.to_string(),
                session: None,
                turn_id: None,
            },
            None => Given::deserialize(arguments).map_err(|error| wrong(error.to_string()))?,
        };
        let mut answers = Answers {
            given: params.input_responses.unwrap_or_default(),
            asked: None,
        };
        let place = match params.request_state {
            // The state needs no signature: it holds nothing that the client could not choose by itself.
            Some(state) => {
                let place: Place = serde_json::from_str(&state)
                    .map_err(|_| wrong("`requestState` is none of this server".to_owned()))?;
                answers.asked = Some(place.asked.clone());
                place
            }
            None => {
                let turn = given.turn_id.or_else(|| meta(IDEMPOTENCY_KEY));
                let turn =
                    turn.unwrap_or_else(|| RunId::from_random(SystemEntropy.bits()).to_string());
                let session = given.session.or_else(|| meta(SESSION));
                let session = session.unwrap_or_else(|| format!("mcp-{turn}"));
                let asked = BTreeMap::new();
                Place {
                    session,
                    turn,
                    asked,
                }
            }
        };
        for (what, name) in [("session", &place.session), ("turn_id", &place.turn)] {
            if name.trim().is_empty() || name.len() > NAME || name.chars().any(char::is_control) {
                return Err(wrong(format!(
                    "`{what}` must have 1 to {NAME} bytes, not all of them blank, without control characters"
                )));
            }
        }
        Ok(Self {
            team,
            message: given.message,
            place,
            answers,
        })
    }

    /// Sends the turn, or finds it again, and waits for its end.
    pub(super) async fn carry(
        mut self,
        handler: &Handler,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let system = handler.system(&context);
        let session = system.session(&self.team, space(&context).key(&self.place.session));
        let turn = Turn::text(&self.message).id(&self.place.turn);
        let run = match send(&context, &session, turn).await {
            Ok(run) => run,
            Err(error) => return Ok(failed(&error).into()),
        };
        let _under_way = handler.keep(&context.id, &run);
        let (mut answers, mut answered) = (std::mem::take(&mut self.answers), BTreeSet::new());
        let mut told = Told::new(handler, &self.team, &context);
        let (mut events, mut watches) = (run.events(), true);
        let outcome = run.outcome();
        let takes_long = takes_long(handler, &context);
        tokio::pin!(outcome, takes_long);
        loop {
            let event = tokio::select! {
                biased;
                outcome = &mut outcome => {
                    told.rest(&mut events, &context).await;
                    let result = self.result(handler, &context, &run, outcome);
                    return Ok(result.await.into());
                }
                () = gone(&context) => {
                    let _ = run.cancel("the client closed the call").await;
                    return Err(ErrorData::internal_error("cancelled", None));
                }
                () = &mut takes_long => {
                    return match tasks::made(&run).await {
                        Ok(task) => Ok(task.into()),
                        Err(error) => Ok(failed(&error).into()),
                    };
                }
                event = events.next(), if watches => event,
            };
            let Some(Ok(record)) = event else {
                watches = false;
                continue;
            };
            if !matches!(record.event, Event::QuestionAsked { .. }) {
                told.tell(&record.event, &context).await;
                continue;
            }
            let asking = questions::ask(&system, &run, &context, &mut answers, &mut answered);
            let asked = tokio::select! {
                biased;
                outcome = &mut outcome => {
                    let result = self.result(handler, &context, &run, outcome);
                    return Ok(result.await.into());
                }
                asked = asking => asked,
            };
            match asked {
                Ok(Asked::Answered) => {}
                Ok(Asked::Required(requests, asked)) => {
                    self.place.asked = asked;
                    let state = serde_json::to_string(&self.place).ok();
                    let required = rmcp::model::InputRequiredResult::new(Some(requests), state);
                    return Ok(required.into());
                }
                Ok(Asked::Open(text)) => {
                    // A model reads the text of a result, and not its `_meta`.
                    let Place { session, turn, .. } = &self.place;
                    let (in_session, of_turn) = match handler.served.input_of(&self.team) {
                        None => ("session", "turn_id"),
                        Some(_) => (SESSION, IDEMPOTENCY_KEY),
                    };
                    let text = format!(
                        "{text}, the same call goes on with `{in_session}` {session:?} and `{of_turn}` {turn:?}."
                    );
                    return Ok(self.shown(&run, text, "asking").into());
                }
                Err(error) => return Ok(failed(&error).into()),
            }
        }
    }

    fn session(&self, context: &RequestContext<RoleServer>) -> SessionId {
        SessionId {
            team: self.team.as_str().into(),
            key: space(context).key(&self.place.session).into(),
        }
    }

    async fn result(
        &self,
        handler: &Handler,
        context: &RequestContext<RoleServer>,
        run: &Run,
        outcome: Result<Outcome, SystemError>,
    ) -> CallToolResult {
        let session = self.session(context);
        let mut result = result(handler, context, run, Some(&session), outcome).await;
        if let Some(meta) = &mut result.meta {
            meta.insert("ghostlight/turn".to_owned(), json!(self.place.turn));
        }
        result
    }

    /// A result with its session and run.
    fn shown(&self, run: &Run, text: String, status: &str) -> CallToolResult {
        let mut result = shown(run, Some(&self.place.session), text, status);
        if let Some(meta) = &mut result.meta {
            meta.insert("ghostlight/turn".to_owned(), json!(self.place.turn));
        }
        result
    }
}

/// The result of a run, whichever request asks for it.
pub(super) async fn result_of(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    run: &Run,
    session: Option<&SessionId>,
) -> CallToolResult {
    let outcome = run.outcome().await;
    result(handler, context, run, session, outcome).await
}

async fn result(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    run: &Run,
    session: Option<&SessionId>,
    outcome: Result<Outcome, SystemError>,
) -> CallToolResult {
    let space = space(context);
    let name = session.and_then(|session| space.name(&session.key));
    let mut result = match outcome {
        Ok(Outcome::Stopped { reason, partial }) => {
            let partial = partial.map(|answer| answer.text).unwrap_or_default();
            let text = format!("The team stopped before its end ({reason}). {partial}");
            let mut result = shown(run, name, text.trim_end().to_owned(), "stopped");
            result.is_error = Some(true);
            result
        }
        Ok(outcome) => {
            let mut result = shown(run, name, outcome.text().to_owned(), "answered");
            let is_typed = session.is_some_and(|one| handler.served.output_of(&one.team).is_some());
            if is_typed && let Ok(value @ Value::Object(_)) = outcome.parse() {
                result.structured_content = Some(value);
            }
            result
        }
        Err(error) => {
            let text = redact_text(&error.to_string()).into_owned();
            let mut result = shown(run, name, text, "failed");
            result.is_error = Some(true);
            result
        }
    };
    if let Some(session) = session {
        let saved = saved(handler, context, run, session).await;
        let resources = handler.resources(context);
        result
            .content
            .extend(resources.shown(session, &saved).await);
    }
    result
}

/// The artifacts that a run saved for its session, each in its latest version.
async fn saved(
    handler: &Handler,
    context: &RequestContext<RoleServer>,
    run: &Run,
    session: &SessionId,
) -> Vec<ArtifactInfo> {
    let kept = handler.system(context).session(&session.team, &session.key);
    // Most sessions have no artifacts, so their journals need not be read again.
    if kept
        .artifacts(Scope::Session)
        .await
        .is_ok_and(|kept| kept.is_empty())
    {
        return Vec::new();
    }
    // A run that is parked has no end to wait for.
    let events = run.events().so_far().await.unwrap_or_default();
    let mut saved = Vec::<ArtifactInfo>::new();
    for record in events {
        let Event::Changed {
            changed:
                Changed::Artifact {
                    scope: Scope::Session,
                    artifact,
                },
            ..
        } = record.event
        else {
            continue;
        };
        saved.retain(|known| known.name != artifact.name);
        saved.push(artifact);
        if saved.len() > MAX_ARTIFACTS {
            saved.remove(0);
        }
    }
    saved
}

/// A result with its session and run.
fn shown(run: &Run, session: Option<&str>, text: String, status: &str) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    let meta = json!({
        SESSION: session,
        "ghostlight/run": run.id().to_string(),
        "ghostlight/status": status,
    });
    result.meta = meta.as_object().cloned().map(MetaObject::from);
    result
}

/// Waits for the time after which a call becomes a task; for ever if the client knows no tasks.
async fn takes_long(handler: &Handler, context: &RequestContext<RoleServer>) {
    let knows = context.client_capabilities();
    match handler.served.tasks_after {
        Some(after) if knows.is_some_and(|knows| knows.supports_tasks()) => {
            tokio::time::sleep(after.max(Duration::from_millis(1))).await;
        }
        _ => std::future::pending().await,
    }
}

fn failed(error: &dyn std::fmt::Display) -> CallToolResult {
    let text = redact_text(&error.to_string()).into_owned();
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Waits until the client has closed the call. In the newest revision over HTTP this cancels the call; elsewhere a lost
/// connection cancels nothing, and a client cancels by a notification.
async fn gone(context: &RequestContext<RoleServer>) {
    let request = context.extensions.get::<http::request::Parts>();
    let Some(request) = request.filter(|_| questions::is_newest(context)) else {
        return std::future::pending().await;
    };
    context.ct.cancelled().await;
    let stopping = request.extensions.get::<Stopping>();
    if stopping.is_some_and(|Stopping(stopping)| stopping.is_cancelled()) {
        std::future::pending().await
    }
}

/// The notifications to a client during a call.
struct Told<'a> {
    team: &'a str,
    /// The token for progress, if the client wants progress.
    token: Option<ProgressToken>,
    /// Whether the client wants log messages.
    logs: bool,
    told: u32,
}

impl<'a> Told<'a> {
    fn new(handler: &Handler, team: &'a str, context: &RequestContext<RoleServer>) -> Self {
        Self {
            team,
            token: context.meta.get_progress_token(),
            logs: handler.logs(context),
            told: 0,
        }
    }

    /// Whether the client wants any notifications.
    fn is_wanted(&self) -> bool {
        self.logs || self.token.is_some()
    }

    /// Sends the notifications of the events before the end, if the end came first.
    async fn rest(&mut self, events: &mut EventStream, context: &RequestContext<RoleServer>) {
        if !self.is_wanted() {
            return;
        }
        let telling = async {
            while let Some(Ok(record)) = events.next().await {
                self.tell(&record.event, context).await;
            }
        };
        // The result does not wait for events that do not come.
        let _ = tokio::time::timeout(REST, telling).await;
    }

    async fn tell(&mut self, event: &Event, context: &RequestContext<RoleServer>) {
        let message = match event {
            Event::Preview(Preview::ToolStarted { call, .. }) => format!("calls {}", call.name),
            Event::Preview(Preview::ToolProgress { message, .. }) if !message.is_empty() => {
                message.clone()
            }
            Event::Delegated { agent, .. } => format!("asks {agent}"),
            Event::DelegationEnded { agent, .. } => format!("{agent} answers"),
            Event::Resumed { .. } => "goes on after an interruption".to_owned(),
            _ => return,
        };
        if !self.is_wanted() || self.told >= MAX_PROGRESS {
            return;
        }
        self.told += 1;
        let message = sanitize_line(&redact_text(&message), NAME);
        // The client may be gone.
        if self.logs {
            let _ = logging::tell(&context.peer, self.team, &message).await;
        }
        if let Some(token) = &self.token {
            let mut params = ProgressNotificationParam::new(token.clone(), f64::from(self.told));
            params.message = Some(message);
            let _ = context.peer.notify_progress(params).await;
        }
    }
}
