//! The cost of a step as the conversation grows: it must be the same, but for sending it.
//!
//! For tools that count, such as valgrind: `-- 1000 50` does 50 steps behind 1,000 messages and
//! nothing else. The difference of two numbers of steps is free of everything around them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{sync::Arc, time::Instant};

use ghostlight_actors::{
    actor::System,
    run::Agent,
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Message, Outcome},
};
use mimalloc::MiMalloc;
use parking_lot::Mutex;
use shared::{Quartiles, stepping};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many steps are timed at once, so that the conversation hardly grows meanwhile.
const STEPS: u32 = 50;
const LENGTHS: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 21;

/// Microseconds for each step behind a conversation of this length.
async fn steps_behind(length: usize, steps: u32) -> f64 {
    let took = Arc::new(Mutex::new(f64::NAN));
    let clock = took.clone();
    let agent = Agent::from_fn("stepper", move |cx| {
        let clock = clock.clone();
        async move {
            let mut conversation = cx.conversation();
            for number in 0..length {
                conversation.push(Message::user(format!("message {number} of many")));
            }
            // The run is not replayed, so it may look at the machine's clock here.
            let began = Instant::now();
            for _ in 0..steps {
                let answer = cx.model(cx.model_request(conversation.clone())).await?;
                conversation.push(answer.message.clone());
                for call in answer.calls() {
                    conversation.push(Message::results([cx.tool_unasked(call).await?]));
                }
            }
            *clock.lock() = began.elapsed().as_secs_f64() * 1e6 / f64::from(steps);
            Ok(Outcome::answer("done"))
        }
    });
    let agent = agent.tool(stepping::add_vat);
    let builder =
        System::builder(InMemoryStore::new()).model("default", stepping::Caller::default());
    let system = builder
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system
        .session("stepper", "s")
        .send(Turn::text("go"))
        .await
        .unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    system.stop().await.unwrap();
    *took.lock()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let asked: Vec<usize> = std::env::args()
        .filter_map(|text| text.parse().ok())
        .collect();
    if let [length, steps] = asked[..] {
        runtime.block_on(steps_behind(length, u32::try_from(steps).unwrap()));
        return;
    }
    let mut took = [const { Vec::new() }; LENGTHS.len()];
    for _ in 0..ROUNDS {
        for (place, length) in LENGTHS.into_iter().enumerate() {
            took[place].push(runtime.block_on(steps_behind(length, STEPS)));
        }
    }
    let [shortest, ..] = took.each_ref().map(|of| Quartiles::of(of.iter().copied()));
    for (length, took) in LENGTHS.into_iter().zip(took) {
        let took = Quartiles::of(took);
        let ratio = took.1 / shortest.1;
        println!("transcript_length, {length} messages: a step {took} µs, ratio {ratio:.2}");
    }
}
