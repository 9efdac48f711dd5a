//! Agents that are made by agents.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::{instructions::OutputKey, workflows};
use ghostlight_actors::{
    actor::{Run, System, SystemBuilder},
    contract::{Deletion as _, RunFilter},
    definition::{AgentSpec, ApprovalRule, BehaviorSpec, CreateAgentSpec, DefinitionError},
    run::{Agent, BeforeTool, Policy, PolicyContext, Registry, RunContext, Task, replay},
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Budget, Effect, ErrorKind, Event, EventRecord, Message, ModelRequest,
        ModelResponse, Outcome, Part, Scope, ToolCall, ToolDefinition, ToolStatus,
    },
};
use serde_json::{Value, json};

use crate::patterns::acts;

/// What the model was asked last, and whether it has results already.
pub(crate) fn asked(request: &ModelRequest) -> (String, Vec<(ToolStatus, String)>) {
    let messages: Vec<_> = request.conversation.since(0);
    let parts = messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match part {
        Part::ToolResult(result) => Some((result.status, result.text.clone())),
        _ => None,
    });
    let results = results.collect();
    let first = messages.first().map(|message| message.content());
    (first.unwrap_or_default(), results)
}

/// A model that asks for these calls when it is told this, and then answers with their results.
/// Told something else, it answers with it.
fn model(script: Vec<(&'static str, Vec<Value>)>) -> ScriptedModel {
    ScriptedModel::from_reply_fn(move |request, _| {
        let (task, results) = asked(request);
        let texts: Vec<String> = results.iter().map(|(_, text)| text.clone()).collect();
        let calls = script.iter().find(|(told, _)| *told == task);
        match calls {
            Some((_, calls)) if results.is_empty() => {
                acts(calls.iter().map(|call| ("create_agent", call.clone())))
            }
            Some(_) => texts.join(" | ").into(),
            None => Reply::from(format!("did {task}")),
        }
    })
}

pub(crate) fn boss(create: CreateAgentSpec) -> Agent {
    Agent::new("boss").create_agent(create)
}

pub(crate) fn with(change: impl FnOnce(&mut CreateAgentSpec)) -> CreateAgentSpec {
    let mut create = CreateAgentSpec::default();
    change(&mut create);
    create
}

async fn start(builder: SystemBuilder, agent: Agent) -> System {
    let registry = workflows::register(ghostlight::behaviors::register(Registry::new()));
    let builder = builder.registry(registry);
    let builder = builder.team(agent.into_team().unwrap());
    builder.start().await.unwrap()
}

pub(crate) async fn run(model: ScriptedModel, agent: Agent) -> (System, Run) {
    let store = InMemoryStore::new();
    let system = start(System::builder(store).model("default", model), agent).await;
    let run = system.session("boss", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.stop_reason().is_none(), "{outcome:?}");
    (system, run)
}

pub(crate) async fn text(run: &Run) -> String {
    run.outcome().await.unwrap().text().to_owned()
}

fn delegated(events: &[EventRecord]) -> Vec<String> {
    let begun = events.iter().filter_map(|record| match &record.event {
        Event::Delegated { agent, .. } => Some(agent.clone()),
        _ => None,
    });
    begun.collect()
}

#[tokio::test(start_paused = true)]
async fn a_model_makes_an_agent_and_calls_that_are_alike_are_one() {
    let same = json!({"name": "reader", "goal": "read", "context": "page 3", "tools": []});
    let other = json!({"name": "writer", "goal": "write", "tools": []});
    let script = vec![("go", vec![same.clone(), other, same])];
    let (_system, run) = run(model(script), boss(CreateAgentSpec::default())).await;
    let read = "did read\n\npage 3";
    assert_eq!(text(&run).await, format!("{read} | did write | {read}"));
    let events = run.events().recorded().so_far().await.unwrap();
    assert_eq!(delegated(&events), ["reader", "writer"]);
}

#[tokio::test(start_paused = true)]
async fn tools_number_and_names_are_those_that_are_allowed() {
    let make = |name: &str, tools: Value| json!({"name": name, "goal": "x", "tools": tools});
    let calls = vec![
        make("a", json!(["danger"])),
        make("boss", json!([])),
        make("no name", json!([])),
        make("b", json!(["look"])),
        make("c", json!([])),
    ];
    let look = ghostlight::tools::tool_fn(
        ToolDefinition::new("look", "looks").effect(Effect::Read),
        |_: Value| async move { Ok("seen") },
    );
    let danger = ghostlight::tools::tool_fn(
        ToolDefinition::new("danger", "is kept for the boss"),
        |_: Value| async move { Ok("done") },
    );
    let create = with(|create| {
        create.tools = Some(vec!["look".to_owned()]);
        create.agents = 1;
    });
    let agent = boss(create)
        .tool(danger)
        .registry(Registry::new().tool(look));
    let model = model(vec![("go", calls)]);
    let (_system, run) = run(model.clone(), agent).await;
    let text = text(&run).await;
    let told: Vec<&str> = text.split(" | ").collect();
    assert!(told[0].contains("do not fit the tool"), "{text}");
    assert!(
        told[1].contains("there is an agent \"boss\" already"),
        "{text}"
    );
    assert!(told[2].contains("do not fit the tool"), "{text}");
    assert_eq!(told[3], "did x\n\n[It called none of its tools.]");
    assert!(told[4].contains("may make 1 agents, and has"), "{text}");
    let of_child = model
        .requests()
        .into_iter()
        .find(|request| asked(request).0 == "x")
        .unwrap();
    let offered: Vec<&str> = of_child
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(offered, ["look"]);
}

#[tokio::test(start_paused = true)]
async fn steps_are_done_in_sequence_side_by_side_or_until_one_succeeds() {
    let make = |flow: &str| {
        json!({
            "name": format!("m-{flow}"),
            "goal": flow,
            "tools": [],
            "flow": flow,
            "steps": [{"goal": "one"}, {"goal": "two"}],
        })
    };
    let flows = [make("sequence"), make("parallel"), make("fallback")];
    let model = ScriptedModel::from_reply_fn(move |request, _| {
        let (task, results) = asked(request);
        if task == "go" {
            let texts: Vec<String> = results.iter().map(|(_, text)| text.clone()).collect();
            return match texts.as_slice() {
                [] => acts(flows.iter().map(|call| ("create_agent", call.clone()))),
                texts => texts.join(" | ").into(),
            };
        }
        let flow = task.lines().next().unwrap_or_default();
        let second = request.instructions.contains("Your part of the task: two");
        match (flow, second) {
            ("fallback", false) => Reply::from(""),
            (flow, second) => format!("{flow} {}", if second { 2 } else { 1 }).into(),
        }
    });
    let (_system, run) = run(model, boss(CreateAgentSpec::default())).await;
    let parallel = "{\"m-parallel-1\":\"parallel 1\",\"m-parallel-2\":\"parallel 2\"}";
    assert_eq!(
        text(&run).await,
        format!("sequence 2 | {parallel} | fallback 2")
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_made_makes_others_down_to_the_depth_that_is_allowed() {
    let make = |name: &str, goal: &str| json!({"name": name, "goal": goal, "tools": []});
    let script = vec![
        ("go", vec![make("one", "first")]),
        ("first", vec![make("two", "second")]),
        ("second", vec![make("three", "third")]),
    ];
    let model = model(script);
    let (_system, run) = run(model.clone(), boss(with(|create| create.depth = 2))).await;
    assert!(
        text(&run)
            .await
            .contains("There is no tool \"create_agent\"")
    );
    let events = run.events().recorded().so_far().await.unwrap();
    assert_eq!(delegated(&events), ["one", "two"]);
    let paths: Vec<String> = events.iter().map(|record| record.path.join("/")).collect();
    assert!(paths.contains(&"boss/one/two".to_owned()), "{paths:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_time_is_over_gives_what_it_has() {
    let slow = ghostlight::tools::tool_fn(
        ToolDefinition::new("slow", "takes long").effect(Effect::Read),
        |_: Value| async move {
            tokio::time::sleep(Duration::from_secs(9000)).await;
            Ok("late")
        },
    );
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let (task, results) = asked(request);
        match (task.as_str(), results.first()) {
            ("go", None) => {
                let call = json!({
                    "name": "reader", "goal": "read", "tools": ["slow"], "timeout_seconds": 9,
                });
                acts([("create_agent", call)])
            }
            ("go", Some((_, text))) => text.clone().into(),
            _ => {
                let mut message = Message::assistant("Half of it.");
                let call = ToolCall::new("c", "slow", json!({}));
                message.parts.push(Part::ToolCall(call));
                ModelResponse::new(message).into()
            }
        }
    });
    let agent = boss(CreateAgentSpec::default()).tool(slow);
    let begun = tokio::time::Instant::now();
    let (_system, run) = run(model, agent).await;
    assert_eq!(
        text(&run).await,
        "Stopped before the end: the budget of wall time is used up. So far: Half of it."
    );
    assert!((9..11).contains(&begun.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_for_a_made_agent_as_for_its_maker() {
    let risky = ghostlight::tools::tool_fn(
        ToolDefinition::new("risky", "is dangerous"),
        |_: Value| async move { Ok("done") },
    );
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let (task, results) = asked(request);
        match (task.as_str(), results.first()) {
            (_, Some((status, _))) => format!("{status:?}").into(),
            ("go", None) => {
                let call = json!({"name": "hand", "goal": "do it", "tools": ["risky"]});
                acts([("create_agent", call)])
            }
            _ => acts([("risky", json!({}))]),
        }
    });
    let agent = boss(CreateAgentSpec::default())
        .tool(risky)
        .approval("risky", ApprovalRule::required());
    let store = InMemoryStore::new();
    let system = start(System::builder(store).model("default", model), agent).await;
    let run = system.session("boss", "s").send("go").await.unwrap();
    let questions = loop {
        let questions = run.questions().await.unwrap();
        if !questions.is_empty() {
            break questions;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(questions.len(), 1);
    run.cancel("enough").await.unwrap();
    system.stop().await.unwrap();
}

/// Lets nobody call the tool.
struct Forbids;

impl Policy for Forbids {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.name.as_str() {
            "risky" => BeforeTool::blocked(call, "forbidden"),
            _ => BeforeTool::Go,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_watches_over_a_maker_watches_over_what_it_makes() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let risky = ghostlight::tools::tool_fn(
        ToolDefinition::new("risky", "is dangerous"),
        move |_: Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok("done") }
        },
    );
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let (task, results) = asked(request);
        let make = |name: &str, goal: &str| json!({"name": name, "goal": goal, "tools": ["risky"]});
        match (task.as_str(), results.first()) {
            (_, Some((_, text))) => text.clone().into(),
            // One that makes another, and one whose steps are agents.
            ("go", None) => acts([("create_agent", make("one", "make"))]),
            ("make", None) => acts([("create_agent", make("two", "do it"))]),
            _ => acts([("risky", json!({}))]),
        }
    });
    let create = with(|create| create.depth = 2);
    let agent = boss(create).tool(risky).policy("forbids", || Forbids);
    let agent = agent.policy("draft", || OutputKey::new("draft"));
    let (system, run) = run(model, agent).await;
    let said = text(&run).await;
    assert!(said.contains("forbidden"), "{said}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // Where the maker's answer is kept is the maker's business.
    let kept = system.session("boss", "s").state(Scope::Session).await;
    assert_eq!(kept.unwrap(), [("draft".to_owned(), json!(said))]);
    let rows = system.runs(RunFilter::default()).await.unwrap();
    assert_eq!(rows.len(), 3, "two were made");
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_the_background_is_waited_for_when_its_result_is_asked_for() {
    let make = |name: &str, background: bool| json!({"name": name, "goal": format!("{name} it"), "tools": [], "background": background});
    // Two begin to work, the boss goes on at once, and asks for the one that takes longer first.
    let model = ScriptedModel::from_reply_fn(move |request, _| {
        let (task, results) = asked(request);
        let result = |name: &str| ("agent_result", json!({ "name": name }));
        let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
        match (task.as_str(), texts.len()) {
            ("go", 0) => {
                let calls = [make("slow", true), make("quick", true)];
                acts(calls.map(|call| ("create_agent", call)))
            }
            ("go", 2) => acts([("create_agent", make("slow", true)), result("nobody")]),
            ("go", 4) => acts([result("slow"), result("quick")]),
            ("go", 6) => acts([result("slow")]),
            ("go", _) => texts.join(" | ").into(),
            ("slow it", 0) => acts([("pause", json!({}))]),
            (task, _) => format!("did {task}").into(),
        }
    });
    let pause = ghostlight::tools::tool_fn(
        ToolDefinition::new("pause", "takes a while").effect(Effect::Read),
        |_: Value| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok("paused")
        },
    );
    let create = with(|create| {
        create.background = true;
        create.tools = Some(vec!["pause".to_owned()]);
    });
    let agent = boss(create).registry(Registry::new().tool(pause));
    let (_system, run) = run(model, agent).await;
    let said = text(&run).await;
    let told: Vec<&str> = said.split(" | ").collect();
    assert!(
        told[0].contains("\"slow\" is at work. Ask for its result"),
        "{said}"
    );
    assert!(told[1].contains("\"quick\" is at work"), "{said}");
    assert!(told[2].contains("\"slow\" is at work already"), "{said}");
    assert!(
        told[3].contains("At work, or not asked for: quick, slow"),
        "{said}"
    );
    assert_eq!(told[4..6], ["did slow it", "did quick it"]);
    assert!(told[6].contains("not asked for: none"), "{said}");
    let events = run.events().recorded().so_far().await.unwrap();
    assert_eq!(delegated(&events), ["slow", "quick"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_the_background_is_made_only_where_it_may_be() {
    let call = json!({"name": "a", "goal": "x", "tools": [], "background": true});
    let (_system, run) = run(model(vec![("go", vec![call])]), boss(with(|_| {}))).await;
    let said = text(&run).await;
    assert!(said.contains("do not fit the tool"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_ends_with_its_maker() {
    let model = ScriptedModel::from_reply_fn(move |request, _| {
        let (task, results) = asked(request);
        match (task.as_str(), results.len()) {
            ("go", 0) => {
                let call = json!({"name": "a", "goal": "x", "tools": [], "background": true});
                acts([("create_agent", call)])
            }
            ("go", _) => "never mind".into(),
            _ => Reply::Hang,
        }
    });
    let (system, run) = run(model, boss(with(|create| create.background = true))).await;
    assert_eq!(text(&run).await, "never mind");
    let rows = system.runs(RunFilter::default()).await.unwrap();
    let child = rows.iter().find(|row| row.parent.is_some()).unwrap();
    let outcome = system.run(child.run).outcome().await.unwrap();
    assert!(outcome.stop_reason().is_some(), "{outcome:?}");
}

/// Agents are made that call a tool: at once, or when they get their task again.
fn making(name: &'static str, create: CreateAgentSpec) -> Scenario {
    Scenario::new("boss", move |builder, log| {
        let guesses = create.retries > 0;
        let put = ToolDefinition::new("put", "is logged").effect(Effect::Once);
        let make = |name: &str| json!({"name": name, "goal": name, "tools": ["put"]});
        let calls = [make("one"), make("two"), make("one")];
        let model = ScriptedModel::from_reply_fn(move |request, _| {
            let (task, results) = asked(request);
            match (task.as_str(), results.as_slice()) {
                ("go", []) => acts(calls.iter().map(|call| ("create_agent", call.clone()))),
                (task, []) if guesses && !task.contains("Use them") => "a guess".into(),
                (_, []) => acts([("put", json!({}))]),
                (_, results) => {
                    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
                    texts.join("+").into()
                }
            }
        });
        let agent = boss(create.clone()).tool(log.tool(put, Duration::from_millis(5)));
        let registry = ghostlight::behaviors::register(Registry::new());
        let builder = builder.registry(registry).model("default", model);
        builder.team(agent.into_team().unwrap())
    })
    .named(name)
    .turn("go")
}

#[tokio::test(start_paused = true)]
async fn what_was_made_survives_a_crash_anywhere() {
    for (name, retries) in [("making", 0), ("making, again", 1)] {
        let scenario = making(name, with(|create| create.retries = retries));
        let report = crash_everywhere(&scenario, CrashOptions::default()).await;
        assert!(report.violations.is_empty(), "{report}");
        assert!(report.crashes >= 8, "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_made_is_pinned_and_replay_uses_it() {
    let call = json!({"name": "reader", "goal": "read", "tools": []});
    let store = InMemoryStore::new();
    let model = model(vec![("go", vec![call])]);
    let builder = System::builder(store.clone()).model("default", model);
    let system = start(builder, boss(CreateAgentSpec::default())).await;
    let run = system.session("boss", "s").send("go").await.unwrap();
    assert_eq!(text(&run).await, "did read");
    let handle = store.clone().into();
    let recording = ghostlight_actors::actor::recording(&handle, run.id())
        .await
        .unwrap();
    let registry = ghostlight::behaviors::register(Registry::new());
    let replayed = replay(&recording, &registry, None).unwrap();
    assert_eq!(replayed.runs.len(), 2);
    assert!(
        replayed.runs.iter().all(|run| run.divergence.is_none()),
        "{replayed:?}"
    );
    // Today's team does not have it, and what was made is still what was pinned.
    let team = boss(CreateAgentSpec::default()).into_team().unwrap().spec;
    let today = replay(&recording, &registry, Some(&team)).unwrap();
    assert!(
        today.runs.iter().all(|run| run.divergence.is_none()),
        "{today:?}"
    );
    // No definition is kept that no run needs.
    let dropped = store.drop_blobs().await.unwrap();
    assert_eq!(dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_function_gives_a_task_to_an_agent_that_it_defines() {
    let agent = Agent::from_fn("boss", |cx: RunContext| async move {
        let mut made = AgentSpec::new("made");
        made.instructions = "Be brief.".to_owned();
        let beside = cx.spawn(made.clone(), "beside").await?;
        let done = cx.delegate(made.clone(), Task::from("this")).await?;
        let beside = cx.join(&beside).await?;
        made.tools = vec!["nothing".to_owned()];
        let refused = cx.delegate(made.clone(), "that").await.unwrap_err();
        assert_eq!(refused.kind(), Some(&ErrorKind::Malformed));
        assert!(
            refused.to_string().contains("names the tool \"nothing\""),
            "{refused}"
        );
        made.tools.clear();
        made.behavior = BehaviorSpec::new("unheard_of");
        let refused = cx.delegate(made, "that").await.unwrap_err();
        assert!(refused.to_string().contains("\"unheard_of\""), "{refused}");
        Ok::<_, AgentError>(Outcome::answer(format!("{}, {}", done.text, beside.text)))
    });
    let model = model(Vec::new());
    let (_system, run) = run(model.clone(), agent).await;
    assert_eq!(text(&run).await, "did this, did beside");
    assert!(
        model
            .requests()
            .iter()
            .all(|request| &*request.instructions == "Be brief.")
    );
}

#[test]
fn bounds_of_nothing_are_refused() {
    let team = boss(with(|create| create.agents = 0)).into_team();
    let Err(DefinitionError::Settings { reason, .. }) = team else {
        panic!("{team:?}");
    };
    assert_eq!(reason, "`agents` must be at least 1");
    let bounded = with(|create| {
        create.budget = Budget {
            tokens: Some(9),
            ..Budget::default()
        }
    });
    boss(bounded).into_team().unwrap();
}
