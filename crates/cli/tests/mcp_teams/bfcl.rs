//! The multi-turn categories of BFCL: our checker's verdicts are the official one's, and the expected calls, made through
//! our tools, are right.

use std::{collections::BTreeMap, path::Path, process::Command};

use ghostlight::{
    config,
    contract::{ModelContext, ModelHandle},
    evals::{
        Evaluation,
        suite::{Sample, SuiteSpec},
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

/// The share of three conversations that the written suite finds right.
async fn share(python: &Path, is_careless: bool) -> Vec<bool> {
    let folder = Peer::new(&format!("bfcl-{is_careless}"), &[]).folder;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evals/benchmarks");
    let run = |arguments: &[&str]| {
        let done = Command::new(python)
            .args(arguments)
            .current_dir(&script)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        String::from_utf8(done.stdout).unwrap()
    };
    let at = folder.to_str().unwrap();
    run(&["bfcl_suite.py", "write", "base", at]);
    let expected = run(&[
        "-c",
        "import bfcl_suite as b, json\n\
         s = b.Suite('base')\n\
         named = lambda w, c: (c[0], dict(zip(w.methods[c[0]].__code__.co_varnames[1:], c[2])) | c[1])\n\
         t = lambda n: [[named(b.World(s.entries[n]), b.expected(x)) for x in turn] for turn in s.truth[n]]\n\
         print(json.dumps({n: t(n) for n in list(s.truth)[:3]}))",
    ]);
    let turns: BTreeMap<String, Vec<Vec<(String, Value)>>> =
        serde_json::from_str(&expected).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let suite: SuiteSpec = serde_json::from_str(&read("base.yaml")).unwrap();
    let lines = read("base.jsonl");
    let samples = lines.lines().take(3);
    let samples: Vec<Sample> = samples
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let file = config::load(folder.join("base-team.yaml")).unwrap();
    let evaluation = Evaluation::in_folder(suite, file.spec(), samples, &folder).unwrap();
    let model = ModelHandle::new(Expected { turns, is_careless });
    let registry = ghostlight::builtin().model("default", model);
    let builder = System::builder(InMemoryStore::new()).recover(false);
    let teams = evaluation.teams(&registry).into_iter();
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    let success = |cell: &ghostlight::evals::Cell| {
        cell.success().unwrap_or_else(|| panic!("{}", cell.text()))
    };
    cells.iter().map(success).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_through_our_tools_are_scored_turn_by_turn() {
    let Some(python) = python() else { return };
    assert_eq!(share(&python, false).await, [true; 3]);
    assert_eq!(share(&python, true).await, [false; 3]);
}
