//! OpenAI's and Anthropic's interfaces: an agent is a model, a request is a turn, a stream is the text of its run.
//!
//! Clients send the conversation with each request, or name a session, in which the team keeps it. Events that such an
//! interface cannot express (the team's own tool calls, delegation) stay in the run, where they can be seen. A call of
//! a client's tool is a question of the run, and its result is the answer.

mod calls;
mod chat;
mod dialog;
mod errors;
mod messages;
mod responses;
mod retold;
mod said;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, Method},
};
use serde_json::{Value, json};

pub(crate) use dialog::answer_of;
pub(crate) use errors::in_their_form;
pub(crate) use said::clients_tool;

use crate::{
    address::Path,
    api::Asked,
    caller::Scope,
    endpoint::{Access, Endpoints},
    problem::Problem,
};

const READ: Access = Access::Needs(Scope::Read);
const RUN: Access = Access::Needs(Scope::Run);
const POST: Method = Method::POST;
const GET: Method = Method::GET;
/// The header that names the session in which the conversation is kept.
const SESSION: HeaderName = HeaderName::from_static("x-session-id");

pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/v1/models",
            READ,
            "The teams, as models (OpenAI, Anthropic).",
            models,
        )
        .add(
            GET,
            "/v1/models/{team}",
            READ,
            "A team, as a model (OpenAI, Anthropic).",
            model,
        )
        .add(
            POST,
            "/v1/chat/completions",
            RUN,
            "A turn (OpenAI's chat completions).",
            chat::create,
        )
        .takes::<chat::Request>()
        .add(
            POST,
            "/v1/responses",
            RUN,
            "A turn (OpenAI's responses).",
            responses::create,
        )
        .takes::<responses::Request>()
        .add(
            GET,
            "/v1/responses/{id}",
            READ,
            "What a turn came to (OpenAI).",
            responses::one,
        )
        .add(
            POST,
            "/v1/responses/compact",
            RUN,
            "Refused: a team bounds its context itself (OpenAI).",
            responses::compact,
        )
        .add(
            POST,
            "/v1/responses/{id}/cancel",
            RUN,
            "Cancels the run of a turn (OpenAI).",
            responses::cancel,
        )
        .add(
            POST,
            "/v1/messages",
            RUN,
            "A turn (Anthropic's messages).",
            messages::create,
        )
        .takes::<messages::Request>()
}

/// A model with the fields of both interfaces, whose names do not collide.
fn shown(team: &str) -> Value {
    json!({
        "id": team, "object": "model", "created": 0, "owned_by": "ghostlight",
        "type": "model", "display_name": team, "created_at": "1970-01-01T00:00:00Z",
    })
}

async fn models(asked: Asked) -> Json<Value> {
    let teams = asked.state.teams();
    let data: Vec<Value> = teams.iter().map(|team| shown(&team.name)).collect();
    let id = |team: Option<&ghostlight_actors::definition::TeamSpec>| team.map(|t| t.name.clone());
    Json(json!({
        "object": "list", "data": data,
        "has_more": false, "first_id": id(teams.first()), "last_id": id(teams.last()),
    }))
}

async fn model(asked: Asked, Path(team): Path<String>) -> Result<Json<Value>, Problem> {
    let known = asked.state.has_team(&team);
    known
        .then(|| Json(shown(&team)))
        .ok_or_else(|| Problem::not_found(format!("model {team:?}")))
}

/// The session that a header names.
fn session_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let name = headers
        .get(&SESSION)
        .map(|key| key.to_str().map(str::to_owned));
    name.transpose()
        .map_err(|_| Problem::invalid("`X-Session-Id` is ASCII"))
}
