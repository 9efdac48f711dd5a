//! The descriptions of teams, and the page that lists them.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use ghostlight_actors::definition::TeamSpec;
use ghostlight_anp::{Description, descriptions};
use ghostlight_safety::percent_encoded;
use serde_json::Value;

use crate::{
    address::{Path, base},
    caller::Caller,
    problem::Problem,
    server::{Shared, State as ServerState, Visibility},
};

type MaybeCaller = Option<Extension<Caller>>;

/// Whether this caller learns of a team: everybody of a public one, callers with a key of the others.
fn is_shown(state: &ServerState, caller: &MaybeCaller, team: &TeamSpec) -> bool {
    match state.visibility(&team.name) {
        Visibility::Public => true,
        Visibility::Internal => caller.is_some(),
        Visibility::Private => false,
    }
}

fn described(state: &ServerState, headers: &HeaderMap, team: &TeamSpec) -> Description {
    let place = format!(
        "{}/anp/{}",
        base(state, headers),
        percent_encoded(&team.name)
    );
    Description {
        name: team.name.clone(),
        about: team.agent.description.clone(),
        address: format!("{place}/ad.json"),
        rpc: format!("{place}/rpc"),
        is_guarded: state.identities.is_some(),
    }
}

pub(super) async fn all(
    State(state): State<Shared>,
    caller: MaybeCaller,
    headers: HeaderMap,
) -> Json<Value> {
    let teams = state.teams();
    let teams = teams.iter().filter(|team| is_shown(&state, &caller, team));
    let agents = teams.map(|team| {
        (
            team.name.as_str(),
            described(&state, &headers, team).address,
        )
    });
    let address = format!("{}/.well-known/agent-descriptions", base(&state, &headers));
    Json(descriptions(&address, agents))
}

pub(super) async fn one(
    State(state): State<Shared>,
    caller: MaybeCaller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let teams = state.teams();
    let mut teams = teams.iter().filter(|team| is_shown(&state, &caller, team));
    let team = teams.find(|team| team.name == name);
    let team = team
        .ok_or_else(|| Problem::not_found(format!("agent {name:?} here, or none without a key")))?;
    Ok(Json(described(&state, &headers, team).document()))
}
