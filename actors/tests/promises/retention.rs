//! Ended runs go after their time, and nothing that is still wanted goes with them.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Retention, System, SystemError},
    contract::{
        Deleted, DynDeletion, DynStore, InMemoryStore, MailboxItem, RunStatus, StoreError,
        StoreWrapper,
    },
    run::{Agent, RunContext, Task},
    session::Turn,
    vocabulary::{AgentError, JournalId, Outcome, ParentPolicy, RunId, SessionId, Timestamp},
};

use crate::stage::{Stage, outcome, pause, silent, text};

const HOUR: u64 = 3_600_000;

/// Answers with how much was said before; waits, fails or asks another agent where it is told to.
fn clerk() -> Agent {
    let helper = Agent::from_fn("helper", |_: RunContext| async move {
        Ok(Outcome::answer("helped"))
    });
    Agent::from_fn("clerk", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "wait" => {
                cx.ask("Go on?").await?;
            }
            "crash" => panic!("as told"),
            "delegate" => {
                cx.delegate("helper", "help").await?;
            }
            _ => {}
        }
        Ok(Outcome::answer(
            cx.conversation().messages().len().to_string(),
        ))
    })
    .agent(helper)
}

/// A stage on which hours pass quickly.
fn unhurried() -> Stage {
    let mut stage = Stage::new();
    stage.limits.poll_interval = Duration::from_secs(600);
    stage
}

fn is_deleted(error: &SystemError) -> bool {
    matches!(error, SystemError::Store(StoreError::Deleted { .. }))
}

/// A store that deletes nothing.
struct Archive(InMemoryStore);

impl StoreWrapper for Archive {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_deletes_nothing_says_so_and_loses_nothing() {
    let stage = unhurried();
    let system = System::builder(Archive(stage.store.clone()))
        .options(stage.limits)
        .model("default", silent())
        .team(clerk().into_team().unwrap())
        .start()
        .await
        .unwrap()
        .as_operator();
    let session = system.session("clerk", "s");
    let run = session.send(Turn::text("hi")).await.unwrap();
    assert_eq!(text(&run).await, "1");
    pause(HOUR).await;
    let refused = |error: SystemError| {
        let is_told = matches!(error, SystemError::Store(StoreError::Unsupported { .. }));
        assert!(is_told, "{error}");
    };
    let all = Retention::default();
    refused(system.prune(all.keep(0)).await.unwrap_err());
    refused(
        system
            .prune(all.sessions_idle_for(Duration::ZERO))
            .await
            .unwrap_err(),
    );
    refused(session.delete().await.unwrap_err());
    assert_eq!(text(&run).await, "1");
    let run = session.send(Turn::text("again")).await.unwrap();
    assert_eq!(text(&run).await, "3");
}

#[tokio::test(start_paused = true)]
async fn a_store_in_memory_keeps_the_trees_that_ended_last_and_all_that_are_open() {
    let mut stage = unhurried();
    stage.store = stage.store.clone().keeping(3);
    let system = stage.start(clerk()).await;
    let say = async |key: &str, what: &str| {
        let session = system.session("clerk", key);
        session.send(Turn::text(what)).await.unwrap()
    };
    let waiting = say("w", "wait").await;
    let parked = say("p", "crash").await;
    outcome_is_parked(&parked.outcome().await.unwrap_err());
    let mut ended = Vec::new();
    for turn in 0..5 {
        let run = say(&format!("s{turn}"), "delegate").await;
        assert_eq!(text(&run).await, "1");
        ended.push(run);
    }
    let (gone, kept) = ended.split_at(2);
    for run in gone {
        assert!(is_deleted(&run.outcome().await.unwrap_err()));
    }
    for run in kept {
        assert_eq!(text(run).await, "1");
    }
    assert_eq!(stage.rows().await.len(), 2 + 2 * 3, "and those below them");
    let said = system.session("clerk", "s0").transcript().await.unwrap();
    assert_eq!(said.len(), 2, "what was said stays in its session");
    assert_eq!(waiting.questions().await.unwrap().len(), 1);
    // By default it is a thousand; a retention takes its place for teams that are kept in memory.
    assert_eq!(InMemoryStore::KEPT, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_system_deletes_ended_runs_by_itself_and_sessions_stay_readable() {
    let mut stage = unhurried();
    stage.limits.retention = Retention::default().older_than(Duration::from_secs(24 * 3600));
    let system = stage.start(clerk()).await;
    let session = system.session("clerk", "s");
    let first = session.send(Turn::text("delegate").id("1")).await.unwrap();
    assert_eq!(text(&first).await, "1");
    let below = stage.rows().await;
    let below = below.iter().find(|row| row.agent == "helper").unwrap().run;
    let waiting = system
        .session("clerk", "w")
        .send(Turn::text("wait"))
        .await
        .unwrap();
    let parked = system
        .session("clerk", "p")
        .send(Turn::text("crash"))
        .await
        .unwrap();
    outcome_is_parked(&parked.outcome().await.unwrap_err());
    pause(23 * HOUR).await;
    let later = session.send(Turn::text("later").id("2")).await.unwrap();
    assert_eq!(text(&later).await, "3");
    assert_eq!(stage.rows().await.len(), 5, "nothing is old enough");

    pause(3 * HOUR).await;
    let mut left: Vec<_> = stage.rows().await.into_iter().map(|row| row.run).collect();
    left.sort();
    let mut wanted = [waiting.id(), parked.id(), later.id()];
    wanted.sort();
    assert_eq!(left, wanted);
    for gone in [first.id(), below] {
        let run = system.run(gone);
        assert!(is_deleted(&run.status().await.unwrap_err()));
        assert!(is_deleted(&run.outcome().await.unwrap_err()));
        assert!(is_deleted(&system.resume(gone, false).await.unwrap_err()));
        assert!(!run.cancel("late").await.unwrap());
        assert!(matches!(
            run.events().next().await,
            Some(Err(StoreError::Deleted { .. }))
        ));
    }
    // A turn that is sent again is not said again, and the conversation is whole.
    let same = session.send(Turn::text("delegate").id("1")).await.unwrap();
    assert_eq!(same.id(), first.id());
    assert!(is_deleted(&same.outcome().await.unwrap_err()));
    let next = session.send(Turn::text("next").id("3")).await.unwrap();
    assert_eq!(text(&next).await, "5");
    assert_eq!(session.transcript().await.unwrap().messages().len(), 6);

    // Also for a process that reads it anew.
    stage.crash(&system).await;
    let system = stage.start(clerk()).await;
    let session = system.session("clerk", "s");
    let next = session.send(Turn::text("after the crash")).await.unwrap();
    assert_eq!(text(&next).await, "7");
    let questions = system.run(waiting.id()).questions().await.unwrap();
    assert_eq!(questions.len(), 1, "an open question is still there");
}

fn outcome_is_parked(error: &SystemError) {
    let parked = matches!(
        error,
        SystemError::Parked {
            error: AgentError::Crashed { .. },
            ..
        }
    );
    assert!(parked, "{error}");
}

#[tokio::test(start_paused = true)]
async fn runs_that_ended_last_are_kept_by_their_number() {
    let stage = unhurried();
    let system = stage.start(clerk()).await;
    let mut ids = Vec::new();
    for number in 0..300 {
        let session = system.session("clerk", number.to_string());
        let run = session.send(Turn::text("go")).await.unwrap();
        outcome(&run).await;
        ids.push(run.id());
        pause(1).await;
    }
    let hour = Duration::from_secs(3600);
    let both = Retention::default().older_than(hour).keep(10);
    assert_eq!(
        system.prune(both).await.unwrap().trees,
        0,
        "none is old enough"
    );
    assert_eq!(system.prune(Retention::default()).await.unwrap().trees, 0);
    let pruned = system.prune(Retention::default().keep(20)).await.unwrap();
    assert_eq!((pruned.trees, pruned.runs), (280, 280));
    assert!(pruned.entries >= 2 * 280, "{pruned:?}");
    assert_eq!(pruned.blobs, 0, "the definition is still pinned");
    assert_eq!(stage.rows().await.len(), 20);
    for id in &ids[280..] {
        assert_eq!(
            system.run(*id).status().await.unwrap().status,
            RunStatus::Answered
        );
    }
    pause(2 * HOUR).await;
    assert_eq!(system.prune(both).await.unwrap().trees, 10);
    let pruned = system.prune(Retention::default().keep(0)).await.unwrap();
    assert_eq!((pruned.trees, pruned.blobs), (10, 1));
    let run = system
        .session("clerk", "0")
        .send(Turn::text("again"))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "3");
}

#[tokio::test(start_paused = true)]
async fn an_endless_agent_leaves_only_its_last_journals_behind() {
    let mut stage = unhurried();
    stage.limits.retention = Retention::default().keep(3);
    let endless = Agent::from_fn("endless", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(3600)).await?;
        let round: u32 = cx.input().content().parse().unwrap_or(0);
        Ok(cx.continue_as((round + 1).to_string()))
    });
    let start = async |stage: &Stage| -> System {
        let builder = System::builder(stage.store.clone()).options(stage.limits);
        let team = endless.clone().into_team().unwrap();
        builder
            .model("default", silent())
            .team(team)
            .start()
            .await
            .unwrap()
    };
    let system = start(&stage).await;
    system
        .session("endless", "s")
        .send(Turn::text("0").id("1"))
        .await
        .unwrap();
    pause(200 * HOUR).await;
    let rows = stage.rows().await;
    assert!(rows.len() <= 6, "{} runs are left", rows.len());
    // The turn still leads to the run that carries it.
    stage.crash(&system).await;
    let system = start(&stage).await;
    let carried = system
        .session("endless", "s")
        .send(Turn::text("0").id("1"))
        .await
        .unwrap();
    let rows = stage.rows().await;
    let open = rows.iter().find(|row| !row.status.is_ended()).unwrap();
    assert!(open.title.parse::<u32>().unwrap() > 150, "{open:?}");
    assert!(rows.len() <= 6, "{} runs are left", rows.len());
    assert!(carried.cancel("enough").await.unwrap());
    assert!(matches!(outcome(&carried).await, Outcome::Stopped { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_child_is_joined_although_the_journals_that_it_left_are_gone() {
    let mut stage = unhurried();
    stage.limits.retention = Retention::default().keep(3);
    let walker = Agent::from_fn("walker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(3600)).await?;
        let round: u32 = cx.input().content().parse().unwrap_or(0);
        if round == 20 {
            return Ok(Outcome::answer("there"));
        }
        Ok(cx.continue_as((round + 1).to_string()))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let task = Task::from("0").when_parent_ends(ParentPolicy::Continue);
        let child = cx.spawn("walker", task).await?;
        cx.sleep(Duration::from_secs(10 * 3600)).await?;
        Ok(Outcome::answer(cx.join(&child).await?.text))
    });
    let system = stage.start(boss.agent(walker)).await;
    let run = system.session("boss", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "there");
}

/// A store in which one run and one session are damaged.
struct Damaged(InMemoryStore, RunId, SessionId);

fn damaged<T>() -> Result<T, StoreError> {
    let (place, reason) = ("what is damaged".to_owned(), "as told".to_owned());
    Err(StoreError::Damaged { place, reason })
}

impl StoreWrapper for Damaged {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        match mailbox == self.1.into() {
            true => damaged(),
            false => self.inner().post(mailbox, item).await,
        }
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        match root == self.1 {
            true => damaged(),
            false => {
                self.0
                    .deletion()
                    .unwrap()
                    .delete_tree(root, at, limit)
                    .await
            }
        }
    }

    async fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        match session == self.2 {
            true => damaged(),
            false => {
                self.0
                    .deletion()
                    .unwrap()
                    .delete_session(session, limit)
                    .await
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_keeps_nothing_else() {
    let mut stage = unhurried();
    let system = stage.start(clerk()).await;
    let say = async |key: &str, what: &str| {
        let session = system.session("clerk", key);
        session.send(Turn::text(what)).await.unwrap()
    };
    let first = say("0", "go").await.id();
    for key in ["1", "2", "3"] {
        pause(HOUR).await;
        outcome(&say(key, "go").await).await;
    }
    let bad = system.session("clerk", "1").id().clone();
    let waiting = say("4", "wait").await.id();
    pause(HOUR).await;
    let other = say("5", "wait").await.id();
    pause(HOUR).await;
    stage.crash(&system).await;
    let start = async |run: RunId| {
        let store = Damaged(stage.store.another_process(), run, bad.clone());
        let builder = System::builder(store)
            .options(stage.limits)
            .clock(stage.clock.clone());
        let team = clerk().into_team().unwrap();
        let system = builder.model("default", silent()).team(team).start();
        system.await.unwrap().as_operator()
    };
    let told = |error: SystemError| {
        let is_told = matches!(error, SystemError::Store(StoreError::Damaged { .. }));
        assert!(is_told, "{error}");
    };
    let system = start(first).await;
    let older = Retention::default().older_than(Duration::from_secs(1));
    told(system.prune(older).await.unwrap_err());
    let left = stage.rows().await;
    let ended = left.iter().filter(|row| row.status.is_ended());
    assert_eq!(ended.map(|row| row.run).collect::<Vec<_>>(), [first]);
    let idle = Retention::default().sessions_idle_for(Duration::from_secs(1));
    told(system.prune(idle).await.unwrap_err());
    for (key, turns) in [("0", 1), ("1", 1), ("2", 0), ("3", 0), ("4", 1)] {
        let log = system.session("clerk", key).log().await.unwrap();
        assert_eq!(log.turns.len(), turns, "{key}");
    }
    system.stop().await.unwrap();
    let system = start(waiting).await;
    told(system.expire_open(Duration::ZERO).await.unwrap_err());
    let row = system.run(other).wait().await.unwrap();
    pause(10_000).await;
    let row = system.run(row.run).status().await.unwrap();
    assert_eq!(row.status, RunStatus::Failed);
}
