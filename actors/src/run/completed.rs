//! The end of an operation, as the journal keeps it until somebody reads its text.

use std::{any::Any, sync::Arc};

use serde::Serialize;

use super::call_identity::CallIdentity;
use crate::{
    contract::{AsText, LineText, Unread, may_have_files},
    vocabulary::{CallReport, ErrorKind, OperationError, OperationId, Spent, canonical, charge},
};

/// Room for the JSON of a result; most are short.
const ROOM: usize = 128;

/// A copy of an operation's result, of which JSON is made when somebody reads the journal: an entry without its head.
pub struct Kept(Arc<dyn Headless>);

opaque!(Kept);

impl Kept {
    /// Keeps this copy, which always has a form as JSON: the keys of its maps are texts. It is told with it whether it has
    /// files that a store keeps beside it.
    pub(crate) fn of(result: impl Serialize + Send + Sync + 'static, has_files: bool) -> Self {
        let (head, result) = (None, Copied { result, has_files });
        Self(Unread::new(Completed { head, result }))
    }
}

/// An entry whose head is not known yet.
trait Headless: Send + Sync {
    fn complete(self: Arc<Self>, head: Head) -> LineText;
}

impl<R: AsText + 'static> Headless for Unread<Completed<R>> {
    fn complete(self: Arc<Self>, head: Head) -> LineText {
        self.change(|entry| entry.head = Some(head));
        self.into()
    }
}

struct Copied<T> {
    result: T,
    has_files: bool,
}

impl<T: Serialize + Send + Sync> AsText for Copied<T> {
    fn may_have_files(&self) -> bool {
        self.has_files
    }

    fn write(&self, into: &mut Vec<u8>) {
        let _ = write_or_refuse(into, |into| write_end(Ok(&self.result), into));
    }
}

/// Appends `{"Ok": …}` or `{"Err": …}`.
fn write_end<T: Serialize>(
    end: Result<&T, &OperationError>,
    into: &mut Vec<u8>,
) -> serde_json::Result<()> {
    canonical::write_as_given(&end, into)
}

/// Appends the end of an operation. If it has no form as JSON, the returned error is appended instead.
fn write_or_refuse(
    into: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> Result<(), OperationError> {
    let begin = into.len();
    write(into).map_err(|error| {
        into.truncate(begin);
        let message = format!("the result could not be recorded as JSON: {error}");
        let error = OperationError::new(ErrorKind::Malformed, message);
        // An error is plain text and numbers, which can always be encoded.
        let _ = write_end(Err::<&(), _>(&error), into);
        error
    })
}

/// The end of an operation on its way into the journal: its text is that of an
/// [`Entry::Completed`](crate::vocabulary::Entry::Completed).
struct Completed<R> {
    head: Option<Head>,
    result: R,
}

/// The content of an entry besides the result of its operation: the consumption, and how a call of a tool was answered.
pub(super) type Head = (OperationId, CallIdentity, Spent, Option<CallReport>);

/// The journal's record of an operation's end. If its result has no form as JSON, the returned error is recorded instead.
pub(super) fn record(head: Head, end: &mut End) -> (LineText, Result<(), OperationError>) {
    if let Some(kept) = end.as_mut().ok().and_then(|made| made.kept.take()) {
        return (kept.0.complete(head), Ok(()));
    }
    let mut result = Vec::with_capacity(ROOM);
    let ended = write_or_refuse(&mut result, |into| match end {
        Ok(made) => made.write(into),
        Err(error) => write_end(Err::<&(), _>(&*error), into),
    });
    let head = Some(head);
    (LineText::of(Completed { head, result }), ended)
}

/// A result as JSON.
impl AsText for Vec<u8> {
    fn may_have_files(&self) -> bool {
        std::str::from_utf8(self).is_ok_and(may_have_files)
    }

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }
}

impl<R: AsText> AsText for Completed<R> {
    fn may_have_files(&self) -> bool {
        self.result.may_have_files()
    }

    fn write(&self, into: &mut Vec<u8>) {
        let Some((op, identity, spent, call)) = &self.head else {
            return;
        };
        let OperationId { leg, lane, number } = *op;
        into.extend_from_slice(b"{\"completed\":{\"op\":\"");
        for (number, before) in [(leg, ""), (lane, "."), (number, ".")] {
            into.extend_from_slice(before.as_bytes());
            put(&number, into);
        }
        into.extend_from_slice(b"\",\"kind\":");
        put(&identity.kind, into);
        into.extend_from_slice(b",\"name\":");
        put(identity.name(), into);
        into.extend_from_slice(b",\"digest\":\"");
        into.extend_from_slice(&identity.digest.get().hexadecimal());
        into.extend_from_slice(b"\",\"result\":");
        self.result.write(into);
        if !charge::is_nothing(spent) {
            into.extend_from_slice(b",\"spent\":");
            let _ = charge::serialize(spent, &mut serde_json::Serializer::new(&mut *into));
        }
        if let Some(call) = call {
            into.extend_from_slice(b",\"call\":");
            put(call, into);
        }
        if let Some(asked_by) = &identity.asked_by {
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

/// The product of an operation, of any type. The driver records it and gives it to the function.
pub(crate) struct Made {
    pub(super) output: Box<dyn AnyOutput>,
    /// A copy for the journal.
    pub(super) kept: Option<Kept>,
    /// The part of the run's budget that the operation consumed.
    pub(crate) spent: Spent,
    /// Whether the operation has said what it consumed, and what the journal keeps.
    pub(super) is_reckoned: bool,
}

/// The end of an operation, before it is recorded and delivered.
pub(crate) type End = Result<Made, OperationError>;

impl Made {
    pub(crate) fn new(output: impl Serialize + Send + 'static, spent: Spent) -> Self {
        let (output, kept) = (Box::new(output), None);
        Self {
            output,
            kept,
            spent,
            is_reckoned: true,
        }
    }

    /// The output of an operation that has not [reckoned](Self::reckon) it.
    pub(super) fn unreckoned(output: impl Serialize + Send + 'static) -> Self {
        Self {
            is_reckoned: false,
            ..Self::new(output, Spent::default())
        }
    }

    /// Writes `{"Ok": …}`.
    pub(crate) fn write(&self, into: &mut Vec<u8>) -> serde_json::Result<()> {
        self.output.write(into)
    }

    /// The output, if it has this type.
    pub(crate) fn output_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.output.as_any().downcast_mut()
    }

    /// The output, for the function that knows its type.
    pub(crate) fn into_output(self) -> Box<dyn Any + Send> {
        self.output.into_any()
    }
}

/// An output that can be written to the journal or given to the function.
pub(super) trait AnyOutput: Send {
    fn write(&self, into: &mut Vec<u8>) -> serde_json::Result<()>;

    fn as_any(&mut self) -> &mut dyn Any;

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<T: Serialize + Send + 'static> AnyOutput for T {
    fn write(&self, into: &mut Vec<u8>) -> serde_json::Result<()> {
        write_end(Ok(self), into)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Makes the end of an operation when it is recorded.
pub(crate) type Make = Box<dyn FnOnce() -> End + Send>;

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
            for kept in [None, Some(Kept::of("a \"b\" ü", false))] {
                let identity = CallIdentity::new("tool", name, digest, asked_by);
                let head = (op, identity, spent, call.clone());
                let mut made = Made::new("a \"b\" ü".to_owned(), spent);
                made.kept = kept;
                let (text, ended) = record(head, &mut Ok(made));
                let at = Timestamp::default();
                ended.unwrap();
                assert_eq!(Line { at, text }, Line::encode(at, &entry).unwrap());
            }
        }
    }
}
