//! Work on goals: pending until a person says what they think of it.

use std::time::Duration;

use ghostlight_actors::{
    contract::StoreHandle,
    vocabulary::{Scope, SessionId},
};
use ghostlight_memory::{
    ACCOMPLISHMENT, Detail, Episode, EpisodeStatus, MemoryQuery, REACTION_TIME, Reacted, Reaction,
    StoredMemory,
};

use crate::stage::{Stage, after, agent, memory, send, session, user};

#[tokio::test(start_paused = true)]
async fn episodes_are_found_by_relevance_recency_and_importance() {
    after(&[0, 400], |cx, turn| async move {
        let memory = session(&cx);
        let done = |text: &str| Episode::new(text, EpisodeStatus::Success);
        if turn == 0 {
            memory
                .add_episode("wash the green plate", done("soap"), 0.5)
                .await?;
            return Ok(());
        }
        memory
            .add_episode("wash the green mug", done("water"), 0.5)
            .await?;
        memory
            .add_episode("pay the invoice", done("bank"), 1.0)
            .await?;
        let hits = memory
            .search(MemoryQuery::new("wash the green plate"))
            .await?;
        let goals: Vec<&str> = hits.iter().map(|hit| hit.item.content.as_str()).collect();
        // 1·(0.6·e^(−4) + 0.2) = 0.211 against 2/3·(0.6 + 0.2) = 0.533; what has nothing to do with it
        // is not found.
        assert_eq!(goals, ["wash the green mug", "wash the green plate"]);
        assert!((hits[0].score - 0.5333).abs() < 1e-3, "{}", hits[0].score);
        assert!((hits[1].score - 0.2110).abs() < 1e-3, "{}", hits[1].score);
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pending_episode_is_found_only_where_it_is_asked_for_and_confirmed_by_its_own_sender() {
    let stage = Stage::new();
    let clock = stage.clock.clone();
    let system = stage
        .start(agent(|cx| async move {
            let memory = user(&cx);
            if cx.input().content() == "find" {
                let proven = memory
                    .search(MemoryQuery::new("paint the wall").unseen())
                    .await?;
                let all = memory
                    .search(MemoryQuery::new("paint the wall").pending().unseen())
                    .await?;
                let status = all.first().map(|hit| match &hit.item.detail {
                    Some(Detail::Episode(episode)) => format!("{:?}", episode.status),
                    _ => "none".into(),
                });
                return Ok(format!(
                    "{} of {} {}",
                    proven.len(),
                    all.len(),
                    status.unwrap_or_default()
                ));
            }
            let episode = Episode::new("brush, then roller", EpisodeStatus::Pending);
            memory.add_episode("paint the wall", episode, 0.5).await?;
            Ok("painted".into())
        }))
        .await;
    let run = send(&system, "s", "ada", "paint").await;
    run.outcome().await.unwrap();
    let find = || async {
        let run = send(&system, "s", "ada", "find").await;
        run.outcome().await.unwrap().text().to_owned()
    };
    assert_eq!(find().await, "0 of 1 Pending");
    let id = SessionId {
        team: "desk".into(),
        key: "s".into(),
    };
    let store = StoreHandle::new(stage.store.clone());
    let stored = StoredMemory::new(store, memory(), &id, &Scope::User("ada".into()))
        .unwrap()
        .clock(clock);
    let sender = "chat:ada:room";
    assert_eq!(
        stored
            .sent(run.id(), "m1", sender, REACTION_TIME)
            .await
            .unwrap(),
        1
    );
    let react = |emoji: &'static str, who: &'static str, message: &'static str| {
        let stored = stored.clone();
        async move {
            stored
                .react(&Reaction::new(message, who, emoji))
                .await
                .unwrap()
        }
    };
    assert_eq!(react("👍", "chat:eve:room", "m1").await, Reacted::Foreign);
    assert_eq!(react("👍", sender, "m2").await, Reacted::Unknown);
    assert_eq!(react("🤔", sender, "m1").await, Reacted::Neutral);
    assert_eq!(find().await, "0 of 1 Pending");
    assert_eq!(
        react("👍🏽", sender, "m1").await,
        Reacted::Counted(EpisodeStatus::Success)
    );
    // An example in a later prompt, and no copy of it.
    assert_eq!(find().await, "1 of 1 Success");
    let done = || async {
        let query = MemoryQuery::new(format!("tag:{ACCOMPLISHMENT}")).pending();
        stored.search(&query).await.unwrap().len()
    };
    assert_eq!(done().await, 1, "it is an accomplishment");
    // The same one again is the same one; against a no it is a tie, with a heart a majority.
    assert_eq!(
        react("👍", sender, "m1").await,
        Reacted::Counted(EpisodeStatus::Success)
    );
    assert_eq!(
        react("👎", sender, "m1").await,
        Reacted::Counted(EpisodeStatus::Pending)
    );
    assert_eq!(done().await, 0, "and it is none where people disagree");
    assert_eq!(
        react("❤️", sender, "m1").await,
        Reacted::Counted(EpisodeStatus::Success)
    );
    let taken_back = Reaction::new("m1", sender, "❤").removed();
    assert_eq!(
        stored.react(&taken_back).await.unwrap(),
        Reacted::Counted(EpisodeStatus::Pending)
    );
    let taken_back = Reaction::new("m1", sender, "👍").removed();
    assert_eq!(
        stored.react(&taken_back).await.unwrap(),
        Reacted::Counted(EpisodeStatus::Failure)
    );
    assert_eq!(find().await, "1 of 1 Failure");
    tokio::time::advance(REACTION_TIME + Duration::from_secs(1)).await;
    assert_eq!(react("👍", sender, "m1").await, Reacted::Unknown);
    system.stop().await.unwrap();
}
