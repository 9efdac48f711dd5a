//! State in typed scopes: what each is shared by, what its changes look like to observers, and
//! what tools do with it.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System},
    contract::{DynStore, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    session::Turn,
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{
        AgentError, Arguments, Changed, Effect, Event, Outcome, Scope, ToolDefinition, ToolStatus,
    },
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, pause, text};

fn user(cx: &RunContext) -> Scope {
    Scope::User(cx.start().owner.clone().unwrap_or_default())
}

/// Counts up in every scope, and tells what it found.
fn counter() -> Agent {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        let temp: Option<u32> = cx.state(Scope::Temp).get("n").await?;
        let run: Option<u32> = cx.memory().get("n").await?;
        Ok(Outcome::answer(format!(
            "below: temp {temp:?}, run {run:?}"
        )))
    });
    Agent::from_fn("counter", |cx: RunContext| async move {
        let mut found = Vec::new();
        for scope in [
            Scope::App,
            user(&cx),
            Scope::Session,
            Scope::Run,
            Scope::Temp,
        ] {
            let state = cx.state(scope.clone());
            let count = state
                .update("n", |n: Option<u32>| n.unwrap_or(0) + 1)
                .await?;
            let read: Option<u32> = state.get("n").await?;
            assert_eq!(read, Some(count), "{scope}");
            found.push(count.to_string());
        }
        let below = cx.delegate("below", "look").await?.text;
        Ok(Outcome::answer(format!("{}; {below}", found.join(" "))))
    })
    .agent(below)
}

async fn count(system: &System, session: &str, owner: &str) -> String {
    let session = system.session("counter", session);
    let run = session.send(Turn::text("go").owner(owner)).await.unwrap();
    text(&run).await
}

#[tokio::test(start_paused = true)]
async fn each_scope_is_shared_by_whom_it_names_and_by_nobody_else() {
    let mut stage = Stage::new();
    let system = stage.start(counter()).await;
    let below = "below: temp None, run Some(1)";
    assert_eq!(
        count(&system, "a", "ada").await,
        format!("1 1 1 1 1; {below}")
    );
    assert_eq!(
        count(&system, "a", "ada").await,
        format!("2 2 2 1 1; {below}")
    );
    assert_eq!(
        count(&system, "b", "ada").await,
        format!("3 3 1 1 1; {below}")
    );
    stage.crash(&system).await;
    let system = stage.start(counter()).await;
    assert_eq!(
        count(&system, "c", "eve").await,
        format!("4 1 1 1 1; {below}")
    );
    // What is passing is in no store.
    for scope in ["", "temp", "temp:", "app:temp"] {
        assert_eq!(stage.store.scope(scope.to_owned()).await.unwrap(), []);
    }
    let session = system.session("counter", "a");
    let kept = session.state(Scope::Session).await.unwrap();
    assert_eq!(kept, [("n".to_owned(), json!(2))]);
    let of_user = session.state(Scope::User("ada".into())).await.unwrap();
    assert_eq!(of_user, [("n".to_owned(), json!(3))]);
    assert_eq!(session.state(Scope::Temp).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn passing_state_survives_a_crash_at_any_commit_and_not_its_run() {
    let scenario = Scenario::new("counter", |builder, _| {
        builder.team(counter().into_team().unwrap())
    })
    .turn("one")
    .turn("two");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[1].contains("2 2 2 1 1"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn passing_state_holds_nothing_of_an_operation_that_was_dropped() {
    let scenario = Scenario::new("a", |builder, _| {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let temp = cx.state(Scope::Temp);
            temp.set("kept", &1).await?;
            // Both begin together; the first that ends has the other dropped.
            let (now, set) = (cx.now(), temp.set("dropped", &1));
            futures_util::future::select(std::pin::pin!(now), set).await;
            cx.memory().set("a commit", &1).await?;
            let (kept, dropped) = (temp.get::<u32>("kept"), temp.get::<u32>("dropped"));
            // What is written is seen by what is asked after it.
            let (set, seen) =
                futures_util::future::join(temp.set("kept", &2), temp.get::<u32>("kept")).await;
            set?;
            Ok(Outcome::answer(format!(
                "{:?} {:?} {seen:?}",
                kept.await?,
                dropped.await?
            )))
        });
        builder.team(agent.into_team().unwrap())
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(
        report.outcomes[0].contains("Some(2) None Ok(Some(2))"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_and_owners_may_hold_any_separator_and_never_meet() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let ab = Scope::User("a/b".to_owned());
        let a = Scope::User("a".to_owned());
        cx.state(ab.clone()).set("c", &1).await?;
        cx.state(a.clone()).set("b/c", &2).await?;
        cx.state(Scope::Session).set("user:a/c", &3).await?;
        cx.state(Scope::App).set("session/c", &4).await?;
        let mut found = Vec::new();
        for (scope, key) in [(ab.clone(), "c"), (a.clone(), "b/c"), (ab, "b/c"), (a, "c")] {
            found.push(cx.state(scope).get::<u32>(key).await?);
        }
        Ok(Outcome::answer(format!("{found:?}")))
    });
    let system = stage.start(agent).await;
    let run = system.session("a", "s").send("go").await.unwrap();
    assert_eq!(text(&run).await, "[Some(1), Some(2), None, None]");
    let changes = changes(&run).await;
    let keys = changes.iter().filter_map(|changed| match changed {
        Changed::State { scope, key, .. } => Some((scope.clone(), key.as_str())),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    let user = |owner: &str| Scope::User(owner.to_owned());
    let wanted = [
        (user("a/b"), "c"),
        (user("a"), "b/c"),
        (Scope::Session, "user:a/c"),
        (Scope::App, "session/c"),
    ];
    assert_eq!(keys, wanted);
}

/// What changed, as observers were told.
async fn changes(run: &Run) -> Vec<Changed> {
    let mut events = run.events();
    let mut changes = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Changed { changed, .. } = event.unwrap().event {
            changes.push(changed);
        }
    }
    changes
}

#[tokio::test(start_paused = true)]
async fn deleting_is_no_null_and_each_change_is_an_event() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut found = Vec::new();
        for scope in [Scope::Session, Scope::Temp] {
            let state = cx.state(scope);
            state.set("k", &Value::Null).await?;
            found.push(state.get_versioned("k").await?.is_some());
            state.delete("k").await?;
            found.push(state.get_versioned("k").await?.is_some());
            // There is nothing to delete, so nothing changes.
            state.delete("k").await?;
        }
        Ok(Outcome::answer(format!("{found:?}")))
    });
    let system = stage.start(agent).await;
    let run = system.session("a", "s").send("go").await.unwrap();
    assert_eq!(text(&run).await, "[true, false, true, false]");
    let told = changes(&run).await;
    let values: Vec<_> = told
        .iter()
        .map(|changed| match changed {
            Changed::State { value, version, .. } => (value.clone(), *version),
            other => panic!("{other:?}"),
        })
        .collect();
    let each = [(Some(Value::Null), 1), (None, 2)];
    assert_eq!(values, [each.clone(), each].concat());
    let json = serde_json::to_value(&told).unwrap();
    assert_eq!(json[0]["state"]["value"], Value::Null);
    assert!(json[0]["state"].get("value").is_some());
    assert!(json[1]["state"].get("value").is_none(), "{json}");
    let back: Vec<Changed> = serde_json::from_value(json).unwrap();
    assert_eq!(back, told);
}

/// A tool that writes what it is told, or deletes where it is told nothing.
struct Setter;

impl Tool for Setter {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("put", "sets or deletes").effect(Effect::Idempotent)
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let output = ToolOutput::text("done");
        match arguments.value().ok().and_then(|given| given.get("value")) {
            Some(value) => output
                .set(Scope::Session, "k", value)?
                .set(Scope::Temp, "k", value),
            None => Ok(output.delete(Scope::Session, "k").delete(Scope::Temp, "k")),
        }
    }
}

/// Writes, deletes and writes again, and tells each version that it is told.
fn rewriter() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let mut told = Vec::new();
        for scope in [Scope::Session, Scope::Run, Scope::Temp] {
            let state = cx.state(scope);
            let first = state.set("k", &1).await?;
            state.delete("k").await?;
            let again = state.set_if("k", &2, None).await?;
            let late = state.set_if("k", &3, Some(first)).await;
            let next = state.set_if("k", &4, Some(again)).await?;
            let found = state.get_versioned("k").await?;
            told.push(format!(
                "{first} {again} {} {next} {found:?}",
                late.is_err()
            ));
        }
        for arguments in [r#"{"value": 5}"#, "{}", "{}", r#"{"value": 6}"#] {
            let mut put = call("1", "put");
            put.arguments = Arguments::from_text(arguments);
            cx.tool_unasked(put).await?;
        }
        for scope in [Scope::Session, Scope::Temp] {
            told.push(format!("{:?}", cx.state(scope).get_versioned("k").await?));
        }
        Ok(Outcome::answer(told.join("; ")))
    })
    .tool(Setter)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_was_deleted_is_never_taken_for_a_later_one() {
    let scenario = Scenario::new("a", |builder, _| {
        builder.team(rewriter().into_team().unwrap())
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    let each = "1 3 true 4 Some((Number(4), 4))";
    let wanted = format!("{each}; {each}; {each}; Some((Number(6), 7)); Some((Number(6), 7))");
    assert!(report.outcomes[0].contains(&wanted), "{report}");

    let stage = Stage::new();
    let system = stage.start(rewriter()).await;
    let run = system.session("a", "s").send("go").await.unwrap();
    text(&run).await;
    let told = changes(&run).await;
    for scope in [Scope::Session, Scope::Temp] {
        let versions = told.iter().filter_map(|changed| match changed {
            Changed::State {
                scope: of, version, ..
            } if *of == scope => Some(*version),
            _ => None,
        });
        let versions: Vec<u64> = versions.collect();
        assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7], "{scope}");
    }
}

/// A tool that reads and changes what the team keeps.
struct Notebook;

impl Tool for Notebook {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("note", "notes").effect(Effect::Idempotent)
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let name = arguments
            .value()
            .ok()
            .and_then(|a| a["name"].as_str().map(str::to_owned));
        let name = name.unwrap_or_else(|| "notes.txt".to_owned());
        let count: Option<u32> = cx.state(&Scope::Session, "calls").await?;
        let calls = count.unwrap_or(0) + 1;
        let passing: Option<u32> = cx.state(&Scope::Temp, "calls").await?;
        let before = cx.artifact(&Scope::Session, "notes.txt", None).await?;
        let before = before
            .and_then(|a| a.text().map(str::to_owned))
            .unwrap_or_default();
        let text = format!("call {calls} of {passing:?}, owner {:?}", cx.owner());
        let output = ToolOutput::text(text)
            .set(Scope::Session, "calls", &calls)?
            .set(Scope::Temp, "calls", &calls)?
            .delete(Scope::App, "never there")
            .save(
                Scope::Session,
                name,
                "text/plain",
                format!("{before}{calls}").into_bytes(),
            );
        Ok(output)
    }
}

fn writer() -> Agent {
    Agent::from_fn("writer", |cx: RunContext| async move {
        let first = cx.tool_unasked(call("1", "note")).await?.text;
        let results = cx.tools([call("2", "note"), call("3", "note")]).await?;
        let mut calls: Vec<String> = results.into_iter().map(|result| result.text).collect();
        calls.insert(0, first);
        let kept: Option<u32> = cx.state(Scope::Session).get("calls").await?;
        let passing: Option<u32> = cx.state(Scope::Temp).get("calls").await?;
        let notes = cx.artifacts(Scope::Session).load("notes.txt").await?;
        let version = notes.ok_or(AgentError::Ended)?.info.version;
        Ok(Outcome::answer(format!(
            "{calls:?} {kept:?} {passing:?} {version}"
        )))
    })
    .tool(Notebook)
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_writes_is_kept_with_its_result_and_told() {
    let stage = Stage::new();
    let system = stage.start(writer()).await;
    let turn = Turn::text("go").owner("ada");
    let run = system.session("writer", "s").send(turn).await.unwrap();
    let said = text(&run).await;
    assert!(
        said.contains(r#"call 1 of None, owner Some(\"ada\")"#),
        "{said}"
    );
    assert!(
        said.contains("[saved as notes.txt, version 1 (text/plain, 1 bytes)]"),
        "{said}"
    );
    assert!(
        said.ends_with("Some(2) Some(2) 3") || said.ends_with("Some(3) Some(3) 3"),
        "{said}"
    );
    let changed = changes(&run).await;
    assert_eq!(changed.len(), 9, "{changed:?}");
    assert!(matches!(
        &changed[0],
        Changed::State {
            scope: Scope::Session,
            version: 1,
            ..
        }
    ));
    assert!(matches!(
        &changed[1],
        Changed::State {
            scope: Scope::Temp,
            version: 1,
            ..
        }
    ));
    assert!(matches!(&changed[2], Changed::Artifact { artifact, .. } if artifact.version == 1));
}

#[tokio::test(start_paused = true)]
async fn what_tools_write_is_written_once_wherever_a_crash_strikes() {
    let writer = || {
        Agent::from_fn("writer", |cx: RunContext| async move {
            for id in ["1", "2", "3"] {
                cx.tool_unasked(call(id, "note")).await?;
            }
            let notes = cx.artifacts(Scope::Session).load("notes.txt").await?;
            let notes = notes.ok_or(AgentError::Ended)?;
            let passing: Option<u32> = cx.state(Scope::Temp).get("calls").await?;
            let text = notes.text().unwrap_or_default().to_owned();
            let version = notes.info.version;
            Ok(Outcome::answer(format!("{text} {version} {passing:?}")))
        })
        .tool(Notebook)
    };
    let scenario = Scenario::new("writer", move |builder, _| {
        builder.team(writer().into_team().unwrap())
    })
    .turn("go")
    .turn("again");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[1].contains("123456 6 Some(6)"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_the_calls_of_one_step_change_is_all_made_whichever_ends_first() {
    /// Changes one thing each time, after a while.
    struct Changer;

    impl Tool for Changer {
        fn definition(&self) -> ToolDefinition {
            ToolDefinition::new("change", "changes one thing").effect(Effect::Idempotent)
        }

        async fn call(&self, what: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
            let number = what.value().ok().and_then(|what| what["n"].as_u64());
            let number = number.unwrap_or_default();
            pause(100 - 10 * number).await;
            let output = ToolOutput::text(format!("changed {number}"));
            match number {
                // One value twice: the last one counts.
                0 => output
                    .set(Scope::Session, "a", &0)?
                    .set(Scope::Session, "a", &1),
                1 => output
                    .set(Scope::App, "b", &2)?
                    .set(Scope::Session, "gone", &3),
                2 => Ok(output.delete(Scope::Session, "old")),
                3 => Ok(output.save(Scope::Session, "page", "text/plain", b"four".to_vec())),
                _ => output.set(Scope::Temp, "c", &5),
            }
        }
    }

    let changer = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            cx.state(Scope::Session).set("old", &0).await?;
            let calls = (0..5).map(|n| {
                let mut one = call(&n.to_string(), "change");
                one.arguments = Arguments::from(json!({ "n": n }));
                one
            });
            let results = cx.tools(calls).await?;
            let texts: Vec<String> = results.into_iter().map(|result| result.text).collect();
            let session = cx.state(Scope::Session);
            let kept = [
                session.get::<u32>("a").await?,
                cx.state(Scope::App).get("b").await?,
                session.get("gone").await?,
                session.get("old").await?,
                cx.state(Scope::Temp).get("c").await?,
            ];
            let page = cx.artifacts(Scope::Session).load("page").await?;
            let page = page.map(|page| page.text().map(str::to_owned));
            Ok(Outcome::answer(format!("{texts:?} {kept:?} {page:?}")))
        })
        .tool(Changer)
    };
    let scenario = Scenario::new("a", move |builder, _| {
        builder.team(changer().into_team().unwrap())
    });
    let report = crash_everywhere(&scenario.turn("go"), CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    let outcome = &report.outcomes[0];
    assert!(
        outcome.contains("[Some(1), Some(2), Some(3), None, Some(5)]"),
        "{report}"
    );
    assert!(
        outcome.contains("changed 0") && outcome.contains("four"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_refused_fails_the_call_and_changes_nothing() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut named = call("1", "note");
        named.arguments = Arguments::from_text(r#"{"name": " "}"#);
        let result = cx.tool_unasked(named).await?;
        assert_eq!(result.status, ToolStatus::Error);
        let kept: Option<u32> = cx.state(Scope::Session).get("calls").await?;
        Ok(Outcome::answer(format!("{} {kept:?}", result.text)))
    })
    .tool(Notebook);
    let system = stage.start(agent).await;
    let run = system.session("a", "s").send("go").await.unwrap();
    assert_eq!(
        text(&run).await,
        "Nothing was saved: an artifact needs a name. None"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing_whatever_a_tool_says_of_itself() {
    struct Sly;

    impl Tool for Sly {
        fn definition(&self) -> ToolDefinition {
            ToolDefinition::new("note", "says that it only reads").effect(Effect::Read)
        }

        async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
            ToolOutput::text("noted").set(Scope::Session, "calls", &1)
        }
    }

    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        if cx.input().content() == "wait" {
            cx.on_cancel(call("u", "note"));
            cx.sleep(Duration::from_secs(900)).await?;
        }
        let said = cx.tool_unasked(call("1", "note")).await?.text;
        let kept: Option<u32> = cx.state(Scope::Session).get("calls").await?;
        Ok(Outcome::answer(format!("{said} {kept:?}")))
    });
    let system = stage.start(agent.tool(Sly)).await;
    let session = system.session("a", "s");
    let run = session.send(Turn::text("go").dry_run()).await.unwrap();
    assert_eq!(text(&run).await, "noted None");
    let run = session.send(Turn::text("wait").dry_run()).await.unwrap();
    pause(1_000).await;
    assert!(run.cancel("enough").await.unwrap());
    run.outcome().await.unwrap();
    let run = session.send(Turn::text("go").dry_run()).await.unwrap();
    assert_eq!(text(&run).await, "noted None", "its undo step changed it");
    let run = session.send("go").await.unwrap();
    assert_eq!(text(&run).await, "noted Some(1)");
}

#[tokio::test(start_paused = true)]
async fn a_value_of_another_type_parks_the_run_until_code_comes_that_knows_it() {
    let mut stage = Stage::new();
    let agent = |as_text: bool| {
        Agent::from_fn("a", move |cx: RunContext| async move {
            let state = cx.state(Scope::Session);
            state.set("n", &7).await?;
            let found = match as_text {
                true => state.get::<String>("n").await?.unwrap_or_default(),
                false => state.get::<u32>("n").await?.unwrap_or_default().to_string(),
            };
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer(found))
        })
    };
    let system = stage.start(agent(false)).await;
    let run = crate::stage::ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent(true)).await;
    pause(120_000).await;
    let status = stage.rows().await.remove(0).status;
    assert_eq!(status, ghostlight_actors::contract::RunStatus::Parked);
    stage.crash(&system).await;
    let system = stage.start(agent(false)).await;
    let run = system.run(run.id());
    run.retry().await.unwrap();
    assert_eq!(text(&run).await, "7");
}
