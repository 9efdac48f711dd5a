#![doc = include_str!("README.md")]

mod document;
mod fault;
mod faults;
mod features;
mod guards;
mod names;
#[cfg(feature = "evals")]
mod patching;
mod paths;
mod places;
mod process;
mod reading;
mod remote;
mod schema;
mod sections;
mod settings;
mod templates;
mod variables;

use std::{io, path::Path};

use ghostlight_actors::{
    definition::{DefinitionError, TeamSpec},
    run::Registry,
};
use serde::de::DeserializeOwned;

use self::document::{Content, Node};
pub use self::process::{ProcessSetting, SECTIONS as PROCESS_SECTIONS};
pub use self::{
    document::Place,
    fault::{ConfigError, FaultKind, Invalid},
    faults::load_checked,
    schema::{schema, schema_for},
};
use crate::{environment, files};

/// The largest team file that is read, in bytes.
pub const MAX_BYTES: u64 = 4 << 20;

/// A team file that was read: the team, and the places of its values for error messages.
#[derive(Clone, Debug)]
pub struct TeamFile {
    spec: TeamSpec,
    origin: String,
    text: String,
    document: Node,
    process: Vec<process::ProcessSetting>,
}

/// Reads a team file. Relative paths in it start from the file's folder.
///
/// # Errors
/// When the file cannot be read, and the first fault in it with its place.
pub fn load(path: impl AsRef<Path>) -> Result<TeamFile, ConfigError> {
    load_at(path.as_ref(), None)
}

/// Reads a team that stands below this key of another file, such as an evaluation's. Relative paths in it start from the
/// file's folder.
///
/// # Errors
/// As [`load`].
pub fn load_within(path: impl AsRef<Path>, key: &str) -> Result<TeamFile, ConfigError> {
    load_at(path.as_ref(), Some(key))
}

fn load_at(path: &Path, key: Option<&str>) -> Result<TeamFile, ConfigError> {
    let failed = |source: io::Error| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    let text = files::read_text(path, MAX_BYTES).map_err(failed)?;
    let origin = path.display().to_string();
    let mut file = parse_at(text, origin, environment::variable, key)?;
    let file_path = std::path::absolute(path).map_err(failed)?;
    if let Some(folder) = file_path.parent() {
        paths::resolve(&mut file.spec, folder);
        let settings = file.process.iter_mut();
        settings.for_each(|setting| setting.resolve(folder));
    }
    Ok(file)
}

/// Parses the text of a team file, with the variables of the environment. `origin` is the name of
/// the file for people; relative paths stay as they are.
///
/// # Errors
/// The first fault with its place.
pub fn parse(text: impl Into<String>, origin: impl Into<String>) -> Result<TeamFile, ConfigError> {
    parse_with(text, origin, environment::variable)
}

/// Like [`parse`], with your own variables.
///
/// # Errors
/// The first fault with its place.
pub fn parse_with(
    text: impl Into<String>,
    origin: impl Into<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<TeamFile, ConfigError> {
    parse_at(text.into(), origin.into(), variable, None)
}

/// Parses the text of another file with a team below this key, like [`parse`].
///
/// # Errors
/// The first fault with its place.
pub fn parse_within(
    text: impl Into<String>,
    origin: impl Into<String>,
    key: &str,
) -> Result<TeamFile, ConfigError> {
    parse_at(text.into(), origin.into(), environment::variable, Some(key))
}

fn parse_at(
    text: String,
    origin: String,
    variable: impl Fn(&str) -> Option<String>,
    key: Option<&str>,
) -> Result<TeamFile, ConfigError> {
    match read(&text, &variable, key) {
        Ok(read) => Ok(TeamFile {
            spec: read.spec,
            origin,
            text,
            document: read.document,
            process: read.process,
        }),
        Err(fault) => Err(fault.of(&origin, &text)),
    }
}

/// The content of a file: the team, the values of it with their places, and how the process works that serves it.
struct Read {
    spec: TeamSpec,
    document: Node,
    process: Vec<process::ProcessSetting>,
}

fn read(
    text: &str,
    lookup: variables::Lookup<'_>,
    key: Option<&str>,
) -> Result<Read, fault::Fault> {
    let mut document = document::read(text)
        .map_err(|(place, message)| fault::Fault::new(FaultKind::Syntax, place, message))?;
    if let Some(key) = key {
        document = match document.get(key) {
            Some(team) => team.clone(),
            None => Node {
                content: Content::Null,
                ..document
            },
        };
    }
    read_document(document, lookup)
}

fn read_document(mut document: Node, lookup: variables::Lookup<'_>) -> Result<Read, fault::Fault> {
    if matches!(document.content, Content::Null) {
        let fault = fault::Fault::new(FaultKind::Team, document.place, "the file holds no team");
        return Err(fault.help(names::BEGIN));
    }
    let templates = templates::take(&mut document)?;
    sections::to_tools(&mut document)?;
    remote::to_tools(&mut document)?;
    variables::substitute(&mut document, lookup)?;
    templates::expand(&mut document, templates, lookup)?;
    guards::to_interceptors(&mut document)?;
    let process = process::take(&mut document)?;
    let mut spec: TeamSpec = reading::read(&document)?;
    #[cfg(feature = "server")]
    let served: crate::server::ServedSpec = reading::read(&document)?;
    if spec.name.is_empty() {
        spec.name.clone_from(&spec.agent.name);
    }
    let located = |error| names::locate(&error, &document);
    spec.check().map_err(located)?;
    #[cfg(feature = "server")]
    {
        served.check().map_err(located)?;
        served.put_into(&mut spec);
    }
    Ok(Read {
        spec,
        document,
        process,
    })
}

/// Reads another file of settings as a team file is read, so that its faults have their places, too. `None` for a file
/// that holds nothing.
pub fn read_settings<T: DeserializeOwned>(
    text: &str,
    origin: &str,
) -> Result<Option<T>, ConfigError> {
    let read = || {
        let document = document::read(text)
            .map_err(|(place, message)| fault::Fault::new(FaultKind::Syntax, place, message))?;
        match document.content {
            Content::Null => Ok(None),
            _ => reading::read(&document).map(Some),
        }
    };
    read().map_err(|fault| fault.of(origin, text))
}

impl TeamFile {
    /// The team.
    pub fn spec(&self) -> &TeamSpec {
        &self.spec
    }

    /// The team, for adding what the file leaves out.
    pub fn spec_mut(&mut self) -> &mut TeamSpec {
        &mut self.spec
    }

    /// How the process works that serves the team.
    pub fn process(&self) -> &[ProcessSetting] {
        &self.process
    }

    /// The fault in a setting of the process.
    pub fn fault(&self, setting: &ProcessSetting, reason: &str) -> ConfigError {
        let message = format!("`{}` of `{}`: {reason}", setting.key, setting.section);
        let fault = fault::Fault::new(FaultKind::WrongValue, setting.place, message);
        fault.of(&self.origin, &self.text)
    }

    /// The team alone.
    pub fn into_spec(self) -> TeamSpec {
        self.spec
    }

    /// Creates the models and tools that the team defines, and checks that the registry knows every
    /// name.
    ///
    /// # Errors
    /// The first fault with its place, the known names and the nearest of them.
    pub fn resolve(&self, registry: Registry) -> Result<Registry, ConfigError> {
        let resolved = registry.resolve(&self.spec);
        resolved.map_err(|error| self.locate(&error))
    }

    /// The variables that the file refers to, that are looked up only when they are used, such as keys and headers, and
    /// that are not set here, each with its places. It is not a fault of the file: the machine that runs the team may set
    /// them.
    pub fn unset_variables(&self) -> Vec<ConfigError> {
        let mut unset = Vec::new();
        variables::each_kept(&self.document, &mut |name, place| {
            let value = environment::variable(name);
            if value.is_none_or(|value| value.trim().is_empty()) {
                unset.push((place, name.to_owned()));
            }
        });
        unset.sort();
        // A template has one place and several uses.
        unset.dedup();
        let told = unset.into_iter().map(|(place, name)| {
            let message = format!("the environment variable {name} is not set");
            let help = "set it where the team is run: it is looked up when it is used";
            let fault = fault::Fault::new(FaultKind::Variable, place, message).help(help);
            fault.of(&self.origin, &self.text)
        });
        told.collect()
    }

    /// The place in the file of a fault in the team's definition, such as a System reports when it
    /// starts.
    pub fn locate(&self, error: &DefinitionError) -> ConfigError {
        names::locate(error, &self.document).of(&self.origin, &self.text)
    }
}
