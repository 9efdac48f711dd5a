//! What is open, for how long, and what nobody goes on with.

use std::time::Duration;

use ghostlight_actors::{
    actor::Run,
    contract::{Append, Batch, DynStore, RunRow, RunStatus},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Effect, Outcome, RunId},
};
use serde_json::json;

use crate::stage::{Stage, call, pause};

const HOUR: Duration = Duration::from_secs(3600);

/// Asks a person, or sleeps for a day where it is told to.
fn agent() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "sleep" => cx.sleep(24 * HOUR).await?,
            _ => drop(cx.ask("Go on?").await?),
        }
        Ok(Outcome::answer("done"))
    })
}

#[tokio::test(start_paused = true)]
async fn open_runs_are_counted_with_their_ages_and_what_is_silent_too_long_expires() {
    let stage = Stage::alone();
    let system = stage.start(agent()).await;
    let nothing = system.open_runs(HOUR).await.unwrap();
    assert_eq!((nothing.total, nothing.average_age), (0, Duration::ZERO));
    let begun = async |session: &str, text: &str| {
        let session = system.session("a", session);
        session.send(Turn::text(text)).await.unwrap()
    };
    let old = begun("1", "ask").await;
    let sleeping = begun("2", "sleep").await;
    pause(2 * 3_600_000).await;
    let young = begun("3", "ask").await;
    young.wait().await.unwrap();

    let open = system.open_runs(HOUR).await.unwrap();
    assert_eq!((open.total, open.waiting, open.parked), (3, 3, 0));
    assert_eq!(open.expired, [old.id()]);
    let two = 2 * HOUR;
    assert!(
        open.oldest >= two && open.oldest < two + HOUR / 60,
        "{open:?}"
    );
    let average = open.average_age;
    assert!(
        average >= two * 2 / 3 && average < two * 2 / 3 + HOUR / 60,
        "{open:?}"
    );

    assert_eq!(system.expire_open(HOUR).await.unwrap(), [old.id()]);
    assert_failed_as_expired(&old).await;
    // The others are as they were: one has a timer, one was heard of a moment ago.
    let (operation, _) = {
        let open = young.questions().await.unwrap().remove(0);
        (open.1, open.2)
    };
    young.answer(operation, json!("yes")).await.unwrap();
    assert_eq!(young.outcome().await.unwrap().text(), "done");
    let status = sleeping.status().await.unwrap().status;
    assert_eq!(status, RunStatus::Waiting);
    assert!(system.expire_open(HOUR).await.unwrap().is_empty());
}

async fn assert_failed_as_expired(run: &Run) {
    let error = run.outcome().await.unwrap_err();
    assert!(error.to_string().contains("3600 s"), "{error}");
    let row = run.status().await.unwrap();
    assert_eq!(row.status, RunStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn runs_that_nobody_goes_on_with_end_as_failed_by_themselves() {
    for crashes in [false, true] {
        let mut stage = Stage::alone();
        stage.limits.expire_silent = Some(HOUR);
        let system = stage.start(agent()).await;
        let session = system.session("a", "1");
        let asked = session.send(Turn::text("ask")).await.unwrap().id();
        let sleeping = system.session("a", "2");
        let sleeping = sleeping.send(Turn::text("sleep")).await.unwrap().id();
        pause(1_000).await;
        let system = match crashes {
            true => {
                stage.crash(&system).await;
                pause(2 * 3_600_000).await;
                stage.start(agent()).await
            }
            false => {
                pause(3 * 3_600_000).await;
                system
            }
        };
        assert_failed_as_expired(&system.run(asked)).await;
        let status = system.run(sleeping).status().await.unwrap().status;
        assert_eq!(status, RunStatus::Waiting, "a timer wakes it");
        assert!(system.open_questions().await.unwrap().is_empty());
        // The session goes on.
        let session = system.session("a", "1");
        let next = session.send(Turn::text("ask")).await.unwrap();
        next.wait().await.unwrap();
        let (operation, _) = {
            let open = next.questions().await.unwrap().remove(0);
            (open.1, open.2)
        };
        next.answer(operation, json!("yes")).await.unwrap();
        assert_eq!(next.outcome().await.unwrap().text(), "done");
    }
}

/// Calls of tools change nothing of a run that the index knows.
#[tokio::test(start_paused = true)]
async fn a_run_that_works_for_hours_is_not_silent() {
    let mut stage = Stage::alone();
    stage.limits.expire_silent = Some(HOUR);
    let busy = Agent::from_fn("a", |cx: RunContext| async move {
        for _ in 0..300 {
            cx.tool_unasked(call("1", "work")).await?;
        }
        Ok(Outcome::answer("done"))
    });
    let work = stage.tool("work", Effect::Read, 50_000);
    let system = stage.start(busy.tool(work)).await;
    let run = system.session("a", "1").send("go").await.unwrap();
    for _ in 0..100 {
        pause(61_000).await;
        let open = system.open_runs(Duration::from_secs(60)).await.unwrap();
        assert_eq!((open.running, open.expired), (1, vec![]));
    }
    assert_eq!(run.outcome().await.unwrap().text(), "done");
}

#[tokio::test]
async fn more_open_runs_than_are_read_at_once_are_all_counted() {
    let stage = Stage::new();
    let system = stage.start(agent()).await;
    let batch = |number: u128| {
        let run = RunId::from_random(number << 90);
        let row = RunRow::new(run, "another", "agent");
        Batch::of(Append::new(run, 0, 1, Vec::new()).row(row))
    };
    let made = stage.store.commit((1..=1_200).map(batch).collect()).await;
    assert!(made.unwrap().iter().all(Result::is_ok));
    assert_eq!(system.open_runs(HOUR).await.unwrap().total, 1_200);
}
