//! Texts that PostgreSQL can store. It cannot store the NUL character, which is written as two
//! others.

use std::borrow::Cow;

/// The first character of an escape, which is escaped itself.
const ESCAPE: char = '\u{1}';

/// A text in its stored form.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            c => stored.push(c),
        }
    }
    Cow::Owned(stored)
}

/// The original of a stored text.
pub(crate) fn read(stored: &str) -> String {
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(c) = characters.next() {
        text.push(match c {
            ESCAPE if characters.next() == Some('0') => '\0',
            c => c,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_comes_back_and_holds_no_nul(text in "[\u{0}\u{1}01a/\u{2}é]{0,12}") {
            prop_assert!(!stored(&text).contains('\0'));
            prop_assert_eq!(read(&stored(&text)), text);
        }
    }
}
