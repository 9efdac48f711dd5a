//! A session as one JSON document.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    contract::Line,
    vocabulary::{ArtifactInfo, Digest, SessionId, Timestamp},
};

/// The name of the format in a document.
const FORMAT: &str = "ghostlight-session";

/// A session with its contents, to be kept elsewhere or to go on in another store: its turns, its
/// state, and its artifacts with all their versions. The state that it shares with others, a user's
/// and the team's, is not included, and neither are the records of its runs
/// ([`recording`](crate::actor::recording())).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionDocument {
    /// The session, under its name in the store that it comes from.
    pub session: SessionId,
    /// The entries of its journal, up to the last turn that had ended.
    pub entries: Vec<Line>,
    /// Its state: each value with the number of its writes.
    pub state: BTreeMap<String, (Value, u64)>,
    /// All versions of its artifacts.
    pub artifacts: Vec<ArtifactInfo>,
    /// The contents of the artifacts, each once.
    pub contents: BTreeMap<Digest, Vec<u8>>,
}

/// A text is no exported session, or not one that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionDocumentError {
    /// The text is something else.
    #[error("this is no exported session ({reason}): give what `ghostlight session export` prints")]
    Foreign {
        /// The reason.
        reason: String,
    },
    /// A later version of the format.
    #[error(
        "the exported session has version {found}, this program reads up to {known}: use a newer \
         one"
    )]
    TooNew {
        /// The document's version.
        found: u32,
        /// The latest version that this program knows.
        known: u32,
    },
    /// A later program wrote an entry of the session.
    #[error("the exported session was written by a newer program ({reason}): use a newer one")]
    Newer {
        /// The part that this program does not know.
        reason: String,
    },
    /// The document is damaged.
    #[error("the exported session is damaged: {reason}")]
    Damaged {
        /// The damage.
        reason: String,
    },
}

/// The document's head: its format and version.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    version: u32,
    session: SessionId,
    entries: Vec<WrittenEntry>,
    state: BTreeMap<String, WrittenValue>,
    artifacts: Vec<ArtifactInfo>,
    contents: BTreeMap<Digest, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry {
    at: Timestamp,
    entry: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenValue {
    value: Value,
    version: u64,
}

impl SessionDocument {
    /// The version of the format that this program writes.
    pub const VERSION: u32 = 1;

    /// The document as JSON.
    pub fn to_json(&self) -> String {
        let raw = |line: &Line| WrittenEntry {
            at: line.at,
            entry: RawValue::from_string(line.text.to_string())
                .unwrap_or_else(|_| RawValue::NULL.to_owned()),
        };
        let value = |(key, (value, version)): (&String, &(Value, u64))| {
            let (value, version) = (value.clone(), *version);
            (key.clone(), WrittenValue { value, version })
        };
        let written = Written {
            format: FORMAT.to_owned(),
            version: Self::VERSION,
            session: self.session.clone(),
            entries: self.entries.iter().map(raw).collect(),
            state: self.state.iter().map(value).collect(),
            artifacts: self.artifacts.clone(),
            contents: self
                .contents
                .iter()
                .map(|(digest, content)| (*digest, BASE64.encode(content)))
                .collect(),
        };
        // The document is plain data with text keys, so encoding cannot fail.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`SessionDocumentError`], which tells other texts, newer versions and damage apart.
    pub fn from_json(text: &str) -> Result<Self, SessionDocumentError> {
        let foreign = |reason: String| SessionDocumentError::Foreign { reason };
        let head: Head = serde_json::from_str(text).map_err(|error| foreign(error.to_string()))?;
        if head.format.as_deref() != Some(FORMAT) {
            return Err(foreign(format!("its `format` is not {FORMAT:?}")));
        }
        match head.version {
            None => return Err(foreign("it has no `version`".to_owned())),
            Some(found) if found > Self::VERSION => {
                let known = Self::VERSION;
                return Err(SessionDocumentError::TooNew { found, known });
            }
            Some(_) => {}
        }
        let damaged = |reason: String| SessionDocumentError::Damaged { reason };
        let written: Written =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let line = |written: WrittenEntry| Line {
            at: written.at,
            text: written.entry.get().into(),
        };
        let mut contents = BTreeMap::new();
        for (digest, base64) in written.contents {
            let content = BASE64.decode(base64);
            let content = content.map_err(|error| damaged(format!("content {digest}: {error}")))?;
            if Digest::of(&content) != digest {
                return Err(damaged(format!("content {digest} is another one")));
            }
            contents.insert(digest, content);
        }
        for info in &written.artifacts {
            if !contents.contains_key(&info.content) {
                return Err(damaged(format!("it lacks the content of {info}")));
            }
        }
        let state = written.state.into_iter();
        Ok(Self {
            session: written.session,
            entries: written.entries.into_iter().map(line).collect(),
            state: state
                .map(|(key, written)| (key, (written.value, written.version.max(1))))
                .collect(),
            artifacts: written.artifacts,
            contents,
        })
    }
}
