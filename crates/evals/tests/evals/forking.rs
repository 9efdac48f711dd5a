//! Forks of recorded runs have one beginning, which is not done again, and a difference that was planted is seen.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::{Entropy as _, InMemoryStore, ModelError, SeededEntropy},
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    testing::{EffectLog, Reply, ScriptedModel},
    vocabulary::{
        AgentError, Effect, ErrorKind, Message, ModelRequest, ModelResponse, Outcome, ToolCall,
        ToolDefinition,
    },
};
use ghostlight_evals::{
    Cell, CellResult, Evaluation, Forked, Report,
    suite::{Sample, SuiteSpec},
    trajectory::{Export, Form, Rows},
};
use serde_json::json;

/// Looks once and answers "yes"; whoever is told to doubt answers "no".
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request: &ModelRequest, number| {
        let last = request.conversation.last().unwrap();
        if last.tool_results().next().is_none() && !last.content().contains("at once") {
            let call = ToolCall::new("c1", "look", json!({}));
            return Ok(ModelResponse::tool_calls([call]));
        }
        let doubts = request.instructions.contains("Doubt.");
        let said = request.conversation.get(0).unwrap().content();
        let doubts = doubts || (said.contains("toss") && number % 2 == 1);
        Ok(ModelResponse::text(if doubts { "no" } else { "yes" }))
    })
}

async fn works(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    loop {
        let response = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(response.message.clone());
        let calls = response.calls();
        if calls.is_empty() {
            return Ok(Outcome::answer(response.content()));
        }
        conversation.push(Message::results(cx.tools(calls).await?));
    }
}

fn evaluation() -> Evaluation {
    let mut samples: Vec<Sample> = (1..=4)
        .map(|number| Sample::new(format!("s{number}"), format!("is {number} so?")))
        .collect();
    samples.push(Sample::new("quick", "is it so, at once?"));
    evaluation_of(samples, 3)
}

fn evaluation_of(samples: Vec<Sample>, repeat: u32) -> Evaluation {
    evaluation_with("Doubt.", samples, repeat)
}

fn evaluation_with(instructions: &str, samples: Vec<Sample>, repeat: u32) -> Evaluation {
    let mut agent = AgentSpec::new("desk");
    agent.model = Some(String::from("model"));
    agent.tools = vec![String::from("look")];
    agent.behavior = serde_json::from_value(json!("works")).unwrap();
    let suite: SuiteSpec = serde_json::from_value(json!({
        "evaluation": "desk", "team": "desk.yaml", "data": [], "repeat": repeat,
        "variants": { "base": {}, "doubting": { "agent": { "instructions": instructions } } },
        "scorers": [{ "answer": { "expected": "yes" } }],
    }))
    .unwrap();
    Evaluation::new(suite, &TeamSpec::new(agent), samples).unwrap()
}

async fn start(
    store: &InMemoryStore,
    log: &EffectLog,
    evaluation: &Evaluation,
    model: &ScriptedModel,
) -> System {
    let look = ToolDefinition::new("look", "Looks.").effect(Effect::Once);
    let registry = Registry::new()
        .model("model", model.clone().into())
        .tool(log.tool(look, Duration::ZERO))
        .behavior("works", |_| Ok(BehaviorHandle::from_fn(works)));
    let mut builder = System::builder(store.another_process()).recover(false);
    for team in evaluation.teams(&registry) {
        builder = builder.team(team);
    }
    builder.start().await.unwrap()
}

/// Evaluates or forks, and tells how often the model was asked.
async fn forked(
    store: &InMemoryStore,
    log: &EffectLog,
    evaluation: &Evaluation,
    steps: Option<u32>,
) -> (Forked, usize) {
    let model = model();
    let system = start(store, log, evaluation, &model).await;
    let forked = match steps {
        Some(steps) => evaluation.fork(&system, steps, |_| {}).await.unwrap(),
        None => {
            evaluation.run(&system, |_| {}).await.unwrap();
            Forked::default()
        }
    };
    system.stop().await.unwrap();
    (forked, model.seen().len())
}

#[tokio::test(start_paused = true)]
async fn what_was_done_before_the_cut_is_not_done_again() {
    let (store, log, evaluation) = (InMemoryStore::new(), EffectLog::new(), evaluation());
    forked(&store, &log, &evaluation, None).await;
    let looked = log.count("look");
    assert_eq!(looked, 4 * 3 * 2);
    let (done, asked) = forked(&store, &log, &evaluation, Some(1)).await;
    // Each side goes on from the one beginning that the first variant has, with the answer alone.
    assert_eq!(done.cells.len(), 4 * 3 * 2);
    assert_eq!(done.left_out, ["quick"]);
    assert_eq!((asked, log.count("look")), (4 * 3 * 2, looked));
    let report = Report::new(&evaluation, done.cells);
    let success: Vec<f64> = report
        .variants
        .iter()
        .map(|variant| variant.success.unwrap().estimate)
        .collect();
    assert_eq!(success, [1.0, 0.0]);
    assert_eq!(report.comparisons[0].verdict.as_str(), "worse");
    let runs: std::collections::BTreeSet<_> =
        report.cells.iter().map(|cell| cell.runs[0]).collect();
    assert_eq!(runs.len(), report.cells.len());

    // Once more is the same, and costs nothing.
    let (again, asked) = forked(&store, &log, &evaluation, Some(1)).await;
    assert_eq!(asked, 0);
    let before: Vec<_> = report.cells.iter().map(|cell| &cell.result).collect();
    let after: Vec<_> = again.cells.iter().map(|cell| &cell.result).collect();
    assert_eq!(before, after);

    // From the start everything is done anew, also by those that need one step.
    let (whole, asked) = forked(&store, &log, &evaluation, Some(0)).await;
    assert_eq!((whole.cells.len(), asked), (5 * 3 * 2, (4 * 2 + 1) * 3 * 2));
    assert_eq!(log.count("look"), 2 * looked);
}

#[tokio::test(start_paused = true)]
async fn a_variant_that_was_changed_continues_anew() {
    let (store, log) = (InMemoryStore::new(), EffectLog::new());
    let samples = || vec![Sample::new("s1", "is it so?")];
    let doubting = evaluation_of(samples(), 1);
    forked(&store, &log, &doubting, None).await;
    let (first, _) = forked(&store, &log, &doubting, Some(1)).await;
    let sure = evaluation_with("Be sure.", samples(), 1);
    let (second, asked) = forked(&store, &log, &sure, Some(1)).await;
    let successes = |forked: &Forked| -> Vec<Option<bool>> {
        forked.cells.iter().map(|cell| cell.success()).collect()
    };
    assert_eq!(successes(&first), [Some(true), Some(false)]);
    assert_eq!(successes(&second), [Some(true), Some(true)]);
    assert_eq!(asked, 1, "the other variant is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_fork_whose_server_failed_is_tried_again_next_time() {
    let (store, log) = (InMemoryStore::new(), EffectLog::new());
    let evaluation = evaluation_of(vec![Sample::new("s1", "is it so?")], 1);
    forked(&store, &log, &evaluation, None).await;
    let refused = || Reply::Fail(ModelError::new(ErrorKind::Authentication, "no such key"));
    let failing = ScriptedModel::from_reply_fn(move |_, _| refused());
    let system = start(&store, &log, &evaluation, &failing).await;
    let first = evaluation.fork(&system, 1, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    let is_left_out = |cell: &Cell| matches!(cell.result, CellResult::Infrastructure { .. });
    assert!(first.cells.iter().all(is_left_out), "{:?}", first.cells);
    let (second, asked) = forked(&store, &log, &evaluation, Some(1)).await;
    let successes: Vec<_> = second.cells.iter().map(Cell::success).collect();
    assert_eq!((successes, asked), (vec![Some(true), Some(false)], 2));
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_was_interrupted_is_not_continued_by_looking_at_it() {
    let (store, log) = (InMemoryStore::new(), EffectLog::new());
    let sample = Sample::new("s1", "is it so?");
    let evaluation = evaluation_of(vec![sample.clone()], 1);
    forked(&store, &log, &evaluation, None).await;
    let slow = model().delay(Duration::from_secs(3_600));
    let system = start(&store, &log, &evaluation, &slow).await;
    let work = evaluation.fork(&system, 1, |_| {});
    assert!(
        tokio::time::timeout(Duration::from_secs(1), work)
            .await
            .is_err()
    );
    system.stop().await.unwrap();
    let model = model();
    let system = start(&store, &log, &evaluation, &model).await;
    let found = evaluation
        .recorded_forks(&system, &sample, 1)
        .await
        .unwrap();
    assert_eq!((found.len(), model.calls()), (0, 0));
    // What carries them on asks.
    let forked = evaluation.fork(&system, 1, |_| {}).await.unwrap();
    assert_eq!((forked.cells.len(), model.calls()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn forks_of_one_beginning_make_pairs_for_trainers() {
    let (store, log) = (InMemoryStore::new(), EffectLog::new());
    let sample = Sample::new("coin", "a toss: is it so?");
    let evaluation = evaluation_of(vec![sample.clone()], 3);
    let system = start(&store, &log, &evaluation, &model()).await;
    evaluation.run(&system, |_| {}).await.unwrap();
    let export = Export::new(Form::TrlDpo).forks(Some(1));
    let before = export.sample(&system, &evaluation, &sample).await.unwrap();
    assert_eq!(before, Rows::default(), "nothing is forked by an export");
    evaluation.fork(&system, 1, |_| {}).await.unwrap();
    let found = export.sample(&system, &evaluation, &sample).await.unwrap();
    // The other variant answers "no" only.
    assert_eq!(found.rows.len(), 1);
    let row = &found.rows[0];
    let prompt: Vec<&str> = row["prompt"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(prompt, ["user", "assistant", "tool"]);
    assert_eq!(
        (&row["chosen"][0]["content"], &row["rejected"][0]["content"]),
        (&json!("yes"), &json!("no"))
    );
}

/// Looks once, and answers "no" in one of five cases; in two where it is told to doubt.
fn wavering() -> ScriptedModel {
    let chance = SeededEntropy::new(39);
    ScriptedModel::from_fn(move |request, _| {
        let last = request.conversation.last().unwrap();
        if last.tool_results().next().is_none() {
            let call = ToolCall::new("c1", "look", json!({}));
            return Ok(ModelResponse::tool_calls([call]));
        }
        let doubts = request.instructions.contains("Doubt.");
        let says_no = chance.fraction() < if doubts { 0.4 } else { 0.2 };
        Ok(ModelResponse::text(if says_no { "no" } else { "yes" }))
    })
}

#[tokio::test(start_paused = true)]
async fn forks_of_many_beginnings_find_the_effect_that_was_planted() {
    let (store, log) = (InMemoryStore::new(), EffectLog::new());
    let samples = (1..=300).map(|number| Sample::new(format!("s{number}"), "is it so?"));
    let evaluation = evaluation_of(samples.collect(), 1);
    let model = wavering();
    let system = start(&store, &log, &evaluation, &model).await;
    evaluation.run(&system, |_| {}).await.unwrap();
    let (asked, looked) = (model.calls(), log.count("look"));
    let forked = evaluation.fork(&system, 1, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    // One answer for each fork, and nothing of its beginning.
    assert_eq!(forked.cells.len(), 600);
    assert_eq!((model.calls() - asked, log.count("look")), (600, looked));
    let report = Report::new(&evaluation, forked.cells);
    let found = report.comparisons[0].comparison.as_ref().unwrap();
    let interval = found.interval.unwrap();
    assert!(
        interval.lower <= -0.2 && -0.2 <= interval.upper,
        "{interval:?}"
    );
    assert!(interval.upper < 0.0, "{interval:?}");
    assert_eq!(report.comparisons[0].verdict.as_str(), "worse");
}
