//! Scenario 10 of the specification, and what it means in general.

use std::{collections::BTreeSet, time::Duration};

use ghostlight_memory::{Memory, MemoryKind, MemoryScope, NewMemory};
use proptest::prelude::*;

use crate::stage::once;

fn working(text: &str, importance: f64) -> NewMemory {
    NewMemory::of(MemoryKind::Working, text).importance(importance)
}

#[tokio::test(start_paused = true)]
async fn at_capacity_the_lowest_score_goes_pinned_stays_and_consolidating_twice_gives_one_copy() {
    once(|cx| async move {
        let memory = Memory::new("memory").working_capacity(3);
        let memory = memory.on(&cx, MemoryScope::Session);
        memory
            .add(working("apples are in the cellar", 0.1).pinned())
            .await?;
        memory.add(working("pears are in the kitchen", 0.9)).await?;
        memory.add(working("plums are in the attic", 0.2)).await?;
        // Asked with the new one, pears score 0.2·1.16, plums 0.2·0.88, and apples are pinned.
        let added = memory
            .add(working("cherries are in the garden", 0.5))
            .await?;
        assert_eq!(added.forgotten.len(), 1);
        let mut left = crate::stage::contents(&memory).await?;
        left.sort();
        assert_eq!(
            left,
            [
                "apples are in the cellar",
                "cherries are in the garden",
                "pears are in the kitchen"
            ]
        );
        let moved = memory.consolidate(0.7, Duration::ZERO).await?;
        assert_eq!(moved.len(), 1);
        assert!(memory.consolidate(0.7, Duration::ZERO).await?.is_empty());
        let stats = memory.stats().await?;
        assert_eq!(stats.items, 3);
        assert_eq!(stats.kinds[&MemoryKind::Episodic], 1);
        assert_eq!(stats.kinds[&MemoryKind::Working], 2);
        Ok(String::new())
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_scope_never_holds_more_than_its_bound_and_what_is_pinned_stays(
        items in prop::collection::vec((0.0..1.0f64, prop::bool::weighted(0.1), 0..6u32), 1..30),
        bound in 3usize..8,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all().start_paused(true).build().unwrap();
        runtime.block_on(once(move |cx| {
            let items = items.clone();
            async move {
                let memory = Memory::new("memory").capacity(bound);
                let memory = memory.on(&cx, MemoryScope::Session);
                let mut pinned = BTreeSet::new();
                for (number, (importance, pin, word)) in items.into_iter().enumerate() {
                    let text = format!("thing{number} of sort{word} number{}", number * 7);
                    let mut new = NewMemory::fact(text).importance(importance);
                    new.pinned = pin;
                    let added = memory.add(new).await?;
                    if pin { pinned.insert(added.item.id.clone()); }
                    let there: BTreeSet<String> =
                        memory.list([]).await?.into_iter().map(|item| item.id).collect();
                    // What came last and what is pinned is there; all else fits the bound.
                    assert!(there.contains(&added.item.id));
                    assert!(pinned.is_subset(&there));
                    assert!(there.len() <= bound.max(pinned.len() + 1));
                }
                Ok(String::new())
            }
        }));
    }
}
