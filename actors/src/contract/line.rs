//! Entries as text.

use serde::Serialize;
use serde_json::Value;

use super::StoreError;
use crate::vocabulary::{
    AskedBy, CallDigest, CallReport, Entry, FORMAT, OLDEST, OperationId, Spent, Timestamp,
    canonical, charge,
};

/// Room for an entry's text while it is written, in bytes.
const ROOM: usize = 1024;

fn unwritable(error: impl ToString) -> StoreError {
    StoreError::Unwritable {
        reason: error.to_string(),
    }
}

/// An encoded entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was written.
    pub at: Timestamp,
    /// The entry's JSON text.
    pub text: Box<str>,
}

impl Line {
    /// Encodes an entry.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`] for an entry that has no form as JSON, such as one with a map whose keys are not
    /// texts. Nothing of such an entry may be written.
    pub fn encode(at: Timestamp, entry: &Entry) -> Result<Self, StoreError> {
        Self::of(at, entry)
    }

    fn of(at: Timestamp, entry: &impl Serialize) -> Result<Self, StoreError> {
        // The buffer has room for most entries, so that growing does not copy it again and again.
        let mut bytes = Vec::with_capacity(ROOM);
        canonical::write_as_given(entry, &mut bytes).map_err(unwritable)?;
        let text = String::from_utf8(bytes).map_err(unwritable)?.into();
        Ok(Self { at, text })
    }

    /// Encodes an [`Entry::Completed`]. `result` writes the operation's result straight into the line, so that it is
    /// encoded only once. `buffer` is scratch space and is left empty.
    pub(crate) fn completed(
        at: Timestamp,
        buffer: &mut Vec<u8>,
        (op, kind, name, digest): (OperationId, &str, &str, CallDigest),
        (spent, call, asked_by): (Spent, Option<&CallReport>, Option<AskedBy>),
        result: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
    ) -> serde_json::Result<Self> {
        buffer.clear();
        buffer.extend_from_slice(b"{\"completed\":{\"op\":\"");
        for (number, before) in [(op.leg, ""), (op.lane, "."), (op.number, ".")] {
            buffer.extend_from_slice(before.as_bytes());
            canonical::write_as_given(&number, buffer)?;
        }
        buffer.extend_from_slice(b"\",\"kind\":");
        canonical::write_as_given(kind, buffer)?;
        buffer.extend_from_slice(b",\"name\":");
        canonical::write_as_given(name, buffer)?;
        buffer.extend_from_slice(b",\"digest\":\"");
        buffer.extend_from_slice(&digest.hexadecimal());
        buffer.extend_from_slice(b"\",\"result\":");
        result(buffer)?;
        if !charge::is_nothing(&spent) {
            buffer.extend_from_slice(b",\"spent\":");
            charge::serialize(&spent, &mut serde_json::Serializer::new(&mut *buffer))?;
        }
        if let Some(call) = call {
            buffer.extend_from_slice(b",\"call\":");
            canonical::write_as_given(call, buffer)?;
        }
        if let Some(asked_by) = asked_by {
            buffer.extend_from_slice(b",\"asked_by\":");
            canonical::write_as_given(&asked_by, buffer)?;
        }
        buffer.extend_from_slice(b"}}");
        let text = std::str::from_utf8(buffer).map_err(serde::ser::Error::custom)?;
        let line = Self {
            at,
            text: text.into(),
        };
        buffer.clear();
        Ok(line)
    }

    /// Decodes the entry.
    ///
    /// # Errors
    /// [`EntryError`], which tells a later program's entry from one that does not read.
    pub fn decode(&self) -> Result<Entry, EntryError> {
        let entry = serde_json::from_str(&self.text).map_err(|error| self.unread(&error))?;
        let format = match &entry {
            Entry::RunStarted(start) if start.format < OLDEST => {
                return Err(EntryError::Older {
                    format: start.format,
                });
            }
            Entry::RunStarted(start) => start.format,
            Entry::Activated { format, .. } => *format,
            Entry::TurnStarted(turn) => turn.format,
            _ => return Ok(entry),
        };
        match format > FORMAT {
            true => Err(EntryError::of_format(format)),
            false => Ok(entry),
        }
    }

    /// Why the text is no entry that this program knows.
    fn unread(&self, error: &serde_json::Error) -> EntryError {
        let reason = error.to_string();
        // Well-formed JSON that does not fit comes from a later program: the checksums of stores find what was
        // changed since.
        let Ok(Value::Object(entry)) = serde_json::from_str(&self.text) else {
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
        /// What is unknown.
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
        /// What is wrong.
        reason: String,
    },
}

impl EntryError {
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
    use serde_json::value::to_raw_value;

    use crate::vocabulary::AnsweredBy;

    use super::*;

    #[test]
    fn what_has_no_form_as_json_is_refused_and_no_empty_line() {
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        let refused = Line::of(Timestamp::default(), &odd);
        assert!(matches!(refused, Err(StoreError::Unwritable { .. })));
    }

    #[test]
    fn a_completed_operation_is_encoded_like_its_entry() {
        let op = OperationId {
            leg: 3,
            lane: 0,
            number: 4_294_967_295,
        };
        let (name, digest) = ("say \"hi\"\n", CallDigest(0x0123_4567_89ab_cdef));
        let result: Result<&str, ()> = Ok("a \"b\" ü");
        let consumed = Spent {
            tool_calls: 1,
            ..Spent::default()
        };
        let report = CallReport::new("{}".into(), AnsweredBy::Tool);
        let asked_by = AskedBy {
            model: op,
            index: 7,
        };
        for (spent, call, asked_by) in [
            (Spent::default(), None, None),
            (consumed, Some(&report), Some(asked_by)),
        ] {
            let entry = Entry::Completed {
                op,
                kind: "tool".into(),
                name: name.into(),
                digest,
                result: to_raw_value(&result).unwrap(),
                spent,
                call: call.cloned().map(Box::new),
                asked_by,
            };
            let mut buffer = b"left over".to_vec();
            let line = Line::completed(
                Timestamp::default(),
                &mut buffer,
                (op, "tool", name, digest),
                (spent, call, asked_by),
                |buffer| serde_json::to_writer(buffer, &result),
            );
            assert_eq!(
                line.unwrap(),
                Line::encode(Timestamp::default(), &entry).unwrap()
            );
            assert!(buffer.is_empty());
        }
    }
}
