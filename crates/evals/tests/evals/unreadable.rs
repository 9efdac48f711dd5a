//! No text gains by verdicts that cannot be read.

use ghostlight_actors::{
    actor::System,
    contract::InMemoryStore,
    run::{BehaviorHandle, Registry, RunContext, Team},
    testing::ScriptedModel,
    vocabulary::{AgentError, ModelRequest, ModelResponse, Outcome},
};
use ghostlight_evals::{
    optimising::{Optimised, Optimiser},
    suite::SuiteSpec,
};
use serde_json::{Value, json};

use crate::optimising::{samples, team};

/// A judge that cannot be understood when an answer says so, and else says what it thinks of the answer.
fn judge() -> ScriptedModel {
    ScriptedModel::from_fn(|request: &ModelRequest, _| {
        let shown: Vec<String> = request
            .conversation
            .messages()
            .iter()
            .map(|message| message.content())
            .collect();
        let shown = shown.join("\n");
        let said = match (shown.contains("muddle"), shown.contains("clear")) {
            (true, _) => "It depends on how one looks at it.",
            (_, true) => "{\"reason\": \"r\", \"score\": 5}",
            _ => "{\"reason\": \"r\", \"score\": 3}",
        };
        Ok(ModelResponse::text(said))
    })
}

/// A judge that thinks well of everything.
fn lenient() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("{\"reason\": \"r\", \"score\": 5}")))
}

/// The result of a search whose agent answers what `answer` makes of its instructions and its input.
async fn judged(
    proposed: &'static str,
    change: Value,
    answer: fn(&str, usize) -> &'static str,
) -> Optimised {
    let mut suite = json!({
        "evaluation": "judged", "team": "desk.yaml", "data": [],
        "scorers": [{ "judge": { "name": "good", "by": ["judge"], "rubric": "Is it good?", "scale": 5 } }],
        "optimise": { "by": "good", "tries": 60 },
    });
    suite
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    let suite: SuiteSpec = serde_json::from_value(suite).unwrap();
    let folder = std::path::Path::new("");
    let optimiser = Optimiser::in_folder(suite, &team(), samples(8), folder).unwrap();
    let registry = Registry::new()
        .model(
            "writer",
            ScriptedModel::from_fn(move |_, _| {
                Ok(ModelResponse::text(json!({ "text": proposed }).to_string()))
            })
            .into(),
        )
        .model("judge", judge().into())
        .model("lenient", lenient().into())
        .behavior("keeps", move |_| {
            Ok(BehaviorHandle::from_fn(move |cx: RunContext| async move {
                let number: usize = cx.input().content().parse().unwrap();
                Ok::<_, AgentError>(Outcome::answer(answer(&cx.spec().instructions, number)))
            }))
        });
    let store = InMemoryStore::new();
    let start = async |teams: Vec<Team>| {
        let mut builder = System::builder(store.another_process()).recover(false);
        for team in teams {
            builder = builder.team(team);
        }
        builder.start().await
    };
    optimiser.run(start, &registry, |_| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_text_gains_by_verdicts_that_cannot_be_read() {
    // The proposed text answers one sample in four better, and makes the verdicts about the others unreadable.
    let muddled = |instructions: &str, number: usize| match instructions {
        "Muddle." if number.is_multiple_of(4) => "clear",
        "Muddle." => "muddle",
        _ => "plain",
    };
    let reward = json!({ "sum": [{ "of": "good" }] });
    let two_judges = json!([{ "judge": {
        "name": "good", "by": ["judge", "lenient"], "rubric": "Is it good?", "scale": 5,
    } }]);
    let rudeness = json!({ "sum": [{ "of": "good", "weight": -1.0 }] });
    for (method, mut change) in [
        ("gepa", json!({})),
        ("instructions", json!({})),
        ("gepa", json!({ "reward": reward })),
        ("gepa", json!({ "reward": rudeness })),
        ("gepa", json!({ "scorers": two_judges })),
        ("gepa", json!({ "scorers": two_judges, "reward": reward })),
    ] {
        let by = match change.get("reward") {
            Some(_) => "reward",
            None => "good",
        };
        change["optimise"] = json!({ "method": method, "by": by, "tries": 60 });
        let found = judged("Muddle.", change.clone(), muddled).await;
        assert!(found.proposals > 0, "{method}: nothing was proposed");
        assert!(
            found.patch.is_none(),
            "{method}, {change}: {}",
            found.text()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_gain_counts_unreadable_verdicts_as_the_lowest_and_tells_them() {
    // Two of the eight sealed samples are muddled by the better text, and no other one is.
    let found = judged(
        "Be clear.",
        json!({}),
        |instructions, number| match instructions {
            "Be clear." if number == 41 || number == 42 => "muddle",
            "Be clear." => "clear",
            _ => "plain",
        },
    )
    .await;
    let gain = found.gain.as_ref().unwrap();
    assert_eq!((gain.unreadable, gain.measure.comparison.samples), (2, 8));
    let (base, other) = (gain.measure.base, gain.measure.other);
    assert!((base - 0.6).abs() < 1e-9, "{base}");
    assert!((other - 0.75).abs() < 1e-9, "six of eight: {other}");
    assert!(
        gain.text().contains("2 verdicts could not be read"),
        "{}",
        gain.text()
    );
}
