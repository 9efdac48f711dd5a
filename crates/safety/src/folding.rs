//! Folds a text for matching, so that what looks the same is the same. The text itself is not changed.

use std::ops::Range;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};
use unicode_security::confusable_detection::skeleton;

use super::unseen::is_unseen;

/// A text in its plainest letters, with the source of each. Compatibility forms (NFKC), characters that look like
/// Latin ones (Unicode's table of confusables), digits of all scripts, and escapes of JSON, HTML and URLs are
/// replaced; several blanks become one, and invisible characters are removed.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte of the folded text, where its source characters begin and end.
    from: Vec<(usize, usize)>,
}

/// The beginnings of escapes that may replace a character in words.
pub(super) const IN_WORDS: [&str; 3] = ["\\u", "\\x", "&#"];
/// The same in addresses and numbers, where several blanks count as one.
pub(super) const IN_NUMBERS: [&str; 6] = ["  ", "\\u", "\\x", "&#", "&commat;", "%"];

/// The folded text, where it differs. An ASCII text can differ only if it contains one of these escapes.
pub(super) fn fold(text: &str, escapes: &[&str]) -> Option<Folded> {
    if text.is_ascii() && !escapes.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let mut folded = Folded {
        text: String::with_capacity(text.len()),
        from: Vec::with_capacity(text.len()),
    };
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let (c, length) = escaped(&text[at..]).unwrap_or((c, c.len_utf8()));
        folded.add(c, at..at + length);
        at += length;
    }
    (folded.text != text).then_some(folded)
}

impl Folded {
    /// The place in the source of these bytes of the folded text.
    pub(super) fn source(&self, place: &Range<usize>) -> Range<usize> {
        let last = self.from.get(place.end.saturating_sub(1));
        match (self.from.get(place.start), last) {
            (Some((start, _)), Some((_, end))) => *start..*end,
            _ => 0..0,
        }
    }

    /// The first byte of the folded text that comes from this source byte or a later one.
    pub(super) fn after(&self, source: usize) -> usize {
        self.from.partition_point(|(start, _)| *start < source)
    }

    fn push(&mut self, c: char, from: &Range<usize>) {
        if c == ' ' && self.text.ends_with(' ') {
            if let Some((_, end)) = self.from.last_mut() {
                *end = from.end;
            }
            return;
        }
        self.text.push(c);
        let from = std::iter::repeat_n((from.start, from.end), c.len_utf8());
        self.from.extend(from);
    }

    fn add(&mut self, c: char, from: Range<usize>) {
        if c.is_ascii() || is_written_otherwise(c) {
            return self.push(c, &from);
        }
        if is_unseen(c) || is_combining_mark(c) || matches!(c, '\u{e0100}'..='\u{e01ef}') {
            return;
        }
        match c {
            '\u{2028}' | '\u{2029}' => return self.push('\n', &from),
            // DeepSeek writes the blanks of its marks so.
            '\u{2581}' => return self.push('_', &from),
            c if c.is_whitespace() => return self.push(' ', &from),
            _ => {}
        }
        if let Some(digit) = digit(c) {
            return self.push(digit, &from);
        }
        for part in c.nfkd().filter(|part| !is_combining_mark(*part)) {
            if part.is_ascii() {
                self.push(part, &from);
                continue;
            }
            let mut buffer = [0; 4];
            let alike: String = skeleton(part.encode_utf8(&mut buffer)).collect();
            match alike.as_str() {
                // The table has one letter for `I`, `l` and `1`.
                "l" if part.is_uppercase() => self.push('I', &from),
                alike if !alike.is_empty() && alike.is_ascii() => {
                    alike.chars().for_each(|c| self.push(c, &from));
                }
                _ => self.push(part, &from),
            }
        }
    }
}

/// Whether a script is skipped, because none of its characters looks like a Latin letter.
fn is_written_otherwise(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{a63f}' | '\u{ac00}'..='\u{d7ff}' | '\u{20000}'..='\u{3ffff}')
        && !c.is_whitespace()
        && !is_unseen(c)
}

/// The character that an escape stands for, and how long the escape is.
fn escaped(text: &str) -> Option<(char, usize)> {
    let hexadecimal = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| plain)?;
        char::from_u32(code).filter(|c| !c.is_control())
    };
    match text.as_bytes() {
        [b'\\', b'u', b'{', ..] => {
            let end = text.bytes().take(11).position(|byte| byte == b'}')?;
            Some((hexadecimal(&text[3..end])?, end + 1))
        }
        [b'\\', b'u', ..] => Some((hexadecimal(text.get(2..6)?)?, 6)),
        [b'\\', b'x', ..] => Some((hexadecimal(text.get(2..4)?)?, 4)),
        [b'%', ..] => Some((hexadecimal(text.get(1..3)?)?, 3)).filter(|(c, _)| c.is_ascii()),
        [b'&', b'#', b'x' | b'X', ..] => {
            let end = text.bytes().take(12).position(|byte| byte == b';')?;
            Some((hexadecimal(text.get(3..end)?)?, end + 1))
        }
        [b'&', b'#', ..] => {
            let end = text.bytes().take(12).position(|byte| byte == b';')?;
            let code = text.get(2..end)?.parse().ok()?;
            Some((char::from_u32(code).filter(|c| !c.is_control())?, end + 1))
        }
        _ => text.starts_with("&commat;").then_some(('@', 8)),
    }
}

/// The zeros of scripts that have digits of their own.
const ZEROS: [u32; 20] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
    0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810,
];

fn digit(c: char) -> Option<char> {
    let code = u32::from(c);
    let zero = ZEROS
        .iter()
        .find(|zero| (**zero..**zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_looks_the_same_is_the_same_and_knows_where_it_stands() {
        for (text, plain) in [
            ("ｉｇｎｏｒｅ", "ignore"),
            ("іgnоrе", "ignore"),
            ("Іgnore", "Ignore"),
            ("𝐢𝗀𝑛𝓸𝔯𝖊", "ignore"),
            ("ig\u{200b}no\u{ad}re\u{fe0f}", "ignore"),
            ("í̈gnoré", "ignore"),
            ("a\u{a0} \u{3000}b", "a b"),
            (
                "ada\\u0040b.com ada&#64;b.com ada%40b.com",
                "ada@b.com ada@b.com ada@b.com",
            ),
            ("٤٥ ४५ ４５", "45 45 45"),
            ("5–4−3", "5-4-3"),
        ] {
            let folded = fold(text, &IN_NUMBERS).unwrap();
            assert_eq!(folded.text, plain, "{text}");
            assert_eq!(folded.source(&(0..folded.text.len())).start, 0, "{text}");
        }
        let folded = fold("x ｉｇ\u{200b}ｎ y", &[]).unwrap();
        assert_eq!(
            &"x ｉｇ\u{200b}ｎ y"[folded.source(&(2..5))],
            "ｉｇ\u{200b}ｎ"
        );
        for text in ["plain text", "日本語 한국어", "100%", "C:\\users"] {
            assert!(fold(text, &IN_NUMBERS).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_byte_comes_from_characters_of_the_text(text in any::<String>(), at in 0..40_usize) {
            if let Some(folded) = fold(&text, &IN_NUMBERS) {
                prop_assert_eq!(folded.text.len(), folded.from.len());
                for (start, end) in &folded.from {
                    prop_assert!(text.is_char_boundary(*start) && text.is_char_boundary(*end));
                    prop_assert!(start < end);
                }
                let after = folded.after(at);
                prop_assert!(folded.from[after..].iter().all(|(start, _)| *start >= at));
            }
        }
    }
}
