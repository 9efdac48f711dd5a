//! Benchmarks are read in the forms in which they are published, and large files without keeping them.

use std::{
    fs,
    io::{BufWriter, Write as _},
};

use ghostlight_evals::suite::{DataSpec, Samples, Wanted, load, load_wanted};
use serde_json::{Value, json};

fn read(spec: impl Fn(&str) -> DataSpec, files: &[(&str, &str)]) -> Samples {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    load(&[spec(files[0].0)], folder.path()).unwrap()
}

fn spec(value: Value) -> DataSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn gsm8k_has_its_number_behind_four_hashes() {
    let text = concat!(
        r#####"{"question": "How many?", "answer": "2+2=<<2+2=4>>4\n#### 1,234"}"#####,
        "\n",
        r#####"{"question": "How much?", "answer": "no number"}"#####,
        "\n",
        r#####"{"question": "What?", "answer": "#### -2.5"}"#####,
    );
    let found = read(
        |name| spec(json!({ "gsm8k": name })),
        &[("test.jsonl", text)],
    );
    assert_eq!(found.samples.len(), 2);
    let first = &found.samples[0];
    assert_eq!(
        (first.id.as_str(), &first.expected),
        ("test-1", &Some(json!(1234)))
    );
    assert_eq!(first.metadata["reasoning"], "2+2=<<2+2=4>>4");
    assert_eq!(found.samples[1].expected, Some(json!(-2.5)));
    assert!(
        found.left_out[0].to_string().contains("test.jsonl:2"),
        "{:?}",
        found.left_out
    );
}

#[test]
fn gaia_has_levels_files_and_answers_that_may_be_secret() {
    let text = concat!(
        r#"{"task_id": "c6", "Question": "Who?", "Level": 1, "Final answer": "Ann", "file_name": ""}"#,
        "\n",
        r#"{"task_id": "c7", "Question": "What?", "Level": "2", "Final answer": "?", "file_name": "c7.xlsx"}"#,
        "\n",
        r#"{"task_id": "c8", "Question": "What?", "Level": 3, "Final answer": "1", "file_name": "../../etc/passwd"}"#,
    );
    let found = read(
        |name| spec(json!({ "gaia": name })),
        &[("metadata.jsonl", text)],
    );
    let [plain, with_file] = found.samples.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(plain.expected, Some(json!("Ann")));
    assert_eq!(plain.tags, ["level-1"]);
    assert_eq!(plain.input.as_deref(), Some("Who?"));
    assert_eq!(
        (&with_file.expected, with_file.tags[0].as_str()),
        (&None, "level-2")
    );
    let input = with_file.input.as_deref().unwrap();
    assert!(
        input.ends_with("c7.xlsx") && input.starts_with("What?\n\nThe file: "),
        "{input}"
    );
    assert!(found.left_out[0].to_string().contains("metadata.jsonl:3"));
}

#[test]
fn bfcl_has_its_functions_and_the_answers_beside_it() {
    let questions = concat!(
        r#"{"id": "simple_python_1", "question": [[{"role": "user", "content": "Factorial of 5?"}]], "function": [{"name": "math.factorial", "description": "It.", "parameters": {"type": "dict", "properties": {"number": {"type": "float"}, "type": {"type": "any"}, "of": {"type": "tuple", "items": {"type": "integer"}}}, "required": ["number"]}}]}"#,
        "\n",
        r#"{"id": "simple_python_2", "question": [[{"role": "user", "content": "Again?"}]], "function": []}"#,
        "\n",
        r#"{"id": "multi_turn_base_0", "question": [[], []], "function": []}"#,
        "\n",
        r#"{"id": "live_irrelevance_0-0-0", "question": [[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]], "function": []}"#,
    );
    let answers =
        r#"{"id": "simple_python_1", "ground_truth": [{"math.factorial": {"number": [5]}}]}"#;
    let found = read(
        |name| spec(json!({ "bfcl": name })),
        &[
            ("BFCL.json", questions),
            ("possible_answer/BFCL.json", answers),
        ],
    );
    let [simple, irrelevant] = found.samples.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(
        simple.expected,
        Some(json!([{ "math.factorial": { "number": [5] } }]))
    );
    let tool = &simple.tools[0];
    assert_eq!(tool.name, "math_factorial");
    assert_eq!(
        tool.parameters,
        json!({ "type": "object", "required": ["number"], "properties": {
            "number": { "type": "number" }, "type": {},
            "of": { "type": "array", "items": { "type": "integer" } },
        }})
    );
    assert_eq!(simple.tags, ["simple_python"]);
    assert_eq!(irrelevant.metadata["category"], "live_irrelevance");
    assert_eq!(irrelevant.input.as_deref(), Some("Be kind.\n\nHi"));
    let left_out: Vec<String> = found.left_out.iter().map(ToString::to_string).collect();
    assert!(
        left_out[0].contains("no answer") && left_out[1].contains("2 turns"),
        "{left_out:?}"
    );
}

#[test]
fn bfcl_has_questions_whose_answers_are_remembered_or_found() {
    let questions = concat!(
        r#"{"id": "memory_0-customer-0", "question": [[{"role": "user", "content": "My name?"}]], "involved_classes": ["MemoryAPI"], "scenario": "customer"}"#,
        "\n",
        r#"{"id": "web_search_0", "question": [[{"role": "user", "content": "Who?"}]], "involved_classes": ["WebSearchAPI"]}"#,
        "\n",
        r#"{"id": "web_search_1", "question": [[{"role": "user", "content": "Where?"}]], "involved_classes": ["WebSearchAPI"]}"#,
    );
    let answers = concat!(
        r#"{"id": "memory_0-customer-0", "ground_truth": ["Michael"], "source": "My name is Michael."}"#,
        "\n",
        r#"{"id": "web_search_0", "ground_truth": ["Ann", "Anna"]}"#,
    );
    let found = read(
        |name| spec(json!({ "bfcl": name })),
        &[
            ("BFCL.json", questions),
            ("possible_answer/BFCL.json", answers),
        ],
    );
    let [remembered, found_there] = found.samples.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(remembered.tags, ["memory", "customer"]);
    assert_eq!(remembered.expected, Some(json!(["Michael"])));
    assert_eq!(found_there.metadata["category"], "web_search");
    assert!(found_there.tools.is_empty());
    assert!(found.left_out[0].to_string().contains("no answer"));
}

#[test]
fn tau2_has_the_calls_of_its_agent_alone() {
    let tasks = json!([
        { "id": "3", "user_scenario": { "persona": null, "instructions": {
            "task_instructions": "Be brief.", "domain": "retail", "reason_for_call": "You want a shirt.",
            "known_info": "You are Ann.", "unknown_info": null,
        }}, "evaluation_criteria": { "communicate_info": ["10"], "actions": [
            { "action_id": "1", "name": "find_user", "arguments": { "zip": "19122", "note": "x" }, "compare_args": ["zip"] },
            { "action_id": "2", "name": "toggle", "arguments": {}, "requestor": "user" },
            { "action_id": "3", "name": "ship", "arguments": { "to": "Ann" } },
        ]}},
        { "id": 4, "user_scenario": { "instructions": "You ask." }, "evaluation_criteria": null },
        { "id": "5" },
    ]);
    let found = read(
        |name| spec(json!({ "tau2": name })),
        &[("tasks.json", &tasks.to_string())],
    );
    let [first, second] = found.samples.as_slice() else {
        panic!("{found:?}")
    };
    let input = first.input.as_deref().unwrap();
    assert_eq!(input, "You want a shirt.\n\nYou are Ann.\n\nBe brief.");
    let calls = serde_json::to_value(first.calls.as_ref().unwrap()).unwrap();
    assert_eq!(
        calls,
        json!([
            { "tool": "find_user", "arguments": { "zip": "19122" }, "match": "subset" },
            { "tool": "ship", "arguments": { "to": "Ann" }, "match": "exact" },
        ])
    );
    assert_eq!(
        (&first.expected, first.tags[0].as_str()),
        (&Some(json!(["10"])), "retail")
    );
    assert_eq!(
        (second.id.as_str(), second.input.as_deref()),
        ("4", Some("You ask."))
    );
    assert!(found.left_out[0].to_string().contains("tasks.json, task 3"));
}

#[test]
fn only_what_is_wanted_is_kept_and_nothing_behind_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = BufWriter::new(fs::File::create(folder.path().join("cases.jsonl")).unwrap());
    for number in 0..200_000 {
        writeln!(file, r#"{{"id": "s{number}", "input": "{number}"}}"#).unwrap();
    }
    writeln!(file, "no json").unwrap();
    file.flush().unwrap();
    let data = [spec(json!({ "file": "cases.jsonl" }))];
    let load = |wanted: Wanted| load_wanted(&data, folder.path(), &wanted);
    let first = load(Wanted::new().limit(Some(3)).strict(true)).unwrap();
    assert_eq!((first.samples.len(), first.left_out.len()), (3, 0));
    let some = load(Wanted::new().only("s19999")).unwrap();
    let ids: Vec<&str> = some
        .samples
        .iter()
        .map(|sample| sample.id.as_str())
        .collect();
    assert_eq!(ids.len(), 11, "{ids:?}");
    assert!(some.left_out[0].to_string().contains("cases.jsonl:200001"));
    let refused = load(Wanted::new().only("s19999").strict(true)).unwrap_err();
    assert!(
        refused.to_string().contains("cases.jsonl:200001"),
        "{refused}"
    );
}

#[test]
fn of_very_many_bad_lines_the_first_are_told_and_the_others_counted() {
    let bad = "no json\n".repeat(Samples::MAX_TOLD + 7);
    let found = read(|name| spec(json!({ "file": name })), &[("bad.jsonl", &bad)]);
    assert_eq!(
        (found.left_out.len(), found.more_left_out),
        (Samples::MAX_TOLD, 7)
    );
}
