//! Raised and lowered text, with the characters or the signs that say so: without them 10⁵ would be read as 105.

/// The longest text that is written in this way, in bytes; a longer one is more than an exponent or an index.
const MAX_BYTES: usize = 1_000;
/// The endings of numbers that stand for a place, which are typed on the line.
const ORDINALS: [&str; 7] = ["st", "nd", "rd", "th", "er", "re", "ème"];
const PLAIN: &str = "0123456789+-−=()";
const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾";
const LOWERED: &str = "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎";

/// Where a text stands beside its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Raised,
    Lowered,
}

impl Script {
    /// Rewrites the end of a text from this place on, which stands beside the line. Digits and signs get characters of
    /// their own; what has none follows `^` or `_`. What cannot be taken for a part of the word before it stays as it is: marks
    /// such as `*` and `®`, a reference in brackets, and paragraphs.
    pub(crate) fn apply(self, text: &mut String, begin: usize) {
        let (line, said) = text.split_at_checked(begin).unwrap_or_default();
        if said.len() > MAX_BYTES {
            return;
        }
        let said = said.trim();
        let is_reference = said.starts_with('[');
        let is_word = said.chars().any(char::is_alphanumeric);
        if !is_word || is_reference || said.contains('\n') {
            return;
        }
        let follows_digit = line.ends_with(|last: char| last.is_ascii_digit());
        if follows_digit && self == Self::Raised && ORDINALS.contains(&&*said.to_lowercase()) {
            return;
        }
        let own: Option<String> = said.chars().map(|one| self.own(one)).collect();
        let written = own.unwrap_or_else(|| {
            let sign = match self {
                Self::Raised => '^',
                Self::Lowered => '_',
            };
            match said.chars().nth(1) {
                None => format!("{sign}{said}"),
                Some(_) => format!("{sign}({said})"),
            }
        });
        text.truncate(begin);
        text.push_str(&written);
    }

    /// The character that stands for another one beside the line. What stands between two numbers is not raised.
    fn own(self, plain: char) -> Option<char> {
        let place = PLAIN.chars().position(|one| one == plain);
        let own = match self {
            Self::Raised => RAISED,
            Self::Lowered => LOWERED,
        };
        match place {
            Some(place) => own.chars().nth(place),
            None => (plain == '–' || plain == ',' || plain == ' ' || own.contains(plain))
                .then_some(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, said: &str, script: Script) -> String {
        let mut text = format!("{line}{said}");
        script.apply(&mut text, line.len());
        text
    }

    #[test]
    fn what_is_raised_or_lowered_is_seen_to_be_so() {
        for (line, said, expected) in [
            ("10", "5", "10⁵"),
            ("10", "−12", "10⁻¹²"),
            ("x", "n", "x^n"),
            ("x", "n+1", "x^(n+1)"),
            ("e", "2³", "e²³"),
            ("2", "n^2", "2^(n^2)"),
            ("claim", "1, 3–5", "claim¹, ³–⁵"),
            ("claim", "[1]", "claim[1]"),
            ("claim", "*", "claim*"),
            ("Name", "®", "Name®"),
            ("the 21", "st", "the 21st"),
            ("be", "st", "be^(st)"),
            ("", "1", "¹"),
            ("x", " 2 ", "x²"),
            ("x", "", "x"),
            ("x", "2\n\n3", "x2\n\n3"),
        ] {
            assert_eq!(written(line, said, Script::Raised), expected);
        }
        for (line, said, expected) in [
            ("H", "2", "H₂"),
            ("x", "max", "x_(max)"),
            ("a", "i", "a_i"),
            ("1", "st", "1_(st)"),
        ] {
            assert_eq!(written(line, said, Script::Lowered), expected);
        }
        // A place that is none of the text's.
        let mut text = "é".to_owned();
        for begin in [1, 9] {
            Script::Raised.apply(&mut text, begin);
            assert_eq!(text, "é");
        }
    }
}
