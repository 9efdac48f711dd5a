//! Code that blocks its thread holds up itself, and not the time of everybody else.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::InMemoryStore,
    run::{Agent, RunContext},
    vocabulary::Outcome,
};
use parking_lot::Mutex;

use crate::stage::{ask, text};

const TIMES: u32 = 10;

#[test]
fn timers_fire_while_a_function_blocks_its_thread() {
    for _ in 0..TIMES {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let blocks = Agent::from_fn("blocks", move |cx: RunContext| {
            let released = released.clone();
            async move {
                cx.sleep(Duration::from_millis(40)).await?;
                // The thread that waited for the timers of all is this one now.
                let _ = released.lock().recv();
                Ok(Outcome::answer("at last"))
            }
        });
        let sleeps = Agent::from_fn("sleeps", |cx: RunContext| async move {
            for _ in 0..10 {
                cx.sleep(Duration::from_millis(30)).await?;
            }
            Ok(Outcome::answer("rested"))
        });
        let (rested, has_rested) = mpsc::channel();
        let blocked = runtime.block_on(async {
            let system = System::builder(InMemoryStore::new())
                .team(blocks.into_team().unwrap())
                .team(sleeps.into_team().unwrap())
                .start()
                .await
                .unwrap();
            let sleeping = ask(&system, "sleeps", "go").await;
            tokio::spawn(async move { rested.send(text(&sleeping).await).unwrap() });
            ask(&system, "blocks", "go").await
        });
        // No timer of the runtime's would end a wait for what stands still.
        let heard = has_rested.recv_timeout(Duration::from_secs(300));
        drop(release);
        assert_ne!(heard, Err(RecvTimeoutError::Timeout), "time stood still");
        assert_eq!(heard.unwrap(), "rested");
        assert_eq!(runtime.block_on(text(&blocked)), "at last");
    }
}
