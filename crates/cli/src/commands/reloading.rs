//! A team file that may change while its team is served.

use std::{collections::BTreeMap, fs, path::PathBuf, time::SystemTime};

use ghostlight::config;
use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
};
use serde_json::Value;

use crate::{
    default_model::{self, ModelArguments},
    exit::Failure,
    plain_text, when,
};

/// The time of the file's last change, and its size.
type Stamp = Option<(SystemTime, u64)>;

/// A team file, and the definition of new runs.
pub(super) struct Watched {
    path: PathBuf,
    seen: Stamp,
    /// A stamp that was seen only once: an editor may still be writing.
    changing: Stamp,
    team: TeamSpec,
    model: ModelArguments,
    registry: Registry,
}

impl Watched {
    pub(super) fn new(
        path: PathBuf,
        team: TeamSpec,
        model: ModelArguments,
        registry: Registry,
    ) -> Self {
        let seen = stamp(&path);
        Self {
            path,
            seen,
            changing: seen,
            team,
            model,
            registry,
        }
    }

    /// Checks whether the file has changed, and gives its team to new runs. Returns a message about
    /// a change.
    pub(super) async fn look(&mut self, system: &System) -> Option<String> {
        let stamp = stamp(&self.path);
        // A file that is being replaced is missing for a moment.
        if stamp.is_none() || stamp == self.seen {
            return None;
        }
        if std::mem::replace(&mut self.changing, stamp) != stamp {
            return None;
        }
        self.seen = stamp;
        let file = self.path.display().to_string();
        Some(match self.take(system).await {
            Ok(changes) if changes.is_empty() => {
                format!("{file} was written, and says the same as before")
            }
            Ok(changes) => {
                let now = when::date(ghostlight_actors::contract::Clock::now(
                    &ghostlight_actors::contract::SystemClock::new(),
                ));
                let list: String = changes
                    .iter()
                    .map(|change| format!("\n  {change}"))
                    .collect();
                format!("{now}  {file} is taken for new runs:{list}")
            }
            Err(failure) => {
                format!(
                    "{file} was changed and is not taken; new runs continue with what was there before\n{failure}"
                )
            }
        })
    }

    async fn take(&mut self, system: &System) -> Result<Vec<String>, Failure> {
        let mut file = config::load(&self.path)?;
        default_model::define(file.spec_mut(), &self.registry, &self.model)?;
        let spec = file.spec().clone();
        if spec.name != self.team.name {
            let (old, new) = (&self.team.name, &spec.name);
            return Err(Failure::Usage(format!(
                "it holds team {new}, and team {old} is served: start another process for it"
            )));
        }
        let changes = changes(&self.team, &spec);
        if changes.is_empty() {
            return Ok(changes);
        }
        let registry = self.registry.clone();
        let team = Team {
            spec: spec.clone(),
            registry,
        };
        system.reload(team).await.map_err(|error| match error {
            SystemError::Definition(error) => Failure::Config(file.locate(&error)),
            error => error.into(),
        })?;
        self.team = spec;
        Ok(changes)
    }
}

fn stamp(path: &PathBuf) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// The differences between two definitions, in words.
pub(super) fn changes(old: &TeamSpec, new: &TeamSpec) -> Vec<String> {
    let (before, after) = (agents(old), agents(new));
    let mut changes = Vec::new();
    changes.extend(differing(&of_team(old), &of_team(new)).map(|key| format!("{key} of the team")));
    for (name, agent) in &after {
        match before.get(name) {
            None => changes.push(format!("agent {name} is new")),
            Some(was) => {
                let keys: Vec<String> = differing(was, agent).collect();
                if !keys.is_empty() {
                    changes.push(format!("{} of agent {name}", keys.join(", ")));
                }
            }
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(gone.map(|name| format!("agent {name} is gone")));
    changes
        .iter()
        .map(|change| plain_text::line(change, 200))
        .collect()
}

/// The agents by name, each with only the names of the agents below it.
fn agents(team: &TeamSpec) -> BTreeMap<String, Value> {
    let of = |agent: &ghostlight_actors::definition::AgentSpec| {
        let mut agent = agent.clone();
        let below: Vec<Value> = agent
            .agents
            .drain(..)
            .map(|below| below.name.into())
            .collect();
        let mut value = serde_json::to_value(&agent).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("agents".to_owned(), below.into());
        }
        (agent.name, value)
    };
    team.agent
        .walk()
        .into_iter()
        .map(|(_, agent)| of(agent))
        .collect()
}

fn of_team(team: &TeamSpec) -> Value {
    let mut value = serde_json::to_value(team).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("agent");
    }
    value
}

/// The keys at which two mappings differ.
fn differing<'v>(old: &'v Value, new: &'v Value) -> impl Iterator<Item = String> + use<'v> {
    let keys = [old, new]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|fields| fields.keys());
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    let differ = |key: &&String| old.get(key.as_str()) != new.get(key.as_str());
    keys.into_iter()
        .filter(differ)
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
}
