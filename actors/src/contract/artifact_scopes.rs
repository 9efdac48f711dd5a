//! The shared-state scopes in which a store keeps what it knows of artifacts, beside the scope that
//! has the artifacts. Their contents are blobs.

use serde::Deserialize;
use serde_json::Value;

use crate::vocabulary::Digest;

/// The prefix of scopes in which each value refers to a blob by its field `content`. A store keeps
/// a blob as long as such a value refers to it.
pub const REFERRING: &str = "artifact-versions:";

/// The scope that holds the latest version of each artifact of a scope, under its name.
pub fn latest(scope: &str) -> String {
    format!("artifacts:{scope}")
}

/// The scope that holds all versions of all artifacts of a scope.
pub fn versions(scope: &str) -> String {
    format!("{REFERRING}{scope}")
}

/// The scope whose artifacts are kept in this one; a scope of another sort is itself.
pub fn of(scope: &str) -> &str {
    let inner = scope.strip_prefix(REFERRING);
    inner
        .or_else(|| scope.strip_prefix("artifacts:"))
        .unwrap_or(scope)
}

/// The key of a version: the number ends at the first slash, whatever the name holds.
pub fn key(name: &str, version: u64) -> String {
    format!("{version}/{name}")
}

/// The scopes that go with a tree of runs: its working memory and its artifacts.
pub fn of_tree(root: crate::vocabulary::RunId) -> [String; 3] {
    let scope = format!("run:{root}");
    [latest(&scope), versions(&scope), scope]
}

/// The scopes that go with a session: its state and its artifacts.
pub fn of_session(session: &crate::vocabulary::SessionId) -> [String; 3] {
    let scope = format!("session:{session}");
    [latest(&scope), versions(&scope), scope]
}

/// The blob to which a value of a [`REFERRING`] scope refers. A value of a later version that does
/// not read refers to one that nobody knows.
///
/// # Errors
/// When it does not read.
pub fn referred(value: &Value) -> Result<Digest, serde_json::Error> {
    #[derive(Deserialize)]
    struct Referring {
        content: Digest,
    }
    Referring::deserialize(value).map(|referring| referring.content)
}
