//! A document is only data: it takes nothing from other sessions, and holds none up.

use ghostlight_actors::{
    actor::{Run, SessionDocument, SessionDocumentError, Sessions, System, SystemError},
    contract::{Append, Batch, DynStore, Line},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Entry, JournalId, Message, Outcome, Scope, SessionId, SessionTurn, Timestamp},
};
use serde_json::{Value, json};

use crate::stage::{Stage, outcome, pause, text};

/// Notes its mood in the session, and asks a person where it is told to.
fn agent() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.input().content();
        cx.state(Scope::Session).set("mood", &said).await?;
        if said == "ask" {
            cx.ask("Go on?").await?;
        }
        Ok(Outcome::answer(said))
    })
}

async fn say(system: &System, key: &str, what: &str) -> Run {
    let turn = Turn::text(what).owner("ada");
    system.session("a", key).send(turn).await.unwrap()
}

fn id(key: &str) -> SessionId {
    SessionId {
        team: "a".into(),
        key: key.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_with_a_turn_that_has_no_end_is_refused() {
    let stage = Stage::new();
    let system = stage.start(agent()).await.as_operator();
    outcome(&say(&system, "s", "one").await).await;
    let sessions = system.sessions();
    let document = sessions.export(&id("s")).await.unwrap();
    let asking = say(&system, "other", "ask").await.id().to_string();
    let mut open: Value = serde_json::from_str(&document.to_json()).unwrap();
    let mut begun = open["entries"][0].clone();
    begun["entry"]["turn_started"]["run"] = json!(asking);
    open["entries"].as_array_mut().unwrap().push(begun);
    let open = SessionDocument::from_json(&open.to_string()).unwrap();
    let refused = sessions.import(&open, id("x")).await.unwrap_err();
    let is_damaged = matches!(
        refused,
        SystemError::Document(SessionDocumentError::Damaged { .. })
    );
    assert!(is_damaged, "{refused}");
    assert!(refused.to_string().contains(&asking), "{refused}");
    sessions.import(&document, id("x")).await.unwrap();
}

/// An earlier program took documents with a turn that has no end.
#[tokio::test(start_paused = true)]
async fn a_session_that_names_the_run_of_another_does_not_get_it() {
    let mut stage = Stage::new();
    let system = stage.start(agent()).await.as_operator();
    let asking = say(&system, "s", "ask").await.id();
    pause(1_000).await;
    let turn = SessionTurn::new("t", asking, Message::user("ask"));
    let line = Line::encode(Timestamp(1), &Entry::TurnStarted(Box::new(turn)));
    let append = Append::new(JournalId::Session(id("x")), 0, 1, vec![line.unwrap()]);
    let claim = stage.store.claim(append.journal.clone(), false).await;
    assert_eq!(claim.unwrap().epoch, 1);
    stage.store.commit(vec![Batch::of(append)]).await.unwrap();
    stage.crash(&system).await;
    let system = stage.start(agent()).await.as_operator();
    let begun = system.session("a", "x").send(Turn::text("mine")).await;
    begun.unwrap_err();
    let run = system.run(asking);
    let asked = run.questions().await.unwrap().remove(0).1;
    run.answer(asked, json!("yes")).await.unwrap();
    assert_eq!(text(&run).await, "ask");
    let log = system.session("a", "s").log().await.unwrap();
    assert_eq!(log.turns[0].answer.as_deref(), Some("ask"));
    let log = system.session("a", "x").log().await.unwrap();
    assert_eq!(log.turns[0].answer, None);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_names_another_owner_s_session_shows_nothing_of_it() {
    let stage = Stage::new();
    let system = stage.start(agent()).await.as_operator();
    for what in ["secret", "public"] {
        outcome(&say(&system, "s", what).await).await;
    }
    let document = system.sessions().export(&id("s")).await.unwrap();
    for owner in ["ada", "eve"] {
        let (hers, theirs) = (r#""owner":"ada""#, format!(r#""owner":"{owner}""#));
        let text = document.to_json().replacen(hers, &theirs, 1);
        let document = SessionDocument::from_json(&text).unwrap();
        let theirs = system.acting_for(owner);
        let copy = id(owner);
        theirs.sessions().import(&document, copy).await.unwrap();
        let session = theirs.session("a", owner);
        session.rewind(1).await.unwrap();
        let branch = session.fork(1, format!("{owner} 2")).await.unwrap();
        for session in [&session, &branch] {
            let state = session.state(Scope::Session).await.unwrap();
            let is_shown = state.iter().any(|(_, value)| *value == json!("secret"));
            assert_eq!(is_shown, owner == "ada", "{owner}: {state:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_of_an_owner_is_imported_for_that_owner_and_by_the_operator() {
    let stage = Stage::new();
    let system = stage.start(agent()).await;
    outcome(&say(&system, "s", "one").await).await;
    let document = system.sessions().export(&id("s")).await.unwrap();
    for refused in [system.clone(), system.acting_for("eve")] {
        let refused = refused.sessions().import(&document, id("x")).await;
        assert!(
            matches!(refused, Err(SystemError::Foreign { .. })),
            "{refused:?}"
        );
    }
    let hers = system.acting_for("ada").sessions();
    hers.import(&document, id("hers")).await.unwrap();
    let operators = system.as_operator().sessions();
    operators.import(&document, id("operator's")).await.unwrap();
    let of_store = Sessions::of(stage.store.another_process());
    of_store.import(&document, id("command's")).await.unwrap();
}
