//! Finds personal data in texts.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    folding::{IN_NUMBERS, fold},
    patterns::{BANK_ACCOUNT, EMAIL},
};

/// A kind of personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PersonalKind {
    /// An e-mail address.
    Email,
    /// A telephone number as people write it: with `+` and the country, with the area code of North
    /// America, or with a leading 0 and in groups.
    Phone,
    /// A payment card's number with a correct check digit.
    Card,
    /// A social security number of the United States.
    SocialSecurity,
    /// An international bank account number with correct check digits.
    BankAccount,
}

impl PersonalKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Email,
        Self::Phone,
        Self::Card,
        Self::SocialSecurity,
        Self::BankAccount,
    ];

    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Card => "card",
            Self::SocialSecurity => "social security number",
            Self::BankAccount => "bank account",
        }
    }
}

/// A piece of personal data in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PersonalData {
    /// The kind of data.
    pub kind: PersonalKind,
    /// The bytes of the text that it takes up.
    pub range: Range<usize>,
}

/// The personal data in a text, from its start to its end; no two overlap.
///
/// Numbers are recognised by their form and their check digits, so that dates, versions, IP addresses and plain
/// numbers are not taken for personal data. The check digits are those of ISO/IEC 7812-1 (Luhn) and ISO 13616.
pub fn personal_data(text: &str) -> Vec<PersonalData> {
    personal_data_from(text, 0)
}

/// The personal data that begins at this byte or later, for a text that is searched in parts. The text before that
/// byte only shows where words begin. A byte inside a character finds nothing.
pub fn personal_data_from(text: &str, from: usize) -> Vec<PersonalData> {
    if !text.is_char_boundary(from) {
        return Vec::new();
    }
    let Some(folded) = fold(text, &IN_NUMBERS) else {
        return found_in(text, from);
    };
    let found = found_in(&folded.text, folded.after(from)).into_iter();
    let found = found.map(|found| PersonalData {
        range: folded.source(&found.range),
        ..found
    });
    found.filter(|found| found.range.start >= from).collect()
}

fn found_in(text: &str, from: usize) -> Vec<PersonalData> {
    let mut found = Vec::new();
    for range in EMAIL.places(text, from) {
        let kind = PersonalKind::Email;
        found.push(PersonalData { kind, range });
    }
    for candidate in BANK_ACCOUNT.places(text, from) {
        if let Some(range) = bank_account(text, candidate) {
            let kind = PersonalKind::BankAccount;
            found.push(PersonalData { kind, range });
        }
    }
    numbers(text, from, &mut found);
    // A number inside an address or an account number is a part of it.
    found.sort_by_key(|found| (found.range.start, std::cmp::Reverse(found.range.end)));
    let mut end = 0;
    found.retain(|found| {
        let apart = found.range.start >= end;
        end = end.max(found.range.end);
        apart
    });
    found
}

/// The longest prefix of a candidate whose check digits are right: a word in capitals may follow.
fn bank_account(text: &str, mut range: Range<usize>) -> Option<Range<usize>> {
    loop {
        let candidate = &text[range.clone()];
        if is_bank_account(candidate) {
            return Some(range);
        }
        range.end = range.start + candidate.rfind(' ')?;
    }
}

fn is_bank_account(text: &str) -> bool {
    let length = text.bytes().filter(|byte| *byte != b' ').count();
    if !(15..=34).contains(&length) {
        return false;
    }
    let (first, rest) = text.split_at(4);
    let values = rest.chars().chain(first.chars());
    let remainder = values
        .filter_map(|c| c.to_digit(36))
        .fold(0, |remainder, value| match value {
            0..10 => (remainder * 10 + value) % 97,
            _ => (remainder * 100 + value) % 97,
        });
    remainder == 1
}

/// A group of digits, with its separator from the group before.
struct Group {
    digits: Range<usize>,
    before: Range<usize>,
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, ' ' | '(' | ')' | '+' | '.' | '/' | '-')
}

/// Finds personal data that consists of groups of digits.
fn numbers(text: &str, from: usize, found: &mut Vec<PersonalData>) {
    let mut groups: Vec<Group> = Vec::new();
    let (mut at, mut ended) = (from, from);
    while let Some(begin) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let begin = at + begin;
        let length = text[begin..].find(|c: char| !c.is_ascii_digit());
        let end = length.map_or(text.len(), |length| begin + length);
        let between = &text[ended..begin];
        if !between.chars().all(is_of_number) {
            run(text, &groups, found);
            groups.clear();
        }
        // The character that opens a number is the run's, not the text before it.
        let opened = between.rfind(|c| !is_of_number(c));
        let opened = opened.map_or(ended, |last| {
            ended + last + between[last..].chars().next().map_or(0, char::len_utf8)
        });
        groups.push(Group {
            digits: begin..end,
            before: opened..begin,
        });
        (at, ended) = (end, end);
    }
    run(text, &groups, found);
}

/// Finds numbers in the groups of one run, from left to right, the longest first.
fn run(text: &str, groups: &[Group], found: &mut Vec<PersonalData>) {
    let mut first = 0;
    while first < groups.len() {
        let (mut count, mut digits) = (0, 0);
        for group in &groups[first..] {
            digits += group.digits.len();
            // The longest number of any kind has 19 digits.
            if digits > 19 {
                break;
            }
            count += 1;
        }
        let hit = (1..=count).rev().find_map(|count| {
            let groups = &groups[first..first + count];
            let (kind, range) = number(text, groups)?;
            is_apart(text, &range).then_some((count, PersonalData { kind, range }))
        });
        match hit {
            Some((count, hit)) => {
                found.push(hit);
                first += count;
            }
            None => first += 1,
        }
    }
}

/// Whether the range touches no letter or digit.
fn is_apart(text: &str, range: &Range<usize>) -> bool {
    let touches = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !touches(text[..range.start].chars().next_back()) && !touches(text[range.end..].chars().next())
}

/// The kind and the range of the number that these groups make together.
fn number(text: &str, groups: &[Group]) -> Option<(PersonalKind, Range<usize>)> {
    let (first, last) = (groups.first()?, groups.last()?);
    let plain = first.digits.start..last.digits.end;
    let digits: Vec<u8> = groups
        .iter()
        .flat_map(|group| text[group.digits.clone()].bytes())
        .map(|digit| digit - b'0')
        .collect();
    let separators: Vec<&str> = groups[1..]
        .iter()
        .map(|group| &text[group.before.clone()])
        .collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.digits.len()).collect();
    if is_card(&digits, &lengths, &separators) {
        return Some((PersonalKind::Card, plain));
    }
    if is_social_security(&digits, &lengths, &separators) {
        return Some((PersonalKind::SocialSecurity, plain));
    }
    if let Some(kind) = bare(&text[..plain.start], &digits, &lengths) {
        return Some((kind, plain));
    }
    let opening = &text[first.before.clone()];
    let start = phone(opening, &digits, &lengths, &separators)?;
    Some((PersonalKind::Phone, first.digits.start - start..plain.end))
}

/// How many bytes before some digits are searched for a word that names their kind.
const WORDS_BEFORE: usize = 48;

/// The kind of a number without groups, which only the words before it can tell.
fn bare(before: &str, digits: &[u8], lengths: &[usize]) -> Option<PersonalKind> {
    let [count] = lengths else { return None };
    if !(7..=15).contains(count) {
        return None;
    }
    let near = before.len().saturating_sub(WORDS_BEFORE);
    let near = (near..)
        .find(|at| before.is_char_boundary(*at))
        .unwrap_or(0);
    let words: Vec<String> = before[near..]
        .rsplit(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .take(3)
        .map(str::to_lowercase)
        .collect();
    let says = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let security = *count == 9 && (says(&["ssn"]) || (says(&["social"]) && says(&["security"])));
    if security && is_social_security(digits, &[3, 2, 4], &["-", "-"]) {
        return Some(PersonalKind::SocialSecurity);
    }
    let phone = [
        "phone",
        "telephone",
        "tel",
        "telefon",
        "mobile",
        "mobil",
        "fax",
        "whatsapp",
    ];
    says(&phone).then_some(PersonalKind::Phone)
}

fn is_card(digits: &[u8], lengths: &[usize], separators: &[&str]) -> bool {
    let grouped = separators.windows(2).all(|pair| pair[0] == pair[1])
        && separators
            .iter()
            .all(|separator| [" ", "-"].contains(separator));
    // The number is in one piece, or in the groups that are printed on cards.
    let as_printed = matches!(
        lengths,
        [_] | [4, 4, 4, 4] | [4, 4, 4, 4, 3] | [4, 6, 4] | [4, 6, 5]
    );
    let form = (13..=19).contains(&digits.len()) && matches!(digits.first(), Some(2..=6));
    if !form || !grouped || !as_printed {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(*digit)) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => 2 * digit - 9,
            (_, digit) => 2 * digit,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_social_security(digits: &[u8], lengths: &[usize], separators: &[&str]) -> bool {
    let form = lengths == [3, 2, 4] && separators == ["-", "-"];
    form && !matches!(digits, [0, 0, 0, ..] | [6, 6, 6, ..] | [9, ..])
        && digits[3..5] != [0, 0]
        && digits[5..] != [0; 4]
}

/// How many bytes before the first digit belong to a telephone number; `None` when the digits are none.
fn phone(opening: &str, digits: &[u8], lengths: &[usize], separators: &[&str]) -> Option<usize> {
    let parenthesised = opening.ends_with('(');
    if opening.ends_with('+') {
        let known = [" ", "-", ".", "/", "(", ")", " (", ") ", ")-"];
        let form = digits.first() != Some(&0) && (8..=15).contains(&digits.len());
        return (form && separators.iter().all(|separator| known.contains(separator))).then_some(1);
    }
    let american = match lengths {
        [1, rest @ ..] if lengths.len() == 4 && digits.first() == Some(&1) => {
            Some((rest, &digits[1..], &separators[1..]))
        }
        _ if lengths.len() == 3 => Some((lengths, digits, separators)),
        _ => None,
    };
    if let Some(([3, 3, 4], [2..=9, _, _, 2..=9, ..], between)) = american {
        let opens = lengths.len() == 3 && parenthesised;
        let closes = [")", ") ", ")-"].contains(&between[0]);
        let like = between[0] == between[1] && [" ", "-", "."].contains(&between[0]);
        let split = closes && ["-", ".", " "].contains(&between[1]);
        if like || (split && opens) {
            return Some(usize::from(split));
        }
    }
    let national = digits.first() == Some(&0)
        && matches!(digits.get(1), Some(1..))
        && (9..=12).contains(&digits.len())
        && matches!(lengths, [2..=5, rest @ ..] if !rest.is_empty() && rest.iter().all(|length| *length >= 2));
    let (first, rest) = separators.split_first()?;
    let grouped = [" ", "/", "-"].contains(first)
        && rest.iter().all(|separator| [" ", "-"].contains(separator))
        && rest.windows(2).all(|pair| pair[0] == pair[1]);
    (national && grouped && !(*first == "-" && rest.contains(&" "))).then_some(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<(PersonalKind, &str)> {
        let found = personal_data(text).into_iter();
        found
            .map(|found| (found.kind, &text[found.range]))
            .collect()
    }

    #[test]
    fn data_about_people_is_found_where_it_stands() {
        use PersonalKind::{BankAccount, Card, Email, Phone, SocialSecurity};
        for (text, kind, expected) in [
            (
                "Write to ada.l+x@mail.example.co.uk.",
                Email,
                "ada.l+x@mail.example.co.uk",
            ),
            ("<grüße@exämple.de>", Email, "grüße@exämple.de"),
            ("call +49 30 901820 now", Phone, "+49 30 901820"),
            ("tel:+1-202-555-0143", Phone, "+1-202-555-0143"),
            ("(202) 555-0143", Phone, "(202) 555-0143"),
            ("at 202.555.0143, or", Phone, "202.555.0143"),
            ("1-202-555-0143", Phone, "1-202-555-0143"),
            ("+44 (20) 7946 0958", Phone, "+44 (20) 7946 0958"),
            ("06 12 34 56 78", Phone, "06 12 34 56 78"),
            ("0171/1234567", Phone, "0171/1234567"),
            (
                "card 4111 1111 1111 1111 please",
                Card,
                "4111 1111 1111 1111",
            ),
            ("4111 1111 1111 1111 123", Card, "4111 1111 1111 1111"),
            ("3782-822463-10005", Card, "3782-822463-10005"),
            ("n=5555555555554444;", Card, "5555555555554444"),
            ("SSN 219-09-9999.", SocialSecurity, "219-09-9999"),
            (
                "DE89 3704 0044 0532 0130 00 EUR",
                BankAccount,
                "DE89 3704 0044 0532 0130 00",
            ),
            (
                "GB82WEST12345698765432",
                BankAccount,
                "GB82WEST12345698765432",
            ),
        ] {
            assert_eq!(found(text), [(kind, expected)], "{text:?}");
        }
        let both = "a@b.example or +49 30 901820";
        assert_eq!(
            found(both),
            [(Email, "a@b.example"), (Phone, "+49 30 901820")]
        );
    }

    #[test]
    fn plain_numbers_dates_and_machines_are_nobody() {
        for text in [
            "4111 1111 1111 1112",
            "1700000000 and 20240115103000",
            "2024-01-15 10:30, 01-02-2024 12:00, 15.01.2024",
            "192.168.100.200 and 10.0.0.1:8080",
            "1 000 000 000 or 1,234,567,890.12",
            "3.14159265358979 and 0.12345678901",
            "v1.95.0-rc.1, ISBN 978-3-16-148410-0",
            "000-12-3456, 666-12-3456, 912-34-5678, 219-00-9999",
            "GB82 WEST 1234 5698 7654 33",
            "a @ b, @home, user@localhost",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "x2025550143 and 202-555-01431",
        ] {
            assert_eq!(found(text), [], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_text_what_is_found_is_in_it_and_in_order(
            text in prop_oneof![any::<String>(), r"[ 0-9A-Z()+./@é-]{0,60}"],
        ) {
            let mut end = 0;
            for found in personal_data(&text) {
                prop_assert!(found.range.start >= end && found.range.end > found.range.start);
                end = found.range.end;
                prop_assert!(text.get(found.range).is_some());
            }
        }
    }
}
