//! Text that is safe to print.
//!
//! Texts of models, tools and files may hold escape sequences that move the cursor, rename the
//! window, fake output or write to the clipboard, and marks that turn the order of the letters
//! around. None of it reaches a terminal.

use std::{borrow::Cow, fmt::Write as _};

use ghostlight_safety::{printable, redact_text, screened};

/// The text with its lines and tabs, and with every other active or hidden character made visible.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    printable(text)
}

/// The text on one line of at most this many characters, without secrets, since terminals are logged
/// and read over shoulders. Breaks and blanks become one blank.
pub(super) fn line(text: &str, limit: usize) -> String {
    // What will be cut off need not be examined.
    let looked_at = limit.saturating_mul(4).saturating_add(4096);
    let end = text
        .char_indices()
        .nth(looked_at)
        .map_or(text.len(), |(end, _)| end);
    let text = redact_text(&text[..end]);
    let text = text.as_ref();
    let mut result = String::new();
    let mut count = 0;
    let mut gap = false;
    for (c, hides) in screened(text) {
        if c.is_whitespace() {
            gap = count > 0;
            continue;
        }
        if std::mem::take(&mut gap) {
            result.push(' ');
            count += 1;
        }
        if count >= limit {
            result.truncate(result.trim_end().len());
            result.push('…');
            return result;
        }
        if hides {
            result.extend(c.escape_default());
        } else {
            result.push(c);
        }
        count += 1;
    }
    result
}

/// The last characters of the text on one line, at most this many.
pub(super) fn tail(text: &str, limit: usize) -> String {
    // A character has at most four bytes, so this many bytes are enough.
    let start = text.ceil_char_boundary(text.len().saturating_sub(8 * limit));
    let whole = line(&text[start..], usize::MAX);
    let count = whole.chars().count();
    if start == 0 && count <= limit {
        return whole;
    }
    let skipped = count.saturating_sub(limit);
    format!("…{}", whole.chars().skip(skipped).collect::<String>())
}

/// JSON whose strings hold no active character: `serde_json` leaves those beyond ASCII as they are.
/// JSON has none outside of strings, so each can be written as an escape.
pub(super) fn json(text: String) -> String {
    // JSON has the control characters of ASCII as escapes, except this one.
    let is_plain = text.is_ascii() && !text.as_bytes().contains(&0x7f);
    if is_plain || !screened(&text).any(|(_, hides)| hides) {
        return text;
    }
    let mut result = String::with_capacity(text.len() + 16);
    for (c, hides) in screened(&text) {
        if hides {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(result, "\\u{unit:04x}");
            }
        } else {
            result.push(c);
        }
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn acts(text: &str) -> bool {
        screened(text).any(|(_, hides)| hides)
    }

    #[test]
    fn what_acts_is_made_visible() {
        assert_eq!(plain("a\tb\r\nc"), "a\tb\nc");
        assert_eq!(plain("\x1b[2J\x07\u{9b}31m"), "\\u{1b}[2J\\u{7}\\u{9b}31m");
        assert_eq!(plain("over\rwritten"), "over\\rwritten");
        assert_eq!(plain("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        assert_eq!(plain("schön 日本 🕯"), "schön 日本 🕯");
    }

    #[test]
    fn a_line_is_one_line_and_not_longer() {
        assert_eq!(line("  a \n\n b\tc ", 80), "a b c");
        assert_eq!(line("abcdef", 3), "abc…");
        assert_eq!(line("abc", 3), "abc");
        assert_eq!(line("ab cdef", 3), "ab…");
        assert_eq!(line("\x1b[1mx", 80), "\\u{1b}[1mx");
        assert_eq!(tail("one two three", 5), "…three");
        assert_eq!(tail("one", 5), "one");
    }

    proptest! {
        #[test]
        fn nothing_printed_acts(text in any::<String>(), limit in 0_usize..50) {
            let keeps_lines = plain(&text).replace(['\n', '\t'], "");
            prop_assert!(!acts(&keeps_lines));
            prop_assert!(!acts(&line(&text, limit)));
            prop_assert!(!acts(&tail(&text, limit)));
            let json_text = json(serde_json::to_string(&text).unwrap());
            prop_assert!(!acts(&json_text));
            prop_assert_eq!(serde_json::from_str::<String>(&json_text).unwrap(), text);
        }
    }
}
