//! The words of a person to a workflow are heard by those of its members that are at work.

use std::{collections::BTreeMap, time::Duration};

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::{DynStore, ModelError, RunFilter, ToolHandle},
    definition::{BehaviorSpec, WhileBusy},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, ScriptedModel, Strike},
    vocabulary::{Effect, ErrorKind, Event, ModelRequest, ModelResponse, Outcome, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, said};

const SAID: &str = "do not write any note";

/// A member that calls a tool, which takes this time, and then answers.
fn member(name: &str, seconds: u64) -> Agent {
    let definition = ToolDefinition::new("slow", "Takes its time.").effect(Effect::Read);
    let slow: ToolHandle = tool_fn(definition, move |_: Value| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok("it took long")
    });
    Agent::new(name)
        .instructions(format!("You are {name}."))
        .tool(slow)
}

fn workflow(name: &str, behavior: &str, settings: Value, members: &[(&str, u64)]) -> Agent {
    let behavior = BehaviorSpec::new(behavior).settings(settings);
    let desk = Agent::new(name).behavior(behavior);
    members.iter().fold(desk, |desk, (name, seconds)| {
        desk.agent(member(name, *seconds))
    })
}

/// The name of the agent that asks: the last word of its instructions.
fn asker(request: &ModelRequest) -> String {
    let words = request.instructions.trim_end_matches('.').rsplit(' ');
    words.take(1).collect()
}

fn lines(request: &ModelRequest) -> String {
    said(&request.conversation.messages()).join("\n")
}

fn has_called(request: &ModelRequest) -> bool {
    lines(request).contains("it took long")
}

fn answer(request: &ModelRequest, _: u64) -> Result<ModelResponse, ModelError> {
    Ok(match has_called(request) {
        true => ModelResponse::text(format!("by {}", asker(request))),
        false => ModelResponse::tool_calls([call("c", "slow", json!({}))]),
    })
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(answer).delay(Duration::from_millis(100))
}

/// How many times what was said stands in each request that follows the tool's result, by member.
fn heard(stage: &Stage) -> Vec<(String, usize)> {
    let requests = stage.model.requests();
    let later = requests.iter().filter(|request| has_called(request));
    let times = |request: &ModelRequest| lines(request).matches(SAID).count();
    later
        .map(|request| (asker(request), times(request)))
        .collect()
}

fn team(agent: Agent) -> Team {
    let team = agent.into_team().unwrap();
    team.define(|team| team.while_busy = WhileBusy::Steer)
}

/// Says it to the run in one of both ways.
async fn say(stage: &Stage, run: &Run, as_turn: bool) -> Result<(), SystemError> {
    match as_turn {
        false => run.steer(SAID).await,
        true => {
            let session = stage.system.session("desk", "session");
            session
                .send(Turn::text(SAID).id("meanwhile"))
                .await
                .map(drop)
        }
    }
}

/// How often each agent of the tree tells that it heard it.
async fn told(run: &Run) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for record in run.events().so_far().await.unwrap() {
        if matches!(&record.event, Event::Heard { text, .. } if text == SAID) {
            *told.entry(record.path.last().unwrap().clone()).or_default() += 1;
        }
    }
    told
}

/// Nothing waits in a mailbox of a run that goes on, or of the session, and the session keeps what was said once.
async fn check_session(stage: &Stage, disk: &InMemoryStore, what: &str) {
    let log = stage.system.session("desk", "session").log().await.unwrap();
    assert_eq!(
        log.messages, 3,
        "the task, what was said, the answer: {what}, {log:?}"
    );
    for row in stage.system.runs(RunFilter::default()).await.unwrap() {
        let session = row.session.map(Into::into);
        for mailbox in [Some(row.run.into()), session].into_iter().flatten() {
            assert_eq!(disk.mailbox(mailbox).await.unwrap(), [], "{what}");
        }
    }
}

/// Says something after so long, and gives who heard it.
async fn heard_by(agent: Agent, as_turn: bool, after: u64) -> Vec<(String, usize)> {
    heard_with(model(), agent, as_turn, after).await
}

async fn heard_with(
    model: ScriptedModel,
    agent: Agent,
    as_turn: bool,
    after: u64,
) -> Vec<(String, usize)> {
    let disk = InMemoryStore::new();
    let stage = Stage::of_team(&disk, team(agent), model).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_millis(after)).await;
    say(&stage, &run, as_turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.text().contains("by "), "{outcome:?}");
    stage.check();
    let all = heard(&stage);
    let told = told(&run).await;
    let listeners = all.iter().filter(|(_, times)| *times > 0);
    let listeners: BTreeMap<_, _> = listeners.map(|(name, _)| (name.clone(), 1)).collect();
    assert_eq!(told, listeners, "each tells it once");
    check_session(&stage, &disk, "without a crash").await;
    if as_turn {
        let again = stage.say(Turn::text(SAID).id("meanwhile")).await;
        assert_eq!(again.id(), run.id(), "it is not begun again");
    }
    all
}

fn named(all: &[(&str, usize)]) -> Vec<(String, usize)> {
    all.iter()
        .map(|(name, times)| ((*name).to_owned(), *times))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_a_sequence_is_in_the_next_request_of_its_member_at_work() {
    for as_turn in [false, true] {
        let pipeline = workflow(
            "desk",
            "pipeline",
            json!({}),
            &[("first", 3), ("second", 3)],
        );
        let all = heard_by(pipeline, as_turn, 2_000).await;
        assert_eq!(
            all,
            named(&[("first", 1), ("second", 0)]),
            "who comes later has the answer"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_a_loop_is_heard_in_the_round_under_way() {
    let settings = json!({ "while": { "text": "o" }, "max_rounds": 2 });
    let looped = workflow("desk", "loop", settings, &[("first", 3), ("second", 3)]);
    let all = heard_by(looped, false, 5_000).await;
    let rounds = [("first", 0), ("second", 1), ("first", 0), ("second", 0)];
    assert_eq!(all, named(&rounds));
}

/// Members that end one after another, one of them below another workflow.
fn side_by_side() -> Agent {
    let inner = [("third", 3), ("fourth", 6)];
    let inner = workflow("inner", "parallel", json!({}), &inner);
    let desk = [("first", 2), ("second", 5)];
    workflow("desk", "parallel", json!({}), &desk).agent(inner)
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_members_side_by_side_is_heard_by_each_of_them() {
    for as_turn in [false, true] {
        let all = heard_by(side_by_side(), as_turn, 1_000).await;
        let each = [("first", 1), ("third", 1), ("second", 1), ("fourth", 1)];
        assert_eq!(all, named(&each));
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_begins_when_another_has_heard_it_and_ended_hears_nothing() {
    let members = [("first", 3), ("second", 3)];
    let desk = workflow("desk", "parallel", json!({ "max_at_once": 1 }), &members);
    let all = heard_by(desk, false, 2_000).await;
    assert_eq!(all, named(&[("first", 1), ("second", 0)]));
}

#[tokio::test(start_paused = true)]
async fn what_a_member_heard_that_fails_the_next_one_hears() {
    let fails = |request: &ModelRequest, number| match has_called(request) {
        true if asker(request) == "first" => Err(ModelError::new(ErrorKind::Denied, "no")),
        _ => answer(request, number),
    };
    let model = ScriptedModel::from_fn(fails).delay(Duration::from_millis(100));
    let desk = workflow(
        "desk",
        "fallback",
        json!({}),
        &[("first", 3), ("second", 3)],
    );
    let all = heard_with(model, desk, false, 2_000).await;
    assert_eq!(all, named(&[("first", 1), ("second", 1)]));
}

#[tokio::test(start_paused = true)]
async fn what_members_at_work_hear_is_heard_once_wherever_the_process_dies() {
    for as_turn in [false, true] {
        let mut crashed = 0;
        for call in 1.. {
            let strike =
                [Strike::Before, Strike::After][(call as usize + usize::from(as_turn)) % 2];
            let harm = Harm::Crash;
            let fault = Fault { call, strike, harm };
            let disk = InMemoryStore::new();
            let store = FaultyStore::at_commit(disk.clone(), fault);
            let stage = Stage::of_team(&store, team(side_by_side()), model()).await;
            let life = async {
                let session = stage.system.session("desk", "session");
                let run = session.send(Turn::text("go").id("go")).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                say(&stage, &run, as_turn).await?;
                run.outcome().await
            };
            let died = tokio::select! {
                biased;
                () = store.crashed() => true,
                end = life => { end.unwrap(); false }
            };
            stage.system.supervisor().unwrap().actor().kill();
            disk.crash();
            let next = disk.another_process();
            let stage = Stage::of_team(&next, team(side_by_side()), model()).await;
            let what = format!("as a turn: {as_turn}, {fault:?}");
            // The second process does now what the first one did not.
            let run = stage.say(Turn::text("go").id("go")).await;
            if said_in(&next, &run, as_turn).await == 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                say(&stage, &run, as_turn).await.unwrap();
            }
            run.outcome().await.unwrap();
            stage.check();
            let each = ["first", "fourth", "second", "third"];
            let each = each.map(|name| (name.to_owned(), 1));
            assert_eq!(told(&run).await, each.into(), "{what}");
            check_session(&stage, &next, &what).await;
            if !died {
                break;
            }
            crashed += 1;
        }
        assert!(crashed >= 15, "{crashed}");
    }
}

/// How many times it was said to the run by now: it waits in a mailbox, or somebody has heard it.
async fn said_in(disk: &InMemoryStore, run: &Run, as_turn: bool) -> usize {
    let row = disk.run(run.id()).await.unwrap().unwrap();
    let mailbox = match as_turn {
        true => row.session.unwrap().into(),
        false => run.id().into(),
    };
    let waiting = disk.mailbox(mailbox).await.unwrap().len();
    waiting + told(run).await.len()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_goes_on_in_another_journal_hears_it_once() {
    let member = Agent::from_fn("member", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(2)).await?;
        let heard = cx.hear().len();
        Ok(match cx.input().content() {
            task if task.contains("heard") => Outcome::answer(format!("{task}, then {heard}")),
            _ => cx.continue_as(format!("heard {heard}")),
        })
    });
    let behavior = BehaviorSpec::new("pipeline").settings(json!({}));
    let desk = Agent::new("desk").behavior(behavior).agent(member);
    let disk = InMemoryStore::new();
    let stage = Stage::of_team(&disk, team(desk), model()).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.steer(SAID).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "heard 1, then 0");
    check_session(&stage, &disk, "").await;
}

#[tokio::test(start_paused = true)]
async fn what_no_member_hears_is_the_next_turn() {
    let deaf = Agent::from_fn("deaf", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(3)).await?;
        Ok(Outcome::answer("by deaf"))
    });
    let behavior = BehaviorSpec::new("pipeline").settings(json!({}));
    let desk = Agent::new("desk").behavior(behavior).agent(deaf);
    let disk = InMemoryStore::new();
    let stage = Stage::of_team(&disk, team(desk), model()).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let turn = Turn::text(SAID).id("meanwhile");
    assert_eq!(stage.say(turn.clone()).await.id(), run.id());
    run.outcome().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let next = stage.say(turn).await;
    assert_ne!(next.id(), run.id());
    let runs = stage.system.runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.iter().filter(|row| row.parent.is_none()).count(), 2);
    assert_eq!(told(&run).await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn two_hundred_messages_reach_fifty_members() {
    let names: Vec<String> = (0..50).map(|number| format!("m{number}")).collect();
    // Half of the members end before the others hear anything.
    let times = (0..).map(|number| 2 + 2 * (number % 2));
    let members: Vec<_> = names.iter().map(String::as_str).zip(times).collect();
    let desk = workflow("desk", "parallel", json!({}), &members);
    let disk = InMemoryStore::new();
    let stage = Stage::of_team(&disk, team(desk), model()).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..200 {
        run.steer(SAID).await.unwrap();
    }
    run.outcome().await.unwrap();
    let all: BTreeMap<_, _> = heard(&stage).into_iter().collect();
    assert_eq!(all, names.into_iter().map(|name| (name, 200)).collect());
    assert_eq!(disk.mailbox(run.id().into()).await.unwrap(), []);
    let log = stage.system.session("desk", "session").log().await.unwrap();
    assert_eq!(log.messages, 202);
}
