//! The promises that are checked at the end of each seed. Two others are checked in the last life itself
//! (`World::come_to_an_end`): every run ends, and none is parked.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::vocabulary::{Effect, Entry};

use crate::{
    lives::World,
    records::{check_conversations, check_journals},
};

pub(crate) fn check(world: &mut World) {
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
