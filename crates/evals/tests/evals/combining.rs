//! Programs that score, composites, rewards, and scorers that are only watched.

use ghostlight_actors::contract::InMemoryStore;
use ghostlight_evals::{Cell, CellResult, Evaluation, Report};
use serde_json::{Value, json};

use crate::judging::{reported, samples, suite, team};

async fn scored(change: Value, inputs: &[&str]) -> Report {
    let evaluation = Evaluation::new(suite(change), &team(), samples(inputs)).unwrap();
    reported(InMemoryStore::new(), &evaluation, &[]).await
}

fn shell(script: &str) -> Value {
    json!({ "command": { "run": ["sh", "-c", script], "timeout_s": 2 } })
}

/// What the command says of a cell whose answer is "hello".
async fn said(script: &str) -> Cell {
    let change = json!({ "scorers": [shell(script)] });
    scored(change, &["hello"]).await.cells.swap_remove(0)
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_reads_a_cell_and_prints_its_score() {
    let cell = said("grep -q '\"answer\":\"hello\"' && echo 1").await;
    assert_eq!(
        (cell.value("command"), cell.success()),
        (Some(1.0), Some(true))
    );
    let cell = said("echo '{\"score\": 0.5, \"why\": \"half\", \"passes\": true}'").await;
    assert_eq!(
        (cell.value("command"), cell.success()),
        (Some(0.5), Some(true))
    );
    assert_eq!(cell.scores().next().unwrap().1.why, "half");
    assert_eq!(said("echo 0.5").await.success(), Some(false));
    // One that does not read its input.
    assert_eq!(said("exec <&-; echo 1").await.success(), Some(true));
}

#[cfg(unix)]
#[tokio::test]
async fn what_a_program_does_wrong_is_unreadable_and_no_zero() {
    for (script, wanted) in [
        ("echo high", "no score"),
        ("echo 1.5", "from 0 to 1"),
        ("echo NaN", "from 0 to 1"),
        ("echo oops >&2; exit 3", "exit status: 3): oops"),
        ("sleep 30", "within 2000 ms"),
        ("yes | head -c 100000", "more than"),
        ("true", "no score"),
    ] {
        let cell = said(script).await;
        assert!(
            matches!(cell.result, CellResult::Unreadable { .. }),
            "{script}: {cell:?}"
        );
        assert_eq!(cell.success(), None);
        assert!(cell.why().contains(wanted), "{script}: {}", cell.why());
    }
    let missing = json!({ "scorers": [{ "command": { "run": ["/nowhere/at/all"] } }] });
    let cell = scored(missing, &["hello"]).await.cells.swap_remove(0);
    assert!(
        matches!(cell.result, CellResult::Unreadable { .. }),
        "{cell:?}"
    );
}

#[tokio::test]
async fn a_composite_is_the_weighted_mean_and_counts_instead_of_what_is_watched() {
    let change = json!({
        "scorers": [
            { "contains": { "all": ["hello"] } },
            { "length": { "most": 5 } },
            { "composite": { "of": { "contains": 3, "length": 1 }, "pass": 0.8 } },
        ],
        "watch": ["contains", "length"],
    });
    let report = scored(change.clone(), &["hello", "hello all", "adieu"]).await;
    let values: Vec<f64> = report
        .cells
        .iter()
        .map(|cell| cell.value("composite").unwrap())
        .collect();
    assert_eq!(values[0], 1.0);
    assert!((values[1] - (3.0 + 5.0 / 9.0) / 4.0).abs() < 1e-12);
    assert_eq!(values[2], 0.25);
    let success: Vec<_> = report.cells.iter().map(Cell::success).collect();
    assert_eq!(success, [Some(true), Some(true), Some(false)]);
    for (of, wanted) in [
        (json!({ "speed": 1 }), "speed"),
        (json!({ "contains": 0 }), "above 0"),
        (json!({}), "names no scorer"),
    ] {
        let mut wrong = change.clone();
        wrong["scorers"][2]["composite"]["of"] = of;
        let told = Evaluation::new(suite(wrong), &team(), samples(&["a"])).unwrap_err();
        assert!(told.to_string().contains(wanted), "{told}");
    }
}

#[tokio::test]
async fn a_reward_sums_scores_and_what_was_consumed() {
    let change = json!({
        "scorers": [{ "contains": { "all": ["hello"] } }],
        "reward": { "sum": [
            { "of": "contains", "weight": 2 },
            { "of": "length", "above": 5, "weight": -0.5 },
            { "of": "model_calls", "weight": -1 },
        ] },
    });
    let report = scored(change.clone(), &["hello", "hello all", "adieu all"]).await;
    let rewards: Vec<f64> = report
        .cells
        .iter()
        .map(|cell| cell.reward.unwrap())
        .collect();
    assert_eq!(rewards, [2.0, 0.0, -2.0]);
    let mean = report.variants[0].reward.unwrap();
    assert_eq!(mean.estimate, 0.0);
    assert!(
        mean.interval.unwrap().lower < -2.0,
        "a reward has no bounds"
    );
    assert!(report.text().contains("reward"), "{}", report.text());
    let mut wrong = change;
    wrong["reward"]["sum"][0]["of"] = json!("speed");
    let told = Evaluation::new(suite(wrong), &team(), samples(&["a"])).unwrap_err();
    assert!(told.to_string().contains("speed"), "{told}");
}
