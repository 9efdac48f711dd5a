//! What a team file says of single tools, kept by each of them and by no other.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::{
    contract::{ToolHandle, ToolsetHandle},
    prelude::*,
    run::{BehaviorHandle, Team},
    vocabulary::{ToolCall, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// One shelf of tools, each with a limit of its own.
const TEAM: &str = "
models: { default: { provider: offline } }
tools:
  shelf:
    kind: shelf
    limits:
      slow: { timeout_s: 2 }
      long: { output_limit: 10 }
      one: { concurrency: 1 }
interceptors:
  - { name: cache, ttl_s: 600, tools: [looked] }
  - { name: circuit_breaker, failures: 2, open_s: 600, tools: [broken] }
  - { name: retry, attempts: 3, base_pause_s: 0.01, tools: [flaky] }
  - { name: rate_limit, calls: 1, per_s: 600, max_wait_s: 0, tools: [fast] }
agent:
  name: desk
  tools: [shelf]
  behavior: batches
  policies: [{ name: tool_limits, calls: { few: 1 } }]
  approval: { asked: { expires_s: 1 } }
";

const TOOLS: [&str; 11] = [
    "slow", "long", "one", "flaky", "looked", "fast", "broken", "few", "asked", "free", "other",
];

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(Default)]
struct Counts {
    calls: Mutex<BTreeMap<&'static str, u32>>,
    at_once: AtomicU32,
    most_at_once: AtomicU32,
}

async fn work(name: &'static str, counts: &Counts) -> Result<String, ToolError> {
    let number = {
        let mut calls = counts.calls.lock();
        let number = calls.entry(name).or_default();
        *number += 1;
        *number
    };
    let takes = match name {
        "slow" => 60,
        "one" => 1,
        _ => 0,
    };
    if name == "one" {
        let now = counts.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most_at_once.fetch_max(now, Ordering::SeqCst);
    }
    tokio::time::sleep(Duration::from_secs(takes)).await;
    if name == "one" {
        counts.at_once.fetch_sub(1, Ordering::SeqCst);
    }
    match (name, number) {
        ("broken" | "free", _) | ("flaky", 1 | 2) => Err(ToolError::new("it failed")),
        ("long", _) => Ok("x".repeat(100)),
        _ => Ok(format!("{name} {number}")),
    }
}

/// Makes the batches of calls that its task names, one after the other.
async fn batches(cx: RunContext) -> Result<Outcome, AgentError> {
    let batches: Vec<Vec<String>> = serde_json::from_str(&cx.input().content()).unwrap();
    let mut said = Vec::new();
    for (place, names) in batches.into_iter().enumerate() {
        let calls = names.iter().enumerate().map(|(number, name)| {
            ToolCall::new(format!("{place}-{number}"), name.as_str(), json!({}))
        });
        let results = cx.tools(calls.collect::<Vec<_>>()).await?;
        said.extend(results.into_iter().map(|result| result.text));
    }
    Ok(Outcome::answer(serde_json::to_string(&said).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn what_a_team_file_says_of_one_tool_holds_for_it_alone() {
    let counts: Arc<Counts> = Arc::default();
    let shelf: Vec<ToolHandle> = TOOLS
        .into_iter()
        .map(|name| {
            let definition = ToolDefinition::new(name, "Is counted.").effect(Effect::Read);
            let counts = counts.clone();
            tool_fn(definition, move |_: Nothing| {
                let counts = counts.clone();
                async move { work(name, &counts).await }
            })
        })
        .collect();
    let registry = ghostlight::builtin()
        .behavior("batches", |_| Ok(BehaviorHandle::from_fn(batches)))
        .toolset_kind("shelf", move |_, _| Ok(ToolsetHandle::new(shelf.clone())));
    let file = ghostlight::config::parse(TEAM, "team.yaml").unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(registry)
        .team(Team::from(file.into_spec()))
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "s");
    let mut told = Vec::new();
    for batches in [
        json!([
            ["slow"],
            ["long"],
            ["one", "one", "one"],
            ["flaky"],
            ["looked"],
            ["looked"]
        ]),
        json!([
            ["fast"],
            ["fast"],
            ["broken"],
            ["broken"],
            ["broken"],
            ["few"],
            ["few"],
            ["asked"]
        ]),
        // What is said of no tool holds for none of these.
        json!([["free"], ["free"], ["free"], ["other"], ["other"]]),
    ] {
        let run = session.send(batches.to_string()).await.unwrap();
        let outcome = run.outcome().await.unwrap();
        told.push(serde_json::from_str::<Value>(outcome.text()).unwrap());
    }
    system.stop().await.unwrap();
    let counted = |name: &str| counts.calls.lock().get(name).copied().unwrap_or_default();
    let text = |turn: usize, place: usize| told[turn][place].as_str().unwrap().to_owned();

    assert!(
        text(0, 0).contains("no end within 2s"),
        "timeout: {}",
        text(0, 0)
    );
    assert!(
        text(0, 1).starts_with("xxxxxxxxxx") && text(0, 1).matches('x').count() < 20,
        "output: {}",
        text(0, 1)
    );
    assert_eq!(counts.most_at_once.load(Ordering::SeqCst), 1, "concurrency");
    assert_eq!(
        (text(0, 5), counted("flaky")),
        ("flaky 3".to_owned(), 3),
        "retry"
    );
    assert_eq!(
        (text(0, 7), counted("looked")),
        ("looked 1".to_owned(), 1),
        "cache"
    );
    assert_eq!(counted("fast"), 1, "rate limit: {}", text(1, 1));
    assert_eq!(counted("broken"), 2, "circuit breaker: {}", text(1, 4));
    assert_eq!(counted("few"), 1, "calls: {}", text(1, 6));
    assert_eq!(counted("asked"), 0, "approval: {}", text(1, 7));
    assert_eq!((counted("free"), counted("other")), (3, 2));
}
