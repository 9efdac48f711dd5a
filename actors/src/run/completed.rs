//! The end of an operation, as the journal keeps it until somebody reads its text.

use serde::Serialize;

use super::{call_identity::CallIdentity, operation::Made};
use crate::{
    contract::AsText,
    vocabulary::{CallReport, ErrorKind, OperationError, OperationId, Spent, canonical, charge},
};

/// Room for the JSON of a result; most are short.
const ROOM: usize = 128;

/// The result of an operation, as a value or as the JSON of a `Result`.
pub(crate) enum Payload {
    Typed(Kept),
    Json(Vec<u8>),
}

/// A copy of an operation's result, of which JSON is made when somebody reads the journal.
pub struct Kept(Box<dyn AsText>);

opaque!(Kept);

impl Kept {
    /// Keeps this copy, which always has a form as JSON: the keys of its maps are texts.
    pub fn of(result: impl Serialize + Send + Sync + 'static) -> Self {
        Self(Box::new(Copied(result)))
    }
}

struct Copied<T>(T);

impl<T: Serialize + Send + Sync> AsText for Copied<T> {
    fn write(&self, into: &mut Vec<u8>) {
        let begin = into.len();
        if let Err(error) = write_end(Ok(&self.0), into) {
            into.truncate(begin);
            // An error is plain text and numbers, which can always be encoded.
            let _ = write_end(Err::<&T, _>(&unrecordable(&error)), into);
        }
    }
}

/// Appends `{"Ok": …}` or `{"Err": …}`.
pub(super) fn write_end<T: Serialize>(
    end: Result<&T, &OperationError>,
    into: &mut Vec<u8>,
) -> serde_json::Result<()> {
    canonical::write_as_given(&end, into)
}

fn unrecordable(error: &serde_json::Error) -> OperationError {
    let message = format!("the result could not be recorded as JSON: {error}");
    OperationError::new(ErrorKind::Malformed, message)
}

impl Payload {
    /// The journal's record of an operation's end.
    ///
    /// # Errors
    /// The result has no form as JSON; this error is what the operation ends with.
    pub(super) fn of(mut end: Result<&mut Made, &OperationError>) -> Result<Self, OperationError> {
        let made = end.as_mut().ok();
        if let Some(kept) = made.and_then(|made| made.kept.take()) {
            return Ok(Self::Typed(kept));
        }
        let mut json = Vec::with_capacity(ROOM);
        let written = match end {
            Ok(made) => made.write(&mut json),
            Err(error) => write_end(Err::<&(), _>(error), &mut json),
        };
        written.map_err(|error| unrecordable(&error))?;
        Ok(Self::Json(json))
    }
}

/// The end of an operation on its way into the journal: its text is that of an
/// [`Entry::Completed`](crate::vocabulary::Entry::Completed).
pub(super) struct Completed {
    pub(super) op: OperationId,
    pub(super) identity: CallIdentity,
    pub(super) result: Payload,
    pub(super) spent: Spent,
    pub(super) call: Option<CallReport>,
}

impl AsText for Completed {
    fn write(&self, into: &mut Vec<u8>) {
        let CallIdentity {
            kind,
            name,
            digest,
            asked_by,
        } = &self.identity;
        let OperationId { leg, lane, number } = self.op;
        into.extend_from_slice(b"{\"completed\":{\"op\":\"");
        for (number, before) in [(leg, ""), (lane, "."), (number, ".")] {
            into.extend_from_slice(before.as_bytes());
            put(&number, into);
        }
        into.extend_from_slice(b"\",\"kind\":");
        put(kind, into);
        into.extend_from_slice(b",\"name\":");
        put(name, into);
        into.extend_from_slice(b",\"digest\":\"");
        into.extend_from_slice(&digest.get().hexadecimal());
        into.extend_from_slice(b"\",\"result\":");
        match &self.result {
            Payload::Typed(Kept(kept)) => kept.write(into),
            Payload::Json(json) => into.extend_from_slice(json),
        }
        if !charge::is_nothing(&self.spent) {
            into.extend_from_slice(b",\"spent\":");
            let _ = charge::serialize(&self.spent, &mut serde_json::Serializer::new(&mut *into));
        }
        if let Some(call) = &self.call {
            into.extend_from_slice(b",\"call\":");
            put(call, into);
        }
        if let Some(asked_by) = asked_by {
            into.extend_from_slice(b",\"asked_by\":");
            put(asked_by, into);
        }
        into.extend_from_slice(b"}}");
    }
}

/// Appends plain data, which can always be encoded.
fn put<T: Serialize + ?Sized>(value: &T, into: &mut Vec<u8>) {
    let _ = canonical::write_as_given(value, into);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::{
        contract::Line,
        vocabulary::{AnsweredBy, AskedBy, CallDigest, Entry, Timestamp},
    };

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
            (consumed, Some(report), Some(asked_by)),
        ] {
            let entry = Entry::Completed {
                op,
                kind: "tool".into(),
                name: name.into(),
                digest,
                result: to_raw_value(&result).unwrap(),
                spent,
                call: call.clone().map(Box::new),
                asked_by,
            };
            let json = serde_json::to_vec(&result).unwrap();
            for result in [Payload::Json(json), Payload::Typed(Kept::of("a \"b\" ü"))] {
                let identity = CallIdentity {
                    kind: "tool".into(),
                    name: name.into(),
                    digest: digest.into(),
                    asked_by,
                };
                let call = call.clone();
                let completed = Completed {
                    op,
                    identity,
                    result,
                    spent,
                    call,
                };
                assert_eq!(
                    Line::later(Timestamp::default(), completed),
                    Line::encode(Timestamp::default(), &entry).unwrap()
                );
            }
        }
    }
}
