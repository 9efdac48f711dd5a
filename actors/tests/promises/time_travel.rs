//! A run can be forked at any of its entries, and replayed against today's code.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Fork, Run, System, SystemError, recording},
    contract::{Entropy, RunStatus, SeededEntropy, StoreHandle},
    definition::Durability,
    run::{Agent, ForkError, Recording, RunContext, operations::Scope, replay},
    testing::{Fault, FaultyStore, Harm, ScriptedModel, Strike},
    vocabulary::{AgentError, Effect, Entry, Message, Outcome, RunId},
};

use crate::stage::{Stage, ask, call, outcome, pause, text};

/// What a random program does, step by step.
#[derive(Clone, Copy, Debug)]
enum Act {
    Look,
    Both,
    Think,
    Nap,
    Delegate,
    Spawn,
    Remember,
    Count,
    Race,
    Note,
}

fn program(seed: u64) -> Vec<Act> {
    use Act::*;
    let all = [
        Look, Both, Think, Nap, Delegate, Spawn, Remember, Count, Race, Note,
    ];
    let chance = SeededEntropy::new(seed);
    (0..6)
        .map(|_| all[(chance.bits() % all.len() as u128) as usize])
        .collect()
}

async fn perform(cx: &RunContext, act: Act) -> Result<String, AgentError> {
    Ok(match act {
        Act::Look => cx.tool_unasked(call("1", "look")).await?.text,
        Act::Both => {
            let results = cx.tools([call("2", "put"), call("3", "pay")]).await?;
            results.into_iter().map(|result| result.text).collect()
        }
        Act::Think => {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            said.content()
        }
        Act::Nap => {
            cx.sleep(Duration::from_millis(50)).await?;
            "slept".to_owned()
        }
        Act::Delegate => cx.delegate("helper", "help").await?.text,
        Act::Spawn => {
            let child = cx.spawn("helper", "help beside").await?;
            let looked = cx.tool_unasked(call("4", "look")).await?.text;
            looked + &cx.join(&child).await?.text
        }
        Act::Remember => {
            let memory = cx.memory();
            let before: Option<u32> = memory.get("seen").await?;
            memory.set("seen", &(before.unwrap_or(0) + 1)).await?;
            format!("{before:?}")
        }
        Act::Count => {
            let state = cx.state(Scope::Session);
            let turns = state.update("turns", |turns: Option<u32>| turns.unwrap_or(0) + 1);
            turns.await?.to_string()
        }
        Act::Race => {
            let (fast, slow) = (Duration::from_millis(30), Duration::from_secs(2));
            cx.timeout(fast, cx.sleep(slow)).await.is_err().to_string()
        }
        Act::Note => {
            cx.emit("note", &"a note");
            "noted".to_owned()
        }
    })
}

fn performer(stage: &Stage, acts: Vec<Act>) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        let results = cx.tools([call("h1", "pay"), call("h2", "look")]).await?;
        let seen: Option<u32> = cx.memory().get("seen").await?;
        let texts: String = results.into_iter().map(|result| result.text).collect();
        Ok(Outcome::answer(format!("{texts}{seen:?}")))
    })
    .tool_named("pay")
    .tool_named("look");
    Agent::from_fn("a", move |cx: RunContext| {
        let acts = acts.clone();
        async move {
            let mut said = Vec::new();
            for act in acts {
                said.push(perform(&cx, act).await?);
            }
            Ok(Outcome::answer(said.join(" ")))
        }
    })
    .tool(stage.tool("look", Effect::Read, 3))
    .tool(stage.tool("put", Effect::Idempotent, 20))
    .tool(stage.tool("pay", Effect::Once, 10))
    .agent(helper)
}

pub(crate) fn thinker() -> ScriptedModel {
    ScriptedModel::from_reply_fn(|_, _| "thought".into())
}

/// How many calls a run and the runs below it recorded before an entry.
async fn recorded_calls(stage: &Stage, run: RunId, name: &str) -> usize {
    let all = recorded(stage, run).await;
    let mut count = 0;
    for line in &all.lines {
        let entry = line.stored.line.decode().unwrap();
        if let Entry::Completed { kind, name: of, .. } = &entry {
            count += usize::from(kind == "tool" && of == name);
        }
    }
    count
}

pub(crate) async fn recorded(stage: &Stage, run: RunId) -> Recording {
    let store = StoreHandle::new(stage.store.clone());
    recording(&store, run).await.unwrap()
}

/// Forks a run everywhere; gives how many forks there were and how many places refused.
async fn fork_everywhere(stage: &Stage, run: &Run) -> (usize, usize) {
    let entries = stage.entries(run.id()).await.len() as u64;
    let undisturbed = outcome(run).await;
    let (mut forks, mut refused) = (0, 0);
    for at in 1..=entries {
        let paid = stage.log.count("pay");
        match run.fork(Fork::at(at)).await {
            Ok(fork) => {
                assert_eq!(outcome(&fork).await, undisturbed, "forked at {at}");
                // What was done anew is what is recorded and was not copied.
                let copied = copied_pays(stage, fork.id()).await;
                let all = recorded_calls(stage, fork.id(), "pay").await;
                assert_eq!(stage.log.count("pay") - paid, all - copied, "at {at}");
                forks += 1;
            }
            Err(SystemError::Fork(ForkError::UnderWay { before, .. })) => {
                assert!(before < at);
                let fork = run.fork(Fork::at(before)).await.unwrap();
                assert_eq!(outcome(&fork).await, undisturbed, "forked at {before}");
                refused += 1;
            }
            Err(SystemError::Fork(ForkError::Over { entry, .. })) => {
                assert_eq!((entry, at), (entries - 1, entries));
                refused += 1;
            }
            Err(error) => panic!("forked at {at}: {error}"),
        }
    }
    (forks, refused)
}

async fn copied_pays(stage: &Stage, fork: RunId) -> usize {
    let all = recorded(stage, fork).await;
    let mut copied = 0;
    for run in all.runs() {
        let journal = all.journal(run);
        let entries: Vec<Entry> = journal.iter().map(|l| l.line.decode().unwrap()).collect();
        let Entry::RunStarted(start) = &entries[0] else {
            panic!("{run} does not begin with its start");
        };
        let count = start.forked.map_or(0, |forked| forked.copied) as usize;
        copied += entries[..count]
            .iter()
            .filter(|entry| matches!(entry, Entry::Completed { name, .. } if name == "pay"))
            .count();
    }
    copied
}

#[tokio::test(start_paused = true)]
async fn a_fork_at_any_entry_of_a_random_run_comes_to_the_same_outcome() {
    let mut all = (0, 0);
    for seed in 0..10 {
        let stage = Stage::new();
        let acts = program(seed);
        let system = stage
            .start_with(performer(&stage, acts.clone()), thinker())
            .await;
        let run = ask(&system, "a", "go").await;
        outcome(&run).await;
        let before = stage.entries(run.id()).await.len();
        let (forks, refused) = fork_everywhere(&stage, &run).await;
        assert!(forks > 0, "{acts:?}");
        assert_eq!(
            stage.entries(run.id()).await.len(),
            before,
            "the run changed"
        );
        all = (all.0 + forks, all.1 + refused);
    }
    assert!(all.0 > 60 && all.1 > 12, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_fork_comes_to_the_same_outcome() {
    let stage = Stage::new();
    let acts = vec![Act::Delegate, Act::Remember, Act::Spawn, Act::Both];
    let system = stage.start_with(performer(&stage, acts), thinker()).await;
    let run = ask(&system, "a", "go").await;
    let fork = {
        outcome(&run).await;
        run.fork(Fork::latest()).await.unwrap()
    };
    outcome(&fork).await;
    fork_everywhere(&stage, &fork).await;
}

#[tokio::test(start_paused = true)]
async fn a_fork_inside_of_a_delegation_does_nothing_of_the_child_again() {
    let stage = Stage::new();
    let system = stage
        .start_with(performer(&stage, vec![Act::Delegate]), thinker())
        .await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    assert_eq!(stage.log.count("pay"), 1);
    // The parent has its start, the child's start, and the child's end; the child has paid when
    // its end is recorded, which the fork does not keep.
    let fork = run.fork(Fork::at(2)).await.unwrap();
    assert_eq!(outcome(&fork).await, outcome(&run).await);
    assert_eq!(stage.log.count("pay"), 1, "the child paid again");
    let rows = stage.rows().await;
    let children = rows.iter().filter(|row| row.parent == Some(fork.id()));
    assert_eq!(children.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_in_a_session_of_its_own_with_what_was_said_before() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let before = cx.conversation().len();
        let state = cx.state(Scope::Session);
        let turns = state.update("turns", |turns: Option<u32>| turns.unwrap_or(0) + 1);
        let turns = turns.await?;
        let input = cx.input().content();
        Ok(Outcome::answer(format!("{input} {before} {turns}")))
    });
    let system = stage.start(agent).await;
    ask(&system, "a", "one").await.outcome().await.unwrap();
    let run = ask(&system, "a", "two").await;
    assert_eq!(text(&run).await, "two 3 2");
    ask(&system, "a", "three").await.outcome().await.unwrap();
    // Its session is that of the second turn: what came later is not in it.
    let options = Fork::at(1).session("what-if").input("another two");
    let fork = run.fork(options.clone()).await.unwrap();
    assert_eq!(text(&fork).await, "another two 3 2");
    let again = run.fork(options).await.unwrap();
    assert_eq!(again.id(), fork.id(), "forked twice in one way is one fork");
    let other = run.fork(Fork::at(2).session("what-if")).await.unwrap_err();
    assert!(
        matches!(other, SystemError::SessionExists { .. }),
        "{other}"
    );
    let taken = run.fork(Fork::at(1).session("s")).await.unwrap_err();
    assert!(
        matches!(taken, SystemError::SessionExists { .. }),
        "{taken}"
    );
    let next = system.session("a", "what-if").send("next").await.unwrap();
    assert_eq!(text(&next).await, "next 5 3");
    let next = ask(&system, "a", "four").await;
    assert_eq!(text(&next).await, "four 7 4");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_diverged_is_forked_before_the_mismatch() {
    let mut stage = Stage::new();
    let version = Arc::new(AtomicU8::new(0));
    let agent = |stage: &Stage| {
        let version = version.clone();
        Agent::from_fn("a", move |cx: RunContext| {
            let old = version.load(Ordering::SeqCst) == 0;
            async move {
                cx.tool_unasked(call("1", "look")).await?;
                let name = if old { "put" } else { "give" };
                cx.tool_unasked(call("2", name)).await?;
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(Outcome::answer(name))
            }
        })
        .tool(stage.tool("look", Effect::Read, 1))
        .tool(stage.tool("put", Effect::Idempotent, 1))
        .tool(stage.tool("give", Effect::Idempotent, 1))
    };
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    version.store(1, Ordering::SeqCst);
    let system = stage.start(agent(&stage)).await;
    let run = system.run(run.id());
    run.outcome().await.unwrap_err();
    let fork = run.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&fork).await, "give");
    assert_eq!(stage.log.count("look"), 1, "before the mismatch");
    assert_eq!(stage.log.count("give"), 1);
    assert_eq!(run.status().await.unwrap().status, RunStatus::Parked);
    assert!(run.cancel("forked").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_open_run_and_a_run_below_another_can_be_forked() {
    let stage = Stage::new();
    let system = stage
        .start_with(performer(&stage, vec![Act::Delegate, Act::Nap]), thinker())
        .await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "helper").unwrap();
    let below = system.run(child.run).fork(Fork::latest()).await.unwrap();
    let answer = text(&below).await;
    assert!(answer.starts_with("pay"), "{answer}");
    assert_eq!(stage.log.count("pay"), 1);
    let row = below.status().await.unwrap();
    assert_eq!((row.parent, row.root), (None, below.id()));
    assert_eq!(outcome(&fork).await, outcome(&run).await);
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_run_below_stays_within_its_part_of_the_team() {
    let stage = Stage::new();
    let offers = |name| {
        Agent::from_fn(name, |cx: RunContext| async move {
            cx.now().await?;
            let offered = cx.tools_offered();
            let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
            Ok(Outcome::answer(names.join(" ")))
        })
    };
    let root = Agent::from_fn("a", |cx: RunContext| async move {
        let told = cx.delegate("helper", "help").await?;
        Ok(Outcome::answer(told.text))
    });
    let helper = offers("helper").agent(offers("below"));
    let system = stage.start(root.agent(helper).agent(offers("peer"))).await;
    let run = ask(&system, "a", "go").await;
    let told = text(&run).await;
    assert!(told.contains("below") && !told.contains("peer"), "{told}");
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "helper").unwrap();
    let fork = system.run(child.run).fork(Fork::at(1)).await.unwrap();
    assert_eq!(text(&fork).await, told, "it offers what it offered");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_fork_undoes_nothing_that_the_run_did() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "pay")).await?;
        cx.on_cancel(call("2", "refund"));
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer("kept"))
    })
    .tool(stage.tool("pay", Effect::Once, 1))
    .tool(stage.tool("refund", Effect::Once, 1));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    assert!(fork.cancel("no").await.unwrap());
    outcome(&fork).await;
    assert_eq!(stage.log.count("refund"), 0, "the run still counts on it");
    assert!(run.cancel("no").await.unwrap());
    outcome(&run).await;
    assert_eq!(stage.log.count("refund"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fork_keeps_the_pinned_definition_or_takes_todays() {
    let mut stage = Stage::new();
    let team = |words: &str| {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            cx.now().await?;
            Ok(Outcome::answer(&*cx.agent().instructions))
        });
        agent.instructions(words)
    };
    let system = stage.start(team("old")).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "old");
    stage.crash(&system).await;
    let system = stage.start(team("new")).await;
    let run = system.run(run.id());
    let fork = run.fork(Fork::at(2)).await.unwrap();
    assert_eq!(text(&fork).await, "old");
    let fork = run.fork(Fork::at(2).todays_team()).await.unwrap();
    assert_eq!(text(&fork).await, "new");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_a_fork_later_on_is_read_by_its_next_model_call() {
    for durability in [Durability::Sync, Durability::Memory] {
        let stage = Stage::new();
        let model = ScriptedModel::from_reply_fn(|_, _| "thought".into());
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let first = cx.model(cx.model_request(cx.conversation())).await?;
            let second = cx.model(cx.model_request(cx.conversation())).await?;
            let heard = first.steering.iter().chain(&second.steering);
            let heard: Vec<String> = heard.map(Message::content).collect();
            Ok(Outcome::answer(heard.join(",")))
        });
        let team = agent.into_team().unwrap();
        let system = System::builder(stage.store.clone())
            .model("default", model)
            .team(team.define(|team| team.durability = durability))
            .start()
            .await
            .unwrap();
        let run = ask(&system, "a", "go").await;
        assert_eq!(text(&run).await, "");
        let fork = run.fork(Fork::at(2).input("be brief")).await.unwrap();
        assert_eq!(text(&fork).await, "be brief", "{durability:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_where_a_run_cannot_be_forked_is_told_with_one_where_it_can() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "pay")).await?;
        Ok(Outcome::answer("paid"))
    })
    .tool(stage.tool("pay", Effect::Once, 1));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    let refused = async |at| run.fork(Fork::at(at)).await.unwrap_err().to_string();
    let id = run.id();
    for at in [0, 5] {
        let told = refused(at).await;
        let wanted = format!("run {id} cannot be forked at {at}: it has 4 entries");
        assert!(told.starts_with(&wanted), "{told}");
    }
    let told = refused(2).await;
    assert!(
        told.contains("fork at 1, before it began, or at 3, behind its end"),
        "{told}"
    );
    let told = refused(4).await;
    assert!(
        told.contains("fork it at 3, just before that, or earlier"),
        "{told}"
    );
    let unknown = system.run(RunId::from_random(1)).fork(Fork::at(1)).await;
    assert!(matches!(unknown, Err(SystemError::UnknownRun(_))));
}

#[tokio::test(start_paused = true)]
async fn random_runs_and_their_forks_replay_as_recorded() {
    for seed in 0..40 {
        let stage = Stage::new();
        let acts = program(seed);
        let agent = performer(&stage, acts.clone());
        let team = agent.into_team().unwrap();
        let registry = team.registry.clone();
        let system = System::builder(stage.store.clone())
            .model("default", thinker())
            .team(team)
            .start()
            .await
            .unwrap();
        let run = ask(&system, "a", "go").await;
        pause(seed * 7).await;
        // Half of them are still under way.
        let open = recorded(&stage, run.id()).await;
        let replayed = replay(&open, &registry, None).unwrap();
        assert!(replayed.is_faithful(), "{seed} {acts:?}: {replayed}");
        outcome(&run).await;
        let fork = run.fork(Fork::latest()).await.unwrap();
        outcome(&fork).await;
        for run in [run.id(), fork.id()] {
            let replayed = replay(&recorded(&stage, run).await, &registry, None).unwrap();
            assert!(replayed.is_faithful(), "{seed} {acts:?}: {replayed}");
            assert!(!replayed.has_drifted());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_a_crash_interrupts_anywhere_is_made_once_and_comes_to_the_same_outcome() {
    let acts = vec![Act::Both, Act::Look, Act::Remember, Act::Count, Act::Nap];
    let mut crashes = 0;
    for strike in [Strike::Before, Strike::After] {
        for call in 1.. {
            let mut stage = Stage::new();
            let agent = performer(&stage, acts.clone());
            let system = stage.start_with(agent, thinker()).await;
            let run = ask(&system, "a", "go").await;
            let undisturbed = outcome(&run).await;
            stage.crash(&system).await;
            let harm = Harm::Crash;
            let fault = Fault { call, strike, harm };
            let store = FaultyStore::at_commit(stage.store.clone(), fault);
            let team = performer(&stage, acts.clone()).into_team().unwrap();
            let builder = System::builder(store.clone()).model("default", thinker());
            let system = builder.team(team).start().await.unwrap();
            // Behind both calls of the batch.
            let options = Fork::at(4).session("f");
            let forking = async {
                let fork = system.run(run.id()).fork(options.clone()).await?;
                fork.outcome().await
            };
            let done = tokio::select! {
                biased;
                () = store.crashed() => false,
                done = forking => done.is_ok(),
            };
            stage.crash(&system).await;
            let agent = performer(&stage, acts.clone());
            let system = stage.start_with(agent, thinker()).await;
            let fork = system.run(run.id()).fork(options).await.unwrap();
            assert_eq!(
                outcome(&fork).await,
                undisturbed,
                "{strike:?} commit {call}"
            );
            assert_eq!(stage.log.count("pay"), 1, "{strike:?} commit {call}");
            assert_eq!(stage.log.count("put"), 1, "{strike:?} commit {call}");
            assert_eq!(stage.ends(fork.id()).await, 1);
            assert_eq!(stage.rows().await.len(), 2, "a fork was made twice");
            if done {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes >= 8, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn what_a_fork_did_after_it_went_on_is_undone_also_in_the_next_process() {
    let agent = |stage: &Stage| {
        Agent::from_fn("a", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                for _ in 0..9 {
                    cx.now().await?;
                }
                cx.sleep(Duration::from_secs(5)).await?;
                return Ok(cx.continue_as("on"));
            }
            cx.on_cancel(call("2", "refund"));
            cx.tool_unasked(call("1", "pay")).await?;
            cx.sleep(Duration::from_secs(900)).await?;
            Ok(Outcome::answer("kept"))
        })
        .tool(stage.tool("pay", Effect::Once, 1))
        .tool(stage.tool("refund", Effect::Once, 1))
    };
    let mut stage = Stage::new();
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let fork = run.fork(Fork::latest()).await.unwrap().id();
    assert!(run.cancel("no").await.unwrap());
    pause(10_000).await;
    assert_eq!(stage.log.count("pay"), 1);
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    pause(1000).await;
    let fork = system.run(fork);
    assert!(fork.cancel("no").await.unwrap());
    fork.quiet().await.unwrap();
    assert_eq!(stage.log.count("refund"), 1);
}
