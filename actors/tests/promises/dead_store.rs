//! A store that never works again is told to whoever waits, and nothing spins.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemError},
    run::{Agent, RunContext},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Effect, Outcome},
};

use crate::stage::{Stage, call, silent};

fn payer(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |_: RunContext| async move {
        Ok(Outcome::answer("helped"))
    });
    Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "look")).await?;
        cx.tool_unasked(call("2", "pay")).await?;
        cx.memory().set("paid", &true).await?;
        let helped = cx.delegate("helper", "go").await?;
        Ok(Outcome::answer(helped.text))
    })
    .tool(stage.tool("look", Effect::Read, 5))
    .tool(stage.tool("pay", Effect::Once, 5))
    .agent(helper)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_ever_is_told_to_who_waits_and_nothing_spins() {
    let (mut told, mut ended) = (0, 0);
    for commit in 1..=12 {
        for strike in [Strike::Before, Strike::After] {
            let mut stage = Stage::new();
            stage.limits.poll_interval = Duration::from_secs(60);
            let harm = Harm::FailForEver;
            let fault = Fault {
                call: commit,
                strike,
                harm,
            };
            let store = FaultyStore::at_commit(InMemoryStore::new(), fault);
            let builder = System::builder(store.clone()).options(stage.limits);
            let team = payer(&stage).into_team().unwrap();
            let system = builder.model("default", silent()).team(team).start().await;
            let system = system.unwrap();
            let hour = Duration::from_secs(3600);
            let work = async {
                let run = system.session("a", "s").send(Turn::text("go")).await?;
                run.outcome().await
            };
            let place = format!("{strike:?} commit {commit}");
            match tokio::time::timeout(hour / 12, work).await.expect(&place) {
                Ok(outcome) => {
                    assert_eq!(outcome.text(), "helped", "{place}");
                    ended += 1;
                }
                Err(SystemError::Store(_)) => told += 1,
                Err(error) => panic!("{place}: {error}"),
            }
            assert!(stage.log.count("pay") <= 1, "{place}");
            let calls = store.calls();
            tokio::time::sleep(hour).await;
            let more = store.calls() - calls;
            assert!(more <= 12, "{place}: {more} commits were tried in an hour");
        }
    }
    assert!(told >= 10 && ended >= 1, "{told} told, {ended} ended");
}

/// Only the commit of its start is between a call and the world.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_before_a_once_call_lets_it_not_begin() {
    let mut begun = Vec::new();
    for commit in 1..=4 {
        let stage = Stage::alone();
        let fault = Fault {
            call: commit,
            strike: Strike::Before,
            harm: Harm::FailForEver,
        };
        let store = FaultyStore::at_commit(InMemoryStore::new(), fault);
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let paid = cx.tool_unasked(call("1", "pay")).await?;
            Ok(Outcome::answer(paid.text))
        });
        let team = agent.tool(stage.tool("pay", Effect::Once, 5));
        let system = System::builder(store)
            .options(stage.limits)
            .model("default", silent())
            .team(team.into_team().unwrap())
            .start()
            .await
            .unwrap();
        let work = async {
            let run = system.session("a", "s").send(Turn::text("go")).await?;
            run.outcome().await
        };
        let outcome = work.await;
        // Nothing begins later either.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        begun.push((outcome.is_ok(), stage.log.count("pay")));
    }
    // The turn, the start of the call, and the end of both are a commit each.
    assert_eq!(begun, [(false, 0), (false, 0), (false, 1), (true, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_ever_is_told_to_those_whose_turn_has_not_come() {
    for commit in 2..=6 {
        let stage = Stage::alone();
        let fault = Fault {
            call: commit,
            strike: Strike::Before,
            harm: Harm::FailForEver,
        };
        let store = FaultyStore::at_commit(InMemoryStore::new(), fault);
        let team = payer(&stage).into_team().unwrap();
        let builder = System::builder(store).options(stage.limits);
        let system = builder.model("default", silent()).team(team).start().await;
        let session = system.unwrap().session("a", "s");
        let first = session.send(Turn::text("one"));
        let second = session.send(Turn::text("two"));
        let both = futures_util::future::join(first, second);
        let both = tokio::time::timeout(Duration::from_secs(3600), both).await;
        let (_, second) = both.unwrap_or_else(|_| panic!("commit {commit}: they hang"));
        assert!(second.is_err(), "commit {commit}");
    }
}
