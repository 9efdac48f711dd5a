//! A gate also asks for rewards and for what judges of pairs prefer, and says what it lacks.

use ghostlight_actors::{contract::InMemoryStore, testing::ScriptedModel};
use ghostlight_evals::{Evaluation, Report, suite::Sample};
use serde_json::{Value, json};

use crate::judging::{judge, reported, suite, team};

/// Twelve samples in two variants, of which `long` has seven more characters in each answer.
fn evaluation(change: Value) -> Result<Evaluation, ghostlight_evals::EvaluationFault> {
    let mut whole = json!({
        "scorers": [{ "effects": {} }],
        "variants": { "base": {}, "long": { "agent": { "instructions": "Please " } } },
    });
    let object = whole.as_object_mut().unwrap();
    object.extend(change.as_object().unwrap().clone());
    let samples = (0..12).map(|n| Sample::new(format!("s{n}"), "x".repeat(n + 1)));
    Evaluation::new(suite(whole), &team(), samples.collect())
}

async fn report(change: Value, model: &ScriptedModel) -> Report {
    let evaluation = evaluation(change).unwrap();
    reported(InMemoryStore::new(), &evaluation, &[("judge", model)]).await
}

fn faults(report: &Report) -> Vec<String> {
    report.gate.as_ref().unwrap().faults.clone()
}

/// A judge that prefers the shorter answer, and gives 5 points of 5.
fn brief() -> ScriptedModel {
    judge(|material| {
        let length = |place: &str| material[place].as_str().map(str::len);
        let winner = match (length("A"), length("B")) {
            (Some(a), Some(b)) if a < b => "A",
            (Some(_), Some(_)) => "B",
            _ => return json!({ "reason": "fine", "score": 5 }).to_string(),
        };
        json!({ "reason": "shorter", "winner": winner }).to_string()
    })
}

#[tokio::test(start_paused = true)]
async fn a_gate_asks_for_the_reward() {
    let gate = |loss: f64| {
        json!({
            "reward": { "sum": [{ "of": "length", "weight": -0.1 }] },
            "gate": { "against": "base", "reward": { "not_worse_by": loss } },
        })
    };
    let refused = report(gate(0.5), &brief()).await;
    assert_eq!(faults(&refused), ["long: worse against base by reward"]);
    // Success differs in nothing, so nobody knows what a comparison of it would miss.
    let text = refused.text();
    assert!(
        text.contains("long against base by reward: worse; -0.700 [-0.967, -0.094]"),
        "{text}"
    );
    assert!(text.contains("what would be missed is unknown"), "{text}");
    assert!(!text.contains("below 0.0"), "{text}");
    let mut better = gate(0.5);
    better["reward"]["sum"][0]["weight"] = json!(0.1);
    assert!(report(better, &brief()).await.passes());
}

#[tokio::test(start_paused = true)]
async fn a_reward_that_rests_on_a_judge_that_nobody_agrees_with_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let labels: Vec<String> = (1..=5)
        .map(|score| {
            json!({ "input": "q", "answer": "a".repeat(score), "score": score }).to_string()
        })
        .collect();
    std::fs::write(folder.path().join("labels.jsonl"), labels.join("\n")).unwrap();
    let change = json!({
        "scorers": [{ "judge": { "rubric": "Is it kind?", "by": ["judge"], "human": "labels.jsonl", "agreement": 0.6 } }],
        "variants": { "base": {}, "long": { "agent": { "instructions": "Please " } } },
        "reward": { "sum": [{ "of": "judge" }] },
        "gate": { "against": "base", "reward": { "not_worse_by": 0.1 } },
    });
    let samples = vec![Sample::new("one", "a"), Sample::new("two", "b")];
    let evaluation = Evaluation::in_folder(suite(change), &team(), samples, folder.path()).unwrap();
    let model = brief();
    let report = reported(InMemoryStore::new(), &evaluation, &[("judge", &model)]).await;
    let wanted = "the reward rests on the judge judge, which counts for nothing";
    assert_eq!(faults(&report), [wanted]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_asks_judges_of_pairs() {
    let change = json!({
        "pairwise": [{ "rubric": "Which is shorter?", "by": ["judge"] }],
        "gate": { "against": "base", "pairwise": { "not_worse_by": 0.1 } },
    });
    let refused = report(change.clone(), &brief()).await;
    assert_eq!(
        faults(&refused),
        ["long: worse against base by preferred (wins 0 %)"]
    );
    let always = judge(|_| String::from("{\"reason\": \"first\", \"winner\": \"A\"}"));
    let biased = report(change.clone(), &always).await;
    assert!(
        faults(&biased)[0].contains("the place of an answer decides"),
        "{:?}",
        biased.gate
    );
    let fond = judge(|material| {
        let length = |place: &str| material[place].as_str().unwrap().len();
        let winner = if length("A") > length("B") { "A" } else { "B" };
        json!({ "reason": "longer", "winner": winner }).to_string()
    });
    assert!(report(change, &fond).await.passes());
}

#[tokio::test(start_paused = true)]
async fn a_variant_does_not_pass_by_answers_that_make_verdicts_unreadable() {
    let reward = json!({ "sum": [{ "of": "judge" }] });
    for (gate, told) in [
        (
            json!({ "success": { "not_worse_by": 0.2 } }),
            "worse against base",
        ),
        (
            json!({ "reward": { "not_worse_by": 0.2 } }),
            "worse against base by reward",
        ),
    ] {
        let mut change = json!({
            "variants": { "base": {}, "long": { "agent": { "instructions": "Please " } } },
            "reward": reward, "gate": { "against": "base" },
        });
        let object = change["gate"].as_object_mut().unwrap();
        object.extend(gate.as_object().unwrap().clone());
        let samples = (0..60).map(|n| Sample::new(format!("s{n}"), "x".repeat(n + 1)));
        let evaluation = Evaluation::new(suite(change), &team(), samples.collect()).unwrap();
        let scores = |unreadable: usize| {
            judge(move |material| {
                let answer = material["answer"].as_str().unwrap();
                let is_muddled = answer.starts_with("Please") && answer.len() % 60 < unreadable;
                let score = if answer.len() % 2 == 0 { 5 } else { 4 };
                match is_muddled {
                    true => String::from("It depends."),
                    false => json!({ "reason": "fine", "score": score }).to_string(),
                }
            })
        };
        let clear = scores(0);
        let clear = reported(InMemoryStore::new(), &evaluation, &[("judge", &clear)]).await;
        assert!(clear.passes(), "{:?}", clear.gate);
        let muddled = scores(30);
        let muddled = reported(InMemoryStore::new(), &evaluation, &[("judge", &muddled)]).await;
        assert_eq!(muddled.variants[1].counts.unreadable, 30);
        let wanted = format!("long: {told}, where what has no verdict counts as the lowest");
        assert_eq!(faults(&muddled), [wanted]);
    }
}

#[test]
fn a_gate_that_measures_nothing_is_refused() {
    let alone = json!({
        "variants": {}, "gate": { "against": "base", "success": { "not_worse_by": 0.1 } },
    });
    let told = evaluation(alone).unwrap_err().to_string();
    assert!(told.contains("there is one"), "{told}");
    for (gate, wanted) in [
        (
            json!({ "against": "base", "reward": { "not_worse_by": 1 } }),
            "needs the suite's `reward`",
        ),
        (
            json!({ "against": "base", "pairwise": { "not_worse_by": 0.1 } }),
            "needs the suite's `pairwise`",
        ),
        (json!({ "reward": { "not_worse_by": 1 } }), "gate.against"),
        (
            json!({ "against": "base", "success": { "not_worse_by": -1 } }),
            "below 1",
        ),
    ] {
        let told = evaluation(json!({ "gate": gate })).unwrap_err().to_string();
        assert!(told.contains(wanted), "{told}");
    }
}
