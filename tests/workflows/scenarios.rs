//! The field's conformance scenarios about teams, 11 to 15 and 17, each as it is written there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ghostlight::{tools::tool_fn, workflows, workflows::Orchestrator};
use ghostlight_actors::{
    actor::{Run, System},
    contract::{DynStore, RunFilter},
    definition::{BehaviorSpec, Reach},
    run::{
        Agent, AgentPolicy, GoalEnd, GoalStatus, Policy, PolicyContext, PolicyHandle, Registry,
        RunContext, operations::Scope,
    },
    testing::{InMemoryStore, Reply, ScriptedModel, check_transcript},
    vocabulary::{
        AgentError, Effect, Event, EventRecord, Outcome, RunResult, StopReason, ToolDefinition,
        ToolStatus,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::patterns::acts;

async fn started(store: &InMemoryStore, desk: Agent, model: ScriptedModel) -> System {
    System::builder(store.clone())
        .registry(workflows::register(ghostlight::behaviors::register(
            Registry::new(),
        )))
        .model("default", model)
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

async fn told(run: &Run, wanted: &str) -> Vec<Value> {
    let records = run.events().so_far().await.unwrap();
    let told = records.into_iter().filter_map(|record| match record.event {
        Event::Custom { name, data } if name == wanted => Some(data),
        _ => None,
    });
    told.collect()
}

/// From when to when each task of a diamond was at work, in milliseconds of the run, and the
/// answer.
async fn diamond(broken: Option<&'static str>) -> (BTreeMap<String, (u64, u64)>, Value) {
    let spans: Arc<Mutex<BTreeMap<String, (u64, u64)>>> = Arc::default();
    let noted = spans.clone();
    let settings = json!({"max_at_once": 2, "phases": true});
    let orchestrator: Orchestrator = serde_json::from_value(settings).unwrap();
    let orchestrator = orchestrator.function("work", move |cx: RunContext, task, _| {
        let noted = noted.clone();
        async move {
            let begun = cx.now().await?.0;
            let takes: u64 = task.description.parse().unwrap();
            cx.sleep(Duration::from_millis(takes)).await?;
            // What is recorded is the same when the function is run again.
            let ended = cx.now().await?.0;
            noted.lock().insert(task.id.clone(), (begun, ended));
            match broken {
                Some(broken) if broken == task.id => Err(AgentError::failed("it broke")),
                _ => Ok(task.id),
            }
        }
    });
    let task = |id: &str, takes: u64, needs: &[&str]| json!({"id": id, "processor": "work", "description": takes.to_string(), "dependencies": needs});
    let plan = json!({"tasks": [
        task("top", 40, &[]),
        task("apart", 90, &[]),
        task("left", 30, &["top"]),
        task("right", 70, &["top"]),
        task("extra", 20, &["apart"]),
        task("bottom", 10, &["left", "right"]),
    ]});
    let desk = Agent::new("desk").behavior(orchestrator);
    let model = ScriptedModel::turns([plan.to_string()]);
    let system = started(&InMemoryStore::new(), desk, model).await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    let answer = run.outcome().await.unwrap();
    system.stop().await.unwrap();
    let spans = spans.lock().clone();
    (spans, serde_json::from_str(answer.text()).unwrap())
}

/// Scenario 11 of the conformance list.
#[tokio::test(start_paused = true)]
async fn a_diamond_under_a_cap_of_two_keeps_its_barriers_and_a_failure_skips_only_its_dependants() {
    let (spans, answer) = diamond(None).await;
    assert_eq!(answer["completed"].as_object().unwrap().len(), 6);
    let phases = [
        &["top", "apart"][..],
        &["left", "right", "extra"],
        &["bottom"],
    ];
    for (before, after) in phases.iter().zip(&phases[1..]) {
        let last_end = before.iter().map(|id| spans[*id].1).max().unwrap();
        let first_begin = after.iter().map(|id| spans[*id].0).min().unwrap();
        assert!(
            first_begin >= last_end,
            "{before:?} and {after:?}: {spans:?}"
        );
    }
    let at_work = |moment: u64| {
        let at_work = spans
            .values()
            .filter(|(begun, ended)| (*begun..*ended).contains(&moment));
        at_work.count()
    };
    let most = spans.values().map(|(begun, _)| at_work(*begun)).max();
    assert_eq!(most, Some(2), "{spans:?}");

    let (spans, answer) = diamond(Some("right")).await;
    assert_eq!(answer["failed"], json!({"right": "[failed: it broke]"}));
    assert_eq!(answer["skipped"], json!({"bottom": "needs right"}));
    let completed: BTreeSet<&str> = answer["completed"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(completed, BTreeSet::from(["top", "apart", "left", "extra"]));
    assert!(!spans.contains_key("bottom"));
}

/// Scenario 12 of the conformance list.
#[tokio::test(start_paused = true)]
async fn a_plan_in_xml_is_read_in_its_fence_with_cdata_or_given_back_with_what_is_wrong() {
    let task = |id: &str, needs: &str| {
        let needs = if needs.is_empty() {
            String::new()
        } else {
            format!("<dependencies><dep>{needs}</dep></dependencies>")
        };
        format!(
            "<task id=\"{id}\" type=\"t\" processor=\"echo\"><description>x</description>{needs}</task>"
        )
    };
    let tasks = |tasks: &[String]| format!("<tasks>{}</tasks>", tasks.concat());
    let replies = [
        "I have no plan.".to_owned(),
        tasks(&[task("1", "9")]),
        tasks(&[task("1", "3"), task("2", "1"), task("3", "2")]),
        "The plan:\n```xml\n<?xml version=\"1.0\"?>\n<tasks><task id=\"1\" type=\"t\" processor=\"echo\">\
         <description><![CDATA[if a < b && b > c { \"<tasks>\" }]]></description></task></tasks>\n```"
            .to_owned(),
    ];
    let orchestrator: Orchestrator = serde_json::from_value(json!({"format": "xml"})).unwrap();
    let orchestrator =
        orchestrator.function("echo", |_, task, _| async move { Ok(task.description) });
    let desk = Agent::new("desk").behavior(orchestrator);
    let system = started(&InMemoryStore::new(), desk, ScriptedModel::turns(replies)).await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    let answer: Value = serde_json::from_str(run.outcome().await.unwrap().text()).unwrap();
    assert_eq!(
        answer["completed"]["1"],
        "if a < b && b > c { \"<tasks>\" }"
    );
    let rejected = told(&run, "plan_rejected").await;
    let reasons: Vec<&str> = rejected
        .iter()
        .map(|data| data["reason"].as_str().unwrap())
        .collect();
    let expected = [
        "there is no section <tasks>",
        "\"9\", which is not in the plan; there are: 1",
        "in a circle: 1 -> 3 -> 2 -> 1",
    ];
    for (reason, expected) in reasons.iter().zip(expected) {
        assert!(reason.contains(expected), "{reasons:?}");
    }
    assert_eq!(reasons.len(), 3);
    system.stop().await.unwrap();
}

/// Notes how work on each goal ended.
struct Witness(Arc<Mutex<Vec<(String, GoalStatus)>>>);

impl Policy for Witness {
    async fn after_goal(
        &mut self,
        cx: &PolicyContext<'_>,
        ended: &GoalEnd,
    ) -> Result<(), AgentError> {
        assert_eq!(cx.transcript().messages()[0].content(), ended.goal);
        self.0.lock().push((ended.goal.clone(), ended.status));
        Ok(())
    }
}

/// What came of a tree of goals whose model says this of each goal, with the goals in the order in
/// which they were worked on, and how the policies were told that work on them ended.
async fn tree(
    settings: Value,
    says: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> (Outcome, Vec<String>, Vec<(String, GoalStatus)>) {
    let model = ScriptedModel::from_reply_fn(move |request, _| {
        says(&request.conversation.messages()[0].content())
    });
    let ended = Arc::new(Mutex::new(Vec::new()));
    let witness = ended.clone();
    let witness = PolicyHandle::new(move || Witness(witness.clone()));
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("reactree").settings(settings))
        .policy("witness", AgentPolicy::Own(witness));
    let system = started(&InMemoryStore::new(), desk, model.clone()).await;
    let session = system.session("desk", "s");
    let outcome = session.send("goal").await.unwrap().outcome().await.unwrap();
    let goals = model.requests();
    let goals = goals
        .iter()
        .map(|request| request.conversation.messages()[0].content());
    let found = (outcome, goals.collect(), ended.lock().clone());
    system.stop().await.unwrap();
    found
}

fn done(result: &str) -> Reply {
    acts([("done", json!({ "result": result }))])
}

fn fail(reason: &str) -> Reply {
    acts([("fail", json!({ "reason": reason }))])
}

fn expand(flow: &str, goals: &[&str]) -> Reply {
    acts([("expand", json!({"flow": flow, "subgoals": goals}))])
}

/// Scenario 13 of the conformance list.
#[tokio::test(start_paused = true)]
async fn a_fallback_within_a_sequence_reaches_its_goal_after_a_declared_failure_and_leaves_episodes()
 {
    let (outcome, goals, episodes) = tree(json!({}), |goal| match goal {
        "goal" => expand("sequence", &["a", "rest"]),
        "a" => done("a is done"),
        "rest" => expand("fallback", &["b", "c"]),
        "b" => fail("b cannot be"),
        _ => done("c is done"),
    })
    .await;
    assert_eq!(outcome, Outcome::answer("a: a is done\nrest: c is done"));
    assert_eq!(goals, ["goal", "a", "rest", "b", "c"]);
    use GoalStatus::{Divided, Missed, Reached};
    let episodes: Vec<(&str, GoalStatus)> = episodes
        .iter()
        .map(|(goal, status)| (goal.as_str(), *status))
        .collect();
    // What is divided ends after its parts.
    let expected = [
        ("a", Reached),
        ("b", Missed),
        ("c", Reached),
        ("rest", Divided),
        ("goal", Divided),
    ];
    assert_eq!(episodes, expected);
}

/// Scenario 14 of the conformance list.
#[tokio::test(start_paused = true)]
async fn of_parallel_goals_more_than_half_decide_or_the_vote_that_is_set() {
    let majority = || json!({});
    let quorum = |quorum: u32| json!({"vote": {"quorum": quorum}});
    for (settings, goals, reached) in [
        (majority(), &["yes 1", "yes 2", "no 3"][..], true),
        (majority(), &["yes 1", "no 2", "no 3"], false),
        (majority(), &["yes 1", "yes 2", "no 3", "no 4"], false),
        (quorum(2), &["yes 1", "yes 2", "no 3", "no 4"], true),
        (quorum(3), &["yes 1", "yes 2", "no 3", "no 4"], false),
        (quorum(1), &["no 1", "no 2", "yes 3"], true),
        (json!({"vote": "all"}), &["yes 1", "yes 2", "yes 3"], true),
        (json!({"vote": "all"}), &["yes 1", "yes 2", "no 3"], false),
        (json!({"vote": "any"}), &["no 1", "no 2", "yes 3"], true),
        (json!({"vote": "any"}), &["no 1", "no 2", "no 3"], false),
    ] {
        let (outcome, ..) = tree(settings.clone(), |goal| match goal {
            "goal" => expand("parallel", goals),
            goal if goal.starts_with("yes") => done("yes"),
            _ => fail("no"),
        })
        .await;
        let found = outcome.stop_reason().is_none();
        assert_eq!(found, reached, "{settings} of {goals:?}: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_goals_are_worked_on_at_the_same_time() {
    let goals = ["one", "two", "three", "four"];
    // One call for the goal, and then those of the four below it, as many at once as may be.
    for (settings, took) in [
        (json!({}), 20),
        (json!({"max_at_once": 2}), 30),
        (json!({"max_at_once": 1}), 50),
    ] {
        let model = ScriptedModel::from_reply_fn(move |request, _| {
            match request.conversation.messages()[0].content().as_str() {
                "goal" => expand("parallel", &goals),
                _ => done("yes"),
            }
        })
        .delay(Duration::from_secs(10));
        let behavior = BehaviorSpec::new("reactree").settings(settings.clone());
        let desk = Agent::new("desk").behavior(behavior);
        let system = started(&InMemoryStore::new(), desk, model.clone()).await;
        let began = tokio::time::Instant::now();
        let run = system.session("desk", "s").send("goal").await.unwrap();
        assert!(run.outcome().await.unwrap().stop_reason().is_none());
        assert_eq!(model.calls(), 5);
        let found = began.elapsed().as_secs();
        assert!((took..took + 2).contains(&found), "{settings}: {found} s");
        system.stop().await.unwrap();
    }
}

/// Scenario 15 of the conformance list.
#[tokio::test(start_paused = true)]
async fn an_escalation_ends_a_loop_at_once_and_of_its_state_the_users_stays_and_the_passing_goes() {
    let ada = || Scope::User("ada".to_owned());
    let first = Agent::from_fn("first", move |cx: RunContext| async move {
        let found = (
            cx.state(Scope::Temp).get::<String>("draft").await?,
            cx.state(ada()).get::<String>("name").await?,
        );
        cx.emit("found", &found);
        cx.state(Scope::Temp).set("draft", &"half").await?;
        cx.state(ada()).set("name", &"Ada").await?;
        Ok(Outcome::escalated("no access"))
    });
    let second = Agent::from_fn("second", |_| async { Ok(Outcome::answer("never")) });
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("loop").settings(json!({"max_rounds": 3})))
        .agent(first)
        .agent(second);
    let store = InMemoryStore::new();
    let system = started(&store, desk, ScriptedModel::hanging()).await;
    let mut found = Vec::new();
    for session in ["one", "one", "other"] {
        let run = system.session("desk", session).send("go").await.unwrap();
        let outcome = run.outcome().await.unwrap();
        let reason = StopReason::Escalated("no access".to_owned());
        assert_eq!(outcome.stop_reason(), Some(&reason));
        found.extend(told(&run, "found").await);
    }
    // The first run found nothing; the others, also of another session, what is the user's alone.
    let users = json!([null, "Ada"]);
    assert_eq!(found, [json!([null, null]), users.clone(), users]);
    let rows = store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.agent == "second").count(), 0);
    assert_eq!(rows.iter().filter(|row| row.agent == "first").count(), 3);
    let others = system.session("desk", "other").state(ada()).await.unwrap();
    assert_eq!(others, [("name".to_owned(), json!("Ada"))]);
    system.stop().await.unwrap();
}

fn ends(records: &[EventRecord]) -> Vec<(&str, &RunResult)> {
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::RunEnded { end, .. } => Some((record.agent(), end)),
        _ => None,
    });
    ends.collect()
}

/// Scenario 17 of the conformance list.
#[tokio::test(start_paused = true)]
async fn cancelling_two_tools_and_a_child_agent_leaves_three_interrupted_results_and_one_end() {
    let hangs = |name: &str| {
        let definition = ToolDefinition::new(name, "does not end").effect(Effect::Read);
        tool_fn(definition, |_: Value| async {
            std::future::pending::<()>().await;
            Ok("never")
        })
    };
    let model = ScriptedModel::from_reply_fn(|request, _| {
        match request.conversation.messages()[0].content().as_str() {
            "go" if request.conversation.len() == 1 => acts([
                ("fetch", json!({})),
                ("delegate_to_helper", json!({"task": "help"})),
                ("look", json!({})),
            ]),
            _ => "what now?".into(),
        }
    });
    let helper = Agent::new("helper").model("silent").reach(Reach::Delegate);
    let desk = Agent::new("desk")
        .tool(hangs("fetch"))
        .tool(hangs("look"))
        .agent(helper);
    let store = InMemoryStore::new();
    let system = System::builder(store.clone())
        .registry(ghostlight::behaviors::register(Registry::new()))
        .model("default", model)
        .model("silent", ScriptedModel::hanging())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "s");
    let run = session.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(run.cancel("enough").await.unwrap());
    let cancelled = StopReason::Cancelled("enough".to_owned());
    assert_eq!(run.outcome().await.unwrap().stop_reason(), Some(&cancelled));

    // Nothing is left behind, and a second cancellation changes nothing.
    assert!(run.quiet().await.unwrap().still_running.is_empty());
    assert!(!run.cancel("again").await.unwrap());
    let rows = store.runs(RunFilter::default()).await.unwrap();
    assert!(
        rows.len() == 2 && rows.iter().all(|row| row.status.is_ended()),
        "{rows:?}"
    );
    let records = run.events().so_far().await.unwrap();
    let ends = ends(&records);
    assert_eq!(ends.len(), 2, "one of each run: {ends:?}");
    assert_eq!(
        (ends[0].0, ends[1].0),
        ("helper", "desk"),
        "the child's comes first"
    );
    assert_eq!(ends[1].1, &RunResult::Stopped(cancelled));
    assert!(matches!(
        records.last().unwrap().event,
        Event::RunEnded { .. }
    ));

    let said = session.transcript().await.unwrap();
    let said = said.messages();
    check_transcript(&said).unwrap();
    let results = said.iter().flat_map(|message| message.tool_results());
    let results: Vec<(&str, ToolStatus)> = results
        .map(|result| (result.name.as_str(), result.status))
        .collect();
    assert_eq!(
        results,
        [
            ("fetch", ToolStatus::Interrupted),
            ("delegate_to_helper", ToolStatus::Interrupted),
            ("look", ToolStatus::Interrupted),
        ]
    );
    system.stop().await.unwrap();
}
