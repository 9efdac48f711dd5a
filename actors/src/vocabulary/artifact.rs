//! Named files with versions, which agents keep for a session or a user.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Digest, Timestamp};

/// The description of one version of an artifact: everything but its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactInfo {
    /// Its name, which is the same for all versions.
    pub name: String,
    /// The version: 1 for the first, and one more for each later save under the name.
    pub version: u64,
    /// Its MIME type, such as `text/markdown`.
    pub media_type: String,
    /// The size of the content in bytes.
    pub bytes: u64,
    /// The content's hash, under which the store keeps the content once, however often it is saved.
    pub content: Digest,
    /// When it was saved.
    pub at: Timestamp,
}

impl ArtifactInfo {
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 255;

    /// A version with this content.
    pub fn of(
        name: impl Into<String>,
        version: u64,
        media_type: impl Into<String>,
        content: &[u8],
        at: Timestamp,
    ) -> Self {
        Self {
            name: name.into(),
            version,
            media_type: media_type.into(),
            bytes: content.len() as u64,
            content: Digest::of(content),
            at,
        }
    }

    /// The fault of a name; `None` for a good one: a text of at most [`MAX_NAME`](Self::MAX_NAME) bytes that
    /// is not blank and has no control characters.
    pub fn fault_of_name(name: &str) -> Option<String> {
        if name.trim().is_empty() {
            return Some("an artifact needs a name".to_owned());
        }
        if name.len() > Self::MAX_NAME {
            let (have, most) = (name.len(), Self::MAX_NAME);
            return Some(format!(
                "the name has {have} bytes; at most {most} are possible"
            ));
        }
        let control = name.chars().find(|c| c.is_control());
        control.map(|c| format!("the name {name:?} holds the control character {c:?}"))
    }
}

/// `report.md, version 2 (text/markdown, 1280 bytes)`
impl fmt::Display for ArtifactInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            version,
            media_type,
            bytes,
            ..
        } = self;
        write!(f, "{name}, version {version} ({media_type}, {bytes} bytes)")
    }
}

/// One version of an artifact with its content. Cloning shares the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The description.
    pub info: ArtifactInfo,
    /// Its content.
    pub content: Arc<[u8]>,
}

impl Artifact {
    /// The content as text; `None` when it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.content).ok()
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Artifact({})", self.info)
    }
}
