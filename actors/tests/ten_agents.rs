//! Ten small agents, as different as they come: what every later feature is written against.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod agents;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use agents::{Oracle, Order};
use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    ractor::Actor,
    run::{Agent, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Arguments, Effect, Event, ModelResponse, Outcome, ToolDefinition},
};
use serde_json::json;

/// A tool that counts its calls.
#[derive(Clone)]
struct Counter {
    definition: ToolDefinition,
    calls: Arc<AtomicU32>,
}

impl Counter {
    fn new(name: &str) -> Self {
        let definition = ToolDefinition::new(name, "counts").effect(Effect::Once);
        Self {
            definition,
            calls: Arc::default(),
        }
    }
}

impl Tool for Counter {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(ToolOutput::text(format!("{} {call}", self.definition.name)))
    }
}

async fn system(agent: Agent, model: ScriptedModel) -> System {
    let store = InMemoryStore::new();
    let team = agent.into_team().unwrap();
    System::builder(store)
        .model("default", model)
        .team(team)
        .start()
        .await
        .unwrap()
}

async fn ask(system: &System, team: &str, text: &str) -> Run {
    system
        .session(team, "s")
        .send(Turn::text(text))
        .await
        .unwrap()
}

fn no_model() -> ScriptedModel {
    ScriptedModel::replies(Vec::<ModelResponse>::new())
}

#[tokio::test(start_paused = true)]
async fn a_race_has_one_winner_and_cancels_the_loser() {
    let agent = agents::racer();
    let system = system(agent, no_model()).await;
    let run = ask(&system, "racer", "go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "winner 0, late true");
    let events = run.events().so_far().await.unwrap();
    let lost = events
        .iter()
        .filter(|record| matches!(record.event, Event::OperationDropped { .. }));
    assert_eq!(lost.count(), 2, "the slow one, and what came too late");
}

#[tokio::test(start_paused = true)]
async fn an_approval_inside_a_parallel_batch_holds_up_only_its_own_call() {
    let mut risky = Counter::new("delete");
    risky.definition = risky.definition.approval("Delete {path}?");
    let safe = Counter::new("look");
    let agent = agents::keeper(risky.clone(), safe.clone());
    let system = system(agent, no_model()).await;
    let run = ask(&system, "keeper", "go").await;
    run.wait().await.unwrap();
    let questions = run.questions().await.unwrap();
    assert_eq!(questions.len(), 2);
    assert_eq!(questions[0].2.prompt, "Delete tmp/x?");
    assert_eq!(
        safe.calls.load(Ordering::SeqCst),
        1,
        "the other call went on"
    );
    assert_eq!(risky.calls.load(Ordering::SeqCst), 0);
    run.answer(questions[1].1, json!({"approved": false, "reason": "mine"}))
        .await
        .unwrap();
    run.answer(questions[0].1, json!(true)).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), "1:Success 2:Success 3:Denied");
    assert_eq!(risky.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_carries_the_conversation_to_the_next_leg_and_sticks() {
    let desk = agents::desk();
    let system = system(desk, no_model()).await;
    let run = ask(&system, "desk", "80 euro?").await;
    assert_eq!(
        run.outcome().await.unwrap().text(),
        "billing saw: 80 euro? | one moment"
    );
    let second = ask(&system, "desk", "and 90?").await;
    let text = second.outcome().await.unwrap().text().to_owned();
    assert!(
        text.starts_with("billing saw: 80 euro? | one moment | billing saw"),
        "{text}"
    );
    assert!(text.ends_with("| and 90?"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_delegation_is_a_child_run_whose_failure_is_an_error_to_reason_about() {
    let writer = agents::writer();
    let system = system(writer, no_model()).await;
    let run = ask(&system, "writer", "go").await;
    let text = run.outcome().await.unwrap().text().to_owned();
    assert_eq!(
        text,
        "reviewed good / critic: no idea / there is no agent \"nobody\" in team writer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_lived_agent_receives_messages_and_sleeps_between_them() {
    let agent = agents::shop();
    let system = system(agent, no_model()).await;
    let run = ask(&system, "shop", "open").await;
    for _ in 0..3 {
        run.wait().await.unwrap();
        // Longer than a run lingers in memory.
        tokio::time::sleep(Duration::from_secs(100)).await;
        run.tell(&Order { pieces: 4 }).await.unwrap();
    }
    assert_eq!(run.outcome().await.unwrap().text(), "12");
    let events = run.events().so_far().await.unwrap();
    let sold = events
        .iter()
        .filter(|record| record.event.name() == "custom")
        .count();
    assert_eq!(
        sold, 3,
        "an event is told once, however often the function is run again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tiny_graph_is_a_loop_over_nodes() {
    let agent = agents::graph();
    let system = system(agent, ScriptedModel::replies(["bad", "bad", "good"])).await;
    let run = ask(&system, "graph", "write").await;
    assert_eq!(run.outcome().await.unwrap().text(), "good after 3");
}

#[tokio::test(start_paused = true)]
async fn a_reactree_node_expands_with_fallback_over_a_shared_memory() {
    let root = agents::tree();
    let system = system(root, no_model()).await;
    let run = ask(&system, "tree", "bring an apple").await;
    assert_eq!(
        run.outcome().await.unwrap().text(),
        "find the apple on the table after 2"
    );
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_hands_out_work_over_rounds() {
    let boss = agents::coordinator();
    let system = system(boss, no_model()).await;
    let run = ask(&system, "boss", "go").await;
    let text = run.outcome().await.unwrap().text().to_owned();
    assert!(text.starts_with("<0x><0xx><0xxx><0xxxx><1x>"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_ractor_actor_of_ones_own_is_a_member() {
    let (oracle, _) = Actor::spawn(None, Oracle, ()).await.unwrap();
    let seeker = agents::seeker(oracle.clone(), Effect::Once);
    let system = system(seeker, no_model()).await;
    let run = ask(&system, "seeker", "go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "why #1 how #2");
    oracle.stop(None);
}

#[tokio::test(start_paused = true)]
async fn an_agent_outlives_its_journal_by_continue_as() {
    let agent = agents::counter();
    let system = system(agent, no_model()).await;
    let run = ask(&system, "counter", "1").await;
    assert_eq!(run.outcome().await.unwrap().text(), "15");
    let runs = system.runs(Default::default()).await.unwrap();
    assert_eq!(runs.len(), 5, "each life has a journal of its own");
    // The session goes on as if it had been one run.
    let second = ask(&system, "counter", "5").await;
    assert_eq!(second.outcome().await.unwrap().text(), "20");
}

#[tokio::test(start_paused = true)]
async fn an_open_question_is_answered_once_and_only_by_an_answer() {
    let agent = agents::asker();
    let system = system(agent, no_model()).await;
    let run = ask(&system, "asker", "go").await;
    run.wait().await.unwrap();
    let (_, op, _) = run.questions().await.unwrap().remove(0);
    assert!(run.answer(op, json!("green")).await.is_err());
    run.answer(op, json!("blue")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "blue");
    assert!(run.answer(op, json!("red")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn spawned_children_go_on_beside_the_function_and_are_told_things() {
    let boss = agents::spawner();
    let system = system(boss, no_model()).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "made 1 made 2");
}

#[tokio::test(start_paused = true)]
async fn two_systems_live_in_one_process() {
    let agent = || {
        Agent::from_fn("echo", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.input().content()))
        })
    };
    let (one, two) = (
        system(agent(), no_model()).await,
        system(agent(), no_model()).await,
    );
    let (a, b) = (ask(&one, "echo", "a").await, ask(&two, "echo", "b").await);
    assert_eq!(a.outcome().await.unwrap().text(), "a");
    assert_eq!(b.outcome().await.unwrap().text(), "b");
    one.stop().await.unwrap();
    let again = two
        .session("echo", "t")
        .send(Turn::text("c"))
        .await
        .unwrap();
    assert_eq!(again.outcome().await.unwrap().text(), "c");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_says_nothing_is_refused_and_leaves_no_trace() {
    let agent = Agent::from_fn("echo", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.input().content()))
    });
    let system = system(agent, no_model()).await;
    for empty in ["", " \n\t"] {
        let refused = system.session("echo", "s").send(Turn::text(empty)).await;
        assert!(
            matches!(refused, Err(SystemError::EmptyTurn)),
            "{refused:?}"
        );
    }
    assert!(system.runs(Default::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_team_whose_answer_schema_is_wrong_does_not_start() {
    let agent = Agent::from_fn(
        "echo",
        |_cx: RunContext| async move { Ok(Outcome::answer("")) },
    );
    let agent = agent.define(|spec| spec.output = Some(json!({"type": "objekt"})));
    let team = agent.into_team().unwrap();
    let started = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await;
    let error = started.unwrap_err().to_string();
    assert!(
        error.contains("agent \"echo\"") && error.contains("schema"),
        "{error}"
    );
}
