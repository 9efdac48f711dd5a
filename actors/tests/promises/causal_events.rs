//! Events come in the order of causes: what a thing rests on is seen before it.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Effect, Event, EventRecord, ModelResponse, Outcome, Preview, ToolCall},
};
use serde_json::json;

use crate::stage::{SlowStore, Stage};

fn team(stage: &Stage) -> Agent {
    let historian = Agent::from_fn("historian", |cx: RunContext| async move {
        let said = cx.think().await?;
        Ok(Outcome::answer(said.content()))
    });
    Agent::from_fn("desk", |cx: RunContext| async move {
        let said = cx.think().await?;
        let results = cx.tools(said.calls()).await?;
        let told: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        Ok(Outcome::answer(told.join(", ")))
    })
    .tool(stage.tool("look_up", Effect::Read, 5))
    .delegate_to(historian)
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        if request.tools.is_empty() {
            return Ok(ModelResponse::text("It was in 854, they say."));
        }
        Ok(ModelResponse::tool_calls([
            ToolCall::new("1", "look_up", json!({})),
            ToolCall::new(
                "2",
                "delegate_to_historian",
                json!({"task": "When was it?"}),
            ),
        ]))
    })
    .piece_delay(Duration::from_millis(2))
}

fn place(events: &[EventRecord], wanted: impl Fn(&EventRecord) -> bool) -> usize {
    let found = events.iter().position(wanted);
    found.unwrap_or_else(|| panic!("not among {events:#?}"))
}

#[tokio::test(start_paused = true)]
async fn an_event_stands_after_what_it_rests_on_live_and_later() {
    let stage = Stage::new();
    let system = System::builder(SlowStore::to_commit(stage.store.clone()))
        .clock(stage.clock.clone())
        .model("default", model())
        .team(team(&stage).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let turn = Turn::text("When was Ulm founded?").streaming(true);
    let run = system.session("desk", "ada").send(turn).await.unwrap();
    let mut stream = run.events();
    let mut live = Vec::new();
    while let Some(event) = stream.next().await {
        live.push(event.unwrap());
    }
    let recorded = run.events().recorded().so_far().await.unwrap();
    let is_recorded = |record: &&EventRecord| record.position.is_some();
    let of_live: Vec<EventRecord> = live.iter().filter(is_recorded).cloned().collect();
    assert_eq!(of_live, recorded);

    for events in [&live, &recorded] {
        let child_ended = place(events, |record| {
            record.run != run.id() && matches!(record.event, Event::RunEnded { .. })
        });
        let result = place(events, |record| {
            matches!(record.event, Event::DelegationEnded { .. })
        });
        assert!(child_ended < result, "the child's end comes first");
    }
    // What is shown before it is recorded comes after what it rests on, too.
    let asked = place(&live, |record| {
        record.run == run.id() && matches!(record.event, Event::ModelCalled { .. })
    });
    let tool = place(&live, |record| {
        matches!(record.event, Event::Preview(Preview::ToolStarted { .. }))
    });
    assert!(asked < tool, "the model asks for the tool first");
    let begun = place(&live, |record| {
        record.run != run.id() && matches!(record.event, Event::RunStarted { .. })
    });
    let of_child = place(&live, |record| {
        record.run != run.id() && matches!(record.event, Event::Preview(_))
    });
    assert!(begun < of_child, "the child begins first");
    let pieces = live.iter().filter(|record| {
        record.run != run.id() && matches!(record.event, Event::Preview(Preview::Delta { .. }))
    });
    assert!(pieces.count() >= 3, "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_late_gets_no_preview_of_a_call_that_it_has_seen_end() {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        cx.think().await?;
        cx.sleep(Duration::from_secs(3_600)).await?;
        Ok(Outcome::answer("rested"))
    });
    let stage = Stage::new();
    let system = System::builder(stage.store.clone())
        .clock(stage.clock.clone())
        .model("default", model())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let turn = Turn::text("When was Ulm founded?").streaming(true);
    let run = system.session("desk", "ada").send(turn).await.unwrap();
    let (mut stream, mut text) = (run.events(), run.text_stream());
    // Both are read only when the model has answered, and the run goes on.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut has_ended = false;
    let a_while = Duration::from_secs(5);
    while let Ok(event) = tokio::time::timeout(a_while, stream.next()).await {
        let event = event.unwrap().unwrap().event;
        has_ended |= matches!(event, Event::ModelCalled { .. });
        assert!(
            !has_ended || !matches!(event, Event::Preview(_)),
            "{event:?}"
        );
    }
    assert!(has_ended);
    let mut said = String::new();
    while let Ok(piece) = tokio::time::timeout(a_while, text.next()).await {
        said += &piece.unwrap().unwrap().text;
    }
    assert_eq!(said, "It was in 854, they say.");
}
