//! Episodes through the gateway of Agent Lightning, which is the official one: a trainer finds there each call as
//! tokens, and each reward once, also where the runner was killed.

#![allow(clippy::print_stdout)]
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::own_command::Desk;

/// The episodes that are under way at once.
const AT_ONCE: usize = 10;
/// The calls of an episode: one that asks for the sum, and one that tells it.
const CALLS: usize = 2;

/// How many episodes there are: a hundred where the benchmarks are wanted as a whole.
fn episodes() -> usize {
    match std::env::var_os("GHOSTLIGHT_WHOLE_BENCHMARKS").is_some_and(|whole| whole == "1") {
        true => 100,
        false => 30,
    }
}

/// A trainer, in a process of its own.
struct Trainer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Trainer {
    /// `None` where it is to be left out.
    fn new() -> Option<Self> {
        let Some(python) = std::env::var_os("GHOSTLIGHT_BENCHMARKS") else {
            println!(
                "left out: GHOSTLIGHT_BENCHMARKS names no Python with the trainer, as ./test does"
            );
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/trainer.py");
        let mut process = Command::new(python)
            .arg(script)
            .arg(episodes().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut trainer = Self {
            process,
            input,
            output,
            address: String::new(),
        };
        trainer.address = trainer.line();
        Some(trainer)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the trainer has ended");
        line.trim().to_owned()
    }

    /// The episodes that ended, in the order of their ends.
    fn found(&mut self) -> Vec<Value> {
        self.found_after("")
    }

    /// Lets this number of episodes end, and the others wait for the model.
    fn let_end(&mut self, episodes: usize) {
        self.found_after(&episodes.to_string());
    }

    fn found_after(&mut self, line: &str) -> Vec<Value> {
        writeln!(self.input, "{line}").unwrap();
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn desk() -> Desk {
    let desk = Desk::new("says", json!({}));
    let model =
        json!({ "provider": "openai", "model": "small", "base_url": "http://127.0.0.1:9/v1" });
    let agent = json!({ "name": "adder", "tools": ["calculator"] });
    let team = json!({ "name": "adder", "models": { "default": model }, "agent": agent });
    desk.write("adder.yaml", &team.to_string());
    let suite = json!({
        "evaluation": "trained", "team": "adder.yaml", "concurrency": AT_ONCE,
        "data": [{ "inline": [{ "id": "any", "input": "What is 1 + 1?", "expected": 2 }] }],
        "scorers": [{ "answer": { "as": "number" } }],
        "reward": { "sum": [{ "of": "answer", "weight": 2 }, { "of": "model_calls", "weight": -0.25 }] },
    });
    desk.write("suite.yaml", &suite.to_string());
    desk
}

/// Checks what the trainer finds of all episodes, and gives the calls that its model answered.
fn check(found: &[Value]) -> u64 {
    let number = |episode: &Value| -> u64 {
        let id = episode["rollout_id"].as_str().unwrap();
        id.strip_prefix("episode-").unwrap().parse().unwrap()
    };
    let by_number: BTreeMap<u64, &Value> = found.iter().map(|one| (number(one), one)).collect();
    assert_eq!((found.len(), by_number.len()), (episodes(), episodes()));
    for (n, episode) in &by_number {
        assert_eq!(episode["state"], "succeeded", "{episode}");
        // The policy is wrong where the first number is a multiple of 4.
        let is_right = n % 4 != 0;
        let reward = if is_right { 1.5 } else { -0.5 };
        assert_eq!(episode["rewards"], json!([reward]), "{episode}");
        let calls = episode["calls"].as_array().unwrap();
        assert_eq!(calls.len(), CALLS, "{episode}");
        for call in calls {
            let length = call["response"].as_str().unwrap().len();
            let probabilities = match n % 10 {
                0 => Value::Null,
                _ => json!(length),
            };
            assert_eq!(call["logprobs"], probabilities, "{episode}");
        }
        // The tokens are those of this episode: its question, its tool's result, and the answer that was rewarded.
        let text = |call: usize, name: &str| calls[call][name].as_str().unwrap().to_owned();
        let question = format!("What is {n} + {}?", 2 * n);
        assert!(text(0, "prompt").contains(&question), "{episode}");
        assert!(text(0, "response").contains("calculator"), "{episode}");
        assert!(text(1, "prompt").contains("\"tool\""), "{episode}");
        let sum = 3 * n + u64::from(!is_right);
        assert_eq!(text(1, "response"), format!("The sum is {sum}"));
    }
    found.iter().map(|one| one["asked"].as_u64().unwrap()).sum()
}

#[test]
fn a_trainer_finds_each_episode_as_tokens_with_its_reward() {
    let Some(mut trainer) = Trainer::new() else {
        return;
    };
    let desk = desk();
    let words = [
        "eval",
        "rollouts",
        "suite.yaml",
        "--gateway",
        &trainer.address,
    ];
    let done = desk.shipped(&words).exits(0);
    let wanted = format!("{} rollouts with a reward, 0 without", episodes());
    assert!(done.out.contains(&wanted), "{}", done.out);
    assert_eq!(check(&trainer.found()), (episodes() * CALLS) as u64);
}

#[test]
fn a_runner_that_was_killed_leaves_a_trainer_the_same_episodes() {
    let Some(mut trainer) = Trainer::new() else {
        return;
    };
    let desk = desk();
    let address = trainer.address.clone();
    let words = [
        "eval",
        "rollouts",
        "suite.yaml",
        "--gateway",
        &address,
        "--take-running",
    ];
    let kills = [2, 5, 8].map(|tenths| tenths * episodes() / 10);
    for ended in kills {
        trainer.let_end(ended);
        let mut runner = desk.start_shipped(&words);
        desk.until("the next episodes", |_| trainer.found().len() == ended);
        assert!(runner.0.try_wait().unwrap().is_none(), "the others wait");
        runner.0.kill().unwrap();
        runner.0.wait().unwrap();
    }
    trainer.let_end(episodes());
    desk.shipped(&words).exits(0);
    let asked = check(&trainer.found());
    // What was under way when it was killed was asked a second time, and nothing else.
    let most = (episodes() * CALLS + kills.len() * AT_ONCE) as u64;
    assert!(asked <= most, "{asked} calls of at most {most}");
}
