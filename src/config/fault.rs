//! Faults of a team file, with their places.

use std::{fmt, io, path::PathBuf};

use ghostlight_safety::redact_text;
use serde::Serialize;

use super::document::Place;

/// How many characters of a line are shown.
const MAX_EXCERPT: u64 = 160;

/// Why a team file cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file breaks a rule of team files.
    #[error(transparent)]
    Invalid(Box<Invalid>),
}

ghostlight_actors::parts_of_system_error!(ConfigError);

/// The message: it is what a program prints whose `main` returns the error.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ConfigError {
    /// The place of the fault, if the file could be read.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Invalid(invalid) => Some(invalid.place),
            Self::Read { .. } => None,
        }
    }

    /// The kind of the fault, if the file could be read.
    pub fn kind(&self) -> Option<FaultKind> {
        match self {
            Self::Invalid(invalid) => Some(invalid.kind),
            Self::Read { .. } => None,
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; name a team file that exists",
        io::ErrorKind::InvalidData => "; a team file is UTF-8 text",
        _ => "",
    }
}

/// The kind of a fault in a team file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The file is not YAML, or exceeds a bound on size or depth.
    Syntax,
    /// A key that does not exist.
    UnknownKey,
    /// A value of a wrong type or out of range.
    WrongValue,
    /// A variable that is not set, or a reference that cannot be read.
    Variable,
    /// A secret in plain text.
    Secret,
    /// An unknown name of a model, tool, behavior or provider.
    UnknownName,
    /// The agents do not form a team.
    Team,
}

/// A fault of a team file with its place. Its `Display` shows the line and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid {
    /// The name of the file for people.
    pub origin: String,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Where the fault is.
    pub place: Place,
    /// The fault, in words.
    pub message: String,
    /// The remedy, where it is known.
    pub help: Option<String>,
    /// The line of the file; `None` if it may contain a secret.
    pub excerpt: Option<String>,
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, .. } = self.place;
        write!(f, "{}:{line}:{column}: {}", self.origin, self.message)?;
        if let Some(excerpt) = &self.excerpt {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            write!(f, "\n{margin} |\n{number} | {excerpt}\n{margin} | ")?;
            f.write_str(&self.marker(excerpt))?;
        }
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl Invalid {
    /// Spaces up to the fault, with the line's tabs, and carets below the fault.
    fn marker(&self, excerpt: &str) -> String {
        let before = usize::try_from(self.place.column.saturating_sub(1)).unwrap_or(0);
        let characters = excerpt.chars().count();
        let before = before.min(characters);
        let blanks = excerpt.chars().take(before);
        let blanks: String = blanks.map(|c| if c == '\t' { c } else { ' ' }).collect();
        let length = usize::try_from(self.place.length).unwrap_or(usize::MAX);
        let length = length.clamp(1, (characters - before).max(1));
        blanks + &"^".repeat(length)
    }
}

/// A fault, before its file is known.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) place: Option<Place>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Fault {
    pub(super) fn new(
        kind: FaultKind,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            place: place.into(),
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same fault at this place, unless it already has a place further inside.
    pub(super) fn at(mut self, place: Place) -> Self {
        self.place = self.place.or(Some(place));
        self
    }

    /// The error for this fault in this file.
    pub(super) fn of(self, origin: &str, text: &str) -> ConfigError {
        let place = self.place.unwrap_or(Place {
            line: 1,
            column: 1,
            length: 0,
        });
        let number = usize::try_from(place.line).unwrap_or(usize::MAX);
        let line = text.lines().nth(number.saturating_sub(1));
        let excerpt = line
            .filter(|line| self.kind != FaultKind::Secret && !line.trim().is_empty())
            .filter(|line| !may_hold_a_secret(line))
            // For a fault far into a long line, the beginning of the line shows nothing.
            .filter(|_| place.column <= MAX_EXCERPT)
            .map(|line| line.trim_end().chars().take(MAX_EXCERPT as usize).collect());
        ConfigError::Invalid(Box::new(Invalid {
            origin: origin.to_owned(),
            kind: self.kind,
            place,
            message: self.message,
            help: self.help,
            excerpt,
        }))
    }
}

/// Whether a line is not to be quoted, because it contains something that looks like a secret, or
/// an address with more than a host and a path, which may be a credential.
fn may_hold_a_secret(line: &str) -> bool {
    let address = line.split_once("://").map(|(_, rest)| rest);
    address.is_some_and(|rest| rest.contains(['?', '#', '@'])) || redact_text(line) != line
}

/// Help for an unknown name: the nearest known name, and all known names.
pub(super) fn instead<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        return String::from("there are none");
    }
    let distance = |candidate: &str| {
        strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase())
    };
    let nearest = known.iter().min_by_key(|candidate| distance(candidate));
    // With at most a third of the letters wrong, a name is a typing error; otherwise it is another
    // word.
    let near = nearest.filter(|candidate| distance(candidate) <= (name.chars().count() / 3).max(1));
    let all = known.join(", ");
    match near {
        // A number of milliseconds would be read as one of seconds.
        Some(near) if name.ends_with("_ms") && near.ends_with("_s") => {
            format!("did you mean `{near}`, in seconds? There are: {all}")
        }
        Some(near) => format!("did you mean `{near}`? There are: {all}"),
        None => format!("there are: {all}"),
    }
}
