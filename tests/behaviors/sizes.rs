//! What a long run costs: the context of each step is worked out from what is new in it, and a run that
//! is resumed goes once through what is recorded.
//!
//! ```text
//! GHOSTLIGHT_STEPS=4000 GHOSTLIGHT_RESULT=100000 GHOSTLIGHT_ONLY=summary \
//!     cargo nextest run --test behaviors sizes --no-capture
//! ```

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ghostlight::{
    behaviors,
    context::{ContextOptimizer, Estimate, TokenCounter},
    policies,
    stores::SqliteStore,
    tools::tool_fn,
    workflows,
};
use ghostlight_actors::{
    actor::{Run, System},
    contract::{Model, ModelContext, ModelError, RunFilter, ToolHandle},
    definition::{ContextSpec, ContextStrategy, PolicySpec, SlidingWindow, Spill, Summarize},
    run::{Agent, Registry},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Effect, ModelRequest, ModelResponse, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    context::is_summary,
    stage::{call, desk},
};

/// How many steps a run has whose context is bounded; `GHOSTLIGHT_STEPS=4000` takes a minute and a half of processor time.
const STEPS: u64 = 2_000;
/// How many it has for each of the behaviors and groups of policies, which are many.
const STEPS_OF_EACH: u64 = 1_000;

pub(crate) fn number_in(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().unwrap())
}

/// Counts what is counted.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl TokenCounter for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn count(&self, text: &str) -> u64 {
        self.0.fetch_add(text.len() as u64, Relaxed);
        Estimate.count(text)
    }
}

/// The processor time of this thread, on which everything runs.
pub(crate) fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The number that the last result tells, in any form in which a behavior gives it.
fn last_result(request: &ModelRequest) -> Option<u64> {
    let said = &request.conversation;
    // Policies may have said something behind it.
    let last = said.since(said.len().saturating_sub(12));
    last.iter().rev().find_map(|said| {
        let result = said.tool_results().last().map(|result| &*result.text);
        let text = said.content();
        let (_, number) = result.unwrap_or(&text).split_once("number ")?;
        number.split(' ').next()?.parse().ok()
    })
}

/// Asks for the next number until it has the last one, and hangs at one.
struct Steps {
    behavior: &'static str,
    steps: u64,
    hangs_at: u64,
    reached: Arc<AtomicU64>,
    /// The processor time at each hundredth step.
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Model for Steps {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        if is_summary(&request) {
            return Ok(ModelResponse::text("They looked at numbers."));
        }
        if request.instructions.starts_with("You are a strict") {
            let verdict = json!({"approved": true, "score": 9, "critique": "none"});
            return Ok(ModelResponse::text(verdict.to_string()));
        }
        if request.instructions.contains("Do not do the task yet") {
            return Ok(ModelResponse::text("1. look at all numbers"));
        }
        let is_react = self.behavior == "react";
        if request.tools.is_empty() && !is_react {
            return Ok(ModelResponse::text("done"));
        }
        let number = match last_result(&request) {
            Some(last) => last + 1,
            None if self.reached.load(Relaxed) == self.steps => self.steps,
            None => 0,
        };
        self.reached.store(number, Relaxed);
        if number.is_multiple_of(100) {
            self.times.lock().push(processor_time());
        }
        if number == self.hangs_at {
            std::future::pending::<()>().await;
        }
        let arguments = json!({ "number": number });
        Ok(match (number == self.steps, is_react) {
            (true, false) => ModelResponse::text("done"),
            (true, true) => ModelResponse::text("Final: done"),
            (false, false) => {
                let call = call(&format!("c{number}"), "look", arguments);
                ModelResponse::tool_calls([call])
            }
            (false, true) => ModelResponse::text(format!("Action: look\nArgs: {arguments}")),
        })
    }
}

fn look(bytes: u64) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Look {
        number: u64,
    }
    let definition = ToolDefinition::new("look", "Looks at a number.").effect(Effect::Read);
    let words = "word ".repeat(usize::try_from(bytes / 5).unwrap());
    tool_fn(definition, move |look: Look| {
        let found = format!("number {} {words}", look.number);
        async move { Ok(found) }
    })
}

/// What a run took that was killed near its end.
#[derive(Debug)]
struct Took {
    /// The bytes that were counted in its first life, and in the second.
    counted: [u64; 2],
    /// The processor time of these lives.
    lives: [Duration; 2],
    /// That of a hundred steps near the beginning, and near the end.
    steps: [Duration; 2],
}

impl Took {
    /// Neither grows with the square of the length.
    fn check(&self, what: &str, said: u64) {
        let [living, resuming] = self.counted;
        assert!(living <= 5 * said, "{what}: {said} bytes, {self:?}");
        assert!(resuming <= living + living / 10, "{what}: {self:?}");
        let [lived, resumed] = self.lives;
        assert!(resumed <= 2 * lived, "{what}: {self:?}");
        let [early, late] = self.steps;
        assert!(late <= 4 * early, "{what}: {self:?}");
    }
}

fn with_policies(registry: Registry) -> Registry {
    let registry = policies::register(registry);
    #[cfg(feature = "memory")]
    let registry = ghostlight::memory::register(registry);
    registry
}

/// A life of an agent.
async fn life(
    store: &InMemoryStore,
    agent: Agent,
    model: Steps,
    run: Option<&Run>,
) -> (System, Run) {
    let builder = System::builder(store.clone());
    let registry = workflows::register(behaviors::register(Registry::new()));
    let builder = builder.registry(with_policies(registry));
    let team = agent.into_team().unwrap();
    let system = builder.model("default", model).team(team).start();
    let system = system.await.unwrap();
    let run = match run {
        None => {
            let session = system.session("desk", "session");
            session.send(Turn::from("look")).await.unwrap()
        }
        Some(run) => system.run(run.id()),
    };
    (system, run)
}

async fn lived(behavior: &'static str, agent: impl Fn(Counting) -> Agent, steps: u64) -> Took {
    let store = InMemoryStore::new();
    let reached = Arc::new(AtomicU64::new(0));
    let times: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let model = |hangs_at| Steps {
        behavior,
        steps,
        hangs_at,
        reached: reached.clone(),
        times: times.clone(),
    };
    let (before, after) = (Counting::default(), Counting::default());
    let began = processor_time();
    let (_system, run) = life(&store, agent(before.clone()), model(steps - 5), None).await;
    let mut minutes = 0..10_000;
    while reached.load(Relaxed) != steps - 5 {
        assert!(minutes.next().is_some(), "it is at {reached:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let lived = processor_time() - began;
    let of_steps = {
        let times = times.lock();
        let taken = |from: usize| times[from + 1] - times[from];
        [taken(1), taken(times.len() - 2)]
    };
    store.crash();
    let store = store.another_process();
    let began = processor_time();
    let (_system, run) = life(&store, agent(after.clone()), model(u64::MAX), Some(&run)).await;
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.text().contains("done"), "{outcome:?}");
    Took {
        counted: [before.0.load(Relaxed), after.0.load(Relaxed)],
        lives: [lived, processor_time() - began],
        steps: of_steps,
    }
}

/// Each strategy; the window alone is in the requests of the behaviors.
fn strategies() -> Vec<(&'static str, ContextSpec)> {
    let small = ContextSpec::new(8_000);
    let mut compact = ContextSpec::default();
    compact.max_tokens = 8_000;
    vec![
        ("compact", compact),
        (
            "sliding",
            small
                .clone()
                .strategy(ContextStrategy::SlidingWindow(SlidingWindow::default()))
                .strategy(ContextStrategy::TokenWindow),
        ),
        (
            "summary",
            small
                .clone()
                .strategy(ContextStrategy::Summarize(Summarize::default())),
        ),
        ("spill", ContextSpec::default().spill(Spill::default())),
    ]
}

/// All policies, in groups that do not disturb each other. `GHOSTLIGHT_ONLY` names one of a group that is found to grow.
fn policies() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let until = json!({ "any": [{ "text": "never said" }, { "max_turns": 100_000 }] });
    let mut groups = vec![
        (
            "policies that judge",
            vec![
                ("cited_answers", json!({})),
                ("end_when", json!({ "until": until })),
                ("planning", json!({})),
                ("recovery", json!({})),
                ("repetition", json!({})),
                ("self_reflection", json!({})),
                (
                    "soft_budget",
                    json!({ "budget": { "model_calls": 100_000 } }),
                ),
                ("synthesis", json!({})),
                ("throttle", json!({ "tools": { "send": "to" } })),
                ("tool_limits", json!({ "calls": { "look": 100_000 } })),
                ("verification", json!({})),
            ],
        ),
        (
            "policies that give",
            vec![
                ("board", json!({})),
                ("control", json!({})),
                ("input_files", json!({})),
                ("instructions", json!({ "role": "You look." })),
                ("keep_state", json!({ "keys": ["seen"] })),
                ("output_key", json!({ "key": "answer" })),
                ("skill_tools", json!({})),
                ("todos", json!({})),
            ],
        ),
        ("tool_search", vec![("tool_search", json!({}))]),
    ];
    if cfg!(feature = "memory") {
        groups.push(("memory", vec![("memory", json!({}))]));
    }
    groups
}

#[test]
fn every_policy_that_a_file_can_name_is_tried() {
    let known = with_policies(Registry::new());
    let tried = policies().into_iter().flat_map(|(_, policies)| policies);
    let mut tried: Vec<String> = tried.map(|(policy, _)| policy.to_owned()).collect();
    // It is the workflows' own.
    tried.retain(|policy| policy != "end_when");
    tried.sort();
    let mut known = known.policy_names();
    known.sort();
    assert_eq!(tried, known);
}

/// Whether what has this name is tried.
fn is_wanted(name: &str) -> bool {
    std::env::var("GHOSTLIGHT_ONLY").map_or(true, |only| only == name)
}

fn looking(behavior: &str, steps: u64, bytes: u64) -> Agent {
    desk(behavior, json!({ "max_steps": steps + 1 })).tool(look(bytes))
}

#[tokio::test(start_paused = true)]
async fn the_context_of_a_long_run_is_worked_out_once_in_each_life() {
    let steps = number_in("GHOSTLIGHT_STEPS", STEPS);
    let bytes = number_in("GHOSTLIGHT_RESULT", 1_000);
    for (name, spec) in strategies() {
        if !is_wanted(name) {
            continue;
        }
        let agent = |counter: Counting| {
            let spec = spec.clone();
            looking("function_calling", steps, bytes).policy("context", move || {
                ContextOptimizer::new(spec.clone()).counted_by(counter.clone())
            })
        };
        let took = lived("function_calling", agent, steps).await;
        println!("{name}: {took:?}");
        took.check(name, steps * (bytes + 100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_long_run_takes_what_the_first_took_in_every_behavior() {
    let steps = number_in("GHOSTLIGHT_STEPS", STEPS_OF_EACH);
    // The one that is left out, `function_calling`, is that of the other tests here.
    for behavior in ["react", "reflection", "plan_and_solve", "adaptive"] {
        if !is_wanted(behavior) {
            continue;
        }
        let agent = |counter: Counting| {
            let spec = ContextSpec::new(2_000).strategy(ContextStrategy::TokenWindow);
            let settings = match behavior {
                "adaptive" => {
                    json!({ "simple": { "name": "function_calling", "max_steps": steps + 1 } })
                }
                _ => json!({ "max_steps": steps + 1 }),
            };
            let looking = desk(behavior, settings).tool(look(400));
            looking.policy("context", move || {
                ContextOptimizer::new(spec.clone()).counted_by(counter.clone())
            })
        };
        let took = lived(behavior, agent, steps).await;
        println!("{behavior}: {took:?}");
        took.check(behavior, steps * 500);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_long_run_takes_what_the_first_took_with_every_policy() {
    let steps = number_in("GHOSTLIGHT_STEPS", STEPS_OF_EACH);
    // A step has a price of its own, so several policies in one run cost less than one run of each.
    for (group, policies) in policies() {
        let wanted: Vec<PolicySpec> = policies
            .iter()
            .filter(|(policy, _)| is_wanted(policy))
            .map(|(policy, settings)| PolicySpec::new(*policy).settings(settings.clone()))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let agent = |_| {
            let wanted = wanted.clone();
            looking("function_calling", steps, 100).define(|desk| desk.policies.extend(wanted))
        };
        let took = lived("function_calling", agent, steps).await;
        println!("{group}: {took:?}");
        took.check(group, 0);
    }
}

/// Writes a store for trying what prints, such as `ghostlight recording export`, or goes on with the run in it.
/// `GHOSTLIGHT_DIES_AT` names the step at which the process dies, and `GHOSTLIGHT_ONLY` a strategy.
#[tokio::test(start_paused = true)]
#[ignore = "it makes a file: GHOSTLIGHT_STORE says where"]
async fn a_store_with_a_long_run() {
    let path = std::env::var("GHOSTLIGHT_STORE").unwrap();
    let steps = number_in("GHOSTLIGHT_STEPS", 4_000);
    let bytes = number_in("GHOSTLIGHT_RESULT", 100_000);
    let dies_at = number_in("GHOSTLIGHT_DIES_AT", u64::MAX);
    let only = std::env::var("GHOSTLIGHT_ONLY").unwrap_or_default();
    let spec = strategies().into_iter().find(|(name, _)| *name == only);
    let mut agent = looking("function_calling", steps, bytes);
    if let Some((_, spec)) = spec {
        agent = agent.policy("context", move || {
            ContextOptimizer::new(spec.clone()).counted_by(Estimate)
        });
    }
    let reached = Arc::new(AtomicU64::new(0));
    let model = Steps {
        behavior: "function_calling",
        steps,
        hangs_at: dies_at,
        reached: reached.clone(),
        times: Arc::default(),
    };
    let builder = System::builder(SqliteStore::open(path).unwrap());
    let builder = builder.registry(behaviors::register(Registry::new()));
    let team = agent.into_team().unwrap();
    let system = builder.model("default", model).team(team).start();
    let system = system.await.unwrap();
    let open = system.runs(RunFilter::default()).await.unwrap();
    let run = match open.first() {
        Some(row) => system.run(row.run),
        None => {
            let session = system.session("desk", "session");
            session.send("look").await.unwrap()
        }
    };
    let done = async { run.outcome().await.unwrap().text().to_owned() };
    let dies = async {
        while reached.load(Relaxed) != dies_at {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let ended = tokio::select! {
        text = done => text,
        () = dies => "died".to_owned(),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().filter(|line| line.starts_with("Vm"));
    let memory = memory.filter(|line| line.contains("HWM") || line.contains("RSS"));
    println!("{ended} after {:?}", processor_time());
    memory.for_each(|line| println!("{line}"));
    std::process::exit(0);
}
