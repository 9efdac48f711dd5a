//! The multi-turn categories of BFCL: our checker's verdicts are the official one's, and the expected calls, made through
//! our tools, are right. Of the memory categories: what one conversation keeps in the benchmark's memory, the next finds there.

use std::{collections::BTreeMap, path::Path, process::Command};

use ghostlight::{
    config,
    contract::{ModelContext, ModelHandle},
    evals::{
        Cell, Evaluation,
        suite::{Sample, SuiteSpec, TeamSource},
    },
    prelude::*,
    vocabulary::{Role, ToolCall},
};
use serde_json::{Value, json};

use crate::{
    dojo::{is_whole, python},
    peer::Peer,
};

/// Compares the verdicts on the expected calls of these categories, and on so many mutations of each.
fn compare(python: &Path, mutated: u64, categories: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_teams");
    let compared = Command::new(python)
        .arg(folder.join("bfcl_official.py"))
        .arg(mutated.to_string())
        .args(categories)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compared.stderr);
    assert!(compared.status.success(), "{said}");
    let count: Value = serde_json::from_slice(&compared.stdout).unwrap();
    assert_eq!(count["differ"], json!([]));
    let number = |name: &str| count[name].as_u64().unwrap();
    let entries = categories.len() as u64 * 200;
    assert_eq!(number("gold"), entries, "the expected calls are right");
    // Both verdicts are seen.
    assert!(number("wrong") > entries / 4, "{count}");
    assert_eq!(number("right") + number("wrong"), entries * (mutated + 1));
    println!("{count}");
}

#[test]
fn verdicts_on_calls_of_many_turns_are_those_of_the_official_checker() {
    let Some(python) = python() else { return };
    let all = ["base", "miss_param", "miss_func", "long_context"];
    let (mutated, categories) = match is_whole() {
        true => (5, &all[..]),
        false => (1, &all[..2]),
    };
    compare(&python, mutated, categories);
}

/// A model that makes the calls that are expected in each turn, but for the last one where it is told to be careless.
struct Expected {
    turns: BTreeMap<String, Vec<Vec<(String, Value)>>>,
    is_careless: bool,
}

impl Model for Expected {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let session = cx.origin().and_then(|origin| origin.session.clone());
        let key = session.unwrap().key;
        let turns = &self.turns[key.split('/').nth(1).unwrap()];
        let (mut turn, mut made) = (0, 0);
        for message in request.conversation.messages() {
            match message.role {
                Role::User => (turn, made) = (turn + 1, 0),
                _ => made += message.tool_results().count(),
            }
        }
        let mut calls = turns[turn - 1].clone();
        if self.is_careless && turn == turns.len() {
            calls.pop();
        }
        Ok(match calls.get(made) {
            None => ModelResponse::text("done"),
            Some((tool, arguments)) => {
                let id = format!("{turn}-{made}");
                ModelResponse::tool_calls([ToolCall::new(id, tool.as_str(), arguments.clone())])
            }
        })
    }
}

/// Runs a script of the benchmarks, and gives what it printed.
fn run(python: &Path, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evals/benchmarks");
    let done = Command::new(python)
        .args(arguments)
        .current_dir(&script)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    String::from_utf8(done.stdout).unwrap()
}

/// Plays a written suite with the samples that are wanted, and says of each whether it is right.
async fn play(
    folder: &Path,
    name: &str,
    wanted: impl Fn(&Sample) -> bool,
    model: impl Model,
) -> Vec<bool> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let suite: SuiteSpec = serde_json::from_str(&read(&format!("{name}.yaml"))).unwrap();
    let lines = read(&format!("{name}.jsonl"));
    let samples = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let samples: Vec<Sample> = samples.filter(wanted).collect();
    let TeamSource::File(team) = &suite.team else {
        panic!("{:?}", suite.team);
    };
    let file = config::load(folder.join(team)).unwrap();
    let evaluation = Evaluation::in_folder(suite, file.spec(), samples, folder).unwrap();
    let registry = ghostlight::builtin().model("default", ModelHandle::new(model));
    let builder = System::builder(InMemoryStore::new()).recover(false);
    let teams = evaluation.teams(&registry).into_iter();
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    let success = |cell: &Cell| cell.success().unwrap_or_else(|| panic!("{}", cell.why()));
    cells.iter().map(success).collect()
}

/// The verdicts of the written suite on three conversations.
async fn three(python: &Path, is_careless: bool) -> Vec<bool> {
    let folder = Peer::new(&format!("bfcl-{is_careless}"), &[]).folder;
    let at = folder.to_str().unwrap();
    run(python, &["bfcl_suite.py", "write", "base", at]);
    let told = run(
        python,
        &[
            "-c",
            "import bfcl_suite as b, json\n\
             s = b.Suite('base')\n\
             named = lambda w, c: (c[0], dict(zip(w.methods[c[0]].__code__.co_varnames[1:], c[2])) | c[1])\n\
             t = lambda n: [[named(b.World(s.entries[n]), b.expected(x)) for x in turn] for turn in s.truth[n]]\n\
             print(json.dumps({n: t(n) for n in list(s.truth)[:3]}))",
        ],
    );
    let turns: BTreeMap<String, Vec<Vec<(String, Value)>>> = serde_json::from_str(&told).unwrap();
    let known: Vec<String> = turns.keys().cloned().collect();
    let model = Expected { turns, is_careless };
    let wanted = |sample: &Sample| known.contains(&sample.id);
    play(&folder, "base", wanted, model).await
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_through_our_tools_are_scored_turn_by_turn() {
    let Some(python) = python() else { return };
    assert_eq!(three(&python, false).await, [true; 3]);
    assert_eq!(three(&python, true).await, [false; 3]);
}

/// A model that keeps what it will be asked for, each thing in one of the conversations, and looks there when it is asked.
struct Remembering {
    /// The session's sample, with what is to be kept in its first turn: keys and values.
    kept: BTreeMap<String, Vec<(String, String)>>,
    keep: &'static str,
    find: &'static str,
}

impl Model for Remembering {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let session = cx.origin().and_then(|origin| origin.session.clone());
        let key = session.unwrap().key;
        let sample = key.split('/').nth(1).unwrap();
        let messages = request.conversation.messages();
        let results = messages.iter().flat_map(|message| message.tool_results());
        let results: Vec<&str> = results.map(|result| result.text.as_str()).collect();
        let done = results.len();
        let call = |tool: &str, arguments: Value| {
            let call = ToolCall::new(format!("call-{done}"), tool, arguments);
            ModelResponse::tool_calls([call])
        };
        let (is_kv, is_asked) = (
            self.find == "archival_memory_retrieve",
            !sample.contains("prereq"),
        );
        if is_asked {
            let key = key_of(sample);
            return Ok(match results.as_slice() {
                [] if is_kv => call(self.find, json!({ "key": key })),
                [] => call(self.find, json!({})),
                // All that is in the text is read, and the line of this question is said.
                [found, ..] => {
                    let lines: Vec<&str> = found.split("\\n").collect();
                    let line = lines
                        .iter()
                        .find(|line| is_kv || line.contains(&format!("{key}:")));
                    ModelResponse::text(line.copied().unwrap_or("I do not know."))
                }
            });
        }
        Ok(
            match self.kept.get(sample).and_then(|kept| kept.get(done)) {
                None => ModelResponse::text("I see."),
                Some((key, value)) if is_kv => {
                    call(self.keep, json!({ "key": key, "value": value }))
                }
                Some((key, value)) => {
                    call(self.keep, json!({ "text": format!("{key}: {value}\n") }))
                }
            },
        )
    }
}

/// The key under which the answer to a question is kept: its id as a name.
fn key_of(question: &str) -> String {
    question.replace('-', "_")
}

/// The verdicts on the questions about one scenario, with all answers kept but those to every third question.
async fn remembered(python: &Path, category: &str, keep: &'static str, find: &'static str) {
    let folder = Peer::new(&format!("bfcl-{category}"), &[]).folder;
    run(
        python,
        &["bfcl_suite.py", "write", category, folder.to_str().unwrap()],
    );
    let samples = |name: &str| -> Vec<Sample> {
        let lines = std::fs::read_to_string(folder.join(name)).unwrap();
        let read = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let is_here = |sample: &Sample| sample.tags == ["notetaker"];
        read.filter(is_here).collect()
    };
    let before = samples(&format!("{category}-before.jsonl"));
    let questions = samples(&format!("{category}.jsonl"));
    assert_eq!((before.len(), questions.len()), (5, 25));
    let is_kept = |number: usize| !number.is_multiple_of(3);
    let mut kept = BTreeMap::<String, Vec<(String, String)>>::new();
    for (number, question) in questions.iter().enumerate().filter(|(n, _)| is_kept(*n)) {
        let conversation = &before[number % before.len()].id;
        let value = question.expected.as_ref().unwrap()[0].as_str().unwrap();
        let value = format!("It is {value}.");
        let kept = kept.entry(conversation.clone()).or_default();
        kept.push((key_of(&question.id), value));
    }
    let is_here = |sample: &Sample| sample.tags == ["notetaker"];
    let model = |kept| Remembering { kept, keep, find };
    let name = format!("{category}-before");
    assert_eq!(play(&folder, &name, is_here, model(kept)).await, [true; 5]);
    let verdicts = play(&folder, category, is_here, model(BTreeMap::new())).await;
    let expected: Vec<bool> = (0..questions.len()).map(is_kept).collect();
    assert_eq!(verdicts, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_conversation_keeps_answers_the_questions_of_the_next() {
    let Some(python) = python() else { return };
    let (keep, find) = ("archival_memory_add", "archival_memory_retrieve");
    remembered(&python, "memory_kv", keep, find).await;
    remembered(
        &python,
        "memory_rec_sum",
        "memory_append",
        "memory_retrieve",
    )
    .await;
}
