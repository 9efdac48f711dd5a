//! No variant gains by an answer that keeps a judge from judging, and a judge that is not trusted decides nothing.

use ghostlight_actors::{
    contract::{InMemoryStore, ModelError},
    testing::{Reply, ScriptedModel},
    vocabulary::{ErrorKind, ModelResponse},
};
use ghostlight_evals::{Compared, Evaluation, Report, suite::Sample};
use serde_json::{Value, json};

use crate::judging::{judge, material, reported, samples, suite, team};

/// A suite of two variants, of which `long` says "Please" first.
fn two_variants(change: &Value) -> Value {
    let mut whole = json!({
        "variants": { "base": {}, "long": { "agent": { "instructions": "Please " } } },
    });
    let object = whole.as_object_mut().unwrap();
    object.extend(change.as_object().unwrap().clone());
    whole
}

fn many() -> Vec<Sample> {
    (0..60)
        .map(|n| Sample::new(format!("s{n}"), "x".repeat(n + 1)))
        .collect()
}

/// Says what `muddled` gives of answers of `long`, and 2 points of 5 of all others.
fn strict(
    muddled: impl Fn() -> Result<&'static str, ErrorKind> + Send + Sync + 'static,
) -> ScriptedModel {
    ScriptedModel::from_reply_fn(move |request, _| {
        let shown = material(request)["answer"].as_str().unwrap().to_owned();
        let said = match shown.starts_with("Please") {
            true => muddled(),
            false => Ok("{\"reason\": \"curt\", \"score\": 2}"),
        };
        match said {
            Ok(said) => Reply::Respond(ModelResponse::text(said)),
            Err(kind) => Reply::Fail(ModelError::new(kind, "the request was refused")),
        }
    })
}

fn lenient() -> ScriptedModel {
    judge(|_| json!({ "reason": "fine", "score": 5 }).to_string())
}

fn faults(report: &Report) -> Vec<String> {
    report.gate.as_ref().unwrap().faults.clone()
}

#[tokio::test(start_paused = true)]
async fn a_variant_does_not_pass_by_making_the_stricter_judge_unreadable() {
    let both = json!([{ "judge": { "rubric": "Is it kind?", "by": ["judge", "lenient"] } }]);
    let composed = json!([
        { "judge": { "rubric": "Is it kind?", "by": ["judge", "lenient"] } },
        { "composite": { "of": { "judge": 1 }, "pass": 0.7 } },
    ]);
    let reward = json!({ "sum": [{ "of": "judge" }] });
    for (scorers, watch, gate, told) in [
        (&both, json!([]), "success", "worse against base"),
        (&composed, json!(["judge"]), "success", "worse against base"),
        (&both, json!([]), "reward", "worse against base by reward"),
    ] {
        let suite = suite(two_variants(&json!({
            "scorers": scorers, "watch": watch, "reward": reward,
            "gate": { "against": "base", gate: { "not_worse_by": 0.1 } },
        })));
        let evaluation = Evaluation::new(suite, &team(), many()).unwrap();
        let (strict, lenient) = (strict(|| Ok("It depends.")), lenient());
        let models = [("judge", &strict), ("lenient", &lenient)];
        let report = reported(InMemoryStore::new(), &evaluation, &models).await;
        // Both judges together give the base 3.5 of 5, which passes; of `long` only the lenient one can be read.
        assert_eq!(report.variants[1].success.unwrap().estimate, 1.0);
        let found = faults(&report);
        assert_eq!(found.len(), 1, "{gate}: {found:?}");
        assert_eq!(
            found[0],
            format!("long: {told}, where what has no verdict counts as the lowest"),
        );
        let of = |variant: &str| -> Vec<&ghostlight_evals::Cell> {
            let cells = report.cells.iter();
            cells.filter(|cell| cell.variant == variant).collect()
        };
        let compared = Compared::new(("base", &of("base")), ("long", &of("long")), 0.1);
        assert_eq!(
            (compared.verdict.as_str(), compared.unreadable),
            ("worse", 60)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_judge_cannot_be_shown_counts_as_an_unreadable_verdict() {
    for kind in [ErrorKind::ContextOverflow, ErrorKind::InvalidInput] {
        let suite = suite(two_variants(&json!({
            "scorers": [{ "judge": { "rubric": "Is it kind?", "by": ["judge"], "pass": 0.4 } }],
            "gate": { "against": "base", "success": { "not_worse_by": 0.5 } },
        })));
        let mut samples = many();
        // One in three of the answers of `long` is read, and good.
        for sample in samples.iter_mut().step_by(3) {
            sample.input = Some(String::from("short"));
        }
        let evaluation = Evaluation::new(suite, &team(), samples).unwrap();
        let refusing = kind.clone();
        let model = ScriptedModel::from_reply_fn(move |request, _| {
            let shown = material(request)["answer"].as_str().unwrap().to_owned();
            match shown.starts_with("Please x") {
                true => Reply::Fail(ModelError::new(refusing.clone(), "it is too long")),
                false => Reply::Respond(ModelResponse::text("{\"reason\": \"r\", \"score\": 4}")),
            }
        });
        let report = reported(InMemoryStore::new(), &evaluation, &[("judge", &model)]).await;
        let counts = report.variants[1].counts;
        assert_eq!(
            (counts.unreadable, counts.infrastructure),
            (40, 0),
            "{kind:?}"
        );
        let wanted = "long: worse against base, where what has no verdict counts as the lowest";
        assert_eq!(faults(&report), [wanted], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_refused_an_answer_is_asked_again_next_time() {
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(&["Please a"])).unwrap();
    let store = InMemoryStore::new();
    let failing = strict(|| Err(ErrorKind::InvalidInput));
    reported(store.clone(), &evaluation, &[("judge", &failing)]).await;
    let lenient = lenient();
    let again = reported(store.another_process(), &evaluation, &[("judge", &lenient)]).await;
    assert_eq!(again.cells[0].value("judge"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_tagged_sample_does_not_succeed_by_the_verdict_of_the_kinder_judge_alone() {
    let suite = suite(json!({
        "scorers": [{ "judge": { "rubric": "Is it kind?", "by": ["judge", "lenient"] } }],
        "gate": { "tags": { "smoke": "all" } },
    }));
    let mut asked = samples(&["Please a"]);
    asked[0].tags = vec![String::from("smoke")];
    let evaluation = Evaluation::new(suite, &team(), asked).unwrap();
    let (strict, lenient) = (strict(|| Ok("It depends.")), lenient());
    let models = [("judge", &strict), ("lenient", &lenient)];
    let report = reported(InMemoryStore::new(), &evaluation, &models).await;
    assert_eq!(report.cells[0].success(), Some(true));
    assert_eq!(faults(&report).len(), 1, "{:?}", report.gate);
}

#[tokio::test(start_paused = true)]
async fn no_variant_decides_whether_its_judge_counts() {
    let suite = suite(two_variants(&json!({
        "scorers": [
            { "effects": {} },
            { "judge": { "rubric": "Is it kind?", "by": ["judge", "other"], "agreement": 0.6 } },
        ],
        "gate": { "against": "base", "success": { "not_worse_by": 0.1 } },
    })));
    let evaluation = Evaluation::new(suite, &team(), many()).unwrap();
    // Both agree about the base; what `long` says makes them disagree, and neither likes it.
    let by = |disliked: [u64; 2]| {
        judge(move |material| {
            let answer = material["answer"].as_str().unwrap();
            let score = match (answer.starts_with("Please"), answer.len() % 2) {
                (true, place) => disliked[place],
                (false, place) => 4 + place as u64,
            };
            json!({ "reason": "r", "score": score }).to_string()
        })
    };
    let (one, two) = (by([1, 3]), by([3, 1]));
    let models = [("judge", &one), ("other", &two)];
    let report = reported(InMemoryStore::new(), &evaluation, &models).await;
    assert_eq!(
        (report.judges[0].alpha, report.judges[0].counts),
        (Some(1.0), true)
    );
    assert_eq!(faults(&report), ["long: worse against base"]);
}

#[tokio::test(start_paused = true)]
async fn a_persons_verdict_is_about_the_answer_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let labels = (0..4).map(|n| json!({ "sample": format!("s{n}"), "score": n + 2 }).to_string());
    let labels: Vec<String> = labels.collect();
    std::fs::write(folder.path().join("labels.jsonl"), labels.join("\n")).unwrap();
    let change = json!({ "scorers": [{ "effects": {} }, of_judge()] });
    let asked = samples(&["a", "b", "c", "d"]);
    let suite = suite(two_variants(&change));
    let evaluation = Evaluation::in_folder(suite, &team(), asked, folder.path()).unwrap();
    // As a person about the base's answers, which are one letter; 1 about all others.
    let model = judge(|material| {
        let answer = material["answer"].as_str().unwrap();
        let place = ["a", "b", "c", "d"]
            .iter()
            .position(|letter| *letter == answer);
        json!({ "reason": "r", "score": place.map_or(1, |place| place + 2) }).to_string()
    });
    let report = reported(InMemoryStore::new(), &evaluation, &[("judge", &model)]).await;
    let people = report.judges[0].people.as_ref().unwrap();
    assert_eq!((people.both, people.kappa), (4, Some(1.0)));
}

#[tokio::test(start_paused = true)]
async fn a_judge_does_not_agree_with_people_by_keeping_silent() {
    let folder = tempfile::tempdir().unwrap();
    let labels = (1..=5).map(|score| {
        json!({ "input": "q", "answer": "a".repeat(score), "score": score }).to_string()
    });
    let labels: Vec<String> = labels.collect();
    std::fs::write(folder.path().join("labels.jsonl"), labels.join("\n")).unwrap();
    let suite = suite(json!({ "scorers": [{ "effects": {} }, of_judge()] }));
    let asked = samples(&["x"]);
    let evaluation = Evaluation::in_folder(suite, &team(), asked, folder.path()).unwrap();
    let model = judge(|material| match material["answer"].as_str().unwrap() {
        "a" => json!({ "reason": "r", "score": 1 }).to_string(),
        "aaaaa" => json!({ "reason": "r", "score": 5 }).to_string(),
        _ => String::from("It depends."),
    });
    let report = reported(InMemoryStore::new(), &evaluation, &[("judge", &model)]).await;
    let judge = &report.judges[0];
    let people = judge.people.as_ref().unwrap();
    assert_eq!((people.labels, people.both), (5, 2));
    assert!(people.kappa.unwrap() < 0.6 && !judge.counts, "{people:?}");
}

/// A judge whose verdicts are those of people turned around, and how it counts.
async fn distrusted(change: Value, said: fn(&str) -> String) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let labels: Vec<String> = (1..=5)
        .map(|score| {
            json!({ "input": "q", "answer": "a".repeat(score), "score": score }).to_string()
        })
        .collect();
    std::fs::write(folder.path().join("labels.jsonl"), labels.join("\n")).unwrap();
    let suite = suite(two_variants(&change));
    let samples = samples(&["x", "xx", "xxx"]);
    let evaluation = Evaluation::in_folder(suite, &team(), samples, folder.path()).unwrap();
    let model = judge(move |material| {
        let answer = material["answer"].as_str().unwrap();
        match answer.starts_with('a') {
            true => json!({ "reason": "r", "score": 6 - answer.len() }).to_string(),
            false => said(answer),
        }
    });
    reported(InMemoryStore::new(), &evaluation, &[("judge", &model)]).await
}

fn of_judge() -> Value {
    json!({ "judge": {
        "rubric": "Is it kind?", "by": ["judge"], "human": "labels.jsonl", "agreement": 0.6,
    } })
}

#[tokio::test(start_paused = true)]
async fn a_composite_of_a_judge_that_is_not_trusted_counts_for_nothing() {
    let change = json!({
        "scorers": [
            { "effects": {} },
            of_judge(),
            { "composite": { "of": { "judge": 1 }, "pass": 0.7 } },
            { "composite": { "name": "whole", "of": { "composite": 1, "effects": 1 } } },
        ],
        "watch": ["judge"],
        "reward": { "sum": [{ "of": "whole" }] },
        "gate": { "against": "base", "reward": { "not_worse_by": 0.1 } },
    });
    let report = distrusted(change, |_| json!({ "reason": "r", "score": 1 }).to_string()).await;
    assert!(!report.judges[0].counts);
    // Every verdict is bad, and none counts.
    assert!(
        report.cells.iter().all(|cell| cell.success() == Some(true)),
        "{:?}",
        report.cells[0]
    );
    let wanted = "the reward rests on the judge judge, which counts for nothing";
    assert_eq!(faults(&report), [wanted]);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_of_a_judge_that_is_not_trusted_leaves_no_cell_out() {
    let change = json!({ "scorers": [{ "effects": {} }, of_judge()] });
    let report = distrusted(change, |_| String::from("It depends.")).await;
    assert!(!report.judges[0].counts);
    let base = &report.variants[0];
    assert_eq!(base.counts.unreadable, 3);
    assert_eq!(base.success.map(|success| success.estimate), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn the_same_p_values_stand_in_a_report_and_in_a_comparison() {
    let suite = suite(two_variants(&json!({
        "scorers": [
            { "length": { "most": 40 } },
            { "effects": {} },
            { "contains": { "none": ["please"] } },
        ],
        "watch": ["contains"],
        "reward": { "sum": [{ "of": "length", "weight": -0.1 }] },
    })));
    let evaluation = Evaluation::new(suite, &team(), many()).unwrap();
    let report = reported(InMemoryStore::new(), &evaluation, &[]).await;
    let of = |variant: &str| -> Vec<&ghostlight_evals::Cell> {
        let cells = report.cells.iter();
        cells.filter(|cell| cell.variant == variant).collect()
    };
    let compared = Compared::new(("base", &of("base")), ("long", &of("long")), 0.0);
    let p = |name: &str| {
        let mut measures = compared.measures.iter();
        measures
            .find(|found| found.measure == name)
            .unwrap()
            .adjusted_p
    };
    assert!(p("success").is_some_and(|p| p < 0.05), "{:?}", p("success"));
    assert_eq!(p("success"), report.comparisons[0].adjusted_p);
    assert_eq!(p("reward"), report.rewards[0].adjusted_p);
    // The other measures say what changed, and decide nothing.
    for name in ["length", "effects", "contains"] {
        assert_eq!(p(name), None, "{name}");
    }
}

#[test]
fn a_scorer_that_demands_nothing_is_refused() {
    for scorer in [json!({ "consumed": {} }), json!({ "calls": {} })] {
        let change = json!({ "scorers": [scorer] });
        let told = Evaluation::new(suite(change), &team(), samples(&["a"]));
        let told = told.unwrap_err().to_string();
        assert!(told.contains("demands nothing"), "{told}");
    }
    let mut asked = samples(&["a", "b"]);
    asked[1].calls = Some(Vec::new());
    let change = json!({ "scorers": [{ "calls": {} }] });
    assert!(Evaluation::new(suite(change), &team(), asked).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_models_words_are_no_markup_in_a_comment() {
    let change = json!({
        "scorers": [{ "format": { "is": "json" } }, { "pattern": { "never": ".+" } }],
        "gate": { "tags": { "smoke": "all" } },
    });
    let hostile =
        "\\[here](https://evil.example) @everyone <img src=x> ``` `` https://evil.example";
    let mut asked = samples(&[hostile]);
    asked[0].tags = vec![String::from("smoke")];
    let evaluation = Evaluation::new(suite(change), &team(), asked).unwrap();
    let report = reported(InMemoryStore::new(), &evaluation, &[]).await;
    let markdown = report.markdown();
    let outside = outside_code(&markdown);
    assert!(markdown.contains("everyone"), "{markdown}");
    for mark in ["everyone", "evil", "<img", "](", "here"] {
        assert!(!outside.contains(mark), "{mark}: {markdown}");
    }
}

/// A text of Markdown without its spans of code.
fn outside_code(text: &str) -> String {
    let (mut outside, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('`') {
        outside.push_str(&rest[..start]);
        let ticks = rest[start..].chars().take_while(|c| *c == '`').count();
        let after = &rest[start + ticks..];
        // A span ends with as many ticks as it begins with.
        let (mut at, mut end) = (0, None);
        while let Some(found) = after[at..].find('`') {
            let begin = at + found;
            let count = after[begin..].chars().take_while(|c| *c == '`').count();
            if count == ticks {
                end = Some(begin + count);
                break;
            }
            at = begin + count;
        }
        rest = match end {
            Some(end) => &after[end..],
            None => {
                outside.push_str(&rest[start..start + ticks]);
                after
            }
        };
    }
    outside.push_str(rest);
    outside
}
