//! Messages that name something twice in one object. Readers differ in which of the two values counts, so such a message
//! is not read: its request is refused, its answer is unknown, and its notification is dropped.

use std::{
    borrow::Cow,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rmcp::model::{CustomRequest, CustomResult, ErrorCode, ErrorData, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// The method that stands for an ambiguous request.
const REQUEST: &str = "ghostlight/ambiguous";
/// The code of an error that stands for an ambiguous answer.
const ANSWER: ErrorCode = ErrorCode(-32_055);
/// A byte order mark, which readers skip in front of a message.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// How many bytes are read at once.
const PIECE: usize = 8 << 10;

/// The part of a message that says where it belongs. It does not read if that is said twice.
#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
}

/// A message as it may be read, without a byte order mark. An ambiguous one is replaced by one that says so in its place,
/// or by nothing.
pub(crate) fn screened(message: &[u8]) -> Cow<'_, [u8]> {
    let message = message.strip_prefix(MARK).unwrap_or(message);
    let Ok(text) = std::str::from_utf8(message) else {
        return message.into();
    };
    let reason = match ghostlight_safety::unambiguous_json::<Value>(text) {
        Err(error) if error.is_data() => error.to_string(),
        _ => return message.into(),
    };
    tracing::warn!(%reason, "an ambiguous message of an MCP peer is not read");
    let instead = match serde_json::from_str(text) {
        Ok(Envelope {
            id: Some(id),
            method: Some(_),
        }) => {
            json!({ "jsonrpc": "2.0", "id": id, "method": REQUEST, "params": { "reason": reason } })
        }
        Ok(Envelope {
            id: Some(id),
            method: None,
        }) => {
            let error = json!({ "code": ANSWER.0, "message": reason });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
        _ => return Vec::new().into(),
    };
    instead.to_string().into_bytes().into()
}

/// Whether an error stands for an ambiguous answer.
pub(crate) fn is_answer(error: &ErrorData) -> bool {
    error.code == ANSWER
}

/// Refuses a request of a kind that is not known, or one that was ambiguous.
pub(crate) fn refuse(request: CustomRequest) -> Result<CustomResult, ErrorData> {
    let reason = request
        .params
        .as_ref()
        .and_then(|params| params.get("reason"));
    match reason.and_then(Value::as_str) {
        Some(reason) if request.method == REQUEST => {
            let reason = format!("the message is ambiguous: {reason}");
            Err(ErrorData::invalid_request(reason, None))
        }
        _ => Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            request.method,
            None,
        )),
    }
}

/// Lines of messages, each of which is [`screened`] in this way before it is passed on.
pub(crate) struct Lines<R> {
    reader: R,
    screen: fn(&[u8]) -> Cow<'_, [u8]>,
    max_bytes: usize,
    /// The line that is not whole yet, and how much of it has been passed on unread, since it is too long.
    line: Vec<u8>,
    is_too_long: bool,
    ready: Vec<u8>,
    passed: usize,
}

impl<R> Lines<R> {
    pub(crate) fn new(reader: R, max_bytes: usize, screen: fn(&[u8]) -> Cow<'_, [u8]>) -> Self {
        Self {
            reader,
            screen,
            max_bytes,
            line: Vec::new(),
            is_too_long: false,
            ready: Vec::new(),
            passed: 0,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let is_whole = piece.ends_with(b"\n");
            // What is longer is dropped by its reader.
            self.is_too_long |= self.line.len() > self.max_bytes;
            match (self.is_too_long, is_whole) {
                (true, _) => self.ready.append(&mut self.line),
                (false, true) => {
                    let line = std::mem::take(&mut self.line);
                    self.ready
                        .extend_from_slice(&(self.screen)(line.trim_ascii()));
                    self.ready.push(b'\n');
                }
                (false, false) => {}
            }
            self.is_too_long &= !is_whole;
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.passed == this.ready.len() {
            this.ready.clear();
            this.passed = 0;
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.reader).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                // What stands behind the last line is no message.
                return Poll::Ready(Ok(()));
            }
            this.take(piece.filled());
        }
        let rest = &this.ready[this.passed..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        this.passed += count;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn instead(message: &str) -> Value {
        serde_json::from_slice(&screened(message.as_bytes())).unwrap_or_default()
    }

    #[test]
    fn an_ambiguous_message_is_replaced_by_what_says_so() {
        let request = instead(
            r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"arguments": {"a": 1, "a": 2}}}"#,
        );
        assert_eq!(
            (&request["id"], &request["method"]),
            (&json!(7), &json!(REQUEST))
        );
        assert_eq!(request["params"]["reason"], "a stands twice in one object");
        let answer = instead(r#"{"jsonrpc": "2.0", "id": "x", "result": {"a": 1}, "result": {}}"#);
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("x"), &json!(ANSWER.0))
        );
        for dropped in [
            r#"{"method": "notifications/progress", "params": {"a": 1, "a": 2}}"#,
            r#"{"id": 1, "id": 2, "method": "tools/call"}"#,
            r#"{"id": 1, "method": "a", "method": "b"}"#,
        ] {
            assert!(screened(dropped.as_bytes()).is_empty(), "{dropped}");
        }
        for plain in [
            r#"{"id": 1, "method": "a", "params": [{"a": 1}, {"a": 1}]}"#,
            "no JSON",
        ] {
            assert_eq!(&*screened(plain.as_bytes()), plain.as_bytes());
        }
    }

    #[test]
    fn a_byte_order_mark_hides_nothing() {
        let request =
            instead("\u{feff}{\"id\": 7, \"method\": \"a\", \"params\": {\"a\": 1, \"a\": 2}}");
        assert_eq!(
            (&request["id"], &request["method"]),
            (&json!(7), &json!(REQUEST))
        );
        let plain = r#"{"id": 1, "method": "a"}"#;
        let marked = format!("\u{feff}{plain}");
        assert_eq!(&*screened(marked.as_bytes()), plain.as_bytes());
    }

    proptest! {
        #[test]
        fn lines_come_through_whole_however_they_are_read(
            lines in proptest::collection::vec("[a-c{}\":]{0,30}", 0..8), piece in 1_usize..9,
        ) {
            let mut text = lines.join("\n");
            text.push('\n');
            let read = async {
                let (mut ours, theirs) = tokio::io::duplex(piece);
                let sent = text.clone();
                tokio::spawn(async move {
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut ours, sent.as_bytes()).await;
                });
                let mut read = String::new();
                let mut lines = Lines::new(theirs, 20, |line| line.into());
                lines.read_to_string(&mut read).await.map(|_| read)
            };
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let read = runtime.and_then(|runtime| runtime.block_on(read));
            prop_assert_eq!(read.ok(), Some(text));
        }
    }
}
