//! What comes while a tree of runs falls asleep, or while its process dies, wakes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::RunRow,
    run::{Agent, RunContext, operations::AgentMessage},
    testing::{Fault, FaultyStore, Harm, Strike},
    vocabulary::{Outcome, Question},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::stage::{SlowStore, Stage, ask, pause, silent, text};

const LINGER_MS: u64 = 100;
/// Far more than the seconds that all of it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks, and waits for a time after the answer.
async fn asks_and_sleeps(
    cx: RunContext,
) -> Result<Outcome, ghostlight_actors::vocabulary::AgentError> {
    let answer = cx.ask(Question::new("well?")).await?;
    cx.sleep(Duration::from_secs(3)).await?;
    Ok(Outcome::answer(answer.to_string()))
}

/// Delegates to an agent that asks and sleeps.
fn above() -> Agent {
    over(Agent::from_fn("below", asks_and_sleeps))
}

/// Asks, and goes on in another journal as soon as it has the answer.
fn goes_on() -> Agent {
    Agent::from_fn("below", |cx: RunContext| async move {
        let said = cx.input().content();
        if said != "go" {
            cx.sleep(Duration::from_secs(3)).await?;
            return Ok(Outcome::answer(said));
        }
        let answer = cx.ask(Question::new("well?")).await?;
        Ok(cx.continue_as(answer.to_string()))
    })
}

/// Delegates to this agent.
fn over(below: Agent) -> Agent {
    Agent::from_fn("above", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("below", "go").await?.text))
    })
    .agent(below)
}

fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.limits.linger = Duration::from_millis(LINGER_MS);
    stage
}

/// Answers what is asked in the run's tree; whether anything was.
async fn answer(system: &System, run: &Run) -> bool {
    let Ok(questions) = run.questions().await else {
        return false;
    };
    let Some((asking, operation, _)) = questions.into_iter().next() else {
        return false;
    };
    let answered = system.run(asking).answer(operation, json!("yes")).await;
    assert!(
        matches!(answered, Ok(()) | Err(SystemError::Answer { .. })),
        "{answered:?}"
    );
    true
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_a_time_after_an_answer_wakes_its_sleeping_tree() {
    let stage = stage();
    let system = stage.start(above()).await;
    let run = ask(&system, "above", "go").await;
    // All wait for the answer, and do not sleep yet.
    pause(LINGER_MS / 2).await;
    assert!(answer(&system, &run).await);
    let began = tokio::time::Instant::now();
    assert_eq!(text(&run).await, "\"yes\"");
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_follows_an_answer_wakes_its_run_in_the_next_process() {
    for agent in [Agent::from_fn("above", asks_and_sleeps), above()] {
        let mut stage = stage();
        let system = stage.start(agent.clone()).await;
        let run = ask(&system, "above", "go").await;
        pause(LINGER_MS / 2).await;
        assert!(answer(&system, &run).await);
        pause(LINGER_MS / 4).await;
        stage.crash(&system).await;
        let system = stage.start(agent).await;
        // Nobody says anything to it.
        assert_eq!(text(&system.run(run.id())).await, "\"yes\"");
    }
}

#[tokio::test(start_paused = true)]
async fn what_reaches_a_run_below_while_its_tree_falls_asleep_wakes_it() {
    let moments = LINGER_MS - 25..LINGER_MS + 40;
    for (moment, team) in moments.flat_map(|moment| [(moment, above()), (moment, over(goes_on()))])
    {
        let stage = stage();
        let system = System::builder(SlowStore::new(stage.store.clone()))
            .options(stage.limits)
            .model("default", silent())
            .team(team.into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = ask(&system, "above", "go").await;
        pause(moment).await;
        assert!(answer(&system, &run).await, "{moment} ms");
        let outcome = tokio::time::timeout(PATIENCE, run.outcome()).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("answered after {moment} ms, it hangs"));
        assert_eq!(outcome.unwrap().text(), "\"yes\"");
    }
}

/// One that is told to sleep at once is asked again while it has something to do; were it asked
/// without a pause, no time would pass here.
#[tokio::test(start_paused = true)]
async fn an_agent_that_sleeps_at_once_does_not_spin_while_its_turn_is_being_recorded() {
    let mut stage = stage();
    stage.limits.passivate_after = Duration::ZERO;
    let agent = Agent::from_fn("brief", |_: RunContext| async {
        Ok(Outcome::answer("yes"))
    });
    let system = System::builder(SlowStore::new(stage.store.clone()))
        .options(stage.limits)
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    // The second turn begins when the first one ends.
    let session = system.session("brief", "s");
    let (first, second) = tokio::join!(session.send("one"), session.send("two"));
    for run in [first, second] {
        assert_eq!(text(&run.unwrap()).await, "yes");
    }
}

/// Answers until the run has come to its outcome.
async fn see_through(system: &System, run: &Run) -> String {
    loop {
        tokio::select! {
            biased;
            outcome = run.outcome() => return outcome.unwrap().text().to_owned(),
            () = pause(100) => {}
        }
        answer(system, run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_at_any_commit_is_followed_by_one_that_goes_on_by_itself() {
    for call in 1.. {
        let mut stage = stage();
        let (strike, harm) = (Strike::After, Harm::Crash);
        let store = FaultyStore::at_commit(stage.store.clone(), Fault { call, strike, harm });
        let system = System::builder(store.clone())
            .options(stage.limits)
            .model("default", silent())
            .team(above().into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = tokio::select! {
            () = store.crashed() => None,
            run = ask(&system, "above", "go") => Some(run),
        };
        let done = async {
            match &run {
                Some(run) => see_through(&system, run).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            () = store.crashed() => None,
            text = done => Some(text),
        };
        if done.is_some() {
            assert!(call > 6, "{call} commits");
            return;
        }
        stage.crash(&system).await;
        let roots: Vec<RunRow> = stage.rows().await;
        let Some(root) = roots.into_iter().find(|row| row.parent.is_none()) else {
            continue;
        };
        let system = stage.start(above()).await;
        let run = system.run(root.run);
        let text = tokio::time::timeout(PATIENCE, see_through(&system, &run)).await;
        let text = text.unwrap_or_else(|_| panic!("after a crash at commit {call} it hangs"));
        assert_eq!(text, "\"yes\"");
    }
}

/// Tells that it is in memory.
struct InMemory(Arc<AtomicU32>);

impl Drop for InMemory {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Tick;

impl AgentMessage for Tick {
    const NAME: &'static str = "tick";
}

#[tokio::test(start_paused = true)]
async fn a_tree_falls_asleep_although_a_run_below_closed_its_journal_while_it_was_told_something() {
    let mut told = 0;
    for moment in (100..320).step_by(3) {
        let (mut stage, in_memory) = (Stage::alone(), Arc::new(AtomicU32::new(0)));
        stage.limits.linger = Duration::from_millis(LINGER_MS);
        let below = Agent::from_fn("below", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                cx.sleep(Duration::from_millis(100)).await?;
                return Ok(cx.continue_as("on"));
            }
            cx.sleep(Duration::from_secs(600)).await?;
            Ok(Outcome::answer("slept"))
        });
        let counted = in_memory.clone();
        let above = Agent::from_fn("above", move |cx: RunContext| {
            counted.fetch_add(1, SeqCst);
            let in_memory = InMemory(counted.clone());
            async move {
                let slept = cx.delegate("below", "go").await?;
                drop(in_memory);
                Ok(Outcome::answer(slept.text))
            }
        });
        let store = SlowStore::to_commit(stage.store.clone());
        let system = System::builder(store)
            .options(stage.limits)
            .model("default", silent())
            .team(above.agent(below).into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = ask(&system, "above", "go").await;
        pause(moment).await;
        let rows = stage.rows().await;
        if let Some(below) = rows.iter().find(|row| row.agent == "below") {
            let below = system.run(below.run);
            told += u32::from(below.tell(&Tick).await.is_ok());
        }
        pause(10_000).await;
        assert_eq!(in_memory.load(SeqCst), 0, "told after {moment} ms");
        assert_eq!(text(&run).await, "slept");
    }
    assert!(told > 20, "{told}");
}
