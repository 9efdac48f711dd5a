//! The teams that are served.

use axum::Json;
use ghostlight_actors::definition::{AgentSpec, Reach, TeamSpec};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{ADMIN, Asked, GET, READ};
use crate::{address::Path, endpoint::Endpoints, problem::Problem};

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/api/v1/teams",
            READ,
            "The teams that are served.",
            list,
        )
        .gives::<Vec<TeamView>>()
        .add(GET, "/api/v1/teams/{team}", READ, "One team.", one)
        .gives::<TeamView>()
        .add(
            GET,
            "/api/v1/teams/{team}/definition",
            ADMIN,
            "A team's whole definition, as its next runs will have it.",
            definition,
        )
        .gives::<Value>()
}

/// A team.
#[derive(Debug, Serialize, JsonSchema)]
struct TeamView {
    /// Its name, by which sessions name it.
    name: String,
    /// Its purpose.
    description: String,
    /// The agent that takes the first turn, with all agents below it.
    agent: AgentView,
    /// The tree as a diagram of Mermaid's.
    mermaid: String,
}

/// An agent of a team.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentView {
    /// Its name.
    name: String,
    /// Its purpose.
    description: String,
    /// Its model.
    model: Option<String>,
    /// Its behavior.
    behavior: String,
    /// How the agent above reaches it: `transfer`, `delegate`, `both` or `hidden`.
    reach: String,
    /// Its tools.
    tools: Vec<String>,
    /// The tools that need approval by a rule of the agent's own.
    approval: Vec<String>,
    /// The topics on which its model may publish.
    publishes: Vec<String>,
    /// The topics whose events start a run of it.
    starts_on: Vec<String>,
    /// The agents below it.
    agents: Vec<AgentView>,
}

impl AgentView {
    fn of(agent: &AgentSpec) -> Self {
        Self {
            name: agent.name.clone(),
            description: agent.description.clone(),
            model: agent.model.clone(),
            behavior: agent.behavior.name.clone(),
            reach: reach(agent.reach).to_owned(),
            tools: agent.tools.clone(),
            approval: agent.approval.keys().cloned().collect(),
            publishes: agent.publishes.clone(),
            starts_on: agent.starts_on.clone(),
            agents: agent.agents.iter().map(Self::of).collect(),
        }
    }
}

fn reach(reach: Reach) -> &'static str {
    match (reach.transfers(), reach.delegates()) {
        (true, true) => "both",
        (true, false) => "transfer",
        (false, true) => "delegate",
        (false, false) => "hidden",
    }
}

impl TeamView {
    fn of(team: &TeamSpec) -> Self {
        Self {
            name: team.name.clone(),
            description: team.agent.description.clone(),
            agent: AgentView::of(&team.agent),
            mermaid: team.mermaid(),
        }
    }
}

async fn list(asked: Asked) -> Json<Vec<TeamView>> {
    Json(asked.state.teams().iter().map(TeamView::of).collect())
}

fn named(asked: &Asked, name: &str) -> Result<TeamSpec, Problem> {
    let team = asked.state.team(name);
    team.ok_or_else(|| Problem::not_found(format!("team {name:?}")))
}

async fn one(asked: Asked, Path(team): Path<String>) -> Result<Json<TeamView>, Problem> {
    Ok(Json(TeamView::of(&named(&asked, &team)?)))
}

async fn definition(asked: Asked, Path(team): Path<String>) -> Result<Json<TeamSpec>, Problem> {
    named(&asked, &team).map(Json)
}
