//! The cost of a text.

use serde_json::{Value, json};

use super::super::{
    JsonError, MAX_DEPTH, MAX_REPAIRS, ReadOptions, complete, parse, read, read_all,
    read_all_within, read_within,
};
use super::value;
use crate::candidates;
use crate::cursor::Cursor;

/// How many bytes the tolerant reader reads for each byte of `text`, apart from some hundred.
fn steps_per_byte(text: &str) -> f64 {
    let mut cursor = Cursor::new(text, 0..text.len());
    let _ = candidates::find(
        &mut cursor,
        &ReadOptions {
            max_depth: MAX_DEPTH,
            ..ReadOptions::default()
        },
    );
    (cursor.steps() as f64 - 500.0) / text.len().max(1) as f64
}

#[test]
fn fault_18_200_000_opening_brackets_are_an_error() {
    let text = "[".repeat(200_000);
    let too_deep = JsonError::TooDeep {
        at: 128,
        limit: 128,
    };
    assert_eq!(read(&text), Err(too_deep.clone()));
    assert_eq!(read_all(&text), Err(too_deep.clone()));
    assert_eq!(complete(&text), Err(too_deep));
    assert!(parse::<Value>(&text).is_err());
    assert!(read(&"{\"a\":".repeat(200_000)).is_err());
    assert!(read(&format!("Look: {}", "[{'a':".repeat(100_000))).is_err());
}

#[test]
fn fault_19_a_cut_array_of_681_kb_costs_steps_in_proportion() {
    let element = r#"{"id": 123456, "name": "some element", "tags": ["a", "b"], "x": 1.5}, "#;
    let mut text = format!("[{}", element.repeat(681_000 / element.len()));
    text.push_str(r#"{"id": 1, "na"#);
    let reading = read(&text).unwrap();
    assert_eq!(
        reading.value.as_array().unwrap().len(),
        681_000 / element.len() + 1
    );
    assert_eq!(
        reading.value.as_array().unwrap().last(),
        Some(&json!({"id": 1}))
    );
    assert!(reading.is_truncated());
    assert!(steps_per_byte(&text) < 6.0, "{}", steps_per_byte(&text));
}

#[test]
fn depth_is_what_the_limit_says() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(128)).is_ok());
    assert_eq!(
        read(&nested(129)),
        Err(JsonError::TooDeep {
            at: 128,
            limit: 128
        })
    );
    let shallow = ReadOptions {
        max_depth: 3,
        ..ReadOptions::default()
    };
    assert!(read_within(&nested(3), &shallow).is_ok());
    assert_eq!(
        read_within(&nested(4), &shallow),
        Err(JsonError::TooDeep { at: 3, limit: 3 })
    );
    let boundless = ReadOptions {
        max_depth: usize::MAX,
        ..ReadOptions::default()
    };
    assert!(read_within(&nested(MAX_DEPTH), &boundless).is_ok());
    assert!(read_within(&nested(MAX_DEPTH + 1), &boundless).is_err());
}

#[test]
fn length_and_number_of_values_are_limited() {
    let limits = ReadOptions {
        max_bytes: 10,
        max_values: 2,
        ..ReadOptions::default()
    };
    assert_eq!(
        read_within("[1234567890]", &limits),
        Err(JsonError::TooLong {
            bytes: 12,
            limit: 10
        })
    );
    assert_eq!(read_all_within("[1] [2]", &limits).unwrap().len(), 2);
    assert_eq!(
        read_all_within("[1][2][3]", &limits),
        Err(JsonError::TooManyValues { at: 6, limit: 2 })
    );
}

#[test]
fn repairs_are_limited_but_truncation_is_told() {
    let text = format!("[{}", "None,".repeat(5_000));
    let reading = read(&text).unwrap();
    assert_eq!(reading.repairs.len(), MAX_REPAIRS + 1);
    assert!(reading.is_truncated());
    assert_eq!(reading.value.as_array().unwrap().len(), 5_000);
}

#[test]
fn hostile_repetitions_cost_steps_in_proportion() {
    let pieces = [
        "[",
        "{",
        "{\"",
        "{'",
        "[\"",
        "{\"a\":\"",
        "\",\"",
        "\" , '",
        "\"}",
        "\"]",
        "{ /* ",
        "[ // ",
        "```",
        "```json\n[",
        "```json\n\"",
        "<think>",
        "</think>",
        "<",
        "\\",
        "\"\\",
        "\\u",
        "{‘",
        "“",
        "[1 ",
        "{a:",
        "{a: b ",
        "[a ",
        "[[",
        "[[a",
        "[{",
        "[\"a\" b ",
        "{\"a\" b ",
        "{\"a\":1 b ",
        "[...",
        "#",
        "{#",
        "{\"a\": x \"",
        "{\"a\":`",
        "[`",
        "9",
        "[9",
        "-",
        "{\"a\":'x, ",
        ";",
        "[;",
        "[\"a\",[\"b",
        "[[1],{\"a\":[\"b\"}",
        "{\"a\":\"b\\u",
        "[1 :",
        "x ",
    ];
    for piece in pieces {
        for ending in [
            "", "\"", "'", "’ x", "*/ x", "}", "]", "\n```", "</think>", "\"}]",
        ] {
            let text = format!("{}{ending}", piece.repeat(1_000));
            assert!(
                steps_per_byte(&text) < 40.0,
                "{piece:?} {ending:?} {}",
                steps_per_byte(&text)
            );
        }
    }
}

#[test]
fn what_is_no_json_is_an_error() {
    for text in [
        "",
        "  ",
        "Sorry, I cannot.",
        "\"Sure\" is what I say",
        "{name} [link](url)",
        "-",
    ] {
        assert_eq!(read(text), Err(JsonError::NoValue), "{text}");
        assert_eq!(read_all(text), Err(JsonError::NoValue), "{text}");
    }
    let thinking = "Hm. <think>{\"a\": 1}";
    assert_eq!(read(thinking), Err(JsonError::UnfinishedThought { at: 4 }));
    assert_eq!(value("[] <think>"), json!([]));
}
