//! What the framework needs for the next turn of a long session: from `send` to the outcome, with a
//! model that answers at once. The bound is 2 ms for a session of 1,000 turns; it is told for a
//! session that is in memory, and for one whose agent was put away and is read again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{sync::Arc, time::Instant};

use ghostlight_actors::{
    actor::{Session, System},
    contract::{Append, Batch, Line, Store},
    run::{Agent, RunContext},
    session::{SessionFold, Turn, encode_checkpoint},
    testing::InMemoryStore,
    vocabulary::{
        Entry, JournalId, Message, Outcome, RunId, SessionId, SessionTurn, Timestamp, TurnEnd,
    },
};
use shared::Quartiles;

const TURNS: u64 = 1_000;
const ROUNDS: usize = 101;
/// The most milliseconds that the next turn may take.
const BOUND_MS: f64 = 2.0;

fn id() -> SessionId {
    SessionId {
        team: "teller".to_owned(),
        key: "long".to_owned(),
    }
}

/// A store that holds a session of so many turns, as a System would have left it.
async fn long_session() -> InMemoryStore {
    let store = InMemoryStore::new();
    let mut lines = Vec::new();
    let mut fold = SessionFold::default();
    for number in 0..TURNS {
        let run = RunId::of_turn(&id(), &number.to_string());
        let said = Arc::new(Message::user(format!("question {number}")));
        let answer = Message::assistant(format!("The answer to question {number} is {number}."));
        let started = SessionTurn::new(number.to_string(), run, said.clone());
        let ended = TurnEnd::new(run, "teller", vec![said, Arc::new(answer)]);
        for entry in [
            Entry::TurnStarted(Box::new(started)),
            Entry::TurnEnded(Box::new(ended)),
        ] {
            lines.push(Line::encode(Timestamp(number), &entry));
            fold.add(entry);
        }
    }
    let append = Append::new(JournalId::Session(id()), 0, 1, lines);
    let told = store.commit(vec![Batch::of(append)]).await.unwrap();
    assert!(told.iter().all(Result::is_ok));
    let checkpoint = encode_checkpoint(&fold);
    store.put_checkpoint(id(), checkpoint).await.unwrap();
    store
}

async fn open(store: &InMemoryStore) -> System {
    let teller = Agent::from_fn("teller", |cx: RunContext| async move {
        let length = cx.conversation().len();
        Ok(Outcome::answer(length.to_string()))
    });
    let builder = System::builder(store.clone()).team(teller.into_team().unwrap());
    builder.start().await.unwrap()
}

/// Milliseconds of one turn.
async fn turn(session: &Session) -> f64 {
    let began = Instant::now();
    let run = session.send(Turn::text("next")).await.unwrap();
    let length: u64 = run.outcome().await.unwrap().text().parse().unwrap();
    assert!(length > 2 * TURNS, "the conversation is the session's");
    began.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = long_session().await;
        let system = open(&store).await;
        let session = system.session("teller", "long");
        turn(&session).await;
        let mut warm = Vec::new();
        for _ in 0..ROUNDS {
            warm.push(turn(&session).await);
        }
        system.stop().await.unwrap();
        let mut cold = Vec::new();
        for _ in 0..ROUNDS {
            let store = long_session().await;
            let system = open(&store).await;
            cold.push(turn(&system.session("teller", "long")).await);
            system.stop().await.unwrap();
        }
        for (name, took) in [("in memory", warm), ("read again", cold)] {
            let Quartiles(lower, median, upper) = Quartiles::of(took);
            let holds = if median < BOUND_MS { "within" } else { "OVER" };
            println!(
                "next turn after {TURNS} turns, {name}: {median:.3} ms ({lower:.3} to {upper:.3}), \
                 {holds} {BOUND_MS} ms"
            );
        }
    });
}
