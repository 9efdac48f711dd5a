//! `ghostlight team draw` and `ghostlight team schema`.

use ghostlight::{config, workflows::GraphSpec};
use ghostlight_actors::{definition::TeamSpec, run::Registry};
use serde::Deserialize;

use crate::{
    default_model::{self, ModelArguments},
    exit::{Exit, Failure},
    more_arguments::Draw,
};

/// Prints the diagram source of a valid team.
pub(super) fn draw(arguments: &Draw, registry: Registry) -> Result<Exit, Failure> {
    let mut file = config::load(&arguments.team_file)?;
    default_model::define(file.spec_mut(), &registry, &ModelArguments::default())?;
    file.resolve(registry)?;
    let team = file.spec();
    let drawn = match &arguments.agent {
        None if arguments.dot => team.dot(),
        None => team.mermaid(),
        Some(name) => {
            let graph = graph_of(team, name).map_err(Failure::Usage)?;
            let drawn = if arguments.dot {
                graph.dot()
            } else {
                graph.mermaid()
            };
            drawn.map_err(|fault| Failure::Usage(fault.to_string()))?
        }
    };
    super::print(drawn.trim_end())?;
    Ok(Exit::Done)
}

/// The graph of an agent.
fn graph_of(team: &TeamSpec, name: &str) -> Result<GraphSpec, String> {
    let behavior = team.find(name).map(|agent| &agent.behavior);
    let behavior = behavior.ok_or_else(|| {
        let mut names = Vec::new();
        let mut agents = vec![&team.agent];
        while let Some(agent) = agents.pop() {
            names.push(agent.name.as_str());
            agents.extend(&agent.agents);
        }
        names.sort_unstable();
        let names = names.join(", ");
        format!("team {} has no agent {name:?}; it has {names}", team.name)
    })?;
    if behavior.name != "graph" {
        let works = &behavior.name;
        return Err(format!(
            "agent {name:?} works by {works}, and not by a graph"
        ));
    }
    GraphSpec::deserialize(&behavior.settings).map_err(|fault| fault.to_string())
}

/// Prints the JSON Schema of team files.
pub(super) fn schema(registry: &Registry) -> Result<Exit, Failure> {
    let schema = config::schema_for(registry);
    let text = serde_json::to_string_pretty(&schema).map_err(std::io::Error::other)?;
    super::print(&text)?;
    Ok(Exit::Done)
}
