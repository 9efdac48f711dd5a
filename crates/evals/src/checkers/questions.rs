//! The checkers of GAIA, of GSM8K, and of BFCL's questions for agents.

use super::python::{float, is_space, is_word};

/// The mark before the answer in the form that GAIA's prompt asks for.
const FINAL: &str = "final answer:";

/// The part of an answer that GAIA looks at: what stands behind the last `FINAL ANSWER:`, or all of it.
pub(crate) fn gaia_answer(answer: &str) -> &str {
    let place = answer
        .char_indices()
        .rev()
        .map(|(place, _)| place)
        .find(|place| {
            let head = answer.get(*place..*place + FINAL.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(FINAL))
        });
    place.map_or(answer, |place| &answer[place + FINAL.len()..])
}

/// GAIA's quasi exact match. The expected answer decides how the other one is read: as a number, as a list that is
/// divided at `,` and `;`, or as a text.
pub(crate) fn gaia(answer: &str, expected: &str) -> bool {
    if let Some(wanted) = float(expected) {
        return number(answer) == wanted;
    }
    let divides = |c: char| matches!(c, ',' | ';');
    if expected.contains(divides) {
        let wanted: Vec<&str> = expected.split(divides).collect();
        let found: Vec<&str> = answer.split(divides).collect();
        let mut pairs = found.iter().zip(&wanted);
        return found.len() == wanted.len()
            && pairs.all(|(found, wanted)| match float(wanted) {
                Some(wanted) => number(found) == wanted,
                // Punctuation counts in the elements of lists, and not in texts.
                None => folded(found) == folded(wanted),
            });
    }
    plain(answer) == plain(expected)
}

/// A number without units; infinity where it is none, which equals an expected infinity.
fn number(text: &str) -> f64 {
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '$' | '%' | ','))
        .collect();
    float(&text).unwrap_or(f64::INFINITY)
}

/// A text in lower case without white space.
fn folded(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_space(*c)).collect();
    text.to_lowercase()
}

/// The same without punctuation.
fn plain(text: &str) -> String {
    let text = folded(text);
    text.chars().filter(|c| !c.is_ascii_punctuation()).collect()
}

/// BFCL's check of an answer to a question about what an agent remembers or finds: one of the possible answers is in it, as
/// whole words.
pub(crate) fn bfcl(answer: &str, possible: &str) -> bool {
    let standard = |text: &str| {
        let is_kept = |c: &char| !",./-_*^()".contains(*c);
        let kept: String = text.chars().filter(is_kept).collect();
        kept.to_lowercase().replace('\'', "\"")
    };
    let (answer, possible) = (standard(answer), standard(possible));
    // Whether a word begins or ends at this place, which a place beside a mark such as `$` is not.
    let is_edge = |place: usize| {
        let (before, after) = answer.split_at(place);
        let is_in_word = |c: Option<char>| c.is_some_and(is_word);
        is_in_word(before.chars().next_back()) != is_in_word(after.chars().next())
    };
    let mut places = answer.char_indices().map(|(place, _)| place);
    let is_at = |place: usize| {
        let end = place + possible.len();
        answer[place..].starts_with(&possible) && is_edge(place) && is_edge(end)
    };
    places.any(is_at) || is_at(answer.len())
}

/// The final number of an answer to a question of GSM8K: the one behind the last `####`, or else the last one.
pub(crate) fn gsm8k(answer: &str) -> Option<f64> {
    match answer.rsplit_once("####") {
        Some((_, last)) => numbers(last).next(),
        None => numbers(answer).last(),
    }
}

/// The numbers of a text, with `,` between groups of digits, behind `$`, and with a sign.
fn numbers(text: &str) -> impl Iterator<Item = f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.');
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c.is_ascii_digit())?;
            let before = rest[..start].trim_end_matches('$');
            let before_sign = before.strip_suffix('-');
            // In "10-3" there is no negative number.
            let is_negative =
                before_sign.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric()));
            let digits = &rest[start..];
            let end = digits.find(|c| !is_part(c)).unwrap_or(digits.len());
            let (written, after) = digits.split_at(end);
            rest = after;
            let plain = written.trim_end_matches(['.', ',']).replace(',', "");
            if let Ok(value) = plain.parse::<f64>() {
                return Some(if is_negative { -value } else { value });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaia_reads_answers_as_the_official_scorer_does() {
        for (answer, expected, passes) in [
            // Numbers: units and commas do not count, words do.
            ("$1,234.50", "1234.5", true),
            ("17 %", "17", true),
            ("about 17", "17", false),
            ("1e3", "1000", true),
            ("17.0", " 17 ", true),
            ("seventeen", "17", false),
            ("1 000", "1000", false),
            ("17 km", "17", false),
            // A text that is not a number is infinity, and so is "inf".
            ("a lot", "inf", true),
            ("nan", "nan", false),
            // Lists are ordered, and as long as the expected one.
            ("a, b", "a,b", true),
            ("b, a", "a,b", false),
            ("a; b", "a,b", true),
            ("a, b, c", "a,b", false),
            ("1, $2", "1,2", true),
            ("1.0, two", "1,Two", true),
            ("a., b", "a,b", false),
            // A thousands separator in an expected number makes a list of it.
            ("1234", "1,234", false),
            ("1,234", "1,234", true),
            // Texts: case, white space and punctuation do not count.
            ("Sea Gull!", "seagull", true),
            ("sea-gull", "sea gull", true),
            ("the seagull", "seagull", false),
            ("\u{dc}ber", "\u{fc}ber", true),
            ("", "a", false),
            ("?!", "--", true),
        ] {
            assert_eq!(
                gaia(answer, expected),
                passes,
                "{answer:?} for {expected:?}"
            );
        }
    }

    #[test]
    fn bfcl_looks_for_an_answer_as_the_official_checker_does() {
        for (answer, possible, passes) in [
            ("It is Seattle.", "seattle", true),
            ("On April 1, 2024", "April 1 2024", true),
            ("On April 1,2024", "april 1, 2024", false),
            ("It costs 2017 euro", "17", false),
            ("seventeen", "seven", false),
            ("Yoon Dong-Sup", "Yoon Dongsup", true),
            ("It's O'Connell", "O\"Connell", true),
            ("xa a a", "a a", true),
            ("\u{10c}SSR", "\u{10d}ssr", true),
            // No word begins before a mark, unless one stands there already.
            ("It costs $49.99", "$49.99", false),
            ("It costs US$49.99", "$49.99", true),
            ("a_b", "b", false),
            ("a (b) c", "b", true),
            ("anything", "", true),
            ("", "", false),
            ("", "a", false),
        ] {
            assert_eq!(
                bfcl(answer, possible),
                passes,
                "{answer:?} for {possible:?}"
            );
        }
    }

    #[test]
    fn the_final_answer_is_behind_its_mark() {
        assert_eq!(gaia_answer("I think.\nFINAL ANSWER: 17"), " 17");
        assert_eq!(gaia_answer("final answer: 1. No: Final Answer: 2"), " 2");
        assert_eq!(gaia_answer("\u{130}\u{130} 17"), "\u{130}\u{130} 17");
    }

    #[test]
    fn the_final_number_is_found() {
        for (answer, number) in [
            ("So 3 + 4 = 7.\n#### 7", Some(7.0)),
            ("#### 1,234 (of 2,000)", Some(1234.0)),
            ("It costs $18.50.", Some(18.5)),
            ("From 10-3 I get -$7.", Some(-7.0)),
            ("first 3, then 4", Some(4.0)),
            ("#### none, though 7", Some(7.0)),
            ("#### -5", Some(-5.0)),
            ("none", None),
            ("1.2.3", None),
        ] {
            assert_eq!(gsm8k(answer), number, "{answer:?}");
        }
    }
}
