//! Behaviors survive anything: killed while any of their model calls is under way, they come to
//! the same answer, and no call whose result is recorded is made again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::ToolHandle,
    run::Agent,
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Event, Message, ModelResponse, Part, Reasoning, Role, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, desk, echo, echo_call};

/// Counts its calls; a `once` tool.
fn counted(calls: &Arc<AtomicUsize>) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Echo {
        text: String,
    }
    let calls = calls.clone();
    tool_fn(
        ToolDefinition::new("echo", "Says it again."),
        move |echo: Echo| {
            calls.fetch_add(1, Ordering::Relaxed);
            async move { Ok(echo.text) }
        },
    )
}

/// Plays the scenario undisturbed, and then once for each model call, killed while that call is
/// under way.
async fn survives(behavior: &str, settings: Value, replies: Vec<Reply>, tool_calls: usize) {
    let agent = |calls: &Arc<AtomicUsize>| -> Agent {
        desk(behavior, settings.clone()).tool(counted(calls))
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let stage = Stage::of(agent(&calls), replies.clone()).await;
    let expected = stage.ask("go").await;
    assert_eq!(
        (stage.calls(), calls.load(Ordering::Relaxed)),
        (replies.len(), tool_calls)
    );
    // What the session keeps is what the next turn's request begins with.
    let _ = stage.try_ask("and?").await;
    let kept = stage.said(replies.len());
    for killed_at in 0..replies.len() {
        let store = InMemoryStore::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let before = replies[..killed_at].to_vec();
        let model = ScriptedModel::replies(before.into_iter().chain([Reply::Hang]));
        let first = Stage::on(&store, agent(&calls), model).await;
        let run = first.say(Turn::text("go").id("turn")).await.id();
        while first.calls() <= killed_at {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        store.crash();
        let model = ScriptedModel::replies(replies[killed_at..].to_vec());
        let second = Stage::on(&store.another_process(), agent(&calls), model).await;
        let run = second.system.run(run);
        let outcome = run.outcome().await.unwrap();
        second.check();
        assert_eq!(
            outcome, expected,
            "{behavior} killed at model call {killed_at}"
        );
        assert_eq!(
            second.calls(),
            replies.len() - killed_at,
            "model calls after {killed_at}"
        );
        assert_eq!(
            calls.load(Ordering::Relaxed),
            tool_calls,
            "tool calls, killed at {killed_at}"
        );
        let records = run.events().so_far().await.unwrap();
        let drifted = records
            .iter()
            .any(|record| matches!(record.event, Event::Drifted { .. }));
        let _ = second.try_ask("and?").await;
        assert_eq!(
            second.said(replies.len() - killed_at),
            kept,
            "{behavior} at {killed_at}"
        );
        assert!(
            !drifted,
            "{behavior} asked something else after {killed_at}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn function_calling() {
    let calls = vec![echo_call("a", "1"), echo_call("a", "2"), echo_call("", "3")];
    let replies = vec![
        calls.into(),
        "".into(),
        echo_call("b", "4").into(),
        "done".into(),
    ];
    survives("function_calling", json!({}), replies, 4).await;
}

#[tokio::test(start_paused = true)]
async fn react() {
    let replies = vec![
        "Action: echo\nArgs: {\"text\": \"1\"}\nAction: echo\nArgs: {\"text\": \"2\"}".into(),
        "hm".into(),
        "Final: done".into(),
    ];
    survives("react", json!({}), replies, 2).await;
}

#[tokio::test(start_paused = true)]
async fn reflection() {
    let verdict = |approved: bool| json!({"approved": approved, "score": 5, "critique": "x"});
    let replies = vec![
        echo_call("a", "1").into(),
        "draft".into(),
        verdict(false).to_string().into(),
        "better".into(),
        verdict(true).to_string().into(),
    ];
    survives("reflection", json!({}), replies, 1).await;
}

#[tokio::test(start_paused = true)]
async fn plan_and_solve() {
    let replies = vec![
        "1. a\n2. b".into(),
        echo_call("a", "1").into(),
        "one".into(),
        "FAILED: no".into(),
        "1. c".into(),
        "three".into(),
        "done".into(),
    ];
    survives("plan_and_solve", json!({}), replies, 1).await;
}

#[tokio::test(start_paused = true)]
async fn rewoo() {
    let replies = vec![
        "#E1 = echo[1]\n#E2 = echo[2]\n#E3 = echo[#E1#E2]\n#E4 = nothing[x]".into(),
        "#E1 = echo[1]\n#E2 = echo[2]\n#E3 = echo[#E1#E2]\n#E4 = llm[#E3]".into(),
        "four".into(),
        "done".into(),
    ];
    survives("rewoo", json!({}), replies, 3).await;
}

#[tokio::test(start_paused = true)]
async fn adaptive() {
    let replies = vec!["hm".into(), "Final: done".into()];
    survives("adaptive", json!({"simple": "react"}), replies, 0).await;
}

/// Providers refuse a thought without its signature, and one that does not stand first.
#[tokio::test(start_paused = true)]
async fn a_signed_thought_comes_back_from_the_store_and_goes_first() {
    let thought = |text: &str| {
        Part::Reasoning(Reasoning {
            text: text.to_owned(),
            signature: Some(format!("signature of {text} \u{0}+/==")),
        })
    };
    let says = |thinks: &str, part: Part| {
        let mut message = Message::assistant("");
        message.parts = vec![thought(thinks), part];
        Reply::from(ModelResponse::new(message))
    };
    let store = InMemoryStore::new();
    // The first process dies while it asks for the second time, the second one once it has answered.
    let first = [
        says("one", Part::ToolCall(echo_call("a", "1"))),
        Reply::Hang,
    ];
    let agent = || desk("function_calling", json!({})).tool(echo());
    let stage = Stage::on(&store, agent(), ScriptedModel::replies(first)).await;
    let run = stage.say("go").await;
    while stage.calls() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let run = run.id();
    stage.system.supervisor().unwrap().actor().kill();
    store.crash();
    let store = store.another_process();
    let second = [says("two", Part::Text("done".into()))];
    let stage = Stage::on(&store, agent(), ScriptedModel::replies(second)).await;
    assert_eq!(
        stage.system.run(run).outcome().await.unwrap().text(),
        "done"
    );
    let thoughts = |request: usize| {
        let messages = stage.request(request).conversation.messages();
        let of = |message: &Arc<Message>| message.parts.first().cloned();
        let spoken = messages
            .iter()
            .filter(|message| message.role == Role::Assistant);
        spoken.map(of).collect::<Vec<_>>()
    };
    assert_eq!(thoughts(0), [Some(thought("one"))]);
    stage.system.supervisor().unwrap().actor().kill();
    store.crash();
    let store = store.another_process();
    let third = ScriptedModel::replies(["well"]);
    let stage = Stage::on(&store, agent(), third).await;
    stage.ask("and?").await;
    let messages = stage.request(0).conversation.messages();
    let spoken = messages
        .iter()
        .filter(|message| message.role == Role::Assistant);
    let first: Vec<_> = spoken.map(|message| message.parts[0].clone()).collect();
    assert_eq!(first, [thought("one"), thought("two")]);
}
