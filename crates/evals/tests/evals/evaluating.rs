//! An evaluation is durable work: it goes on where it was killed, and a cell that is recorded costs nothing.

use std::{cell::Cell as Counter, time::Duration};

use ghostlight_actors::{
    actor::{Retention, System},
    contract::{InMemoryStore, ModelError, StoreHandle},
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    testing::{EffectLog, Fault, FaultyStore, Harm, Reply, ScriptedModel, Strike},
    vocabulary::{
        AgentError, ErrorKind, ModelRequest, ModelResponse, Outcome, ToolCall, ToolDefinition,
        Usage,
    },
};
use ghostlight_evals::{
    Cell, CellResult, Evaluation, Reach, Report,
    suite::{Sample, SuiteSpec},
};
use serde_json::json;

fn team() -> TeamSpec {
    let mut agent = AgentSpec::new("desk");
    agent.model = Some(String::from("model"));
    agent.behavior = serde_json::from_value(json!("ask")).unwrap();
    TeamSpec::new(agent)
}

fn suite(change: serde_json::Value) -> SuiteSpec {
    let mut suite = json!({
        "evaluation": "desk", "team": "desk.yaml", "data": [], "repeat": 2, "concurrency": 3,
        "variants": { "base": {}, "other": { "agent": { "instructions": "Shout." } } },
        "scorers": [{ "answer": {} }],
    });
    suite
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    serde_json::from_value(suite).unwrap()
}

fn samples(count: u32) -> Vec<Sample> {
    (1..=count)
        .map(|n| Sample::new(format!("s{n}"), format!("say {n}")).expected(n.to_string()))
        .collect()
}

/// The last word of what the user said, and "?" for every third sample where the instructions are those of `other`.
fn answer(request: &ModelRequest) -> ModelResponse {
    let text = request
        .conversation
        .last()
        .map(|message| message.content())
        .unwrap_or_default();
    let number = text
        .split_whitespace()
        .next_back()
        .unwrap_or_default()
        .to_owned();
    let shouts = format!("{request:?}").contains("Shout.");
    let is_third = number.parse::<u32>().is_ok_and(|n| n % 3 == 0);
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 1,
        cost_micros: 5,
        ..Usage::default()
    };
    ModelResponse::text(if shouts && is_third {
        String::from("?")
    } else {
        number
    })
    .usage(usage)
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| Ok(answer(request)))
}

/// Asks the model once, and shows it the instructions of the agent.
async fn ask(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut request = cx.model_request(cx.conversation());
    request.instructions = cx.spec().instructions.clone().into();
    let response = cx.model(request).await?;
    Ok(Outcome::answer(response.message.content()))
}

async fn start(
    store: impl Into<StoreHandle>,
    evaluation: &Evaluation,
    model: &ScriptedModel,
) -> System {
    let mut builder = System::builder(store).recover(false);
    let registry = Registry::new()
        .model("model", model.clone().into())
        .behavior("ask", |_| Ok(BehaviorHandle::from_fn(ask)));
    for team in evaluation.teams(&registry) {
        builder = builder.team(team);
    }
    builder.start().await.unwrap()
}

async fn evaluated(
    store: impl Into<StoreHandle>,
    evaluation: &Evaluation,
    model: &ScriptedModel,
) -> Vec<Cell> {
    let system = start(store, evaluation, model).await;
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    cells
}

/// A report without the times, which differ from one life to the next.
fn report(evaluation: &Evaluation, cells: Vec<Cell>) -> String {
    let cells = cells.into_iter().map(|mut cell| {
        cell.latency_ms = 0;
        cell
    });
    serde_json::to_string(&Report::new(evaluation, cells.collect())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn variants_are_compared_sample_by_sample() {
    let gate = json!({ "gate": { "against": "base", "success": { "not_worse_by": 0.05 } } });
    let evaluation = Evaluation::new(suite(gate), &team(), samples(12)).unwrap();
    let cells = evaluated(InMemoryStore::new(), &evaluation, &model()).await;
    let report = Report::new(&evaluation, cells);
    let success: Vec<f64> = report
        .variants
        .iter()
        .map(|v| v.success.unwrap().estimate)
        .collect();
    assert_eq!(success[0], 1.0);
    assert!((success[1] - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(
        report.comparisons[0].comparison.as_ref().unwrap().samples,
        12
    );
    assert_eq!(report.variants[1].repeats.unwrap().pass_hat_k, success[1]);
    assert_eq!(report.variants[0].cost_micros, 24 * 5);
    assert!(!report.passes(), "{:?}", report.gate);
    assert!(
        report.text().contains("other against base: worse"),
        "{}",
        report.text()
    );
    assert!(report.markdown().contains("| other |"));
    let junit = report.junit().unwrap();
    assert_eq!(
        (
            junit.matches("<testcase").count(),
            junit.matches("<failure").count()
        ),
        (48, 8)
    );
}

#[tokio::test(start_paused = true)]
async fn the_recorded_cells_of_an_evaluation_cost_nothing() {
    let (store, model) = (InMemoryStore::new(), model());
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(10)).unwrap();
    let first = evaluated(store.clone(), &evaluation, &model).await;
    assert_eq!(model.calls(), 40);
    // Another scorer over the same cells.
    let scorers = json!({ "scorers": [{ "answer": { "as": "number" } }, { "consumed": { "model_calls": 1 } }] });
    let again = Evaluation::new(suite(scorers), &team(), samples(10)).unwrap();
    let second = evaluated(store.another_process(), &again, &model).await;
    assert_eq!(model.calls(), 40);
    assert_eq!(
        first.iter().map(|c| &c.runs).collect::<Vec<_>>(),
        second.iter().map(|c| &c.runs).collect::<Vec<_>>()
    );
    // One more sample, and one whose text changed: only these are tried.
    let mut more = samples(11);
    more[0].input = Some(String::from("please say 1"));
    let evaluation = Evaluation::new(suite(json!({})), &team(), more).unwrap();
    evaluated(store.another_process(), &evaluation, &model).await;
    assert_eq!(model.calls(), 48);
    // The cells of the earlier text stay, and are counted.
    let system = start(store.another_process(), &evaluation, &model).await;
    assert_eq!(evaluation.outdated(&system).await.unwrap(), 4);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_that_is_killed_at_any_commit_ends_with_the_same_report() {
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(3)).unwrap();
    let counting = FaultyStore::new(InMemoryStore::new());
    let undisturbed = report(
        &evaluation,
        evaluated(counting.clone(), &evaluation, &model()).await,
    );
    let commits = counting.calls();
    assert!(commits >= 24, "{commits}");
    for call in 1..=commits {
        for strike in [Strike::Before, Strike::After] {
            let (memory, model) = (InMemoryStore::new(), model());
            let store = FaultyStore::at_commit(
                memory.clone(),
                Fault {
                    call,
                    strike,
                    harm: Harm::Crash,
                },
            );
            let system = start(store.clone(), &evaluation, &model).await;
            let life = tokio::select! {
                cells = evaluation.run(&system, |_| {}) => Some(cells),
                () = store.crashed() => None,
            };
            assert!(life.is_none(), "commit {call}");
            memory.crash();
            drop(system);
            let again = evaluated(memory.another_process(), &evaluation, &model).await;
            assert_eq!(
                report(&evaluation, again),
                undisturbed,
                "killed at commit {call}, {strike:?}"
            );
            // A call that was under way at each of the three cells may be made again; no recorded one is.
            assert!(model.calls() <= 12 + 3, "{}", model.calls());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_no_wrong_answer_and_is_asked_again_next_time() {
    let failing = ScriptedModel::from_reply_fn(|request, _| match answer(request) {
        response if response.message.content() == "2" => {
            Reply::Fail(ModelError::new(ErrorKind::Authentication, "no such key"))
        }
        response => Reply::Respond(response),
    });
    let evaluation = Evaluation::new(suite(json!({ "repeat": 1 })), &team(), samples(2)).unwrap();
    let store = InMemoryStore::new();
    let cells = evaluated(store.clone(), &evaluation, &failing).await;
    assert!(
        matches!(cells[1].result, CellResult::Infrastructure { .. }),
        "{:?}",
        cells[1]
    );
    let report = Report::new(&evaluation, cells);
    let base = &report.variants[0];
    assert_eq!(
        (base.success.unwrap().estimate, base.counts.infrastructure),
        (1.0, 1)
    );
    let bounds = base.success_bounds.unwrap();
    assert_eq!((bounds.lower, bounds.upper), (0.5, 1.0));
    // The server works again.
    let cells = evaluated(store.another_process(), &evaluation, &model()).await;
    assert!(
        cells
            .iter()
            .take(2)
            .all(|cell| cell.success() == Some(true)),
        "{cells:?}"
    );
}

/// Makes twenty calls, one after the other, each of which a person must approve.
async fn pays(cx: RunContext) -> Result<Outcome, AgentError> {
    for number in 0..20 {
        let call = ToolCall::new(format!("pay-{number}"), "pay", json!({}));
        cx.tools([call]).await?;
    }
    Ok(Outcome::answer("paid"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_of_a_cell_is_answered_however_soon_the_next_one_comes() {
    let mut agent = AgentSpec::new("desk");
    agent.tools = vec![String::from("pay")];
    agent.behavior = serde_json::from_value(json!("pays")).unwrap();
    let change = json!({ "questions": "approve", "variants": {}, "repeat": 1, "concurrency": 8 });
    let evaluation = Evaluation::new(suite(change), &TeamSpec::new(agent), samples(40)).unwrap();
    let log = EffectLog::new();
    let pay = ToolDefinition::new("pay", "Pays.").approval("Pay?");
    let registry = Registry::new()
        .tool(log.tool(pay, Duration::ZERO))
        .behavior("pays", |_| Ok(BehaviorHandle::from_fn(pays)));
    let mut builder = System::builder(InMemoryStore::new()).recover(false);
    for team in evaluation.teams(&registry) {
        builder = builder.team(team);
    }
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    let failed = cells
        .iter()
        .filter(|cell| !matches!(cell.result, CellResult::Scored { .. }));
    let failed: Vec<String> = failed.map(Cell::why).collect();
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(log.count("pay"), 40 * 20);
}

#[tokio::test(start_paused = true)]
async fn no_cell_starts_once_the_budget_is_used_up() {
    let change = json!({ "budget": { "cost_micros": 25 }, "concurrency": 1 });
    let evaluation = Evaluation::new(suite(change), &team(), samples(10)).unwrap();
    let model = model();
    let cells = evaluated(InMemoryStore::new(), &evaluation, &model).await;
    assert_eq!(model.calls(), 5);
    let not_run = cells
        .iter()
        .filter(|cell| matches!(cell.result, CellResult::NotRun { .. }))
        .count();
    assert_eq!((cells.len(), not_run), (40, 35));
}

#[tokio::test(start_paused = true)]
async fn a_gate_does_not_pass_by_what_was_not_measured() {
    let gated = |change: serde_json::Value| {
        let mut whole = json!({
            "repeat": 1, "scorers": [{ "length": { "least": 1 } }],
            "reward": { "sum": [{ "of": "length" }] },
            "gate": { "against": "base", "success": { "not_worse_by": 0.2 } },
        });
        let object = whole.as_object_mut().unwrap();
        object.extend(change.as_object().unwrap().clone());
        Evaluation::new(suite(whole), &team(), samples(60)).unwrap()
    };
    let faults = async |evaluation: &Evaluation, model: &ScriptedModel| {
        let cells = evaluated(InMemoryStore::new(), evaluation, model).await;
        Report::new(evaluation, cells).gate.unwrap().faults
    };
    let whole = gated(json!({}));
    assert_eq!(faults(&whole, &model()).await, Vec::<String>::new());
    // The budget leaves out the last samples, which may be the hard ones.
    let bounded = gated(json!({ "budget": { "model_calls": 100 }, "concurrency": 1 }));
    assert_eq!(
        faults(&bounded, &model()).await,
        ["cells that were not run: 20"]
    );
    // A server that fails at the hard samples of one variant keeps it from losing them.
    let failing = || {
        ScriptedModel::from_reply_fn(|request, _| match answer(request) {
            hard if hard.message.content() == "?" => {
                Reply::Fail(ModelError::new(ErrorKind::Authentication, "no such key"))
            }
            response => Reply::Respond(response),
        })
    };
    let told = "other: worse against base, where what has no verdict counts as the lowest";
    assert_eq!(faults(&whole, &failing()).await, [told]);
    let by_reward = json!({ "against": "base", "reward": { "not_worse_by": 0.2 } });
    let told = "other: cells without a reward, since a server failed: 20; the same command tries them again";
    assert_eq!(
        faults(&gated(json!({ "gate": by_reward })), &failing()).await,
        [told]
    );
}

#[tokio::test(start_paused = true)]
async fn a_recorded_cell_counts_although_the_budget_is_used_up() {
    let store = InMemoryStore::new();
    let model = model().delay(Duration::from_millis(5));
    let tried = |change| Evaluation::new(suite(change), &team(), samples(2)).unwrap();
    // All cells are under way before one of them has consumed anything.
    let budget = json!({ "cost_micros": 25 });
    let at_once = tried(json!({ "budget": budget, "concurrency": 8 }));
    let first = evaluated(store.clone(), &at_once, &model).await;
    assert_eq!((first.len(), model.calls()), (8, 8));
    let one_by_one = tried(json!({ "budget": budget, "concurrency": 1 }));
    let again = evaluated(store.another_process(), &one_by_one, &model).await;
    assert_eq!(model.calls(), 8);
    let json = |cells: &[Cell]| serde_json::to_string(cells).unwrap();
    assert_eq!(json(&again), json(&first));
}

#[tokio::test(start_paused = true)]
async fn every_cell_is_told_as_it_ends_and_a_fault_of_a_suite_is_told_first() {
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(4)).unwrap();
    let system = start(
        InMemoryStore::new(),
        &evaluation,
        &model().delay(Duration::from_millis(5)),
    )
    .await;
    let seen = Counter::new(0);
    evaluation
        .run(&system, |_| seen.set(seen.get() + 1))
        .await
        .unwrap();
    assert_eq!(seen.get(), evaluation.cells());
    system.stop().await.unwrap();
    for (change, wanted) in [
        (json!({ "repeat": 0 }), "repeat"),
        (json!({ "concurrency": 0 }), "concurrency"),
        (json!({ "scorers": [] }), "scorers"),
        (
            json!({ "scorers": [{ "effects": {} }, { "effects": {} }] }),
            "effects",
        ),
        (json!({ "watch": ["speed"] }), "speed"),
        (
            json!({ "pairwise": [{ "rubric": "kinder" }, { "rubric": "shorter" }] }),
            "another judge of pairs",
        ),
        (json!({ "gate": { "against": "nobody" } }), "nobody"),
        (
            json!({ "gate": { "success": { "not_worse_by": 0.1 } } }),
            "gate.against",
        ),
    ] {
        let told = Evaluation::new(suite(change), &team(), samples(1))
            .unwrap_err()
            .to_string();
        assert!(told.contains(wanted), "{told}");
    }
    assert!(Evaluation::new(suite(json!({})), &team(), Vec::new()).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_retention_deleted_is_tried_again() {
    let (store, model) = (InMemoryStore::new(), model());
    let evaluation = Evaluation::new(suite(json!({})), &team(), samples(3)).unwrap();
    let first = evaluated(store.clone(), &evaluation, &model).await;
    for asked in [24, 36] {
        let system = start(store.another_process(), &evaluation, &model).await;
        let retention = Retention::default().keep(0);
        assert_eq!(system.prune(retention).await.unwrap().trees, 12);
        let looked = evaluation.run_within(&system, Reach::Look, |_| {}).await;
        let is_untried = |cell: &Cell| matches!(cell.result, CellResult::NotRun { .. });
        assert!(looked.unwrap().iter().all(is_untried));
        system.stop().await.unwrap();
        let again = evaluated(store.another_process(), &evaluation, &model).await;
        assert_eq!(model.calls(), asked);
        let without_runs = |cells: Vec<Cell>| {
            let cells = cells.into_iter().map(|mut cell| {
                cell.runs.clear();
                cell
            });
            report(&evaluation, cells.collect())
        };
        assert_eq!(without_runs(again), without_runs(first.clone()));
    }
}
