//! The parts of JSON that hold no others: words, numbers and texts.

use std::{
    fmt::{self, Display, LowerExp, Write as _},
    ops::Range,
};

use serde::{Serialize, ser};

/// The decimal exponents of doubles that are written without an exponent.
pub(super) const DOUBLE: Range<i32> = -5..16;

/// The place of the next byte, from this one on, that must be escaped in a string: a quote, a backslash, or a control
/// character. Eight bytes are tested together, since most texts have none ("Hacker's Delight", 6-1: a byte of `x` is
/// zero where subtracting one borrows and its high bit was clear).
pub(super) fn next_escape(bytes: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    let rest = bytes.get(from..)?;
    let (eights, last) = rest.as_chunks::<8>();
    let below = |eight: u64, bound: u8| eight.wrapping_sub(ONES * u64::from(bound)) & !eight & HIGH;
    for (place, eight) in eights.iter().enumerate() {
        let word = u64::from_ne_bytes(*eight);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        if below(word, b' ') | quote | backslash != 0 {
            // A borrow may mark bytes too many, and never too few.
            if let Some(at) = eight.iter().position(is_special) {
                return Some(from + 8 * place + at);
            }
        }
    }
    let at = last.iter().position(is_special)?;
    Some(from + 8 * eights.len() + at)
}

/// The treatment of values that several texts can stand for: maps, floats and raw JSON.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// One text for each value.
    Canonical,
    /// The text that `serde_json` writes.
    AsGiven,
}

pub(super) struct Writer<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) form: Form,
}

/// Text that is JSON as it is.
pub(super) struct Plain<'a>(pub(super) &'a mut Vec<u8>);

impl fmt::Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Room for the digits of one float.
#[derive(Default)]
struct Short {
    bytes: [u8; 32],
    length: usize,
}

impl Short {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let room = rest.get_mut(..text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

/// Why a value has no canonical form.
#[derive(Debug)]
pub(crate) struct NoForm(String);

impl Display for NoForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoForm {}

impl ser::Error for NoForm {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

pub(super) fn no_form<T>(what: &str) -> Result<T, NoForm> {
    Err(NoForm(what.to_owned()))
}

impl Writer<'_> {
    pub(super) fn raw(self, text: &str) -> Result<(), NoForm> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes a number as `serde_json` does.
    pub(super) fn number(self, value: impl Serialize) -> Result<(), NoForm> {
        serde_json::to_writer(self.out, &value).map_err(ser::Error::custom)
    }

    /// Writes a float by its shortest digits and exponent, such as `-1.25e-7`. Within `plain` it has no exponent.
    pub(super) fn float(self, value: impl LowerExp, plain: Range<i32>) -> Result<(), NoForm> {
        let mut scientific = Short::default();
        write!(scientific, "{value:e}").map_err(ser::Error::custom)?;
        let Some((mantissa, exponent)) = scientific.text().split_once('e') else {
            // JSON has no infinities.
            return self.raw("null");
        };
        let exponent: i32 = exponent
            .parse()
            .map_err(|_| NoForm("an odd exponent".to_owned()))?;
        let out = self.out;
        if !plain.contains(&exponent) {
            return write!(Plain(out), "{mantissa}e{exponent:+}").map_err(ser::Error::custom);
        }
        let digits = match mantissa.strip_prefix('-') {
            Some(digits) => {
                out.push(b'-');
                digits
            }
            None => mantissa,
        };
        let digits = digits.bytes().filter(|digit| *digit != b'.');
        // A number below one begins with a zero before the point and with one for each place after it.
        let leading = usize::try_from(-exponent).unwrap_or(0);
        let whole = 1 + usize::try_from(exponent).unwrap_or(0);
        let mut places = 0;
        for digit in std::iter::repeat_n(b'0', leading).chain(digits) {
            if places == whole {
                out.push(b'.');
            }
            out.push(digit);
            places += 1;
        }
        out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(places)));
        match places > whole {
            true => Ok(()),
            false => Writer { out, ..self }.raw(".0"),
        }
    }

    pub(super) fn string(self, text: &str) -> Result<(), NoForm> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let out = self.out;
        out.push(b'"');
        let bytes = text.as_bytes();
        let mut written = 0;
        while let Some(place) = next_escape(bytes, written) {
            out.extend_from_slice(&bytes[written..place]);
            written = place + 1;
            let byte = bytes[place];
            let short = match byte {
                b'"' | b'\\' => byte,
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                _ => {
                    let (high, low) = (usize::from(byte >> 4), usize::from(byte & 0xf));
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&[DIGITS[high], DIGITS[low]]);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', short]);
        }
        out.extend_from_slice(&bytes[written..]);
        out.push(b'"');
        Ok(())
    }

    /// Begins `{"variant":`. The caller closes the brace.
    pub(super) fn variant(self, variant: &str) -> Result<Self, NoForm> {
        let Self { out, form } = self;
        out.push(b'{');
        Writer { out, form }.string(variant)?;
        out.push(b':');
        Ok(Writer { out, form })
    }
}
