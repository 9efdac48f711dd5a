//! The promises that are checked at the end of each seed. Two others are checked in the last life itself
//! (`World::come_to_an_end`): every run ends, and none is parked.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ghostlight_actors::{
    contract::DynStore,
    vocabulary::{Effect, Entry, JournalId},
};

use crate::{
    lives::World,
    records::{check_conversations, check_journals},
};

/// How long a run that is not disturbed may take to hear of its cancellation.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

pub(crate) async fn check(world: &mut World) {
    every_cancellation_is_carried_out(world).await;
    nothing_said_is_heard_twice(world).await;
    no_once_effect_happens_twice(world);
    nothing_recorded_is_done_again(world);
    check_conversations(&world.store);
    check_journals(&world.store, std::mem::take(&mut world.code));
}

fn no_once_effect_happens_twice(world: &World) {
    let mut begun: BTreeMap<String, u32> = BTreeMap::new();
    for effect in world.log.effects() {
        if effect.effect == Effect::Once {
            *begun.entry(effect.key).or_default() += 1;
        }
    }
    begun.retain(|_, times| *times > 1);
    assert!(begun.is_empty(), "these happened more than once: {begun:?}");
}

/// A run may come to its end before it hears of its cancellation.
async fn every_cancellation_is_carried_out(world: &World) {
    for (run, told) in &world.cancelled {
        let entries = world.entries(*run).await;
        let is_recorded = |entry: &Entry| matches!(entry, Entry::CancelRequested { .. });
        let lines = world.store.read(JournalId::Run(*run), 0, usize::MAX).await;
        let ended = lines.unwrap().last().map(|last| last.line.at.since(*told));
        assert!(
            entries.iter().any(is_recorded) || ended.is_none_or(|after| after < HEARD_WITHIN),
            "{run} was cancelled and went on to {:?}",
            entries.last()
        );
    }
}

/// By one run: a run and the runs below it hear the same words each for itself.
async fn nothing_said_is_heard_twice(world: &World) {
    for row in world.rows().await {
        let mut heard = BTreeSet::new();
        for entry in world.entries(row.run).await {
            if let Entry::TurnHeard { turn, .. } = entry {
                assert!(heard.insert(turn.clone()), "{} heard {turn} twice", row.run);
            }
        }
    }
}

fn nothing_recorded_is_done_again(world: &World) {
    let effects = world.log.effects();
    for (begun, recorded) in &world.recorded {
        let again: Vec<_> = effects[*begun..]
            .iter()
            .filter(|effect| recorded.contains(&effect.key))
            .collect();
        assert!(again.is_empty(), "done again: {again:?}");
    }
}

/// The keys of the effects whose results the journals hold.
pub(crate) async fn recorded_keys(world: &World) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for row in world.rows().await {
        for entry in world.entries(row.run).await {
            let Entry::Completed { op, result, .. } = entry else {
                continue;
            };
            keys.insert(format!("{}/{op}", row.run));
            let result: serde_json::Value = serde_json::from_str(result.get()).unwrap();
            keys.extend(result["Ok"].as_str().map(str::to_owned));
        }
    }
    keys
}
