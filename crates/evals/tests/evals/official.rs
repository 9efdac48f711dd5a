//! The checkers of benchmarks agree with the official ones, whose verdicts `official.py` writes: each seventh of them, all with
//! `GHOSTLIGHT_WHOLE_BENCHMARKS=1`, or those in the file that `GHOSTLIGHT_VERDICTS` names.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use ghostlight_actors::vocabulary::{AnsweredBy, Arguments, ToolStatus};
use ghostlight_evals::{
    End, RecordedCall, Recording,
    scorers::{Scorer, ScorerSpec, scorer_of},
    suite::Sample,
};
use serde_json::{Value, json};

fn scorer(spec: Value) -> Box<dyn Scorer> {
    let spec: ScorerSpec = serde_json::from_value(spec).unwrap();
    scorer_of(&spec).unwrap()
}

/// The verdicts, and the program that writes them; `None` where they are left out.
fn verdicts() -> Option<(Box<dyn BufRead>, Option<Child>)> {
    if let Some(path) = std::env::var_os("GHOSTLIGHT_VERDICTS") {
        return Some((Box::new(BufReader::new(File::open(path).unwrap())), None));
    }
    // A Python with the benchmarks, as ./test names it.
    let python = std::env::var_os("GHOSTLIGHT_BENCHMARKS")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evals/official.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let written = child.stdout.take().unwrap();
    Some((Box::new(BufReader::new(written)), Some(child)))
}

#[test]
fn every_verdict_is_that_of_the_official_checker() {
    let Some((verdicts, writer)) = verdicts() else {
        return;
    };
    let (bfcl, gaia) = (
        scorer(json!({ "bfcl": {} })),
        scorer(json!({ "answer": { "as": "gaia" } })),
    );
    let (mut count, mut differ) = (0_u32, Vec::new());
    let whole = ["GHOSTLIGHT_VERDICTS", "GHOSTLIGHT_WHOLE_BENCHMARKS"];
    let is_whole = whole.iter().any(|name| std::env::var_os(name).is_some());
    let step = if is_whole { 1 } else { 7 };
    for line in verdicts.lines().step_by(step) {
        let row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let mut recording = Recording::default();
        let mut sample = Sample::new("one", "?").expected(row["expected"].clone());
        if let Some(answer) = row["answer"].as_str() {
            recording.end = Some(End::Answered(answer.to_owned()));
        }
        let scorer = match row["kind"].as_str().unwrap() {
            "bfcl" => {
                for call in row["calls"].as_array().unwrap() {
                    let (name, arguments) = call.as_object().unwrap().iter().next().unwrap();
                    recording.calls.push(RecordedCall::new(
                        name,
                        Arguments::from(arguments.clone()),
                        ToolStatus::Success,
                        AnsweredBy::Tool,
                    ));
                }
                for name in ["category", "functions"] {
                    sample.metadata.insert(name.to_owned(), row[name].clone());
                }
                &bfcl
            }
            _ => &gaia,
        };
        let score = scorer.score(&recording, &sample);
        count += 1;
        if row["verdict"] != score.passes() {
            differ.push(format!("{}: {row}", score.why));
        }
    }
    assert!(writer.is_none_or(|mut writer| writer.wait().unwrap().success()));
    let least = 30_000 / step;
    assert!(count as usize > least, "{count}");
    let first: Vec<&String> = differ.iter().take(10).collect();
    assert!(
        differ.is_empty(),
        "{} of {count} differ: {first:#?}",
        differ.len()
    );
}
