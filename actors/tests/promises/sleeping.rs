//! A run that waits for long is rows in the store, and so is a session with nothing to do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{RunStatus, Ticket},
    run::{Agent, RunContext},
    vocabulary::{AgentError, Effect, Message, Outcome, Question},
};
use serde_json::json;

use crate::stage::{Stage, ask, call, pause, text};

/// How often a function was entered, and how many of its futures are in memory.
#[derive(Clone, Default)]
struct Lives {
    entered: Arc<AtomicUsize>,
    in_memory: Arc<AtomicUsize>,
}

struct Life(Arc<AtomicUsize>);

impl Lives {
    fn enter(&self) -> Life {
        self.entered.fetch_add(1, Ordering::SeqCst);
        self.in_memory.fetch_add(1, Ordering::SeqCst);
        Life(self.in_memory.clone())
    }

    /// How often it was entered, and how many are in memory.
    fn count(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.entered), count(&self.in_memory))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Answer,
    Message,
    Ticket,
    Timer,
}

const ALL: [Wait; 4] = [Wait::Answer, Wait::Message, Wait::Ticket, Wait::Timer];

/// Longer than any of the others waits.
const TIMER: Duration = Duration::from_secs(600);

async fn waits(cx: RunContext, wait: Wait) -> Result<Outcome, AgentError> {
    match wait {
        Wait::Answer => drop(cx.ask(Question::new("well?")).await?),
        Wait::Message => drop(cx.receive::<Message>().await?),
        Wait::Ticket => drop(cx.tool_unasked(call("1", "order")).await?),
        Wait::Timer => cx.sleep(TIMER).await?,
    }
    Ok(Outcome::answer("it came"))
}

fn waiter(stage: &Stage, wait: Wait, lives: &Lives) -> Agent {
    let lives = lives.clone();
    Agent::from_fn("waiter", move |cx: RunContext| {
        let lives = lives.clone();
        async move {
            let _life = lives.enter();
            waits(cx, wait).await
        }
    })
    .tool(stage.tool("order", Effect::Once, 5).later())
}

/// Lets come what the run waits for.
async fn let_it_come(system: &System, run: &Run, wait: Wait) {
    match wait {
        Wait::Answer => {
            let question = run.questions().await.unwrap().remove(0);
            run.answer(question.1, json!("yes")).await.unwrap();
        }
        Wait::Message => run.tell(&Message::user("hello")).await.unwrap(),
        Wait::Ticket => {
            let (run, operation) = (run.id(), "0.0.0".parse().unwrap());
            let ticket = Ticket { run, operation };
            system.complete(ticket, Ok("done".into())).await.unwrap();
        }
        Wait::Timer => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_leaves_memory_and_what_it_waits_for_wakes_it() {
    for wait in ALL {
        let (stage, lives) = (Stage::alone(), Lives::default());
        let system = stage.start(waiter(&stage, wait, &lives)).await;
        let run = ask(&system, "waiter", "go").await;
        run.wait().await.unwrap();
        assert_eq!(lives.count(), (1, 1), "{wait:?}: it stays for a while");
        pause(2 * stage.limits.linger.as_millis() as u64).await;
        assert_eq!(lives.count(), (1, 0), "{wait:?}: it is rows in the store");
        let row = run.status().await.unwrap();
        assert_eq!(row.status, RunStatus::Waiting, "{wait:?}");
        let_it_come(&system, &run, wait).await;
        assert_eq!(text(&run).await, "it came", "{wait:?}");
        assert_eq!(lives.count(), (2, 0), "{wait:?}: it was run again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_soon_finds_the_run_in_memory() {
    for wait in ALL.into_iter().filter(|wait| *wait != Wait::Timer) {
        let (stage, lives) = (Stage::alone(), Lives::default());
        let system = stage.start(waiter(&stage, wait, &lives)).await;
        let run = ask(&system, "waiter", "go").await;
        run.wait().await.unwrap();
        let_it_come(&system, &run, wait).await;
        assert_eq!(text(&run).await, "it came", "{wait:?}");
        assert_eq!(lives.count(), (1, 0), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_same_batch_run_to_their_ends_before_it_sleeps() {
    let (stage, lives) = (Stage::alone(), Lives::default());
    let (counted, linger) = (lives.clone(), stage.limits.linger);
    let slow = stage.tool("slow", Effect::Read, 4 * linger.as_millis() as u64);
    let agent = Agent::from_fn("batch", move |cx: RunContext| {
        let lives = counted.clone();
        async move {
            let _life = lives.enter();
            let calls = [call("1", "slow"), call("2", "order")];
            let results = cx.tools(calls).await?;
            Ok(Outcome::answer(results[0].text.as_str()))
        }
    })
    .tool(slow)
    .tool(stage.tool("order", Effect::Once, 5).later());
    let system = stage.start(agent).await;
    let run = ask(&system, "batch", "go").await;
    tokio::time::sleep(3 * linger).await;
    assert_eq!(lives.count(), (1, 1), "a call is under way");
    tokio::time::sleep(3 * linger).await;
    assert_eq!(lives.count(), (1, 0));
    let (id, operation) = (run.id(), "0.0.1".parse().unwrap());
    let ticket = Ticket { run: id, operation };
    system.complete(ticket, Ok("done".into())).await.unwrap();
    assert_eq!(text(&run).await, "slow {}");
    assert_eq!(stage.log.count("slow"), 1);
}

/// The agents of sessions that are in memory.
async fn agents(system: &System) -> Vec<String> {
    let tree = system.tree().await;
    let teams = tree.into_iter().find(|child| child.id == "teams").unwrap();
    teams.children.into_iter().map(|child| child.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_with_nothing_to_do_leaves_memory_until_its_next_turn() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let said = cx.conversation().messages().len();
        Ok(Outcome::answer(said.to_string()))
    });
    let system = stage.start(agent).await;
    assert_eq!(agents(&system).await, Vec::<String>::new());
    for said in ["1", "3"] {
        assert_eq!(text(&ask(&system, "desk", "go").await).await, said);
        assert_eq!(agents(&system).await, ["desk/s"]);
        tokio::time::sleep(2 * stage.limits.passivate_after).await;
        assert_eq!(agents(&system).await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_behind_a_sleeping_run_as_long_as_that_sleeps() {
    let stage = Stage::alone();
    let day = Duration::from_secs(24 * 3600);
    let agent = Agent::from_fn("desk", move |cx: RunContext| async move {
        let said = cx.input().content();
        if said == "one" {
            cx.sleep(day).await?;
        }
        Ok(Outcome::answer(said))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "desk", "one").await;
    let waiting = ask(&system, "desk", "two").await;
    assert_eq!(text(&waiting).await, "two");
    assert_eq!(text(&run).await, "one");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_only_looked_into_leaves_memory_too() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("desk", |_: RunContext| async {
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let session = system.session("desk", "s");
    let said = || ghostlight_actors::session::Turn::text("go").id("1");
    let run = session.send(said()).await.unwrap();
    assert_eq!(text(&run).await, "done");
    for _ in 0..2 {
        tokio::time::sleep(3 * stage.limits.passivate_after).await;
        assert_eq!(agents(&system).await, Vec::<String>::new());
        let again = session.send(said()).await.unwrap();
        assert_eq!(again.id(), run.id());
    }
}
