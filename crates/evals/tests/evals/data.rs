//! Samples are read line by line, and a line that cannot be read is named.

use std::fs;

use ghostlight_evals::suite::{DataSpec, Sample, SuiteSpec, load};

fn written(text: &str) -> (tempfile::TempDir, Vec<DataSpec>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cases.jsonl"), text).unwrap();
    (folder, vec![DataSpec::File("cases.jsonl".into())])
}

#[test]
fn a_bad_line_is_named_and_the_others_stay() {
    let lines = [
        r#"{"input": "one"}"#,
        r#"{"input": "#,
        "",
        r#"{"id": "three", "inputs": "a misspelt field"}"#,
        r#"{"id": "four"}"#,
        r#"{"id": "five", "turns": ["a", " "]}"#,
        r#"{"id": "six", "turns": ["a", "b"]}"#,
    ];
    let (folder, data) = written(&lines.join("\n"));
    let found = load(&data, folder.path()).unwrap();
    let ids: Vec<&str> = found
        .samples
        .iter()
        .map(|sample| sample.id.as_str())
        .collect();
    assert_eq!(ids, ["cases-1", "six"]);
    let left_out: Vec<String> = found.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 4);
    for (fault, line) in left_out.iter().zip([
        "cases.jsonl:2",
        "cases.jsonl:4",
        "cases.jsonl:5",
        "cases.jsonl:6",
    ]) {
        assert!(fault.contains(line), "{fault}");
    }
}

#[test]
fn an_id_that_two_samples_have_is_refused_with_both_places() {
    let (folder, mut data) = written("{\"id\": \"a\", \"input\": \"one\"}\n");
    data.push(DataSpec::Inline(vec![Sample::new("a", "two")]));
    let told = load(&data, folder.path()).unwrap_err().to_string();
    assert!(
        told.contains("inline sample 1") && told.contains("cases.jsonl:1"),
        "{told}"
    );
}

#[test]
fn a_line_without_an_end_is_not_read_into_memory() {
    let long = "x".repeat((16 << 20) + 2);
    let (folder, data) = written(&format!("{long}\n{{\"input\": \"one\"}}\n{long}"));
    let found = load(&data, folder.path()).unwrap();
    assert_eq!(found.samples.len(), 1, "the lines behind it are read");
    for (fault, line) in found
        .left_out
        .iter()
        .zip(["cases.jsonl:1", "cases.jsonl:3"])
    {
        let told = fault.to_string();
        assert!(told.contains(line) && told.contains("bytes"), "{told}");
    }
    assert_eq!(found.left_out.len(), 2);
}

#[test]
fn the_schema_takes_what_is_read_and_nothing_else() {
    let schema = SuiteSpec::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let suite = serde_json::json!({
        "evaluation": "desk", "team": "desk.yaml", "data": [{ "file": "cases.jsonl" }],
        "scorers": [
            { "answer": { "as": "number", "tolerance": 0.01 } },
            { "contains": { "all": ["x"] } }, { "pattern": { "never": "x" } },
            { "json": { "fields": { "/a": 1 } } }, { "format": { "is": "one_line" } },
            { "length": { "most": 9 } }, { "latency": { "good_s": 0.001, "bad_s": 0.002 } },
            { "citations": { "require": true } }, { "refusals": { "wanted": ["harmful"] } },
            { "judge": { "rubric": "kind.md", "by": ["good"], "human": "labels.jsonl", "agreement": 0.6 } },
            { "command": { "run": ["./score.py"] } },
            { "composite": { "of": { "answer": 2, "length": 1 }, "pass": 0.8 } },
        ],
        "watch": ["length"],
        "reward": { "sum": [{ "of": "answer" }, { "of": "steps", "weight": -0.01 }] },
        "pairwise": [{ "rubric": "Which is kinder?", "pairs": "all" }],
    });
    assert!(
        validator.is_valid(&suite),
        "{:?}",
        validator.validate(&suite).err()
    );
    let read: SuiteSpec = serde_json::from_value(suite.clone()).unwrap();
    assert_eq!(read.scorers.len(), 12);
    let mut wrong = suite;
    wrong["scorers"][1]["contains"]["every"] = serde_json::json!(["x"]);
    assert!(!validator.is_valid(&wrong));
    assert!(serde_json::from_value::<SuiteSpec>(wrong).is_err());
}
