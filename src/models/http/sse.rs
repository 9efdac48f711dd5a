//! Server-sent events, by the WHATWG HTML standard, section 9.2.

use std::collections::VecDeque;

/// One event as a server sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::models) struct ServerEvent {
    /// Its type; empty if the event names none.
    pub(in crate::models) kind: Vec<u8>,
    /// Its data. Lines are joined by a space instead of the standard's line feed. JSON reads both
    /// alike, and the data stays on one line.
    pub(in crate::models) data: Vec<u8>,
    /// Whether the data stood in the field `error`, which is not in the standard and is sent by
    /// older versions of llama.cpp.
    pub(in crate::models) is_error: bool,
}

/// Splits a body into events. The caller bounds how much it may hold.
#[derive(Default)]
pub(in crate::models) struct EventParser {
    /// Bytes of a line whose end has not come yet.
    line: Vec<u8>,
    /// How many bytes of `line` are known to hold no line end.
    scanned: usize,
    /// Whether the last line ended with a carriage return, so that a line feed belongs to the same
    /// line end.
    after_return: bool,
    /// The data lines of the event so far.
    data: Option<Vec<u8>>,
    /// The type of the event so far.
    kind: Vec<u8>,
}

impl EventParser {
    /// Takes the next bytes of the body, and appends the events that they complete.
    pub(in crate::models) fn push(&mut self, bytes: &[u8], out: &mut VecDeque<ServerEvent>) {
        self.line.extend_from_slice(bytes);
        let mut start = 0;
        let mut at = self.scanned;
        let line = std::mem::take(&mut self.line);
        while at < line.len() {
            let byte = line[at];
            at += 1;
            let follows_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if follows_return => start = at,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    self.take_line(&line[start..at - 1], out);
                    start = at;
                }
                _ => {}
            }
        }
        self.line = line;
        self.line.drain(..start);
        self.scanned = self.line.len();
    }

    /// Takes the end of the body. Some servers omit the last line end.
    pub(in crate::models) fn finish(&mut self, out: &mut VecDeque<ServerEvent>) {
        let line = std::mem::take(&mut self.line);
        self.scanned = 0;
        self.take_line(&line, out);
        self.take_line(&[], out);
    }

    fn take_line(&mut self, line: &[u8], out: &mut VecDeque<ServerEvent>) {
        if line.is_empty() {
            let kind = std::mem::take(&mut self.kind);
            out.extend(self.data.take().map(|data| ServerEvent {
                kind,
                data,
                is_error: false,
            }));
            return;
        }
        if let Some(value) = field(line, b"data:") {
            match &mut self.data {
                Some(data) => {
                    data.push(b' ');
                    data.extend_from_slice(value);
                }
                none => *none = Some(value.to_vec()),
            }
        } else if let Some(value) = field(line, b"event:") {
            self.kind = value.to_vec();
        } else if let Some(value) = field(line, b"error:") {
            out.push_back(ServerEvent {
                kind: Vec::new(),
                data: value.to_vec(),
                is_error: true,
            });
        }
    }
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
