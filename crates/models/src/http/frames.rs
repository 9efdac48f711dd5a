//! Amazon's event streams, `application/vnd.amazon.eventstream`, by the specification of Smithy: binary frames, each
//! with a checksum of its lengths and one of all its bytes.

use std::collections::VecDeque;

use ghostlight_safety::ServerEvent;
use serde_json::{Value, json};

use super::Failure;

/// The lengths of a frame and their checksum.
const PRELUDE: usize = 12;
/// The checksum at its end.
const CHECKSUM: usize = 4;
/// The most bytes of a frame: the specification allows 16 MiB of payload and 128 KiB of headers.
const MAX_BYTES: usize = (16 << 20) + (128 << 10) + PRELUDE + CHECKSUM;
/// The kind of a header that holds a text.
const TEXT: u8 = 7;

/// Splits a body into frames, and makes events of them. The caller bounds how much it may hold.
#[derive(Default)]
pub(super) struct FrameParser {
    bytes: Vec<u8>,
}

impl FrameParser {
    /// Takes the next bytes of the body, and appends the events that they complete.
    ///
    /// # Errors
    /// A frame that breaks the format, or whose checksum is another.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        out: &mut VecDeque<ServerEvent>,
    ) -> Result<(), Failure> {
        self.bytes.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = frame_length(&self.bytes[start..])? {
            let Some(frame) = self.bytes.get(start..start + length) else {
                break;
            };
            out.extend(event(frame)?);
            start += length;
        }
        self.bytes.drain(..start);
        Ok(())
    }

    /// Takes the end of the body.
    ///
    /// # Errors
    /// [`Failure::Cut`] in the middle of a frame.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match self.bytes.is_empty() {
            true => Ok(()),
            false => Err(Failure::Cut),
        }
    }
}

fn broken(what: &str) -> Failure {
    Failure::Malformed(format!("a frame of its stream is broken: {what}"))
}

/// The big-endian number at this place.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The length of the frame that begins here, once its prelude has come.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(checksum) = number(bytes, PRELUDE - 4) else {
        return Ok(None);
    };
    if crc32fast::hash(&bytes[..PRELUDE - 4]) != checksum {
        return Err(broken("the checksum of its lengths"));
    }
    let length = number(bytes, 0).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (PRELUDE + CHECKSUM..=MAX_BYTES).contains(length));
    length.map(Some).ok_or_else(|| broken("its length"))
}

/// The event in a whole frame; `None` for one that says nothing to us.
fn event(frame: &[u8]) -> Result<Option<ServerEvent>, Failure> {
    let end = frame.len() - CHECKSUM;
    if number(frame, end) != Some(crc32fast::hash(&frame[..end])) {
        return Err(broken("its checksum"));
    }
    let headers = number(frame, 4).and_then(|length| usize::try_from(length).ok());
    let headers_end = headers.and_then(|length| length.checked_add(PRELUDE));
    let headers_end = headers_end.filter(|at| *at <= end);
    let headers_end = headers_end.ok_or_else(|| broken("the length of its headers"))?;
    let (mut message, mut kind, mut code, mut words) = (None, None, None, None);
    let mut rest = &frame[PRELUDE..headers_end];
    while !rest.is_empty() {
        let (name, text, further) = header(rest).ok_or_else(|| broken("a header"))?;
        rest = further;
        match name {
            b":message-type" => message = text,
            b":event-type" | b":exception-type" => kind = text,
            b":error-code" => code = text,
            b":error-message" => words = text,
            _ => {}
        }
    }
    let payload = &frame[headers_end..end];
    Ok(match message {
        Some(b"event") => Some(ServerEvent {
            kind: kind.unwrap_or_default().to_vec(),
            data: payload.to_vec(),
            is_error: false,
        }),
        Some(b"exception" | b"error") => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let kind = text(kind.or(code).unwrap_or_default());
            let said: Value = serde_json::from_slice(payload).unwrap_or_default();
            let told = said["message"].as_str().or(said["Message"].as_str());
            let told = told.map_or_else(|| text(words.unwrap_or_default()), str::to_owned);
            let mut error = json!({"type": kind, "message": told});
            if let Some(status) = status(&kind) {
                error["code"] = status.into();
            }
            Some(ServerEvent {
                kind: Vec::new(),
                data: json!({ "error": error }).to_string().into_bytes(),
                is_error: true,
            })
        }
        _ => None,
    })
}

/// The name of the first header, its value where that is a text, and the bytes after it.
type Header<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

fn header(bytes: &[u8]) -> Option<Header<'_>> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = match kind {
        0 | 1 => (0, rest),
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 | 8 => (8, rest),
        9 => (16, rest),
        6 | 7 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, (*kind == TEXT).then_some(value), rest))
}

/// The status with which an answer says this, where it is not in a stream.
fn status(exception: &str) -> Option<u16> {
    Some(match exception {
        "throttlingException" => 429,
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "modelTimeoutException" => 408,
        "modelStreamErrorException" => 424,
        "internalServerException" => 500,
        "serviceUnavailableException" => 503,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = PRELUDE + headers.len() + payload.len() + CHECKSUM;
        let mut frame = u32::try_from(length).unwrap().to_be_bytes().to_vec();
        frame.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame.extend([headers, payload].concat());
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame
    }

    #[test]
    fn a_frame_of_the_specification_is_read_with_headers_of_every_kind() {
        // A number, a moment, bytes and a truth stand beside the texts.
        let mut headers = Vec::new();
        headers.extend(b"\x01n\x04\x00\x00\xa0\x0c\x01t\x08\x00\x00\x00\x00\x00\x00\x00\x01");
        headers.extend(b"\x01b\x06\x00\x02xy\x01w\x00");
        headers.extend(b"\x0d:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x04said");
        let frame = frame(&headers, b"{}");
        let (mut parser, mut out) = (FrameParser::default(), VecDeque::new());
        for byte in &frame {
            parser.push(&[*byte], &mut out).unwrap();
        }
        parser.finish().unwrap();
        let expected = ServerEvent {
            kind: b"said".to_vec(),
            data: b"{}".to_vec(),
            is_error: false,
        };
        assert_eq!(out, [expected]);
        for at in 0..frame.len() {
            let mut bent = frame.clone();
            bent[at] ^= 1;
            let (mut parser, mut out) = (FrameParser::default(), VecDeque::new());
            assert!(parser.push(&bent, &mut out).is_err(), "{at}");
            assert!(out.is_empty());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(headers in prop::collection::vec(any::<u8>(), 0..40), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut out = VecDeque::new();
            let _ = FrameParser::default().push(&bytes, &mut out);
            let _ = FrameParser::default().push(&frame(&headers, &bytes), &mut out);
        }
    }
}
