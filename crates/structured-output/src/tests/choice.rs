//! The choice among several values.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{ParseError, parse, read_all};
use super::value;

#[derive(Debug, Deserialize, PartialEq)]
struct City {
    city: String,
    people: u32,
}

#[test]
fn a_fence_for_json_goes_first_then_length_then_the_last() {
    let fenced = "{\"a\": \"long enough\"}\n```json\n{\"b\": 1}\n```\n```rust\nlet x = [1, 2, 3, 4, 5];\n```";
    assert_eq!(value(fenced), json!({"b": 1}));
    assert_eq!(value("As [1] says: {\"a\": 1}, see [2]."), json!({"a": 1}));
    assert_eq!(value("[1] no, [2]"), json!([2]));
}

#[test]
fn read_all_returns_each_value_in_order() {
    let text = "{\"a\": 1}\n{\"a\": 2}\n<think>[0]</think> then ```json\n[3,]\n``` and [4";
    let all = read_all(text).unwrap();
    let values: Vec<&Value> = all.iter().map(|reading| &reading.value).collect();
    assert_eq!(
        values,
        [&json!({"a": 1}), &json!({"a": 2}), &json!([3]), &json!([4])]
    );
    assert_eq!(&text[all[1].span.clone()], "{\"a\": 2}");
    assert!(all[0].repairs.is_empty() && all[3].is_truncated());
}

#[test]
fn an_unfinished_value_does_not_swallow_the_next() {
    let all = read_all("Start with {\"a\": 1, and so on.\nNow all of it: {\"b\": 2}").unwrap();
    let values: Vec<&Value> = all.iter().map(|reading| &reading.value).collect();
    assert_eq!(values, [&json!({"a": 1}), &json!({"b": 2})]);
    let fences = "```json\n{\"a\": [1, 2\n```\nor\n```json\n{\"b\": 2}\n```";
    assert_eq!(read_all(fences).unwrap().len(), 2);
}

#[test]
fn parse_takes_the_value_that_fits() {
    let text =
        "Input was {\"question\": \"which city is the biggest?\"}. {'city': 'Oslo', 'people': 7}";
    assert_eq!(
        parse::<City>(text).unwrap(),
        City {
            city: "Oslo".into(),
            people: 7
        }
    );
    assert!(parse::<bool>("```\nTrue\n```").unwrap());
}

#[test]
fn parse_says_what_the_likeliest_value_lacks() {
    let error = parse::<City>("[1] {\"city\": \"Oslo\"}").unwrap_err();
    assert!(matches!(error, ParseError::Shape { candidates: 2, .. }));
    assert!(
        error.to_string().contains("missing field `people`"),
        "{error}"
    );
    assert!(matches!(parse::<City>("none"), Err(ParseError::Read(_))));
}

#[test]
fn parse_unwraps_what_was_encoded_twice() {
    let text = json!(json!({"city": "Oslo", "people": 7}).to_string()).to_string();
    assert_eq!(parse::<City>(&text).unwrap().people, 7);
    assert_eq!(
        parse::<String>(&text).unwrap(),
        r#"{"city":"Oslo","people":7}"#
    );
}

#[test]
fn parse_keeps_long_numbers_exact() {
    let text = "Answer: [12345678901234567890123]";
    assert_eq!(
        parse::<[u128; 1]>(text).unwrap(),
        [12_345_678_901_234_567_890_123]
    );
    assert_eq!(
        parse::<[String; 1]>(text).unwrap(),
        ["12345678901234567890123"]
    );
    assert_eq!(
        parse::<[f64; 1]>(text).unwrap(),
        [1.234_567_890_123_456_8e22]
    );
}
