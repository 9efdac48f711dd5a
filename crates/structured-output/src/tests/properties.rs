//! Promises that hold for every text.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use super::super::{JsonError, ReadOptions, RepairKind, complete, parse, read, read_all};
use crate::candidates;
use crate::cursor::Cursor;

/// Any JSON document, with difficult characters more frequent than by chance.
fn document() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        3 => "[a-z \"',:{}\\[\\]\\\\\n`<>/#]{0,12}",
        1 => ".{0,8}",
        1 => Just("<think>```json {\"a\": 1}</think>".to_owned()),
    ];
    let number = prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
        (-1000..1000_i64).prop_map(Number::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        text.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Text in which the punctuation of JSON, Markdown and thoughts is frequent.
fn hostile_text() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        6 => "[\\[\\]{}\",':\\\\]",
        1 => Just("\\u".to_owned()),
        1 => Just("\\\"".to_owned()),
        1 => Just("```json\n".to_owned()),
        1 => Just("\n```".to_owned()),
        1 => Just("<think>".to_owned()),
        1 => Just("</think>".to_owned()),
        1 => Just("/*".to_owned()),
        1 => Just("*/".to_owned()),
        1 => Just("// ".to_owned()),
        1 => Just("...".to_owned()),
        2 => "[ \n]{1,3}",
        1 => "[“”‘’é]",
        2 => "[a-zA-Z0-9.+-]{1,4}",
        1 => "true|None|nul|1e400|99999999999999999999",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(token, 0..120).prop_map(|tokens| tokens.concat())
}

fn tolerant(text: &str) -> (Vec<candidates::Candidate>, u64) {
    let mut cursor = Cursor::new(text, 0..text.len());
    let found = candidates::find(&mut cursor, &ReadOptions::default()).unwrap_or_default();
    (found, cursor.steps())
}

/// Whether `begun` is what can be known of `whole` after its text was cut.
fn is_beginning(begun: &Value, whole: &Value, is_last: bool) -> bool {
    match (begun, whole) {
        (Value::Array(begun), Value::Array(whole)) => {
            begun.len() <= whole.len()
                && begun
                    .iter()
                    .zip(whole)
                    .enumerate()
                    .all(|(index, (begun_item, item))| {
                        is_beginning(begun_item, item, is_last && index + 1 == begun.len())
                    })
        }
        (Value::Object(begun), Value::Object(whole)) => {
            // The generated texts are written in the order of their keys.
            let keys_agree = begun.keys().zip(whole.keys()).all(|(a, b)| a == b);
            let count = begun.len();
            keys_agree
                && count <= whole.len()
                && begun
                    .values()
                    .zip(whole.values())
                    .enumerate()
                    .all(|(index, (a, b))| is_beginning(a, b, is_last && index + 1 == count))
        }
        (Value::String(begun), Value::String(whole)) if is_last => {
            whole.starts_with(begun.as_str())
        }
        (Value::Number(begun), Value::Number(whole)) if is_last => {
            let text = whole.to_string();
            (1..=text.len()).any(|end| {
                let digits = text[..end].trim_end_matches(['.', 'e', '+', '-']);
                serde_json::from_str::<Number>(digits).is_ok_and(|number| number == *begun)
            })
        }
        _ => begun == whole,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn valid_documents_read_as_they_are(document in document(), is_pretty: bool) {
        let text = if is_pretty { format!("{document:#}") } else { document.to_string() };
        let whole: Value = serde_json::from_str(&text).unwrap();
        let reading = read(&text).unwrap();
        prop_assert_eq!(&reading.value, &whole);
        prop_assert_eq!(&reading.repairs, &[]);
        prop_assert_eq!(reading.span, 0..text.len());
        prop_assert_eq!(read_all(&text).unwrap().len(), 1);
        // The tolerant reader alone gives the same result, without `serde_json` before it.
        let (found, _) = tolerant(&text);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(&found[0].reading.value, &whole);
        prop_assert_eq!(&found[0].reading.repairs, &[]);
    }

    #[test]
    fn every_prefix_is_completed_to_a_beginning(document in document(), is_pretty: bool) {
        let text = if is_pretty { format!("{document:#}") } else { document.to_string() };
        let whole: Value = serde_json::from_str(&text).unwrap();
        for (end, _) in text.char_indices() {
            let prefix = &text[..end];
            match complete(prefix) {
                Ok(reading) => {
                    let same = is_beginning(&reading.value, &whole, true);
                    prop_assert!(same, "{prefix} became {}", reading.value);
                    let is_whole = serde_json::from_str::<Value>(prefix).is_ok();
                    prop_assert!(is_whole || reading.is_truncated(), "{prefix}");
                    let only = reading.repairs.iter().all(|r| r.kind == RepairKind::Truncated);
                    prop_assert!(only, "{prefix} {:?}", reading.repairs);
                }
                Err(error) => {
                    prop_assert_eq!(error, JsonError::NoValue);
                    prop_assert!(matches!(prefix, "" | "-"), "{}", prefix);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused_in_linear_work(text in prop_oneof![hostile_text(), any::<String>()]) {
        let (found, steps) = tolerant(&text);
        prop_assert!(steps <= 40 * text.len() as u64 + 500, "{} for {} bytes", steps, text.len());
        for candidate in &found {
            let span = candidate.reading.span.clone();
            prop_assert!(text.get(span.clone()).is_some());
            for repair in &candidate.reading.repairs {
                prop_assert!(text.get(repair.span.clone()).is_some(), "{:?}", repair);
                prop_assert!(span.start <= repair.span.start && repair.span.end <= span.end);
            }
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].reading.span.end <= pair[1].reading.span.start));
        for candidate in &found {
            let repairs = &candidate.reading.repairs;
            prop_assert!(repairs.is_sorted_by_key(|repair| repair.span.start), "{repairs:?}");
        }
        let _ = (complete(&text), parse::<Vec<u8>>(&text), read_all(&text));
    }

    #[test]
    fn a_repeated_text_costs_no_more_for_each_byte(text in hostile_text()) {
        let repeated = text.repeat(20);
        let (_, once) = tolerant(&text);
        let (_, steps) = tolerant(&repeated);
        prop_assert!(steps <= 40 * repeated.len() as u64 + 500, "{} steps, once {}", steps, once);
    }
}
