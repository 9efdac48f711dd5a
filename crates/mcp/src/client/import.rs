//! Configuration files of other clients: `{"mcpServers": {"name": {"command": …}}}`.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use serde::Deserialize;
use serde_json::Value;

use super::{
    error::ServerSpecError,
    settings::{Command, ServerSpec},
};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Another client's settings of a server. Keys of its own, such as a list of tools that need no approval, are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<std::path::PathBuf>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
}

/// The settings of the server with this name.
pub(super) fn read(file: &Path, server: &str) -> Result<ServerSpec, ServerSpecError> {
    let wrong = |reason: String| ServerSpecError::File {
        file: file.to_owned(),
        reason,
    };
    let opened = File::open(file).map_err(|error| ServerSpecError::file(file, &error))?;
    let mut text = String::new();
    let mut bounded = opened.take(MAX_BYTES + 1);
    bounded
        .read_to_string(&mut text)
        .map_err(|error| ServerSpecError::file(file, &error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("it has more than {MAX_BYTES} bytes")));
    }
    let document: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    // Some editors call the key `servers`.
    let servers = document
        .get("mcpServers")
        .or_else(|| document.get("servers"));
    let servers = servers.and_then(Value::as_object);
    let servers = servers.ok_or_else(|| wrong("it has no object `mcpServers`".to_owned()))?;
    let Some(entry) = servers.get(server) else {
        let known: Vec<&str> = servers.keys().map(String::as_str).collect();
        return Err(ServerSpecError::NoServer {
            file: file.to_owned(),
            server: server.to_owned(),
            known: match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            },
        });
    };
    let entry = Entry::deserialize(entry).map_err(|error| wrong(format!("{server}: {error}")))?;
    Ok(ServerSpec {
        command: entry.command.map(Command::Program),
        args: entry.args,
        env: entry.env,
        cwd: entry.cwd,
        url: entry.url,
        headers: entry.headers,
        ..ServerSpec::default()
    })
}
