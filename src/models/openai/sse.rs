//! Server-sent events, checked before async-openai sees them.
//!
//! async-openai logs the whole text of an event that is not JSON, ends a stream the same way
//! whether the server was done or cut off, and knows no errors in band. So each event passes
//! this gate first, which lets through only whole events with readable JSON, one line each, and
//! tells the end from a cut. The format is that of the WHATWG HTML standard, section 9.2.

use serde_json::Value;

use super::failure::Failure;

/// Splits a body into events. What it holds is bounded by who feeds it.
#[derive(Default)]
pub(super) struct EventGate {
    /// Bytes of a line whose end has not come yet.
    line: Vec<u8>,
    /// How many bytes of `line` are known to hold no line end.
    scanned: usize,
    /// Whether the last line ended with a carriage return, so that a line feed is part of it.
    after_return: bool,
    /// The data lines of the event so far.
    data: Option<Vec<u8>>,
    /// The type of the event so far.
    kind: Vec<u8>,
    /// How many events were let through.
    passed: usize,
    done: bool,
}

impl EventGate {
    /// Takes the next bytes of the body, and adds the events that they complete to `out`, as
    /// `data:` lines.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        self.line.extend_from_slice(bytes);
        let mut start = 0;
        let mut at = self.scanned;
        while at < self.line.len() {
            let byte = self.line[at];
            at += 1;
            let follows_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if follows_return => start = at,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    let line = self.line[start..at - 1].to_vec();
                    start = at;
                    self.take_line(&line, out)?;
                }
                _ => {}
            }
        }
        self.line.drain(..start);
        self.scanned = self.line.len();
        Ok(())
    }

    /// Takes the end of the body. Some servers leave out the last line end; what is not a whole
    /// event even so was cut off.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let line = std::mem::take(&mut self.line);
        let ended = self
            .take_line(&line, out)
            .and_then(|()| self.take_line(&[], out));
        match ended {
            Err(Failure::Malformed(_)) => Err(Failure::Cut),
            Ok(()) if !self.done => Err(Failure::Cut),
            other => other,
        }
    }

    /// How many events were let through until now.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Whether the server said that it is done.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        if line.is_empty() {
            let kind = std::mem::take(&mut self.kind);
            return match self.data.take() {
                Some(data) => self.take_event(&kind, &data, out),
                None => Ok(()),
            };
        }
        if let Some(value) = field(line, b"data:") {
            match &mut self.data {
                Some(data) => {
                    // The standard joins lines by a line feed; to JSON a space is the same, and
                    // keeps the event on one line.
                    data.push(b' ');
                    data.extend_from_slice(value);
                }
                none => *none = Some(value.to_vec()),
            }
        } else if let Some(value) = field(line, b"event:") {
            self.kind = value.to_vec();
        } else if let Some(value) = field(line, b"error:") {
            // Older servers of llama.cpp send errors as a field that the standard ignores.
            return Err(Failure::in_band(value));
        }
        Ok(())
    }

    fn take_event(&mut self, kind: &[u8], data: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let data = data.trim_ascii();
        if self.done || data.is_empty() || kind == b"keepalive" || kind == b"ping" {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
        } else if kind == b"error" {
            return Err(Failure::in_band(data));
        } else {
            check(data)?;
        }
        self.passed += 1;
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(data);
        out.extend_from_slice(b"\n\n");
        Ok(())
    }
}

/// Makes an answer that came whole, though a stream was asked for, a stream of one event.
pub(super) fn as_events(body: &[u8]) -> Vec<u8> {
    let mut events = b"data: ".to_vec();
    // JSON has line ends only between tokens.
    let to_space = |byte: &u8| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        }
    };
    events.extend(body.iter().map(to_space));
    events.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    events
}

/// Reads what async-openai will be able to read too, and makes sure that it is not an error.
pub(super) fn check(json: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(json).map_err(|error| Failure::unreadable(&error))?;
    match Failure::in_answer(&value) {
        Some(failure) => Err(failure),
        None => Ok(value),
    }
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pass(body: &[u8], piece: usize) -> Result<String, Failure> {
        let (mut gate, mut out) = (EventGate::default(), Vec::new());
        for piece in body.chunks(piece.max(1)) {
            gate.push(piece, &mut out)?;
        }
        gate.finish(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn any_line_end_and_any_cut_into_pieces_gives_the_same_events() {
        let expected = "data: {\"a\":1}\n\ndata: {\"b\": 2}\n\ndata: [DONE]\n\n";
        for end in ["\n", "\r\n", "\r"] {
            let body =
                ": hello\n\ndata: {\"a\":1}\n\nid: 7\ndata:{\"b\":\ndata: 2}\n\ndata: [DONE]\n\n"
                    .replace('\n', end);
            for piece in 1..=body.len() {
                assert_eq!(
                    pass(body.as_bytes(), piece).unwrap(),
                    expected,
                    "{end:?} {piece}"
                );
            }
        }
    }

    #[test]
    fn keep_alives_and_what_comes_after_the_end_are_dropped() {
        let body = "event: ping\ndata: x\n\ndata:\n\nevent: keepalive\ndata: {}\n\n\
                    data: [DONE]\n\ndata: nonsense\n\n";
        assert_eq!(pass(body.as_bytes(), 5).unwrap(), "data: [DONE]\n\n");
    }

    #[test]
    fn an_end_without_the_last_line_end_is_an_end() {
        assert_eq!(
            pass(b"data: {}\n\ndata: [DONE]", 3).unwrap(),
            "data: {}\n\ndata: [DONE]\n\n"
        );
    }

    #[test]
    fn a_body_that_stops_early_was_cut() {
        for body in ["", "data: {}\n\n", "data: {\"a\":", "data: {}\n\ndata: [DO"] {
            assert!(
                matches!(pass(body.as_bytes(), 4), Err(Failure::Cut)),
                "{body}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_malformed_and_not_repeated() {
        for data in [
            "{\"a\": secret}",
            "{\"s\": \"\\ud800secret\"}",
            "1e999",
            "{} secret",
        ] {
            let failure = pass(format!("data: {data}\n\n").as_bytes(), 9).unwrap_err();
            assert!(matches!(failure, Failure::Malformed(_)), "{failure:?}");
            assert!(!format!("{failure:?}").contains("secret"));
        }
        let deep = format!("data: {}\n\n", "[".repeat(100_000));
        assert!(matches!(
            pass(deep.as_bytes(), 999),
            Err(Failure::Malformed(_))
        ));
    }

    #[test]
    fn errors_in_band_are_errors_however_they_are_sent() {
        for body in [
            "data: {\"error\": {\"message\": \"no\", \"code\": 500}}\n\n",
            "data: {\"error\": \"no\"}\n\n",
            "data: {\"object\": \"error\", \"message\": \"no\", \"code\": 400}\n\n",
            "event: error\ndata: {\"message\": \"no\"}\n\n",
            "error: {\"code\": 500, \"message\": \"no\"}\n\n",
            "error: no\n\n",
        ] {
            assert!(
                matches!(pass(body.as_bytes(), 8), Err(Failure::InBand(_))),
                "{body}"
            );
        }
    }

    #[test]
    fn a_whole_answer_becomes_a_stream_of_one_event() {
        let events = as_events(b"{\n  \"a\": 1\r\n}");
        assert_eq!(
            pass(&events, 7).unwrap().lines().next().unwrap(),
            "data: {   \"a\": 1  }"
        );
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic_or_depend_on_the_cuts(
            body in "(data:|event: error|error:| |\\[DONE\\]|\\{|\\}|\"a\"|:|1|\r|\n|\n\n){0,40}",
            piece in 1_usize..9,
        ) {
            let whole = pass(body.as_bytes(), body.len());
            let pieces = pass(body.as_bytes(), piece);
            prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
        }
    }
}
