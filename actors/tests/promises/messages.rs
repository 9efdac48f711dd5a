//! A message reaches the run that it is for, and no other.

use ghostlight_actors::{
    run::{
        Agent, RunContext,
        operations::{AgentMessage, Spawned, Target},
    },
    vocabulary::{AgentError, ErrorKind, Outcome},
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, ask, text};

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
