//! What a program decides in the memory's place, and why a task was kept or left out.

use ghostlight_memory::{
    Alike, DuplicateCheck, Memory, MemoryPatch, MemoryQuery, MemoryScope, NewMemory, TaskRecord,
    WriteDecision, WritePolicy,
};

use crate::stage::{contents, once, session};

const LONG: &str = "twenty characters and more";

#[tokio::test(start_paused = true)]
async fn the_decision_about_a_task_is_recorded_with_its_reason() {
    once(|cx| async move {
        let record = || TaskRecord::new(LONG, LONG, true);
        let memory = session(&cx);
        let left = memory.add_task(LONG, record(), 0.95).await?;
        assert_eq!((left.worth, left.item), (0.9, None));
        assert_eq!(left.reason, "it is worth 0.9, and at least 0.95 is kept");
        let kept = memory.add_task(LONG, record(), 0.5).await?;
        assert!(kept.item.is_some());
        assert_eq!(kept.reason, "it is worth 0.9, and 0.5 is enough");
        Ok(String::new())
    })
    .await;
}

/// Keeps what is about lamps.
struct Lamps;

impl WritePolicy for Lamps {
    fn decide(&self, summary: &str, _: &TaskRecord) -> WriteDecision {
        match summary.contains("lamp") {
            true => WriteDecision::store(7.0, "it is about lamps"),
            false => WriteDecision::leave(0.2, "it is not about lamps"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_ones_own_decides_which_tasks_are_kept() {
    once(|cx| async move {
        let memory = Memory::new("memory").write_policy(Lamps);
        let memory = memory.on(&cx, MemoryScope::Session);
        let kept = memory
            .add_task("find the lamp", TaskRecord::new("", "", false), 1.0)
            .await?;
        assert_eq!(kept.reason, "it is about lamps");
        // A score beyond its bounds is brought within them.
        assert_eq!(kept.item.map(|item| item.importance), Some(1.0));
        let left = memory
            .add_task("find the chair", TaskRecord::new(LONG, LONG, true), 0.0)
            .await?;
        assert_eq!(left.reason, "it is not about lamps");
        assert_eq!(contents(&memory).await?, ["find the lamp"]);
        Ok(String::new())
    })
    .await;
}

/// Two items are the same if they begin with the same word.
struct FirstWord;

impl DuplicateCheck for FirstWord {
    fn is_same(&self, pair: &Alike<'_>) -> bool {
        let first = |text: &str| text.split_whitespace().next().map(str::to_owned);
        first(&pair.new.content) == first(&pair.before.content)
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_of_ones_own_says_which_items_are_the_same() {
    once(|cx| async move {
        let memory = Memory::new("memory").duplicate_check(FirstWord);
        let memory = memory.on(&cx, MemoryScope::Session);
        memory.add(NewMemory::fact("key: under the mat")).await?;
        let added = memory.add(NewMemory::fact("key: with Ada now")).await?;
        assert!(added.merged);
        // The same words in another order are two things to this check.
        let added = memory.add(NewMemory::fact("now key: with Ada")).await?;
        assert!(!added.merged);
        assert_eq!(
            contents(&memory).await?,
            ["key: with Ada now", "now key: with Ada"]
        );
        let tasks = ["key please find it", "key somebody must look for it"];
        for task in tasks {
            memory
                .add_task(task, TaskRecord::new(LONG, LONG, true), 0.0)
                .await?;
        }
        assert_eq!(contents(&memory).await?.len(), 3);
        Ok(String::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_switched_off_is_kept_and_not_found_and_a_boost_changes_the_order() {
    once(|cx| async move {
        let memory = session(&cx);
        let lamp = memory.add(NewMemory::fact("the lamp is green")).await?.item;
        let other = memory
            .add(NewMemory::fact("the lamp hangs high"))
            .await?
            .item;
        let found = || async {
            let hits = session(&cx).search(MemoryQuery::new("lamp")).await?;
            let ids = hits.into_iter().map(|hit| hit.item.id);
            Ok::<_, ghostlight_actors::vocabulary::AgentError>(ids.collect::<Vec<_>>())
        };
        let boost = async |id, boost| {
            let mut change = MemoryPatch::default();
            change.boost = Some(boost);
            memory.update(id, change).await
        };
        boost(&other.id, 2.0).await?;
        assert_eq!(found().await?, [other.id.clone(), lamp.id.clone()]);
        boost(&lamp.id, 4.0).await?;
        assert_eq!(found().await?, [lamp.id.clone(), other.id.clone()]);
        let mut change = MemoryPatch::default();
        change.disabled = Some(true);
        memory.update(&other.id, change.clone()).await?;
        assert_eq!(found().await?, std::slice::from_ref(&lamp.id));
        assert_eq!(memory.list([]).await?.len(), 2);
        change.disabled = Some(false);
        memory.update(&other.id, change).await?;
        assert_eq!(found().await?.len(), 2);
        Ok(String::new())
    })
    .await;
}
