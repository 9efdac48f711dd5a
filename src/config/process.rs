//! The sections of a team file that say how the process works which serves the team: `server`, `storage`, `limits`,
//! `logging` and `observability`. The team itself knows nothing of them.

use super::{
    document::{Content, Node, Place},
    fault::{Fault, FaultKind, instead},
};

/// The sections, each with its keys. All but those of `observability` are options of `ghostlight serve`, with `_` for `-`.
pub const SECTIONS: [(&str, &[&str]); 5] = [
    (
        "server",
        &[
            "listen",
            "address",
            "audience",
            "card_key",
            "deliver_network",
            "deliver_to",
            "did",
            "host",
            "issuer",
            "jwks",
            "keys",
            "node_address",
            "origin",
            "role",
            "tls_certificate",
            "tls_key",
            "visibility",
        ],
    ),
    (
        "storage",
        &[
            "store",
            "expire_silent",
            "keep",
            "older_than",
            "sessions_idle_for",
        ],
    ),
    ("limits", &["live_runs", "patience", "quota"]),
    ("logging", &["color", "log", "quiet", "verbose"]),
    (
        "observability",
        &[
            "endpoint",
            "labels",
            "messages",
            "metrics",
            "metrics_interval_s",
            "protocol",
            "sampling",
            "service",
            "traces",
        ],
    ),
];

/// The keys whose texts are paths that start from the file's folder.
const PATHS: [&str; 6] = [
    "card_key",
    "keys",
    "log",
    "store",
    "tls_certificate",
    "tls_key",
];

/// A setting of the process: its section, its key, and what it is set to; a list has several texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSetting {
    /// The section of the file, one of [`PROCESS_SECTIONS`](super::PROCESS_SECTIONS).
    pub section: &'static str,
    /// The key in the section.
    pub key: &'static str,
    /// The texts of its value, one for each element of a list.
    pub values: Vec<String>,
    /// The place of the key in the file.
    pub place: Place,
}

impl ProcessSetting {
    /// Makes paths start from a folder.
    pub(super) fn resolve(&mut self, folder: &std::path::Path) {
        if !PATHS.contains(&self.key) {
            return;
        }
        for value in &mut self.values {
            if value.starts_with("./") || value.starts_with("../") {
                *value = folder.join(&*value).display().to_string();
            }
        }
    }
}

/// Takes the sections out of a file whose variables were substituted.
pub(super) fn take(team: &mut Node) -> Result<Vec<ProcessSetting>, Fault> {
    let Content::Mapping(entries) = &mut team.content else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (section, keys) in SECTIONS {
        let Some(at) = entries.iter().position(|(key, _)| key.name == section) else {
            continue;
        };
        let (_, settings) = entries.remove(at);
        let Content::Mapping(settings) = settings.content else {
            return wrong(settings.place, format!("`{section}` must be a mapping"));
        };
        for (key, value) in settings {
            let Some(known) = keys.iter().find(|known| **known == key.name) else {
                let message = format!("unknown key `{}` of `{section}`", key.name);
                let fault = Fault::new(FaultKind::UnknownKey, key.place, message);
                return Err(fault.help(instead(&key.name, keys.iter().copied())));
            };
            found.push(ProcessSetting {
                section,
                key: known,
                values: texts(&key.name, &value)?,
                place: value.place,
            });
        }
    }
    Ok(found)
}

/// The texts of a value: of a scalar its own, of a list those of its items, and of a mapping `KEY=VALUE`, where a list of
/// values is joined by commas.
fn texts(key: &str, value: &Node) -> Result<Vec<String>, Fault> {
    let scalar = |node: &Node| match node.text() {
        Some(text) => Ok(text.to_owned()),
        None => wrong(node.place, format!("`{key}` has a value that is not text")),
    };
    match &value.content {
        Content::List(items) => items.iter().map(scalar).collect(),
        Content::Mapping(entries) => {
            let pair = |(name, value): &(super::document::Key, Node)| {
                let values = match &value.content {
                    Content::List(items) => {
                        items.iter().map(scalar).collect::<Result<Vec<_>, _>>()?
                    }
                    _ => vec![scalar(value)?],
                };
                Ok(format!("{}={}", name.name, values.join(",")))
            };
            entries.iter().map(pair).collect()
        }
        _ => Ok(vec![scalar(value)?]),
    }
}

fn wrong<T>(place: Place, message: String) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::WrongValue, place, message))
}
