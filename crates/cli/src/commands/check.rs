//! `ghostlight team check`: what a team file contains, what is wrong with it, and what would change with it.

use std::{cell::RefCell, path::Path};

use ghostlight::config::{self, ConfigError, TeamFile};
use ghostlight_actors::{
    definition::{AgentSpec, PinnedAgent, TeamSpec},
    run::Registry,
};
use serde_json::{Value, json};

use super::reloading;
use crate::{
    default_model,
    exit::{Exit, Failure},
    follow::print_json,
    more_arguments::Check,
};

/// Prints for each team file what it contains, or what is wrong with it. A file with faults keeps no other from being
/// checked; the exit code is that of the first of them.
pub(super) fn check(arguments: &Check, registry: Registry) -> Result<Exit, Failure> {
    if arguments.against.is_some() && arguments.team_files.len() > 1 {
        let told = "`--against` compares one file with another: check each of several files alone";
        return Err(Failure::Usage(told.to_owned()));
    }
    let mut all = Exit::Done;
    for path in &arguments.team_files {
        let exit = match check_one(path, arguments, registry.clone()) {
            Ok(exit) => exit,
            Err(failure) if failure.is_silent() => return Err(failure),
            Err(failure) => {
                super::note(&format!("error: {failure}"));
                failure.exit()
            }
        };
        if all == Exit::Done {
            all = exit;
        }
    }
    Ok(all)
}

fn check_one(path: &Path, arguments: &Check, registry: Registry) -> Result<Exit, Failure> {
    let file = match checked(path, arguments, &registry)? {
        Ok(file) => file,
        Err(faults) if arguments.show.json => {
            let file = path.display().to_string();
            let faults: Vec<Value> = faults.iter().map(fault).collect();
            print_json(&json!({ "file": file, "valid": false, "faults": faults }))?;
            return Ok(Exit::Usage);
        }
        Err(mut faults) if faults.len() == 1 => return Err(faults.remove(0).into()),
        Err(faults) => {
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let count = super::counted(faults.len() as u64, "fault");
            return Err(Failure::Usage(format!("{count}\n\n{}", told.join("\n\n"))));
        }
    };
    let plan = plan(arguments, file.spec(), &registry)?;
    let model = default_model::describe(file.spec(), &registry);
    let resolved = match arguments.explain {
        true => Some(file.resolve(registry)?.pin(file.spec())),
        false => None,
    };
    let pinned = |agent: &AgentSpec| resolved.as_ref()?.agent(&agent.name, None);
    let team = file.spec();
    let agents = team.agent.walk();
    if arguments.show.json {
        let agents = agents.iter().map(|(above, agent)| {
            let mut told = json!({
                "name": agent.name,
                "above": above,
                "description": agent.description,
                "behavior": agent.behavior.name,
            });
            if let Some(pinned) = pinned(agent) {
                told["resolved"] = resolved_json(&pinned);
            }
            told
        });
        let mut told = json!({
            "file": path.display().to_string(),
            "valid": true,
            "team": team.name,
            "model": model,
            "agents": agents.collect::<Vec<_>>(),
            "warnings": file.unset_variables().iter().map(fault).collect::<Vec<_>>(),
        });
        if let Some(plan) = &plan {
            told["changes"] = plan.changes.clone().into();
            told["restart"] = plan.restart.clone().into();
        }
        if arguments.explain {
            told["definition"] = serde_json::to_value(team).map_err(std::io::Error::other)?;
        }
        print_json(&told)?;
        return Ok(Exit::Done);
    }
    super::print(&format!(
        "{}: team {}, {}, model {model}",
        path.display(),
        team.name,
        super::counted(agents.len() as u64, "agent"),
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
        for line in pinned(agent).iter().flat_map(|pinned| in_words(pinned)) {
            super::print(&format!("{indent}    {line}"))?;
        }
    }
    if arguments.explain {
        for line in of_team(team) {
            super::print(&format!("  {line}"))?;
        }
    }
    if let Some(plan) = plan {
        plan.print()?;
    }
    for unset in file.unset_variables() {
        super::note(&format!("warning: {unset}"));
    }
    Ok(Exit::Done)
}

/// The file, or all that is wrong with it.
fn checked(
    path: &Path,
    arguments: &Check,
    registry: &Registry,
) -> Result<Result<TeamFile, Vec<ConfigError>>, Failure> {
    let wrong = RefCell::new(None);
    let complete = |team: &mut TeamSpec| {
        if let Err(failure) = default_model::define(team, registry, &arguments.model) {
            wrong.replace(Some(failure));
        }
    };
    let checked = config::load_checked(path, registry, complete);
    match wrong.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(checked),
    }
}

/// The changes that a process which serves another version of the file would make.
struct Plan {
    /// The changes for new runs.
    changes: Vec<String>,
    /// Why it would refuse the file; empty where it would take it.
    restart: Vec<String>,
}

impl Plan {
    fn print(&self) -> Result<(), Failure> {
        let told = match (self.changes.is_empty(), self.restart.is_empty()) {
            (true, _) => "a reload would change nothing",
            (false, true) => "a reload would change for new runs:",
            (false, false) => "a reload would be refused; after a new start would change:",
        };
        super::print(told)?;
        for change in self.changes.iter().chain(&self.restart) {
            super::print(&format!("  {change}"))?;
        }
        Ok(())
    }
}

fn plan(arguments: &Check, new: &TeamSpec, registry: &Registry) -> Result<Option<Plan>, Failure> {
    let Some(path) = &arguments.against else {
        return Ok(None);
    };
    let mut old = config::load(path)?;
    default_model::define(old.spec_mut(), registry, &arguments.model)?;
    let old = old.spec();
    let mut restart = Vec::new();
    if old.name != new.name {
        let (old, new) = (&old.name, &new.name);
        restart.push(format!(
            "it holds team {new}, and team {old} is served: start another process for it"
        ));
    }
    if old.durability != new.durability {
        restart
            .push("keeping runs on disk or in memory (`durability`) takes a new start".to_owned());
    }
    let changes = reloading::changes(old, new);
    Ok(Some(Plan { changes, restart }))
}

/// A fault for programs.
fn fault(fault: &ConfigError) -> Value {
    match fault {
        ConfigError::Invalid(invalid) => json!({
            "line": invalid.place.line,
            "column": invalid.place.column,
            "kind": invalid.kind,
            "message": invalid.message,
            "help": invalid.help,
        }),
        other => json!({ "kind": "read", "message": other.to_string() }),
    }
}

/// An agent after all names, toolsets and defaults were resolved.
fn resolved_json(agent: &PinnedAgent) -> Value {
    let tools = agent.offered.iter().map(|tool| {
        json!({
            "name": tool.name,
            "effect": super::effect(tool.effect),
            "asks": agent.approval_of(tool).is_some(),
            "source": tool.source,
            "timeout_s": tool.timeout_ms.map(|ms| ms as f64 / 1e3),
            "output_limit": tool.output_limit,
        })
    });
    json!({
        "model": agent.model,
        "settings": *agent.settings,
        "instructions": agent.instructions,
        "behavior": agent.spec.behavior,
        "policies": agent.spec.policies,
        "tools": tools.collect::<Vec<_>>(),
        "max_steps": agent.spec.max_steps,
        "max_calls": agent.spec.max_calls,
        "tools_at_once": agent.spec.tools_at_once(),
        "budget": agent.spec.budget,
        "context": agent.spec.context,
        "memory": agent.spec.memory,
    })
}

/// The same in lines.
fn in_words(agent: &PinnedAgent) -> Vec<String> {
    let mut lines = vec![format!(
        "model {}, works by {}",
        agent.model, agent.spec.behavior.name
    )];
    for tool in agent.offered.iter() {
        let asks = agent.approval_of(tool).is_some();
        let asks = if asks { ", asks a person first" } else { "" };
        let source = tool.source.as_ref().map(|source| format!(", of {source}"));
        let source = source.unwrap_or_default();
        let effect = super::effect(tool.effect);
        lines.push(format!("tool {} ({effect}{source}{asks})", tool.name));
    }
    let policies = agent.spec.policies.iter();
    lines.extend(policies.map(|policy| setting("policy", &policy.name, &policy.settings)));
    let context = agent.spec.context.as_ref();
    lines.extend(context.map(|context| format!("context of {} tokens", context.max_tokens)));
    if agent.spec.memory.is_some() {
        lines.push("remembers from run to run".to_owned());
    }
    lines
}

/// The settings of all agents of a team, in lines.
fn of_team(team: &TeamSpec) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, model) in &team.models {
        let settings = Value::Object(model.settings.clone());
        lines.push(setting(
            &format!("model {name}:"),
            &model.provider,
            &settings,
        ));
    }
    for (name, tool) in &team.tools {
        let settings = Value::Object(tool.settings.clone());
        lines.push(setting(&format!("tools {name}:"), &tool.kind, &settings));
    }
    let policies = team.policies.iter();
    lines.extend(policies.map(|policy| setting("policy of all:", &policy.name, &policy.settings)));
    for interceptor in &team.interceptors {
        let settings = Value::Object(interceptor.settings.clone());
        lines.push(setting("around calls:", &interceptor.name, &settings));
    }
    let budget = serde_json::to_value(team.budget).unwrap_or_default();
    let bounds = budget.as_object().into_iter().flatten();
    let bounds = bounds.filter(|(_, bound)| !bound.is_null());
    lines.extend(bounds.map(|(name, bound)| format!("budget of a run: {name} {bound}")));
    lines
}

fn setting(what: &str, name: &str, settings: &Value) -> String {
    let shown = ghostlight_safety::redact_json(settings);
    match settings.as_object().is_none_or(serde_json::Map::is_empty) {
        true => format!("{what} {name}"),
        false => format!("{what} {name} {shown}"),
    }
}
