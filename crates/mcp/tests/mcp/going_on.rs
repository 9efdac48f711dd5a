//! Calls that have not come to their end when the server answers: it asks a person, or makes a task of them. Both go on
//! in the next life of our process.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System},
    contract::ToolsetHandle,
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{Effect, OperationId, Outcome, Question, QuestionKind, RunId, ToolCall},
};
use ghostlight_mcp::{McpToolset, ServerSpec};
use serde_json::json;

use crate::peer::Peer;

/// A process: a System over a store, with an agent that calls this tool and says what it brought.
struct Process {
    system: System,
    toolset: McpToolset,
    store: InMemoryStore,
}

impl Process {
    async fn start(store: InMemoryStore, settings: ServerSpec, tool: &'static str) -> Self {
        let toolset = McpToolset::new("shop", settings).unwrap();
        toolset.connect().await.unwrap();
        let desk = Agent::from_fn("desk", move |cx: RunContext| async move {
            let results = cx.tools([ToolCall::new("c1", tool, json!({}))]).await?;
            Ok(Outcome::answer(format!(
                "{:?}: {}",
                results[0].status, results[0].text
            )))
        });
        let desk = desk.toolset("shop", ToolsetHandle::new(toolset.clone()));
        let builder = System::builder(store.clone()).team(desk.into_team().unwrap());
        let system = builder.start().await.unwrap();
        Self {
            system,
            toolset,
            store,
        }
    }

    async fn dies(self) -> InMemoryStore {
        self.store.crash();
        self.system.supervisor().unwrap().actor().kill();
        self.toolset.disconnect().await;
        self.store.another_process()
    }

    async fn asks(&self) -> RunId {
        self.system
            .session("desk", "s")
            .send("go")
            .await
            .unwrap()
            .id()
    }
}

/// Waits until the run asks.
async fn asked(run: &Run) -> (OperationId, Question) {
    for _ in 0..1_000 {
        let mut open = run.questions().await.unwrap();
        if let Some((_, operation, question)) = open.pop() {
            return (operation, question);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody is asked: {:?}", run.status().await);
}

async fn answer(run: &Run) -> String {
    let outcome = tokio::time::timeout(Duration::from_secs(20), run.outcome()).await;
    outcome.unwrap().unwrap().text().to_owned()
}

#[tokio::test]
async fn what_a_server_asks_on_the_newest_wire_is_a_question_of_the_run_also_after_a_crash() {
    let peer = Peer::new("input", &[("new_wire", ""), ("more", "")]);
    let process = Process::start(InMemoryStore::new(), peer.settings(), "order").await;
    let run = process.asks().await;
    let (_, question) = asked(&process.system.run(run)).await;
    assert!(
        question.kind == QuestionKind::Text && question.prompt.contains("shop asks: How large?"),
        "{question:?}"
    );
    let store = process.dies().await;

    let process = Process::start(store, peer.settings(), "order").await;
    let run = process.system.run(run);
    let (operation, _) = asked(&run).await;
    run.answer(operation, json!("huge")).await.unwrap();
    assert_eq!(answer(&run).await, "Success: half way: \"huge\"");
    assert_eq!(
        peer.count("order"),
        2,
        "once before the question, and once with its answer"
    );
    process.system.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_server_asks_on_the_older_wire_is_asked_while_its_call_stands_still() {
    let peer = Peer::new("standing", &[("more", "")]);
    let process = Process::start(InMemoryStore::new(), peer.settings(), "order").await;
    let run = process.asks().await;
    let run = process.system.run(run);
    let (operation, _) = asked(&run).await;
    run.answer(operation, json!("tiny")).await.unwrap();
    assert_eq!(answer(&run).await, "Success: ordered \"tiny\"");
    assert_eq!(peer.count("order"), 1);
    process.system.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_that_stood_still_when_our_process_died_is_treated_by_its_class() {
    for (effect, calls, told) in [
        (Effect::Once, 1, "outcome of this call is unknown"),
        (Effect::Idempotent, 2, "ordered \"tiny\""),
    ] {
        let peer = Peer::new(&format!("stood-{effect:?}"), &[("more", "")]);
        let settings = || peer.settings().effect("order", effect);
        let process = Process::start(InMemoryStore::new(), settings(), "order").await;
        let run = process.asks().await;
        asked(&process.system.run(run)).await;
        let store = process.dies().await;
        let process = Process::start(store, settings(), "order").await;
        let run = process.system.run(run);
        let (operation, _) = asked(&run).await;
        run.answer(operation, json!("tiny")).await.unwrap();
        let answer = answer(&run).await;
        assert!(answer.contains(told), "{answer}");
        assert_eq!(peer.count("order"), calls);
        process.system.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_is_looked_after_in_our_next_life_and_nothing_is_called_twice() {
    let peer = Peer::new("task", &[("new_wire", ""), ("more", ""), ("tasks", "")]);
    let process = Process::start(InMemoryStore::new(), peer.settings(), "bake").await;
    let run = process.asks().await;
    let run_of = |process: &Process| process.system.run(run);
    let (operation, _) = asked(&run_of(&process)).await;
    run_of(&process)
        .answer(operation, json!("two"))
        .await
        .unwrap();
    // It works on, with its answer, when our process dies.
    for _ in 0..1_000 {
        if peer.folder.join("task_answer").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let store = process.dies().await;
    peer.set("task_may_end", "");
    let process = Process::start(store, peer.settings(), "bake").await;
    assert_eq!(
        answer(&run_of(&process)).await,
        "Success: a cake of \"two\""
    );
    assert_eq!(peer.count("bake"), 1);
    process.system.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_that_is_cancelled_cancels_its_call_and_its_task_at_the_server() {
    let peer = Peer::new("cancelled-run", &[]);
    let process = Process::start(InMemoryStore::new(), peer.settings(), "slow").await;
    let run = process.asks().await;
    peer.logs("slow").await;
    process.system.run(run).cancel("enough").await.unwrap();
    peer.logs("cancelled").await;
    process.system.stop().await.unwrap();

    let options = [
        ("new_wire", ""),
        ("more", ""),
        ("tasks", ""),
        ("task_answer", "\"two\""),
    ];
    let peer = Peer::new("cancelled-task", &options);
    let process = Process::start(InMemoryStore::new(), peer.settings(), "bake").await;
    let run = process.asks().await;
    peer.logs("looked").await;
    process.system.run(run).cancel("enough").await.unwrap();
    peer.logs("task cancelled").await;
    process.system.stop().await.unwrap();
}
