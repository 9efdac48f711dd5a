//! `ghostlight team check`, `ghostlight team draw` and `ghostlight team schema`.

use std::cell::RefCell;

use ghostlight_actors::{definition::TeamSpec, run::Registry};
use serde::Deserialize;

use crate::{
    cli::{
        default_model::{self, ModelArguments},
        exit::{Exit, Failure},
        more_arguments::{Check, Draw},
    },
    config,
    workflows::GraphSpec,
};

/// Prints what a team file contains, or what is wrong with it.
pub(super) fn check(arguments: &Check, registry: Registry) -> Result<Exit, Failure> {
    let wrong = RefCell::new(None);
    let complete = |team: &mut TeamSpec| {
        if let Err(failure) = default_model::define(team, &registry, &arguments.model) {
            wrong.replace(Some(failure));
        }
    };
    let checked = config::load_checked(&arguments.team_file, &registry, complete);
    if let Some(failure) = wrong.into_inner() {
        return Err(failure);
    }
    let file = match checked {
        Ok(file) => file,
        Err(mut faults) if faults.len() == 1 => return Err(faults.remove(0).into()),
        Err(faults) => {
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let count = super::counted(faults.len() as u64, "fault");
            return Err(Failure::Usage(format!("{count}\n\n{}", told.join("\n\n"))));
        }
    };
    let model = default_model::describe(file.spec(), &registry);
    let team = file.spec();
    let agents = team.agent.walk();
    super::print(&format!(
        "{}: team {}, {} agent{}, model {model}",
        arguments.team_file.display(),
        team.name,
        agents.len(),
        if agents.len() == 1 { "" } else { "s" },
    ))?;
    for (above, agent) in agents {
        let about = if agent.description.is_empty() {
            ""
        } else {
            ": "
        };
        let indent = "  ".repeat(above.len() + 1);
        super::print(&format!(
            "{indent}{}{about}{}",
            agent.name, agent.description
        ))?;
    }
    for unset in file.unset_variables() {
        super::note(&format!("warning: {unset}"));
    }
    Ok(Exit::Done)
}

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
    let behavior = behavior.ok_or_else(|| format!("team {} has no agent {name:?}", team.name))?;
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
