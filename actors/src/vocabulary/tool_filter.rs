//! Filters and limits for the tools of a toolset.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ghostlight_supervisor::seconds;

/// Chooses tools by their names.
///
/// In a team file: `read_*`, or `{ any: [read_*, list] }`, `{ all: [...] }`, `{ not: write_* }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a name or pattern such as `read_*`, a list of them, or one of `all`, `any` and `not`"
)]
#[non_exhaustive]
pub enum ToolFilter {
    /// A name in which `*` stands for any text.
    Name(String),
    /// Any of these; none where the list is empty.
    Listed(Vec<ToolFilter>),
    /// All of these; everything where the list is empty.
    All {
        /// The filters that must all hold.
        all: Vec<ToolFilter>,
    },
    /// Any of these; nothing where the list is empty.
    Any {
        /// The filters of which one must hold.
        any: Vec<ToolFilter>,
    },
    /// What this one does not take.
    Not {
        /// The filter that must not hold.
        not: Box<ToolFilter>,
    },
}

impl ToolFilter {
    /// Takes every tool.
    pub fn every() -> Self {
        Self::Name("*".to_owned())
    }

    /// Takes the tools of these names, in which `*` stands for any text.
    pub fn names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(|name| Self::Name(name.into()));
        Self::Listed(names.collect())
    }

    /// Takes what both take.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::All {
            all: vec![self, other],
        }
    }

    /// Takes what either takes.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::Any {
            any: vec![self, other],
        }
    }

    /// Takes what this one does not.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::Not {
            not: Box::new(self),
        }
    }

    /// The names that it says in full.
    pub(crate) fn named(&self) -> Vec<&str> {
        match self {
            Self::Name(name) if !name.contains('*') => vec![name],
            Self::Listed(any) | Self::Any { any } => any.iter().flat_map(Self::named).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it takes the tool of this name.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::Name(pattern) => wildcard(pattern, name),
            Self::Listed(any) | Self::Any { any } => any.iter().any(|one| one.takes(name)),
            Self::All { all } => all.iter().all(|one| one.takes(name)),
            Self::Not { not } => !not.takes(name),
        }
    }
}

/// Whether a text fits a pattern in which `*` stands for any text. The time is linear, except for the search of each
/// piece.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        if let Some(piece) = last.replace(piece) {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

/// Limits of a tool that a team sets instead of the tool's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CallSpec {
    /// How long a call may take.
    #[serde(
        rename = "timeout_s",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub timeout: Option<Duration>,
    /// How many characters of its output reach the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<u32>,
    /// How many calls of it may run at once in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}
