//! A node is woken by what another node posts, and finds by itself what nobody told it of.

use std::{
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::{BoxFuture, Clock, DynStore, ItemBody, Notice, SystemClock},
    run::{Agent, RunContext, Team},
    session::Turn,
    vocabulary::{AgentError, Effect, Message, Outcome, Question, Timestamp},
};
use ghostlight_postgres::{Options, PostgresStore};
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    time,
};
use tokio_postgres::{AsyncMessage, NoTls};

use crate::{
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

/// Longer than any test: what arrives was told.
const NEVER: Duration = Duration::from_secs(3_600);

/// A node whose agent passes on each message that it receives, until the one that ends it.
async fn listener(url: &str, look: Option<Duration>) -> (System, mpsc::UnboundedReceiver<String>) {
    let (pass_on, heard) = mpsc::unbounded_channel();
    let listen = move |cx: RunContext| {
        let pass_on = pass_on.clone();
        async move {
            loop {
                let message = cx.receive::<Message>().await?.content().to_owned();
                let _ = pass_on.send(message.clone());
                if message == "end" {
                    return Ok::<_, AgentError>(Outcome::answer("ended"));
                }
            }
        }
    };
    let agent = Agent::from_fn("listener", listen);
    (system(url, agent.into_team().unwrap(), look).await, heard)
}

async fn open(url: &str) -> PostgresStore {
    let mut options = Options::default();
    // Nothing is found because a lease is renewed.
    options.lease = 3 * NEVER;
    PostgresStore::open_with(url, &options).await.unwrap()
}

async fn system(url: &str, team: Team, look: Option<Duration>) -> System {
    let store = open(url).await;
    let mut limits = SystemOptions::default();
    limits.poll_interval = look.unwrap_or(limits.poll_interval);
    let builder = System::builder(store).options(limits).team(team);
    builder.start().await.unwrap()
}

async fn next(heard: &mut mpsc::UnboundedReceiver<String>) -> String {
    let next = time::timeout(Duration::from_secs(20), heard.recv()).await;
    next.expect("it arrives").unwrap()
}

/// Begins a run at the first node, and gives the second node's handle of it.
async fn begun(first: &System, second: &System) -> Run {
    let session = first.session("listener", "1");
    let run = session.send(Turn::text("listen")).await.unwrap();
    second.run(run.id())
}

async fn tell(run: &Run, text: &str) {
    run.tell(&Message::user(text)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_tells_the_others_at_once() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let (leaving, _) = listener(&server.url(), Some(NEVER)).await;
    let staying = PostgresStore::open(&server.url()).await.unwrap();
    let mut notice = staying.news(Notice::Left).unwrap();
    let session = leaving.session("listener", "1");
    let run = session.send(Turn::text("listen")).await.unwrap();
    tell(&run, "a message is no farewell").await;
    assert!((&mut notice).now_or_never().is_none());
    leaving.stop().await.unwrap();
    let told = time::timeout(Duration::from_secs(20), notice).await;
    told.expect("it is told");
    let held = staying.held_elsewhere(vec![run.id().into()]).await;
    assert_eq!(held.unwrap(), [false], "its runs are free by then");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_from_another_node_wakes_the_owner_that_never_looks_by_itself() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let (first, mut heard) = listener(&server.url(), Some(NEVER)).await;
    let (second, _) = listener(&server.url(), Some(NEVER)).await;
    let run = begun(&first, &second).await;
    let mut took = Vec::new();
    for number in 0..50 {
        let sent = Instant::now();
        tell(&run, &number.to_string()).await;
        assert_eq!(next(&mut heard).await, number.to_string());
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    println!(
        "from the call at one node to the agent at the other: median {:?}, worst {:?}",
        took[25], took[49]
    );
    // A turn for a session of the first node is posted to it too.
    let session = second.session("listener", "1");
    let queued = tokio::spawn(async move { session.send(Turn::text("again")).await });
    tell(&run, "end").await;
    assert_eq!(next(&mut heard).await, "end");
    let after = time::timeout(Duration::from_secs(20), queued).await;
    let after = after.expect("the turn begins").unwrap().unwrap();
    assert!(after.cancel("enough").await.unwrap());
    let ended = time::timeout(Duration::from_secs(20), after.outcome()).await;
    ended.expect("the cancellation arrives").unwrap();
    for system in [second, first] {
        system.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_reaches_a_run_that_another_node_carries() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let asking = |cx: RunContext| async move {
        let told = cx.ask(Question::new("well?")).await?;
        Ok::<_, AgentError>(Outcome::answer(told.to_string()))
    };
    let team = || Agent::from_fn("listener", asking).into_team().unwrap();
    let first = system(&server.url(), team(), Some(NEVER)).await;
    let second = system(&server.url(), team(), Some(NEVER)).await;
    let run = begun(&first, &second).await;
    let operation = loop {
        if let Some((_, operation, _)) = run.questions().await.unwrap().pop() {
            break operation;
        }
        time::sleep(Duration::from_millis(5)).await;
    };
    run.answer(operation, json!("yes")).await.unwrap();
    let outcome = time::timeout(Duration::from_secs(20), run.outcome()).await;
    let outcome = outcome.expect("the answer arrives").unwrap();
    assert!(outcome.text().contains("yes"), "{outcome:?}");
    for system in [second, first] {
        system.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_posted_while_nobody_listened_is_found_when_the_connection_is_back() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let (first, mut heard) = listener(&server.url_at(proxy.port), Some(NEVER)).await;
    // A node with another team, which does not take the run when its owner's connection ends.
    let other = Agent::from_fn("other", |_: RunContext| async move {
        Ok::<_, AgentError>(Outcome::answer("nothing"))
    });
    let second = system(&server.url(), other.into_team().unwrap(), Some(NEVER)).await;
    let run = begun(&first, &second).await;
    let client = server.client().await;
    let listening = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND application_name = 'ghostlight'";
    for number in 0..5 {
        // The message is told while the first node connects again, or before or after it.
        client.query_one(listening, &[]).await.unwrap();
        time::sleep(Duration::from_millis(number * 3)).await;
        tell(&run, &format!("killed {number}")).await;
        assert_eq!(next(&mut heard).await, format!("killed {number}"));
        // And while it cannot connect.
        proxy.set(Way::Cut);
        tell(&run, &format!("cut {number}")).await;
        proxy.set(Way::Open);
        assert_eq!(next(&mut heard).await, format!("cut {number}"));
    }
    tell(&run, "end").await;
    assert_eq!(next(&mut heard).await, "end");
    for system in [second, first] {
        system.stop().await.unwrap();
    }
}

/// As programs of before this version post, and as a notice is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_tells_is_found_by_the_next_look() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let (first, mut heard) = listener(&server.url(), None).await;
    let run = begun(&first, &first).await;
    let client = server.client().await;
    let body = ItemBody::Message {
        name: "message".to_owned(),
        value: serde_json::to_value(Message::user("end")).unwrap(),
    };
    let post = format!(
        "SET search_path = ghostlight; \
         BEGIN; UPDATE tail SET mark = mark + 1; \
         INSERT INTO inbox(mark, run, id, at, body) SELECT mark, '{}', 'silent', 0, '{}' FROM tail; \
         COMMIT;",
        run.id(),
        serde_json::to_string(&body).unwrap()
    );
    client.batch_execute(&post).await.unwrap();
    assert_eq!(next(&mut heard).await, "end");
    first.stop().await.unwrap();
}

/// A clock on which no pause between two looks ends: what is found was told.
#[derive(Debug)]
struct NoLooks(SystemClock);

impl Clock for NoLooks {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Timestamp {
        self.0.monotonic()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        match pause < Duration::from_millis(20) {
            true => self.0.sleep(pause),
            false => Box::pin(future::pending()),
        }
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        self.0.sleep_until(time)
    }
}

/// A team whose agent works until its gate is opened.
fn gated(gates: &[Arc<Notify>; 3]) -> Team {
    let gates = gates.clone();
    let work = move |cx: RunContext| {
        let gates = gates.clone();
        async move {
            let gate: usize = cx.input().content().parse().unwrap();
            let opened = async move {
                gates[gate].notified().await;
                Ok::<_, AgentError>(gate)
            };
            let gate = cx.step("work", Effect::Read, opened).await?;
            Ok::<_, AgentError>(Outcome::answer(gate.to_string()))
        }
    };
    Agent::from_fn("gated", work).into_team().unwrap()
}

async fn in_time<T>(told: impl Future<Output = T>) -> T {
    let told = time::timeout(Duration::from_secs(20), told).await;
    told.expect("it is told")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_at_another_node_wakes_those_who_wait_for_it_and_nobody_else() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let gates: [Arc<Notify>; 3] = Default::default();
    let first = system(&server.url(), gated(&gates), Some(NEVER)).await;
    let mut runs = Vec::new();
    for gate in ["0", "1", "2"] {
        let session = first.session("gated", gate);
        runs.push(session.send(Turn::text(gate)).await.unwrap());
    }
    let store = open(&server.url_at(proxy.port)).await;
    let mut limits = SystemOptions::default();
    limits.poll_interval = NEVER;
    let second = System::builder(store.clone())
        .options(limits)
        .clock(NoLooks(SystemClock::new()))
        .team(gated(&gates));
    let second = second.start().await.unwrap();
    let waits = |gate: usize| {
        let run = second.run(runs[gate].id());
        tokio::spawn(async move { run.outcome().await.unwrap().text().to_owned() })
    };
    let (waiting, other) = (waits(0), waits(1));
    let mut told_other = store.news(Notice::Rested(runs[1].id())).unwrap();
    let told_owner = first.store().news(Notice::Rested(runs[0].id())).unwrap();
    // By then they have looked, and found nothing.
    time::sleep(Duration::from_millis(300)).await;
    gates[0].notify_one();
    assert_eq!(in_time(waiting).await.unwrap(), "0");
    in_time(told_owner).await;
    assert!((&mut told_other).now_or_never().is_none());
    gates[1].notify_one();
    in_time(told_other).await;
    assert_eq!(in_time(other).await.unwrap(), "1");

    // A run that ended while nobody listened is found when the connection is back.
    let missed = waits(2);
    time::sleep(Duration::from_millis(300)).await;
    proxy.set(Way::Cut);
    while store.term().is_some() {
        time::sleep(Duration::from_millis(5)).await;
    }
    gates[2].notify_one();
    assert_eq!(in_time(runs[2].outcome()).await.unwrap().text(), "2");
    proxy.set(Way::Open);
    assert_eq!(in_time(missed).await.unwrap(), "2");
    for system in [second, first] {
        system.stop().await.unwrap();
    }
}

/// A notice costs each process that listens a wake, and its commit the lock on the queue of notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_alone_notifies_nobody() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let (alone, mut heard) = listener(&server.url(), Some(NEVER)).await;
    let (client, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let (pass_on, mut notices) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message {
                let _ = pass_on.send(notice.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN ghostlight").await.unwrap();
    let run = begun(&alone, &alone).await;
    tell(&run, "end").await;
    assert_eq!(next(&mut heard).await, "end");
    run.outcome().await.unwrap();
    client
        .batch_execute("NOTIFY ghostlight, 'after it'")
        .await
        .unwrap();
    assert_eq!(next(&mut notices).await, "after it");

    let other = open(&server.url()).await;
    let run = begun(&alone, &alone).await;
    tell(&run, "end").await;
    run.outcome().await.unwrap();
    // With a node that listens there is one.
    next(&mut notices).await;
    other.close().await.unwrap();
    alone.stop().await.unwrap();
}
