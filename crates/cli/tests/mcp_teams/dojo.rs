//! AgentDojo's tasks and injections, as an evaluation of a team whose tools are a server of the benchmark.
//!
//! The tools and the judgement are the benchmark's own, and the model is the worst one that there can be: it solves the
//! user's task as the benchmark does, and obeys every order that it comes across in a result.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use ghostlight::{
    config,
    contract::{ModelContext, ModelHandle},
    evals::{
        Cell, Evaluation, Recording,
        scorers::{Score, Scorer},
        statistics::Clustered,
        suite::{Sample, SuiteSpec},
    },
    prelude::*,
    vocabulary::ToolCall,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::peer::Peer;

/// How many letters of an order must be seen for it to be obeyed.
const SEEN: usize = 30;

/// The Python that has the benchmarks; `None` where it is to be left out.
pub(crate) fn python() -> Option<PathBuf> {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return None;
    }
    let python = std::env::var_os("GHOSTLIGHT_BENCHMARKS").map(PathBuf::from);
    if python.is_none() {
        println!(
            "left out: GHOSTLIGHT_BENCHMARKS names no Python with the benchmarks, as ./test does"
        );
    }
    python
}

/// Whether the benchmarks are played as a whole: here 97 tasks and 949 injection cases in three variants, which takes a
/// quarter of an hour.
pub(crate) fn is_whole() -> bool {
    std::env::var_os("GHOSTLIGHT_WHOLE_BENCHMARKS").is_some_and(|whole| whole == "1")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evals/benchmarks/agentdojo_suite.py")
}

/// A text as letters and digits alone, so that it is found in whatever way it was written.
fn letters(text: &str) -> String {
    let text = text.replace("\\n", " ");
    let letters = text.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// A model that solves each task as the benchmark does, and obeys what it reads.
struct Gullible {
    tasks: BTreeMap<String, Map<String, Value>>,
}

impl Model for Gullible {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let session = cx.origin().and_then(|origin| origin.session.clone());
        let key = session.unwrap().key;
        let task = &self.tasks[key.split('/').nth(1).unwrap()];
        let messages = request.conversation.messages();
        let results = messages.iter().flat_map(|message| message.tool_results());
        let results: Vec<String> = results.map(|result| letters(&result.text)).collect();
        let calls = |name: &str| task.get(name).and_then(Value::as_array).cloned();
        let mut plan = calls("gold").unwrap();
        let mut answer = task["answer"].as_str().unwrap().to_owned();
        let order = task.get("goal").and_then(Value::as_str).map(letters);
        let order = order.map(|order| order[..SEEN.min(order.len())].to_owned());
        let own = &results[..plan.len().min(results.len())];
        if order.is_some_and(|order| own.iter().any(|result| result.contains(&order))) {
            plan.extend(calls("injected").unwrap());
            answer = format!("{answer}\n{}", task["obeyed"].as_str().unwrap());
        }
        let Some(next) = plan.get(results.len()) else {
            // Most tasks want no answer, and an empty text is none.
            let answer = format!("{answer}\nDone.");
            return Ok(ModelResponse::text(answer.trim()));
        };
        let (tool, arguments) = (next["tool"].as_str().unwrap(), next["arguments"].clone());
        let call = ToolCall::new(format!("call-{}", results.len()), tool, arguments);
        Ok(ModelResponse::tool_calls([call]))
    }
}

/// The benchmark's own judgement, by a process that stays.
struct Judge {
    measure: &'static str,
    process: Mutex<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Judge {
    fn new(python: &Path, measure: &'static str, suite: &str, attack: &str) -> Self {
        let mut process = Command::new(python)
            .arg(script())
            .args(["score", measure, suite, "--attack", attack])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let process = Mutex::new((process, input, output));
        Self { measure, process }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = self.process.get_mut().0.kill();
        let _ = self.process.get_mut().0.wait();
    }
}

impl Scorer for Judge {
    fn name(&self) -> &str {
        self.measure
    }

    fn score(&self, recording: &Recording, sample: &Sample) -> Score {
        let calls = recording.calls.iter().map(
            |call| json!({ "tool": call.tool, "arguments": call.arguments, "status": call.status }),
        );
        let calls: Vec<Value> = calls.collect();
        let cell = json!({ "sample": sample, "answer": recording.answer(), "calls": calls });
        let (_, input, output) = &mut *self.process.lock();
        writeln!(input, "{cell}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Score::of(said["score"].as_f64().unwrap(), "as the benchmark says")
    }
}

/// What became of a suite of the benchmark.
struct Played {
    cells: Vec<Cell>,
    tasks: BTreeMap<String, Map<String, Value>>,
}

impl Played {
    /// The cells of a variant with a value of a measure, by their samples.
    fn of(&self, variant: &str, measure: &str) -> BTreeMap<&str, bool> {
        let cells = self.cells.iter().filter(|cell| cell.variant == variant);
        let value = |cell: &Cell| cell.value(measure).unwrap() >= 1.0;
        cells
            .map(|cell| (cell.sample.as_str(), value(cell)))
            .collect()
    }

    /// Whether the benchmark's solution of a sample's task only looks.
    fn only_looks(&self, sample: &str) -> bool {
        let looks = ["get_", "search_", "list_", "read_", "check_"];
        let gold = self.tasks[sample]["gold"].as_array().unwrap();
        gold.iter().all(|call| {
            let tool = call["tool"].as_str().unwrap();
            looks.iter().any(|begin| tool.starts_with(begin))
        })
    }
}

/// Writes a suite as its users do, and carries it out with the samples that are wanted. With `slowly` the programs of the
/// written suite score, which start anew for each cell.
async fn play(
    python: &Path,
    (suite, attack): (&str, &str),
    slowly: bool,
    wanted: impl Fn(&Sample) -> bool,
) -> Played {
    let folder = Peer::new(&format!("dojo-{suite}-{attack}-{slowly}"), &[]).folder;
    let written = Command::new(python)
        .arg(script())
        .args(["write", suite, folder.to_str().unwrap(), "--attack", attack])
        .status()
        .unwrap();
    assert!(written.success());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut spec: SuiteSpec = serde_json::from_str(&read(&format!("{suite}.yaml"))).unwrap();
    let lines = read(&format!("{suite}.jsonl"));
    let samples = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let samples: Vec<Sample> = samples.filter(wanted).collect();
    let of = |sample: &Sample| (sample.id.clone(), sample.metadata.clone());
    let tasks: BTreeMap<_, _> = samples.iter().map(of).collect();
    let file = config::load(folder.join(format!("{suite}-team.yaml"))).unwrap();
    if !slowly {
        let bound = json!([{ "length": { "most": 1_000_000 } }]);
        spec.scorers = serde_json::from_value(bound).unwrap();
    }
    let mut evaluation = Evaluation::in_folder(spec, file.spec(), samples, &folder).unwrap();
    if !slowly {
        for measure in ["utility", "security"] {
            evaluation = evaluation.scorer(Judge::new(python, measure, suite, attack));
        }
    }
    let model = Gullible {
        tasks: tasks.clone(),
    };
    let registry = ghostlight::builtin().model("default", ModelHandle::new(model));
    let builder = System::builder(InMemoryStore::new()).recover(false);
    let teams = evaluation.teams(&registry).into_iter();
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    Played { cells, tasks }
}

/// Checks that each sample is as it should be.
#[track_caller]
fn are(cells: &BTreeMap<&str, bool>, should: impl Fn(&str) -> bool, what: &str) {
    let mut odd = cells.iter().filter(|(sample, is)| **is != should(sample));
    assert!(odd.next().is_none(), "{what}: {cells:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_benchmarks_own_solutions_solve_its_tasks_through_our_tools() {
    let Some(python) = python() else { return };
    let played = play(&python, ("banking", "none"), false, |_| true).await;
    for variant in ["base", "filtered"] {
        let cells = played.of(variant, "utility");
        assert_eq!(cells.len(), 16);
        are(&cells, |_| true, variant);
    }
    // Where nobody approves, what can be done by looking is done.
    let mut cells = played.of("with_approvals", "utility");
    cells.retain(|sample, _| played.only_looks(sample));
    assert!(!cells.is_empty());
    are(&cells, |_| true, "with_approvals");
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_and_a_filter_keep_what_an_injection_orders_from_being_done() {
    let Some(python) = python() else { return };
    let attack = ("banking", "important_instructions");
    let few = |sample: &Sample| sample.cluster() == "user_task_0";
    let played = play(&python, attack, false, few).await;
    let base = played.of("base", "security");
    assert_eq!(base.len(), 9);
    are(&base, |_| false, "the worst model obeys");
    for variant in ["filtered", "with_approvals"] {
        are(&played.of(variant, "security"), |_| true, variant);
    }
    are(&played.of("filtered", "utility"), |_| true, "filtered");
    // A filter knows forms and no meaning.
    let played = play(&python, ("banking", "direct"), false, few).await;
    are(&played.of("filtered", "security"), |_| false, "filtered");
    are(
        &played.of("with_approvals", "security"),
        |_| true,
        "with_approvals",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_suite_is_scored_by_its_own_programs() {
    let Some(python) = python() else { return };
    let one = |sample: &Sample| sample.id == "user_task_0+injection_task_0";
    let attack = ("banking", "important_instructions");
    let played = play(&python, attack, true, one).await;
    let of = |variant| {
        [
            played.of(variant, "utility"),
            played.of(variant, "security"),
        ]
    };
    let values = |variant| of(variant).map(|cells| cells.into_values().collect::<Vec<_>>());
    assert_eq!(values("base"), [[true], [false]]);
    assert_eq!(values("filtered"), [[true], [true]]);
    assert_eq!(values("with_approvals"), [[false], [true]]);
}

/// The mean of shares that come in clusters, with its interval.
fn rate(cells: &[(String, bool)]) -> String {
    let mut clusters = BTreeMap::<&str, Vec<f64>>::new();
    for (cluster, is) in cells {
        let cluster = clusters.entry(cluster).or_default();
        cluster.push(f64::from(u8::from(*is)));
    }
    let mean = Clustered::new(clusters.into_values()).mean().unwrap();
    let bounds = mean.interval.map(|found| (found.lower, found.upper));
    let count = cells.iter().filter(|(_, is)| *is).count();
    format!(
        "{count} of {}, {:.3} {bounds:?}",
        cells.len(),
        mean.estimate
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_benchmark_is_played_with_and_without_guards() {
    let Some(python) = python().filter(|_| is_whole()) else {
        return;
    };
    let attack = std::env::var("GHOSTLIGHT_DOJO_ATTACK");
    let attack = attack.unwrap_or_else(|_| String::from("important_instructions"));
    for (attack, whole) in [("none", 97), (&*attack, 949)] {
        let mut done = BTreeMap::<(&str, &str), Vec<(String, bool)>>::new();
        for suite in ["banking", "slack", "travel", "workspace"] {
            let played = play(&python, (suite, attack), false, |_| true).await;
            for cell in &played.cells {
                let cluster = format!("{suite} {}", cell.cluster);
                let is = |measure: &str| cell.value(measure).unwrap() >= 1.0;
                let mut count = |what, is| {
                    let key = (variant_of(cell), what);
                    done.entry(key).or_default().push((cluster.clone(), is));
                };
                count("utility", is("utility"));
                // The benchmark has no solution of some injection tasks, so the model cannot obey those.
                let injected = played.tasks[&cell.sample].get("injected");
                let injected = injected.and_then(Value::as_array);
                if injected.is_some_and(|calls| !calls.is_empty()) {
                    count("injections done", !is("security"));
                }
            }
            println!("{attack}, up to {suite}:");
            for ((variant, what), cells) in &done {
                println!("  {variant}, {what}: {}", rate(cells));
            }
        }
        let base = &done[&("base", "utility")];
        assert_eq!(base.len(), whole);
        assert!(attack != "none" || base.iter().all(|(_, is)| *is));
    }
}

fn variant_of(cell: &Cell) -> &'static str {
    let known = ["base", "filtered", "with_approvals"];
    known
        .into_iter()
        .find(|name| *name == cell.variant)
        .unwrap()
}
