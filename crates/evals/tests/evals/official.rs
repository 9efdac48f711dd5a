//! The checkers of benchmarks agree with the official ones, whose verdicts `official.py` writes.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
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

#[test]
#[ignore = "needs the verdicts of official.py in the file that GHOSTLIGHT_VERDICTS names"]
fn every_verdict_is_that_of_the_official_checker() {
    let path = std::env::var("GHOSTLIGHT_VERDICTS").unwrap();
    let (bfcl, gaia) = (
        scorer(json!({ "bfcl": {} })),
        scorer(json!({ "answer": { "as": "gaia" } })),
    );
    let (mut count, mut differ) = (0_u32, Vec::new());
    for line in BufReader::new(File::open(path).unwrap()).lines() {
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
    assert!(count > 30_000, "{count}");
    let first: Vec<&String> = differ.iter().take(10).collect();
    assert!(
        differ.is_empty(),
        "{} of {count} differ: {first:#?}",
        differ.len()
    );
}
