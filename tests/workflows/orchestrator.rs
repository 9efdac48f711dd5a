//! The orchestrator: plans are done in their order, within their caps, and survive what fails.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight::{
    tools::tool_fn,
    workflows::{Coordinator, FanOut, Orchestrator, PlanFormat},
};
use ghostlight_actors::{
    actor::System,
    contract::{ToolError, ToolHandle},
    run::{Agent, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Budget, Effect, ErrorKind, Event, OperationError, Outcome, StopReason,
        ToolDefinition,
    },
};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What the orchestrator said, and the names and data of what it told meanwhile.
async fn orchestrated(
    orchestrator: Orchestrator,
    replies: Vec<String>,
    agents: Vec<Agent>,
) -> (Result<Outcome, String>, Vec<(String, Value)>, ScriptedModel) {
    let desk = agents
        .into_iter()
        .fold(Agent::new("desk"), Agent::agent)
        .behavior(orchestrator);
    let model = ScriptedModel::turns(replies);
    let system = System::builder(InMemoryStore::new())
        .model("default", model.clone())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.map_err(|error| error.to_string());
    let records = run.events().so_far().await.unwrap();
    let told = records.into_iter().filter_map(|record| match record.event {
        Event::Custom { name, data } => Some((name, data)),
        _ => None,
    });
    let told = told.collect();
    system.stop().await.unwrap();
    (outcome, told, model)
}

fn settings(settings: Value) -> Orchestrator {
    serde_json::from_value(settings).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_highest_bounds_may_be_set() {
    let plan = json!({"tasks": [{"id": "a", "processor": "f", "description": "d"}]});
    let highest = settings(json!({ "max_repairs": u32::MAX }));
    let highest = highest.function("f", |_, _, _| async { Ok("done".to_owned()) });
    let (outcome, ..) = orchestrated(highest, vec![plan.to_string()], Vec::new()).await;
    assert!(outcome.unwrap().text().contains("done"));

    let settings = json!({ "max_rounds": u32::MAX });
    let highest: Coordinator = serde_json::from_value(settings).unwrap();
    let idle = Agent::from_fn("a", |_: RunContext| async { Ok(Outcome::answer("idle")) });
    let desk = Agent::new("desk").agent(idle).behavior(highest);
    let handed = json!({ "tasks": [], "answer": "done" }).to_string();
    let system = System::builder(InMemoryStore::new())
        .model("default", ScriptedModel::turns([handed]))
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_plan_with_a_fault_is_given_back_with_what_is_wrong() {
    let plan = |tasks: Value| json!({ "tasks": tasks }).to_string();
    let task = |id: &str, needs: &[&str]| json!({"id": id, "processor": "f", "description": "d", "dependencies": needs});
    let replies = vec![
        plan(json!([task("a", &["b"]), task("b", &["a"])])),
        plan(json!([task("a", &["c"])])),
        plan(json!([task("a", &[]), task("a", &[])])),
        plan(json!([task("a", &[])])),
    ];
    let orchestrator = Orchestrator::default().function("f", |_, task, _| async move {
        Ok(format!("did {}", task.id))
    });
    let (outcome, told, model) = orchestrated(orchestrator, replies, Vec::new()).await;
    let answer: Value = serde_json::from_str(outcome.unwrap().text()).unwrap();
    assert_eq!(answer["completed"]["a"], "did a");
    let rejected: Vec<String> = told
        .iter()
        .filter(|(name, _)| name == "plan_rejected")
        .map(|(_, data)| data["reason"].as_str().unwrap().to_owned())
        .collect();
    assert!(rejected[0].contains("a -> b -> a"), "{rejected:?}");
    assert!(
        rejected[1].contains("\"c\", which is not in the plan"),
        "{rejected:?}"
    );
    assert!(
        rejected[2].contains("two tasks have the id \"a\""),
        "{rejected:?}"
    );
    assert_eq!(model.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn tasks_begin_by_their_priority_and_of_equal_priority_in_the_order_of_the_plan() {
    let task = |id: &str, priority: i64| json!({"id": id, "processor": "f", "description": "d", "priority": priority});
    let tasks = [
        task("z", 1),
        task("a", 1),
        task("m", 0),
        task("b", 1),
        task("y", 0),
        task("c", -1),
        task("k", 2),
    ];
    let plan = json!({ "tasks": tasks }).to_string();
    for (cap, phases) in [(1, false), (1, true), (2, false), (3, true), (9, false)] {
        let orchestrator = settings(json!({"max_at_once": cap, "phases": phases}));
        let orchestrator = orchestrator.function("f", |cx: RunContext, task, _| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(task.id)
        });
        let (outcome, told, _) = orchestrated(orchestrator, vec![plan.clone()], Vec::new()).await;
        outcome.unwrap();
        let begun: Vec<&str> = told
            .iter()
            .filter(|(name, data)| name == "task" && data.get("begun").is_some())
            .map(|(_, data)| data["id"].as_str().unwrap())
            .collect();
        // One that has to wait for room takes nobody's place who comes first.
        assert_eq!(begun, ["c", "m", "y", "z", "a", "b", "k"], "{cap} at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_in_xml_reaches_its_processors_with_what_they_need() {
    let xml = "I think:\n```xml\n<tasks>\n\
        <task id=\"1\" type=\"t\" processor=\"f\"><description>R&D</description></task>\n\
        <task id=\"2\" type=\"t\" processor=\"writer\"><description><![CDATA[a < b]]></description>\
        <dependencies><dep>1</dep></dependencies></task>\n</tasks>\n```";
    let mut orchestrator = settings(json!({"format": "xml", "aggregator": "last"}));
    assert_eq!(orchestrator.format, PlanFormat::Xml);
    orchestrator = orchestrator.function("f", |_, task, _| async move { Ok(task.description) });
    let echo = |name: &'static str| {
        Agent::from_fn(name, |cx: RunContext| async move {
            Ok(Outcome::answer(cx.input().content()))
        })
    };
    let agents = vec![echo("writer"), echo("last")];
    let (outcome, told, _) = orchestrated(orchestrator, vec![xml.to_owned()], agents).await;
    let outcome = outcome.unwrap();
    // What the model thought goes to the aggregator, and is told with the plan.
    let analysis = "The analysis:\n\nI think:\n\nThe results:";
    assert!(outcome.text().contains(analysis), "{}", outcome.text());
    let plan = told.iter().find(|(name, _)| name == "plan").unwrap();
    assert_eq!(plan.1["analysis"], "I think:");
    assert!(outcome.text().contains("a < b"), "{}", outcome.text());
    assert!(
        outcome.text().contains("### task 1\nR&D"),
        "{}",
        outcome.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_is_tried_again_after_growing_pauses_and_has_a_time_limit() {
    let plan = json!({"tasks": [
        {"id": "flaky", "processor": "flaky", "description": "d"},
        {"id": "slow", "processor": "slow", "description": "d"},
    ]});
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let orchestrator =
        settings(json!({"max_attempts": 3, "task_timeout_s": 1}))
            .function("flaky", move |cx, _, _| {
                let tries = counted.clone();
                async move {
                    // The function is run again in replay, so the count is kept by an operation.
                    let attempt = cx
                    .step("try", ghostlight::vocabulary::Effect::Idempotent, async move {
                        Ok::<_, AgentError>(tries.fetch_add(1, Ordering::Relaxed))
                    })
                    .await?;
                    match attempt {
                        2 => Ok("third time".to_owned()),
                        _ => Err(AgentError::failed("not yet")),
                    }
                }
            })
            .function("slow", |cx: RunContext, _, _| async move {
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(String::new())
            });
    let (outcome, _, _) = orchestrated(orchestrator, vec![plan.to_string()], Vec::new()).await;
    let answer: Value = serde_json::from_str(outcome.unwrap().text()).unwrap();
    assert_eq!(answer["completed"]["flaky"], "third time");
    let reason = answer["failed"]["slow"].as_str().unwrap();
    assert!(reason.contains("not done within 1s"), "{reason}");
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

/// A tool called `send`, and how often it was called. It fails, or never ends.
fn send(effect: Effect, ends: bool) -> (ToolHandle, Arc<AtomicUsize>) {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Send {
        #[serde(rename = "text")]
        _text: String,
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let definition = ToolDefinition::new("send", "sends").effect(effect);
    let tool = tool_fn(definition, move |_: Send| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if !ends {
                std::future::pending::<()>().await;
            }
            Err::<String, _>(ToolError::new("no line"))
        }
    });
    (tool, calls)
}

async fn sent(desk: Agent, turn: Turn) -> Result<Outcome, String> {
    let plan = json!({"tasks": [{"id": "a", "processor": "send", "description": "hello"}]});
    let system = System::builder(InMemoryStore::new())
        .model("default", ScriptedModel::turns([plan.to_string()]))
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send(turn).await.unwrap();
    let outcome = run.outcome().await.map_err(|error| error.to_string());
    system.stop().await.unwrap();
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_happened_is_not_tried_again() {
    let patient = || settings(json!({"max_attempts": 3, "task_timeout_s": 1}));
    for (effect, ends, expected) in [
        (Effect::Once, false, 1),
        (Effect::Read, false, 3),
        (Effect::Once, true, 3),
    ] {
        let (tool, calls) = send(effect, ends);
        let desk = Agent::new("desk").tool(tool).behavior(patient());
        let outcome = sent(desk, Turn::text("go")).await.unwrap();
        assert!(
            outcome.text().contains("\"failed\":{\"a\""),
            "{}",
            outcome.text()
        );
        let place = format!("{effect:?}, ends: {ends}");
        assert_eq!(calls.load(Ordering::Relaxed), expected, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_refused_is_not_asked_for_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let orchestrator = settings(json!({"max_attempts": 3})).function("send", move |_, _, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Err(OperationError::new(ErrorKind::Denied, "a person said no").into()) }
    });
    let outcome = sent(Agent::new("desk").behavior(orchestrator), Turn::text("go")).await;
    let outcome = outcome.unwrap();
    assert!(
        outcome.text().contains("a person said no"),
        "{}",
        outcome.text()
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_doubt_fails_the_run_where_its_task_says_so() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let orchestrator = settings(json!({"max_attempts": 3})).function("send", move |_, _, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Err(OperationError::new(ErrorKind::InDoubt, "it is not known").into()) }
    });
    let outcome = sent(Agent::new("desk").behavior(orchestrator), Turn::text("go")).await;
    let error = outcome.unwrap_err();
    assert!(error.contains("it is not known"), "{error}");
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_is_not_tried_again_and_ends_the_work_with_what_there_is() {
    let (tool, calls) = send(Effect::Read, true);
    let orchestrator = settings(json!({"max_attempts": 3}));
    let desk = Agent::new("desk").tool(tool).behavior(orchestrator);
    let budget = Budget {
        tool_calls: Some(1),
        ..Budget::default()
    };
    let outcome = sent(desk, Turn::text("go").budget(budget)).await.unwrap();
    let reason = outcome.stop_reason();
    assert!(
        matches!(reason, Some(StopReason::BudgetExhausted(_))),
        "{outcome:?}"
    );
    assert!(
        outcome.text().contains("\"failed\":{\"a\""),
        "{}",
        outcome.text()
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Tasks by their places, each with what it needs of those before it, its priority, and whether
/// it fails.
type Tasks = Vec<(BTreeSet<usize>, i64, bool)>;

fn tasks() -> impl Strategy<Value = Tasks> {
    let needs = prop::collection::btree_set(0usize..8, 0..3);
    let tasks = prop::collection::vec((needs, -2i64..3, prop::bool::weighted(0.2)), 1..8);
    tasks.prop_map(|mut tasks| {
        for (place, (needs, _, _)) in tasks.iter_mut().enumerate() {
            needs.retain(|need| *need < place);
        }
        tasks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_plan_is_done_in_its_order_within_the_cap_and_only_what_needs_a_failed_task_is_skipped(
        tasks in tasks(), cap in 1u32..4, phases: bool,
    ) {
        let planned: Vec<Value> = tasks
            .iter()
            .enumerate()
            .map(|(place, (needs, priority, fails))| json!({
                "id": place.to_string(),
                "processor": if *fails { "fails" } else { "works" },
                "description": "d",
                "priority": priority,
                "dependencies": needs.iter().map(usize::to_string).collect::<Vec<_>>(),
            }))
            .collect();
        let log: Arc<Mutex<Vec<(usize, bool)>>> = Arc::default();
        let work = |fails: bool| {
            let log = log.clone();
            move |cx: RunContext, task: ghostlight::workflows::PlannedTask, inputs: std::collections::BTreeMap<String, String>| {
                let log = log.clone();
                async move {
                    let place: usize = task.id.parse().unwrap();
                    assert_eq!(inputs.keys().cloned().collect::<Vec<_>>(), task.dependencies);
                    log.lock().push((place, true));
                    cx.sleep(Duration::from_millis(10 + 7 * place as u64)).await?;
                    log.lock().push((place, false));
                    if fails { Err(AgentError::failed("broken")) } else { Ok(task.id) }
                }
            }
        };
        let orchestrator = settings(json!({"max_at_once": cap, "phases": phases}))
            .function("fails", work(true))
            .function("works", work(false));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let plan = json!({ "tasks": planned }).to_string();
        let (outcome, _, _) = runtime.block_on(orchestrated(orchestrator, vec![plan], Vec::new()));
        let answer: Value = serde_json::from_str(outcome.unwrap().text()).unwrap();

        // The plain interpreter: a task is done when nothing that it needs was not done.
        let mut done: Vec<bool> = Vec::new();
        for (needs, _, fails) in &tasks {
            done.push(needs.iter().all(|need| done[*need]) && !fails);
        }
        for (place, (needs, _, fails)) in tasks.iter().enumerate() {
            let id = place.to_string();
            let may_begin = needs.iter().all(|need| done[*need]);
            prop_assert_eq!(answer["completed"].get(&id).is_some(), done[place]);
            prop_assert_eq!(answer["failed"].get(&id).is_some(), may_begin && *fails);
            prop_assert_eq!(answer["skipped"].get(&id).is_some(), !may_begin);
        }
        // A sleep suspends a run, whose function is then run again: what counts is the first time.
        let mut seen = BTreeSet::new();
        let first: Vec<(usize, bool)> =
            log.lock().iter().copied().filter(|event| seen.insert(*event)).collect();
        let mut at_work = BTreeSet::new();
        let mut ended = BTreeSet::new();
        for (place, begins) in first {
            if begins {
                at_work.insert(place);
                prop_assert!(at_work.len() <= cap as usize);
                prop_assert!(tasks[place].0.is_subset(&ended));
            } else {
                at_work.remove(&place);
                ended.insert(place);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_analysis_stands_in_the_answer_and_a_program_reads_plans_of_its_own() {
    let task = json!({"id": "1", "processor": "f", "description": "dig"});
    let plan = json!({ "analysis": " It is earth. ", "tasks": [task] }).to_string();
    let orchestrator = Orchestrator::default();
    let orchestrator = orchestrator.function("f", |_, task, _| async move { Ok(task.description) });
    let (outcome, ..) = orchestrated(orchestrator.clone(), vec![plan], Vec::new()).await;
    let answer: Value = serde_json::from_str(outcome.unwrap().text()).unwrap();
    assert_eq!(answer["analysis"], "It is earth.");
    assert_eq!(answer["completed"]["1"], "dig");

    let own = orchestrator.parse_by(|text| {
        let lines = text.lines().enumerate();
        let tasks = lines.map(|(number, line)| {
            let (processor, description) = line.split_once('=').ok_or("no `=`")?;
            let task = json!({
                "id": number.to_string(), "processor": processor, "description": description,
            });
            serde_json::from_value(task).map_err(|error| error.to_string())
        });
        tasks.collect()
    });
    let replies = vec!["dig it".to_owned(), "f=dig\nf=fill".to_owned()];
    let (outcome, told, _) = orchestrated(own, replies, Vec::new()).await;
    let answer: Value = serde_json::from_str(outcome.unwrap().text()).unwrap();
    assert_eq!(answer["completed"], json!({"0": "dig", "1": "fill"}));
    let rejected = told.iter().find(|(name, _)| name == "plan_rejected");
    assert_eq!(rejected.unwrap().1["reason"], "no `=`");
}

#[tokio::test(start_paused = true)]
async fn a_program_reads_the_parts_of_a_fan_out_and_puts_them_together() {
    let worker = |name: &'static str| {
        Agent::from_fn(name, move |cx: RunContext| async move {
            Ok(Outcome::answer(format!(
                "{name} did {}",
                cx.input().content()
            )))
        })
    };
    let planner = Agent::from_fn("planner", |_: RunContext| async {
        Ok(Outcome::answer("dig > b; fill"))
    });
    let fan_out = FanOut::default()
        .parse_by(|plan, workers| {
            assert_eq!(workers, ["a", "b"]);
            let parts = plan.split(';').map(|part| match part.split_once('>') {
                Some((task, worker)) => (Some(worker.trim().to_owned()), task.trim().to_owned()),
                None => (None, part.trim().to_owned()),
            });
            parts.collect()
        })
        .aggregate_by(|_, task, said| async move {
            let said: Vec<String> = said.into_iter().map(|said| said.text).collect();
            Ok(format!("{task}: {}", said.join(" + ")))
        });
    let desk = Agent::new("desk").behavior(fan_out);
    let desk = desk.agent(planner).agent(worker("a")).agent(worker("b"));
    let system = System::builder(InMemoryStore::new())
        .model("default", ScriptedModel::hanging())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), "go: b did dig + a did fill");
    system.stop().await.unwrap();
}
