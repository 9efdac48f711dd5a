//! Events: live and replayed are one sequence, and a slow reader delays nobody.

use std::time::Duration;

use ghostlight_actors::{
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Effect, Event, EventRecord, Outcome, Question},
};

use crate::stage::{Stage, ask, call, pause, text};

fn talker(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        cx.emit("helping", &true);
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer("helped"))
    });
    Agent::from_fn("talker", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation()).streaming();
        cx.model(request).await?;
        let helped = cx.delegate("helper", "help").await?;
        cx.tools([call("1", "look"), call("2", "look")]).await?;
        Ok(Outcome::answer(helped.text))
    })
    .tool(stage.tool("look", Effect::Read, 50))
    .agent(helper)
}

fn recorded(events: &[EventRecord]) -> Vec<EventRecord> {
    let recorded = events.iter().filter(|event| event.sequence.is_some());
    recorded.cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn three_readers_one_of_them_slow_see_what_is_read_afterwards() {
    let stage = Stage::new();
    let system = stage
        .start_with(talker(&stage), ScriptedModel::turns(["one two three"]))
        .await;
    let run = ask(&system, "talker", "go").await;
    let readers: Vec<_> = [0, 0, 400]
        .into_iter()
        .map(|slow| {
            let mut events = run.events();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(event) = events.next().await {
                    seen.push(event.unwrap());
                    if slow > 0 {
                        pause(slow).await;
                    }
                }
                seen
            })
        })
        .collect();
    let began = tokio::time::Instant::now();
    assert_eq!(text(&run).await, "helped");
    assert!(
        began.elapsed() < Duration::from_millis(1500),
        "a reader delayed it"
    );
    let afterwards = run.events().so_far().await.unwrap();
    assert!(matches!(
        afterwards.last().unwrap().event,
        Event::RunEnded { .. }
    ));
    assert!(
        afterwards
            .windows(2)
            .all(|two| two[0].position < two[1].position)
    );
    let mut previews = 0;
    for reader in readers {
        let seen = reader.await.unwrap();
        previews += seen.len() - recorded(&seen).len();
        assert_eq!(recorded(&seen), afterwards);
    }
    assert!(previews > 0, "nobody saw a preview");
}

#[tokio::test(start_paused = true)]
async fn a_reader_over_a_crash_sees_the_same_beginning_and_one_end() {
    let mut stage = Stage::new();
    let model = ScriptedModel::turns(["one"]);
    let system = stage.start_with(talker(&stage), model.clone()).await;
    let run = ask(&system, "talker", "go").await;
    pause(500).await;
    let before = run.events().so_far().await.unwrap();
    stage.crash(&system).await;
    let system = stage.start_with(talker(&stage), model).await;
    let run = system.run(run.id());
    text(&run).await;
    let after = run.events().so_far().await.unwrap();
    assert!(before.len() > 3 && after.starts_with(&before));
    let ends = after
        .iter()
        .filter(|e| e.run == run.id() && e.event.name() == "run_ended");
    assert_eq!(ends.count(), 1);
    let told = after.iter().filter(|e| e.event.name() == "custom");
    assert_eq!(told.count(), 1, "replay tells nothing again");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_in_another_journal_is_watched_asked_and_taken_up_there() {
    let agent = || {
        Agent::from_fn("endless", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                return Ok(cx.continue_as("on"));
            }
            let answer = cx.ask(Question::choice("Enough?", ["true"])).await?;
            Ok(Outcome::answer(answer.to_string()))
        })
    };
    let mut stage = Stage::new();
    let system = stage.start(agent()).await;
    let run = ask(&system, "endless", "go").await;
    let mut events = run.events().recorded();
    let reader = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(event.unwrap());
        }
        seen
    });
    pause(200).await;
    let next = system.run(run.id().next());
    let questions = next.questions().await.unwrap();
    assert_eq!(questions.len(), 1, "its question is found");
    // A process that is started afterwards takes it up by itself, and nobody says the turn again.
    next.answer(questions[0].1, "true".into()).await.unwrap();
    assert_eq!(text(&run).await, "\"true\"");
    let seen = reader.await.unwrap();
    assert_eq!(seen.last().unwrap().event.name(), "run_ended");
    assert_eq!(seen, run.events().so_far().await.unwrap());
    assert!(seen.iter().any(|event| event.run == next.id()));
    stage.crash(&system).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_went_on_is_taken_up_by_the_next_process() {
    let agent = || {
        Agent::from_fn("endless", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                return Ok(cx.continue_as("on"));
            }
            cx.tool(call("1", "look")).await?;
            Ok(Outcome::answer("looked"))
        })
    };
    let mut stage = Stage::new();
    let slow = stage.tool("look", Effect::Read, 5_000);
    let system = stage.start(agent().tool(slow)).await;
    let run = ask(&system, "endless", "go").await;
    pause(200).await;
    stage.crash(&system).await;
    let slow = stage.tool("look", Effect::Read, 5_000);
    let system = stage.start(agent().tool(slow)).await;
    assert_eq!(text(&system.run(run.id())).await, "looked");
}
