//! A mailbox in a file is read once, however much waits.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::System,
    contract::{DynStore, ItemBody, MailboxItem, StoreError},
    run::{Agent, RunContext, operations::AgentMessage},
    vocabulary::{JournalId, Message, Outcome, Timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{folder::Folder, run};

const MANY: u64 = 10_000;
/// How many are told at once, so that they share commits.
const AT_ONCE: u64 = 500;

#[derive(Serialize, Deserialize)]
struct Number(u64);

impl AgentMessage for Number {
    const NAME: &'static str = "number";
}

/// The bound is for a debug build on a busy machine; to look at all that waits for each message
/// takes minutes.
#[tokio::test]
async fn ten_thousand_messages_in_a_file_are_received_one_by_one_in_seconds() {
    let folder = Folder::new();
    let counter = Agent::from_fn("counter", |cx: RunContext| async move {
        let mut sum = 0;
        for _ in 0..MANY {
            let Number(number) = cx.receive().await?;
            sum += number;
        }
        Ok(Outcome::answer(sum.to_string()))
    });
    let system = System::builder(SqliteStore::open(folder.store()).unwrap())
        .team(counter.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let begun = Instant::now();
    let run = system.session("counter", "s").send("go").await.unwrap();
    for from in (0..MANY).step_by(AT_ONCE as usize) {
        let numbers: Vec<Number> = (from..from + AT_ONCE).map(Number).collect();
        let told = join_all(numbers.iter().map(|number| run.tell(number))).await;
        told.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    }
    let sum = run.outcome().await.unwrap().text().to_owned();
    assert_eq!(sum, (MANY * (MANY - 1) / 2).to_string());
    let took = begun.elapsed();
    println!("{MANY} messages in a file took {took:?}");
    assert!(took < Duration::from_secs(60), "it took {took:?}");
}

#[tokio::test]
async fn a_damaged_item_keeps_no_other_mailbox_from_being_told() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let of = |number: u8| JournalId::Run(run(number));
    for number in 1..=4 {
        let item = MailboxItem::new("i", Timestamp(7), ItemBody::Steer(Message::user("note")));
        store.post(of(number), item).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let damage = format!(
        "UPDATE inbox SET body = '{{\"dreamt\":1}}' WHERE run = '{}'; \
         UPDATE inbox SET run = 'nobody' WHERE run = '{}';",
        run(1),
        run(2)
    );
    connection.execute_batch(&damage).unwrap();
    drop(connection);
    let store = SqliteStore::open(folder.store()).unwrap();
    for (after, told) in [(0, vec![of(1), of(3), of(4)]), (1, vec![of(3), of(4)])] {
        let (mark, mut mailboxes) = store.posted(after).await.unwrap();
        mailboxes.sort();
        assert_eq!((mark, mailboxes), (4, told));
    }
    assert_eq!(store.mailbox(of(3)).await.unwrap().len(), 1);
    let damaged = store.mailbox(of(1)).await.unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
}
