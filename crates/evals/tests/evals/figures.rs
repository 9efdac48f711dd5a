//! Statistics agree with scipy and choix on random cases, whose figures `figures.py` writes. Fewer of them are in
//! `oracles.rs`, which always runs.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader},
};

use ghostlight_evals::statistics::{
    Clustered, Comparison, Game, Pair, bradley_terry, holm, mcnemar, pass_at_k, pass_hat_k, wilson,
};
use serde_json::Value;

/// How far two figures may lie apart.
const CLOSE: f64 = 1e-9;

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

/// What is found, beside what the row says it is.
fn found(row: &Value) -> Vec<(f64, f64)> {
    let of = |name: &str| row[name].as_f64().unwrap();
    let whole = |name: &str| row[name].as_u64().unwrap();
    match row["kind"].as_str().unwrap() {
        "wilson" => {
            let interval = wilson(whole("successes"), whole("trials")).unwrap();
            vec![(interval.lower, of("lower")), (interval.upper, of("upper"))]
        }
        "mean" => {
            let groups = row["groups"].as_array().unwrap().iter().map(numbers);
            let mean = Clustered::new(groups).mean().unwrap();
            let interval = mean.interval.unwrap();
            vec![
                (mean.estimate, of("mean")),
                (interval.lower, of("lower")),
                (interval.upper, of("upper")),
            ]
        }
        "paired" => {
            let sides = numbers(&row["base"])
                .into_iter()
                .zip(numbers(&row["other"]));
            let pairs: Vec<Pair> = sides
                .enumerate()
                .map(|(place, (base, other))| Pair {
                    cluster: place.to_string(),
                    base: vec![base],
                    other: vec![other],
                })
                .collect();
            let comparison = Comparison::of(&pairs).unwrap();
            let interval = comparison.interval.unwrap();
            vec![
                (interval.lower, of("lower")),
                (interval.upper, of("upper")),
                (comparison.p.unwrap(), of("p")),
                (comparison.detectable.unwrap(), of("detectable")),
            ]
        }
        "mcnemar" => {
            let test = mcnemar(whole("one"), whole("two"));
            let mid = row["mid"].as_f64().map(|mid| (test.mid, mid));
            [(test.exact, of("exact"))].into_iter().chain(mid).collect()
        }
        "repeats" => {
            let (trials, successes, k) = (whole("trials"), whole("successes"), whole("k"));
            vec![
                (pass_at_k(trials, successes, k).unwrap(), of("any")),
                (pass_hat_k(trials, successes, k).unwrap(), of("all")),
            ]
        }
        "strengths" => {
            let games = row["games"].as_array().unwrap().iter().map(|game| Game {
                first: game[0].as_u64().unwrap() as usize,
                second: game[1].as_u64().unwrap() as usize,
                won: game[2].as_f64().unwrap(),
            });
            let games: Vec<Game> = games.collect();
            let logs = bradley_terry(whole("contenders") as usize, &games);
            match (logs, row["logs"].is_null()) {
                (Some(logs), false) => logs.into_iter().zip(numbers(&row["logs"])).collect(),
                (None, true) => Vec::new(),
                (logs, _) => panic!("{logs:?}: {row}"),
            }
        }
        _ => {
            let adjusted = holm(&numbers(&row["values"]));
            adjusted
                .into_iter()
                .zip(numbers(&row["adjusted"]))
                .collect()
        }
    }
}

#[test]
#[ignore = "needs the figures of figures.py in the file that GHOSTLIGHT_FIGURES names"]
fn every_figure_is_that_of_scipy_or_choix() {
    let path = std::env::var("GHOSTLIGHT_FIGURES").unwrap();
    let (mut kinds, mut differ) = (BTreeMap::<String, (u32, f64)>::new(), Vec::new());
    for line in BufReader::new(File::open(path).unwrap()).lines() {
        let row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let kind = row["kind"].as_str().unwrap().to_owned();
        let (count, most) = kinds.entry(kind).or_default();
        *count += 1;
        for (ours, theirs) in found(&row) {
            *most = most.max((ours - theirs).abs());
            if (ours - theirs).abs() >= CLOSE {
                differ.push(format!("{ours} is not {theirs}: {row}"));
            }
        }
    }
    println!("by kind, the cases and the largest difference: {kinds:?}");
    let count: u32 = kinds.values().map(|(count, _)| count).sum();
    assert!(count >= 1_000, "{count}");
    assert!(
        differ.is_empty(),
        "{} of {count}: {}",
        differ.len(),
        differ[0]
    );
}
