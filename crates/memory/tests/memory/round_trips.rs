//! How often a write asks the store.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::StoreHandle,
    testing::{FaultyStore, InMemoryStore},
};

use crate::stage::{agent, fact, send, session};

#[tokio::test(start_paused = true)]
async fn a_new_item_costs_one_read_and_one_commit() {
    let store = FaultyStore::counting_calls(InMemoryStore::new());
    let team = agent(|cx| async move {
        let memory = session(&cx);
        let count: usize = cx.input().content().parse().unwrap();
        for number in 0..count {
            let lamp = format!("lamp number{number} of room{number}");
            memory.add(fact(&lamp)).await?;
        }
        Ok(memory.list([]).await?.len().to_string())
    });
    let mut limits = SystemOptions::default();
    limits.poll_interval = Duration::from_secs(600);
    let system = System::builder(StoreHandle::new(store.clone()))
        .options(limits)
        .team(team.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let mut calls = Vec::new();
    for count in [1, 11, 111] {
        let before = store.calls();
        let run = send(&system, &format!("s{count}"), "ada", &count.to_string()).await;
        assert_eq!(run.outcome().await.unwrap().text(), count.to_string());
        calls.push(store.calls() - before);
    }
    // The head of the scope is read, and the item, its head and the entries are one commit.
    let of_hundred = calls[2] - calls[1];
    assert!((195..=205).contains(&of_hundred), "{calls:?}");
    system.stop().await.unwrap();
}
