//! Lines of a process that are not messages of the protocol, such as the trace of an error in place of an answer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
    time::Instant,
};

/// How long a process says nothing more after the text of an error, until this is taken for its answer. Many programs
/// write what they do to their output, and answer afterwards.
const SILENCE: Duration = Duration::from_secs(3);
/// The most bytes of a line that are looked at, and of all that is kept.
const LINE_BYTES: usize = 4 << 10;
/// The most characters of an error that are told.
const WORDS: usize = 1_000;
/// Words by one of which a line tells of an error.
const SIGNS: [&str; 6] = [
    "error",
    "exception",
    "traceback",
    "panicked",
    "fatal",
    "failed",
];

/// The output of a process beside the protocol.
#[derive(Clone, Debug)]
pub(super) struct Overheard {
    text: String,
    /// When it is taken for the answer to the request that has none.
    pub(super) due: Instant,
}

impl Overheard {
    /// The words of the error.
    pub(super) fn words(&self) -> String {
        ghostlight_safety::sanitize_line(&self.text, WORDS)
    }
}

/// The output of a process, read through.
pub(super) struct Overhearing<R> {
    reader: R,
    line: Vec<u8>,
    heard: watch::Sender<Option<Overheard>>,
}

impl<R> Overhearing<R> {
    pub(super) fn new(reader: R) -> (Self, watch::Sender<Option<Overheard>>) {
        let heard = watch::Sender::new(None);
        let overhearing = Self {
            reader,
            line: Vec::new(),
            heard: heard.clone(),
        };
        (overhearing, heard)
    }

    fn look_at(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room));
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.hear(String::from_utf8_lossy(&line).trim());
            }
        }
    }

    fn hear(&self, line: &str) {
        let now = Instant::now();
        let (said, due) = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(message)) => match message.get("error") {
                // An error of another form than that of JSON-RPC.
                Some(error) if !message.contains_key("jsonrpc") => {
                    let words = error.get("message").unwrap_or(error);
                    let words = words.as_str().map(str::to_owned);
                    (words.unwrap_or_else(|| error.to_string()), now)
                }
                _ => return,
            },
            // A long message was cut.
            _ if line.is_empty() || line.starts_with(['{', '[']) => return,
            _ => (line.to_owned(), now + SILENCE),
        };
        self.heard.send_if_modified(|heard| match heard {
            Some(heard) => {
                if heard.text.len() < LINE_BYTES {
                    heard.text.push('\n');
                    heard.text.push_str(&said);
                }
                heard.due = due;
                true
            }
            None => {
                let lower = said.to_lowercase();
                let tells = due == now || SIGNS.iter().any(|sign| lower.contains(sign));
                *heard = tells.then_some(Overheard { text: said, due });
                tells
            }
        });
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Overhearing<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        self.look_at(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
