//! Cuts texts to a number of tokens.

use std::borrow::Cow;

use super::TokenCounter;

/// The mark in place of the text that was cut out.
pub(super) const CUT_OUT: &str = "\n[… cut …]\n";

/// The text, or its beginning and end with a mark between them, so that it has at most this many
/// tokens, including the mark. It is cut between characters. If not even the mark fits, the result
/// is empty.
pub(super) fn cut_to<'a>(text: &'a str, tokens: u64, counter: &dyn TokenCounter) -> Cow<'a, str> {
    let all = counter.count(text);
    if all <= tokens {
        return text.into();
    }
    let characters = text.chars().count();
    // The share that fits if tokens are spread evenly, and a little less after each failed attempt.
    let share = |part: u64| usize::try_from(part).unwrap_or(usize::MAX);
    let mut kept = share((characters as u64).saturating_mul(tokens) / all.max(1));
    while kept > 0 {
        let (begin, end) = (kept - kept / 3, kept / 3);
        let head = text
            .char_indices()
            .nth(begin)
            .map_or(text.len(), |(at, _)| at);
        let tail = match end {
            0 => text.len(),
            end => text
                .char_indices()
                .rev()
                .nth(end - 1)
                .map_or(0, |(at, _)| at),
        };
        if head <= tail {
            let cut = [&text[..head], CUT_OUT, &text[tail..]].concat();
            if counter.count(&cut) <= tokens {
                return cut.into();
            }
        }
        kept -= (kept / 8).max(1);
    }
    Cow::Borrowed("")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::context::Estimate;

    #[test]
    fn the_beginning_and_the_end_stay() {
        let text = format!("begin {} end", "word ".repeat(500));
        let cut = cut_to(&text, 50, &Estimate);
        assert!(
            cut.starts_with("begin word") && cut.ends_with("word  end"),
            "{cut}"
        );
        assert!(cut.contains(CUT_OUT));
        assert_eq!(cut_to("short", 50, &Estimate), "short");
    }

    proptest! {
        #[test]
        fn it_fits_and_is_cut_between_characters(text in "(\\PC|世|\n|🎉){0,300}", tokens in 0_u64..200) {
            let cut = cut_to(&text, tokens, &Estimate);
            prop_assert!(Estimate.count(&cut) <= tokens);
            if Estimate.count(&text) <= tokens {
                prop_assert_eq!(&*cut, text.as_str());
            }
        }
    }
}
