//! Games in a household, as an evaluation of a team whose tools are a server of the games: the benchmarks' own solutions
//! win them through our loop, and a way that stops before its end does not.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use ghostlight::{
    config,
    contract::{ModelContext, ModelHandle},
    evals::{
        Cell, Compared, Evaluation,
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

/// The Python that has the games; `None` where they are to be left out. They need Java.
fn games() -> Option<PathBuf> {
    let python = python()?;
    if Command::new("java").arg("-version").output().is_err() {
        println!("left out: the games need Java");
        return None;
    }
    Some(python)
}

/// The beginning of a sub-goal, which names the actions that belong to it.
const PART: &str = "Do the actions from ";
/// How many actions are a sub-goal.
const PARTS: usize = 6;

/// A model that plays the benchmark's solution of each game, of one only the first half. Each of its turns is one action, so it says
/// the next one whichever behavior asks; in a tree it divides the game into parts.
struct Player {
    solutions: BTreeMap<String, Vec<String>>,
    half: &'static str,
}

impl Model for Player {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let session = cx.origin().and_then(|origin| origin.session.clone());
        let key = session.unwrap().key;
        let game = key.split('/').nth(1).unwrap();
        let solution = &self.solutions[game];
        let solution = &solution[..solution.len() >> usize::from(game == self.half)];
        let messages = request.conversation.messages();
        let spoken = messages.iter();
        let spoken = spoken.filter(|message| message.role == Role::Assistant);
        let spoken = spoken.count();
        let goal = messages[0].content();
        let part = goal
            .strip_prefix(PART)
            .and_then(|part| part.split_once(" to "));
        let is_tree = request.tools.iter().any(|tool| tool.name == "expand");
        let call = |tool: &str, arguments: Value| {
            let call = ToolCall::new(format!("call-{spoken}"), tool, arguments);
            Ok(ModelResponse::tool_calls([call]))
        };
        let actions = match part {
            Some((from, to)) => &solution[from.parse().unwrap()..to.parse().unwrap()],
            None if is_tree => {
                let starts = (0..solution.len()).step_by(PARTS);
                let parts = starts
                    .map(|from| format!("{PART}{from} to {}", solution.len().min(from + PARTS)));
                let parts: Vec<String> = parts.collect();
                return call("expand", json!({ "flow": "sequence", "subgoals": parts }));
            }
            None => solution,
        };
        match actions.get(spoken) {
            None if is_tree => call("done", json!({ "result": "done" })),
            // As `react` wants it, which is an answer for the others, too.
            None => Ok(ModelResponse::text(
                "Thought: I am done.\nFinal: I am done.",
            )),
            Some(action) if request.tools.is_empty() => {
                let arguments = json!({ "action": action });
                let text = format!("Thought: I go on.\nAction: act\nArgs: {arguments}");
                Ok(ModelResponse::text(text))
            }
            Some(action) => call("act", json!({ "action": action })),
        }
    }
}

/// Writes a suite as its users do, and plays it in the variants that are wanted.
async fn play(
    python: &Path,
    words: &[&str],
    half: &'static str,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Cell> {
    let world = words[0];
    let folder = Peer::new(&words.concat(), &[]).folder;
    let script = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = script.join("../../examples/evals/benchmarks/household_suite.py");
    let written = Command::new(python)
        .arg(script)
        .args(["write", world, folder.to_str().unwrap(), "--gold"])
        .args(&words[1..])
        .status()
        .unwrap();
    assert!(written.success());
    let read = |name: String| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut spec: SuiteSpec = serde_json::from_str(&read(format!("{world}.yaml"))).unwrap();
    spec.variants.retain(|name, _| wanted(name));
    let samples = read(format!("{world}.jsonl"));
    let samples = samples.lines().map(serde_json::from_str);
    let samples: Vec<Sample> = samples.map(Result::unwrap).collect();
    let solution = |sample: &Sample| {
        let gold = sample.metadata["gold"].clone();
        (sample.id.clone(), serde_json::from_value(gold).unwrap())
    };
    let model = Player {
        solutions: samples.iter().map(solution).collect(),
        half,
    };
    let file = config::load(folder.join(format!("{world}-team.yaml"))).unwrap();
    let evaluation = Evaluation::in_folder(spec, file.spec(), samples, &folder).unwrap();
    let registry = ghostlight::builtin().model("default", ModelHandle::new(model));
    let builder = System::builder(InMemoryStore::new()).recover(false);
    let teams = evaluation.teams(&registry).into_iter();
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    cells
}

/// The games that were won, of how many.
fn won(cells: &[Cell]) -> (usize, usize) {
    let won = |cell: &&Cell| cell.success().unwrap_or_else(|| panic!("{}", cell.why()));
    (cells.iter().filter(won).count(), cells.len())
}

fn is_base(variant: &str) -> bool {
    variant == "base"
}

#[tokio::test(flavor = "multi_thread")]
async fn households_are_tidied_through_our_loop_as_the_benchmark_tidies_them() {
    let Some(python) = games() else { return };
    let (count, half) = if is_whole() {
        (101, "twc-100")
    } else {
        (11, "twc-10")
    };
    let games = ["twc", "--games", &count.to_string()];
    let cells = play(&python, &games, half, is_base).await;
    assert_eq!(won(&cells), (count - 1, count));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_science_are_done_through_our_loop_as_the_benchmark_does_them() {
    let Some(python) = games() else { return };
    if is_whole() {
        let cells = play(&python, &["scienceworld"], "", is_base).await;
        assert_eq!(won(&cells), (30, 30));
        return;
    }
    let kinds = "find-living-thing,lifespan-longest-lived";
    let words = ["scienceworld", "--kinds", kinds];
    let cells = play(&python, &words, "find-living-thing-0", is_base).await;
    assert_eq!(won(&cells), (1, 2));
    let score = cells[0].value("score").unwrap();
    assert!(0.0 < score && score < 1.0, "{score}");
}

/// What each behavior makes of one player that is always right: it may cost more, and it may not lose a game.
#[tokio::test(flavor = "multi_thread")]
async fn no_behavior_loses_a_game_that_its_player_wins() {
    let Some(python) = games() else { return };
    let count = if is_whole() { 200 } else { 2 };
    let games = ["twc", "--from", "20000", "--games", &count.to_string()];
    let cells = play(&python, &games, "", |_| true).await;
    let mut calls = BTreeMap::<&str, Vec<u64>>::new();
    for cell in &cells {
        assert_eq!(
            cell.success(),
            Some(true),
            "{} of {}: {}",
            cell.sample,
            cell.variant,
            cell.why()
        );
        let calls = calls.entry(&cell.variant).or_default();
        calls.push(cell.spent.model_calls);
    }
    let of = |variant: &str| -> Vec<&Cell> {
        let cells = cells.iter().filter(|cell| cell.variant == variant);
        cells.collect()
    };
    for (variant, calls) in &calls {
        let all: u64 = calls.iter().sum();
        println!("{variant}: {count} of {count}, {all} calls of the model");
        if !is_base(variant) {
            let (base, other) = (of("base"), of(variant));
            println!(
                "{}",
                Compared::new(("base", &base), (*variant, &other), 0.03).text()
            );
        }
    }
    assert_eq!(calls.len(), 5);
    // Sample by sample: text in the place of calls, and a memory, cost no call; a tree asks once more for each of its nodes.
    for same in ["react", "memory"] {
        assert_eq!(calls[same], calls["base"], "{same}");
    }
    assert_eq!(calls["tree"], calls["tree_with_memory"]);
    let mut pairs = calls["tree"].iter().zip(&calls["base"]);
    assert!(pairs.all(|(tree, base)| tree > base));
}
