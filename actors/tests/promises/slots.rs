//! A `once` call is said to have begun when it has its slot, and not before.

use futures_util::future::join_all;
use ghostlight_actors::{
    run::{Agent, RunContext},
    vocabulary::{Begun, Effect, Entry, Outcome, ToolCall, ToolStatus},
};
use serde_json::json;

use crate::stage::{Stage, ask, pause, text};

const CALLS: usize = 50;
const SLOTS: usize = 4;

fn payer(stage: &Stage) -> Agent {
    Agent::from_fn("payer", |cx: RunContext| async move {
        let calls = (0..CALLS).map(|number| {
            let call = ToolCall::new(number.to_string(), "pay", json!({ "number": number }));
            cx.tool_unasked(call)
        });
        let mut unknown = 0;
        for result in join_all(calls).await {
            match result?.status {
                ToolStatus::Success => {}
                ToolStatus::Unknown => unknown += 1,
                other => return Ok(Outcome::answer(format!("{other:?}"))),
            }
        }
        Ok(Outcome::answer(unknown.to_string()))
    })
    .tool(stage.tool("pay", Effect::Once, 1_000))
}

#[tokio::test(start_paused = true)]
async fn of_fifty_calls_that_are_killed_only_those_in_a_slot_are_in_doubt() {
    for moment in [500, 1_000, 1_001, 3_500, 12_100] {
        let mut stage = Stage::new();
        stage.limits.executor.concurrency = SLOTS;
        let system = stage.start(payer(&stage)).await;
        let run = ask(&system, "payer", "go").await.id();
        pause(moment).await;
        stage.crash(&system).await;
        let entries = stage.entries(run).await;
        let begun = |entry: &&Entry| {
            matches!(
                entry,
                Entry::Started {
                    begun: Begun::Effect,
                    ..
                }
            )
        };
        let begun = entries.iter().filter(begun).count();
        let is_end = |entry: &&Entry| matches!(entry, Entry::Completed { .. });
        let ended = entries.iter().filter(is_end).count();
        let in_doubt = begun - ended;
        assert!(
            in_doubt <= SLOTS,
            "{in_doubt} are in doubt after {moment} ms"
        );
        let system = stage.start(payer(&stage)).await;
        let unknown = text(&system.run(run)).await;
        assert_eq!(unknown, in_doubt.to_string(), "after {moment} ms");
        assert_eq!(stage.log.count("pay"), CALLS, "each is made once");
    }
}
