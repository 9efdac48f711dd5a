//! Forks and rewound sessions have the memory of their conversation as it was.

use ghostlight_actors::{
    actor::{Fork, recording},
    contract::StoreHandle,
    run::replay,
};

use crate::stage::{Stage, agent, contents, fact, send, session};

fn remembering() -> ghostlight_actors::run::Agent {
    agent(|cx| async move {
        let memory = session(&cx);
        let said = cx.input().content().to_string();
        if said != "list" {
            memory.add(fact(&said).about("the lamp")).await?;
            memory.add(fact(&format!("turn of {said}"))).await?;
        }
        Ok(contents(&memory).await?.join(", "))
    })
}

#[tokio::test(start_paused = true)]
async fn a_rewound_session_remembers_what_it_did_then() {
    let stage = Stage::new();
    let system = stage.start(remembering()).await;
    for said in ["green", "blue"] {
        send(&system, "s", "ada", said)
            .await
            .outcome()
            .await
            .unwrap();
    }
    let told = send(&system, "s", "ada", "list")
        .await
        .outcome()
        .await
        .unwrap();
    assert_eq!(told.text(), "blue, turn of blue, turn of green");
    let hers = system.acting_for("ada");
    hers.session("desk", "s").rewind(1).await.unwrap();
    let told = send(&system, "s", "ada", "list")
        .await
        .outcome()
        .await
        .unwrap();
    assert_eq!(told.text(), "green, turn of green");
    // And it goes on from there.
    let told = send(&system, "s", "ada", "red")
        .await
        .outcome()
        .await
        .unwrap();
    assert_eq!(told.text(), "red, turn of green, turn of red");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fork_remembers_what_was_remembered_at_its_point_and_a_replay_reads_the_record() {
    let stage = Stage::new();
    let team = || remembering().into_team().unwrap();
    let system = stage.start(remembering()).await;
    send(&system, "s", "ada", "green")
        .await
        .outcome()
        .await
        .unwrap();
    let run = send(&system, "s", "ada", "blue").await;
    run.outcome().await.unwrap();
    // The fork does the second turn anew, without what it had written.
    let run = system.acting_for("ada").run(run.id());
    let fork = run.fork(Fork::at(1).input("red")).await.unwrap();
    let told = fork.outcome().await.unwrap();
    assert_eq!(told.text(), "red, turn of green, turn of red");
    // What was forked is as it was.
    let told = send(&system, "s", "ada", "list")
        .await
        .outcome()
        .await
        .unwrap();
    assert_eq!(told.text(), "blue, turn of blue, turn of green");
    let recording = recording(&StoreHandle::new(stage.store.clone()), run.id())
        .await
        .unwrap();
    let replayed = replay(&recording, &team().registry, None).unwrap();
    assert!(replayed.is_faithful(), "{replayed:?}");
    system.stop().await.unwrap();
}
