//! `max_at_once` holds in every workflow that has it: never more members work at once, and as many do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::workflows;
use ghostlight_actors::{
    actor::System,
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext},
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::Outcome,
};
use serde_json::{Value, json};

const MEMBERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// How many members work now, and how many did at most.
#[derive(Default)]
struct Attendance {
    now: AtomicU32,
    most: AtomicU32,
}

/// A member that works for a second.
fn member(name: &'static str, attendance: &Arc<Attendance>) -> Agent {
    let attendance = attendance.clone();
    Agent::from_fn(name, move |cx: RunContext| {
        let attendance = attendance.clone();
        async move {
            let now = attendance.now.fetch_add(1, Ordering::SeqCst) + 1;
            attendance.most.fetch_max(now, Ordering::SeqCst);
            cx.sleep(Duration::from_secs(1)).await?;
            attendance.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Outcome::answer("yes"))
        }
    })
}

/// What the planner of `fan_out` says: a part for each member.
fn plan() -> Agent {
    let parts = MEMBERS.map(|name| format!("{name}: work")).join("\n");
    Agent::from_fn("plan", move |_: RunContext| {
        let parts = parts.clone();
        async move { Ok(Outcome::answer(parts)) }
    })
}

async fn most_at_once(behavior: &str, settings: Value, reply: Option<Value>, task: &str) -> u32 {
    let attendance = Arc::new(Attendance::default());
    let desk = Agent::new("desk").behavior(BehaviorSpec::new(behavior).settings(settings));
    let mut desk = MEMBERS
        .iter()
        .fold(desk, |desk, name| desk.agent(member(name, &attendance)));
    if behavior == "fan_out" {
        desk = desk.agent(plan());
    }
    let replies = reply.map(|plan| Reply::from(plan.to_string().as_str()));
    let replies = replies.into_iter().chain([r#"{"answer": "done"}"#.into()]);
    let system = System::builder(InMemoryStore::new())
        .registry(workflows::register(Registry::new()))
        .model("default", ScriptedModel::turns(replies))
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send(task).await.unwrap();
    run.outcome().await.unwrap();
    system.stop().await.unwrap();
    attendance.most.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn no_more_members_work_at_once_than_the_bound_and_as_many_do() {
    let tasks: Vec<Value> = MEMBERS
        .iter()
        .map(|name| json!({"worker": name, "task": "work"}))
        .collect();
    let planned: Vec<Value> = MEMBERS
        .iter()
        .map(|name| json!({"id": name, "processor": name, "description": "work"}))
        .collect();
    let list = json!(MEMBERS).to_string();
    for (behavior, settings, reply, task) in [
        ("parallel", json!({}), None, "go"),
        ("vote", json!({"options": ["yes", "no"]}), None, "go"),
        ("for_each", json!({}), None, list.as_str()),
        (
            "fan_out",
            json!({"planner": "plan", "aggregator": "plan"}),
            None,
            "go",
        ),
        (
            "coordinator",
            json!({}),
            Some(json!({"tasks": tasks})),
            "go",
        ),
        (
            "orchestrator",
            json!({}),
            Some(json!({"tasks": planned})),
            "go",
        ),
    ] {
        for bound in [1, 2, 4] {
            let mut settings = settings.clone();
            settings["max_at_once"] = json!(bound);
            let most = most_at_once(behavior, settings, reply.clone(), task).await;
            assert_eq!(most, bound, "{behavior}");
        }
    }
}
