//! JSON as servers send it, with characters that are cut in two.
//!
//! Some servers cut an answer between the two halves of an emoji: as half a surrogate pair, or as bytes that are no
//! UTF-8. Neither half can be read alone. So each half is kept as a private character, and joined with the next piece
//! of the same text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::Failure;

/// The private character of the first surrogate.
const SURROGATES: u32 = 0x10_F000;
/// The private character of byte 0.
const BYTES: u32 = 0x10_F800;

/// Reads the pieces of one answer.
#[derive(Debug, Default)]
pub(crate) struct JsonReader {
    /// The half characters at the ends of texts, by the places of the texts.
    held: BTreeMap<String, String>,
}

impl JsonReader {
    /// Reads a piece. If it held half a character it is given back in full, and the second value is true.
    pub(crate) fn read(&mut self, json: &[u8]) -> Result<(Value, bool), Failure> {
        let (mut value, is_whole) = match serde_json::from_slice(json) {
            Ok(value) => (value, true),
            Err(error) => {
                let marked = serde_json::from_str(&marked(json));
                (marked.map_err(|_| Failure::unreadable(&error))?, false)
            }
        };
        if is_whole && self.held.is_empty() {
            return Ok((value, false));
        }
        self.join(&mut value, &mut String::new());
        Ok((value, true))
    }

    /// Joins the halves in the texts of this value, which stands at this place.
    fn join(&mut self, value: &mut Value, place: &mut String) {
        let length = place.len();
        match value {
            Value::String(text) => {
                let before = self.held.remove(place).unwrap_or_default();
                if before.is_empty() && !text.contains(is_half) {
                    return;
                }
                let (joined, held) = joined(before.chars().chain(text.chars()));
                *text = joined;
                if !held.is_empty() {
                    self.held.insert(place.clone(), held);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    // Writing to a text cannot fail.
                    let _ = write!(place, "/{at}");
                    self.join(item, place);
                    place.truncate(length);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    place.push('/');
                    place.push_str(name);
                    self.join(field, place);
                    place.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Reads one value that comes alone.
pub(crate) fn read_json(json: &[u8]) -> Result<Value, Failure> {
    JsonReader::default().read(json).map(|(value, _)| value)
}

fn is_half(c: char) -> bool {
    (SURROGATES..BYTES + 0x100).contains(&u32::from(c))
}

/// The text in which each half of a character is a private character.
fn marked(json: &[u8]) -> String {
    let mut text = String::with_capacity(json.len());
    for chunk in json.utf8_chunks() {
        text.push_str(chunk.valid());
        let halves = chunk.invalid().iter();
        text.extend(halves.filter_map(|byte| char::from_u32(BYTES + u32::from(*byte))));
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let (first, second) = (escaped(rest), rest.get(6..).and_then(escaped));
        match (first, second) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => {
                shown.push_str(&rest[..12]);
                rest = &rest[12..];
            }
            (Some(half @ 0xD800..0xE000), _) => {
                shown.extend(char::from_u32(SURROGATES + half - 0xD800));
                rest = &rest[6..];
            }
            _ => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                shown.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// The unit that `\uXXXX` at the beginning of this text stands for.
fn escaped(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    are_digits.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The text with its halves joined, and the half character at its end.
fn joined(text: impl Iterator<Item = char>) -> (String, String) {
    let (mut shown, mut halves) = (String::new(), Vec::new());
    for c in text {
        match is_half(c) {
            true => halves.push(u32::from(c)),
            false => {
                let (mended, left) = mended(&halves);
                shown.push_str(&mended);
                shown.extend((!left.is_empty()).then_some(char::REPLACEMENT_CHARACTER));
                shown.push(c);
                halves.clear();
            }
        }
    }
    let (mended, left) = mended(&halves);
    shown.push_str(&mended);
    let held = left.iter().filter_map(|half| char::from_u32(*half));
    (shown, held.collect())
}

/// The characters that these halves make, and the halves at the end that miss others.
fn mended(halves: &[u32]) -> (String, &[u32]) {
    let mut shown = String::new();
    let mut rest = halves;
    while let Some(first) = rest.first() {
        let is_byte = |half: &u32| *half >= BYTES;
        let length = rest.iter().position(|half| is_byte(half) != is_byte(first));
        let (run, after) = rest.split_at(length.unwrap_or(rest.len()));
        let (text, missing) = match is_byte(first) {
            true => of_bytes(run),
            false => of_surrogates(run),
        };
        shown.push_str(&text);
        if missing > 0 && after.is_empty() {
            return (shown, &run[run.len() - missing..]);
        }
        shown.extend((missing > 0).then_some(char::REPLACEMENT_CHARACTER));
        rest = after;
    }
    (shown, &[])
}

fn of_surrogates(run: &[u32]) -> (String, usize) {
    let units = run
        .iter()
        .filter_map(|half| u16::try_from(half - SURROGATES + 0xD800).ok());
    let ends_open = run.last().is_some_and(|half| *half < SURROGATES + 0x400);
    let mut text: String = char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    if ends_open {
        text.pop();
    }
    (text, usize::from(ends_open))
}

fn of_bytes(run: &[u32]) -> (String, usize) {
    let bytes = run
        .iter()
        .filter_map(|half| u8::try_from(half - BYTES).ok());
    let bytes: Vec<u8> = bytes.collect();
    let open = match bytes.utf8_chunks().last() {
        // Bytes at the end that could begin a character are not known to be wrong.
        Some(chunk) => match std::str::from_utf8(chunk.invalid()) {
            Err(error) if error.error_len().is_none() => chunk.invalid().len(),
            _ => 0,
        },
        None => 0,
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len() - open]).into_owned();
    (text, open)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(pieces: &[&[u8]]) -> String {
        let mut reader = JsonReader::default();
        let texts = pieces.iter().map(|piece| {
            let (value, _) = reader.read(piece).unwrap();
            value["t"].as_str().unwrap().to_owned()
        });
        texts.collect()
    }

    #[test]
    fn halves_of_a_character_are_joined_and_those_that_stay_alone_are_replaced() {
        let pair: [&[u8]; 2] = [br#"{"t":"a\ud83d"}"#, br#"{"t":"\ude00b"}"#];
        assert_eq!(read(&pair), "a😀b");
        let bytes: [&[u8]; 3] = [
            b"{\"t\":\"a\xf0\x9f\"}",
            b"{\"t\":\"\"}",
            b"{\"t\":\"\x98\x80b\"}",
        ];
        assert_eq!(read(&bytes), "a😀b");
        assert_eq!(
            read(&[br#"{"t":"a\ud83db\\ud83d\ude00"}"#]),
            "a\u{fffd}b\\ud83d\u{fffd}"
        );
        assert_eq!(read(&[b"{\"t\":\"a\xffb\"}"]), "a\u{fffd}b");
        assert_eq!(read(&[br#"{"t":"\ud83d\ude00"}"#]), "😀");
    }

    #[test]
    fn what_is_no_json_stays_so() {
        let mut reader = JsonReader::default();
        for text in [
            "{\"a\": secret}",
            "1e999",
            "{} secret",
            "\"\\ud83d",
            "\\",
            "\\u",
            "\\ud83d",
        ] {
            assert!(
                matches!(reader.read(text.as_bytes()), Err(Failure::Malformed(_))),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_text_is_the_same_wherever_it_is_cut(text in "[a😀é𝄞]{0,6}", at in 0_usize..30) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let at_unit = at.min(units.len());
            let piece = |units: &[u16]| {
                let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("{{\"t\":\"{escapes}\"}}").into_bytes()
            };
            let pieces = [piece(&units[..at_unit]), piece(&units[at_unit..])];
            prop_assert_eq!(read(&[&pieces[0], &pieces[1]]), text.clone());
            let at_byte = at.min(text.len());
            let piece = |bytes: &[u8]| [b"{\"t\":\"", bytes, b"\"}"].concat();
            let pieces = [piece(&text.as_bytes()[..at_byte]), piece(&text.as_bytes()[at_byte..])];
            prop_assert_eq!(read(&[&pieces[0], &pieces[1]]), text);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "[\\\\ud83e0\" {}:\u{10f03d}]{0,40}") {
            let mut reader = JsonReader::default();
            let _ = reader.read(&bytes);
            let _ = reader.read(json!({"t": text}).to_string().as_bytes());
            let _ = reader.read(text.as_bytes());
        }
    }
}
