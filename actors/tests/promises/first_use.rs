//! What a program finds again after a restart, and what agents are told of their mistakes.

use std::time::Duration;

use ghostlight_actors::{
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Event, ModelResponse, Outcome, Question, ToolCall, ToolStatus},
};
use serde_json::json;

use crate::stage::{Stage, text};

fn painter() -> Agent {
    Agent::from_fn("painter", |cx: RunContext| async move {
        let colour = cx.ask(Question::choice("Which?", ["red", "blue"])).await?;
        Ok(Outcome::answer(format!("painted {colour}")))
    })
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_all_open_questions_are_found_in_one_place() {
    let mut stage = Stage::new();
    let system = stage.start(painter()).await;
    for key in ["ada", "bob"] {
        let run = system.session("painter", key).send("paint").await.unwrap();
        run.wait().await.unwrap();
    }
    stage.crash(&system).await;

    let system = stage.start(painter()).await;
    let open = system.open_questions().await.unwrap();
    assert_eq!(open.len(), 2);
    let (run, operation, question) = open[0].clone();
    assert_eq!(question.prompt, "Which?");
    system
        .run(run)
        .answer(operation, json!("red"))
        .await
        .unwrap();
    // What is answered is asked of nobody, also before the run has heard of it.
    let left = system.open_questions().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].0, run);
    let answer = system.run(run).outcome().await.unwrap();
    assert_eq!(answer.text(), "painted \"red\"");
}

#[tokio::test(start_paused = true)]
async fn events_go_on_after_the_position_at_which_a_reader_stopped() {
    let stage = Stage::new();
    let agent = Agent::from_fn("steps", |cx: RunContext| async move {
        for number in 0..20 {
            cx.emit("step", &number);
            cx.sleep(Duration::from_millis(10)).await?;
        }
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let run = system.session("steps", "ada").send("go").await.unwrap();
    run.outcome().await.unwrap();
    let all = run.events().so_far().await.unwrap();
    for place in [0, 7, all.len() - 2] {
        let mut events = run.events().after(all[place].position.unwrap());
        let mut rest = Vec::new();
        while let Some(event) = events.next().await {
            rest.push(event.unwrap());
        }
        assert_eq!(rest, all[place + 1..], "after {place}");
    }
    // After the last one there is nothing to wait for.
    let mut events = run.events().after(all.last().unwrap().position.unwrap());
    let none = tokio::time::timeout(Duration::from_secs(60), events.next());
    assert!(none.await.expect("the run has ended").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_goes_on_follows_a_run_into_its_next_journal() {
    let stage = Stage::new();
    let agent = Agent::from_fn("counter", |cx: RunContext| async move {
        let number: u32 = cx.input().content().parse().unwrap_or(0);
        if number < 3 {
            return Ok(Outcome::ContinueAs(Box::new(
                ghostlight_actors::vocabulary::Message::user((number + 1).to_string()),
            )));
        }
        Ok(Outcome::answer("three"))
    });
    let system = stage.start(agent).await;
    let run = system.session("counter", "ada").send("0").await.unwrap();
    run.outcome().await.unwrap();
    let first = run.events().so_far().await.unwrap();
    let end = first.iter().rfind(|record| record.run == run.id()).unwrap();
    let mut events = run.events().after(end.position.unwrap());
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.unwrap().event);
    }
    assert!(matches!(last, Some(Event::RunEnded { .. })), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_has_a_handle_at_once_and_can_be_taken_back() {
    let stage = Stage::new();
    let slow = Agent::from_fn("slow", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(60)).await?;
        let said = cx.conversation().messages().len();
        Ok(Outcome::answer(format!(
            "{} ({said})",
            cx.input().content()
        )))
    });
    let system = stage.start(slow).await;
    let session = system.session("slow", "ada");
    let first = session.send("first").await.unwrap();
    let begun = tokio::time::Instant::now();
    let left = session.submit("of a client that leaves").unwrap();
    let cancelled = session.submit("cancelled").unwrap();
    let stays = session.submit(Turn::text("stays").id("t")).unwrap();
    let again = session.submit(Turn::text("stays").id("t")).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "handles are there at once"
    );
    assert!(stays.is_queued() && stays.id() == again.id());
    let (left_id, cancelled_id) = (left.id(), cancelled.id());
    let mut events = stays.run().events();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(left);
    cancelled.cancel("not needed any more").await.unwrap();
    assert_eq!(first.outcome().await.unwrap().text(), "first (1)");
    // Only the turn that stayed comes after it.
    assert_eq!(stays.outcome().await.unwrap().text(), "stays (3)");
    again.begun().await.unwrap();
    for gone in [left_id, cancelled_id] {
        assert!(
            system.run(gone).status().await.is_err(),
            "nothing of it is recorded"
        );
    }
    let event = events.next().await.unwrap().unwrap().event;
    assert!(matches!(event, Event::RunStarted { .. }), "{event:?}");
    // One that has begun is cancelled as a run.
    let late = session.submit("late").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!late.is_queued());
    let run = late.run().clone();
    late.cancel("enough").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.stop_reason().is_some(), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delegation_is_held_to_the_schema_that_its_model_was_shown() {
    let stage = Stage::new();
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        Ok(Outcome::answer(format!("did {}", cx.input().content())))
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let response = cx.think().await?;
        let results = cx.tools(response.calls()).await?;
        let told = results
            .iter()
            .map(|result| format!("{:?}: {}", result.status, result.text));
        Ok(Outcome::answer(told.collect::<Vec<_>>().join("\n")))
    })
    .delegate_to(clerk);
    let call = |id: &str, arguments| ToolCall::new(id, "delegate_to_clerk", arguments);
    let model = ScriptedModel::turns([ModelResponse::tool_calls([
        call("1", json!({"a": 1, "b": 2})),
        call("2", json!({"task": "add", "hurry": true})),
        call("3", json!({"task": 7})),
        call("4", json!({"task": "add"})),
    ])]);
    let system = stage.start_with(desk, model).await;
    let run = system.session("desk", "ada").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let told: Vec<&str> = outcome.text().lines().collect();
    for told in &told[..3] {
        assert!(
            told.starts_with(&format!("{:?}", ToolStatus::Error)),
            "{told}"
        );
        assert!(told.contains("do not fit"), "{told}");
    }
    assert_eq!(told[3], "Success: did add");
    let events = run.events().so_far().await.unwrap();
    let begun = |record: &&_| {
        matches!(
            ghostlight_actors::vocabulary::EventRecord::clone(record).event,
            Event::Delegated { .. }
        )
    };
    assert_eq!(events.iter().filter(begun).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_is_held_to_the_schema_that_its_model_was_shown() {
    let stage = Stage::new();
    let night = Agent::from_fn("night", |cx: RunContext| async move {
        Ok(Outcome::answer(format!("took {:?}", cx.request())))
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let response = cx.think().await?;
        let results = cx.tools(response.calls()).await?;
        let told: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        cx.emit("told", &told);
        let calls = response.calls();
        let transfers: Vec<_> = calls
            .iter()
            .filter_map(|call| cx.loop_context().transfer_of(call))
            .collect();
        assert_eq!(transfers.len(), 1, "{transfers:?}");
        Ok(Outcome::Transfer(transfers[0].clone()))
    })
    .hand_off_to(night);
    let call = |id: &str, arguments| ToolCall::new(id, "transfer_to_night", arguments);
    let model = ScriptedModel::turns([ModelResponse::tool_calls([
        call("1", json!({})),
        call("2", json!({"request": 7})),
        call("3", json!({"request": "go on", "hurry": true})),
        call("4", json!({"request": "go on"})),
    ])]);
    let system = stage.start_with(desk, model).await;
    let run = system.session("desk", "ada").send("go").await.unwrap();
    assert_eq!(text(&run).await, "took Some(\"go on\")");
    let events = run.events().so_far().await.unwrap();
    let told = events.into_iter().find_map(|record| match record.event {
        Event::Custom { data, .. } => Some(data),
        _ => None,
    });
    let told: Vec<String> = serde_json::from_value(told.unwrap()).unwrap();
    for told in &told[..3] {
        assert!(told.contains("do not fit"), "{told}");
    }
    assert_eq!(told[3], "The conversation was handed to night.");
}

#[tokio::test(start_paused = true)]
async fn how_a_member_is_reached_is_said_where_it_is_added() {
    let team = Agent::new("desk")
        .delegate_to(Agent::new("clerk"))
        .hand_off_to(Agent::new("shipping"))
        .into_team()
        .unwrap();
    let reached: Vec<_> = team
        .spec
        .agent
        .agents
        .iter()
        .map(|agent| agent.reach)
        .collect();
    use ghostlight_actors::definition::Reach;
    assert_eq!(reached, [Reach::Delegate, Reach::Transfer]);
}
