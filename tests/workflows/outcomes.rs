//! What becomes of the members of a workflow when its outcome is clear before they end, and what
//! they and their tools are told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::{tools::tool_fn, workflows};
use ghostlight_actors::{
    actor::{Run, System},
    contract::{DynStore, RunFilter, RunStatus, ToolHandle},
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, Budget, Effect, Outcome, Resource, StopReason, ToolDefinition},
};
use serde_json::{Value, json};

async fn begun(store: &InMemoryStore, desk: Agent, turn: Turn) -> (System, Run) {
    let system = System::builder(store.clone())
        .registry(workflows::register(Registry::new()))
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send(turn).await.unwrap();
    (system, run)
}

fn desk(behavior: &str, settings: Value) -> Agent {
    Agent::new("desk").behavior(BehaviorSpec::new(behavior).settings(settings))
}

/// Three members side by side: one answers after a second, one fails after a minute, and one waits
/// for ever. How the run ended, after how many seconds, and how each member's run stands then.
async fn side_by_side(
    on_failure: Value,
) -> (Result<Value, String>, u64, BTreeMap<String, RunStatus>) {
    let member = |name: &'static str| {
        Agent::from_fn(name, move |cx: RunContext| async move {
            match name {
                "quick" => cx.sleep(Duration::from_secs(1)).await?,
                "broken" => {
                    cx.sleep(Duration::from_secs(60)).await?;
                    return Err(AgentError::failed("it broke"));
                }
                _ => drop(cx.ask("When may I end?").await?),
            }
            Ok(Outcome::answer(name))
        })
    };
    let store = InMemoryStore::new();
    let desk = desk("parallel", json!({ "on_failure": on_failure }))
        .agent(member("quick"))
        .agent(member("broken"))
        .agent(member("hanging"));
    let (system, run) = begun(&store, desk, Turn::text("go")).await;
    let began = tokio::time::Instant::now();
    let hour = Duration::from_secs(3600);
    let ended = tokio::time::timeout(hour, run.outcome()).await;
    let ended = ended.expect("it waits for the member that hangs");
    let took = began.elapsed().as_secs();
    let rows = store.runs(RunFilter::default()).await.unwrap();
    let below = rows.into_iter().filter(|row| row.parent.is_some());
    let members = below.map(|row| (row.agent, row.status)).collect();
    system.stop().await.unwrap();
    let answer = |outcome: Outcome| serde_json::from_str(outcome.text()).unwrap();
    let ended = ended.map(answer).map_err(|error| error.to_string());
    (ended, took, members)
}

fn rows(quick: RunStatus, broken: RunStatus, hanging: RunStatus) -> BTreeMap<String, RunStatus> {
    let rows = [("quick", quick), ("broken", broken), ("hanging", hanging)];
    rows.map(|(name, status)| (name.to_owned(), status)).into()
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_parallel_cancels_the_members_that_still_work() {
    use RunStatus::{Answered, Cancelled, Failed};
    let (ended, took, members) = side_by_side(json!("fail_fast")).await;
    let error = ended.unwrap_err();
    assert!(error.contains("it broke"), "{error}");
    assert_eq!(took, 60);
    assert_eq!(members, rows(Answered, Failed, Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_reached_cancels_the_members_that_still_work() {
    use RunStatus::{Answered, Cancelled};
    let (ended, took, members) = side_by_side(json!({"quorum": 1})).await;
    assert_eq!(ended.unwrap(), json!({"quick": "quick"}));
    assert_eq!(took, 1);
    assert_eq!(members, rows(Answered, Cancelled, Cancelled));
}

#[tokio::test(start_paused = true)]
async fn role_play_tells_who_leads_by_which_words_it_ends() {
    for marker in [None, Some("LESSON OVER")] {
        let marker_or_default = marker.unwrap_or("<TASK_DONE>");
        let heard: Arc<parking_lot::Mutex<Vec<(&str, String)>>> = Arc::default();
        let member = |name: &'static str| {
            let heard = heard.clone();
            Agent::from_fn(name, move |cx: RunContext| {
                let heard = heard.clone();
                async move {
                    let input = cx.input().content();
                    let first = heard.lock().is_empty();
                    heard.lock().push((name, input));
                    let leads = name == "teacher" && !first;
                    let said = if leads { marker_or_default } else { "go on" };
                    Ok(Outcome::answer(said))
                }
            })
        };
        let settings = marker.map_or(json!({}), |done| json!({ "done": done }));
        let desk = desk("role_play", settings)
            .agent(member("teacher"))
            .agent(member("student"));
        let store = InMemoryStore::new();
        let (system, run) = begun(&store, desk, Turn::text("recursion")).await;
        assert_eq!(run.outcome().await.unwrap(), Outcome::answer("go on"));
        system.stop().await.unwrap();
        let heard = std::mem::take(&mut *heard.lock());
        let who: Vec<&str> = heard.iter().map(|(name, _)| *name).collect();
        assert_eq!(who, ["teacher", "student", "teacher"]);
        for (name, input) in heard {
            let told = input.contains(marker_or_default);
            assert_eq!(told, name == "teacher", "{name} heard: {input}");
            assert!(input.contains("recursion"), "{name} heard: {input}");
        }
    }
}

/// A tool that counts its calls, and answers with what it got.
fn counted(name: &str, effect: Effect, calls: &Arc<AtomicU32>) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Given {
        text: String,
    }
    let (calls, shown) = (calls.clone(), name.to_owned());
    tool_fn(
        ToolDefinition::new(name, "works").effect(effect),
        move |given: Given| {
            calls.fetch_add(1, Ordering::SeqCst);
            let answer = format!("{shown}({})", given.text);
            async move { Ok(answer) }
        },
    )
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_chain_of_tools_reads_and_tells_what_it_would_do() {
    let (reads, writes): (Arc<AtomicU32>, Arc<AtomicU32>) = Default::default();
    let desk = desk(
        "tool_chain",
        json!({"steps": [
            {"tool": "look", "arguments": {"text": "{task}"}},
            {"tool": "store", "arguments": {"text": "{previous}"}},
            {"tool": "send", "arguments": {"text": "{look}"}},
        ]}),
    )
    .tool(counted("look", Effect::Read, &reads))
    .tool(counted("store", Effect::Idempotent, &writes))
    .tool(counted("send", Effect::Once, &writes));
    let store = InMemoryStore::new();
    let dry = Turn::text("go").dry_run();
    let (system, run) = begun(&store, desk.clone(), dry).await;
    let outcome = run.outcome().await.unwrap();
    let text = outcome.text();
    assert!(text.starts_with("Dry run: send was not called"), "{text}");
    assert!(text.contains(r#"{"text":"look(go)"}"#), "{text}");
    let count = |calls: &AtomicU32| calls.load(Ordering::SeqCst);
    assert_eq!((count(&reads), count(&writes)), (1, 0));
    system.stop().await.unwrap();

    let (system, run) = begun(&InMemoryStore::new(), desk, Turn::text("go")).await;
    assert_eq!(run.outcome().await.unwrap().text(), "send(look(go))");
    assert_eq!((count(&reads), count(&writes)), (2, 2));
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_says_nothing_is_asked_again() {
    let worker = Agent::from_fn(
        "worker",
        |_: RunContext| async move { Ok(Outcome::answer("w")) },
    );
    for empty in ["{}", "{\"tasks\": []}", "{\"answer\": \" \"}"] {
        let model = ScriptedModel::turns([empty, "{\"answer\": \"42\"}"]);
        let system = System::builder(InMemoryStore::new())
            .registry(workflows::register(Registry::new()))
            .model("default", model.clone())
            .team(
                desk("coordinator", json!({}))
                    .agent(worker.clone())
                    .into_team()
                    .unwrap(),
            )
            .start()
            .await
            .unwrap();
        let run = system.session("desk", "s").send("go").await.unwrap();
        assert_eq!(run.outcome().await.unwrap().text(), "42", "{empty}");
        assert_eq!(model.calls(), 2);
        system.stop().await.unwrap();
    }
}

/// One call is in the budget, and two are to be made.
#[tokio::test(start_paused = true)]
async fn a_used_up_budget_stops_tools_in_a_row_with_what_there_is() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Look {
        #[serde(rename = "place")]
        _place: String,
    }
    let look = |name: &'static str| {
        let definition = ToolDefinition::new(name, "looks").effect(Effect::Read);
        tool_fn(definition, move |_: Look| async move {
            Ok(format!("{name} looked"))
        })
    };
    let chain = json!({"on_failure": "go_on"});
    let place = json!({"place": "here"});
    let nodes = json!({
        "entry": "a",
        "nodes": {
            "a": {"tool": "a", "arguments": place, "then": "b"},
            "b": {"tool": "b", "arguments": place, "then": "end"},
        },
    });
    for (behavior, settings) in [("tool_chain", chain), ("graph", nodes)] {
        let desk = desk(behavior, settings).tool(look("a")).tool(look("b"));
        let budget = Budget {
            tool_calls: Some(1),
            ..Budget::default()
        };
        let turn = Turn::text("go").budget(budget);
        let (system, run) = begun(&InMemoryStore::new(), desk, turn).await;
        let outcome = run.outcome().await.unwrap();
        let reason = StopReason::BudgetExhausted(Resource::ToolCalls);
        assert_eq!(outcome.stop_reason(), Some(&reason), "{behavior}");
        assert_eq!(outcome.text(), "a looked", "{behavior}");
        system.stop().await.unwrap();
    }
}
