//! The Agent2Agent protocol (A2A 1.0): a team is an agent, a session is a context, the run of a turn is a task.
//!
//! `ghostlight_a2a::translation` decides what a message, an event and a run mean in the protocol; this module serves it
//! over HTTP, in the bindings JSON-RPC, HTTP+JSON and `gRPC`.

mod card;
mod following;
mod grpc;
mod http_json;
mod json_rpc;
mod listing;
mod methods;
mod pushing;
mod tasks;

use axum::http::{HeaderMap, Method, Uri};
use ghostlight_a2a::protocol::{
    AgentCard, ErrorCode, ListPushConfigsResponse, ProtocolError, PushConfig, SendMessage,
    VERSION_HEADER, speaks,
};

pub(crate) use following::{News, TaskEvents};
pub(crate) use grpc::in_its_form;

use crate::{
    caller::Scope,
    endpoint::{Access, Endpoints},
    problem::Problem,
};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUBLIC: Access = Access::Public;
const READ: Access = Access::Needs(Scope::Read);
const RUN: Access = Access::Needs(Scope::Run);

/// All endpoints of the protocol.
pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    let about = "What the server's one agent says of itself (A2A).";
    let of_one = "What an agent says of itself (A2A).";
    let endpoints = endpoints
        .add(
            GET,
            "/.well-known/agent-card.json",
            PUBLIC,
            about,
            card::only,
        )
        .add(GET, "/.well-known/agent.json", PUBLIC, about, card::only)
        .add(
            GET,
            "/a2a",
            PUBLIC,
            "The agents that speak A2A, with the places of their cards.",
            card::all,
        )
        .add(
            GET,
            "/a2a/{team}/.well-known/agent-card.json",
            PUBLIC,
            of_one,
            card::one,
        )
        .add(
            GET,
            "/a2a/{team}/.well-known/agent.json",
            PUBLIC,
            of_one,
            card::one,
        );
    let about = "Any request of A2A's JSON-RPC binding.";
    let endpoints = endpoints
        .add(POST, "/a2a/{team}", READ, about, json_rpc::answer)
        .add(
            POST,
            "/lf.a2a.v1.A2AService/{method}",
            READ,
            "Any request of A2A's gRPC binding, over HTTP/2.",
            grpc::answer,
        )
        // Some clients send their requests to a path below the card's.
        .add(POST, "/a2a/{team}/", READ, about, json_rpc::answer)
        .add(POST, "/a2a/{team}/message:send", RUN, "A turn or an answer (A2A).", http_json::send)
        .takes::<SendMessage>()
        .add(
            POST,
            "/a2a/{team}/message:stream",
            RUN,
            "A turn or an answer, and what comes of it as a stream (A2A).",
            http_json::stream,
        )
        .takes::<SendMessage>()
        .add(GET, "/a2a/{team}/tasks", READ, "Tasks, the one that changed last at the front (A2A).", http_json::list)
        .add(
            GET,
            "/a2a/{team}/tasks/{run}",
            READ,
            "A task; with `:subscribe` behind its id what becomes of it, as a stream (A2A).",
            http_json::look,
        )
        .add(
            POST,
            "/a2a/{team}/tasks/{run}",
            READ,
            "Cancels a task (`:cancel` behind its id, needs the scope run) or follows it (`:subscribe`) (A2A).",
            http_json::act,
        );
    let place = "/a2a/{team}/tasks/{run}/pushNotificationConfigs";
    let one = "/a2a/{team}/tasks/{run}/pushNotificationConfigs/{receiver}";
    let about = "The receivers of a task's push notifications (A2A).";
    endpoints
        .add(GET, place, READ, about, http_json::pushes)
        .gives::<ListPushConfigsResponse>()
        .add(
            POST,
            place,
            RUN,
            "Adds a receiver of a task's push notifications (A2A).",
            http_json::create_push,
        )
        .takes::<PushConfig>()
        .gives::<PushConfig>()
        .add(
            GET,
            one,
            READ,
            "A receiver of a task's push notifications (A2A).",
            http_json::get_push,
        )
        .gives::<PushConfig>()
        .add(
            Method::DELETE,
            one,
            RUN,
            "Removes a receiver of a task's push notifications (A2A).",
            http_json::delete_push,
        )
        .add(
            GET,
            "/a2a/{team}/extendedAgentCard",
            READ,
            "What an agent says of itself to callers that have authenticated (A2A).",
            http_json::extended_card,
        )
        .gives::<AgentCard>()
}

/// Checks that the client speaks the version of this server.
fn check_version(headers: &HeaderMap, uri: &Uri) -> Result<(), ProtocolError> {
    let header = headers
        .get(VERSION_HEADER)
        .and_then(|version| version.to_str().ok());
    let of_query = || {
        let pairs = uri.query().unwrap_or_default().split('&');
        pairs
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(name, value)| name.eq_ignore_ascii_case(VERSION_HEADER).then_some(value))
    };
    let version = header.or_else(of_query).unwrap_or_default();
    if speaks(version) {
        return Ok(());
    }
    let version: String = version.chars().take(16).collect();
    Err(ProtocolError::new(
        ErrorCode::VersionNotSupported,
        format!(
            "version {version:?} is not spoken: send the header `A2A-Version: 1.0` (without it 0.3 is meant)"
        ),
    ))
}

/// A problem in the protocol's words.
fn refused(problem: &Problem) -> ProtocolError {
    let code = match problem.status().as_u16() {
        403 => ErrorCode::Forbidden,
        404 | 410 => ErrorCode::TaskNotFound,
        409 => ErrorCode::UnsupportedOperation,
        429 | 503 | 504 => ErrorCode::Unavailable,
        400..=499 => ErrorCode::InvalidParams,
        _ => ErrorCode::Internal,
    };
    ProtocolError::new(code, problem.detail())
}
