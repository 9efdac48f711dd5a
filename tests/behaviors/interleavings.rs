//! Whatever a model asks for, however long its tools take and whenever people speak, the
//! conversation stays one that providers accept, and nothing of it is lost.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::{ToolError, ToolHandle},
    testing::{Reply, ScriptedModel},
    vocabulary::{Effect, ToolCall, ToolDefinition},
};
use proptest::{
    prelude::{Just, Strategy, prop},
    prop_oneof,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use crate::stage::{Stage, desk};

fn wait() -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Wait {
        ms: u64,
        fail: bool,
    }
    let definition = ToolDefinition::new("wait", "Waits.").effect(Effect::Read);
    tool_fn(definition, |wait: Wait| async move {
        tokio::time::sleep(Duration::from_millis(wait.ms)).await;
        match wait.fail {
            true => Err(ToolError::new("it failed")),
            false => Ok(format!("waited {}", wait.ms)),
        }
    })
}

/// One call: id, tool and arguments, right or wrong.
fn calls() -> impl Strategy<Value = ToolCall> {
    let right =
        (0_u64..3000, prop::bool::ANY).prop_map(|(ms, fail)| json!({"ms": ms, "fail": fail}));
    let arguments = prop_oneof![4 => right, 1 => Just(json!({"ms": "x"})), 1 => Just(json!([1]))];
    let tool =
        prop_oneof![4 => Just("wait"), 1 => Just("nothing"), 1 => Just("transfer_to_nobody")];
    ("(a|b)?", tool, arguments).prop_map(|(id, tool, arguments)| ToolCall::new(id, tool, arguments))
}

async fn play(turns: Vec<Vec<ToolCall>>, spoken_ms: Vec<u64>) {
    let mut replies: Vec<Reply> = turns.iter().cloned().map(Reply::from).collect();
    // Each thing that is said while the model answers is worth one more answer.
    replies.extend(vec![Reply::from("done"); spoken_ms.len() + 1]);
    let model = ScriptedModel::replies(replies).delay(Duration::from_secs(1));
    let settings = json!({"max_empty_turns": 9});
    let stage = Stage::with(desk("function_calling", settings).tool(wait()), model).await;
    let run = stage.say("go").await;
    let mut heard = Vec::new();
    for (number, ms) in spoken_ms.into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        if run.steer(format!("aside {number}")).await.is_ok() {
            heard.push(format!("user: aside {number}"));
        }
    }
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    let last = stage.said(stage.calls() - 1);
    // What was said before the last request is in it, in its order.
    let asides: Vec<&String> = last
        .iter()
        .filter(|line| line.starts_with("user: aside"))
        .collect();
    assert!(
        asides.iter().copied().eq(heard.iter().take(asides.len())),
        "{heard:?} in {last:#?}"
    );
    let results: Vec<&String> = last
        .iter()
        .filter(|line| line.starts_with("tool: "))
        .collect();
    let asked = turns.iter().filter(|calls| !calls.is_empty());
    for (line, calls) in results.into_iter().zip(asked) {
        // A call that stands twice in one answer, id included, is one call.
        let mut made: Vec<&ToolCall> = Vec::new();
        for call in calls {
            if call.id.is_empty() || !made.contains(&call) {
                made.push(call);
            }
        }
        for (call, result) in made.into_iter().zip(line["tool: ".len()..].split(" | ")) {
            assert!(
                result.starts_with(&format!("{}=", call.name)),
                "{call:?}: {result}"
            );
            let args = call.arguments.value().unwrap();
            if call.name == "wait" && args["fail"] == json!(false) && args["ms"].is_u64() {
                assert_eq!(result, format!("wait=success:waited {}", args["ms"]));
            }
        }
    }
}

#[test]
fn any_interleaving_leaves_a_valid_conversation() {
    let turns = prop::collection::vec(prop::collection::vec(calls(), 0..5), 0..4);
    let spoken = prop::collection::vec(0_u64..4000, 0..4);
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let run = TestRunner::new(config).run(&(turns, spoken), |(turns, spoken)| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(turns, spoken));
        Ok(())
    });
    run.unwrap();
}
