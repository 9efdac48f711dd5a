//! A copy of a store is what the store was: open runs go on in it, and nothing is done a second time.

use futures_util::FutureExt as _;
use ghostlight_actors::{
    actor::{Run, System},
    contract::{
        Append, Batch, CopyError, DynStore as _, Expected, Inventory, ItemBody, Line, MailboxItem,
        RunFilter, RunRow, StateWrite, StoreHandle, copy_store,
    },
    run::{Agent, RunContext},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Effect, Message, Outcome, RunId, Scope, SessionId, Timestamp},
};
use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};

use crate::stage::{Stage, ask, call, pause, silent, text};

/// Pays, remembers it, asks whether to go on, and says what it remembers.
fn clerk(stage: &Stage) -> Agent {
    Agent::from_fn("clerk", |cx: RunContext| async move {
        cx.tools([call("1", "pay")]).await?;
        cx.state(Scope::Session).set("paid", &1).await?;
        cx.state(Scope::Session).set("draft", &1).await?;
        cx.state(Scope::Session).delete("draft").await?;
        let answer = cx.ask("Go on?").await?;
        let paid: Option<u32> = cx.state(Scope::Session).get("paid").await?;
        Ok(Outcome::answer(format!("{answer} {paid:?}")))
    })
    .tool(stage.tool("pay", Effect::Once, 1))
}

/// Answers the one question that a run asks.
async fn answer(run: &Run, answer: &str) {
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!(answer)).await.unwrap();
}

/// All that can be read of a store, but for positions.
async fn read(store: &StoreHandle) -> (Inventory, Vec<String>) {
    let inventory = store.inventory().await.unwrap();
    let mut texts = Vec::new();
    for row in store.runs(RunFilter::default()).await.unwrap() {
        texts.push(format!("{row:?}"));
        let tree = store.read_tree(row.root, 0, usize::MAX).await.unwrap();
        texts.extend(
            tree.iter()
                .map(|line| format!("{} {:?}", line.run, line.stored.line)),
        );
        let mailbox = store.mailbox(row.run.into()).await.unwrap();
        texts.push(format!("{mailbox:?}"));
    }
    for (journal, _) in &inventory.journals {
        let lines = store.read(journal.clone(), 0, usize::MAX).await.unwrap();
        texts.extend(
            lines
                .iter()
                .map(|stored| format!("{journal} {:?}", stored.line)),
        );
    }
    // A copy remembers that it once was not finished.
    let values = inventory
        .values
        .iter()
        .filter(|(scope, ..)| scope != "copy");
    for (scope, key, _) in values {
        let slot = store.state(scope.clone(), key.clone()).await.unwrap();
        texts.push(format!("{scope}/{key} {slot:?}"));
    }
    (inventory, texts)
}

/// A stage on which a run waits for an answer, and another has ended.
async fn waiting() -> (Stage, RunId) {
    let mut stage = Stage::alone();
    let system = stage.start(clerk(&stage)).await;
    let ended = system
        .session("clerk", "other")
        .send(Turn::text("go"))
        .await
        .unwrap();
    pause(100).await;
    answer(&ended, "well").await;
    assert_eq!(text(&ended).await, "\"well\" Some(1)");
    let run = ask(&system, "clerk", "go").await.id();
    pause(100).await;
    stage.crash(&system).await;
    // Two more processes had it, and died.
    for _ in 0..2 {
        let process = stage.store.another_process();
        process.claim(run.into(), false).await.unwrap();
        process.crash();
    }
    (stage, run)
}

#[tokio::test(start_paused = true)]
async fn an_open_run_goes_on_in_the_copy_and_nothing_is_done_twice() {
    let (mut stage, run) = waiting().await;
    let copy = InMemoryStore::new();
    let (from, to) = (
        StoreHandle::new(stage.store.clone()),
        StoreHandle::new(copy.clone()),
    );
    let copied = copy_store(&from, &to, |_| ()).await.unwrap();
    assert_eq!((copied.runs, copied.sessions), (2, 2));
    assert!(copied.entries >= 20 && copied.values >= 4, "{copied:?}");

    let (of_store, of_copy) = (read(&from).await, read(&to).await);
    assert_eq!(of_store.1, of_copy.1);
    assert_eq!(of_store.0.items, of_copy.0.items);
    assert_eq!(of_store.0.blobs, of_copy.0.blobs);
    assert_eq!(
        of_store.0.journals, of_copy.0.journals,
        "no epoch comes twice"
    );
    let epochs: Vec<u64> = of_store.0.journals.iter().map(|it| it.1).collect();
    assert!(epochs.iter().any(|epoch| *epoch >= 3), "{epochs:?}");
    to.close().await.unwrap();

    stage.store = copy.another_process();
    let system = stage.start(clerk(&stage)).await;
    let run = system.run(run);
    answer(&run, "yes").await;
    assert_eq!(text(&run).await, "\"yes\" Some(1)");
    assert_eq!(stage.log.count("pay"), 2, "once for each of the two runs");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_somebody_works_with_or_that_is_not_empty_is_refused() {
    let (stage, _) = waiting().await;
    let from = StoreHandle::new(stage.store.clone());
    let to = || StoreHandle::new(InMemoryStore::new());

    let other = StoreHandle::new(stage.store.another_process());
    let journal = from.inventory().await.unwrap().journals.remove(0).0;
    other.claim(journal, false).await.unwrap();
    let refused = copy_store(&from, &to(), |_| ()).await;
    assert!(
        matches!(refused, Err(CopyError::InUse { .. })),
        "{refused:?}"
    );
    other.close().await.unwrap();

    let full = to();
    full.claim(RunId::from_random(1).into(), false)
        .await
        .unwrap();
    let refused = copy_store(&from, &full, |_| ()).await;
    assert!(
        matches!(refused, Err(CopyError::NotEmpty { .. })),
        "{refused:?}"
    );

    // Somebody comes while it is copied, and goes again.
    let journal = from.inventory().await.unwrap().journals.remove(0).0;
    let late = StoreHandle::new(stage.store.another_process());
    let comes = |_| {
        let claimed = late.claim(journal.clone(), true).now_or_never();
        assert!(claimed.unwrap().is_ok());
    };
    let refused = copy_store(&from, &to(), comes).await;
    assert!(
        matches!(refused, Err(CopyError::Changed { .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_cut_short_is_refused_by_name_wherever_it_was_cut() {
    let (mut stage, _) = waiting().await;
    let from = StoreHandle::new(stage.store.clone());
    let counted = FaultyStore::new(InMemoryStore::new());
    copy_store(&from, &StoreHandle::new(counted.clone()), |_| ())
        .await
        .unwrap();
    let commits = counted.calls();
    assert!(commits > 5, "{commits}");
    stage.not_replayed("only copies of it are looked at");
    for call in 1..=commits {
        for strike in [Strike::Before, Strike::After] {
            let memory = InMemoryStore::new();
            let fault = Fault {
                call,
                strike,
                harm: Harm::Fail,
            };
            let cut = StoreHandle::new(FaultyStore::at_commit(memory.clone(), fault));
            let failed = copy_store(&from, &cut, |_| ()).await;
            assert!(matches!(failed, Err(CopyError::Store(_))), "{failed:?}");
            cut.close().await.unwrap();
            stage.store = memory.another_process();
            let is_whole = (call, strike) == (commits, Strike::After);
            let is_empty = (call, strike) == (1, Strike::Before);
            let cut = StoreHandle::new(stage.store.clone());
            let again = copy_store(&cut, &StoreHandle::new(InMemoryStore::new()), |_| ()).await;
            match again {
                Ok(_) => assert!(
                    is_whole || is_empty,
                    "a copy of what is left at {call} {strike:?}"
                ),
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains("unfinished copy of memory"), "{told}");
                }
            }
            let team = clerk(&stage).into_team().unwrap();
            let builder = System::builder(stage.store.clone());
            let started = builder.model("default", silent()).team(team).start().await;
            match started {
                Ok(system) => {
                    assert!(
                        is_whole || is_empty,
                        "cut at {call} {strike:?} and not refused"
                    );
                    system.stop().await.unwrap();
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains("unfinished copy of memory"), "{told}");
                    assert!(!is_whole && !is_empty, "{call} {strike:?}: {told}");
                }
            }
        }
    }
}

/// A database refuses a commit of more bytes than fit into one message.
#[tokio::test]
async fn long_entries_and_items_are_copied_a_few_megabytes_at_a_time() {
    let store = InMemoryStore::new();
    let text = json!("x".repeat(1 << 20)).to_string();
    let line = |at| Line {
        at: Timestamp(at),
        text: text.as_str().into(),
    };
    let session = SessionId {
        team: "team".into(),
        key: "s".into(),
    };
    let entries = Append::new(session.clone(), 0, 1, (0..40).map(line).collect());
    let mut batch = Batch::of(entries);
    for number in 0..40 {
        let note = ItemBody::Steer(Message::user(&*text));
        let item = MailboxItem::new(number.to_string(), Timestamp(1), note);
        batch.posts.push((session.clone().into(), item));
    }
    store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    store.close().await.unwrap();
    let from = StoreHandle::new(store.another_process());
    let to = StoreHandle::new(InMemoryStore::new());
    let (mut entries, mut commits) = (vec![0], 0);
    let copied = copy_store(&from, &to, |copied| {
        entries.push(copied.entries);
        commits += 1;
    });
    assert_eq!(copied.await.unwrap().entries, 40);
    let most = entries.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(most.unwrap() <= 5, "{entries:?}");
    assert!(commits > 20, "{commits} commits");
    assert_eq!(read(&from).await.1, read(&to).await.1);
}

/// Runs with so many entries and children, sessions, values and items.
async fn fill(
    store: &InMemoryStore,
    runs: &[(usize, u8)],
    sessions: &[usize],
    values: usize,
    items: usize,
) {
    let lines = |count: usize| -> Vec<Line> {
        let line = |number: usize| Line {
            at: Timestamp(number as u64),
            text: json!(number).to_string().into(),
        };
        (0..count).map(line).collect()
    };
    let mut batch = Batch::default();
    for (number, (entries, children)) in runs.iter().enumerate() {
        let root = RunId::from_random(number as u128 + 1);
        for child in 0..=*children {
            let run = match child {
                0 => root,
                _ => RunId::from_random((number as u128 + 1) << 64 | u128::from(child)),
            };
            let mut row = RunRow::new(run, "team", "agent");
            row.root = root;
            row.parent = (child > 0).then_some(root);
            // Several begin together.
            row.started_at = Timestamp(number as u64 / 2);
            batch
                .appends
                .push(Append::new(run, 0, 1, lines(entries + 1)).row(row));
        }
        for item in 0..items {
            let item = MailboxItem::new(
                item.to_string(),
                Timestamp(1),
                ItemBody::Steer(Message::user("note")),
            );
            batch.posts.push((root.into(), item));
        }
    }
    for (number, entries) in sessions.iter().enumerate() {
        let session = SessionId {
            team: "team".into(),
            key: number.to_string().into(),
        };
        batch
            .appends
            .push(Append::new(session, 0, 1, lines(*entries)));
    }
    for value in 0..values {
        batch.writes.push(StateWrite {
            scope: format!("scope {}", value % 7),
            key: value.to_string(),
            value: to_raw_value(&value).ok().filter(|_| value % 3 > 0),
            expected: Expected::Any,
        });
    }
    store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    let taken = (0..items).step_by(2);
    let taken = taken.map(|item| (RunId::from_random(1).into(), item.to_string()));
    let mut batch = Batch::default();
    batch.taken.extend(taken);
    store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Journals of any number and length, over the bounds of a page.
    #[test]
    fn any_store_is_copied_whole(
        runs in prop::collection::vec((0usize..2_500, 0u8..3), 1..4),
        sessions in prop::collection::vec(1usize..2_100, 0..3),
        values in 0usize..1_200,
        items in 0usize..1_200,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = InMemoryStore::new();
            fill(&store, &runs, &sessions, values, items).await;
            store.close().await.unwrap();
            let from = StoreHandle::new(store.another_process());
            let to = StoreHandle::new(InMemoryStore::new());
            copy_store(&from, &to, |_| ()).await.unwrap();
            assert_eq!(read(&from).await.1, read(&to).await.1);
        });
    }
}
