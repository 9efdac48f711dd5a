//! Judges of pairs are asked in both orders, and one that goes by the place is caught.

use ghostlight_actors::{contract::InMemoryStore, testing::ScriptedModel};
use ghostlight_evals::{Evaluation, PairwiseReport, Report, suite::Sample};
use serde_json::{Value, json};

use crate::judging::{judge, reported, suite, team};

fn samples(count: usize) -> Vec<Sample> {
    (0..count)
        .map(|n| Sample::new(format!("s{n}"), format!("say {n}")))
        .collect()
}

fn pairwise(spec: Value) -> Value {
    json!({
        "scorers": [{ "effects": {} }],
        "variants": { "base": {}, "kind": { "agent": { "instructions": "Please: " } } },
        "pairwise": [spec],
    })
}

async fn asked(change: Value, count: usize, model: &ScriptedModel) -> Report {
    let evaluation = Evaluation::new(suite(change), &team(), samples(count)).unwrap();
    reported(InMemoryStore::new(), &evaluation, &[("judge", model)]).await
}

async fn preferred(count: usize, model: &ScriptedModel) -> PairwiseReport {
    let change = pairwise(json!({ "rubric": "Which is kinder?", "by": ["judge"] }));
    asked(change, count, model).await.pairwise.swap_remove(0)
}

/// A judge that prefers the longer answer.
fn fair() -> ScriptedModel {
    judge(|material| {
        let length = |place: &str| material[place].as_str().unwrap().len();
        let winner = match length("A").cmp(&length("B")) {
            std::cmp::Ordering::Greater => "A",
            std::cmp::Ordering::Less => "B",
            std::cmp::Ordering::Equal => "tie",
        };
        json!({ "reason": "longer", "winner": winner }).to_string()
    })
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_reads_prefers_the_same_answer_in_both_orders() {
    let model = fair();
    let report = preferred(12, &model).await;
    let pair = &report.pairs[0];
    assert_eq!((pair.base.as_str(), pair.other.as_str()), ("base", "kind"));
    assert_eq!((pair.wins, pair.losses, pair.ties), (12, 0, 0));
    assert_eq!(pair.win_rate, Some(1.0));
    assert_eq!(model.calls(), 24);
    assert_eq!(report.model_calls, 24);
    assert!((pair.p - 2.0 * 0.5_f64.powi(12)).abs() < 1e-15);
    assert_eq!(report.position.bias, 0.0);
    assert!(!report.position.is_biased);
    assert!(report.ranking.is_empty(), "who won all has no strength");
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_always_says_a_is_caught() {
    let model = judge(|_| String::from("{\"reason\": \"clearly\", \"winner\": \"A\"}"));
    let change = pairwise(json!({ "rubric": "Which is kinder?", "by": ["judge"] }));
    let report = asked(change, 12, &model).await;
    let found = &report.pairwise[0];
    let pair = &found.pairs[0];
    assert_eq!((pair.wins, pair.losses, pair.inconsistent), (0, 0, 12));
    assert_eq!(pair.win_rate, Some(0.5));
    assert_eq!((found.position.bias, found.position.is_biased), (1.0, true));
    assert!(
        report.text().contains("the place decides"),
        "{}",
        report.text()
    );
}

#[tokio::test(start_paused = true)]
async fn verdicts_that_cannot_be_read_leave_the_rate_and_are_counted() {
    let model = judge(|material| {
        let asked = material["asked"][0].as_str().unwrap();
        match asked {
            "say 0" | "say 1" => String::from("Both have their merits."),
            _ if material["A"].as_str().unwrap().starts_with("Please") => String::from("A"),
            _ => String::from("B"),
        }
    });
    let pair = &preferred(6, &model).await.pairs[0];
    assert_eq!((pair.wins, pair.unreadable), (4, 2));
    assert_eq!(pair.win_rate, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn variants_are_ranked_with_intervals() {
    let change = json!({
        "scorers": [{ "effects": {} }],
        "variants": {
            "base": {},
            "kind": { "agent": { "instructions": "Please: " } },
            "kinder": { "agent": { "instructions": "Please, dear: " } },
        },
        "pairwise": [{ "rubric": "Which is kinder?", "by": ["judge"], "pairs": "all" }],
    });
    // The longer one wins, but in every fourth sample the shorter one does.
    let model = judge(|material| {
        let length = |place: &str| material[place].as_str().unwrap().len();
        let asked = material["asked"][0].as_str().unwrap();
        let odd = asked
            .split(' ')
            .next_back()
            .unwrap()
            .parse::<usize>()
            .unwrap()
            % 4
            == 0;
        let first = (length("A") > length("B")) != odd;
        json!({ "reason": "r", "winner": if first { "A" } else { "B" } }).to_string()
    });
    let found = asked(change, 40, &model).await.pairwise.swap_remove(0);
    assert_eq!(found.pairs.len(), 3);
    let order: Vec<&str> = found
        .ranking
        .iter()
        .map(|rank| rank.variant.as_str())
        .collect();
    assert_eq!(order, ["kinder", "kind", "base"]);
    let sum: f64 = found.ranking.iter().map(|rank| rank.strength.log).sum();
    assert!(sum.abs() < 1e-9);
    for rank in &found.ranking {
        let interval = rank.strength.interval.unwrap();
        let log = rank.strength.log;
        assert!(interval.lower <= log && log <= interval.upper, "{rank:?}");
    }
    let pair = &found.pairs[0];
    let interval = pair.interval.unwrap();
    assert_eq!(pair.win_rate, Some(0.75));
    assert!(0.5 < interval.lower && interval.upper < 0.9, "{interval:?}");
}
