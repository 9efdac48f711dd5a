//! Random batches with mixed answers, in any order, over crashes: each call has exactly one result,
//! and what was refused never runs.

use std::time::Duration;

use ghostlight_actors::{
    definition::{ApprovalRule, OnExpiry},
    vocabulary::{Effect, ToolCall, ToolStatus},
};
use proptest::prelude::*;
use serde_json::json;

use crate::{
    approvals::{caller, decide, results},
    stage::{Stage, ask},
};

/// What is done about a call.
#[derive(Clone, Copy, Debug)]
enum Done {
    Free,
    Approved,
    Denied,
    Edited,
    Supplied,
    Expired,
    Torn,
}

fn done() -> impl Strategy<Value = Done> {
    use Done::{Approved, Denied, Edited, Expired, Free, Supplied, Torn};
    prop::sample::select(vec![
        Free, Approved, Denied, Edited, Supplied, Expired, Torn,
    ])
}

async fn batch(calls: Vec<Done>, order: Vec<usize>, crashes: Vec<bool>) {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        let made = calls.iter().enumerate().map(|(number, done)| {
            let id = number.to_string();
            let name = format!("t{number}");
            match done {
                Done::Torn => ToolCall::new(id, name, "{\"n\":"),
                _ => ToolCall::new(id, name, json!({ "n": number })),
            }
        });
        let mut agent = caller(made.collect());
        for (number, done) in calls.iter().enumerate() {
            let name = format!("t{number}");
            agent = agent.tool(stage.tool(&name, Effect::Once, 3));
            if !matches!(done, Done::Free) {
                let rule =
                    ApprovalRule::required().expires(Duration::from_secs(30), OnExpiry::Deny);
                agent = agent.approval(name, rule);
            }
        }
        agent
    };
    let mut system = stage.start(agent(&stage)).await;
    let mut run = ask(&system, "a", "go").await;
    for (turn, number) in order.iter().enumerate() {
        if crashes[turn] {
            stage.crash(&system).await;
            system = stage.start(agent(&stage)).await;
            run = system.run(run.id());
        }
        let id = number.to_string();
        match calls[*number] {
            Done::Approved => decide(&run, &id, json!(true)).await,
            Done::Denied => decide(&run, &id, json!({ "approved": false, "reason": "no" })).await,
            Done::Edited => {
                let edited = json!({ "approved": true, "arguments": { "n": 100 } });
                decide(&run, &id, edited).await;
            }
            Done::Supplied => decide(&run, &id, json!({ "approved": true, "value": 7 })).await,
            Done::Free | Done::Expired | Done::Torn => {}
        }
    }
    let results = results(&run).await;
    assert_eq!(results.len(), calls.len());
    for (number, (done, result)) in calls.iter().zip(&results).enumerate() {
        assert_eq!(result.call_id, number.to_string());
        let (status, runs) = match done {
            Done::Free | Done::Approved | Done::Edited => (ToolStatus::Success, 1),
            Done::Supplied => (ToolStatus::Success, 0),
            Done::Denied | Done::Expired => (ToolStatus::Denied, 0),
            Done::Torn => (ToolStatus::Error, 0),
        };
        // A crash in the middle of a free call leaves it in doubt.
        let in_doubt =
            matches!(result.status, ToolStatus::Unknown) && status == ToolStatus::Success;
        assert!(result.status == status || in_doubt, "{done:?} {result:?}");
        assert_eq!(stage.log.count(&format!("t{number}")), runs, "{done:?}");
    }
    assert_eq!(stage.ends(run.id()).await, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_answered_and_whenever_it_dies_each_call_has_one_result(
        (calls, order, crashes) in (1..6_usize).prop_flat_map(|count| (
            prop::collection::vec(done(), count),
            Just((0..count).collect::<Vec<_>>()).prop_shuffle(),
            prop::collection::vec(prop::bool::weighted(0.3), count),
        ))
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(batch(calls, order, crashes));
    }
}
