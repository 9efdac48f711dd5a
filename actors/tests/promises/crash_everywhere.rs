//! Killed at any commit, a run comes to the same outcome, and nothing is done twice.

use std::time::Duration;

use ghostlight_actors::{
    actor::SystemBuilder,
    definition::Durability,
    ractor::{Actor, ActorRuntime},
    run::{Agent, RunContext, operations::Scope},
    testing::{
        CrashOptions, CrashReport, EffectLog, Harm, Scenario, ScriptedModel, crash_everywhere,
    },
    vocabulary::{Effect, Message, Outcome, Question, ToolCall, ToolDefinition, Transfer},
};
use serde_json::json;

use crate::agents::{self, Order};

fn with(builder: SystemBuilder, agent: Agent) -> SystemBuilder {
    builder.team(agent.into_team().unwrap())
}

fn tool(name: &str, effect: Effect) -> ToolDefinition {
    ToolDefinition::new(name, "is logged").effect(effect)
}

fn order(pieces: u32) -> Order {
    Order { pieces }
}

/// All ten agents but the one that needs an actor of the user's own.
fn ten() -> Vec<Scenario> {
    let brief = Duration::from_millis(30);
    vec![
        Scenario::new("racer", |b, _| with(b, agents::racer())).turn("go"),
        Scenario::new("keeper", move |b, log| {
            let risky = tool("delete", Effect::Once).approval("Delete {path}?");
            let risky = log.tool(risky, brief);
            let safe = log.tool(tool("look", Effect::Read), brief);
            with(b, agents::keeper(risky, safe))
        })
        .turn("go")
        .answers(|question| json!(!question.prompt.contains("tmp/y"))),
        Scenario::new("desk", |b, _| with(b, agents::desk()))
            .turn("80 euro?")
            .turn("and 90?"),
        Scenario::new("writer", |b, _| with(b, agents::writer())).turn("go"),
        Scenario::new("shop", |b, _| with(b, agents::shop()))
            .turn("open")
            .message(&order(4))
            .message(&order(4))
            .message(&order(4)),
        Scenario::new("graph", |b, _| {
            let model = ScriptedModel::turns(["bad", "bad", "good"]);
            with(b.model("default", model), agents::graph())
        })
        .turn("write"),
        Scenario::new("tree", |b, _| with(b, agents::tree())).turn("bring an apple"),
        Scenario::new("boss", |b, _| with(b, agents::coordinator()))
            .named("coordinator")
            .turn("go"),
        Scenario::new("counter", |b, _| with(b, agents::counter()))
            .turn("1")
            .turn("5"),
        Scenario::new("asker", |b, _| with(b, agents::asker())).turn("go"),
        Scenario::new("boss", |b, _| with(b, agents::spawner()))
            .named("spawner")
            .turn("go"),
    ]
}

/// One run with some of everything: about thirty operations.
fn everything() -> Scenario {
    everything_under(Durability::Sync)
}

fn everything_under(durability: Durability) -> Scenario {
    Scenario::new("all", move |builder, log| {
        let slow = Duration::from_millis(40);
        let brief = Duration::from_millis(10);
        let closing = Agent::from_fn("closing", close);
        let helper = Agent::from_fn("helper", |cx: RunContext| async move {
            let results = cx.tools([call("h1", "charge"), call("h2", "look")]).await?;
            let texts: Vec<_> = results.iter().map(|r| r.text.clone()).collect();
            Ok(Outcome::answer(texts.join("+")))
        })
        .tool_named("charge")
        .tool_named("look");
        let agent = Agent::from_fn("all", open_up)
            .tool(log.tool(tool("look", Effect::Read), brief))
            .tool(log.tool(tool("put", Effect::Idempotent), slow))
            .tool(log.tool(tool("charge", Effect::Once), slow))
            .tool(log.tool(tool("order", Effect::Once), brief).later())
            .agent(helper)
            .agent(closing);
        let builder = builder.model("default", ScriptedModel::turns(["first", "second"]));
        builder.team(agent.into_team().unwrap().durability(durability))
    })
    .turn("do it all")
    .message(&order(7))
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, json!({"id": id}))
}

type Ended = Result<Outcome, ghostlight_actors::vocabulary::AgentError>;

async fn open_up(cx: RunContext) -> Ended {
    let began = cx.now().await?;
    let first = cx.model(cx.model_request(cx.conversation())).await?;
    let id = cx.uuid().await?;
    cx.emit("began", &json!({"first": first.content()}));
    let batch = [
        call("a", "look"),
        call("b", "put"),
        call("c", "charge"),
        call("d", "look"),
        call("e", "put"),
        call("f", "charge"),
    ];
    let results = cx.tools(batch).await?;
    let memory = cx.memory();
    for (place, result) in results.iter().enumerate() {
        memory.set(format!("result-{place}"), &result.text).await?;
    }
    let total = cx.state(Scope::App);
    total
        .update("runs", |runs: Option<u32>| runs.unwrap_or(0) + 1)
        .await?;
    let helped = cx.delegate("helper", "help").await?;
    let ticket = cx.tool_unasked(call("g", "order")).await?;
    let colour = cx.ask(Question::choice("Which?", ["red", "blue"])).await?;
    let order: Order = cx.receive().await?;
    cx.sleep(Duration::from_secs(2)).await?;
    let _ = cx
        .timeout(Duration::from_secs(1), cx.sleep(Duration::from_secs(9)))
        .await;
    let took = cx.now().await?.since(began).as_secs() >= 3;
    let text = format!(
        "{} {} {} {colour} {} {took} {}",
        id.get_version_num(),
        helped.text,
        ticket.text,
        order.pieces,
        results
            .iter()
            .map(|r| r.text.as_str())
            .collect::<Vec<_>>()
            .join(",")
    );
    let said = vec![std::sync::Arc::new(Message::assistant(text))];
    Ok(Outcome::Transfer(
        Transfer::to("closing").with_messages(said).request("close"),
    ))
}

async fn close(cx: RunContext) -> Ended {
    let first: Option<String> = cx.memory().get("result-0").await?;
    let runs: Option<u32> = cx.state(Scope::App).get("runs").await?;
    let said = cx.model(cx.model_request(cx.conversation())).await?;
    let conversation = cx.conversation();
    let last = conversation.messages()[1].content();
    cx.memory().delete("result-1").await?;
    let gone: Option<String> = cx.memory().get("result-1").await?;
    Ok(Outcome::answer(format!(
        "{} {first:?} {runs:?} {gone:?} | {last}",
        said.content()
    )))
}

fn assert_kept(report: &CrashReport) {
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits >= 3 && report.crashes >= 2 * report.commits);
}

#[tokio::test(start_paused = true)]
async fn each_of_the_ten_agents_survives_a_crash_at_every_commit() {
    for scenario in ten() {
        let report = crash_everywhere(&scenario, CrashOptions::default()).await;
        assert_kept(&report);
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_of_ones_own_is_asked_again_only_where_that_is_safe() {
    for effect in [Effect::Once, Effect::Read] {
        let (oracle, _) = ActorRuntime::spawn(None, PlainOracle, ()).await.unwrap();
        let asked = oracle.clone();
        let scenario = Scenario::new("seeker", move |b, _| {
            with(b, agents::seeker(asked.clone(), effect))
        });
        let report = crash_everywhere(&scenario.turn("go"), CrashOptions::default()).await;
        assert_kept(&report);
        assert_eq!(report.in_doubt > 0, effect == Effect::Once);
        oracle.stop(None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_some_of_everything_survives_a_crash_at_every_commit() {
    let report = crash_everywhere(&everything(), CrashOptions::default()).await;
    assert_kept(&report);
    assert!(report.in_doubt > 0, "no crash cut a once call off");
}

#[tokio::test(start_paused = true)]
async fn under_async_a_crash_at_any_commit_leaves_a_prefix_from_which_the_run_goes_on() {
    let scenario = everything_under(Durability::Async);
    let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
    assert_kept(&report);
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_recovery_is_no_different() {
    for scenario in [everything(), ten().remove(9)] {
        let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
        assert_kept(&report);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_gets_over_a_commit_that_fails_once() {
    for scenario in ten().into_iter().chain([everything()]) {
        let options = CrashOptions::default().harm(Harm::Fail);
        assert_kept(&crash_everywhere(&scenario, options).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_other_call_of_the_store_is_no_different() {
    for (scenario, fewest) in [(everything(), 100), (ten().remove(6), 20)] {
        let options = CrashOptions::default().calls(60);
        let report = crash_everywhere(&scenario, options).await;
        assert!(report.violations.is_empty(), "{report}");
        assert!(
            report.commits > fewest && report.crashes >= fewest,
            "{report}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_check_finds_an_effect_that_is_done_twice() {
    // A step that lies about its class: it may be repeated, and says to the log that it may not.
    let scenario = Scenario::new("liar", |b, log: EffectLog| {
        let agent = Agent::from_fn("liar", move |cx: RunContext| {
            let log = log.clone();
            async move {
                let act = async move {
                    let brief = Duration::from_millis(5);
                    log.perform("pay", "pay", Effect::Once, brief).await;
                    Ok::<_, std::convert::Infallible>(())
                };
                cx.step("pay", Effect::Read, act).await?;
                Ok(Outcome::answer("paid"))
            }
        });
        with(b, agent)
    });
    let report = crash_everywhere(&scenario.turn("go"), CrashOptions::default()).await;
    let found = report
        .violations
        .iter()
        .any(|v| v.contains("began 2 times"));
    assert!(found, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_sleeps_longer_than_the_patience_is_not_hung() {
    let scenario = Scenario::new("sleeper", |b, _| {
        let agent = Agent::from_fn("sleeper", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(120)).await?;
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("rested"))
        });
        with(b, agent)
    });
    let options = CrashOptions::default().patience(Duration::from_secs(20));
    let report = crash_everywhere(&scenario.turn("go"), options).await;
    assert_kept(&report);
}

#[tokio::test(start_paused = true)]
async fn work_that_waits_for_nothing_that_will_come_is_hung_and_a_parked_run_is_not_waited_for() {
    let hung = Scenario::new("deaf", |b, _| {
        let agent = Agent::from_fn("deaf", |_: RunContext| async move {
            std::future::pending::<()>().await;
            Ok(Outcome::answer("never"))
        });
        with(b, agent)
    });
    let options = CrashOptions::default().patience(Duration::from_secs(20));
    let report = crash_everywhere(&hung.turn("go"), options).await;
    assert!(report.violations[0].contains("hung"), "{report}");

    // Nor does one come to an end that waits with a timer beside it.
    let ticks = Scenario::new("ticks", |b, _| {
        let agent = Agent::from_fn("ticks", |cx: RunContext| async move {
            loop {
                cx.sleep(Duration::from_millis(100)).await?;
            }
        });
        with(b, agent)
    });
    let report = crash_everywhere(&ticks.turn("go"), options.calls(1)).await;
    assert!(report.violations[0].contains("hung"), "{report}");

    // The function of the child takes another way each time, so after a crash it is parked, and
    // so is nothing above it.
    let parked = Scenario::new("boss", |b, _| {
        let lives = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let child = Agent::from_fn("child", move |cx: RunContext| {
            let life = lives.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                if life.is_multiple_of(2) {
                    cx.uuid().await?;
                } else {
                    cx.now().await?;
                }
                cx.sleep(Duration::from_secs(5)).await?;
                cx.uuid().await?;
                Ok(Outcome::answer("done"))
            }
        });
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("child", "go").await?.text))
        });
        with(b, boss.agent(child))
    });
    let begun = tokio::time::Instant::now();
    let report = crash_everywhere(&parked.turn("go").turn("again"), options).await;
    let told = format!("{:?}", report.violations);
    assert!(told.contains("parked"), "{told}");
    assert!(!told.contains("hung"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(3600));
}

/// Answers by the task alone.
struct PlainOracle;

impl Actor for PlainOracle {
    type Msg = ghostlight_actors::actor::Delegation;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ghostlight_actors::ractor::ActorRef<Self::Msg>,
        (): (),
    ) -> Result<(), ghostlight_actors::ractor::ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ghostlight_actors::ractor::ActorRef<Self::Msg>,
        message: Self::Msg,
        (): &mut (),
    ) -> Result<(), ghostlight_actors::ractor::ActorProcessingErr> {
        let _ = message.reply.send(Ok(message.task.content()));
        Ok(())
    }
}
