//! What an evaluation costs beyond its turns: a cell over the same turn bare, going on with cells that are recorded, new
//! scores of recorded runs, forks of recorded beginnings, intervals by resampling, and verdicts of BFCL's checker. The cells
//! ask a model that answers at once. `GHOSTLIGHT_VERDICTS` names the file of `crates/evals/tests/evals/official.py`, whose calls
//! are checked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    time::{Duration, Instant},
};

use ghostlight::{
    evals::{
        Cell, Evaluation, Reach, RecordedCall, Recording, Report,
        scorers::{ScorerSpec, scorer_of},
        statistics::{Clustered, Draws, RESAMPLES},
        suite::{Sample, SuiteSpec},
    },
    stores::SqliteStore,
};
use ghostlight_actors::{
    actor::System,
    contract::{Entropy as _, SeededEntropy, StoreHandle},
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    session::Turn,
    testing::{EffectLog, ScriptedModel},
    vocabulary::{
        AgentError, AnsweredBy, Arguments, Message, ModelRequest, ModelResponse, Outcome, ToolCall,
        ToolDefinition, ToolStatus,
    },
};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use shared::{Quartiles, alternately, round};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The turns of a round.
const TURNS: u32 = 50;
const ROUNDS: usize = 21;
/// The cells that are recorded.
const CELLS: usize = 10_000;
/// The recorded runs that are forked.
const PREFIXES: usize = 1_000;
/// The clusters that are resampled.
const CLUSTERS: usize = 1_000;

/// Looks once, and answers "yes".
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

fn registry() -> Registry {
    registry_with(|_| "yes")
}

/// The same with a model that says this after it has looked.
fn registry_with(said: impl Fn(&ModelRequest) -> &'static str + Send + Sync + 'static) -> Registry {
    let model = ScriptedModel::from_fn(move |request, _| {
        let last = request.conversation.last().unwrap();
        if last.tool_results().next().is_none() {
            let call = ToolCall::new("c1", "look", json!({}));
            return Ok(ModelResponse::tool_calls([call]));
        }
        Ok(ModelResponse::text(said(request)))
    });
    let look = EffectLog::new().tool(ToolDefinition::new("look", "Looks."), Duration::ZERO);
    Registry::new()
        .model("model", model.into())
        .tool(look)
        .behavior("works", |_| Ok(BehaviorHandle::from_fn(works)))
}

fn team() -> TeamSpec {
    let mut agent = AgentSpec::new("desk");
    agent.model = Some(String::from("model"));
    agent.tools = vec![String::from("look")];
    agent.behavior = serde_json::from_value(json!("works")).unwrap();
    TeamSpec::new(agent)
}

/// An evaluation of so many samples, whose names begin with this, with as many cells under way as where nothing is said.
fn evaluation(name: &str, samples: usize, scorers: &Value) -> Evaluation {
    evaluation_of(name, samples, scorers, 4)
}

fn evaluation_of(name: &str, samples: usize, scorers: &Value, at_once: u32) -> Evaluation {
    evaluation_with(
        name,
        samples,
        json!({ "concurrency": at_once, "scorers": scorers }),
    )
}

fn evaluation_with(name: &str, samples: usize, change: Value) -> Evaluation {
    let mut suite = json!({ "evaluation": "bench", "team": "desk.yaml", "data": [] });
    let object = suite.as_object_mut().unwrap();
    object.extend(change.as_object().unwrap().clone());
    let suite: SuiteSpec = serde_json::from_value(suite).unwrap();
    let samples = (0..samples)
        .map(|n| Sample::new(format!("{name}-{n}"), format!("is {n} so?")).expected("yes"));
    Evaluation::new(suite, &team(), samples.collect()).unwrap()
}

async fn start(store: impl Into<StoreHandle>, evaluation: &Evaluation) -> System {
    start_with(store, evaluation, &registry()).await
}

async fn start_with(
    store: impl Into<StoreHandle>,
    evaluation: &Evaluation,
    registry: &Registry,
) -> System {
    let mut builder = System::builder(store).recover(false);
    for team in evaluation.teams(registry) {
        builder = builder.team(team);
    }
    builder.start().await.unwrap()
}

fn succeed(cells: &[Cell], count: usize) {
    assert_eq!(cells.len(), count);
    assert!(
        cells.iter().all(|cell| cell.success() == Some(true)),
        "{:?}",
        cells[0]
    );
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let folder = std::env::temp_dir().join(format!("ghostlight-evaluation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let scorers = json!([{ "answer": {} }]);
    over_the_turn(&runtime, &folder, &scorers);
    runtime.block_on(again(&folder, &scorers));
    runtime.block_on(forks(&folder));
    resamples();
    verdicts();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A cell over the same turn bare, one at a time over `SQLite`.
fn over_the_turn(runtime: &Runtime, folder: &std::path::Path, scorers: &Value) {
    let whole = evaluation_of("one", 1, scorers, 1);
    let store = SqliteStore::open(folder.join("cells.db")).unwrap();
    let system = runtime.block_on(start(store, &whole));
    let (mut bare, mut begun) = (0, 0);
    let mut turns = || {
        bare += 1;
        round(TURNS, || {
            runtime.block_on(async {
                for number in 0..TURNS {
                    let session = system.session("desk-base", format!("bare-{bare}-{number}"));
                    let turn = Turn::text("is it so?").id("1");
                    let run = session.send(turn).await.unwrap();
                    assert_eq!(run.outcome().await.unwrap().text(), "yes");
                }
            });
        })
    };
    let mut cells = || {
        begun += 1;
        let evaluation = evaluation_of(&format!("round-{begun}"), TURNS as usize, scorers, 1);
        round(TURNS, || {
            let cells = runtime.block_on(evaluation.run(&system, |_| {})).unwrap();
            succeed(&cells, TURNS as usize);
        })
    };
    alternately(ROUNDS, &mut turns, &mut cells).print("a cell over the same turn bare");
    runtime.block_on(system.stop()).unwrap();
}

/// Going on with cells that are all recorded, and new scores of them.
async fn again(folder: &std::path::Path, scorers: &Value) {
    let file = folder.join("again.db");
    let whole = evaluation("many", CELLS, scorers);
    let system = start(SqliteStore::open(&file).unwrap(), &whole).await;
    let began = Instant::now();
    succeed(&whole.run(&system, |_| {}).await.unwrap(), CELLS);
    println!(
        "{CELLS} cells, tried: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    system.stop().await.unwrap();
    for _ in 0..3 {
        let system = start(SqliteStore::open(&file).unwrap(), &whole).await;
        let began = Instant::now();
        succeed(&whole.run(&system, |_| {}).await.unwrap(), CELLS);
        println!(
            "{CELLS} cells that are recorded, gone on with: {:.2} s",
            began.elapsed().as_secs_f64()
        );
        let other = json!([{ "contains": { "all": ["yes"] } }, { "length": { "most": 10 } }, { "consumed": { "steps": 3 } }]);
        let other = evaluation("many", CELLS, &other);
        let began = Instant::now();
        succeed(
            &other
                .run_within(&system, Reach::Look, |_| {})
                .await
                .unwrap(),
            CELLS,
        );
        let rate = 3.0 * CELLS as f64 / began.elapsed().as_secs_f64();
        println!("new scores of recorded runs: {rate:.0} a second");
        system.stop().await.unwrap();
    }
}

/// Forks of recorded beginnings in two variants, of which one answers wrong twice as often: in 0.4 of all cases.
async fn forks(folder: &std::path::Path) {
    let store = SqliteStore::open(folder.join("forks.db")).unwrap();
    let variants = json!({ "base": {}, "doubting": { "agent": { "instructions": "Doubt." } } });
    let change = json!({ "variants": variants, "scorers": [{ "answer": {} }] });
    let whole = evaluation_with("fork", PREFIXES, change);
    let chance = SeededEntropy::new(39);
    let wavering = registry_with(move |request| {
        let wrong = if request.instructions.contains("Doubt.") {
            0.4
        } else {
            0.2
        };
        if chance.fraction() < wrong {
            "no"
        } else {
            "yes"
        }
    });
    let system = start_with(store, &whole, &wavering).await;
    whole.run(&system, |_| {}).await.unwrap();
    for what in ["made", "gone on with"] {
        let began = Instant::now();
        let forked = whole.fork(&system, 1, |_| {}).await.unwrap();
        let took = began.elapsed().as_secs_f64();
        assert_eq!(forked.cells.len(), 2 * PREFIXES);
        let report = Report::new(&whole, forked.cells);
        let found = report.comparisons[0].comparison.as_ref().unwrap();
        let interval = found.interval.unwrap();
        assert!(
            interval.lower <= -0.2 && -0.2 <= interval.upper,
            "{found:?}"
        );
        println!(
            "two forks of each of {PREFIXES} beginnings, {what}: {took:.2} s; a difference of -0.2 is told as {:.3} \
             [{:.3}, {:.3}]",
            found.difference, interval.lower, interval.upper
        );
    }
    system.stop().await.unwrap();
}

/// Intervals by resampling. The floor draws and adds as often, and nothing else.
fn resamples() {
    let mut draws = Draws::new(1);
    let clusters = (0..CLUSTERS).map(|_| (0..4).map(|_| draws.below(2) as f64).collect());
    let clustered = Clustered::new(clusters);
    let sums: Vec<f64> = (0..CLUSTERS).map(|sum| sum as f64).collect();
    let mut floor = || {
        round(1, || {
            let (mut draws, mut sum) = (Draws::new(2), 0.0);
            for _ in 0..RESAMPLES * CLUSTERS {
                sum += sums[draws.below(CLUSTERS)];
            }
            assert!(sum > 0.0);
        })
    };
    let mut ours = || {
        round(1, || {
            assert!(clustered.bootstrap(2, RESAMPLES).is_some());
        })
    };
    alternately(9, &mut floor, &mut ours).print("an interval by resampling 1,000 clusters");
}

/// The verdicts of BFCL's checker on recorded calls.
fn verdicts() {
    let Some(path) = std::env::var_os("GHOSTLIGHT_VERDICTS") else {
        println!("left out: GHOSTLIGHT_VERDICTS names no file of official.py");
        return;
    };
    let spec: ScorerSpec = serde_json::from_value(json!({ "bfcl": {} })).unwrap();
    let scorer = scorer_of(&spec).unwrap();
    let mut cases = Vec::new();
    for line in BufReader::new(File::open(path).unwrap()).lines() {
        let mut row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if row["kind"] != "bfcl" || row.get("answer").is_some() {
            continue;
        }
        let mut recording = Recording::default();
        for call in row["calls"].as_array().unwrap() {
            let (name, arguments) = call.as_object().unwrap().iter().next().unwrap();
            let arguments = Arguments::from(arguments.clone());
            let (status, by) = (ToolStatus::Success, AnsweredBy::Tool);
            let call = RecordedCall::new(name, arguments, status, by);
            // As a recording that was read has them.
            assert!(call.arguments.value().is_ok());
            recording.calls.push(call);
        }
        let mut sample = Sample::new("one", "?").expected(row["expected"].take());
        for name in ["category", "functions"] {
            sample.metadata.insert(name.to_owned(), row[name].take());
        }
        cases.push((recording, sample, row["verdict"].as_bool().unwrap()));
    }
    let rates = (0..9).map(|_| {
        let began = Instant::now();
        let right = cases
            .iter()
            .filter(|(recording, sample, verdict)| {
                scorer.score(recording, sample).passes() == *verdict
            })
            .count();
        let rate = cases.len() as f64 / began.elapsed().as_secs_f64();
        assert_eq!(right, cases.len());
        rate
    });
    let rates = Quartiles::of(rates);
    println!(
        "{} verdicts of BFCL's checker: {rates} a second",
        cases.len()
    );
}
