//! Makes text safe to show to people.
//!
//! There are two strengths. [`printable`] is for whatever is printed: nothing in it controls a terminal or hides, and
//! all scripts stay readable. [`visible`] is for a person who decides: each invisible character is an escape, and no
//! text can look like an escape. Neither changes what is executed, and neither makes a text safe for a model;
//! [`sanitize`](super::sanitize) does that.

use std::borrow::Cow;

use super::{cut, patterns::UNSEEN, unseen::is_unseen};

/// The marks around a token that replaces a hidden text. [`visible`] writes them as escapes, so that no text can look
/// as if something were left out of it.
pub(crate) const MARKS: [char; 2] = ['\u{27e6}', '\u{27e7}'];

/// A text for the person who decides about it: each character that cannot be seen, or that acts, is an escape such as
/// `\u{202e}`. Line breaks and tabs stay. A backslash that would make an escape is `\u{5c}`, so that two texts that
/// differ in hidden characters never look the same.
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return text.into();
    }
    UNSEEN.replace(text.into(), |found| match &found[0] {
        "\\u{" => "\\u{5c}u{".to_owned(),
        unseen => unseen
            .chars()
            .map(|c| c.escape_unicode().to_string())
            .collect(),
    })
}

/// Whether a text has visible characters only.
fn is_plain(text: &str) -> bool {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) || matches!(byte, b'\n' | b'\t');
    text.as_bytes().iter().all(plain) && !text.contains("\\u{")
}

/// A text without characters that control a terminal or hide: each of them is an escape such as `\u{1b}`. Line breaks
/// and tabs stay, and so do the joiners and variation selectors that a script or an emoji needs.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !screened(text).any(|(c, hides)| hides && !matches!(c, '\n' | '\t')) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = screened(text).peekable();
    while let Some((c, hides)) = rest.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if rest.peek().is_some_and(|(next, _)| *next == '\n') => {}
            c if hides => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown.into()
}

/// The printable text as one line of at most this many characters, with `…` where some were cut off. Line breaks and
/// rows of blanks become one blank.
pub fn printable_line(text: &str, characters: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = printable(&line);
    let line = cut(&line, characters);
    // A second pass would remove a space before the cut.
    match line.strip_suffix(" …") {
        Some(line) => format!("{line}…"),
        None => line.into_owned(),
    }
}

/// The characters of a text, each with whether it controls a terminal or hides at its place. Line breaks and tabs
/// count as controls.
pub fn screened(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut before, mut before_hides) = ('\0', false);
    let mut rest = text.chars();
    // How many of the next characters spell a flag.
    let mut flag = 0;
    std::iter::from_fn(move || {
        let c = rest.next()?;
        let hides = match c {
            _ if flag > 0 => {
                flag -= 1;
                false
            }
            '\u{1f3f4}' => {
                flag = super::sanitizing::flag_after(rest.clone());
                false
            }
            // One joiner or variation selector may follow a letter of a script or an emoji, but not a Latin letter.
            '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
                // `#`, `*` and digits may begin the emoji of a key.
                let is_base = !before.is_ascii() || matches!(before, '#' | '*' | '0'..='9');
                let joins = c == '\u{200d}' && before == '\u{fe0f}' && !before_hides;
                !joins && (!is_base || is_unseen(before))
            }
            _ => acts(c) || is_unseen(c),
        };
        (before, before_hides) = (c, hides);
        Some((c, hides))
    })
}

/// Whether a character acts: it controls a terminal, ends a line, or turns the direction of text.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}' | '\u{2029}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_character_that_cannot_be_seen_is_an_escape_for_a_person_who_decides() {
        for (text, seen) in [
            ("ok \u{1b}]0;x\u{7}true", "ok \\u{1b}]0;x\\u{7}true"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            (
                "a\u{200b}b\u{200d}c\u{feff}",
                "a\\u{200b}b\\u{200d}c\\u{feff}",
            ),
            (
                "\u{e0041}\u{fe0f}\u{e0100}",
                "\\u{e0041}\\u{fe0f}\\u{e0100}",
            ),
            (
                "a\u{a0}b\u{3000}c\u{2028}d",
                "a\\u{a0}b\\u{3000}c\\u{2028}d",
            ),
            ("x\u{ad}y\u{3164}z\u{2800}", "x\\u{ad}y\\u{3164}z\\u{2800}"),
            ("\u{e000}\u{10ffff}\u{378}", "\\u{e000}\\u{10ffff}\\u{378}"),
            ("a\r\nb\tc\n", "a\\u{d}\nb\tc\n"),
            ("\\u{202e}", "\\u{5c}u{202e}"),
            ("C:\\users \\u0041", "C:\\users \\u0041"),
            ("\u{27e6}x\u{27e7}", "\\u{27e6}x\\u{27e7}"),
            (
                "schön 日本 مرحبا क्ष 🕯 e\u{301}",
                "schön 日本 مرحبا क्ष 🕯 e\u{301}",
            ),
        ] {
            assert_eq!(visible(text), seen);
        }
    }

    #[test]
    fn what_is_printed_neither_acts_nor_hides_and_scripts_read_as_they_should() {
        for (text, seen) in [
            ("a\tb\r\nc", "a\tb\nc"),
            ("\x1b[2J\x07\u{9b}31m", "\\u{1b}[2J\\u{7}\\u{9b}31m"),
            ("over\rwritten", "over\\rwritten"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("pass\u{200b}word\u{200d}s", "pass\\u{200b}word\\u{200d}s"),
            ("\u{e0041}x", "\\u{e0041}x"),
            (
                "😀\u{fe0f}\u{fe01}\u{e0100}",
                "😀\u{fe0f}\\u{fe01}\\u{e0100}",
            ),
        ] {
            assert_eq!(printable(text), seen);
        }
        for text in [
            "schön 日本 🕯 می\u{200c}خواهم क्\u{200d}ष 1\u{fe0f}\u{20e3}",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} 🇩🇪",
            "葛\u{e0100}城",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn two_texts_never_look_the_same(a in "[\\\\u{}0-9a-e\u{202e}\u{27e6}\n]{0,12}", b in any::<String>()) {
            for (one, other) in [(&a, &b), (&a, &visible(&a).into_owned())] {
                prop_assert_eq!(visible(one) == visible(other), one == other);
            }
            for text in [&a, &b] {
                let seen = visible(text);
                prop_assert!(screened(&seen).all(|(c, hides)| !hides || matches!(c, '\n' | '\t')), "{}", seen);
            }
        }

        #[test]
        fn nothing_printed_acts(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(screened(&shown).all(|(c, hides)| !hides || matches!(c, '\n' | '\t')), "{}", shown);
        }
    }
}
