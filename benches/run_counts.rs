//! What a run in process asks of the allocator: how often, and how many bytes. Counts do not depend
//! on what else the machine does, so one run of this program tells as much as many.
//!
//! A run is four model calls and three tool calls by the default behavior, each run in a session of
//! its own, or all in one; a typed one answers with a value. The floor is the same work by hand.
//!
//! For tools that count, such as valgrind: `-- new 300` does 300 runs and nothing else, `-- same 300`
//! in one session, `-- typed 300` with values as answers, `-- floor 300` by hand. The difference of two
//! lengths is free of the start and the stop.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::alloc::System as Allocator;

use ghostlight_actors::{
    actor::System,
    contract::{Model, ModelContext, ModelError, ModelHandle},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{ModelRequest, ModelResponse},
};
use schemars::JsonSchema;
use shared::stepping;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Allocator> = &INSTRUMENTED_SYSTEM;

/// The runs before the counted ones, in which caches and tables grow.
const BEFORE: u32 = 300;
const COUNTED: u32 = 300;

/// What a typed answer says.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is read")]
struct Gross {
    gross: f64,
}

/// The text of such an answer.
const TYPED: &str = r#"{"gross":95.2}"#;

/// A model whose answer is a value.
struct Typed;

impl Model for Typed {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let answer = stepping::answer(&request.conversation);
        Ok(match answer.calls().is_empty() {
            true => ModelResponse::text(TYPED),
            false => answer,
        })
    }
}

/// Begins after so many runs, and goes on until all are done.
fn ours(runtime: &Runtime, side: &str, before: u32, counted: u32) -> (usize, usize) {
    let (same, typed) = (side == "same", side == "typed");
    let said = if typed { TYPED } else { stepping::ANSWER };
    let system = runtime.block_on(async {
        let builder = System::builder(InMemoryStore::new());
        let agent = stepping::default_agent("desk");
        let (builder, agent) = match typed {
            true => (builder.model("default", Typed), agent.output::<Gross>()),
            false => (builder.model("default", stepping::Answering), agent),
        };
        let team = agent.into_team().unwrap();
        let builder = builder.registry(ghostlight::builtin()).team(team);
        builder.start().await.unwrap()
    });
    let runs = |from: u32, to: u32| {
        let system = system.clone();
        runtime.block_on(async {
            let said = async move {
                for number in from..to {
                    let key = if same { 0 } else { number };
                    let session = system.session("desk", key.to_string());
                    let turn = Turn::text(stepping::QUESTION);
                    let run = session.send(turn).await.unwrap();
                    assert_eq!(run.outcome().await.unwrap().text(), said);
                }
            };
            tokio::spawn(said).await.unwrap();
        });
    };
    let counted = count(|| runs(0, before), || runs(before, before + counted));
    runtime.block_on(system.stop()).unwrap();
    counted
}

fn floor(runtime: &Runtime, before: u32, counted: u32) -> (usize, usize) {
    let model = ModelHandle::new(stepping::Answering);
    let runs = |many: u32| {
        runtime.block_on(async {
            for _ in 0..many {
                stepping::by_hand(&model).await;
            }
        });
    };
    count(|| runs(before), || runs(counted))
}

/// How often memory was asked for, and how many bytes.
fn count(before: impl FnOnce(), counted: impl FnOnce()) -> (usize, usize) {
    before();
    let region = Region::new(ALLOCATOR);
    counted();
    let change = region.change();
    let grown = change.bytes_reallocated.max(0) as usize;
    (
        change.allocations + change.reallocations,
        change.bytes_allocated + grown,
    )
}

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let [side, runs, ..] = asked.as_slice()
        && let Ok(runs) = runs.parse()
    {
        match side.as_str() {
            "floor" => floor(&runtime, 0, runs),
            side => ours(&runtime, side, 0, runs),
        };
        return;
    }
    let print = |what: &str, (times, bytes): (usize, usize)| {
        let each = |all: usize| all as f64 / f64::from(COUNTED);
        let (times, bytes) = (each(times), each(bytes));
        println!("{what}: {times:.1} allocations, {bytes:.0} bytes a run");
    };
    print("by hand", floor(&runtime, BEFORE, COUNTED));
    print("a new session each", ours(&runtime, "new", BEFORE, COUNTED));
    print("one session", ours(&runtime, "same", BEFORE, COUNTED));
    print("typed answers", ours(&runtime, "typed", BEFORE, COUNTED));
}
