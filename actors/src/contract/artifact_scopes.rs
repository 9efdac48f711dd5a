//! The scopes of shared state in which a store keeps the descriptions of artifacts, and the files to which entries
//! refer. A description lies in a scope of its own, beside the scope that has the artifact; the content is a blob.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::to_raw_value};

use super::{Expected, StateWrite};

use crate::vocabulary::{Digest, RunId, SessionId};

/// The prefix of scopes in which each value refers to a blob by its field `content`. A store keeps
/// a blob as long as such a value refers to it.
pub const REFERRING: &str = "artifact-versions:";

/// The scope that holds the latest version of each artifact of a scope, under its name.
pub(crate) fn latest(scope: &str) -> String {
    format!("artifacts:{scope}")
}

/// The scope that holds all versions of all artifacts of a scope.
pub fn versions(scope: &str) -> String {
    format!("{REFERRING}{scope}")
}

/// The scope that holds the files in the entries of a session or of a tree of runs, each under its hash.
fn files(scope: &str) -> String {
    format!("{REFERRING}{FILES}{scope}")
}

/// The mark of such a scope.
const FILES: &str = "files:";

/// The scope that has the artifacts or the files which this scope describes. Any other scope is returned unchanged.
pub(crate) fn of(scope: &str) -> &str {
    match scope.strip_prefix(REFERRING) {
        Some(inner) => inner.strip_prefix(FILES).unwrap_or(inner),
        None => scope.strip_prefix("artifacts:").unwrap_or(scope),
    }
}

/// The row by which the entries of a session or of a tree of runs refer to a file. It goes with the entries.
pub(crate) fn file_row(scope: &str, content: Digest) -> StateWrite {
    StateWrite {
        scope: files(scope),
        key: content.to_string(),
        value: to_raw_value(&Referring { content }).ok(),
        expected: Expected::Any,
    }
}

/// The key of a version: the number, a slash, and the name. The name may contain slashes.
pub fn key(name: &str, version: u64) -> String {
    format!("{version}/{name}")
}

/// The scope and the key of the row that describes an artifact: its latest version, or the given one.
pub(crate) fn row(scope: &str, name: &str, version: Option<u64>) -> (String, String) {
    match version {
        None => (latest(scope), name.to_owned()),
        Some(version) => (versions(scope), key(name, version)),
    }
}

/// The scopes of a tree of runs: its working memory, its artifacts, and the files in its entries.
pub fn of_tree(root: RunId) -> [String; 4] {
    all(tree(root))
}

/// The scopes of a session: its state, its artifacts, and the files in its entries.
pub fn of_session(id: &SessionId) -> [String; 4] {
    all(session(id))
}

fn all(scope: String) -> [String; 4] {
    [latest(&scope), versions(&scope), files(&scope), scope]
}

/// The scope of a tree of runs.
pub(super) fn tree(root: RunId) -> String {
    format!("run:{root}")
}

/// The scope of a session.
pub(super) fn session(id: &SessionId) -> String {
    format!("session:{id}")
}

#[derive(Serialize, Deserialize)]
struct Referring {
    content: Digest,
}

/// The blob to which a value of a [`REFERRING`] scope refers.
///
/// # Errors
/// The value has another form: a later version may have written it, and its blob is not known.
pub fn referred(value: &Value) -> Result<Digest, serde_json::Error> {
    Referring::deserialize(value).map(|referring| referring.content)
}
