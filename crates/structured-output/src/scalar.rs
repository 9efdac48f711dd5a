//! Literals and numbers, in JSON's form and in other forms that models write.

use serde_json::{Number, Value};

use super::cursor::{Cursor, is_blank};
use super::reading::RepairKind;

/// Literals that are not JSON, with their meaning in JSON. Literals without a counterpart (`NaN`
/// and the infinities) become `null`, as in JavaScript's own serialisation.
const FOREIGN_LITERALS: [(&str, Literal); 17] = [
    ("True", Literal::True),
    ("TRUE", Literal::True),
    ("False", Literal::False),
    ("FALSE", Literal::False),
    ("None", Literal::Null),
    ("NULL", Literal::Null),
    ("Null", Literal::Null),
    ("nil", Literal::Null),
    ("undefined", Literal::Null),
    ("NaN", Literal::Null),
    ("nan", Literal::Null),
    ("Infinity", Literal::Null),
    ("-Infinity", Literal::Null),
    ("+Infinity", Literal::Null),
    ("inf", Literal::Null),
    ("-inf", Literal::Null),
    ("+inf", Literal::Null),
];

const LITERALS: [(&str, Literal); 3] = [
    ("true", Literal::True),
    ("false", Literal::False),
    ("null", Literal::Null),
];

#[derive(Clone, Copy)]
enum Literal {
    True,
    False,
    Null,
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Self {
        match literal {
            Literal::True => Value::Bool(true),
            Literal::False => Value::Bool(false),
            Literal::Null => Value::Null,
        }
    }
}

/// Reads a whole word as a literal or number; `None` if it is neither.
pub(super) fn classify(word: &str) -> Option<(Value, Option<RepairKind>)> {
    let named = |table: &[(&str, Literal)]| {
        table
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, literal)| Value::from(*literal))
    };
    if let Some(value) = named(&LITERALS) {
        return Some((value, None));
    }
    if let Some(value) = named(&FOREIGN_LITERALS) {
        return Some((value, Some(RepairKind::ForeignLiteral)));
    }
    number(word)
}

/// Reads a word that may be cut off at the end of the text: `tr` is `true`, and `1.5e` is `1.5`.
/// `None` if the beginning does not determine a value, as in `-`.
pub(super) fn complete(word: &str) -> Option<(Value, Option<RepairKind>)> {
    let whole = classify(word).filter(|(_, kind)| *kind != Some(RepairKind::ForeignNumber));
    if whole.is_some() {
        return whole;
    }
    let begun = LITERALS
        .iter()
        .chain(&FOREIGN_LITERALS)
        .find(|(name, _)| name.starts_with(word));
    if let Some((_, literal)) = begun.filter(|_| word.starts_with(char::is_alphabetic)) {
        return Some((Value::from(*literal), None));
    }
    number(word.trim_end_matches(['.', 'e', 'E', '+', '-']))
}

fn number(word: &str) -> Option<(Value, Option<RepairKind>)> {
    let first = word.bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'.')) {
        return None;
    }
    if let Some(value) = json_number(word) {
        let kind = value.is_string().then_some(RepairKind::LongNumber);
        return Some((value, kind));
    }
    let value = json_number(&in_json_form(word)?)?;
    let kind = if value.is_string() {
        RepairKind::LongNumber
    } else {
        RepairKind::ForeignNumber
    };
    Some((value, Some(kind)))
}

/// A number in JSON's grammar: an integer beyond 64 bits and a magnitude beyond a double stay text.
///
/// This is text, rather than `serde_json`'s arbitrary precision, because that feature would change
/// every `Value` of every crate in the program.
fn json_number(word: &str) -> Option<Value> {
    let is_grammatical = is_json_number(word.as_bytes());
    let is_integer = !word.contains(['.', 'e', 'E']);
    let fits = !is_integer || word.parse::<u64>().is_ok() || word.parse::<i64>().is_ok();
    match serde_json::from_str::<Number>(word) {
        Ok(number) if is_grammatical && fits => Some(Value::Number(number)),
        _ if is_grammatical => Some(Value::String(word.to_owned())),
        _ => None,
    }
}

/// RFC 8259, section 6: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
fn is_json_number(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"-").unwrap_or(word);
    let (whole, rest) = split_digits(word);
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with(b"0")) {
        return false;
    }
    let rest = match rest.strip_prefix(b".").map(split_digits) {
        Some(([], _)) => return false,
        Some((_, after)) => after,
        None => rest,
    };
    match rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        Some(exponent) => {
            let sign = exponent
                .iter()
                .take(1)
                .filter(|byte| matches!(byte, b'+' | b'-'))
                .count();
            let (digits, after) = split_digits(exponent.get(sign..).unwrap_or_default());
            !digits.is_empty() && after.is_empty()
        }
        None => rest.is_empty(),
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let count = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    bytes.split_at(count)
}

/// `+1`, `.5` and `5.` in JSON's form. A leading zero (`007`) stays text, because the writer meant
/// the digits.
fn in_json_form(word: &str) -> Option<String> {
    let unsigned = word.trim_start_matches(['-', '+']);
    if word.len() - unsigned.len() > 1 || !unsigned.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let sign = if word.starts_with('-') { "-" } else { "" };
    let before = if unsigned.starts_with('.') { "0" } else { "" };
    let after = if unsigned.ends_with('.') { "0" } else { "" };
    Some(format!("{sign}{before}{unsigned}{after}"))
}

/// The index after the word at `index`. A word ends where JSON could continue.
pub(super) fn end_of_word(cursor: &Cursor<'_>, index: usize) -> usize {
    cursor.after_run(index, |character| {
        !matches!(
            character,
            ',' | '}' | ']' | '{' | '[' | '"' | '`' | ';' | ')'
        ) && !is_blank(character)
    })
}
