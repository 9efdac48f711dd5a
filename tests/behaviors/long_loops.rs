//! The default loop at the size of real work: two thousand steps with a bounded context, a policy and
//! interceptors, killed where chance has it, recovered, and replayed.

use std::time::Duration;

use ghostlight::{
    behaviors,
    interceptors::{Logging, Retry},
};
use ghostlight_actors::{
    actor::recording,
    contract::StoreHandle,
    run::{Agent, Intercept, Policy, replay},
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Event, ModelRequest, ModelResponse},
};
use serde_json::json;

use crate::{
    context::{bounded, window},
    stage::{Stage, desk, echo, echo_call},
};

const STEPS: u64 = 2_000;

struct Watches;

impl Policy for Watches {}

fn agent() -> Agent {
    let agent = desk("function_calling", json!({ "max_steps": STEPS + 1 })).tool(echo());
    bounded(agent, window(1_500)).policy("watches", || Watches)
}

/// How many calls were answered, as the last result says.
fn counted(request: &ModelRequest) -> u64 {
    let messages = request.conversation.messages();
    let results = messages.iter().flat_map(|message| message.tool_results());
    results
        .last()
        .map_or(0, |result| result.text.parse().unwrap())
}

/// Asks for the next number, until it has the last; says nothing at this step.
fn counting(hangs_at: u64) -> ScriptedModel {
    ScriptedModel::from_reply_fn(move |request, _| match counted(request) {
        number if number == hangs_at => Reply::Hang,
        STEPS => ModelResponse::text("counted").into(),
        number => {
            let next = (number + 1).to_string();
            Reply::from(echo_call(&format!("c{next}"), &next))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_two_thousand_steps_is_recovered_wherever_it_was_killed_and_replays() {
    let mut store = InMemoryStore::new();
    let mut id = None;
    for hangs_at in [137, 911, 1_702, u64::MAX] {
        let team = agent().into_team().unwrap();
        let registry = behaviors::register(team.registry.clone());
        let team = team
            .intercept(Intercept::new(Retry::attempts(2)))
            .intercept(Intercept::new(Logging::default()));
        let stage = Stage::of_team(&store, team, counting(hangs_at)).await;
        let run = match id {
            None => stage.say(Turn::text("count")).await,
            Some(id) => stage.system.run(id),
        };
        id = Some(run.id());
        if hangs_at < STEPS {
            let is_there = |request: &ModelRequest| counted(request) == hangs_at;
            while !stage.model.requests().last().is_some_and(is_there) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            store.crash();
            store = store.another_process();
            continue;
        }
        assert_eq!(run.outcome().await.unwrap().text(), "counted");
        let records = run.events().so_far().await.unwrap();
        let called = records.iter().filter_map(|record| match &record.event {
            Event::ToolCalled { result, .. } => Some(result.text.parse::<u64>().unwrap()),
            Event::Drifted { .. } => panic!("it asked something else"),
            _ => None,
        });
        assert!(called.eq(1..=STEPS), "each call once, in order");
        let recorded = recording(&StoreHandle::new(store.clone()), run.id()).await;
        let replayed = replay(&recorded.unwrap(), &registry, None).unwrap();
        assert!(
            replayed.is_faithful() && !replayed.has_drifted(),
            "{replayed}"
        );
    }
}
