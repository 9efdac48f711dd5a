//! A message reaches the run that it is for, and no other.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    definition::Reach,
    run::{
        Agent, Behavior, RunContext,
        operations::{AgentMessage, Spawned, Target},
    },
    vocabulary::{AgentError, ErrorKind, Event, Outcome},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::stage::{Stage, ask, pause, text};

#[derive(Serialize, Deserialize)]
struct Word(String);

impl AgentMessage for Word {
    const NAME: &'static str = "word";
}

fn word(text: &str) -> Word {
    Word(text.to_owned())
}

async fn heard(cx: &RunContext) -> Result<String, AgentError> {
    Ok(cx.receive::<Word>().await?.0)
}

async fn nobody(cx: &RunContext, target: impl Into<Target>) {
    let told = cx.tell(target, &word("lost")).await;
    assert_eq!(told.unwrap_err().kind(), Some(&ErrorKind::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_that_of_the_run_itself_of_its_parent_or_of_the_root() {
    let stage = Stage::new();
    let lowest = Agent::from_fn("lowest", |cx: RunContext| async move {
        cx.tell("lowest", &word("to itself")).await?;
        assert_eq!(heard(&cx).await?, "to itself");
        cx.tell("lower", &word("by name")).await?;
        cx.tell(Target::Parent, &word("as parent")).await?;
        cx.tell("root", &word("to the root")).await?;
        // This one is above, but neither parent nor root.
        nobody(&cx, "middle").await;
        nobody(&cx, "stranger").await;
        Ok(Outcome::answer("told"))
    });
    let lower = Agent::from_fn("lower", |cx: RunContext| async move {
        let told = cx.delegate("lowest", "go").await?.text;
        let (one, other) = (heard(&cx).await?, heard(&cx).await?);
        Ok(Outcome::answer(format!("{told} {one}, {other}")))
    });
    let middle = Agent::from_fn("middle", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("lower", "go").await?.text))
    });
    let root = Agent::from_fn("root", |cx: RunContext| async move {
        nobody(&cx, Target::Parent).await;
        let told = cx.delegate("middle", "go").await?.text;
        Ok(Outcome::answer(format!("{told}, {}", heard(&cx).await?)))
    });
    let lower = lower.agent(lowest);
    let system = stage.start(root.agent(middle.agent(lower))).await;
    let run = ask(&system, "root", "go").await;
    assert_eq!(text(&run).await, "told by name, as parent, to the root");
}

#[tokio::test(start_paused = true)]
async fn of_several_children_of_one_name_the_latest_is_told_and_each_by_its_run() {
    let stage = Stage::new();
    let ear = Agent::from_fn("ear", |cx: RunContext| async move {
        Ok(Outcome::answer(heard(&cx).await?))
    });
    let root = Agent::from_fn("root", |cx: RunContext| async move {
        let first: Spawned = cx.spawn("ear", "listen").await?;
        let latest: Spawned = cx.spawn("ear", "listen").await?;
        cx.tell("ear", &word("latest")).await?;
        let heard = cx.join(&latest).await?.text;
        cx.tell(&first, &word("first")).await?;
        Ok(Outcome::answer(format!(
            "{heard} {}",
            cx.join(&first).await?.text
        )))
    });
    let system = stage.start(root.agent(ear)).await;
    let run = ask(&system, "root", "go").await;
    assert_eq!(text(&run).await, "latest first");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_is_told_nothing_and_the_teller_learns_that() {
    let stage = Stage::new();
    let below = Agent::from_fn("below", |_: RunContext| async {
        Ok(Outcome::answer("done"))
    });
    let above = Agent::from_fn("above", |cx: RunContext| async move {
        let child = cx.spawn("below", "go").await?;
        let done = cx.join(&child).await?.text;
        nobody(&cx, &child).await;
        Ok(Outcome::answer(done))
    });
    let system = stage.start(above.agent(below)).await;
    assert_eq!(text(&ask(&system, "above", "go").await).await, "done");
}

#[derive(Serialize, Deserialize)]
struct Number(u32);

impl AgentMessage for Number {
    const NAME: &'static str = "word";
}

#[tokio::test(start_paused = true)]
async fn a_message_of_the_wrong_form_is_set_aside_with_an_event_and_the_agent_goes_on() {
    let agent = || {
        Agent::from_fn("ear", |cx: RunContext| async move {
            let (one, other) = (heard(&cx).await?, heard(&cx).await?);
            Ok(Outcome::answer(format!("{one} {other}")))
        })
    };
    let mut stage = Stage::new();
    let system = stage.start(agent()).await;
    let run = ask(&system, "ear", "listen").await;
    // Some come before it waits, some while it does, and some in its next life.
    run.tell(&Number(7)).await.unwrap();
    run.tell(&Number(8)).await.unwrap();
    run.tell(&word("first")).await.unwrap();
    pause(1_000).await;
    run.tell_named("word", json!({ "no": "word" }))
        .await
        .unwrap();
    pause(1_000).await;
    stage.crash(&system).await;
    let system = stage.start(agent()).await;
    let run = system.run(run.id());
    run.tell(&Number(9)).await.unwrap();
    run.tell(&word("second")).await.unwrap();
    assert_eq!(text(&run).await, "first second");
    let events = run.events().recorded().so_far().await.unwrap();
    let aside = events.iter().filter_map(|record| match &record.event {
        Event::MessageQuarantined { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let aside: Vec<String> = aside.collect();
    assert_eq!(aside.len(), 4, "{aside:?}");
    let told = "the message \"word\" does not have the form that is received: invalid type";
    assert!(
        aside.iter().all(|reason| reason.contains(told)),
        "{aside:?}"
    );
}

impl AgentMessage for Unit {
    const NAME: &'static str = "unit";
}

#[derive(Serialize, Deserialize)]
struct Unit;

#[tokio::test(start_paused = true)]
async fn whoever_tells_an_agent_what_it_does_not_receive_hears_what_it_receives() {
    let stage = Stage::new();
    let ear = Agent::from_fn("ear", |cx: RunContext| async move {
        Ok(Outcome::answer(heard(&cx).await?))
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let child = cx.spawn("ear", "listen").await?;
        let refused = cx.tell(&child, &Unit).await.unwrap_err();
        cx.tell("ear", &word("heard")).await?;
        // It does not say what it receives itself, so anything is taken.
        cx.tell("desk", &Unit).await?;
        let heard = cx.join(&child).await?.text;
        cx.receive::<Unit>().await?;
        Ok(Outcome::answer(format!("{heard}: {refused}")))
    });
    let system = stage
        .start(desk.agent(ear.clone().receives::<Word>()))
        .await;
    let said = text(&ask(&system, "desk", "go").await).await;
    let refused = "ear receives no message \"unit\", so nothing was told; it receives: word";
    assert_eq!(said, format!("heard: {refused}"));

    let stage = Stage::new();
    let system = stage.start(ear.receives::<Word>()).await;
    let run = ask(&system, "ear", "listen").await;
    let elsewhere = System::builder(stage.store.another_process());
    let elsewhere = elsewhere.recover(false).start().await.unwrap();
    for run in [run.clone(), elsewhere.run(run.id())] {
        let refused = run.tell_named("wrod", json!("hello")).await.unwrap_err();
        let expected = format!(
            "run {} receives no message \"wrod\", so nothing was told; it receives: word",
            run.id()
        );
        assert_eq!(refused.to_string(), expected);
    }
    run.tell(&word("hello")).await.unwrap();
    assert_eq!(text(&run).await, "hello");
}

/// Works for a while, and reads no message.
struct Works;

impl Behavior for Works {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        cx.sleep(Duration::from_secs(5)).await?;
        Ok(Outcome::answer("done"))
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_tells_an_agent_that_receives_nothing_hears_it() {
    let stage = Stage::new();
    let works = Agent::new("works").behavior(Works);
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let child = cx.spawn("works", "go").await?;
        let refused = cx.tell(&child, &word("lost")).await.unwrap_err();
        cx.join(&child).await?;
        Ok(Outcome::answer(refused.to_string()))
    });
    let system = stage.start(desk.agent(works)).await;
    let said = text(&ask(&system, "desk", "go").await).await;
    let refused = "works receives no message \"word\", so nothing was told; it receives: none";
    assert_eq!(said, refused);

    let ear = Agent::from_fn("ear", |cx: RunContext| async move {
        Ok(Outcome::answer(heard(&cx).await?))
    });
    let works = |reach| {
        Agent::new("works")
            .behavior(Works)
            .agent(ear.clone().reach(reach))
    };
    // What it may hand its conversation to may receive anything.
    for (reach, is_taken) in [(Reach::Delegate, false), (Reach::Transfer, true)] {
        let stage = Stage::new();
        let system = stage.start(works(reach)).await;
        let run = ask(&system, "works", "go").await;
        assert_eq!(run.tell(&word("lost")).await.is_ok(), is_taken, "{reach:?}");
        assert_eq!(text(&run).await, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_told_something_is_waited_for_until_it_has_heard_it() {
    let stage = Stage::new();
    let listener = Agent::from_fn("listener", |cx: RunContext| async move {
        for _ in 0..2 {
            let word = heard(&cx).await?;
            cx.ask(format!("Is it {word}?")).await?;
        }
        Ok(Outcome::answer("heard"))
    });
    let system = stage.start(listener).await;
    let run = ask(&system, "listener", "go").await;
    for (said, asleep) in [("soon", 0), ("late", 100_000)] {
        run.wait().await.unwrap();
        pause(asleep).await;
        run.tell(&word(said)).await.unwrap();
        run.wait().await.unwrap();
        let (_, operation, question) = run.questions().await.unwrap().remove(0);
        assert_eq!(question.prompt, format!("Is it {said}?"));
        if said == "late" {
            // It receives nothing more, and nobody waits for that.
            run.tell(&word("unheard")).await.unwrap();
            let began = tokio::time::Instant::now();
            run.wait().await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(2));
        }
        run.answer(operation, json!("yes")).await.unwrap();
    }
    assert_eq!(text(&run).await, "heard");
}
