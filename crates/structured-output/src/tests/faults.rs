//! Each known fault of models, with the intended value and the reported repair.

use serde_json::json;

use super::super::RepairKind::{self, *};
use super::super::read;
use super::{kinds, value};

#[test]
fn fault_01_a_fence_around_it() {
    let text = "```json\n{\"a\": 1}\n```";
    assert_eq!(value(text), json!({"a": 1}));
    assert_eq!(kinds(text), [TextAround, TextAround]);
    assert_eq!(&text[read(text).unwrap().span], "{\"a\": 1}");
    assert_eq!(value("```\n[1]\n```"), json!([1]));
    assert_eq!(value("```json {\"a\": 1}```"), json!({"a": 1}));
    assert_eq!(value("```json\n42\n```"), json!(42));
    assert_eq!(
        value("```json\n\"yes\"\n```\nHope that helps."),
        json!("yes")
    );
}

#[test]
fn fault_02_prose_around_it() {
    let text = "Sure! Here is {the plan} for [you](link):\n{\"a\": [1, 2]}\nIs it what you want?";
    assert_eq!(value(text), json!({"a": [1, 2]}));
    assert_eq!(kinds(text), [TextAround, TextAround]);
}

#[test]
fn fault_03_a_trailing_comma() {
    let text = r#"{"a": [1, 2,], "b": 3,}"#;
    assert_eq!(value(text), json!({"a": [1, 2], "b": 3}));
    assert_eq!(kinds(text), [TrailingComma, TrailingComma]);
}

#[test]
fn fault_04_literals_of_other_languages() {
    let text = r#"{"a": True, "b": False, "c": None, "d": NaN, "e": undefined, "f": -Infinity}"#;
    let meant = json!({"a": true, "b": false, "c": null, "d": null, "e": null, "f": null});
    assert_eq!(value(text), meant);
    assert_eq!(kinds(text), [ForeignLiteral; 6]);
}

#[test]
fn fault_05_a_missing_comma() {
    let text = "{\"a\": \"x\"\n \"b\": 2 \"c\": [1 2 true] \"d\": {}}";
    assert_eq!(
        value(text),
        json!({"a": "x", "b": 2, "c": [1, 2, true], "d": {}})
    );
    assert_eq!(kinds(text), [MissingComma; 5]);
    assert_eq!(
        value(r#"["a" "b"{"c":1}[2]]"#),
        json!(["a", "b", {"c": 1}, [2]])
    );
}

#[test]
fn fault_06_single_quotes_with_escapes() {
    let text = r#"{'a': 'it\'s', 'b': 'say "hi"', 'c': "don't", 'd': 'it's'}"#;
    let meant = json!({"a": "it's", "b": "say \"hi\"", "c": "don't", "d": "it's"});
    assert_eq!(value(text), meant);
    assert!(kinds(text).contains(&ForeignQuotes));
    assert_eq!(value("{“a”: “b”}"), json!({"a": "b"}));
}

#[test]
fn fault_07_a_raw_newline_in_a_string() {
    let text = "{\"a\": \"one\ntwo\tthree\", \"b\": 1}";
    assert_eq!(value(text), json!({"a": "one\ntwo\tthree", "b": 1}));
    assert_eq!(kinds(text), [ControlCharacter]);
}

#[test]
fn fault_08_comments() {
    let text = "{ // first\n \"a\": 1, /* , \"x\": 2 */ # third\n \"b\": \"http://x#y\" }";
    assert_eq!(value(text), json!({"a": 1, "b": "http://x#y"}));
    assert_eq!(kinds(text), [Comment; 3]);
}

#[test]
fn fault_09_quotes_inside_of_a_string() {
    let text = r#"{"a": "he said "hi", then "bye" and left", "b": ["the "c" note"]}"#;
    let meant = json!({"a": "he said \"hi\", then \"bye\" and left", "b": ["the \"c\" note"]});
    assert_eq!(value(text), meant);
    assert_eq!(kinds(text), [InnerQuote, InnerQuote]);
    assert_eq!(
        value(r#"{"a": "the "key": value pair"}"#),
        json!({"a": "the \"key\": value pair"})
    );
}

#[test]
fn fault_10_a_lone_surrogate() {
    let text = r#"{"a": "x\ud83dy", "b": "\ude00", "c": "\ud83d\ude00"}"#;
    assert_eq!(
        value(text),
        json!({"a": "x\u{FFFD}y", "b": "\u{FFFD}", "c": "😀"})
    );
    assert_eq!(kinds(text), [LoneSurrogate, LoneSurrogate]);
}

#[test]
fn fault_11_a_string_cut_off() {
    for (text, meant) in [
        (r#"{"a": "hel"#, "hel"),
        (r#"{"a": "hel\"#, "hel"),
        (r#"{"a": "hel\u00e"#, "hel"),
        (r#"{"a": "hel\ud83d\ude"#, "hel"),
    ] {
        assert_eq!(value(text), json!({"a": meant}), "{text}");
        assert_eq!(kinds(text), [Truncated], "{text}");
    }
    let in_fence = "```json\n{\"a\": \"hel\n```\nThat is all.";
    assert_eq!(value(in_fence), json!({"a": "hel"}));
}

#[test]
fn fault_12_a_key_cut_off() {
    for text in [
        r#"{"a": 1, "ke"#,
        r#"{"a": 1, "key""#,
        r#"{"a": 1, "key": "#,
        r#"{"a": 1, ke"#,
    ] {
        assert_eq!(value(text), json!({"a": 1}), "{text}");
        assert_eq!(kinds(text), [Truncated], "{text}");
    }
}

#[test]
fn fault_13_a_number_cut_off() {
    assert_eq!(value(r#"{"a": 12."#), json!({"a": 12}));
    assert_eq!(value(r#"{"a": 1.5e"#), json!({"a": 1.5}));
    assert_eq!(value(r#"[1, -2.5e-"#), json!([1, -2.5]));
    assert_eq!(value(r#"{"b": 0, "a": -"#), json!({"b": 0}));
    assert!(read(r#"{"a": 12."#).unwrap().is_truncated());
}

#[test]
fn fault_14_a_literal_cut_off() {
    assert_eq!(value(r#"{"a": tr"#), json!({"a": true}));
    assert_eq!(value(r#"{"a": [f"#), json!({"a": [false]}));
    assert_eq!(value(r#"{"a": n"#), json!({"a": null}));
    assert_eq!(value(r#"{"a": Tru"#), json!({"a": true}));
    assert_eq!(kinds(r#"{"a": tr"#), [Truncated]);
}

#[test]
fn fault_15_json_in_the_thoughts_before_it() {
    let text = r#"<think>{"a": "first try, longer"}</think>{"a": 2}"#;
    assert_eq!(value(text), json!({"a": 2}));
    assert_eq!(kinds(text), [TextAround]);
    let unopened = "I could use {\"a\": ... no.\n</think>\n{\"a\": 2}";
    assert_eq!(value(unopened), json!({"a": 2}));
    let as_data = r#"{"a": "<think>x</think>",}"#;
    assert_eq!(value(as_data), json!({"a": "<think>x</think>"}));
    assert_eq!(value("<THINK>[1]</THINK> 42"), json!(42));
}

#[test]
fn fault_16_a_path_with_backslashes() {
    let text = r#"{"a": "C:\path\new", "b": 1}"#;
    assert_eq!(value(text), json!({"a": r"C:\path\new", "b": 1}));
    assert_eq!(kinds(text), [InvalidEscape]);
    let mixed = r#"{"a": "Line one\nLine two has \d+ and \frac"}"#;
    assert_eq!(
        value(mixed),
        json!({"a": "Line one\nLine two has \\d+ and \\frac"})
    );
    assert_eq!(value(r#"{"a": "C:\users\x"}"#), json!({"a": r"C:\users\x"}));
    assert_eq!(
        value(r#"{"a": "C:\\path\\new",}"#),
        json!({"a": r"C:\path\new"})
    );
}

#[test]
fn fault_17_an_integer_of_23_digits() {
    let text = r#"{"a": 12345678901234567890123, "b": 18446744073709551615}"#;
    assert_eq!(
        value(text),
        json!({"a": "12345678901234567890123", "b": u64::MAX})
    );
    assert_eq!(kinds(text), [LongNumber]);
    assert_eq!(
        value("[-99999999999999999999, 1e400]"),
        json!(["-99999999999999999999", "1e400"])
    );
}

#[test]
fn fault_20_keys_and_texts_without_quotes() {
    let text = "{name: Ada Lovelace, born: 1815-12-10, height: 165 cm, 1: yes\n}";
    let meant =
        json!({"name": "Ada Lovelace", "born": "1815-12-10", "height": "165 cm", "1": "yes"});
    assert_eq!(value(text), meant);
    let told: Vec<RepairKind> = kinds(text);
    assert_eq!(told, [UnquotedKey, UnquotedText].repeat(4));
}

#[test]
fn texts_that_begin_like_a_number_or_literal() {
    let text = r#"{"a": 1 / 2, "b": 5 <kg>, "c": true story, "d": 10:30, "e": 7 // minutes
    }"#;
    let meant = json!({"a": "1 / 2", "b": "5 <kg>", "c": "true story", "d": "10:30", "e": 7});
    assert_eq!(value(text), meant);
}

#[test]
fn numbers_in_other_forms() {
    let text = "[+1, .5, 5., -.5, 007]";
    assert_eq!(value(text), json!([1, 0.5, 5.0, -0.5, "007"]));
    let forms = [
        ForeignNumber,
        ForeignNumber,
        ForeignNumber,
        ForeignNumber,
        UnquotedText,
    ];
    assert_eq!(kinds(text), forms);
}

#[test]
fn brackets_that_are_missing_or_wrong() {
    assert_eq!(value(r#"[{"a": 1, {"b": 2}]"#), json!([{"a": 1}, {"b": 2}]));
    assert_eq!(value(r#"{"a": [1, 2}"#), json!({"a": [1, 2]}));
    assert_eq!(value(r#"{"a": [{"b": 1]}"#), json!({"a": [{"b": 1}]}));
    assert_eq!(value(r#"{"a": 1]}"#), json!({"a": 1}));
    assert_eq!(value(r#"{{"a": 1}}"#), json!({"a": 1}));
}

#[test]
fn signs_that_fit_nowhere() {
    assert_eq!(value(r#"[1, 2, ...]"#), json!([1, 2]));
    assert_eq!(value(r#"[1,, 2]"#), json!([1, 2]));
    assert_eq!(value(r#"{"a": 1; "b": 2}"#), json!({"a": 1, "b": 2}));
    assert_eq!(
        value(r#"{"a" => 1, "b" = 2, "c" 3}"#),
        json!({"a": 1, "b": 2, "c": 3})
    );
    assert_eq!(value(r#"{"a":, "b"}"#), json!({"a": null, "b": null}));
    assert_eq!(value(r#"{"a":: 'x'}"#), json!({"a": "x"}));
}

#[test]
fn spans_tell_where() {
    let text = "x [1, True, /*c*/] y";
    let reading = read(text).unwrap();
    let marked: Vec<&str> = reading
        .repairs
        .iter()
        .map(|repair| &text[repair.span.clone()])
        .collect();
    assert_eq!(marked, ["x ", "True", ",", "/*c*/", " y"]);
}
