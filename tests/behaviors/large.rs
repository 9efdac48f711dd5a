//! What the behaviors and workflows cost that are long in another way than by steps of one loop: each is as long as its
//! shape allows, or has hundreds of parts, is killed near its end, and goes on. A part late in it takes what an early one
//! took.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ghostlight::{behaviors, tools::tool_fn, workflows};
use ghostlight_actors::{
    actor::System,
    contract::{Model, ModelContext, ModelError, ToolHandle},
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{AgentError, Effect, ModelRequest, ModelResponse, Outcome, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    sizes::{number_in, processor_time},
    stage::desk,
};

/// Counts the parts of the work, and hangs at one of them.
#[derive(Clone)]
struct Parts {
    reached: Arc<AtomicU64>,
    hangs_at: u64,
    /// The processor time at each hundredth part.
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Parts {
    async fn next(&self) -> u64 {
        let number = self.reached.fetch_add(1, Relaxed) + 1;
        if number.is_multiple_of(100) {
            self.times.lock().push(processor_time());
        }
        if number == self.hangs_at {
            std::future::pending::<()>().await;
        }
        number
    }

    /// An agent that does one part, without a model.
    fn worker(&self, name: &str) -> Agent {
        let parts = self.clone();
        Agent::from_fn(name, move |_: RunContext| {
            let parts = parts.clone();
            async move {
                let number = parts.next().await;
                Ok::<_, AgentError>(Outcome::answer(format!("part {number}")))
            }
        })
    }

    /// A tool that does one part.
    fn tool(&self) -> ToolHandle {
        let (parts, definition) = (self.clone(), ToolDefinition::new("look", "Looks."));
        tool_fn(definition.effect(Effect::Read), move |_: Value| {
            let parts = parts.clone();
            async move { Ok(format!("number {}", parts.next().await)) }
        })
    }
}

/// Plans as many steps as there are parts, each of which needs the one before it; and misses the schema of its answer so
/// often.
#[derive(Clone)]
struct Planner {
    parts: Parts,
    all: u64,
}

impl Model for Planner {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        if request.instructions.contains("Do not do the task yet") {
            let steps = (1..=self.all).map(|number| {
                let input = json!({ "after": format!("#E{}", number - 1) });
                json!({ "id": format!("E{number}"), "purpose": "", "tool": "look", "input": input })
            });
            let first =
                json!({ "id": "E0", "purpose": "", "tool": "llm", "input": { "prompt": "x" } });
            let steps: Vec<Value> = std::iter::once(first).chain(steps).collect();
            return Ok(ModelResponse::text(json!({ "steps": steps }).to_string()));
        }
        if !request.instructions.contains("repairs") {
            return Ok(ModelResponse::text("done"));
        }
        let number = self.parts.next().await;
        let answer = json!({ "number": if number > self.all { json!(1) } else { json!("one") } });
        Ok(ModelResponse::text(answer.to_string()))
    }
}

type Make = fn(&Parts, u64) -> Agent;

fn workflow(behavior: &str, settings: Value, parts: &Parts) -> Agent {
    Agent::new("desk")
        .behavior(BehaviorSpec::new(behavior).settings(settings))
        .agent(parts.worker("worker"))
}

/// What is tried, by its behavior.
const ALL: [(&str, Make); 9] = [
    ("rewoo", |parts, all| {
        desk("rewoo", json!({ "max_plan_steps": all + 1 })).tool(parts.tool())
    }),
    ("simple", |_, all| {
        let schema = json!({
            "type": "object", "properties": { "number": { "type": "integer" } }, "required": ["number"],
        });
        desk("simple", json!({ "max_repairs": all }))
            .instructions("It repairs.")
            .define(|desk| desk.output = Some(schema))
    }),
    ("loop", |parts, all| {
        let until = json!({ "any": [{ "text": "never said" }, { "max_turns": all }] });
        workflow("loop", json!({ "max_rounds": all, "until": until }), parts)
    }),
    ("sequential", |parts, all| {
        let members = vec!["worker"; usize::try_from(all).unwrap_or(0)];
        workflow("sequential", json!({ "members": members }), parts)
    }),
    ("tool_chain", |parts, all| {
        let step = json!({ "tool": "look", "arguments": {} });
        let steps = vec![step; usize::try_from(all).unwrap_or(0)];
        Agent::new("desk")
            .behavior(BehaviorSpec::new("tool_chain").settings(json!({ "steps": steps })))
            .tool(parts.tool())
    }),
    ("round_robin", |parts, all| {
        workflow("round_robin", json!({ "max_turns": all }), parts).agent(parts.worker("other"))
    }),
    ("pipeline", |parts, all| {
        let stages = vec!["worker"; usize::try_from(all).unwrap_or(0)];
        workflow("pipeline", json!({ "stages": stages }), parts)
    }),
    ("for_each", |parts, _| {
        workflow("for_each", json!({ "max_at_once": 4 }), parts)
    }),
    ("parallel", |parts, all| {
        let members = vec!["worker"; usize::try_from(all).unwrap_or(0)];
        let settings = json!({ "members": members, "max_at_once": 4 });
        workflow("parallel", settings, parts)
    }),
];

async fn started(store: &InMemoryStore, make: Make, parts: &Parts, all: u64) -> System {
    let registry = workflows::register(behaviors::register(Registry::new()));
    let planner = Planner {
        parts: parts.clone(),
        all,
    };
    System::builder(store.clone())
        .registry(registry)
        .model("default", planner)
        .team(make(parts, all).into_team().unwrap())
        .start()
        .await
        .unwrap()
}

/// The processor time of the life that is killed and of the one after it, and of a hundred parts early and late.
async fn lived(make: Make, all: u64) -> [Duration; 4] {
    let store = InMemoryStore::new();
    let mut parts = Parts {
        reached: Arc::default(),
        hangs_at: all - 20,
        times: Arc::default(),
    };
    let began = processor_time();
    let first = started(&store, make, &parts, all).await;
    let items: Vec<String> = (0..all).map(|number| format!("item {number}")).collect();
    let session = first.session("desk", "session");
    let run = session.send(Turn::text(items.join("\n"))).await.unwrap();
    let mut minutes = 0..1_000;
    while parts.reached.load(Relaxed) < parts.hangs_at {
        let status = run.status().await.unwrap();
        assert!(
            minutes.next().is_some() && !status.status.is_ended(),
            "{status:?}"
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    // Whatever works beside the one that hangs comes to its end.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lived = processor_time() - began;
    store.crash();
    parts.hangs_at = u64::MAX;
    let began = processor_time();
    let second = started(&store.another_process(), make, &parts, all).await;
    let outcome = second.run(run.id()).outcome().await.unwrap();
    let resumed = processor_time() - began;
    assert!(!outcome.text().is_empty(), "{outcome:?}");
    assert!(parts.reached.load(Relaxed) >= all, "{:?}", parts.reached);
    let times = parts.times.lock();
    let taken = |from: usize| times[from + 1] - times[from];
    // The last but two hundreds are the last in the first life.
    [lived, resumed, taken(0), taken(times.len() - 3)]
}

#[tokio::test(start_paused = true)]
async fn a_part_late_in_a_large_plan_or_workflow_takes_what_an_early_one_took() {
    let all = number_in("GHOSTLIGHT_STEPS", 1_000);
    for (behavior, make) in ALL {
        let [lived, resumed, early, late] = lived(make, all).await;
        println!(
            "{behavior}: {lived:?}, then {resumed:?}; a hundred parts {early:?}, then {late:?}"
        );
        assert!(late <= 4 * early, "{behavior}: {early:?}, then {late:?}");
        // The kernel counts in ticks of up to 10 ms, so what takes less can be counted as nothing.
        assert!(
            resumed <= 2 * lived + Duration::from_millis(20),
            "{behavior}: {lived:?}, then {resumed:?}"
        );
    }
}
