//! Server-sent events, by the WHATWG HTML standard, section 9.2.

use std::collections::VecDeque;

/// One event as a server sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its type; empty if the event names none.
    pub kind: Vec<u8>,
    /// Its data; lines are joined by a line feed.
    pub data: Vec<u8>,
    /// Whether the data stood in the field `error`, which is not in the standard and is sent by
    /// older versions of llama.cpp.
    pub is_error: bool,
}

/// Splits an event stream into its events, whatever pieces it comes in. The caller bounds what it may
/// [hold](Self::held).
#[derive(Debug, Default)]
pub struct EventParser {
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
    pub fn push(&mut self, bytes: &[u8], out: &mut VecDeque<ServerEvent>) {
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

    /// How many bytes of an event that is not complete it holds.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    /// Takes the end of the body. Some servers omit the last line end.
    pub fn finish(&mut self, out: &mut VecDeque<ServerEvent>) {
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
                    data.push(b'\n');
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut parser, mut events) = (EventParser::default(), VecDeque::new());
        pieces
            .iter()
            .for_each(|piece| parser.push(piece, &mut events));
        let data = events
            .into_iter()
            .map(|event| String::from_utf8(event.data));
        data.map(Result::unwrap_or_default).collect()
    }

    #[test]
    fn events_are_their_data() {
        for (text, events) in [
            ("data: a\n\n", vec!["a"]),
            ("data:a\r\n\r\ndata: b\r\rdata: c\n\n", vec!["a", "b", "c"]),
            (
                "id: 7\nevent: x\ndata: a\ndata: b\n\n: ping\n\n",
                vec!["a\nb"],
            ),
            ("data: whole\n\ndata: half", vec!["whole"]),
            ("\n\n\n", vec![]),
        ] {
            assert_eq!(read(&[text.as_bytes()]), events, "{text:?}");
        }
    }

    #[test]
    fn it_says_how_much_of_an_event_it_holds() {
        let (mut parser, mut events) = (EventParser::default(), VecDeque::new());
        parser.push(b"data: abc\ndata", &mut events);
        assert_eq!(parser.held(), 7);
        parser.push(b": d\n\n", &mut events);
        assert_eq!((parser.held(), events.len()), (0, 1));
    }

    proptest! {
        #[test]
        fn cut_anywhere_a_stream_is_the_same_events(
            texts in prop::collection::vec("[a-zäß ]{1,9}", 1..6),
            cut in 1_usize..7,
        ) {
            let stream: String = texts.iter().map(|text| format!("data: {text}\r\n\r\n")).collect();
            let pieces: Vec<&[u8]> = stream.as_bytes().chunks(cut).collect();
            prop_assert_eq!(read(&pieces), texts);
        }
    }
}
