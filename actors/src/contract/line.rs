//! Entries as text.

use serde::Serialize;
use serde_json::Value;

use super::{
    LineText, StoreError,
    line_text::{AsText, ROOM},
};
use crate::vocabulary::{Digest, Entry, FORMAT, OLDEST, Timestamp, canonical};

fn unwritable(error: impl ToString) -> StoreError {
    StoreError::Unwritable {
        reason: error.to_string(),
    }
}

/// An entry with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was written.
    pub at: Timestamp,
    /// The entry's JSON text, which may not be written before somebody reads it.
    pub text: LineText,
}

impl Line {
    /// Encodes an entry at once.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`] for an entry that has no form as JSON, such as one with a map whose keys are not
    /// texts. Nothing of such an entry may be written.
    pub fn encode(at: Timestamp, entry: &Entry) -> Result<Self, StoreError> {
        Self::of(at, entry)
    }

    /// An entry that is encoded when somebody reads its text.
    pub(crate) fn later(at: Timestamp, entry: impl AsText + 'static) -> Self {
        let text = LineText::of(entry);
        Self { at, text }
    }

    fn of(at: Timestamp, entry: &impl Serialize) -> Result<Self, StoreError> {
        let mut bytes = Vec::with_capacity(ROOM);
        canonical::write_as_given(entry, &mut bytes).map_err(unwritable)?;
        let text = String::from_utf8(bytes).map_err(unwritable)?.into();
        Ok(Self { at, text })
    }

    /// Decodes the entry.
    ///
    /// # Errors
    /// [`EntryError`], which tells a later program's entry from one that does not read.
    pub fn decode(&self) -> Result<Entry, EntryError> {
        Self::read(&self.text.whole().map_err(EntryError::damaged)?)
    }

    /// The blob to which the entry refers, if there is one: the definition of a run that begins. A store keeps it as long
    /// as the entry. It is read without the files in the entry.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn blob(&self) -> Result<Option<Digest>, EntryError> {
        let text = self.text.without_files().map_err(EntryError::damaged)?;
        Ok(Self::read(&text)?.blob())
    }

    /// The hashes of the files that a store keeps beside the entry, as blobs.
    ///
    /// # Errors
    /// [`EntryError::Damaged`].
    pub fn files(&self) -> Result<Vec<Digest>, EntryError> {
        self.text.files().map_err(EntryError::damaged)
    }

    fn read(text: &str) -> Result<Entry, EntryError> {
        let entry = serde_json::from_str(text).map_err(|error| Self::unread(text, &error))?;
        let format = match &entry {
            Entry::RunStarted(start) => start.format,
            Entry::Activated { format, .. } => *format,
            Entry::TurnStarted(turn) => turn.format,
            _ => return Ok(entry),
        };
        match format {
            ..OLDEST => Err(EntryError::Older { format }),
            OLDEST..=FORMAT => Ok(entry),
            _ => Err(EntryError::of_format(format)),
        }
    }

    /// Why the text is no entry that this program knows.
    fn unread(text: &str, error: &serde_json::Error) -> EntryError {
        let reason = error.to_string();
        // Well-formed JSON that does not fit comes from a later program: the checksums of stores find what was
        // changed since.
        let Ok(Value::Object(entry)) = serde_json::from_str(text) else {
            return EntryError::Damaged { reason };
        };
        let said = entry
            .values()
            .find_map(|entry| entry.get("format")?.as_u64());
        match said.and_then(|format| u32::try_from(format).ok()) {
            Some(format) if format > FORMAT => EntryError::of_format(format),
            _ => EntryError::Newer {
                format: None,
                reason,
            },
        }
    }
}

/// Why a text is no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A later program wrote it: it names a later format, or contains something unknown.
    #[error("{reason}")]
    Newer {
        /// The entry's format, where the entry names one.
        format: Option<u32>,
        /// The unknown part.
        reason: String,
    },
    /// It begins the journal of a run of a format from before the first that is read.
    #[error("its format is {format}, and this program reads format {OLDEST} and later")]
    Older {
        /// The entry's format.
        format: u32,
    },
    /// It is no JSON object.
    #[error("{reason}")]
    Damaged {
        /// The fault.
        reason: String,
    },
}

impl EntryError {
    fn damaged(reason: String) -> Self {
        Self::Damaged { reason }
    }

    fn of_format(format: u32) -> Self {
        Self::Newer {
            format: Some(format),
            reason: format!("its format is {format}"),
        }
    }

    /// The same error as a store's, with the place of the entry.
    pub(crate) fn at(self, sequence: u64, journal: &str) -> StoreError {
        let place = format!("entry {sequence} of {journal}");
        match self {
            Self::Newer { format, reason } => StoreError::Newer {
                place,
                format,
                known: FORMAT,
                reason,
            },
            Self::Older { format } => StoreError::NoLongerRead {
                place,
                found: format,
                oldest: OLDEST,
            },
            Self::Damaged { reason } => StoreError::Damaged { place, reason },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_form_as_json_is_refused_and_no_empty_line() {
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        let refused = Line::of(Timestamp::default(), &odd);
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })));
    }
}
