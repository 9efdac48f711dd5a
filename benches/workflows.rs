//! What workflows cost over the delegations that they are made of, and what it takes to set up a
//! team from a file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use futures_util::future::join_all;
use ghostlight::{
    builtin, config,
    workflows::{END, StateGraph},
};
use ghostlight_actors::{
    actor::System,
    definition::BehaviorSpec,
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::Outcome,
};
use mimalloc::MiMalloc;
use serde_json::json;
use shared::{Round, alternately, round};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const ROUNDS: usize = 11;
const FANNED_OUT: u32 = 1_000;
const STAGES: u32 = 100;
const NODES: u32 = 1_000;
const AGENTS: u32 = 100;

fn members(desk: Agent, count: u32) -> Agent {
    (0..count).fold(desk, |desk, number| {
        desk.agent(Agent::from_fn(
            format!("m{number}"),
            |cx: RunContext| async move { Ok(Outcome::answer(cx.input().content())) },
        ))
    })
}

/// One run of this agent, for each of so many units.
fn run(runtime: &Runtime, units: u32, desk: Agent) -> Round {
    let system = runtime.block_on(async {
        let builder = System::builder(InMemoryStore::new()).registry(builtin());
        builder
            .team(desk.into_team().unwrap())
            .start()
            .await
            .unwrap()
    });
    let took = round(units, || {
        runtime.block_on(async {
            let run = system.session("desk", "s").send("go").await.unwrap();
            run.outcome().await.unwrap();
        });
    });
    runtime.block_on(system.stop()).unwrap();
    took
}

fn workflow(name: &str, settings: serde_json::Value) -> Agent {
    Agent::new("desk").behavior(BehaviorSpec::new(name).settings(settings))
}

fn fan_out(runtime: &Runtime) {
    let by_hand = || {
        Agent::from_fn("desk", |cx: RunContext| async move {
            let asked = (0..FANNED_OUT).map(|number| cx.delegate(format!("m{number}"), "go"));
            let ended = join_all(asked).await;
            Ok(Outcome::answer(ended.len().to_string()))
        })
    };
    alternately(
        ROUNDS,
        || run(runtime, FANNED_OUT, members(by_hand(), FANNED_OUT)),
        || {
            run(
                runtime,
                FANNED_OUT,
                members(workflow("parallel", json!({})), FANNED_OUT),
            )
        },
    )
    .print("workflows, parallel over 1,000 agents, each");
}

fn pipeline(runtime: &Runtime) {
    let by_hand = || {
        Agent::from_fn("desk", |cx: RunContext| async move {
            let mut text = cx.input().content();
            for number in 0..STAGES {
                text = cx.delegate(format!("m{number}"), text).await?.text;
            }
            Ok(Outcome::answer(text))
        })
    };
    alternately(
        ROUNDS,
        || run(runtime, STAGES, members(by_hand(), STAGES)),
        || {
            run(
                runtime,
                STAGES,
                members(workflow("pipeline", json!({})), STAGES),
            )
        },
    )
    .print("workflows, a pipeline of 100 agents, each");
}

fn graph(runtime: &Runtime) {
    let by_hand = || {
        Agent::from_fn("desk", |cx: RunContext| async move {
            for number in 0..NODES {
                cx.emit("node", &json!({ "node": number, "step": number }));
            }
            Ok(Outcome::answer("done"))
        })
    };
    let walked = || {
        let graph = (0..NODES).fold(StateGraph::new("n0").max_steps(NODES), |graph, number| {
            let next = if number + 1 == NODES {
                END.to_owned()
            } else {
                format!("n{}", number + 1)
            };
            graph
                .node(format!("n{number}"), |_, count: u32| async move {
                    Ok(count + 1)
                })
                .edge(format!("n{number}"), next)
        });
        let graph = graph.compile().unwrap();
        Agent::new("desk").behavior(graph.into_behavior(|_| 0, |count| count.to_string()))
    };
    alternately(
        ROUNDS,
        || run(runtime, NODES, by_hand()),
        || run(runtime, NODES, walked()),
    )
    .print("workflows, a graph of 1,000 nodes that do nothing, each");
}

/// The floor only reads the file.
fn from_file(runtime: &Runtime) {
    let agents: String = (0..AGENTS)
        .map(|number| format!("    - {{ name: a{number}, instructions: Do your part. }}\n"))
        .collect();
    let text =
        format!("agent:\n  name: desk\n  behavior: {{ name: sequential }}\n  agents:\n{agents}");
    let path = std::env::temp_dir().join(format!("ghostlight-{}.yaml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    alternately(
        ROUNDS,
        || {
            round(1, || {
                std::fs::read_to_string(&path).unwrap();
            })
        },
        || {
            round(1, || {
                runtime.block_on(async {
                    let file = config::load(&path).unwrap();
                    let system = System::builder(InMemoryStore::new())
                        .registry(file.resolve(builtin()).unwrap())
                        .model("default", ScriptedModel::hanging())
                        .team(file.into_spec())
                        .start()
                        .await
                        .unwrap();
                    system.stop().await.unwrap();
                });
            })
        },
    )
    .print("workflows, a team of 100 agents from its file to its System, started and stopped");
    std::fs::remove_file(&path).unwrap();
}

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    fan_out(&runtime);
    pipeline(&runtime);
    graph(&runtime);
    from_file(&runtime);
}
