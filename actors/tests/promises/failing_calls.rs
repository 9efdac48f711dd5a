//! One call of the store that fails interrupts a run and changes nothing of its end.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemError},
    run::{Agent, RunContext, operations::Subscription},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, Strike},
    vocabulary::{Effect, Outcome, Scope},
};

use crate::stage::{Stage, call, pause, silent};

const HOUR: Duration = Duration::from_secs(3_600);

/// Reads and writes all that a run can read and write through operations.
fn agent(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        let all: Option<u32> = cx.state(Scope::App).get("all").await?;
        cx.topic("numbers").publish(&(all.unwrap_or(0) + 1)).await?;
        Ok(Outcome::answer("helped"))
    });
    Agent::from_fn("a", |cx: RunContext| async move {
        let session = cx.state(Scope::Session);
        session.set("noted", &1_u32).await?;
        let add = |found: Option<u32>| found.unwrap_or(0) + 1;
        let noted: u32 = session.update("noted", add).await?;
        let all: u32 = cx.state(Scope::App).update("all", add).await?;
        let artifacts = cx.artifacts(Scope::Session);
        artifacts.save("n.txt", "text/plain", *b"kept").await?;
        cx.tool_unasked(call("1", "pay")).await?;
        let mut numbers = cx
            .topic::<u32>("numbers")
            .subscribe(Subscription::new("a"))
            .await?;
        let child = cx.spawn("helper", "go").await?;
        let heard = numbers.next().await?.event;
        let helped = cx.join(&child).await?.text;
        let found = artifacts.load("n.txt").await?;
        let found = found.map(|found| found.content.len());
        Ok(Outcome::answer(format!(
            "{noted} {all} {heard} {helped} {found:?}"
        )))
    })
    .tool(stage.tool("pay", Effect::Once, 5))
    .agent(helper)
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_as_undisturbed_whichever_call_of_the_store_fails_once() {
    for number in 2.. {
        let fault = Fault {
            call: number / 2,
            strike: [Strike::Before, Strike::After][(number % 2) as usize],
            harm: Harm::Fail,
        };
        let stage = Stage::alone();
        let store = FaultyStore::at_call(stage.store.clone(), fault);
        let builder = System::builder(store.clone()).options(stage.limits);
        let builder = builder.model("default", silent());
        let team = agent(&stage).into_team().unwrap();
        let Ok(system) = builder.team(team).start().await else {
            continue;
        };
        let session = system.session("a", "s");
        let answer = async {
            loop {
                // The store may refuse the turn, or fail as its end is read.
                let told = match session.send(Turn::text("go").id("1")).await {
                    Ok(run) => run.outcome().await,
                    Err(error) => Err(error),
                };
                match told {
                    Ok(outcome) => return outcome.text().to_owned(),
                    Err(SystemError::Store(_)) => pause(1_000).await,
                    Err(error) => panic!("{error}, {fault:?}"),
                }
            }
        };
        let answer = tokio::time::timeout(HOUR, answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("it hangs, {fault:?}"));
        assert_eq!(answer, "2 1 2 helped Some(4)", "{fault:?}");
        // Where the store took the start of the call and did not say so, the call is in doubt and not made.
        assert!(stage.log.count("pay") <= 1, "{fault:?}");
        system.stop().await.unwrap();
        if store.calls() < fault.call {
            assert!(fault.call > 30, "{fault:?}");
            break;
        }
    }
}
