//! Shared memory: what one agent wrote the others read, and no write is lost.

use ghostlight_actors::{
    run::{
        Agent, RunContext,
        operations::{AgentMessage, Scope},
    },
    vocabulary::Outcome,
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, ask, text};

#[derive(Serialize, Deserialize)]
struct Written(u32);

impl AgentMessage for Written {
    const NAME: &'static str = "written";
}

fn two_agents() -> Agent {
    let partner = Agent::from_fn("partner", |cx: RunContext| async move {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let Written(number) = cx.receive().await?;
            let value: Option<u32> = cx.memory().get("number").await?;
            seen.push((number, value));
            cx.memory().set("number", &(number * 10)).await?;
            cx.tell("boss", &Written(number * 10)).await?;
        }
        Ok(Outcome::answer(format!("{seen:?}")))
    });
    Agent::from_fn("boss", |cx: RunContext| async move {
        let partner = cx.spawn("partner", "watch").await?;
        let mut seen = Vec::new();
        for number in 1..=3 {
            // Read before it is written, so that what is kept of it must be let go.
            let _: Option<u32> = cx.memory().get("number").await?;
            cx.memory().set("number", &number).await?;
            cx.tell(&partner, &Written(number)).await?;
            let Written(answer) = cx.receive().await?;
            let value: Option<u32> = cx.memory().get("number").await?;
            seen.push((answer, value));
        }
        let partner = cx.join(&partner).await?;
        Ok(Outcome::answer(format!("{seen:?} {}", partner.text)))
    })
    .agent(partner)
}

const SEEN: &str = "[(10, Some(10)), (20, Some(20)), (30, Some(30))] \
                    [(1, Some(1)), (2, Some(2)), (3, Some(3))]";

#[tokio::test(start_paused = true)]
async fn two_agents_of_one_run_read_what_the_other_wrote() {
    let stage = Stage::new();
    let system = stage.start(two_agents()).await;
    assert_eq!(text(&ask(&system, "boss", "go").await).await, SEEN);
}

#[tokio::test(start_paused = true)]
async fn twenty_children_that_count_at_once_lose_no_count() {
    for scope in [Scope::Run, Scope::Session, Scope::App] {
        let stage = Stage::new();
        let counted = scope.clone();
        let worker = Agent::from_fn("worker", move |cx: RunContext| {
            let scope = counted.clone();
            async move {
                for _ in 0..5 {
                    let shared = cx.state(scope.clone());
                    shared
                        .update("count", |count: Option<u32>| count.unwrap_or(0) + 1)
                        .await?;
                }
                Ok(Outcome::answer("counted"))
            }
        });
        let in_session = scope == Scope::Session;
        let read = scope.clone();
        let boss = Agent::from_fn("boss", move |cx: RunContext| {
            let scope = if in_session { Scope::Run } else { read.clone() };
            async move {
                let workers = (0..20).map(|n| cx.delegate("worker", n.to_string()));
                for done in futures_util::future::join_all(workers).await {
                    done?;
                }
                // To a delegated run the session's state is its tree's.
                let count: Option<u32> = cx.state(scope).get("count").await?;
                Ok(Outcome::answer(format!("{count:?}")))
            }
        });
        let system = stage.start(boss.agent(worker)).await;
        assert_eq!(text(&ask(&system, "boss", "go").await).await, "Some(100)");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_expects_another_version_is_refused_and_changes_nothing() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let memory = cx.memory();
        let first = memory.set_if("k", &1, None).await?;
        let refused = memory.set_if("k", &2, None).await.unwrap_err();
        let second = memory.set_if("k", &3, Some(first)).await?;
        let value: Option<u32> = memory.get("k").await?;
        Ok(Outcome::answer(format!(
            "{first} {second} {value:?} {:?}",
            refused.kind().unwrap()
        )))
    });
    let system = stage.start(agent).await;
    assert_eq!(
        text(&ask(&system, "a", "go").await).await,
        "1 2 Some(3) Conflict"
    );
}
