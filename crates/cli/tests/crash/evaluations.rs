//! An evaluation whose command is killed again and again ends with the report of one that is left alone.

use std::{collections::BTreeSet, process::Output, time::Instant};

use ghostlight_actors::contract::SeededEntropy;
use serde_json::{Value, json};

use crate::{FILE, Scene, kill_within, run, subject, violations};

/// How often each sample is tried in each of two variants.
const REPEAT: usize = 4;

/// Writes an evaluation of so many samples, whose agent charges and puts, and whose answers a model judges; gives the path.
fn written(scene: &Scene, samples: usize) -> String {
    let samples: Vec<Value> = (1..=samples)
        .map(
            |number| json!({ "id": format!("s{number}"), "input": format!("charge for {number}") }),
        )
        .collect();
    let suite = json!({
        "evaluation": "charged", "team": "team.yaml", "data": [{ "inline": samples }], "repeat": REPEAT,
        "variants": { "base": {}, "other": { "agent": { "instructions": "Charge once." } } },
        "scorers": [
            { "answer": { "as": "exact", "expected": "charge12+put12" } },
            { "effects": { "once": true } },
            { "judge": { "name": "helpful", "rubric": "The answer names a charge." } },
        ],
        "watch": ["helpful"],
    });
    let agent = json!({ "name": "desk", "behavior": "helper", "tools": ["charge", "put"] });
    let write = |name: &str, value: &Value| {
        let path = scene.folder.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    write("team.yaml", &json!({ "name": "crash", "agent": agent }));
    write("suite.yaml", &suite)
}

/// The report in what the command printed, without the times, which differ from one life to the next.
fn report(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let json = &printed[printed.find("\n{").unwrap()..];
    let json = &json[..=json.rfind('}').unwrap()];
    let mut report: Value = serde_json::from_str(json).unwrap();
    for cell in report["cells"].as_array_mut().unwrap() {
        cell["latency_ms"].take();
    }
    for variant in report["variants"].as_array_mut().unwrap() {
        variant["median_latency_ms"].take();
    }
    report
}

/// `GHOSTLIGHT_KILLS=1000 cargo nextest run --test crash evaluation --no-capture` is the soak; from 100 kills on it is one of 800
/// cells.
#[test]
#[allow(clippy::print_stdout)]
fn an_evaluation_that_is_killed_at_random_times_ends_with_the_same_report() {
    let kills: u64 = std::env::var("GHOSTLIGHT_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let samples = if kills >= 100 { 100 } else { 10 };
    let all = 2 * REPEAT * samples;
    let begun = Instant::now();
    let expected = {
        let scene = Scene::new(FILE, "evaluation");
        report(&run(&mut scene.command(&[
            "eval",
            &written(&scene, samples),
            "--json",
        ])))
    };
    let most = begun.elapsed();
    assert_eq!(expected["cells"].as_array().unwrap().len(), all);
    assert_eq!(expected["variants"][0]["success"]["estimate"], 1.0);
    let chance = SeededEntropy::new(kills);
    let (mut killed, mut lives, mut in_the_middle) = (0, Vec::new(), 0);
    while killed < kills {
        let scene = Scene::new(FILE, &format!("evaluation-{killed}"));
        let suite = written(&scene, samples);
        let (mut recorded, mut done) = (BTreeSet::new(), 0);
        let before = killed;
        // Each life begins where the last one ended, and the evaluation is done after some.
        while recorded.len() < 2 * all && killed < kills {
            let mut child = scene.command(&["eval", &suite, "--json"]).spawn().unwrap();
            kill_within(most / 2, &mut child, &chance);
            killed += 1;
            assert_eq!(violations(&scene, &recorded, done), Vec::<String>::new());
            let now = scene.recorded();
            assert!(
                now.is_superset(&recorded),
                "nothing that is recorded is lost"
            );
            in_the_middle += usize::from(!now.is_empty() && now.len() < 2 * all);
            (recorded, done) = (now, subject::effects(&scene.effects).len());
        }
        let output = run(&mut scene.command(&["eval", &suite, "--json"]));
        assert_eq!(
            report(&output),
            expected,
            "killed {} times",
            killed - before
        );
        assert_eq!(violations(&scene, &recorded, done), Vec::<String>::new());
        scene.verify();
        lives.push(killed - before);
    }
    println!(
        "{killed} kills, {in_the_middle} in the middle of it; kills of each evaluation: {lives:?}"
    );
    assert!(in_the_middle > 0, "no kill came while it was at work");
}
