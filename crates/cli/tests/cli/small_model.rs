//! `ghostlight eval optimise` with a real model: what it tells of the gain is what is recorded.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{own_command::Desk, small_server::SmallModel};

/// The most tries of the search.
const TRIES: u64 = 30;
/// How many of the questions are for learning, and as many for choosing; the others are sealed.
const PART: usize = 10;
const CAPITALS: [(&str, &str); 40] = [
    ("France", "Paris"),
    ("Italy", "Rome"),
    ("Spain", "Madrid"),
    ("Germany", "Berlin"),
    ("Japan", "Tokyo"),
    ("China", "Beijing"),
    ("Russia", "Moscow"),
    ("Egypt", "Cairo"),
    ("Greece", "Athens"),
    ("Norway", "Oslo"),
    ("Sweden", "Stockholm"),
    ("Finland", "Helsinki"),
    ("Denmark", "Copenhagen"),
    ("Poland", "Warsaw"),
    ("Austria", "Vienna"),
    ("Hungary", "Budapest"),
    ("Portugal", "Lisbon"),
    ("Ireland", "Dublin"),
    ("Cuba", "Havana"),
    ("Peru", "Lima"),
    ("Chile", "Santiago"),
    ("Kenya", "Nairobi"),
    ("Thailand", "Bangkok"),
    ("Vietnam", "Hanoi"),
    ("Iran", "Tehran"),
    ("Iraq", "Baghdad"),
    ("Turkey", "Ankara"),
    ("India", "New Delhi"),
    ("Canada", "Ottawa"),
    ("Australia", "Canberra"),
    ("Argentina", "Buenos Aires"),
    ("Belgium", "Brussels"),
    ("Romania", "Bucharest"),
    ("Bulgaria", "Sofia"),
    ("Ukraine", "Kyiv"),
    ("Morocco", "Rabat"),
    ("Ghana", "Accra"),
    ("Nepal", "Kathmandu"),
    ("Mexico", "Mexico City"),
    ("Colombia", "Bogota"),
];

fn desk(base_url: &str) -> Desk {
    let desk = Desk::new("says", json!({}));
    let sample = |(place, (country, capital)): (usize, &(&str, &str))| {
        let split = match place {
            place if place < PART => "train",
            place if place < 2 * PART => "validate",
            _ => "test",
        };
        let input = format!("What is the capital of {country}?");
        json!({ "id": country, "input": input, "expected": capital, "split": split }).to_string()
    };
    let samples: Vec<String> = CAPITALS.iter().enumerate().map(sample).collect();
    desk.write("cases.jsonl", &samples.join("\n"));
    let model = json!({ "provider": "openai", "model": "smollm2", "base_url": base_url });
    let team = json!({
        "name": "capitals",
        "models": { "small": model },
        "agent": {
            "name": "capitals",
            "model": "small",
            "instructions": "Answer with the name of the city alone.",
            "settings": { "temperature": 0.0, "max_tokens": 12 },
        },
    });
    desk.write("capitals.yaml", &team.to_string());
    let suite = json!({
        "evaluation": "capitals",
        "team": "capitals.yaml",
        "data": [{ "file": "cases.jsonl" }],
        "scorers": [{ "answer": { "as": "contains" } }],
        "concurrency": 1,
        "optimise": { "method": "bootstrap", "tries": TRIES },
    });
    desk.write("suite.yaml", &suite.to_string());
    desk
}

/// The answers of all cells that are recorded, by their teams and samples; and how many cells there are.
fn recorded(desk: &Desk) -> (BTreeMap<(String, String), String>, u64) {
    let (mut answers, mut count) = (BTreeMap::new(), 0);
    for row in desk.rows() {
        let team = row["team"].as_str().unwrap().to_owned();
        let key = row["session"]["key"].as_str().unwrap();
        let sample = key.split('/').nth(1).unwrap().to_owned();
        let run = row["run"].as_str().unwrap();
        let shown = desk.shipped(&["show", run, "--json"]).exits(0).json();
        let mut ends = shown
            .iter()
            .filter_map(|line| line["data"]["end"]["answered"].as_str());
        // A run that was cut off has none.
        answers.insert(
            (team, sample),
            ends.next_back().unwrap_or_default().to_owned(),
        );
        count += 1;
    }
    (answers, count)
}

#[test]
fn a_real_models_gain_is_told_as_it_is_recorded_and_no_try_is_over_budget() {
    let Some(server) = SmallModel::start() else {
        return;
    };
    let desk = desk(&server.base_url);
    let search = ["eval", "optimise", "suite.yaml", "--json"];
    let found = desk.shipped(&search).exits(0);
    let told: Value = serde_json::from_str(&found.out).unwrap();
    let (answers, count) = recorded(&desk);
    assert_eq!(count, answers.len() as u64, "no cell is recorded twice");
    let is_sealed = |sample: &str| {
        let mut sealed = CAPITALS[2 * PART..].iter();
        sealed.any(|(country, _)| *country == sample)
    };
    let tries = answers.keys().filter(|(_, sample)| !is_sealed(sample));
    let tries = tries.count() as u64;
    assert_eq!(told["tries"], tries);
    assert!(tries <= TRIES, "{tries} tries");
    // The share of right answers among a team's with the sealed questions.
    let right = |team: &str| {
        let right = CAPITALS[2 * PART..].iter().filter(|(country, capital)| {
            let answer = &answers[&(team.to_owned(), (*country).to_owned())];
            answer.to_lowercase().contains(&capital.to_lowercase())
        });
        right.count() as f64 / (CAPITALS.len() - 2 * PART) as f64
    };
    let sealed = answers.keys().filter(|(_, sample)| is_sealed(sample));
    let mut teams: Vec<&String> = sealed.map(|(team, _)| team).collect();
    teams.dedup();
    let gain = &told["gain"];
    if gain.is_null() {
        assert!(teams.is_empty(), "without a gain nothing was unsealed");
    } else {
        let [base, best] = teams.as_slice() else {
            panic!("{teams:?}");
        };
        let (base, best) = (right(base), right(best));
        let close = |told: &Value, is: f64| (told.as_f64().unwrap() - is).abs() < 1e-9;
        let measure = &gain["measure"];
        assert!(close(&measure["base"], base), "{base}: {measure}");
        assert!(close(&measure["other"], best), "{best}: {measure}");
        assert!(close(&measure["difference"], best - base), "{measure}");
    }
    let text = desk.shipped(&["eval", "optimise", "suite.yaml"]).exits(0);
    println!("{}", text.out);
    assert_eq!(recorded(&desk).1, count, "the model is not asked again");
}
