//! The same work by a bare loop, by Rig and by Ghostlight, in turns in one process: one question, four
//! calls of a model over HTTP to a server on this machine, three calls of a tool, one answer. Rig and the
//! bare loop keep nothing; Ghostlight keeps the journal of each run in memory, in a session of its own.
//!
//! `cargo run --release` in this folder prints a line for each of them, `-- 100` for so many at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../shared/http.rs"]
mod http;
#[allow(dead_code)]
#[path = "../../shared/mod.rs"]
mod shared;

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::{StreamExt, stream};
use ghostlight::models::OpenAi;
use ghostlight_actors::{actor::System, session::Turn, testing::InMemoryStore};
use mimalloc::MiMalloc;
use rig_agent::{Agent, AgentBuilder, tool::Tool};
use rig_core::{providers::openai::OpenAIConfig, tool::ToolContext};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{Quartiles, Round, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many rounds of each are taken, after one that does not count.
const ROUNDS: usize = 31;

/// The tool, as Rig wants it.
struct AddVat;

#[derive(Deserialize)]
struct Vat {
    net: f64,
    percent: f64,
}

impl Tool for AddVat {
    const NAME: &'static str = "add_vat";
    type Args = Vat;
    type Output = f64;
    type Error = Infallible;

    fn description(&self) -> String {
        "Adds VAT to a net price.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"net": {"type": "number"}, "percent": {"type": "number"}},
            "required": ["net", "percent"],
        })
    }

    async fn call(&self, _: &mut ToolContext, vat: Vat) -> Result<f64, Infallible> {
        Ok(stepping::gross(vat.net, vat.percent))
    }
}

fn rig(address: &str) -> Agent {
    let server = OpenAIConfig::new("none").with_base_url(address).client();
    AgentBuilder::new(server.chat(http::MODEL))
        .preamble(stepping::INSTRUCTIONS)
        .tool(AddVat)
        .default_max_turns(8)
        .build()
}

async fn ghostlight(address: &str) -> System {
    let team = stepping::default_agent("desk").into_team().unwrap();
    System::builder(InMemoryStore::new())
        .model("default", OpenAi::new(http::MODEL).base_url(address))
        .registry(ghostlight::builtin())
        .team(team)
        .start()
        .await
        .unwrap()
}

/// So many runs of what this begins, some of them at once; the time is for each.
fn rounds<F>(runtime: &Runtime, at_once: usize, runs: u32, begin: impl Fn() -> F) -> Round
where
    F: Future<Output = ()> + Send + 'static,
{
    round(runs, || {
        runtime.block_on(async {
            let runs = stream::iter(0..runs).map(|_| {
                let run = begin();
                async move { tokio::spawn(run).await.unwrap() }
            });
            runs.buffer_unordered(at_once).collect::<()>().await;
        });
    })
}

fn main() {
    let at_once = std::env::args()
        .nth(1)
        .map_or(1, |at_once| at_once.parse().unwrap());
    let runs = if at_once == 1 { 20 } else { 4 * at_once as u32 };
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let address = format!("http://{}/v1", http::serve());
    let (client, tools) = (http::client(&address), http::tools());
    let (agent, system) = runtime.block_on(async { (rig(&address), ghostlight(&address).await) });
    let sessions = AtomicU64::new(0);
    let names = ["bare loop", "Rig", "Ghostlight"];
    let mut taken: [Vec<Round>; 3] = Default::default();
    for number in 0..=ROUNDS {
        let these = [
            rounds(&runtime, at_once, runs, || {
                let (client, tools) = (client.clone(), tools.clone());
                async move { http::bare(&client, &tools).await }
            }),
            rounds(&runtime, at_once, runs, || {
                let agent = agent.clone();
                async move {
                    let answer = agent.prompt(stepping::QUESTION).await.unwrap();
                    assert_eq!(answer.output(), stepping::ANSWER);
                }
            }),
            rounds(&runtime, at_once, runs, || {
                let key = sessions.fetch_add(1, Ordering::Relaxed).to_string();
                let session = system.session("desk", key);
                async move {
                    let run = session.send(Turn::text(stepping::QUESTION)).await.unwrap();
                    assert_eq!(run.outcome().await.unwrap().text(), stepping::ANSWER);
                }
            }),
        ];
        if number > 0 {
            taken
                .iter_mut()
                .zip(these)
                .for_each(|(taken, this)| taken.push(this));
        }
    }
    let wall = |rounds: &[Round]| Quartiles::of(rounds.iter().map(|round| round.wall));
    let processor =
        |rounds: &[Round]| Quartiles::of(rounds.iter().filter_map(|round| round.processor));
    println!("{at_once} at once, microseconds a run, median (quartiles)");
    let floor = (wall(&taken[0]), processor(&taken[0]));
    for (name, rounds) in names.iter().zip(&taken) {
        let (wall, processor) = (wall(rounds), processor(rounds));
        println!(
            "{name}: wall {wall}, {:.2} of the bare loop; processor {processor}, {:.2} of it",
            wall.1 / floor.0.1,
            processor.1 / floor.1.1
        );
    }
    runtime.block_on(system.stop()).unwrap();
}
