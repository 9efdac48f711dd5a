//! What belongs to an owner is changed by that owner and by the operator alone, through every door.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Fork, Run, System, SystemError},
    contract::{RunFilter, Ticket},
    definition::Schedule,
    run::{Agent, RunContext, Task, operations::AgentMessage},
    session::Turn,
    vocabulary::{Effect, OperationId, Outcome, ParentPolicy, Question, Scope, ToolDefinition},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::stage::{Stage, call, outcome, text};

#[derive(Serialize, Deserialize)]
struct Word(String);

impl AgentMessage for Word {
    const NAME: &'static str = "word";
}

/// Asks a person, and answers with what it was told.
fn asker() -> Agent {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        let answer = cx.ask(Question::new("well?")).await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    Agent::from_fn("a", |cx: RunContext| async move {
        let answer = match cx.input().content().as_str() {
            "quick" => return Ok(Outcome::answer("quick")),
            "below" => cx.delegate("below", "go").await?.text,
            _ => cx.ask(Question::new("well?")).await?.to_string(),
        };
        Ok(Outcome::answer(answer))
    })
    .agent(below)
}

/// A turn of ada's that waits for an answer, in a session with a turn before it.
async fn asking(system: &System, what: &str) -> (Run, OperationId) {
    let session = system.session("a", "s");
    let quick = session
        .send(Turn::text("quick").owner("ada"))
        .await
        .unwrap();
    outcome(&quick).await;
    let run = session.send(Turn::text(what).owner("ada")).await.unwrap();
    run.wait().await.unwrap();
    let asked = run.questions().await.unwrap().remove(0).1;
    (system.run(run.id()), asked)
}

fn foreign<T>(done: Result<T, SystemError>) -> bool {
    matches!(done, Err(SystemError::Foreign { .. }))
}

/// What each door does for these handles: the names of those that refuse.
async fn refusals(system: &System, run: &Run, asked: OperationId) -> Vec<&'static str> {
    refusals_in(system, "s", run, asked).await
}

async fn refusals_in(
    system: &System,
    key: &str,
    run: &Run,
    asked: OperationId,
) -> Vec<&'static str> {
    let (run, session) = (system.run(run.id()), system.session("a", key));
    let mut refused = Vec::new();
    let mut note = |door: &'static str, is_foreign: bool| {
        if is_foreign {
            refused.push(door);
        }
    };
    note("steer", foreign(run.steer("quicker").await));
    note("tell", foreign(run.tell(&Word("x".into())).await));
    note(
        "cancel_call",
        foreign(run.cancel_call(OperationId::default()).await),
    );
    note("fork", foreign(run.fork(Fork::at(1)).await));
    note("retry", foreign(run.retry().await));
    note("branch", foreign(session.fork(1, "other").await));
    note("rewind", foreign(session.rewind(0).await));
    note("answer", foreign(run.answer(asked, json!("yes")).await));
    note("cancel", foreign(run.cancel("no more").await));
    refused
}

const DOORS: [&str; 9] = [
    "steer",
    "tell",
    "cancel_call",
    "fork",
    "retry",
    "branch",
    "rewind",
    "answer",
    "cancel",
];

#[tokio::test(start_paused = true)]
async fn every_door_that_changes_something_asks_for_whom() {
    for what in ["ask", "below"] {
        let stage = Stage::new();
        let system = stage.start(asker()).await;
        let (run, asked) = asking(&system, what).await;
        for stranger in [system.clone(), system.acting_for("eve")] {
            assert_eq!(refusals(&stranger, &run, asked).await, DOORS, "{what}");
        }
        let below = run.questions().await.unwrap().remove(0).0;
        assert!(foreign(system.run(below).answer(asked, json!("yes")).await));
        assert!(foreign(system.run(below).cancel("no").await));
        assert_eq!(
            run.questions().await.unwrap().len(),
            1,
            "nothing was changed"
        );
        let hers = system.acting_for("ada").run(run.id());
        hers.answer(asked, json!("hers")).await.unwrap();
        assert_eq!(text(&run).await, "\"hers\"");
        for may in [system.acting_for("ada"), system.as_operator()] {
            assert_eq!(refusals(&may, &run, asked).await, [""; 0], "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_nobody_is_anybodys() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let session = system.session("a", "s");
    let run = session.send("ask").await.unwrap();
    run.wait().await.unwrap();
    let asked = run.questions().await.unwrap().remove(0).1;
    for may in [
        system.clone(),
        system.as_operator(),
        system.acting_for("eve"),
    ] {
        may.run(run.id()).steer("quicker").await.unwrap();
    }
    run.answer(asked, json!("yes")).await.unwrap();
    assert_eq!(text(&run).await, "\"yes\"");
}

#[tokio::test(start_paused = true)]
async fn handles_of_an_owner_show_nothing_of_others() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let (run, asked) = asking(&system, "ask").await;
    let eves = system.acting_for("eve");
    let (session, theirs) = (eves.session("a", "s"), eves.run(run.id()));
    assert!(foreign(session.log().await));
    assert!(foreign(session.transcript().await));
    assert!(foreign(session.state(Scope::Session).await));
    assert!(foreign(session.state(Scope::User("ada".into())).await));
    assert!(foreign(session.artifacts(Scope::Session).await));
    assert!(foreign(session.artifact(Scope::Session, "x", None).await));
    assert!(foreign(session.send("hello").await));
    assert!(foreign(
        session.send(Turn::text("hello").owner("ada")).await
    ));
    assert!(foreign(theirs.status().await));
    assert!(foreign(theirs.questions().await));
    assert!(foreign(theirs.unredacted(asked).await));
    assert!(foreign(theirs.tree().await));
    assert!(foreign(theirs.budget().await));
    assert!(foreign(theirs.topics().await));
    assert!(foreign(theirs.wait().await));
    assert!(foreign(theirs.is_stalled().await));
    assert!(foreign(theirs.quiet().await));
    assert!(foreign(theirs.outcome().await));
    assert!(foreign(eves.resume(run.id(), false).await));
    assert!(theirs.events().next().await.is_none());
    assert!(theirs.events().so_far().await.unwrap().is_empty());
    assert!(eves.runs(RunFilter::default()).await.unwrap().is_empty());
    let all = Default::default();
    assert!(eves.sessions().list(all).await.unwrap().sessions.is_empty());
    assert!(foreign(eves.sessions().export(session.id()).await));
    // Hers are shown to her, and all to the program.
    let hers = system.acting_for("ada");
    assert_eq!(hers.runs(RunFilter::default()).await.unwrap().len(), 2);
    assert!(hers.run(run.id()).events().next().await.is_some());
    assert_eq!(hers.session("a", "s").log().await.unwrap().turns.len(), 2);
    assert_eq!(system.session("a", "s").log().await.unwrap().turns.len(), 2);
    hers.run(run.id()).answer(asked, json!(1)).await.unwrap();
    // A turn of a handle that acts for an owner is that owner's.
    let again = hers.session("a", "s").send("quick").await.unwrap();
    assert_eq!(text(&again).await, "quick");
    let mine = eves.session("a", "mine").send("quick").await.unwrap();
    outcome(&mine).await;
    let log = system.session("a", "mine").log().await.unwrap();
    assert_eq!(log.owner.as_deref(), Some("eve"));
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_a_name() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let (run, asked) = asking(&system, "ask").await;
    let empty = |done: Result<(), SystemError>| matches!(done, Err(SystemError::EmptyOwner));
    for name in ["", " "] {
        let session = system.session("a", "new");
        assert!(empty(
            session
                .send(Turn::text("quick").owner(name))
                .await
                .map(drop)
        ));
        assert!(empty(run.answer_as(name, asked, json!("x")).await));
        let nobody = system.acting_for(name);
        assert!(empty(
            nobody.session("a", "new").send("quick").await.map(drop)
        ));
        assert!(empty(nobody.run(run.id()).cancel("x").await.map(drop)));
    }
    assert!(
        system
            .session("a", "new")
            .log()
            .await
            .unwrap()
            .turns
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_tenant_sees_what_is_its_owners_and_changes_nothing() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let mut runs = Vec::new();
    for owner in [
        Some("acme:ada"),
        Some("acme:bob"),
        Some("other:ada"),
        Some("acme"),
        Some("acme:chat:eve"),
        None,
    ] {
        let session = system.session("a", owner.unwrap_or("nobodys"));
        let mut turn = Turn::text("ask");
        turn.owner = owner.map(str::to_owned);
        let run = session.send(turn).await.unwrap();
        run.wait().await.unwrap();
        runs.push((session, run));
    }
    let reader = system.reading_tenant("acme");
    for (number, (session, run)) in runs.iter().enumerate() {
        let (session, theirs) = (
            reader.session("a", session.id().key.clone()),
            reader.run(run.id()),
        );
        let seen = number < 2;
        assert_eq!(!foreign(session.log().await), seen, "{session:?}");
        assert_eq!(!foreign(session.state(Scope::Session).await), seen);
        assert_eq!(!foreign(session.artifacts(Scope::Session).await), seen);
        assert_eq!(!foreign(theirs.questions().await), seen);
        assert_eq!(theirs.events().next().await.is_some(), seen);
        let user = Scope::User(session.id().key.to_string());
        assert_eq!(!foreign(session.state(user).await), seen);
        let asked = run.questions().await.unwrap().remove(0).1;
        let refused = refusals_in(&reader, &session.id().key, run, asked).await;
        assert_eq!(refused, DOORS, "{}", session.id());
        assert!(foreign(session.send("more").await));
        let named = Turn::text("more").owner("acme:ada");
        assert!(foreign(session.send(named).await));
        assert!(foreign(reader.resume(run.id(), false).await));
        assert!(foreign(reader.sessions().delete(session.id()).await));
        let document = system.sessions().export(session.id()).await.unwrap();
        let mut copy = session.id().clone();
        copy.key = format!("copy of {}", copy.key).into();
        assert!(foreign(reader.sessions().import(&document, copy).await));
    }
    let listed = reader.sessions().list(Default::default()).await.unwrap();
    let listed = listed.sessions.into_iter().map(|one| one.owner.unwrap());
    let mut listed: Vec<String> = listed.collect();
    listed.sort();
    assert_eq!(listed, ["acme:ada", "acme:bob"]);
    assert_eq!(reader.runs(RunFilter::default()).await.unwrap().len(), 2);
    assert_eq!(reader.open_questions().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_session_of_a_child_that_outlives_its_parent_is_its_owner_s() {
    for policy in [ParentPolicy::Continue, ParentPolicy::Adopt] {
        let stage = Stage::new();
        let boss = Agent::from_fn("a", move |cx: RunContext| async move {
            let task = Task::from("ask").when_parent_ends(policy);
            let child = cx.spawn("below", task).await?;
            Ok(Outcome::answer(child.run.to_string()))
        });
        let below = Agent::from_fn("below", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.input().content()))
        });
        let system = stage.start(boss.agent(below)).await;
        let turn = Turn::text("go").owner("ada");
        let run = system.session("a", "s").send(turn).await.unwrap();
        let key = text(&run).await;
        let session = system.session("a", &key);
        assert_eq!(session.log().await.unwrap().owner.as_deref(), Some("ada"));
        let eves = system.acting_for("eve").session("a", &key);
        assert!(foreign(eves.log().await));
        assert!(foreign(eves.send("mine").await));
        let next = session.send(Turn::text("more").owner("ada")).await;
        assert_eq!(text(&next.unwrap()).await, "more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_begun_without_an_owner_is_taken_over_by_nobody() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let session = system.session("a", "s");
    outcome(&session.send("quick").await.unwrap()).await;
    // All may speak in what belongs to nobody, each for themselves, and it stays nobody's.
    let hers = session.send(Turn::text("quick").owner("eve")).await;
    let hers = hers.unwrap();
    outcome(&hers).await;
    let bobs = system.acting_for("bob").session("a", "s");
    assert_eq!(bobs.log().await.unwrap().owner, None);
    outcome(&bobs.send("quick").await.unwrap()).await;
    outcome(&session.send("quick").await.unwrap()).await;
    // The run of a turn is its speaker's.
    assert!(foreign(
        system.acting_for("bob").run(hers.id()).status().await
    ));
    // So it stays over rewinding, branching, export and import, and in the next process.
    bobs.rewind(1).await.unwrap();
    outcome(
        &session
            .send(Turn::text("quick").owner("eve"))
            .await
            .unwrap(),
    )
    .await;
    bobs.rewind(0).await.unwrap();
    outcome(
        &session
            .send(Turn::text("quick").owner("eve"))
            .await
            .unwrap(),
    )
    .await;
    let branch = bobs.fork(0, "branch").await.unwrap();
    let document = system.sessions().export(session.id()).await.unwrap();
    let mut id = session.id().clone();
    id.key = "imported".into();
    system.sessions().import(&document, id).await.unwrap();
    let mut stage = stage;
    stage.crash(&system).await;
    let system = stage.start(asker()).await;
    for key in ["s", &*branch.id().key, "imported"] {
        let session = system.session("a", key);
        outcome(
            &session
                .send(Turn::text("quick").owner("eve"))
                .await
                .unwrap(),
        )
        .await;
        let log = system.acting_for("bob").session("a", key).log().await;
        assert_eq!(log.unwrap().owner, None, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_call_is_given_by_its_owner_and_by_the_operator_alone() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let result = cx.tool_unasked(call("1", "order")).await?;
        Ok(Outcome::answer(result.text))
    });
    let agent = agent.tool(stage.tool("order", Effect::Once, 5).later());
    let system = stage.start(agent).await;
    let acting = [system.acting_for("ada"), system.as_operator()];
    for (number, may) in acting.into_iter().enumerate() {
        let session = system.session("a", number.to_string());
        let turn = Turn::text("go").owner("ada");
        let run = session.send(turn).await.unwrap();
        run.wait().await.unwrap();
        let ticket = Ticket {
            run: run.id(),
            operation: "0.0.0".parse().unwrap(),
        };
        let strangers = [
            system.clone(),
            system.acting_for("bob"),
            system.reading_tenant("acme"),
        ];
        for stranger in strangers {
            let done = stranger.complete(ticket, Ok("theirs".into())).await;
            assert!(foreign(done), "{stranger:?}");
        }
        may.complete(ticket, Ok("hers".into())).await.unwrap();
        assert_eq!(text(&run).await, "hers");
    }
}

#[tokio::test(start_paused = true)]
async fn the_exact_arguments_of_a_call_are_shown_to_its_owner_alone() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tools([call("1", "wipe")]).await?;
        Ok(Outcome::answer("done"))
    });
    let definition = ToolDefinition::new("wipe", "wipes").approval("?");
    let agent = agent.tool(stage.log.tool(definition, Duration::ZERO));
    let system = stage.start(agent).await;
    let turn = Turn::text("go").owner("ada");
    let run = system.session("a", "s").send(turn).await.unwrap();
    run.wait().await.unwrap();
    let asked = run.questions().await.unwrap().remove(0).1;
    let theirs = system.acting_for("eve").run(run.id());
    assert!(foreign(theirs.unredacted(asked).await));
    let hers = system.acting_for("ada").run(run.id());
    assert!(hers.unredacted(asked).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_handle_for_a_turn_shows_no_run_of_somebody_elses_session() {
    let stage = Stage::new();
    let system = stage.start(asker()).await;
    let turn = Turn::text("quick").owner("ada").id("t");
    let hers = system.session("a", "hers").send(turn).await.unwrap();
    outcome(&hers).await;
    let eves = system.acting_for("eve");
    let own = eves.session("a", "own").send("quick").await.unwrap();
    outcome(&own).await;
    // A handle of her own run, for a turn that was never said to it.
    let made_up = eves.session("a", "hers").said_to(own.id(), "t");
    let mut events = made_up.events();
    while let Some(record) = events.next().await {
        assert_eq!(record.unwrap().run, own.id());
    }
    assert!(foreign(made_up.taker().await));
    assert!(foreign(made_up.outcome().await));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_speaks_for_nobody_but_its_keeper() {
    let stage = Stage::alone();
    let system = stage.start(asker()).await;
    let hourly = || Schedule::cron("pulse", "0 * * * *", "quick");
    let named = |owner: &str| hourly().owner(owner);
    let hers = system.acting_for("ada");
    for stranger in [system.acting_for("eve"), system.reading_tenant("acme")] {
        assert!(foreign(stranger.schedule("a", named("ada")).await));
    }
    assert!(foreign(
        system.reading_tenant("acme").schedule("a", hourly()).await
    ));
    // Without a name it speaks for the owner whose handle keeps it.
    hers.schedule("a", hourly()).await.unwrap();
    let kept = system.schedules().await.unwrap().remove(0).schedule;
    assert_eq!(kept.owner.as_deref(), Some("ada"));
    let eves = system.acting_for("eve");
    assert!(foreign(eves.schedule("a", hourly()).await));
    assert!(foreign(eves.unschedule("a", "pulse").await));
    assert!(hers.unschedule("a", "pulse").await.unwrap());
    // The program and the operator may name any owner.
    for may in [system.clone(), system.as_operator()] {
        may.schedule("a", named("ada")).await.unwrap();
        assert!(may.unschedule("a", "pulse").await.unwrap());
    }
}
