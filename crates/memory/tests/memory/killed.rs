//! A memory whose actor is killed.

use std::time::Duration;

use ghostlight_actors::actor::supervisor::Supervisor;
use ghostlight_memory::MemoryQuery;

use crate::stage::{Stage, agent, fact, send, session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_that_is_killed_in_the_middle_of_everything_loses_nothing() {
    let team = agent(|cx| async move {
        let memory = session(&cx);
        let mut seen = 0;
        for number in 0..60 {
            memory
                .add(fact(&format!("lamp number{number} of room{number}")))
                .await?;
            let found = memory
                .search(MemoryQuery::new(format!("number{number}")))
                .await?;
            seen += found
                .iter()
                .filter(|hit| hit.item.content.contains(&format!("number{number} ")))
                .count();
        }
        let items = memory.list([]).await?;
        let uses: u64 = items.iter().map(|item| item.accesses).sum();
        Ok(format!("{} {seen} {uses}", items.len()))
    });
    let system = Stage::new().start(team).await;
    let run = send(&system, "s", "ada", "go").await;
    let killer = {
        let system = system.clone();
        tokio::spawn(async move {
            let mut kills = 0u32;
            loop {
                tokio::time::sleep(Duration::from_millis(3)).await;
                let root = system.supervisor().unwrap();
                let Ok(Some(cell)) = root.find_child("memory memory").await else {
                    continue;
                };
                let above = Supervisor::from_actor(cell).unwrap();
                if let Ok(Some(memory)) = above.find_child("memory memory").await {
                    memory.kill();
                    kills += 1;
                }
                if kills == 40 {
                    return kills;
                }
            }
        })
    };
    let told = run.outcome().await.unwrap().text().to_owned();
    killer.abort();
    let kills = killer.await.unwrap_or(0);
    assert_eq!(told, "60 60 60", "after {kills} kills");
    system.stop().await.unwrap();
}
