//! Many on one memory.

use futures_util::future::join_all;
use ghostlight_memory::{MemoryScope, NewMemory};

use crate::stage::{Stage, agent, memory, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_on_one_memory_lose_no_update() {
    let team = agent(|cx| async move {
        let said = cx.input().content().to_string();
        let memory = memory().on(&cx, MemoryScope::Team);
        if said == "list" {
            let items = memory.list([]).await?;
            let counter = items
                .iter()
                .find(|item| item.content.starts_with("count"))
                .unwrap();
            return Ok(format!(
                "{} {} {}",
                items.len(),
                counter.tags.len(),
                counter.accesses
            ));
        }
        // One of its own, and a tag and a use on one that is everybody's.
        memory
            .add(NewMemory::fact(format!("own fact{said} number{said}")))
            .await?;
        let shared = NewMemory::fact("count of all")
            .about("count")
            .tag(format!("by{said}"));
        let added = memory.add(shared).await?;
        memory.get(added.item.id.as_str()).await?;
        Ok("done".into())
    });
    let system = Stage::new().start(team).await;
    let runs = (0..12).map(|number| {
        let system = system.clone();
        async move {
            let run = send(&system, &format!("s{number}"), "ada", &number.to_string()).await;
            run.outcome().await.unwrap()
        }
    });
    join_all(runs).await;
    let run = send(&system, "last", "ada", "list").await;
    let told = run.outcome().await.unwrap().text().to_owned();
    assert_eq!(told, "13 12 12");
    system.stop().await.unwrap();
}
