//! The Agent Client Protocol: teams as agents for editors, and agents in child processes as members of a team.
//!
//! It is the package `ghostlight-acp`; `ghostlight protocol acp TEAM.yaml` serves a team by it. In a team file a member with
//! `remote: { command: … }` is an agent in a process of its own; in code it is a [`ProcessAgent`].

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub use ghostlight_acp::*;
use ghostlight_actors::{contract::ToolsetHandle, run::Registry, vocabulary::seconds};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::models::SecretText;

/// Registers the behavior `remote_process`, and the kind of tool `acp` that such a member uses.
pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .toolset_kind("acp", toolset)
        .behavior_type::<ProcessBehavior>("remote_process")
}

/// The settings of an agent in a process in a team file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(rename = "task_timeout_s", with = "seconds", default)]
    task_timeout: Option<Duration>,
}

fn toolset(name: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let given = Settings::deserialize(given).map_err(|error| error.to_string())?;
    let mut words = given.command.into_iter();
    let program = words.next().filter(|program| !program.is_empty());
    let program =
        program.ok_or("command: name the program, such as [ghostlight, acp, clerk.yaml]")?;
    let settings = ProcessOptions::new(program);
    let mut settings = words.fold(settings, |settings, word| settings.argument(word));
    for (variable, text) in given.env {
        SecretText::read(&text).map_err(|error| format!("env: {variable}: {error}"))?;
        // A secret is looked up when the process starts, so a run that is resumed on another machine uses that machine's.
        settings = settings.variable(variable, move || {
            let text = SecretText::read(&text).and_then(|text| text.reveal());
            let text = text.map_err(|error| error.to_string())?;
            Ok(text.expose_secret().to_owned())
        });
    }
    if let Some(directory) = given.cwd {
        settings = settings.directory(directory);
    }
    if let Some(time) = given.task_timeout {
        if time.is_zero() {
            return Err("task_timeout_s: it must be above 0".to_owned());
        }
        settings = settings.task_timeout(time);
    }
    Ok(ToolsetHandle::new(ProcessToolset::new(name, settings)))
}
