//! A turn that was said to a run under way is taken back as long as no run has heard it; later its run is cancelled.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, Session, SystemError},
    contract::{DynStore as _, MailboxItem},
    definition::WhileBusy,
    session::Turn,
    vocabulary::{Event, Outcome, RunId},
};

use crate::{
    stage::{Stage, outcome, pause, text},
    turns::system,
};

const HOUR: Duration = Duration::from_secs(3_600);

async fn started(stage: &Stage) -> Session {
    let system = system(stage, WhileBusy::Steer).await;
    system.session("worker", "s")
}

fn turn(text: &str) -> Turn {
    Turn::text(text).id(text)
}

async fn waiting(stage: &Stage, session: &Session) -> Vec<MailboxItem> {
    let mailbox = session.id().clone().into();
    stage.store.mailbox(mailbox).await.unwrap()
}

async fn ended(run: &Run) -> Result<Outcome, SystemError> {
    let ended = tokio::time::timeout(HOUR, run.outcome()).await;
    ended.expect("its outcome never comes")
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_no_run_has_heard_is_taken_back_and_the_run_goes_on() {
    for first in ["one", "deaf"] {
        let stage = Stage::new();
        let session = started(&stage).await;
        let run = session.send(first).await.unwrap();
        let said = session.send(turn("two")).await.unwrap();
        assert_eq!(said.id(), run.id());
        pause(100).await;
        assert!(said.cancel("never mind").await.unwrap());
        assert_eq!(waiting(&stage, &session).await, []);
        // Cancelling twice is cancelling once.
        assert!(!said.cancel("never mind").await.unwrap());
        assert_eq!(text(&run).await, first);
        let gone = ended(&said).await;
        assert!(
            matches!(gone, Err(SystemError::TakenBack { .. })),
            "{gone:?}"
        );
        let mut events = said.events();
        let end = async { while events.next().await.is_some() {} };
        tokio::time::timeout(HOUR, end)
            .await
            .expect("its events never end");
        pause(5_000).await;
        assert_eq!(session.log().await.unwrap().turns.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_run_that_has_taken_a_turn_is_cancelled_with_it() {
    let stage = Stage::new();
    let session = started(&stage).await;
    // Its own run.
    session.send("deaf").await.unwrap();
    let said = session.send(turn("two")).await.unwrap();
    while said.taker().await.unwrap().id() == said.id() {
        pause(10).await;
    }
    pause(100).await;
    assert!(said.cancel("enough").await.unwrap());
    assert!(ended(&said).await.unwrap().stop_reason().is_some());
    assert!(!said.cancel("enough").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_back_the_turn_of_somebody_else() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let run = session.send(Turn::text("one").owner("ada")).await.unwrap();
    let hers = turn("two").owner("ada");
    session.send(hers).await.unwrap();
    let bobs = system.acting_for("bob");
    let own = bobs.session("worker", "own").send("one").await.unwrap();
    let made_up = bobs.session("worker", "s").said_to(own.id(), "two");
    let refused = made_up.cancel("no").await;
    assert!(
        matches!(refused, Err(SystemError::Foreign { .. })),
        "{refused:?}"
    );
    assert_eq!(text(&run).await, "one|one|two");
    assert!(made_up.cancel("no").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_submitted_turn_that_is_said_to_a_run_is_followed_there() {
    for (first, answers) in [("one", 1), ("deaf", 2)] {
        let stage = Stage::new();
        let session = started(&stage).await;
        let run = session.send(first).await.unwrap();
        let submitted = session.submit(turn("two")).unwrap();
        let (mut events, mut ends) = (submitted.run().events(), Vec::new());
        let all = async {
            while let Some(record) = events.next().await {
                if let Event::RunEnded { .. } = record.unwrap().event {
                    ends.push(());
                }
            }
        };
        let all = tokio::time::timeout(HOUR, all).await;
        all.expect("its events never end");
        assert_eq!(ends.len(), answers, "{first}");
        assert_eq!(submitted.begun().await.unwrap().id(), run.id());
    }
}

#[tokio::test(start_paused = true)]
async fn a_submitted_turn_that_is_said_to_a_run_is_taken_back() {
    // The sender leaves at once, or when the turn is in the mailbox.
    for millis in [0, 100] {
        let stage = Stage::new();
        let session = started(&stage).await;
        let run = session.send("one").await.unwrap();
        let submitted = session.submit(turn("two")).unwrap();
        let mut events = submitted.run().events();
        if millis > 0 {
            pause(millis).await;
        }
        submitted.cancel("never mind").await.unwrap();
        assert_eq!(waiting(&stage, &session).await, []);
        assert_eq!(text(&run).await, "one");
        let end = async { while events.next().await.is_some() {} };
        tokio::time::timeout(HOUR, end)
            .await
            .expect("its events never end");
        pause(5_000).await;
        assert_eq!(session.log().await.unwrap().turns.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_sender_leaves_before_the_session_is_read_begins_nothing() {
    let mut stage = Stage::new();
    let system = system(&stage, WhileBusy::Queue).await;
    text(&system.session("worker", "s").send("one").await.unwrap()).await;
    stage.crash(&system).await;
    let store = crate::stage::SlowStore::to_read(stage.store.clone());
    let builder = ghostlight_actors::actor::System::builder(store);
    let builder = builder.model("default", crate::turns::model());
    let team = crate::turns::team(WhileBusy::Queue);
    let system = builder.team(team).start().await.unwrap();
    let session = system.session("worker", "s");
    let left = session.submit(turn("two")).unwrap();
    let stays = session.submit(turn("three")).unwrap();
    pause(100).await;
    drop(left);
    assert_eq!(
        outcome(&stays.begun().await.unwrap()).await.text(),
        "one|one|three"
    );
    let own = system.run(RunId::of_turn(session.id(), "two"));
    assert!(own.status().await.is_err(), "nothing of it is recorded");
}
