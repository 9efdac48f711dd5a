//! What the framework needs for the next turn of a long session: from `send` to the outcome, with an
//! agent that answers at once. The bound is 2 ms for a session of 1,000 turns; it is told for a
//! session that is in memory, and for one whose agent was put away and is read again. The floor is
//! the second turn of a session: what is over it is what the length costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::sync::Arc;

use ghostlight_actors::{
    actor::{Session, System},
    contract::{Append, Batch, DynStore, Line},
    run::{Agent, RunContext},
    session::{SessionFold, Turn, encode_checkpoint},
    testing::InMemoryStore,
    vocabulary::{
        Entry, JournalId, Message, Outcome, RunId, SessionId, SessionTurn, Timestamp, TurnEnd,
    },
};
use mimalloc::MiMalloc;
use shared::{Quartiles, alternately, round};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const TURNS: u64 = 1_000;
const ROUNDS: usize = 101;
/// The most milliseconds that the next turn may take.
const BOUND_MS: f64 = 2.0;
const KEY: &str = "lasting";

fn id() -> SessionId {
    SessionId {
        team: "teller".into(),
        key: KEY.into(),
    }
}

/// A store that holds a session of so many turns, as a System would have left it.
async fn session_of(turns: u64) -> InMemoryStore {
    let store = InMemoryStore::new();
    let mut lines = Vec::new();
    let mut fold = SessionFold::default();
    for number in 0..turns {
        let run = RunId::of_turn(&id(), &number.to_string());
        let said = Arc::new(Message::user(format!("question {number}")));
        let answer = Message::assistant(format!("The answer to question {number} is {number}."));
        let started = SessionTurn::new(number.to_string(), run, said.clone());
        let ended = TurnEnd::new(run, "teller", vec![said, Arc::new(answer)]);
        for entry in [
            Entry::TurnStarted(Box::new(started)),
            Entry::TurnEnded(Box::new(ended)),
        ] {
            lines.push(Line::encode(Timestamp(number), &entry).unwrap());
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

/// One turn of a session that has so many turns at the least.
async fn turn(session: &Session, turns: u64) {
    let run = session.send(Turn::text("next")).await.unwrap();
    let length: u64 = run.outcome().await.unwrap().text().parse().unwrap();
    assert!(length > 2 * turns, "the conversation is the session's");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let say = |session: &Session, turns: u64| runtime.block_on(turn(session, turns));
    let begin = |turns: u64| {
        runtime.block_on(async {
            let system = open(&session_of(turns).await).await;
            let session = system.session("teller", KEY);
            (system, session)
        })
    };

    // Sessions that are in memory: each has had a turn in this process before.
    let (system, long) = begin(TURNS);
    say(&long, TURNS);
    let mut number = 0;
    let in_memory = alternately(
        ROUNDS,
        || {
            number += 1;
            let short = system.session("teller", format!("short-{number}"));
            say(&short, 0);
            round(1, || say(&short, 1))
        },
        || round(1, || say(&long, TURNS)),
    );
    runtime.block_on(system.stop()).unwrap();

    // Sessions that were put away: the store has their journals and checkpoints.
    let cold = |turns: u64| {
        let (system, session) = begin(turns);
        let took = round(1, || say(&session, turns));
        runtime.block_on(system.stop()).unwrap();
        took
    };
    let read_again = alternately(ROUNDS, || cold(1), || cold(TURNS));

    for (name, compared) in [("in memory", in_memory), ("read again", read_again)] {
        let what = format!("next turn after {TURNS} turns, {name}");
        compared.print(&what);
        let walls = compared.ours.iter().map(|round| round.wall / 1e3);
        let Quartiles(_, median, _) = Quartiles::of(walls);
        let holds = if median < BOUND_MS { "within" } else { "OVER" };
        println!("{what}: {median:.3} ms, {holds} {BOUND_MS} ms");
    }
}
