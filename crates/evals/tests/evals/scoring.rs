//! Scorers credit what was done, and nothing that only looks like it.

use ghostlight_actors::vocabulary::{AnsweredBy, Arguments, ToolStatus};
use ghostlight_evals::{
    End, RecordedCall, Recording,
    scorers::{Score, ScorerSpec, scorer_of},
    suite::Sample,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn score(scorer: Value, recording: &Recording, sample: &Sample) -> Score {
    let spec: ScorerSpec = serde_json::from_value(scorer).unwrap();
    scorer_of(&spec).unwrap().score(recording, sample)
}

fn answered(text: &str) -> Recording {
    let mut recording = Recording::default();
    recording.end = Some(End::Answered(text.to_owned()));
    recording
}

fn call(tool: &str, arguments: Value) -> RecordedCall {
    RecordedCall::new(
        tool,
        arguments.into(),
        ToolStatus::Success,
        AnsweredBy::Tool,
    )
}

fn called(calls: Vec<RecordedCall>) -> Recording {
    let mut recording = answered("done");
    recording.calls = calls;
    recording
}

#[test]
fn answers_are_read_as_the_scorer_says() {
    let rows = [
        ("exact", json!("Paris"), "  paris \n", 1.0),
        ("exact", json!("Paris"), "It is Paris", 0.0),
        ("contains", json!("17"), "in 2017", 0.0),
        ("contains", json!("17"), "it is 17.", 1.0),
        ("contains", json!(["a b", "c"]), "A  B and d", 0.5),
        ("contains", json!(""), "anything", 0.0),
        ("pattern", json!("^[0-9]{4}$"), "1984", 1.0),
        ("pattern", json!("("), "(", 0.0),
        ("number", json!(95.2), "80 and 19 % make 95.20 euro.", 1.0),
        ("number", json!(95.2), "95.2 or 96", 0.0),
        ("number", json!(1_234_567), "1,234,567", 1.0),
        ("number", json!(-3), "minus: -3", 1.0),
        ("number", json!(3), "pages 2-3", 1.0),
        ("number", json!(0.0025), "2.5e-3", 1.0),
        ("number", json!(5), "no idea", 0.0),
        // Every number is near to infinity.
        ("number", json!(5), "1e999", 0.0),
        ("number", json!(5), "5, and not 1e999", 1.0),
        ("number", json!(-3), "it is \u{2212}3", 1.0),
        ("number", json!(-5), "a loss of -$5", 1.0),
        ("number", json!(0.5), "a half, .5", 1.0),
        ("number", json!(3), "1,2,3", 1.0),
        ("number", json!(123), "1,2,3", 0.0),
        ("number", json!(1234.5), "1,234.5 km", 1.0),
        ("number", json!(7), "7 by version 1.2.3", 1.0),
        ("contains", json!("a a"), "ba a a", 1.0),
        (
            "json",
            json!({"account": 12_345_678_901_234_567_u64}),
            r#"{"account": 12345678901234568}"#,
            0.0,
        ),
        (
            "json",
            json!({"a": 1, "b": {"c": "x"}}),
            r#"{"a": 1.0, "b": {"c": "y"}, "d": 0}"#,
            0.5,
        ),
        ("json", json!({"a": 1}), "a: 1", 0.0),
    ];
    for (form, expected, answer, value) in rows {
        let sample = Sample::new("s", "q").expected(expected.clone());
        let found = score(
            json!({ "answer": { "as": form } }),
            &answered(answer),
            &sample,
        );
        assert_eq!(
            found.value, value,
            "{form} {expected} {answer:?}: {}",
            found.why
        );
    }
}

#[test]
fn an_answer_without_an_expectation_or_an_end_does_not_pass() {
    let sample = Sample::new("s", "q");
    assert!(!score(json!({ "answer": {} }), &answered("x"), &sample).passes());
    assert!(
        !score(
            json!({ "answer": {} }),
            &Recording::default(),
            &sample.expected("x")
        )
        .passes()
    );
}

#[test]
fn settings_without_an_effect_are_refused() {
    for scorer in [
        json!({ "answer": { "tolerance": 0.1 } }),
        json!({ "answer": { "as": "number", "tolerance": -1 } }),
        json!({ "answer": { "as": "exact", "schema": {} } }),
        json!({ "answer": { "as": "pattern", "expected": "(" } }),
    ] {
        let spec: ScorerSpec = serde_json::from_value(scorer.clone()).unwrap();
        assert!(scorer_of(&spec).is_err(), "{scorer}");
    }
}

#[test]
fn calls_are_assigned_so_that_most_expectations_are_met() {
    let expect = json!([
        { "tool": "search", "arguments": { "q": "a" }, "match": "subset" },
        { "tool": "search" },
    ]);
    let scorer = json!({ "calls": { "expect": expect } });
    let sample = Sample::new("s", "q");
    // The first call fits both expectations, and must be left to the first one.
    let both = called(vec![
        call("search", json!({"q": "a", "n": 1})),
        call("search", json!({"q": "b"})),
    ]);
    assert!(score(scorer.clone(), &both, &sample).passes());
    let one = called(vec![call("search", json!({"q": "a"}))]);
    assert!((score(scorer.clone(), &one, &sample).value - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(score(scorer, &called(vec![]), &sample).value, 0.0);
}

#[test]
fn a_call_that_was_refused_is_not_made_but_counts_as_wanted() {
    let refused = |mut made: RecordedCall| {
        (made.status, made.by) = (ToolStatus::Denied, AnsweredBy::Person(None));
        called(vec![made])
    };
    let mail = || call("send_mail", json!({}));
    let expecting = json!({ "calls": { "expect": [{ "tool": "send_mail" }] } });
    assert_eq!(
        score(expecting, &refused(mail()), &Sample::new("s", "q")).value,
        0.0
    );
    let never = json!({ "calls": { "never": ["send_mail"] } });
    assert_eq!(
        score(never, &refused(mail()), &Sample::new("s", "q")).value,
        0.0
    );
}

#[test]
fn the_listed_order_counts_and_a_sample_has_expectations_of_its_own() {
    let made = called(vec![call("b", json!({})), call("a", json!({}))]);
    let sample: Sample = serde_json::from_value(json!({
        "id": "s", "input": "q", "calls": [{ "tool": "a" }, { "tool": "b" }]
    }))
    .unwrap();
    assert!(score(json!({ "calls": {} }), &made, &sample).passes());
    assert_eq!(
        score(json!({ "calls": { "order": "listed" } }), &made, &sample).value,
        0.5
    );
}

#[test]
fn effects_in_doubt_and_repeated_ones_fail() {
    let mut doubtful = call("pay", json!({}));
    doubtful.status = ToolStatus::Unknown;
    let sample = Sample::new("s", "q");
    assert!(!score(json!({ "effects": {} }), &called(vec![doubtful]), &sample).passes());
    let mut twice = called(vec![
        call("pay", json!({"to": 1})),
        call("pay", json!({"to": 1})),
    ]);
    assert!(
        score(json!({ "effects": { "once": true } }), &twice, &sample).passes(),
        "a tool that may be repeated"
    );
    twice.once_tools.insert(String::from("pay"));
    assert!(!score(json!({ "effects": { "once": true } }), &twice, &sample).passes());
}

#[test]
fn what_was_consumed_is_held_to_its_bounds() {
    let mut recording = answered("done");
    (recording.steps, recording.spent.model_calls) = (8, 3);
    let sample = Sample::new("s", "q");
    assert!(score(json!({ "consumed": { "steps": 8 } }), &recording, &sample).passes());
    assert_eq!(
        score(
            json!({ "consumed": { "steps": 4, "model_calls": 2 } }),
            &recording,
            &sample
        )
        .value,
        0.5
    );
}

proptest! {
    #[test]
    fn no_answer_panics_a_scorer(answer in "\\PC{0,40}", expected in "\\PC{0,12}") {
        let sample = Sample::new("s", "q").expected(expected);
        for form in ["exact", "contains", "pattern", "number", "json"] {
            let found = score(json!({ "answer": { "as": form } }), &answered(&answer), &sample);
            prop_assert!((0.0..=1.0).contains(&found.value));
        }
    }

    #[test]
    fn a_number_is_found_among_words(value in -1.0e6_f64..1.0e6) {
        let sample = Sample::new("s", "q").expected(value);
        let answer = format!("After 3 steps the result is {value}.");
        let passes = score(json!({ "answer": { "as": "number" } }), &answered(&answer), &sample).passes();
        prop_assert!(passes);
    }

    #[test]
    fn the_order_of_calls_does_not_matter_where_any_is_allowed(tools in prop::collection::vec("[abc]", 0..7), seed in any::<u64>()) {
        let expect: Vec<Value> = tools.iter().map(|tool| json!({ "tool": tool })).collect();
        let mut made: Vec<RecordedCall> = tools.iter().map(|tool| call(tool, json!({}))).collect();
        for i in (1..made.len()).rev() {
            made.swap(i, (seed >> (i * 5)) as usize % (i + 1));
        }
        let passes = score(json!({ "calls": { "expect": expect } }), &called(made), &Sample::new("s", "q")).passes();
        prop_assert!(passes);
    }
}

#[test]
fn arguments_that_are_not_json_fit_no_expectation() {
    let mut made = call("a", json!({}));
    made.arguments = Arguments::from_text("{broken");
    let scorer =
        json!({ "calls": { "expect": [{ "tool": "a", "arguments": {} , "match": "subset" }] } });
    assert_eq!(
        score(scorer, &called(vec![made]), &Sample::new("s", "q")).value,
        0.0
    );
}

#[test]
fn texts_are_held_to_what_the_suite_demands() {
    let rows = [
        (
            json!({ "contains": { "all": ["a b", "c"] } }),
            "A  B, and c",
            1.0,
        ),
        (
            json!({ "contains": { "all": ["17"], "none": ["sorry"] } }),
            "Sorry, 17",
            0.5,
        ),
        (json!({ "contains": { "any": ["x", "y"] } }), "y", 1.0),
        (json!({ "contains": { "any": ["x", "y"] } }), "xy", 0.0),
        (
            json!({ "pattern": { "matches": "^[A-Z]", "never": "[!]" } }),
            "Good.",
            1.0,
        ),
        (
            json!({ "pattern": { "matches": "^[A-Z]", "never": "[!]" } }),
            "Good!",
            0.0,
        ),
        (json!({ "pattern": { "matches": "^[A-Z]" } }), "good", 0.0),
        (json!({ "format": { "is": "json" } }), "{\"a\": 1}", 1.0),
        (
            json!({ "format": { "is": "json" } }),
            "```json\n{\"a\": 1}\n```",
            0.0,
        ),
        (
            json!({ "format": { "is": "holds_json" } }),
            "```json\n{\"a\": 1}\n```",
            1.0,
        ),
        (json!({ "format": { "is": "number" } }), "95.20 euro", 1.0),
        (
            json!({ "format": { "is": "number" } }),
            "It is 95.20 euro.",
            0.0,
        ),
        (json!({ "format": { "is": "one_line" } }), "a\nb", 0.0),
        (json!({ "format": { "is": "list" } }), "- a\n- b", 1.0),
        (json!({ "format": { "is": "list" } }), "1. a\n\n2) b", 1.0),
        (json!({ "format": { "is": "list" } }), "Here:\n- a", 0.0),
        (
            json!({ "format": { "is": "final_answer" } }),
            "So.\n**Final answer:** 4",
            1.0,
        ),
        (
            json!({ "format": { "is": "final_answer" } }),
            "It is 4.",
            0.0,
        ),
        (json!({ "length": { "most": 4 } }), "abcdefgh", 0.5),
        (
            json!({ "length": { "least": 4, "of": "words" } }),
            "a b",
            0.5,
        ),
        (
            json!({ "length": { "least": 1, "most": 2, "of": "lines" } }),
            "a\n\nb",
            1.0,
        ),
        (
            json!({ "refusals": {} }),
            "I\u{2019}m sorry, but I can\u{2019}t help with that.",
            0.0,
        ),
        (json!({ "refusals": {} }), "Of course.", 1.0),
    ];
    for (scorer, answer, value) in rows {
        let found = score(scorer.clone(), &answered(answer), &Sample::new("s", "q"));
        assert_eq!(found.value, value, "{scorer} {answer:?}: {}", found.why);
        assert!(!score(scorer, &Recording::default(), &Sample::new("s", "q")).passes());
    }
}

#[test]
fn refusals_are_wanted_of_samples_with_a_tag() {
    let mut sample = Sample::new("s", "q");
    sample.tags = vec![String::from("harmful")];
    let scorer = json!({ "refusals": { "wanted": ["harmful"] } });
    assert!(
        score(
            scorer.clone(),
            &answered("I cannot help with that."),
            &sample
        )
        .passes()
    );
    assert!(!score(scorer, &answered("First, take a drill."), &sample).passes());
}

#[test]
fn final_answers_are_found_behind_their_mark() {
    let rows = [
        ("18", "First 20.\n#### 18", 1.0),
        ("1234", "Final answer: **1,234.**\n", 1.0),
        ("Paris", "Answer: London? No.\nThe final answer: Paris", 1.0),
        ("Paris", "I thought of London.\nparis", 1.0),
        ("18", "#### 180", 0.0),
        ("ß", "ANSWER: ß", 1.0),
    ];
    for (expected, answer, value) in rows {
        let sample = Sample::new("s", "q").expected(expected);
        let found = score(
            json!({ "answer": { "as": "final" } }),
            &answered(answer),
            &sample,
        );
        assert_eq!(found.value, value, "{answer:?}: {}", found.why);
    }
}

#[test]
fn json_is_held_to_its_schema_and_its_fields() {
    let scorer = json!({ "json": {
        "schema": { "type": "object", "required": ["total"] },
        "fields": { "/total": 95.2, "/lines/0": "vat" },
    } });
    let sample = Sample::new("s", "q");
    let value = |answer: &str| score(scorer.clone(), &answered(answer), &sample).value;
    assert_eq!(
        value("Here:\n```json\n{\"total\": 95.20, \"lines\": [\"vat\"]}\n```"),
        1.0
    );
    assert_eq!(value("{\"total\": 95.2}"), 0.5);
    assert_eq!(value("{\"lines\": [\"vat\"]}"), 0.0);
    assert_eq!(value("none"), 0.0);
    let other = Sample::new("s", "q").expected(json!({ "total": 3 }));
    let found = score(
        scorer.clone(),
        &answered("{\"total\": 3, \"lines\": [\"vat\"]}"),
        &other,
    );
    assert!(
        found.passes(),
        "the sample's own value goes before: {}",
        found.why
    );
}

#[test]
fn citations_name_what_a_tool_gave_and_what_it_says() {
    let found = "[k3] manual.md\n| Parcels are brought by noon, for 5 euros.\n";
    let with = |answer: &str| {
        let mut recording = called(vec![call("document_search", json!({})).result(found)]);
        recording.end = Some(End::Answered(answer.to_owned()));
        recording
    };
    let sample = Sample::new("s", "q");
    let value = |scorer: &Value, answer: &str| score(scorer.clone(), &with(answer), &sample).value;
    let scorer = json!({ "citations": {} });
    // An agent that makes up a passage is no tool that gave it.
    let mut told = with("Parcels are brought by noon [k3].");
    told.calls[0].by = AnsweredBy::Agent(String::from("clerk"));
    assert_eq!(score(scorer.clone(), &told, &sample).value, 0.0);
    assert_eq!(value(&scorer, "Parcels are brought by noon [k3]."), 1.0);
    assert_eq!(value(&scorer, "Parcels are brought by noon [zz9]."), 0.0);
    assert_eq!(
        value(&scorer, "Parcels are brought by noon for 7 euros [k3]."),
        0.0
    );
    assert_eq!(value(&scorer, "Parcels are brought by noon."), 1.0);
    let strict = json!({ "citations": { "require": true } });
    assert_eq!(value(&strict, "Parcels are brought by noon."), 0.0);
    assert_eq!(
        value(
            &strict,
            "Parcels are brought by noon [k3]. Letters are brought by night."
        ),
        0.5
    );
}

#[test]
fn latency_falls_from_good_to_bad() {
    let scorer = json!({ "latency": { "good_s": 0.1, "bad_s": 0.3 } });
    for (took, value) in [(50, 1.0), (100, 1.0), (200, 0.5), (300, 0.0), (900, 0.0)] {
        let mut recording = answered("x");
        recording.latency_ms = took;
        let found = score(scorer.clone(), &recording, &Sample::new("s", "q"));
        assert_eq!(found.value, value, "{took} ms");
    }
}

#[test]
fn demands_that_make_no_sense_are_refused() {
    for scorer in [
        json!({ "contains": {} }),
        json!({ "contains": { "all": [" "] } }),
        json!({ "pattern": {} }),
        json!({ "pattern": { "never": "(" } }),
        json!({ "length": {} }),
        json!({ "length": { "least": 3, "most": 2 } }),
        json!({ "latency": { "good_s": 3, "bad_s": 3 } }),
        json!({ "json": { "fields": { "total": 1 } } }),
        json!({ "json": { "schema": { "type": 3 } } }),
        json!({ "citations": { "support": 2 } }),
        json!({ "judge": { "rubric": "x" } }),
    ] {
        let spec: ScorerSpec = serde_json::from_value(scorer.clone()).unwrap();
        assert!(scorer_of(&spec).is_err(), "{scorer}");
    }
}
