//! Personal data in a streamed text.

use ghostlight_safety::personal_data_from;

use super::Treatment;

/// The most bytes that are held back because the next piece may turn them into personal data. A
/// longer word or row of numbers is examined in parts.
const MOST_HELD: usize = 1024;

/// A streamed text. Only the part that can no longer become personal data is passed on.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The last character that was passed on, untreated, and the text held back.
    text: String,
    /// How many bytes of it were passed on.
    given: usize,
}

impl Stream {
    /// Takes the next piece, and passes on what is now certain.
    pub(super) fn push(&mut self, piece: &str, treatment: &Treatment) -> String {
        self.text.push_str(piece);
        let certain = self.certain();
        self.give(certain, treatment)
    }

    /// Passes on the rest at the end of the text.
    pub(super) fn finish(&mut self, treatment: &Treatment) -> String {
        let rest = self.give(self.text.len(), treatment);
        *self = Self::default();
        rest
    }

    /// The end of the part in which later pieces cannot change the findings.
    fn certain(&self) -> usize {
        let held = &self.text[self.given..];
        let word = held.rfind(char::is_whitespace).map_or(0, |at| {
            at + held[at..].chars().next().map_or(0, char::len_utf8)
        });
        // Digits, spaces and dashes have many forms, and invisible characters may stand between
        // them.
        let of_number = |c: char| {
            matches!(c, '0'..='9' | 'A'..='Z' | ' ' | '(' | ')' | '+' | '.' | '/' | '-')
                || (!c.is_ascii() && !c.is_alphabetic())
        };
        let number = held.trim_end_matches(of_number).len();
        let number = number + (held[number..].len() - held[number..].trim_start_matches(' ').len());
        let least = held.len().saturating_sub(MOST_HELD);
        let certain = self.given + word.min(number).max(least);
        self.text.ceil_char_boundary(certain)
    }

    /// Passes on the text before this place. A finding that reaches beyond it is held back whole.
    fn give(&mut self, mut certain: usize, treatment: &Treatment) -> String {
        let mut shown = String::with_capacity(certain - self.given);
        let mut at = self.given;
        for found in personal_data_from(&self.text, self.given) {
            if !treatment.concerns(found.kind) {
                continue;
            }
            if found.range.end > certain {
                certain = certain.min(found.range.start);
                break;
            }
            shown.push_str(&self.text[at..found.range.start]);
            shown.push_str(&treatment.shown(found.kind, &self.text[found.range.clone()]));
            at = found.range.end;
        }
        shown.push_str(&self.text[at..certain.max(at)]);
        let before = self.text[..certain].char_indices().next_back();
        let kept = before.map_or(certain, |(place, _)| place);
        self.given = certain - kept;
        self.text.drain(..kept);
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interceptors::personal_data::PersonalAction;

    fn treatment() -> Treatment {
        Treatment::new(PersonalAction::Mask, &[], None)
    }

    fn in_pieces(text: &str, cuts: &[usize]) -> String {
        let treatment = treatment();
        let (mut stream, mut shown, mut at) = (Stream::default(), String::new(), 0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.sort_unstable();
        for cut in cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)) {
            shown.push_str(&stream.push(&text[at..cut], &treatment));
            at = cut;
        }
        shown.push_str(&stream.push(&text[at..], &treatment));
        shown + &stream.finish(&treatment)
    }

    #[test]
    fn prose_flows_and_what_may_become_an_address_waits() {
        let (mut stream, treatment) = (Stream::default(), treatment());
        assert_eq!(
            stream.push("Good morning, ad", &treatment),
            "Good morning, "
        );
        assert_eq!(stream.push("a@example", &treatment), "");
        assert_eq!(
            stream.push(".org, call +49 30", &treatment),
            "[email], call "
        );
        assert_eq!(stream.push(" 901", &treatment), "");
        assert_eq!(stream.push("820 now", &treatment), "[phone] ");
        assert_eq!(stream.finish(&treatment), "now");
    }

    #[test]
    fn a_word_without_end_is_given_on_in_parts() {
        let (mut stream, treatment) = (Stream::default(), treatment());
        let word = "é".repeat(3000);
        let shown = stream.push(&word, &treatment);
        assert!(shown.len() >= word.len() - MOST_HELD - 2, "{}", shown.len());
        assert_eq!(shown + &stream.finish(&treatment), word);
    }

    #[test]
    fn what_follows_an_address_without_a_space_is_found_too() {
        let text = "ada@example.orgGB82WEST12345698765432ada@example.orgGB82WEST12345698765432 ";
        assert_eq!(in_pieces(text, &[]), treatment().text(text).0);
    }

    proptest! {
        #[test]
        fn cut_anywhere_a_text_is_shown_as_in_one_piece(
            text in prop_oneof![
                any::<String>(),
                prop::collection::vec(
                    prop::sample::select(&[
                        "ada@example.org", " ", "+49 30 901820", "4111 1111 1111 1111", "x", "\n", "GB82WEST12345698765432",
                        "219-09-9999", "é", "12", "(202) 555-0143", ".", "-", "A", "@", "é@b.cd", ", ",
                    ][..]),
                    0..14,
                ).prop_map(|parts| parts.concat()),
            ],
            cuts in prop::collection::vec(any::<usize>(), 0..12),
        ) {
            prop_assert_eq!(in_pieces(&text, &cuts), in_pieces(&text, &[]));
            prop_assert_eq!(in_pieces(&text, &[]), treatment().text(&text).0);
        }
    }
}
