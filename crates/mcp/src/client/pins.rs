//! The tools of servers as they were first seen.
//!
//! A description is an instruction to the model, so one that changes after people looked at it is an
//! attack until somebody says otherwise. The file remembers each tool whole: what the model is told is what
//! was first seen, and a person is asked before each call of a tool that says something else now. Whoever
//! accepts the change takes the tool's entry out of the file.

use std::{collections::BTreeMap, fs, io, path::Path};

use ghostlight_actors::vocabulary::Digest;
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};

use super::private_file;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    servers: BTreeMap<String, BTreeMap<String, Tool>>,
}

/// A tool with what is known of it from before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pinned {
    /// The tool as the model is to know it.
    pub(super) tool: Tool,
    /// The tool as the server shows it now, where that is something else.
    pub(super) changed: Option<Tool>,
}

/// Compares the tools that a server shows with those that it showed first, and remembers new ones.
/// Without a file nothing is known, and nothing is remembered.
///
/// # Errors
/// When the file cannot be read or written. What it would have said is then not known.
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

/// The tools that a server showed first, for while it cannot be reached.
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

/// What a server says of a tool to models and clients, as a number.
pub(super) fn digest(tool: &Tool) -> Digest {
    // Maps of the SDK have an order of their own where another package asks for that.
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

/// A value whose objects are lists of their fields by name.
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
    // What cannot be read is never taken for what is not there.
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}
