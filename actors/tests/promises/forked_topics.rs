//! Whoever waits at a topic waits in a copy of it too, and a copy tells nobody of whom it was copied.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::{
    actor::{Fork, Run, SystemError},
    contract::{DynStore, MailboxItem, RunFilter},
    run::{
        Agent, ForkError, RunContext,
        operations::{Overflow, Spawned, Subscription},
    },
    session::Turn,
    vocabulary::{Entry, Outcome, RunId, Scope, SessionId},
};

use crate::stage::{Stage, ask, pause, text};

const SECOND: Duration = Duration::from_secs(1);

/// What is in the mailboxes of all runs.
async fn mailboxes(stage: &Stage, runs: &[RunId]) -> BTreeMap<RunId, Vec<MailboxItem>> {
    let mut found = BTreeMap::new();
    for run in runs {
        found.insert(*run, stage.store.mailbox((*run).into()).await.unwrap());
    }
    found
}

async fn runs(stage: &Stage) -> Vec<RunId> {
    stage.rows().await.iter().map(|row| row.run).collect()
}

/// The child of a run that carries this agent.
async fn child(stage: &Stage, parent: &Run, agent: &str) -> RunId {
    let rows = stage.store.runs(RunFilter::default()).await.unwrap();
    let mut rows = rows.iter();
    let found = rows.find(|row| row.parent == Some(parent.id()) && row.agent == agent);
    found.unwrap().run
}

/// Forks a run at each of its entries where it can be; each fork comes to the same answer, and says
/// nothing to the runs that there were.
async fn forked_everywhere(stage: &Stage, run: &Run) -> usize {
    let answer = text(run).await;
    let known = runs(stage).await;
    let before = mailboxes(stage, &known).await;
    let entries = stage.entries(run.id()).await.len() as u64;
    let mut forks = 0;
    for at in 1..entries {
        match run.fork(Fork::at(at)).await {
            Ok(fork) => {
                assert_eq!(text(&fork).await, answer, "forked at {at}");
                forks += 1;
            }
            Err(SystemError::Fork(ForkError::UnderWay { .. })) => {}
            Err(error) => panic!("forked at {at}: {error}"),
        }
        let after = mailboxes(stage, &known).await;
        assert_eq!(after, before, "what the fork at {at} told the others");
    }
    forks
}

/// Receives and publishes in one run.
fn monologue(scope: Scope) -> Agent {
    Agent::from_fn("boss", move |cx: RunContext| {
        let scope = scope.clone();
        async move {
            let topic = cx.topic::<u32>("numbers").in_scope(scope);
            let mut mine = topic.subscribe(Subscription::new("mine")).await?;
            let hears = async {
                let one = mine.next().await?.event;
                Ok::<_, ghostlight_actors::vocabulary::AgentError>((one, mine.next().await?.event))
            };
            let says = async {
                cx.sleep(SECOND).await?;
                topic.publish(&1).await?;
                cx.sleep(SECOND).await?;
                topic.publish(&2).await
            };
            let (heard, said) = futures_util::future::join(hears, says).await;
            said?;
            Ok(Outcome::answer(format!("{:?}", heard?)))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_a_fork_is_woken_in_it() {
    for scope in [Scope::Run, Scope::Session] {
        let stage = Stage::alone();
        let system = stage.start(monologue(scope.clone())).await;
        let run = ask(&system, "boss", "go").await;
        pause(500).await;
        let fork = run.fork(Fork::latest()).await.unwrap();
        assert_eq!(text(&fork).await, "(1, 2)", "{scope}");
        assert_eq!(text(&run).await, "(1, 2)", "{scope}");
        // Each heard of each event once.
        for run in [run.id(), fork.id()] {
            let told = stage.entries(run).await.into_iter().filter(
                |entry| matches!(entry, Entry::Completed { kind, .. } if kind == "receive"),
            );
            assert!(told.count() <= 3, "{scope}");
        }
        assert!(forked_everywhere(&stage, &run).await > 5);
    }
}

/// A full queue, a question, and one who waits for an event, each between two runs.
fn crew() -> Agent {
    let source = Agent::from_fn("source", |cx: RunContext| async move {
        for number in 0..3 {
            cx.topic::<u32>("numbers").publish(&number).await?;
        }
        Ok(Outcome::answer("source"))
    });
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("questions");
        let mut asked = topic.subscribe(Subscription::new("clerk")).await?;
        loop {
            let question = asked.next().await?;
            if question.event == 0 {
                return Ok(Outcome::answer("clerk"));
            }
            cx.sleep(SECOND).await?;
            question.respond(&cx, &(question.event + 1)).await?;
        }
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let queue = Subscription::new("slow").capacity(1);
        let mut numbers = cx.topic::<u32>("numbers").subscribe(queue).await?;
        let source = cx.spawn("source", "go").await?;
        let clerk = cx.spawn("clerk", "go").await?;
        // What is kept of a run is kept of the copy.
        let kept = clerk.clone();
        let put = move |_: Option<Spawned>| kept.clone();
        cx.memory().update("clerk", put).await?;
        cx.sleep(SECOND).await?;
        let mut heard = Vec::new();
        for _ in 0..3 {
            cx.sleep(SECOND).await?;
            heard.push(numbers.next().await?.event);
        }
        let questions = cx.topic::<u32>("questions");
        let answer = loop {
            // An answer that is under way where a run is forked is not copied: it is asked again.
            if let Ok(answer) = questions.request::<u32>(&41, 5 * SECOND).await {
                break answer;
            }
        };
        questions.publish(&0).await?;
        let kept: Option<Spawned> = cx.memory().get("clerk").await?;
        let (one, other) = (cx.join(&source).await?, cx.join(&kept.unwrap()).await?);
        let all = format!("{heard:?} {answer} {} {}", one.text, other.text);
        Ok(Outcome::answer(all))
    });
    boss.agent(source).agent(clerk)
}

#[tokio::test(start_paused = true)]
async fn wherever_a_tree_is_forked_its_topics_go_on_and_the_others_hear_nothing() {
    let stage = Stage::alone();
    let system = stage.start(crew()).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "[0, 1, 2] 42 source clerk");
    let forks = forked_everywhere(&stage, &run).await;
    assert!(forks > 15, "{forks}");
    // And of a fork that began in the middle.
    let fork = run.fork(Fork::at(12)).await.unwrap();
    let forks = forked_everywhere(&stage, &fork).await;
    assert!(forks > 15, "{forks}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_event_of_the_team_is_told_in_the_fork_too() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("news").in_scope(Scope::App);
        if let Ok(number) = cx.input().content().parse::<u32>() {
            topic.publish(&number).await?;
            return Ok(Outcome::answer("told"));
        }
        let mut news = topic.subscribe(Subscription::new("news")).await?;
        Ok(Outcome::answer(news.next().await?.event.to_string()))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "boss", "listen").await;
    pause(500).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    pause(500).await;
    // They share the queue, so each event goes to one of them.
    for number in ["1", "2"] {
        let says = system.session("boss", "other").send(number).await.unwrap();
        assert_eq!(text(&says).await, "told");
    }
    let mut heard = [text(&run).await, text(&fork).await];
    heard.sort_unstable();
    assert_eq!(heard, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_to_the_team_that_a_run_took_is_answered_by_its_fork() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("questions").in_scope(Scope::App);
        if cx.input().content() == "ask" {
            let answer = topic.request::<u32>(&1, 60 * SECOND).await?;
            return Ok(Outcome::answer(answer.to_string()));
        }
        let mut asked = topic.subscribe(Subscription::new("clerk")).await?;
        let question = asked.next().await?;
        cx.sleep(10 * SECOND).await?;
        let told = question.respond(&cx, &2).await?;
        Ok(Outcome::answer(told.to_string()))
    });
    let system = stage.start(agent).await;
    let clerk = ask(&system, "boss", "listen").await;
    pause(500).await;
    let asks = system.session("boss", "other").send("ask").await.unwrap();
    pause(5000).await;
    let fork = clerk.fork(Fork::latest()).await.unwrap();
    assert!(clerk.cancel("the fork does it").await.unwrap());
    // Who asked is not in the fork's tree, but shares the topic with it.
    assert_eq!(text(&fork).await, "true");
    assert_eq!(text(&asks).await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_part_tells_nobody_who_is_not_in_it() {
    let stage = Stage::alone();
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("questions");
        let mut asked = topic.subscribe(Subscription::new("clerk")).await?;
        let question = asked.next().await?;
        cx.sleep(10 * SECOND).await?;
        let told = question.respond(&cx, &2).await?;
        let delivered = cx.topic::<u32>("done").publish(&3).await?.delivered;
        Ok(Outcome::answer(format!("{told} {delivered}")))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let done = cx.topic::<u32>("done");
        let mut done = done.subscribe(Subscription::new("boss")).await?;
        let clerk = cx.spawn("clerk", "go").await?;
        let asks = async {
            cx.sleep(SECOND).await?;
            let questions = cx.topic::<u32>("questions");
            questions.request::<u32>(&1, 60 * SECOND).await
        };
        let (answer, done) = futures_util::future::join(asks, done.next()).await;
        let clerk = cx.join(&clerk).await?.text;
        Ok(Outcome::answer(format!(
            "{} {} {clerk}",
            answer?, done?.event
        )))
    });
    let system = stage.start(boss.agent(clerk)).await;
    let run = ask(&system, "boss", "go").await;
    pause(5000).await;
    let clerk = system.run(child(&stage, &run, "clerk").await);
    let fork = clerk.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&run).await, "2 3 true 1");
    let known = runs(&stage).await;
    // The queue is copied with the topic, but not who asked.
    assert_eq!(text(&fork).await, "false 1");
    let told = mailboxes(&stage, &known).await;
    assert!(told.values().all(Vec::is_empty), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_branch_of_a_session_tells_no_run_of_the_other() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers").in_scope(Scope::Session);
        if cx.input().content() == "tell" {
            let told = topic.publish(&1).await?;
            return Ok(Outcome::answer(told.delivered.to_string()));
        }
        let queue = Subscription::new("mine").capacity(1);
        let mut mine = topic.subscribe(queue).await?;
        // It gives up, and its run ends.
        let heard = cx.timeout(SECOND, mine.next()).await;
        Ok(Outcome::answer(heard.is_ok().to_string()))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "boss", "listen").await;
    assert_eq!(text(&run).await, "false");
    let session = SessionId {
        team: "boss".into(),
        key: "s".into(),
    };
    system.sessions().fork(&session, 1, "b").await.unwrap();
    let tell = async |id: &str| {
        let turn = Turn::text("tell").id(id);
        text(&system.session("boss", "b").send(turn).await.unwrap()).await
    };
    assert_eq!(tell("one").await, "1");
    let told = stage.store.mailbox(run.id().into()).await.unwrap();
    assert_eq!(told, [], "who listened in the other session");
    // It is full, and nobody is there who would empty it.
    assert_eq!(tell("two").await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_goes_on_in_a_new_journal_still_empties_its_queue() {
    let agent = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers").in_scope(Scope::App);
        let said = cx.input().content();
        if said == "publish" {
            let mut delivered = Vec::new();
            for number in 1..=3 {
                delivered.push(topic.publish(&number).await?.delivered);
            }
            return Ok(Outcome::answer(format!("{delivered:?}")));
        }
        // In each journal but the first it takes its time before it hears the next event.
        if said != "listen" {
            cx.sleep(10 * SECOND).await?;
        }
        let queue = Subscription::new("mine").capacity(1);
        let mut mine = topic.subscribe(queue).await?;
        let heard = format!("{said} {}", mine.next().await?.event);
        match heard.ends_with('3') {
            true => Ok(Outcome::answer(heard)),
            false => Ok(cx.continue_as(heard)),
        }
    });
    let stage = Stage::alone();
    let system = stage.start(agent).await;
    let listens = ask(&system, "boss", "listen").await;
    pause(500).await;
    let publishes = system.session("boss", "other").send("publish").await;
    assert_eq!(text(&publishes.unwrap()).await, "[1, 1, 1]");
    assert_eq!(text(&listens).await, "listen 1 2 3");
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_receivers_are_forgotten_holds_nobody_up() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("news").in_scope(Scope::App);
        match cx.input().content().as_str() {
            "publish" => {
                for number in 0..3 {
                    topic.publish(&number).await?;
                }
            }
            said => {
                let crowd = Subscription::new("crowd").overflow(Overflow::DropNewest);
                topic.subscribe(crowd).await?;
                // Of so many those who have ended are forgotten, in every queue.
                if said == "both" {
                    topic
                        .subscribe(Subscription::new("gone").capacity(1))
                        .await?;
                }
            }
        }
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let mut turns = vec!["crowd"; 11];
    (turns[0], turns[10]) = ("both", "publish");
    for said in turns {
        let run = ask(&system, "a", said).await;
        assert_eq!(text(&run).await, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_receivers_are_not_in_the_fork_holds_nobody_up_in_it() {
    let reader = Agent::from_fn("reader", |cx: RunContext| async move {
        let slow = Subscription::new("slow").capacity(1);
        let mut numbers = cx.topic::<u32>("numbers").subscribe(slow).await?;
        cx.sleep(1800 * SECOND).await?;
        while numbers.next().await?.event < 2 {}
        Ok(Outcome::answer("read"))
    });
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        cx.sleep(10 * SECOND).await?;
        for number in 1..=2 {
            cx.topic::<u32>("numbers").publish(&number).await?;
        }
        Ok(Outcome::answer("told"))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let (reader, clerk) = (
            cx.spawn("reader", "go").await?,
            cx.spawn("clerk", "go").await?,
        );
        let (read, told) = (cx.join(&reader).await?.text, cx.join(&clerk).await?.text);
        Ok(Outcome::answer(format!("{read} {told}")))
    });
    let stage = Stage::alone();
    let system = stage.start(boss.agent(reader).agent(clerk)).await;
    let run = ask(&system, "boss", "go").await;
    pause(5000).await;
    let clerk = system.run(child(&stage, &run, "clerk").await);
    let fork = clerk.fork(Fork::latest()).await.unwrap();
    let soon = tokio::time::timeout(60 * SECOND, fork.outcome()).await;
    assert_eq!(soon.expect("it is held up").unwrap().text(), "told");
    assert_eq!(text(&run).await, "read told");
}

/// Listens at a topic of the team, ten seconds for each event, or publishes three events.
fn team_topic() -> Agent {
    Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers").in_scope(Scope::App);
        if cx.input().content() == "publish" {
            let mut delivered = Vec::new();
            for number in 1..=3 {
                delivered.push(topic.publish(&number).await?.delivered);
            }
            return Ok(Outcome::answer(format!("{delivered:?}")));
        }
        let queue = Subscription::new("mine").capacity(1);
        let mut mine = topic.subscribe(queue).await?;
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.push(mine.next().await?.event);
            cx.sleep(10 * SECOND).await?;
        }
        Ok(Outcome::answer(format!("{heard:?}")))
    })
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_receives_keeps_its_queue_when_the_original_has_ended() {
    let stage = Stage::alone();
    let system = stage.start(team_topic()).await;
    let run = ask(&system, "boss", "listen").await;
    pause(500).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    pause(500).await;
    assert!(run.cancel("the fork does it").await.unwrap());
    let publishes = system.session("boss", "other").send("publish").await;
    assert_eq!(text(&publishes.unwrap()).await, "[1, 1, 1]");
    assert_eq!(text(&fork).await, "[1, 2, 3]");
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_looked_whether_its_receivers_live_can_be_forked() {
    let stage = Stage::alone();
    let system = stage.start(team_topic()).await;
    let listens = ask(&system, "boss", "listen").await;
    let publishes = system.session("boss", "other").send("publish").await;
    let publishes = publishes.unwrap();
    // It waits for room, and has found that the receiver lives.
    pause(5000).await;
    let fork = publishes.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&listens).await, "[1, 2, 3]");
    assert_eq!(text(&publishes).await, "[1, 1, 1]");
    assert_eq!(text(&fork).await, "[1, 1, 1]");
}
