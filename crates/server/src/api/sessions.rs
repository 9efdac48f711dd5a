//! Sessions, and the artifacts that they keep.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_actors::{
    actor::{Session, SessionQuery},
    contract::SessionRow,
    session::LoggedTurn,
    vocabulary::{ArtifactInfo, Data, DataSource, Message, Scope},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Asked, GET, POST, READ, RUN,
    turns::{self, TurnBody, TurnView, WaitQuery},
    views::{SessionName, Shown},
};
use crate::{
    address::{Path, Query},
    body::Json as Body,
    caller::Caller,
    endpoint::Endpoints,
    problem::Problem,
};

/// The number of sessions in a page: the default, and the maximum.
const PAGE: (usize, usize) = (50, 500);

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(GET, "/api/v1/sessions", READ, "Sessions, the latest first.", list)
        .asks::<ListQuery>()
        .gives::<Page>()
        .add(GET, "/api/v1/sessions/{team}/{key}", READ, "A session's turns.", log)
        .gives::<Log>()
        .add(
            GET,
            "/api/v1/sessions/{team}/{key}/messages",
            READ,
            "The conversation, up to the last turn that ended.",
            messages,
        )
        .gives::<Vec<Value>>()
        .add(
            POST,
            "/api/v1/sessions/{team}/{key}/turns",
            RUN,
            "Sends a turn: answers when it is recorded, or waits (`wait`), or streams (`Accept: text/event-stream`).",
            turns::say,
        )
        .asks::<WaitQuery>()
        .takes::<TurnBody>()
        .gives::<TurnView>()
        .add(
            POST,
            "/api/v1/sessions/{team}/{key}/fork",
            RUN,
            "Begins another session that goes on from a point of this one.",
            fork,
        )
        .takes::<SessionForkBody>()
        .gives::<SessionName>()
        .add(POST, "/api/v1/sessions/{team}/{key}/rewind", RUN, "Goes back to a point.", rewind)
        .takes::<RewindBody>()
        .gives::<Log>()
        .add(GET, "/api/v1/sessions/{team}/{key}/state", READ, "Values of its state.", state)
        .asks::<ScopeQuery>()
        .gives::<Value>()
        .add(GET, "/api/v1/sessions/{team}/{key}/artifacts", READ, "Its artifacts.", artifacts)
        .asks::<ScopeQuery>()
        .gives::<Vec<Value>>()
        .add(
            GET,
            "/api/v1/sessions/{team}/{key}/artifacts/{name}",
            READ,
            "An artifact's content.",
            artifact,
        )
        .asks::<ArtifactQuery>()
        .add(
            GET,
            "/api/v1/sessions/{team}/{key}/turns/{number}/files/{place}",
            READ,
            "A file of a turn, by its place among the turn's `files`, from 0.",
            file,
        )
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only sessions of this team.
    team: Option<String>,
    /// Only sessions of this owner; for the operator and readers of tenants.
    owner: Option<String>,
    /// Only sessions in which a turn is under way.
    active: Option<bool>,
    /// The most sessions in a page; 50 when left out, 500 at the most.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// A page of sessions.
#[derive(Debug, Serialize, JsonSchema)]
struct Page {
    sessions: Vec<Summary>,
    /// The value of `after` for the next page; `null` where this is the last.
    next: Option<String>,
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary {
    session: SessionName,
    /// Its owner.
    owner: Option<String>,
    /// How many turns count, without those that a rewind dropped.
    turns: u64,
    /// The first characters of the latest message.
    title: String,
    /// The run of the turn that is under way.
    open: Option<String>,
    /// When the session last changed, in milliseconds since 1970.
    updated_at: u64,
}

async fn list(asked: Asked, Query(query): Query<ListQuery>) -> Result<Json<Page>, Problem> {
    let mut wanted = SessionQuery::default();
    (wanted.team, wanted.owner) = (query.team, query.owner);
    wanted.active = query.active.unwrap_or_default();
    wanted.limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    if let Some(cursor) = query.after {
        wanted.after = Some(
            read_cursor(&cursor)
                .ok_or_else(|| Problem::invalid("`after` is the `next` of the page before"))?,
        );
    }
    let page = asked.system.sessions().list(wanted).await?;
    let mut sessions = Vec::new();
    for one in page.sessions {
        let seen = asked.state.check_team(&one.session.team).is_ok();
        if !seen || asked.caller.key_of(&one.session).is_none() {
            continue;
        }
        sessions.push(Summary {
            session: SessionName::of(&one.session, &asked.caller),
            owner: one.owner,
            turns: one.turns,
            title: ghostlight_safety::redact_text(&one.title).into_owned(),
            open: one.open.map(|run| run.to_string()),
            updated_at: one.updated_at.0,
        });
    }
    let next = page
        .next
        .as_ref()
        .and_then(|row| serde_json::to_vec(row).ok());
    let next = next.map(|row| URL_SAFE_NO_PAD.encode(row));
    Ok(Json(Page { sessions, next }))
}

fn read_cursor(cursor: &str) -> Option<SessionRow> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// A session's turns.
#[derive(Debug, Serialize, JsonSchema)]
struct Log {
    session: SessionName,
    owner: Option<String>,
    /// The turns that count, in order: `number`, `turn`, `run`, `said`, `answer`, `began_at`, `ended_at` and more.
    #[schemars(with = "Vec<Value>")]
    turns: Vec<LoggedTurn>,
    /// The agent that answers the next turn.
    active_agent: Option<String>,
    /// How many messages the conversation has.
    messages: u64,
    /// How often the session was rewound.
    rewound: u64,
}

type Named = Path<(String, String)>;

fn session(asked: &Asked, Path((team, key)): Named) -> Result<Session, Problem> {
    let id = asked.session(&team, &key)?;
    Ok(asked.system.session(id.team, id.key))
}

async fn shown(asked: &Asked, session: &Session) -> Result<Log, Problem> {
    let log = session.log().await?;
    if log.turns.is_empty() {
        return Err(Problem::not_found(format!("session {}", session.id())));
    }
    Ok(Log {
        session: SessionName::of(session.id(), &asked.caller),
        owner: log.owner,
        turns: log.turns,
        active_agent: log.active_agent,
        messages: log.messages,
        rewound: log.rewound,
    })
}

async fn log(asked: Asked, named: Named) -> Result<Shown<Log>, Problem> {
    let session = session(&asked, named)?;
    shown(&asked, &session).await.map(Shown)
}

async fn messages(asked: Asked, named: Named) -> Result<Shown<Vec<Message>>, Problem> {
    let transcript = session(&asked, named)?.transcript().await?;
    let messages = transcript.messages().into_iter();
    Ok(Shown(
        messages.map(|message| Message::clone(&message)).collect(),
    ))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionForkBody {
    /// How many turns are kept.
    turns: u64,
    /// The key of the new session.
    key: String,
}

async fn fork(
    asked: Asked,
    named: Named,
    Body(body): Body<SessionForkBody>,
) -> Result<Json<SessionName>, Problem> {
    let session = session(&asked, named)?;
    let to = asked.session(&session.id().team, &body.key)?;
    let forked = session.fork(body.turns, to.key).await?;
    Ok(Json(SessionName::of(forked.id(), &asked.caller)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RewindBody {
    /// How many turns are kept.
    turns: u64,
}

async fn rewind(
    asked: Asked,
    named: Named,
    Body(body): Body<RewindBody>,
) -> Result<Shown<Log>, Problem> {
    let session = session(&asked, named)?;
    session.rewind(body.turns).await?;
    let mut log = session.log().await?;
    Ok(Shown(Log {
        session: SessionName::of(session.id(), &asked.caller),
        owner: log.owner.take(),
        turns: log.turns,
        active_agent: log.active_agent,
        messages: log.messages,
        rewound: log.rewound,
    }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScopeQuery {
    /// `session` (the default) or `user`; `user:OWNER` for the operator and the reader of the owner's tenant; `app` for
    /// the operator.
    scope: Option<String>,
}

/// The scope of this name.
fn scope(asked: &Asked, named: Option<&str>) -> Result<Scope, Problem> {
    match named.unwrap_or("session") {
        "session" => Ok(Scope::Session),
        named => {
            let scope = shared_scope(&asked.caller, named);
            scope.ok_or_else(no_scope)
        }
    }
}

pub(super) fn no_scope() -> Problem {
    Problem::invalid("`scope` is none that there is, or not for this caller: see /openapi.json")
}

/// The scope of several sessions that this caller may look at under this name. The scope that all users of a team share is
/// the operator's.
pub(super) fn shared_scope(caller: &Caller, named: &str) -> Option<Scope> {
    if let ("user", Caller::Subject(_), Some(own)) = (named, caller, caller.subject()) {
        return Some(Scope::User(own.to_owned()));
    }
    match named.parse().ok()? {
        Scope::User(owner) if caller.reaches(Some(&owner)) => Some(Scope::User(owner)),
        Scope::App if *caller == Caller::Operator => Some(Scope::App),
        _ => None,
    }
}

async fn state(
    asked: Asked,
    named: Named,
    Query(query): Query<ScopeQuery>,
) -> Result<Shown<serde_json::Map<String, Value>>, Problem> {
    let scope = scope(&asked, query.scope.as_deref())?;
    let values = session(&asked, named)?.state(scope).await?;
    Ok(Shown(values.into_iter().collect()))
}

async fn artifacts(
    asked: Asked,
    named: Named,
    Query(query): Query<ScopeQuery>,
) -> Result<Json<Vec<ArtifactInfo>>, Problem> {
    let scope = scope(&asked, query.scope.as_deref())?;
    Ok(Json(session(&asked, named)?.artifacts(scope).await?))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArtifactQuery {
    /// The scope, as in the list.
    scope: Option<String>,
    /// A version; the latest, when left out.
    version: Option<u64>,
}

async fn artifact(
    asked: Asked,
    Path((team, key, name)): Path<(String, String, String)>,
    Query(query): Query<ArtifactQuery>,
) -> Result<Response, Problem> {
    let scope = scope(&asked, query.scope.as_deref())?;
    let session = session(&asked, Path((team, key)))?;
    let found = session.artifact(scope, &name, query.version).await?;
    let artifact = found.ok_or_else(|| Problem::not_found(format!("artifact {name:?}")))?;
    let content = bytes::Bytes::from_owner(artifact.content);
    let mut response = saved(content, &artifact.info.media_type);
    response.headers_mut().insert(
        HeaderName::from_static("x-artifact-version"),
        HeaderValue::from(artifact.info.version),
    );
    Ok(response)
}

async fn file(
    asked: Asked,
    Path((team, key, number, place)): Path<(String, String, u64, usize)>,
) -> Result<Response, Problem> {
    let found = session(&asked, Path((team, key)))?
        .file(number, place)
        .await?;
    let none = || Problem::not_found(format!("file {place} of turn {number}"));
    let Data {
        source, media_type, ..
    } = found.ok_or_else(none)?;
    // The server opens no address that a caller gave.
    let DataSource::Base64(text) = source else {
        return Err(none());
    };
    let content = STANDARD.decode(text.trim()).map_err(|_| none())?;
    Ok(saved(content.into(), &media_type))
}

/// Bytes that an agent or a caller wrote: a browser is to show a picture or save a file, and never to run it.
fn saved(content: bytes::Bytes, media_type: &str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(media_type);
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind.unwrap_or(unknown));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let sandbox = HeaderValue::from_static("sandbox; default-src 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    response
}
