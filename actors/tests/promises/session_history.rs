//! Sessions as people keep them: listed, branched, rewound, exported and imported.

use std::collections::HashMap;

use ghostlight_actors::{
    actor::{
        Fork, SessionDocument, SessionDocumentError, SessionQuery, Sessions, System, SystemError,
    },
    contract::{DynStore, StoreHandle},
    run::{Agent, RunContext},
    session::{SessionFold, Turn, decode_checkpoint, encode_checkpoint},
    testing::InMemoryStore,
    vocabulary::{Outcome, Question, Scope, SessionId},
};
use serde_json::json;

use crate::{
    contested::{Contested, start},
    stage::{Stage, outcome, pause, text},
};

/// Counts its turns in state and keeps each as an artifact; says how long the conversation is.
fn diarist() -> Agent {
    Agent::from_fn("diarist", |cx: RunContext| async move {
        let said = cx.input().content();
        if said == "ask" {
            cx.ask(Question::new("go on?")).await?;
        }
        let state = cx.state(Scope::Session);
        let turns = state
            .update("turns", |n: Option<u32>| n.unwrap_or(0) + 1)
            .await?;
        if said == "first" {
            state.set("mood", &"good").await?;
        } else if said == "spoil" {
            state.set("mood", &"bad").await?;
            state.set("spoilt", &true).await?;
        }
        let artifacts = cx.artifacts(Scope::Session);
        let page = artifacts
            .save("diary", "text/plain", said.into_bytes())
            .await?;
        let mood: Option<String> = state.get("mood").await?;
        let length = cx.conversation().len();
        let (mood, version) = (mood.unwrap_or_default(), page.version);
        Ok(Outcome::answer(format!(
            "turn {turns}, {mood}, page {version}, {length} messages"
        )))
    })
}

fn fold_of(checkpoint: &[u8]) -> Option<SessionFold> {
    decode_checkpoint(checkpoint)?.fold(&HashMap::new())
}

fn id(key: &str) -> SessionId {
    SessionId {
        team: "diarist".into(),
        key: key.into(),
    }
}

async fn say(system: &System, key: &str, what: &str) -> String {
    let turn = Turn::text(what).owner("ada");
    let run = system.session("diarist", key).send(turn).await.unwrap();
    text(&run).await
}

async fn three_turns(stage: &Stage) -> System {
    let system = stage.start(diarist()).await.as_operator();
    for what in ["first", "second", "spoil"] {
        say(&system, "s", what).await;
    }
    system
}

#[tokio::test(start_paused = true)]
async fn a_branch_goes_on_from_its_point_and_neither_touches_the_other() {
    let mut stage = Stage::new();
    let system = three_turns(&stage).await;
    let session = system.session("diarist", "s");
    let branch = session.fork(2, "b").await.unwrap();
    assert_eq!(branch.transcript().await.unwrap().len(), 4);
    assert_eq!(
        say(&system, "b", "other").await,
        "turn 3, good, page 3, 5 messages"
    );
    assert_eq!(
        say(&system, "s", "fourth").await,
        "turn 4, bad, page 4, 7 messages"
    );
    let state = branch.state(Scope::Session).await.unwrap();
    assert_eq!(
        state,
        [("mood".into(), json!("good")), ("turns".into(), json!(3))]
    );
    let third = branch
        .artifact(Scope::Session, "diary", Some(3))
        .await
        .unwrap();
    assert_eq!(third.unwrap().text(), Some("other"));
    // The same again is the same branch; another one there is refused.
    session.fork(2, "b").await.unwrap();
    let refused = session.fork(1, "b").await.unwrap_err();
    assert!(
        matches!(refused, SystemError::SessionExists { .. }),
        "{refused}"
    );
    // Somebody else's branch is somebody else's.
    let stranger = Turn::text("x").owner("eve");
    let refused = branch.send(stranger).await.unwrap_err();
    assert!(matches!(refused, SystemError::Foreign { .. }), "{refused}");
    stage.crash(&system).await;
    let system = stage.start(diarist()).await.as_operator();
    assert_eq!(
        say(&system, "b", "more").await,
        "turn 4, good, page 4, 7 messages"
    );
}

#[tokio::test(start_paused = true)]
async fn a_branch_of_no_turns_is_its_owner_s_also_elsewhere() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let branch = system.session("diarist", "s").fork(0, "b").await.unwrap();
    let document = system.sessions().export(&id("b")).await.unwrap();
    system.sessions().import(&document, id("i")).await.unwrap();
    for key in ["b", "i"] {
        let session = system.session("diarist", key);
        let refused = session
            .send(Turn::text("x").owner("eve"))
            .await
            .unwrap_err();
        assert!(matches!(refused, SystemError::Foreign { .. }), "{refused}");
        assert_eq!(session.log().await.unwrap().owner.as_deref(), Some("ada"));
        let first = say(&system, key, "first").await;
        assert_eq!(first, "turn 1, good, page 1, 1 messages");
    }
    let again = branch.fork(0, "c").await.unwrap();
    let refused = again.send(Turn::text("x").owner("eve")).await.unwrap_err();
    assert!(matches!(refused, SystemError::Foreign { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn of_a_session_that_is_listed_only_what_came_after_its_checkpoint_is_read() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    say(&system, "s", "once more").await;
    pause(100).await;
    let store = stage.store.clone();
    let listed = async || {
        let page = system
            .sessions()
            .list(SessionQuery::default())
            .await
            .unwrap();
        let found = &page.sessions[0];
        (found.turns, found.title.clone(), found.owner.clone())
    };
    let ada = Some("ada".to_owned());
    assert_eq!(listed().await, (4, "once more".to_owned(), ada.clone()));
    // It is taken from the checkpoint: here is one that says something else.
    let kept = store.checkpoint(id("s")).await.unwrap().unwrap();
    let mut fold = fold_of(&kept).unwrap();
    fold.titles = vec!["a".into(), "b".into()];
    let other = encode_checkpoint(&fold);
    store.put_checkpoint(id("s"), other).await.unwrap();
    assert_eq!(listed().await, (2, "b".to_owned(), ada.clone()));
    // One that cannot be read changes nothing but the time that it takes.
    store
        .put_checkpoint(id("s"), Some(vec![1, 2, 3]))
        .await
        .unwrap();
    assert_eq!(listed().await, (4, "once more".to_owned(), ada.clone()));
    system.session("diarist", "s").rewind(1).await.unwrap();
    assert_eq!(listed().await, (1, "first".to_owned(), ada.clone()));
    say(&system, "s", "another").await;
    assert_eq!(listed().await, (2, "another".to_owned(), ada));
}

#[tokio::test(start_paused = true)]
async fn a_rewound_session_has_its_conversation_and_state_as_they_were_and_nothing_is_gone() {
    let mut stage = Stage::new();
    let system = three_turns(&stage).await;
    let session = system.session("diarist", "s");
    let log = session.log().await.unwrap();
    assert_eq!(log.turns.len(), 3);
    let spoilt = log.turns[2].run;
    session.rewind(2).await.unwrap();
    let state = session.state(Scope::Session).await.unwrap();
    assert_eq!(
        state,
        [("mood".into(), json!("good")), ("turns".into(), json!(2))]
    );
    // The page that was written then is kept, and so is the run.
    assert_eq!(
        say(&system, "s", "better").await,
        "turn 3, good, page 4, 5 messages"
    );
    let page = session
        .artifact(Scope::Session, "diary", Some(3))
        .await
        .unwrap();
    assert_eq!(page.unwrap().text(), Some("spoil"));
    assert!(outcome(&system.run(spoilt)).await.text().contains("bad"));
    stage.crash(&system).await;
    let system = stage.start(diarist()).await.as_operator();
    assert_eq!(
        say(&system, "s", "on").await,
        "turn 4, good, page 5, 7 messages"
    );
    let session = system.session("diarist", "s");
    let said: Vec<String> = session
        .log()
        .await
        .unwrap()
        .turns
        .into_iter()
        .map(|t| t.said)
        .collect();
    assert_eq!(said, ["first", "second", "better", "on"]);
    // To its beginning, and a fork of what came before sees what it saw.
    session.rewind(0).await.unwrap();
    assert_eq!(session.state(Scope::Session).await.unwrap(), []);
    assert_eq!(
        say(&system, "s", "anew").await,
        "turn 1, , page 6, 1 messages"
    );
    let fork = system
        .run(spoilt)
        .fork(Fork::at(1).session("f"))
        .await
        .unwrap();
    assert_eq!(text(&fork).await, "turn 3, bad, page 3, 5 messages");
}

#[tokio::test(start_paused = true)]
async fn a_branch_is_rewound_to_its_beginning_and_keeps_the_state_that_it_began_with() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let branch = system.session("diarist", "s").fork(2, "b").await.unwrap();
    say(&system, "b", "spoil").await;
    branch.rewind(2).await.unwrap();
    let state = branch.state(Scope::Session).await.unwrap();
    assert_eq!(
        state,
        [("mood".into(), json!("good")), ("turns".into(), json!(2))]
    );
    let again = branch.fork(2, "c").await.unwrap();
    let state = again.state(Scope::Session).await.unwrap();
    assert_eq!(
        state,
        [("mood".into(), json!("good")), ("turns".into(), json!(2))]
    );
}

#[tokio::test(start_paused = true)]
async fn a_branch_is_rewound_to_before_it_began_and_branched_off_there() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let branch = system.session("diarist", "s").fork(3, "b").await.unwrap();
    say(&system, "b", "other").await;
    // What is said in the first one meanwhile does not count.
    say(&system, "s", "fourth").await;
    let other = branch.fork(1, "c").await.unwrap();
    let first = [
        ("mood".to_owned(), json!("good")),
        ("turns".into(), json!(1)),
    ];
    assert_eq!(other.state(Scope::Session).await.unwrap(), first);
    assert_eq!(
        say(&system, "c", "anew").await,
        "turn 2, good, page 2, 3 messages"
    );
    branch.rewind(1).await.unwrap();
    assert_eq!(branch.state(Scope::Session).await.unwrap(), first);
    assert_eq!(
        say(&system, "b", "anew").await,
        "turn 2, good, page 5, 3 messages"
    );
    // A branch of a branch, to the beginning of all.
    let deep = other.fork(2, "d").await.unwrap();
    say(&system, "d", "deeper").await;
    deep.rewind(1).await.unwrap();
    assert_eq!(deep.state(Scope::Session).await.unwrap(), first);
    deep.rewind(0).await.unwrap();
    assert_eq!(deep.state(Scope::Session).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_imported_session_that_goes_back_behind_its_import_has_what_was_imported() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let document = system.sessions().export(&id("s")).await.unwrap();
    let elsewhere = Stage::new();
    let there = Sessions::of(elsewhere.store.clone());
    there.import(&document, id("moved")).await.unwrap();
    let system = elsewhere.start(diarist()).await.as_operator();
    say(&system, "moved", "first").await;
    let moved = system.session("diarist", "moved");
    let turns = async || {
        let state = moved.state(Scope::Session).await.unwrap();
        let found = state.into_iter().find(|(key, _)| key == "turns");
        found.map(|(_, value)| value)
    };
    assert_eq!(turns().await, Some(json!(4)));
    let branch = moved.fork(1, "b").await.unwrap();
    let state = branch.state(Scope::Session).await.unwrap();
    assert!(state.contains(&("turns".into(), json!(3))), "{state:?}");
    moved.rewind(1).await.unwrap();
    assert_eq!(turns().await, Some(json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_copied_once_however_often_it_was_written() {
    let counter = Agent::from_fn("counter", |cx: RunContext| async move {
        let state = cx.state(Scope::Session);
        for _ in 0..50 {
            state
                .update("n", |n: Option<u32>| n.unwrap_or(0) + 1)
                .await?;
        }
        let version = state.get_versioned("n").await?.map(|(_, version)| version);
        Ok(Outcome::answer(format!("{version:?}")))
    });
    let stage = Stage::new();
    let store = Contested::over(stage.store.clone());
    let most = store.most_writes.clone();
    let system = start(&stage, store, counter).await.as_operator();
    let session = system.session("counter", "s");
    assert_eq!(text(&session.send("go").await.unwrap()).await, "Some(50)");
    let branch = session.fork(1, "b").await.unwrap();
    assert_eq!(text(&branch.send("go").await.unwrap()).await, "Some(100)");
    let of_branch = branch.id().clone();
    let document = system.sessions().export(&of_branch).await.unwrap();
    let mut other = of_branch;
    other.key = "c".into();
    system.sessions().import(&document, other).await.unwrap();
    let imported = system.session("counter", "c");
    assert_eq!(text(&imported.send("go").await.unwrap()).await, "Some(150)");
    let most = most.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(most, 1, "values in one commit");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_was_dropped_is_made_again_by_the_next_turn() {
    let agent = || {
        Agent::from_fn("diarist", |_: RunContext| async move {
            Ok(Outcome::answer("yes"))
        })
    };
    let mut stage = Stage::new();
    let system = stage.start(agent()).await.as_operator();
    for turn in 0..100 {
        say(&system, "s", &turn.to_string()).await;
    }
    let kept = async |stage: &Stage| stage.store.checkpoint(id("s")).await.unwrap();
    for damaged in [None, Some(b"damaged".to_vec())] {
        stage.crash(&system).await;
        stage.store.put_checkpoint(id("s"), damaged).await.unwrap();
        let system = stage.start(agent()).await.as_operator();
        say(&system, "s", "on").await;
        pause(100).await;
        let bytes = kept(&stage).await.expect("a checkpoint");
        let fold = fold_of(&bytes).expect("one that reads");
        assert!(fold.entries > 200, "{}", fold.entries);
        // As long as one is there that is nearly whole, it is not written again.
        say(&system, "s", "more").await;
        pause(100).await;
        assert!(kept(&stage).await == Some(bytes));
        stage.crash(&system).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forked_session_is_rewound_to_the_state_before_its_turn() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let session = system.session("diarist", "s");
    let second = session.log().await.unwrap().turns[1].run;
    let fork = system
        .run(second)
        .fork(Fork::at(1).session("f"))
        .await
        .unwrap();
    assert_eq!(text(&fork).await, "turn 2, good, page 2, 3 messages");
    say(&system, "f", "spoil").await;
    let forked = system.session("diarist", "f");
    for (turns, wanted) in [(2, 2), (1, 1)] {
        forked.rewind(turns).await.unwrap();
        let state = forked.state(Scope::Session).await.unwrap();
        assert_eq!(
            state,
            [
                ("mood".into(), json!("good")),
                ("turns".into(), json!(wanted))
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_gone_back_to_is_told() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    let session = system.session("diarist", "s");
    let error = session.rewind(4).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "session diarist/s has 3 turns: 4 of them cannot be kept"
    );
    let error = system
        .session("diarist", "none")
        .rewind(0)
        .await
        .unwrap_err();
    assert!(
        matches!(error, SystemError::UnknownSession { .. }),
        "{error}"
    );
    let run = session.send(Turn::text("ask").owner("ada")).await.unwrap();
    pause(10).await;
    for error in [
        session.rewind(1).await.unwrap_err(),
        session.fork(4, "x").await.map(drop).unwrap_err(),
    ] {
        let under_way =
            matches!(&error, SystemError::UnderWay { run: open, .. } if *open == run.id());
        assert!(under_way, "{error}");
    }
    // A branch before it takes no harm from it, and it none from the branch.
    let branch = session.fork(3, "x").await.unwrap();
    assert_eq!(branch.transcript().await.unwrap().len(), 6);
    run.cancel("enough").await.unwrap();
    outcome(&run).await;
    session.rewind(3).await.unwrap();
    assert_eq!(
        say(&system, "s", "on").await,
        "turn 4, bad, page 4, 7 messages"
    );
}

#[tokio::test(start_paused = true)]
async fn an_exported_session_goes_on_in_another_store() {
    let stage = Stage::new();
    let system = three_turns(&stage).await;
    system.session("diarist", "s").rewind(2).await.unwrap();
    let run = system.session("diarist", "s");
    run.send(Turn::text("ask").owner("ada")).await.unwrap();
    pause(10).await;
    let document = system.sessions().export(&id("s")).await.unwrap();
    let text = document.to_json();
    let document = SessionDocument::from_json(&text).unwrap();

    let elsewhere = Stage::new();
    let there = Sessions::of(elsewhere.store.clone());
    there.import(&document, id("moved")).await.unwrap();
    there.import(&document, id("moved")).await.unwrap();
    let system = elsewhere.start(diarist()).await.as_operator();
    // The turn that was under way is not in it.
    assert_eq!(
        say(&system, "moved", "on").await,
        "turn 3, good, page 4, 5 messages"
    );
    let session = system.session("diarist", "moved");
    let page = session
        .artifact(Scope::Session, "diary", Some(1))
        .await
        .unwrap();
    assert_eq!(page.unwrap().text(), Some("first"));
    let error = there.import(&document, id("moved")).await;
    assert!(error.is_ok(), "what went on from it is it: {error:?}");
    say(&system, "other", "first").await;
    let error = there.import(&document, id("other")).await.unwrap_err();
    assert!(
        matches!(error, SystemError::SessionExists { .. }),
        "{error}"
    );
}

#[test]
fn a_document_that_is_foreign_newer_or_damaged_is_refused_as_what_it_is() {
    let refusals = [
        ("no JSON", "no exported session"),
        ("[1]", "no exported session"),
        (r#"{"format": "else", "version": 1}"#, "`format` is not"),
        (r#"{"format": "ghostlight-session"}"#, "no `version`"),
        (
            r#"{"format": "ghostlight-session", "version": 9, "new": {}}"#,
            "has version 9",
        ),
        (
            r#"{"format": "ghostlight-session", "version": 1}"#,
            "damaged: missing field",
        ),
    ];
    for (text, wanted) in refusals {
        let error = SessionDocument::from_json(text).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
    }
    let newer = r#"{"format": "ghostlight-session", "version": 2}"#;
    let error = SessionDocument::from_json(newer).unwrap_err();
    assert_eq!(error, SessionDocumentError::TooNew { found: 2, known: 1 });
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_by_team_owner_time_and_what_is_under_way() {
    let stage = Stage::new();
    let system = stage.start(diarist()).await.as_operator();
    let mut times = Vec::new();
    for (key, owner, what) in [
        ("a", "ada", "x"),
        ("b", "eve", "x"),
        ("c", "ada", "ask"),
        ("d", "ada", "x"),
    ] {
        let turn = Turn::text(what).owner(owner);
        let run = system.session("diarist", key).send(turn).await.unwrap();
        if what != "ask" {
            outcome(&run).await;
        }
        times.push(run.status().await.unwrap().started_at);
        pause(1_000).await;
    }
    let keys = async |query: SessionQuery| -> Vec<String> {
        let page = system.sessions().list(query).await.unwrap();
        page.sessions
            .into_iter()
            .map(|found| found.session.key.to_string())
            .collect()
    };
    let any = SessionQuery::default;
    assert_eq!(keys(any()).await, ["d", "c", "b", "a"]);
    let mut query = any();
    query.owner = Some("ada".to_owned());
    assert_eq!(keys(query.clone()).await, ["d", "c", "a"]);
    query.active = true;
    assert_eq!(keys(query).await, ["c"]);
    let mut query = any();
    query.since = Some(times[2]);
    assert_eq!(keys(query).await, ["d", "c"]);
    let mut query = any();
    query.team = Some("nobody".to_owned());
    assert_eq!(keys(query).await, [""; 0]);
    let mut query = any();
    (query.owner, query.limit) = (Some("ada".to_owned()), 2);
    let first = system.sessions().list(query.clone()).await.unwrap();
    let found: Vec<&str> = first.sessions.iter().map(|s| &*s.session.key).collect();
    assert_eq!(found, ["d", "c"]);
    assert_eq!(first.sessions[0].title, "x");
    assert_eq!(first.sessions[0].turns, 1);
    query.after = first.next;
    assert_eq!(keys(query).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_rewind_that_a_crash_interrupts_is_made_or_not_and_never_in_part() {
    use ghostlight_actors::testing::{Fault, FaultyStore, Harm, Strike};
    for strike in [Strike::Before, Strike::After] {
        let stage = Stage::new();
        let system = three_turns(&stage).await;
        system.stop().await.unwrap();
        let process = stage.store.another_process();
        let fault = Fault {
            call: 1,
            strike,
            harm: Harm::Fail,
        };
        let faulty = FaultyStore::at_commit(process, fault);
        let struck = Sessions::of(StoreHandle::new(faulty))
            .rewind(&id("s"), 1)
            .await;
        struck.unwrap_err();
        let disk = Sessions::of(stage.store.another_process());
        let log = disk.log(&id("s")).await.unwrap();
        let state = disk.state(&id("s"), &Scope::Session).await.unwrap();
        let turns = state
            .iter()
            .find(|(key, _)| key == "turns")
            .unwrap()
            .1
            .clone();
        let wanted = if log.turns.len() == 1 { 1 } else { 3 };
        assert_eq!(turns, json!(wanted), "{strike:?}");
    }
}

/// A session of a store that lives on its own needs no System.
#[tokio::test]
async fn an_unknown_session_is_told_apart_from_an_empty_one() {
    let sessions = Sessions::of(InMemoryStore::new());
    let error = sessions.export(&id("none")).await.unwrap_err();
    assert!(
        matches!(error, SystemError::UnknownSession { .. }),
        "{error}"
    );
    assert_eq!(sessions.log(&id("none")).await.unwrap().turns, []);
}
