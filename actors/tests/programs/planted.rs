//! The checks themselves: each finds a fault that is planted into a world that keeps every promise.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use ghostlight_actors::{
    testing::EffectLog,
    vocabulary::{Effect, Entry, Timestamp},
};

use crate::{
    drawing::Draw,
    lives::{World, live_all},
    promises,
    team::team,
};

#[derive(Clone, Copy, Debug)]
enum Fault {
    OnceCallRepeated,
    RecordedCallRepeated,
    CancellationForgotten,
    OtherCode,
}

/// Plants the fault. `false` where this world has no place for it.
async fn plant(fault: Fault, world: &mut World) -> bool {
    match fault {
        Fault::OnceCallRepeated => {
            let effects = world.log.effects();
            let once = effects.iter().find(|begun| begun.effect == Effect::Once);
            let Some(once) = once else { return false };
            let (key, name) = (once.key.clone(), once.name.clone());
            repeat(&world.log, key, &name, Effect::Once).await;
        }
        Fault::RecordedCallRepeated => {
            let Some((_, recorded)) = world.recorded.last() else {
                return false;
            };
            let Some(key) = recorded.first().cloned() else {
                return false;
            };
            repeat(&world.log, key, "put", Effect::Idempotent).await;
        }
        Fault::CancellationForgotten => {
            let mut uncancelled = None;
            for row in world.rows().await {
                let entries = world.entries(row.run).await;
                let asked = |entry: &Entry| matches!(entry, Entry::CancelRequested { .. });
                uncancelled = uncancelled.or((!entries.iter().any(asked)).then_some(row.run));
            }
            let Some(run) = uncancelled else { return false };
            world.cancelled.push((run, Timestamp(0)));
        }
        Fault::OtherCode => {
            let mut plan = world.plan.clone();
            plan.lead = Draw::new(u64::MAX).plan().lead;
            let team = team(&plan, &EffectLog::new(), true).into_team().unwrap();
            world.code = vec![team.registry];
        }
    }
    true
}

async fn repeat(log: &EffectLog, key: String, name: &str, effect: Effect) {
    log.perform(key, name, effect, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn each_check_finds_a_planted_fault() {
    for fault in [
        Fault::OnceCallRepeated,
        Fault::RecordedCallRepeated,
        Fault::CancellationForgotten,
        Fault::OtherCode,
    ] {
        let mut planted = 0;
        for seed in 0..4 {
            let mut world = live_all(seed, false).await;
            if plant(fault, &mut world).await {
                planted += 1;
                let checked = AssertUnwindSafe(promises::check(&mut world)).catch_unwind();
                assert!(checked.await.is_err(), "{fault:?}, seed {seed}: not seen");
            }
        }
        assert!(planted > 0, "{fault:?} was never planted");
    }
}
