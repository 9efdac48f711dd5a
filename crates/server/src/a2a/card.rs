//! Agent cards: how agents describe themselves.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use ghostlight_a2a::protocol::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Binding, CARD_PATH,
    ErrorCode, MESSAGES_ARE_TOLD_ONCE, ProtocolError, SecurityRequirement, VERSION,
};
use ghostlight_actors::{
    definition::{AgentSpec, Reach, TeamSpec},
    vocabulary::Digest,
};
use ghostlight_safety::percent_encoded;
use serde_json::{Value, json};

use super::tasks::Agent;
use crate::{
    address::{Path, base},
    caller::{Caller, Scope},
    problem::Problem,
    server::{Shared, State as ServerState, Visibility},
};

/// How long clients may cache a card, in seconds.
const MAX_AGE_S: u32 = 60;

type MaybeCaller = Option<Extension<Caller>>;

/// The teams that the caller may know of.
fn visible(state: &ServerState, caller: &MaybeCaller) -> Vec<TeamSpec> {
    let mut teams = state.teams();
    let knows_all = state.is_open() || caller.is_some();
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
    shown(&state, &found, &headers)
}

pub(super) async fn only(
    State(state): State<Shared>,
    caller: MaybeCaller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match visible(&state, &caller).as_slice() {
        [team] => shown(&state, team, &headers),
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
    format!("{base}/a2a/{}", percent_encoded(&team.name))
}

fn shown(state: &ServerState, team: &TeamSpec, headers: &HeaderMap) -> Result<Response, Problem> {
    let mut card = card(state, team, headers, Shown::ToAll);
    // Each signature by ES256 is another one, so the tag is that of what is signed, and of the key.
    let key = state.card_signer.as_ref().map(|signer| signer.key_id());
    let tagged = serde_json::to_vec(&(&card, key)).unwrap_or_default();
    let tag = format!("W/\"{:.16}\"", Digest::of(&tagged).to_string());
    sign(state, &mut card)?;
    let body = serde_json::to_vec(&card).unwrap_or_default();
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|known| known.to_str().ok());
    let mut response = match known == Some(tag.as_str()) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
    };
    let headers = response.headers_mut();
    let kept = if state.is_open() { "public" } else { "private" };
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
    Ok(response)
}

/// Signs a card, if the server has a key for it.
fn sign(state: &ServerState, card: &mut AgentCard) -> Result<(), Problem> {
    let Some(signer) = &state.card_signer else {
        return Ok(());
    };
    if state.address.is_none() {
        let detail =
            "the server signs its cards and does not know its own address: its operator sets it";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "address", detail));
    }
    signer.sign(card).map_err(|error| {
        tracing::error!(agent = %card.name, %error, "a card is not signed");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            error.to_string(),
        )
    })
}

/// The card that a caller gets who has authenticated: with all agents of the team, also those that it does not show.
pub(super) fn extended(agent: &Agent, headers: &HeaderMap) -> Result<AgentCard, ProtocolError> {
    let state = &agent.asked.state;
    let refused = |text: &str| Err(ProtocolError::new(ErrorCode::UnsupportedOperation, text));
    if state.is_open() {
        return refused(
            "nobody authenticates here, so the agent says the same to all: read its card",
        );
    }
    match state.team(&agent.team) {
        Some(team) => {
            let mut card = card(state, &team, headers, Shown::ToCallers);
            sign(state, &mut card).map_err(|problem| super::refused(&problem))?;
            Ok(card)
        }
        None => refused("the agent is gone"),
    }
}

/// The readers of a card.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    ToAll,
    ToCallers,
}

fn card(state: &ServerState, team: &TeamSpec, headers: &HeaderMap, shown: Shown) -> AgentCard {
    let base = &base(state, headers);
    let has_keys = !state.is_open();
    let deliveries = state.deliveries();
    let pushes = deliveries.is_ok_and(|deliveries| deliveries.may_be_asked());
    let interface = |binding: Binding| {
        // All agents have one service of gRPC, whose requests name theirs as the tenant.
        let (url, tenant) = match binding {
            Binding::Grpc => (base.to_owned(), team.name.clone()),
            _ => (address(base, team), String::new()),
        };
        AgentInterface {
            url,
            tenant,
            protocol_binding: binding.name().to_owned(),
            protocol_version: VERSION.to_owned(),
        }
    };
    let mut security_schemes = BTreeMap::new();
    let mut security_requirements = Vec::new();
    if has_keys {
        let bearer = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } });
        let header =
            json!({ "apiKeySecurityScheme": { "location": "header", "name": "x-api-key" } });
        for (name, scheme) in [("bearer", bearer), ("header", header)] {
            security_schemes.insert(name.to_owned(), scheme);
            let scopes = json!({ "list": [Scope::Read.as_str(), Scope::Run.as_str()] });
            let schemes = BTreeMap::from([(name.to_owned(), scopes)]);
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
        supported_interfaces: [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc]
            .map(interface)
            .to_vec(),
        // The version changes with the team's definition.
        version: format!("{:.12}", Digest::of(&definition).to_string()),
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: pushes,
            extended_agent_card: has_keys,
            extensions: vec![once],
        },
        security_schemes,
        security_requirements,
        default_input_modes: modes(&["text/plain", "application/json", "application/octet-stream"]),
        default_output_modes: modes(&["text/plain", "application/json"]),
        skills: skills(&team.agent, shown),
        signatures: Vec::new(),
    }
}

fn about(agent: &AgentSpec) -> String {
    match agent.description.as_str() {
        // The protocol requires a description.
        "" => format!("The agent {}.", agent.name),
        description => description.to_owned(),
    }
}

/// The skills of a team: those of its first agent and of the agents that it reaches directly. Callers see those of all
/// other agents, too, under the path to them.
fn skills(root: &AgentSpec, shown: Shown) -> Vec<AgentSkill> {
    let mut skills = vec![skill(root, root.name.clone(), None)];
    let mut left: Vec<(String, &AgentSpec, bool)> = Vec::new();
    let is_hidden = |agent: &AgentSpec| agent.reach == Reach::Hidden;
    let direct = root.agents.iter().rev();
    left.extend(direct.map(|agent| (agent.name.clone(), agent, is_hidden(agent))));
    while let Some((path, agent, is_internal)) = left.pop() {
        if is_internal && shown == Shown::ToAll {
            continue;
        }
        let inner = agent.agents.iter().rev();
        left.extend(inner.map(|inner| (format!("{path}/{}", inner.name), inner, true)));
        skills.push(skill(agent, path, is_internal.then_some("internal")));
    }
    skills
}

fn skill(agent: &AgentSpec, id: String, tag: Option<&str>) -> AgentSkill {
    let tags = [agent.name.as_str()].into_iter().chain(tag);
    AgentSkill {
        id,
        name: agent.name.clone(),
        description: about(agent),
        tags: tags.map(str::to_owned).collect(),
        examples: Vec::new(),
    }
}
