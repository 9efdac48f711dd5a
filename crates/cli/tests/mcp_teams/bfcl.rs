//! The multi-turn categories of BFCL: our checker's verdicts are the official one's, and the expected calls, made through
//! our tools, are right. Of the memory categories: what one conversation keeps in the benchmark's memories and in ours, the next
//! finds there. Of its format sensitivity: the official checker judges answers in every form.

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

/// Plays a written suite with the samples that are wanted over this store, and says of each whether it is right.
async fn play(
    (folder, store): (&Path, &InMemoryStore),
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
    let builder = System::builder(store.another_process()).recover(false);
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
    play((&folder, &InMemoryStore::new()), "base", wanted, model).await
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_through_our_tools_are_scored_turn_by_turn() {
    let Some(python) = python() else { return };
    assert_eq!(three(&python, false).await, [true; 3]);
    assert_eq!(three(&python, true).await, [false; 3]);
}

/// A memory, and the calls by which it is used.
struct Way {
    /// The name of the suite.
    name: &'static str,
    /// The call that keeps a value under a key.
    keep: fn(&str, &str) -> (&'static str, Value),
    /// The call that finds what is kept under a key.
    find: fn(&str) -> (&'static str, Value),
}

const KEYED: Way = Way {
    name: "memory_kv",
    keep: |key, value| {
        let arguments = json!({ "key": key, "value": value });
        ("archival_memory_add", arguments)
    },
    find: |key| ("archival_memory_retrieve", json!({ "key": key })),
};

const VECTORS: Way = Way {
    name: "memory_vector",
    keep: |key, value| {
        let arguments = json!({ "text": format!("{key}: {value}\n") });
        ("archival_memory_add", arguments)
    },
    find: |key| ("archival_memory_retrieve", json!({ "query": key })),
};

const SUMMARY: Way = Way {
    name: "memory_rec_sum",
    keep: |key, value| {
        let arguments = json!({ "text": format!("{key}: {value}\n") });
        ("memory_append", arguments)
    },
    find: |_| ("memory_retrieve", json!({})),
};

const OWN: Way = Way {
    name: "memory_own-notetaker",
    keep: |key, value| {
        let content = format!("{key}: {value}");
        let arguments =
            json!({ "action": "add", "scope": "team", "about": key, "content": content });
        ("memory", arguments)
    },
    find: |key| ("memory", json!({ "action": "search", "query": key })),
};

/// A model that keeps what it will be asked for, each thing in one of the conversations, and looks there when it is asked.
struct Remembering {
    /// The session's sample, with what is to be kept in its first turn: keys and values.
    kept: BTreeMap<String, Vec<(String, String)>>,
    way: &'static Way,
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
        let call = |(tool, arguments): (&str, Value)| {
            let call = ToolCall::new(format!("call-{done}"), tool, arguments);
            Ok(ModelResponse::tool_calls([call]))
        };
        if request.tools.is_empty() {
            return Ok(ModelResponse::text("There is nothing more to keep."));
        }
        if !sample.contains("prereq") {
            let key = key_of(sample);
            return match results.as_slice() {
                [] => call((self.way.find)(&key)),
                // All that is in the text is read, and the line of this question is said.
                [found, ..] => {
                    let is_kv = self.way.name == KEYED.name;
                    let mut lines = found.split("\\n").flat_map(str::lines);
                    let line = lines.find(|line| is_kv || line.contains(&format!("{key}:")));
                    Ok(ModelResponse::text(line.unwrap_or("I do not know.")))
                }
            };
        }
        match self.kept.get(sample).and_then(|kept| kept.get(done)) {
            None => Ok(ModelResponse::text("I see.")),
            Some((key, value)) => call((self.way.keep)(key, value)),
        }
    }
}

/// The key under which the answer to a question is kept: its id as a name.
fn key_of(question: &str) -> String {
    question.replace('-', "_")
}

/// The verdicts on the questions about one scenario, with all answers kept but those to every third question.
async fn remembered(python: &Path, way: &'static Way) {
    let (name, category) = (way.name, way.name.split('-').next().unwrap());
    let folder = Peer::new(&format!("bfcl-{name}"), &[]).folder;
    run(
        python,
        &["bfcl_suite.py", "write", category, folder.to_str().unwrap()],
    );
    let file = folder.join(format!("{name}-team.yaml"));
    let mut team: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    if let Some(server) = team.pointer_mut("/mcp/world") {
        // `sentence_transformers.py` is here.
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_teams");
        server["env"] = json!({ "PYTHONPATH": here });
        std::fs::write(&file, team.to_string()).unwrap();
    }
    let samples = |name: &str| -> Vec<Sample> {
        let lines = std::fs::read_to_string(folder.join(name)).unwrap();
        let read = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let is_here = |sample: &Sample| sample.tags == ["notetaker"];
        read.filter(is_here).collect()
    };
    let before = samples(&format!("{name}-before.jsonl"));
    let questions = samples(&format!("{name}.jsonl"));
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
    let model = |kept| Remembering { kept, way };
    let store = InMemoryStore::new();
    let place = (folder.as_path(), &store);
    let told = play(place, &format!("{name}-before"), is_here, model(kept)).await;
    assert_eq!(told, [true; 5]);
    let verdicts = play(place, name, is_here, model(BTreeMap::new())).await;
    let expected: Vec<bool> = (0..questions.len()).map(is_kept).collect();
    assert_eq!(verdicts, expected, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_conversation_keeps_answers_the_questions_of_the_next() {
    let Some(python) = python() else { return };
    for way in [&KEYED, &VECTORS, &SUMMARY, &OWN] {
        remembered(&python, way).await;
    }
}

#[test]
fn answers_in_every_form_are_judged_by_the_official_checker() {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_teams/bfcl_formats.py");
    let told = run(&python, &[script.to_str().unwrap()]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["count"], 260);
    for (answer, right) in told["right"].as_object().unwrap() {
        let wanted = if answer == "right" { 260 } else { 0 };
        assert_eq!(*right, wanted, "{answer}");
    }
}
