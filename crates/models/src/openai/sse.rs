//! Events of a stream, checked before async-openai sees them.
//!
//! async-openai logs the whole text of an event that is not JSON, does not tell the end of a stream
//! from a cut connection, and does not recognise errors inside a stream. So this gate passes on
//! only complete events with valid JSON, one line each, and tells the end from a cut.

use std::collections::VecDeque;

use ghostlight_safety::{EventParser, ServerEvent};
use serde_json::Value;

use crate::http::{Failure, JsonReader, read_json};

/// Splits a body into checked events. The caller bounds how much it may hold.
#[derive(Default)]
pub(super) struct EventGate {
    parser: EventParser,
    json: JsonReader,
    /// How many events have passed.
    passed: usize,
    done: bool,
}

impl EventGate {
    /// Takes the next bytes of the body, and adds the events that they complete to `out`, as
    /// `data:` lines.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut events = VecDeque::new();
        self.parser.push(bytes, &mut events);
        self.take(events, out)
    }

    /// Takes the end of the body. Some servers omit the last line end; an event that is still
    /// incomplete was cut off.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut events = VecDeque::new();
        self.parser.finish(&mut events);
        match self.take(events, out) {
            Err(Failure::Malformed(_)) => Err(Failure::Cut),
            Ok(()) if !self.done => Err(Failure::Cut),
            other => other,
        }
    }

    /// How many events have passed so far.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Whether the server has sent its end mark.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    fn take(&mut self, events: VecDeque<ServerEvent>, out: &mut Vec<u8>) -> Result<(), Failure> {
        events
            .into_iter()
            .try_for_each(|event| self.take_event(&event, out))
    }

    fn pass(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.passed += 1;
        out.extend_from_slice(b"data: ");
        out.extend(on_one_line(data));
        out.extend_from_slice(b"\n\n");
    }

    fn take_event(&mut self, event: &ServerEvent, out: &mut Vec<u8>) -> Result<(), Failure> {
        if event.is_error {
            return Err(Failure::in_band(&event.data));
        }
        let (kind, data) = (event.kind.as_slice(), event.data.trim_ascii());
        if self.done || data.is_empty() || kind == b"keepalive" || kind == b"ping" {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
        } else if kind == b"error" {
            return Err(Failure::in_band(data));
        } else {
            let (value, is_mended) = self.json.read(data)?;
            if let Some(failure) = Failure::in_answer(&value) {
                return Err(failure);
            }
            if is_mended {
                self.pass(value.to_string().as_bytes(), out);
                return Ok(());
            }
        }
        self.pass(data, out);
        Ok(())
    }
}

/// Turns a whole answer to a request for a stream into a stream of one event.
pub(super) fn as_events(body: &[u8]) -> Vec<u8> {
    let mut events = b"data: ".to_vec();
    events.extend(on_one_line(body));
    events.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    events
}

/// JSON without line ends: they occur only between its tokens, where a space says the same.
fn on_one_line(json: &[u8]) -> impl Iterator<Item = u8> + '_ {
    json.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    })
}

/// The values of events that have passed the gate.
pub(super) fn values(events: &[u8]) -> Result<Vec<Value>, Failure> {
    let lines = events.split(|byte| *byte == b'\n');
    let data = lines.filter_map(|line| line.strip_prefix(b"data: "));
    data.filter(|data| *data != b"[DONE]")
        .map(read_json)
        .collect()
}

/// Parses JSON that async-openai will then be able to parse too, and refuses an error.
pub(super) fn check(json: &[u8]) -> Result<Value, Failure> {
    let value = read_json(json)?;
    match Failure::in_answer(&value) {
        Some(failure) => Err(failure),
        None => Ok(value),
    }
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
        for data in ["{\"a\": secret}", "1e999", "{} secret"] {
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
