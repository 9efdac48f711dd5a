//! JSON that is still being written.

use serde_json::json;

use super::super::{JsonError, complete};

#[test]
fn a_stream_grows_towards_its_value() {
    let text = "<think>Well.</think>Here: ```json\n{\"city\": \"Oslo\", \"rain\": true, \"mm\": [1, 20]}\n``` [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]";
    let after = |part: &str| {
        let end = text.find(part).unwrap() + part.len();
        complete(&text[..end]).ok().map(|reading| reading.value)
    };
    let whole = json!({"city": "Oslo", "rain": true, "mm": [1, 20]});
    assert_eq!(after("<think>We"), None);
    assert_eq!(after("Here: ```js"), None);
    assert_eq!(after("{\"ci"), Some(json!({})));
    assert_eq!(after("\"O"), Some(json!({"city": "O"})));
    assert_eq!(after("\"ra"), Some(json!({"city": "Oslo"})));
    assert_eq!(after(": t"), Some(json!({"city": "Oslo", "rain": true})));
    assert_eq!(
        after(", 2"),
        Some(json!({"city": "Oslo", "rain": true, "mm": [1, 2]}))
    );
    assert_eq!(after("20]}\n``"), Some(whole.clone()));
    assert_eq!(after("12, 13]"), Some(whole));
}

#[test]
fn nothing_is_made_up_before_a_value_begins() {
    assert_eq!(complete(""), Err(JsonError::NoValue));
    assert_eq!(complete("Here is your JS"), Err(JsonError::NoValue));
    assert_eq!(
        complete("<think>[1]"),
        Err(JsonError::UnfinishedThought { at: 0 })
    );
    assert_eq!(complete("[").unwrap().value, json!([]));
    assert_eq!(complete("{\"a\":").unwrap().value, json!({}));
    assert_eq!(complete("fal").unwrap().value, json!(false));
    assert_eq!(complete("\"fal").unwrap().value, json!("fal"));
}

#[test]
fn what_is_complete_needs_no_repair() {
    assert_eq!(complete("{\"a\": 1}").unwrap().repairs, []);
    assert!(complete("{\"a\": 1").unwrap().is_truncated());
}
