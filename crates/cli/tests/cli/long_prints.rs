//! A long run is printed piece by piece: no command holds it as a whole.

use std::{fs, process::Stdio, thread, time::Duration};

use ghostlight_actors::{
    run::{BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, Effect, Outcome},
};
use serde_json::{Value, json};

use crate::own_command::Desk;

/// The size of each result.
const BYTES: usize = 20_000;
/// The behavior `piles`, which does as many steps as its settings say.
pub(crate) fn register(registry: Registry) -> Registry {
    registry.behavior("piles", |settings: &Value| {
        let steps = settings["steps"].as_u64().unwrap_or_default();
        Ok(BehaviorHandle::from_fn(move |cx| {
            Box::pin(piles(cx, steps))
        }))
    })
}

async fn piles(cx: RunContext, steps: u64) -> Result<Outcome, AgentError> {
    for _ in 0..steps {
        let look = async { Ok::<_, AgentError>("word ".repeat(BYTES / 5)) };
        cx.step("look", Effect::Read, look).await?;
    }
    Ok(Outcome::answer("done"))
}

/// The most memory in kilobytes that a command held, as far as it was seen.
fn most_held(desk: &Desk, words: &[&str]) -> u64 {
    let mut command = desk.own(words).stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let status = loop {
        let held = fs::read_to_string(format!("/proc/{}/status", command.id())).unwrap();
        let held = held.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let held = held.and_then(|held| held.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(held.unwrap_or(0));
        if let Some(status) = command.try_wait().unwrap() {
            break status;
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success() && most > 0, "{words:?}");
    most
}

#[test]
fn a_command_that_prints_a_long_run_holds_little_of_it() {
    let held = |steps: u64| {
        let desk = Desk::new("piles", json!({ "steps": steps }));
        desk.run(&["run", "team.yaml", "go"]).exits(0);
        let run = desk.only_run();
        [
            vec!["show", &run],
            vec!["show", &run, "--json"],
            vec!["recording", "export", &run, "--with-secrets"],
        ]
        .map(|words| most_held(&desk, &words))
    };
    let (short, long) = (held(100), held(4_000));
    println!("{short:?} and {long:?} kB");
    for (short, long) in short.into_iter().zip(long) {
        // 3,900 results more are 78 MB.
        assert!(long <= short + 16_000, "{short} and {long} kB");
    }
}
