//! The memories of agents between runs.

use std::collections::BTreeSet;

use axum::Json;
use ghostlight_actors::{
    actor::SessionQuery,
    definition::TeamSpec,
    vocabulary::{Scope, SessionId},
};
use ghostlight_memory::{
    Memory, MemoryItem, MemoryKind, MemoryQuery, StoredMemory, StoredMemoryError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Asked, GET, POST, READ, RUN,
    sessions::{no_scope, shared_scope},
    views::Shown,
};
use crate::{
    address::{Path, Query},
    body::Json as Body,
    caller::Caller,
    endpoint::Endpoints,
    problem::Problem,
};

/// The number of items shown: the default, and the maximum.
const PAGE: (usize, usize) = (100, 1000);
/// How many sessions are searched for the owners of memories.
const SESSIONS: usize = 500;

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/memories",
            READ,
            "The memories of the teams that are served.",
            list,
        )
        .gives::<Vec<MemoryView>>()
        .add(
            GET,
            "/api/v1/memories/{team}/{name}",
            READ,
            "What a memory holds in a scope, the latest first; with `text` what answers it best.",
            items,
        )
        .asks::<ItemsQuery>()
        .gives::<Items>()
        .add(
            POST,
            "/api/v1/memories/{team}/{name}/forget",
            RUN,
            "Forgets one item, pinned or not.",
            forget,
        )
        .takes::<ForgetBody>()
        .gives::<Forgotten>()
}

impl From<StoredMemoryError> for Problem {
    fn from(error: StoredMemoryError) -> Self {
        match error {
            StoredMemoryError::Store(error) => error.into(),
            other => Self::conflict(other.to_string()),
        }
    }
}

/// A memory of a team.
#[derive(Debug, Serialize, JsonSchema)]
struct MemoryView {
    /// The team.
    team: String,
    /// Its name in the team.
    name: String,
    /// The owners of the team's latest sessions, which may have memories, as far as the caller may see them.
    owners: Vec<String>,
}

/// The names of a team's memories.
pub(crate) fn names(team: &TeamSpec) -> BTreeSet<String> {
    let agents = team.agent.walk().into_iter();
    let memories = agents.filter_map(|(_, agent)| agent.memory.as_ref());
    memories.map(|memory| memory.name.clone()).collect()
}

async fn list(asked: Asked) -> Result<Json<Vec<MemoryView>>, Problem> {
    let mut found = Vec::new();
    for team in asked.state.teams() {
        let names = names(&team);
        if names.is_empty() {
            continue;
        }
        let owners = owners(&asked, &team.name).await?;
        found.extend(names.into_iter().map(|name| MemoryView {
            team: team.name.clone(),
            name,
            owners: owners.clone(),
        }));
    }
    Ok(Json(found))
}

async fn owners(asked: &Asked, team: &str) -> Result<Vec<String>, Problem> {
    if let (Caller::Subject(_), Some(own)) = (&asked.caller, asked.caller.subject()) {
        return Ok(vec![own.to_owned()]);
    }
    let mut latest = SessionQuery::default();
    (latest.team, latest.limit) = (Some(team.to_owned()), SESSIONS);
    let sessions = asked.system.sessions().list(latest).await?.sessions;
    let owners: BTreeSet<String> = sessions.into_iter().filter_map(|one| one.owner).collect();
    Ok(owners.into_iter().collect())
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ItemsQuery {
    /// `user` (the default, unless the caller is the operator) or `session:KEY`; `user:OWNER` for the operator and the
    /// reader of the owner's tenant; for the operator `app`, the team's own (the operator's default).
    scope: Option<String>,
    /// The text to search for.
    text: Option<String>,
    /// Only items of this kind, such as `semantic`.
    kind: Option<MemoryKind>,
    /// The most items; 100 when left out, 1000 at the most.
    limit: Option<usize>,
}

/// The content of a memory in a scope.
#[derive(Debug, Serialize, JsonSchema)]
struct Items {
    /// The items, each with `id`, `kind`, `content`, `tags`, `importance`, `pinned`, `updated_at` and more.
    #[schemars(with = "Vec<Value>")]
    items: Vec<MemoryItem>,
    /// How many items this scope holds.
    total: usize,
}

/// A scope of a memory that the caller may look at. The scope that all users of a team share is the operator's.
async fn stored(
    asked: &Asked,
    (team, name): (&str, &str),
    scope: Option<&str>,
) -> Result<StoredMemory, Problem> {
    asked.state.check_team(team)?;
    let everybody = |key: String| SessionId {
        team: team.into(),
        key: key.into(),
    };
    let is_operator = asked.caller == Caller::Operator;
    let named = scope.unwrap_or(if is_operator { "app" } else { "user" });
    let (session, scope) = match named.strip_prefix("session:") {
        Some(key) => (asked.session(team, key)?, Scope::Session),
        None => {
            let scope = shared_scope(&asked.caller, named);
            (everybody(String::new()), scope.ok_or_else(no_scope)?)
        }
    };
    // A reader of a tenant names sessions by their whole keys.
    if let (Caller::Reader { .. }, Scope::Session) = (&asked.caller, &scope) {
        asked.system.sessions().log(&session).await?;
    }
    let store = asked.system.store().clone();
    let memory = StoredMemory::new(store, Memory::new(name), &session, &scope);
    memory.ok_or_else(|| Problem::invalid("no store keeps this scope"))
}

async fn items(
    asked: Asked,
    Path((team, name)): Path<(String, String)>,
    Query(query): Query<ItemsQuery>,
) -> Result<Shown<Items>, Problem> {
    let memory = stored(&asked, (&team, &name), query.scope.as_deref()).await?;
    let limit = query.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let mut items = memory.list().await?;
    let total = items.len();
    let text = query.text.as_deref().map(str::trim);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        let most = u32::try_from(limit).unwrap_or(MemoryQuery::MOST);
        let mut asked_for = MemoryQuery::new(text).k(most).pending();
        // A search that names no kinds leaves out the graph and conversations.
        for kind in MemoryKind::ALL {
            if query.kind.is_none_or(|wanted| wanted == kind) {
                asked_for = asked_for.kind(kind);
            }
        }
        let mut hits = memory.search(&asked_for).await?;
        if query.kind == Some(MemoryKind::Conversation) {
            hits.extend(memory.conversations(&asked_for).await?);
            hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        items = hits.into_iter().map(|hit| hit.item).collect();
    } else {
        items.retain(|item| query.kind.is_none_or(|kind| item.kind == kind));
        items.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    }
    items.truncate(limit);
    Ok(Shown(Items { items, total }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetBody {
    /// The item's id.
    id: String,
    /// The scope, as in the list.
    scope: Option<String>,
}

/// The result of forgetting an item.
#[derive(Debug, Serialize, JsonSchema)]
struct Forgotten {
    /// Whether the item existed.
    forgotten: bool,
}

async fn forget(
    asked: Asked,
    Path((team, name)): Path<(String, String)>,
    Body(body): Body<ForgetBody>,
) -> Result<Json<Forgotten>, Problem> {
    let memory = stored(&asked, (&team, &name), body.scope.as_deref()).await?;
    let forgotten = memory.remove(&body.id).await?.is_some();
    Ok(Json(Forgotten { forgotten }))
}
