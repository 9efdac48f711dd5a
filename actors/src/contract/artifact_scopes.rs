//! The scopes of shared state in which a store keeps the descriptions of artifacts. A description lies in a scope of
//! its own, beside the scope that has the artifact; the content is a blob.

use serde::Deserialize;
use serde_json::Value;

use crate::vocabulary::Digest;

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

/// The scope that has the artifacts which this scope describes. Any other scope is returned unchanged.
pub fn of(scope: &str) -> &str {
    let inner = scope.strip_prefix(REFERRING);
    inner
        .or_else(|| scope.strip_prefix("artifacts:"))
        .unwrap_or(scope)
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

/// The scopes of a tree of runs: its working memory and its artifacts.
pub fn of_tree(root: crate::vocabulary::RunId) -> [String; 3] {
    let scope = format!("run:{root}");
    [latest(&scope), versions(&scope), scope]
}

/// The scopes of a session: its state and its artifacts.
pub fn of_session(session: &crate::vocabulary::SessionId) -> [String; 3] {
    let scope = format!("session:{session}");
    [latest(&scope), versions(&scope), scope]
}

/// The blob to which a value of a [`REFERRING`] scope refers.
///
/// # Errors
/// The value has another form: a later version may have written it, and its blob is not known.
pub fn referred(value: &Value) -> Result<Digest, serde_json::Error> {
    #[derive(Deserialize)]
    struct Referring {
        content: Digest,
    }
    Referring::deserialize(value).map(|referring| referring.content)
}
