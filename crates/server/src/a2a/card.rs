//! Agent cards: how agents describe themselves.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use ghostlight_a2a::protocol::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, CARD_PATH,
    MESSAGES_ARE_TOLD_ONCE, SecurityRequirement, VERSION,
};
use ghostlight_actors::{
    definition::{AgentSpec, Reach, TeamSpec},
    vocabulary::Digest,
};
use serde_json::{Value, json};

use crate::{
    address::{Path, base, escaped},
    caller::Caller,
    problem::Problem,
    server::{Shared, State as ServerState, Visibility},
};

/// How long clients may cache a card, in seconds.
const MAX_AGE_S: u32 = 60;

type MaybeCaller = Option<Extension<Caller>>;

/// The teams that the caller may know of.
fn visible(state: &ServerState, caller: &MaybeCaller) -> Vec<TeamSpec> {
    let mut teams = state.teams();
    let knows_all = state.keys.is_none() || caller.is_some();
    teams.retain(|team| knows_all || state.visibility(&team.name) == Visibility::Public);
    teams
}

pub(super) async fn one(
    State(state): State<Shared>,
    caller: MaybeCaller,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut teams = visible(&state, &caller).into_iter();
    let found = teams.find(|known| known.name == team);
    let found = found
        .ok_or_else(|| Problem::not_found(format!("agent {team:?}, or none without a key")))?;
    Ok(shown(&state, &found, &headers))
}

pub(super) async fn only(
    State(state): State<Shared>,
    caller: MaybeCaller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match visible(&state, &caller).as_slice() {
        [team] => Ok(shown(&state, team, &headers)),
        [] => Err(Problem::not_found("agent here, or none without a key")),
        _ => Err(Problem::not_found(
            "one agent that is meant: /a2a lists them, each with its card",
        )),
    }
}

pub(super) async fn all(
    State(state): State<Shared>,
    caller: MaybeCaller,
    headers: HeaderMap,
) -> Json<Value> {
    let teams = visible(&state, &caller);
    let base = base(&state, &headers);
    let listed = teams.iter().map(|team| {
        json!({
            "name": team.name, "description": team.agent.description,
            "card": format!("{}{CARD_PATH}", address(&base, team)),
        })
    });
    Json(json!({ "agents": listed.collect::<Vec<_>>() }))
}

/// The address of a team.
fn address(base: &str, team: &TeamSpec) -> String {
    format!("{base}/a2a/{}", escaped(&team.name))
}

fn shown(state: &ServerState, team: &TeamSpec, headers: &HeaderMap) -> Response {
    let card = card(
        team,
        &address(&base(state, headers), team),
        state.keys.is_some(),
        state
            .deliveries()
            .is_ok_and(|deliveries| deliveries.may_be_asked()),
    );
    let body = serde_json::to_vec(&card).unwrap_or_default();
    let tag = format!("\"{:.16}\"", Digest::of(&body).to_string());
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|known| known.to_str().ok());
    let mut response = match known == Some(tag.as_str()) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
    };
    let headers = response.headers_mut();
    let kept = if state.keys.is_some() {
        "private"
    } else {
        "public"
    };
    for (name, value) in [
        (
            header::CACHE_CONTROL,
            format!("{kept}, max-age={MAX_AGE_S}"),
        ),
        (header::ETAG, tag),
        (header::VARY, "Host, Authorization, X-Api-Key".to_owned()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

/// The card of a team at this address.
pub(super) fn card(team: &TeamSpec, address: &str, has_keys: bool, pushes: bool) -> AgentCard {
    let interface = |binding: &str| AgentInterface {
        url: address.to_owned(),
        protocol_binding: binding.to_owned(),
        protocol_version: VERSION.to_owned(),
        tenant: String::new(),
    };
    let mut security_schemes = BTreeMap::new();
    let mut security_requirements = Vec::new();
    if has_keys {
        let bearer = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } });
        let header =
            json!({ "apiKeySecurityScheme": { "location": "header", "name": "x-api-key" } });
        for (name, scheme) in [("bearer", bearer), ("header", header)] {
            security_schemes.insert(name.to_owned(), scheme);
            let schemes = BTreeMap::from([(name.to_owned(), json!({ "list": [] }))]);
            security_requirements.push(SecurityRequirement { schemes });
        }
    }
    let definition = serde_json::to_vec(team).unwrap_or_default();
    let once = AgentExtension {
        uri: MESSAGES_ARE_TOLD_ONCE.to_owned(),
        description:
            "A message that is sent again under its id is told once, also after a restart."
                .to_owned(),
        ..AgentExtension::default()
    };
    let modes = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
    AgentCard {
        name: team.name.clone(),
        description: about(&team.agent),
        supported_interfaces: vec![interface("JSONRPC"), interface("HTTP+JSON")],
        // The version changes with the team's definition.
        version: format!("{:.12}", Digest::of(&definition).to_string()),
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: pushes,
            extended_agent_card: false,
            extensions: vec![once],
        },
        security_schemes,
        security_requirements,
        default_input_modes: modes(&["text/plain", "application/json", "application/octet-stream"]),
        default_output_modes: modes(&["text/plain", "application/json"]),
        skills: skills(&team.agent),
    }
}

fn about(agent: &AgentSpec) -> String {
    match agent.description.as_str() {
        // The protocol requires a description.
        "" => format!("The agent {}.", agent.name),
        description => description.to_owned(),
    }
}

/// The skills of a team: those of its first agent and of the agents that it reaches directly.
fn skills(root: &AgentSpec) -> Vec<AgentSkill> {
    let below = root
        .agents
        .iter()
        .filter(|agent| agent.reach != Reach::Hidden);
    let skill = |agent: &AgentSpec| AgentSkill {
        id: agent.name.clone(),
        name: agent.name.clone(),
        description: about(agent),
        tags: vec![agent.name.clone()],
        examples: Vec::new(),
    };
    std::iter::once(root).chain(below).map(skill).collect()
}
