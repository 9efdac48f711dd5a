//! What is forgotten, and what never is.

use ghostlight_memory::{
    Detail, Forget, Forgetting, LearningCategory, MemoryKind, MemoryQuery, MemoryScope, NewMemory,
};
use proptest::prelude::*;

use crate::stage::{after, contents, fact, memory, once, session};

#[tokio::test(start_paused = true)]
async fn each_strategy_forgets_what_it_says_and_nothing_pinned() {
    after(&[0, 49, 2], |cx, turn| async move {
        let memory = session(&cx);
        if turn == 0 {
            memory.add(fact("old and dull").importance(0.1)).await?;
            memory
                .add(fact("pinned and dull").importance(0.0).pinned())
                .await?;
            return Ok(());
        }
        if turn == 2 {
            assert!(memory.search(MemoryQuery::new("hour")).await?.is_empty());
            assert_eq!(memory.forget(Forget::Expired).await?.len(), 1);
            memory.forget(Forget::Capacity { keep: 1 }).await?;
            let left = contents(&memory).await?;
            assert_eq!(left, ["pinned and dull", "young but weighty"]);
            return Ok(());
        }
        memory.add(fact("new but dull").importance(0.2)).await?;
        memory
            .add(fact("young but weighty").importance(1.0))
            .await?;
        let hour = NewMemory::of(MemoryKind::Working, "for an hour").expires_in_s(3600);
        memory.add(hour).await?;
        let dry = |what: Forget| Forgetting::from(what).dry_run();
        let told = memory
            .forget(dry(Forget::Importance { below: 0.3 }))
            .await?;
        assert_eq!(told.len(), 2);
        assert_eq!(memory.list([]).await?.len(), 5, "a dry run does nothing");
        let old = Forget::Age {
            older_than_hours: 48.0,
        };
        let told = memory.forget(dry(old)).await?;
        assert_eq!(told[0].content, "old and dull");
        let told = memory.forget(dry(Forget::Unused { below: 0.3 })).await?;
        assert_eq!(told.len(), 1);
        let told = memory.forget(dry(Forget::Capacity { keep: 2 })).await?;
        let told: Vec<&str> = told.iter().map(|item| item.content.as_str()).collect();
        assert_eq!(told, ["old and dull", "new but dull"]);
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_used_is_remembered_longer() {
    after(&[0, 25], |cx, turn| async move {
        let memory = session(&cx);
        if turn == 0 {
            memory.add(fact("the lamp is green")).await?;
            memory.add(fact("the chair is brown")).await?;
            for _ in 0..5 {
                memory.search(MemoryQuery::new("lamp")).await?;
            }
            return Ok(());
        }
        // After 25 hours e^(−1.0417/0.75) = 0.249 of the chair is left, and 0.608 of the lamp.
        let gone = memory.forget(Forget::Unused { below: 0.3 }).await?;
        let gone: Vec<&str> = gone.iter().map(|item| item.content.as_str()).collect();
        assert_eq!(gone, ["the chair is brown"]);
        Ok(())
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn forgetting_keeps_the_pinned_and_is_done_after_once(
        items in prop::collection::vec((0.0..1.0f64, any::<bool>()), 1..12),
        keep in 0usize..6,
        below in 0.0..1.0f64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all().start_paused(true).build().unwrap();
        runtime.block_on(once(move |cx| {
            let items = items.clone();
            async move {
                let memory = session(&cx);
                let pinned = items.iter().filter(|(_, pin)| *pin).count();
                for (number, (importance, pin)) in items.into_iter().enumerate() {
                    let mut new = fact(&format!("thing{number} is sort{number}")).importance(importance);
                    new.pinned = pin;
                    memory.add(new).await?;
                }
                for what in [Forget::Importance { below }, Forget::Capacity { keep }] {
                    memory.forget(what).await?;
                    assert!(memory.forget(what).await?.is_empty());
                }
                let left = memory.list([]).await?;
                assert_eq!(left.iter().filter(|item| item.pinned).count(), pinned);
                let free = left.iter().filter(|item| !item.pinned);
                assert!(free.clone().count() <= keep);
                assert!(free.into_iter().all(|item| item.importance >= below));
                Ok(String::new())
            }
        }));
    }
}

/// Five failures in which a learning was cited show that it does not help, but those of one person take nothing from the
/// others.
#[tokio::test(start_paused = true)]
async fn failures_take_a_learning_from_its_own_scope_alone_and_no_code_is_given_again() {
    once(|cx| async move {
        for (scope, goes) in [
            (MemoryScope::Session, true),
            (MemoryScope::User, true),
            (MemoryScope::Team, false),
        ] {
            let memory = memory().on(&cx, scope);
            let learn = async |what: &str| {
                let item = memory
                    .add_learning(LearningCategory::Strategies, what)
                    .await?;
                let Some(Detail::Learning(learning)) = item.and_then(|item| item.detail) else {
                    panic!("it is no learning");
                };
                Ok::<_, ghostlight_actors::vocabulary::AgentError>(learning.code)
            };
            let code = learn("Ask twice before deleting anything.").await?;
            for failure in 1..=5 {
                let credited = memory.credit(format!("by [{code}]"), false).await?;
                assert_eq!(credited.cited, std::slice::from_ref(&code), "{scope:?}");
                let is_over = goes && failure == 5;
                assert_eq!(!credited.pruned.is_empty(), is_over, "{scope:?} {failure}");
            }
            let left = contents(&memory).await?;
            assert_eq!(left.is_empty(), goes, "{scope:?}");
            let next = learn("Print invoices on Mondays.").await?;
            assert_ne!(next, code, "{scope:?}");
        }
        Ok(String::new())
    })
    .await;
}
