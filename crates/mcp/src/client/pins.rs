//! The tools of servers as they were first seen.
//!
//! A description is an instruction to the model, so a description that changes after people have read it counts as an
//! attack until a person accepts it. The file stores each tool whole: the model gets the tool as it was first seen, and
//! a person is asked before each call of a tool that has changed since. To accept a change, remove the tool's entry
//! from the file.

use std::{collections::BTreeMap, fs, io, path::Path};

use ghostlight_actors::vocabulary::Digest;
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};

use super::private_file;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The file's content.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    servers: BTreeMap<String, BTreeMap<String, Tool>>,
}

/// A tool, compared with its pin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pinned {
    /// The tool for the model.
    pub(super) tool: Tool,
    /// The tool as the server describes it now, if that differs.
    pub(super) changed: Option<Tool>,
}

/// Compares a server's tools with those that it showed first, and pins new ones. Without a file nothing is compared or
/// pinned.
///
/// # Errors
/// The file cannot be read or written. Then no tool can be compared.
pub(super) fn compare(
    file: Option<&Path>,
    server: &str,
    shown: Vec<Tool>,
) -> Result<Vec<Pinned>, String> {
    let Some(file) = file else {
        let all = shown.into_iter().map(|tool| Pinned {
            tool,
            changed: None,
        });
        return Ok(all.collect());
    };
    let mut document = read(file)?;
    let known = document.servers.entry(server.to_owned()).or_default();
    let mut is_new = false;
    let mut compared = Vec::with_capacity(shown.len());
    for tool in shown {
        let before = known.get(tool.name.as_ref());
        compared.push(match before {
            None => {
                known.insert(tool.name.to_string(), tool.clone());
                is_new = true;
                Pinned {
                    tool,
                    changed: None,
                }
            }
            Some(before) if digest(before) == digest(&tool) => Pinned {
                tool,
                changed: None,
            },
            Some(before) => Pinned {
                tool: before.clone(),
                changed: Some(tool),
            },
        });
    }
    if is_new {
        private_file::write(file, &document)
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(compared)
}

/// The pinned tools of a server, for the time that it cannot be reached.
pub(super) fn known(file: Option<&Path>, server: &str) -> Vec<Tool> {
    let document = file.and_then(|file| read(file).ok());
    let mut servers = document
        .map(|document| document.servers)
        .unwrap_or_default();
    servers
        .remove(server)
        .unwrap_or_default()
        .into_values()
        .collect()
}

/// The digest of a tool's description, schemas and annotations.
pub(super) fn digest(tool: &Tool) -> Digest {
    // The order of the SDK's maps depends on the features of another package.
    let said = serde_json::json!([
        tool.name,
        tool.title,
        tool.description,
        sorted(&serde_json::Value::Object((*tool.input_schema).clone())),
        tool.output_schema
            .as_ref()
            .map(|schema| sorted(&serde_json::Value::Object((**schema).clone()))),
        tool.annotations,
    ]);
    Digest::of(said.to_string().as_bytes())
}

/// A value in which each object is a list of its fields, sorted by name.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> = fields
                .iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            Value::Array(
                fields
                    .into_iter()
                    .map(|(name, value)| serde_json::json!([name, value]))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn read(file: &Path) -> Result<Document, String> {
    let wrong = |reason: String| format!("{}: {reason}", file.display());
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Document::default()),
        Err(error) => return Err(wrong(error.to_string())),
        Ok(found) if found.len() > MAX_BYTES => {
            return Err(wrong(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    // An unreadable file is an error, never an empty one.
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}
