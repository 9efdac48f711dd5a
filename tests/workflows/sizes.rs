//! What a workflow of many agents costs: as many times more work takes as many times longer, also for a process that
//! continues with it after a kill near its end.
//!
//! ```text
//! GHOSTLIGHT_STEPS=4000 GHOSTLIGHT_ONLY=graph cargo nextest run --test workflows sizes --no-capture
//! ```
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ghostlight::{tools::tool_fn, workflows};
use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::{Model, ModelContext, ModelError},
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext, Team},
    testing::InMemoryStore,
    vocabulary::{
        AgentError, Effect, ModelRequest, ModelResponse, Outcome, ToolCall, ToolDefinition,
    },
};
use serde_json::{Value, json};

/// How many parts the work has; the small one has a quarter of them.
const STEPS: usize = 200;

/// How many agents take turns where the work does not need one each.
const FEW: usize = 10;

/// The processor time of this thread, on which everything runs.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// The work of all members. The process dies in the middle of one part.
#[derive(Clone)]
struct Work {
    begun: Arc<AtomicUsize>,
    hangs_at: usize,
}

impl Work {
    fn until(hangs_at: usize) -> Self {
        let begun = Arc::default();
        Self { begun, hangs_at }
    }

    async fn do_a_part(&self) {
        if self.begun.fetch_add(1, Relaxed) + 1 == self.hangs_at {
            std::future::pending::<()>().await;
        }
    }
}

/// A workflow with so many parts of work.
struct Size {
    behavior: &'static str,
    settings: Value,
    /// How many agents do the work.
    members: usize,
    parts: usize,
}

impl Size {
    fn task(&self) -> String {
        match self.behavior {
            "for_each" => json!((0..self.parts).collect::<Vec<_>>()).to_string(),
            _ => "go".to_owned(),
        }
    }

    fn team(&self, work: &Work) -> Team {
        let behavior = BehaviorSpec::new(self.behavior).settings(self.settings.clone());
        let mut desk = Agent::new("desk").behavior(behavior);
        for number in 0..self.members {
            let (work, is_last) = (work.clone(), number + 1 == self.members);
            let fails = self.behavior == "fallback" && !is_last;
            desk = desk.agent(Agent::from_fn(
                format!("m{number}"),
                move |_: RunContext| {
                    let work = work.clone();
                    async move {
                        work.do_a_part().await;
                        match fails {
                            true => Err(AgentError::failed("no")),
                            false => Ok(Outcome::answer("yes")),
                        }
                    }
                },
            ));
        }
        let plan: Vec<String> = (0..self.parts).map(|part| format!("part {part}")).collect();
        let plan = plan.join("\n");
        let others = match self.behavior {
            "fan_out" => vec![("planner", plan), ("aggregator", "done".to_owned())],
            "debate" => vec![("judge", "done".to_owned())],
            _ => Vec::new(),
        };
        for (name, answer) in others {
            desk = desk.agent(Agent::from_fn(name, move |_: RunContext| {
                let answer = answer.clone();
                async move { Ok(Outcome::answer(answer)) }
            }));
        }
        if self.behavior == "tool_chain" {
            #[derive(serde::Deserialize, schemars::JsonSchema)]
            struct Look {
                at: String,
            }
            let definition = ToolDefinition::new("look", "looks").effect(Effect::Read);
            let work = work.clone();
            desk = desk.tool(tool_fn(definition, move |look: Look| {
                let work = work.clone();
                async move {
                    work.do_a_part().await;
                    Ok(look.at)
                }
            }));
        }
        desk.into_team().unwrap()
    }
}

/// All workflows, each with so many parts of work.
fn all(parts: usize) -> Vec<Size> {
    let of = |behavior, settings| Size {
        behavior,
        settings,
        members: FEW,
        parts,
    };
    // An agent for each part.
    let of_many = |behavior, settings| Size {
        members: parts,
        ..of(behavior, settings)
    };
    let rounds = parts / FEW;
    let goals = parts.isqrt();
    let nodes = (0..parts).map(|place| {
        let next = match place + 1 {
            next if next == parts => "end".to_owned(),
            next => format!("n{next}"),
        };
        let agent = format!("m{}", place % FEW);
        let node = json!({ "agent": agent, "prompt": "{task} {n0}", "then": next });
        (format!("n{place}"), node)
    });
    let nodes: Value = nodes.collect();
    let step = json!({ "tool": "look", "arguments": { "at": "{task}{previous}" } });
    let steps = vec![step; parts];
    let stages: Vec<Value> = (0..parts)
        .map(|place| json!({ "agent": format!("m{place}"), "prompt": "{task} {previous}" }))
        .collect();
    vec![
        of_many("sequential", json!({})),
        of_many("pipeline", json!({ "stages": stages })),
        of_many("parallel", json!({})),
        of_many("fallback", json!({})),
        of_many("vote", json!({ "options": ["yes", "no"] })),
        of("loop", json!({ "max_rounds": rounds })),
        of("for_each", json!({ "max_items": parts })),
        of("fan_out", json!({ "max_parts": parts })),
        of(
            "graph",
            json!({ "entry": "n0", "nodes": nodes, "max_steps": parts }),
        ),
        of("round_robin", json!({ "max_turns": parts })),
        Size {
            members: 2,
            ..of("role_play", json!({ "max_turns": parts }))
        },
        of("debate", json!({ "rounds": rounds })),
        of("coordinator", json!({ "max_rounds": rounds })),
        of("orchestrator", json!({ "max_tasks": parts })),
        Size {
            parts: goals * goals,
            ..of(
                "reactree",
                json!({
                    "max_nodes": 2 * parts, "max_total_decisions": 2 * parts, "max_subgoals": goals,
                }),
            )
        },
        of("tool_chain", json!({ "steps": steps })),
        // One of many is chosen.
        Size {
            parts: 1,
            ..of_many("router", json!({ "otherwise": "m0" }))
        },
    ]
}

#[test]
fn every_workflow_is_tried_in_two_sizes() {
    let registry = workflows::register(Registry::new());
    let registered: BTreeSet<&str> = registry.behavior_names().into_iter().collect();
    let tried: BTreeSet<&str> = all(100).iter().map(|size| size.behavior).collect();
    assert_eq!(registered, tried);
}

/// Leads a workflow of so many parts, and says the same to the same request.
struct Lead {
    behavior: &'static str,
    parts: usize,
    work: Work,
}

impl Lead {
    fn says(&self, request: &ModelRequest) -> Option<ModelResponse> {
        let said = request.conversation.len();
        Some(match self.behavior {
            // Each round adds an answer and the results.
            "coordinator" if said / 2 == self.parts / FEW => {
                ModelResponse::text(json!({ "answer": "done" }).to_string())
            }
            "coordinator" => {
                let task = |worker| json!({ "worker": format!("m{worker}"), "task": "do" });
                let tasks: Vec<Value> = (0..FEW).map(task).collect();
                ModelResponse::text(json!({ "tasks": tasks }).to_string())
            }
            "orchestrator" => {
                let task = |part: usize| {
                    let needs: Vec<String> =
                        part.checked_sub(FEW).iter().map(usize::to_string).collect();
                    json!({
                        "id": part.to_string(), "processor": format!("m{}", part % FEW),
                        "description": "do", "dependencies": needs,
                    })
                };
                let tasks: Vec<Value> = (0..self.parts).map(task).collect();
                ModelResponse::text(json!({ "tasks": tasks }).to_string())
            }
            "reactree" => {
                let goal = request.conversation.get(0)?.content();
                if goal.matches('.').count() == 2 {
                    return None;
                }
                let below = (0..self.parts.isqrt()).map(|number| format!("{goal}.{number}"));
                let goals: Vec<String> = below.collect();
                let arguments = json!({ "flow": "parallel", "subgoals": goals });
                ModelResponse::tool_calls([ToolCall::new("1", "expand", arguments)])
            }
            _ => ModelResponse::text(json!({ "agent": "m0" }).to_string()),
        })
    }
}

impl Model for Lead {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        if let Some(said) = self.says(&request) {
            return Ok(said);
        }
        self.work.do_a_part().await;
        let done = ToolCall::new("1", "done", json!({ "result": "yes" }));
        Ok(ModelResponse::tool_calls([done]))
    }
}

async fn life(store: &InMemoryStore, size: &Size, work: &Work, run: Option<&Run>) -> (System, Run) {
    let lead = Lead {
        behavior: size.behavior,
        parts: size.parts,
        work: work.clone(),
    };
    // Nothing comes from other processes, so that waiting costs nothing.
    let mut options = SystemOptions::default();
    options.poll_interval = Duration::from_secs(60);
    let builder = System::builder(store.clone())
        .options(options)
        .registry(workflows::register(Registry::new()))
        .model("default", lead);
    let system = builder.team(size.team(work)).start().await.unwrap();
    let run = match run {
        None => {
            let session = system.session("desk", "session");
            session.send(size.task()).await.unwrap()
        }
        Some(run) => system.run(run.id()),
    };
    (system, run)
}

/// The processor time of the two lives of a workflow whose process is killed near its end.
async fn took(size: &Size) -> [Duration; 2] {
    let store = InMemoryStore::new();
    let work = Work::until(size.parts.saturating_sub(5).max(1));
    let began = processor_time();
    let (system, run) = life(&store, size, &work, None).await;
    let mut minutes = 0..10_000;
    while work.begun.load(Relaxed) < work.hangs_at {
        assert!(minutes.next().is_some(), "it is at {:?}", work.begun);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    // Those beside it come to their ends.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lived = processor_time() - began;
    store.crash();
    system.supervisor().unwrap().actor().kill();
    let store = store.another_process();
    let began = processor_time();
    let work = Work::until(usize::MAX);
    let (system, run) = life(&store, size, &work, Some(&run)).await;
    let outcome = run.outcome().await.unwrap();
    let resumed = processor_time() - began;
    system.stop().await.unwrap();
    let done = work.begun.load(Relaxed);
    assert!(done <= 5 + FEW, "{done} parts are done again");
    let name = size.behavior;
    match name {
        "reactree" | "role_play" => {}
        _ => assert!(outcome.as_answer().is_some(), "{name}: {outcome:?}"),
    }
    [lived, resumed]
}

#[tokio::test(start_paused = true)]
async fn a_workflow_of_four_times_the_work_takes_four_times_as_long() {
    let steps = std::env::var("GHOSTLIGHT_STEPS").ok();
    let steps = steps.map_or(STEPS, |steps| steps.parse().unwrap());
    let only = std::env::var("GHOSTLIGHT_ONLY").ok();
    // What a process sets up once is paid for by the first.
    took(&all(FEW).remove(0)).await;
    for (small, large) in all(steps / 4).iter().zip(&all(steps)) {
        let name = small.behavior;
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (first, second) = (took(small).await, took(large).await);
        println!("{name}: {first:?}, then {second:?}");
        // What is quadratic takes sixteen times as long.
        let all = |lives: [Duration; 2]| lives.iter().sum::<Duration>();
        assert!(
            all(second) < 8 * all(first),
            "{name}: {first:?}, then {second:?} for four times the work"
        );
        let [lived, resumed] = second;
        let once = Duration::from_millis(50);
        assert!(resumed <= 2 * lived + once, "{name}: {second:?}");
    }
}
