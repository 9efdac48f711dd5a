//! Whatever hooks, people, errors, cancellations and crashes do in whatever order, a run keeps
//! what the conformance list calls global invariants: every call has one result, in the order of
//! the calls; corrections follow the whole batch; live events are the replayed ones; a stop is
//! typed and keeps what there is; a failed tool fails no run; and nothing depends on chance.

use std::{sync::Arc, time::Duration};

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::{ToolError, ToolHandle},
    run::{Agent, BeforeTool, Policy, PolicyContext, Verdict},
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel, check_transcript},
    vocabulary::{
        AgentError, Budget, Effect, Event, EventRecord, Outcome, Question, Role, StopReason,
        ToolCall, ToolDefinition, ToolResult, ToolStatus,
    },
};
use proptest::{
    prelude::{Just, Strategy, prop},
    prop_oneof,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use crate::stage::{Stage, desk, said as said_in};

fn wait() -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Wait {
        ms: u64,
        #[serde(rename = "do")]
        hook: String,
    }
    let definition = ToolDefinition::new("wait", "Waits.").effect(Effect::Idempotent);
    tool_fn(definition, |wait: Wait| async move {
        tokio::time::sleep(Duration::from_millis(wait.ms)).await;
        match wait.hook.as_str() {
            "fail" => Err(ToolError::new("größer als erlaubt")),
            _ => Ok(format!("waited {} ms, größer", wait.ms)),
        }
    })
}

/// Does to each call what its arguments say.
struct Wild;

fn wish(call: &ToolCall) -> String {
    let wish = call.arguments.value().ok();
    let wish = wish.and_then(|arguments| arguments.get("do")?.as_str());
    wish.unwrap_or_default().to_owned()
}

impl Policy for Wild {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let question = || Question::approval(format!("May {}?", call.id), call.clone());
        Ok(match wish(call).as_str() {
            "block" => {
                cx.defer("Correction: not that.");
                BeforeTool::blocked(call, "blocked")
            }
            "ask" => BeforeTool::ask(question()),
            "wait for answer" => BeforeTool::decided(call, cx.ask(question()).await?.into()),
            "edit" => BeforeTool::GoWith(json!({"ms": 1, "do": "edited"}).into()),
            "sleep" => {
                cx.sleep(Duration::from_millis(700)).await?;
                BeforeTool::Go
            }
            _ => BeforeTool::Go,
        })
    }

    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        Ok(match wish(call).as_str() {
            "override" => Some(ToolResult::new(call, ToolStatus::Success, "overridden")),
            "stop" => {
                cx.stop(StopReason::Other("a policy said so".to_owned()));
                None
            }
            _ if result.status == ToolStatus::Error => {
                cx.defer("Correction: it failed.");
                None
            }
            _ => None,
        })
    }

    async fn before_answer(
        &mut self,
        _: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        Ok(match draft.contains("bad") {
            true => Verdict::Reject("Correction: say it better.".to_owned()),
            false => Verdict::Accept,
        })
    }
}

/// What the arguments of a call may want.
const WISHES: [&str; 9] = [
    "",
    "",
    "fail",
    "block",
    "ask",
    "wait for answer",
    "edit",
    "sleep",
    "override",
];

/// What a model asks for in one turn.
#[derive(Clone, Debug)]
enum Said {
    Calls(Vec<ToolCall>),
    Text(&'static str),
}

fn said() -> impl Strategy<Value = Said> {
    let call =
        (prop::sample::select(&WISHES[..]), 0_u64..2000, 0_u8..8).prop_map(|(wish, ms, odd)| {
            match odd {
                0 => ToolCall::new("", "nothing", json!({})),
                1 => ToolCall::new("a", "wait", "{broken"),
                _ => ToolCall::new("a", "wait", json!({"ms": ms, "do": wish})),
            }
        });
    let stop = Just(Said::Calls(vec![ToolCall::new(
        "s",
        "wait",
        json!({"ms": 1, "do": "stop"}),
    )]));
    let text = prop::sample::select(&["bad", "bad too", "", "fine"][..]).prop_map(Said::Text);
    prop_oneof![
        8 => prop::collection::vec(call, 1..5).prop_map(Said::Calls),
        2 => text,
        1 => stop,
    ]
}

/// What happens to a run from outside.
#[derive(Clone, Debug)]
struct Fate {
    crashes_ms: Vec<u64>,
    cancel_ms: Option<u64>,
    tool_calls: Option<u64>,
}

fn agent() -> Agent {
    let settings = json!({"max_empty_turns": 3, "max_steps": 9});
    let agent = desk("function_calling", settings).tool(wait());
    agent.policy("wild", || Wild).max_rejections(2)
}

/// What a run came to, and all that was seen of it.
struct Seen {
    outcome: Outcome,
    conversation: Vec<String>,
    events: Vec<EventRecord>,
    replayed: Vec<EventRecord>,
}

async fn play(turns: &[Said], fate: &Fate) -> Seen {
    let replies = turns.iter().map(|said| match said {
        Said::Calls(calls) => Reply::from(calls.clone()),
        Said::Text(text) => Reply::from(*text),
    });
    let replies: Vec<Reply> = replies
        .chain((0..12).map(|_| Reply::from("fine")))
        .collect();
    let model = || ScriptedModel::turns(replies.clone()).delay(Duration::from_millis(300));
    let mut store = InMemoryStore::new();
    let mut stage = Stage::on(&store, agent(), model()).await;
    let budget = Budget {
        tool_calls: fate.tool_calls,
        ..Budget::default()
    };
    let turn = Turn::text("go").id("turn").budget(budget);
    let mut run = stage.say(turn).await;
    let mut crashes = fate.crashes_ms.clone();
    crashes.sort_unstable();
    let (mut now, mut cancelled) = (0, false);
    let mut stream = run.events();
    while !run.status().await.unwrap().status.is_ended() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        now += 100;
        assert!(now < 60_000, "the run does not come to an end");
        if fate.cancel_ms.is_some_and(|at| now >= at) && !cancelled {
            cancelled = true;
            let _ = run.cancel("enough").await;
        }
        for (_, operation, question) in run.questions().await.unwrap() {
            let approved = question
                .call
                .is_some_and(|call| call.arguments.text().len() % 2 == 0);
            let _ = run.answer(operation, json!({ "approved": approved })).await;
        }
        if crashes.first().is_some_and(|at| now >= *at) {
            crashes.remove(0);
            stage.check();
            store.crash();
            store = store.another_process();
            stage = Stage::on(&store, agent(), model()).await;
            run = stage.system.run(run.id());
            stream = run.events();
        }
    }
    let mut events = Vec::new();
    while let Some(record) = stream.next().await {
        let record = record.unwrap();
        if !matches!(record.event, Event::Preview(_)) {
            events.push(record);
        }
    }
    stage.check();
    let outcome = run.outcome().await.unwrap();
    // What the session keeps is what the next turn begins with.
    let session = stage.system.session("desk", "session");
    let kept = session.transcript().await.unwrap().messages();
    check_transcript(&kept).unwrap();
    check_order(&kept);
    Seen {
        outcome,
        conversation: said_in(&kept),
        events,
        replayed: run.events().so_far().await.unwrap(),
    }
}

/// Results stand in the order of their calls, and corrections after the whole batch.
fn check_order(messages: &[Arc<ghostlight_actors::vocabulary::Message>]) {
    for pair in messages.windows(2) {
        let asked: Vec<&str> = pair[0].tool_calls().map(|call| call.id.as_str()).collect();
        if asked.is_empty() {
            continue;
        }
        assert_eq!(pair[1].role, Role::Tool);
        let answered: Vec<&str> = pair[1].tool_results().map(|r| r.call_id.as_str()).collect();
        assert_eq!(answered, asked);
    }
}

async fn holds(turns: Vec<Said>, fate: Fate) {
    let calm = Fate {
        crashes_ms: Vec::new(),
        cancel_ms: None,
        tool_calls: fate.tool_calls,
    };
    let undisturbed = play(&turns, &calm).await;
    match &undisturbed.outcome {
        Outcome::Answer(_) => {}
        Outcome::Stopped { partial, .. } => {
            assert!(partial.is_some(), "a stop keeps what there is")
        }
        other => panic!("{other:?}"),
    }
    let seen = play(&turns, &fate).await;
    assert_eq!(
        format!("{:?}", seen.events),
        format!("{:?}", seen.replayed),
        "live and replayed events"
    );
    match seen.outcome.stop_reason() {
        Some(StopReason::Cancelled(reason)) => assert_eq!(reason, "enough"),
        // Which call of a batch a budget refuses depends on who answers first.
        _ if fate.tool_calls.is_some() => {}
        _ => {
            assert_eq!(seen.outcome, undisturbed.outcome);
            assert_eq!(seen.conversation, undisturbed.conversation);
        }
    }
}

#[test]
fn any_interleaving_of_hooks_people_errors_cancels_and_crashes_keeps_the_invariants() {
    let fate = (
        prop::collection::vec(0_u64..6000, 0..3),
        prop::option::weighted(0.3, 0_u64..6000),
        prop::option::weighted(0.3, 0_u64..6),
    );
    let fate = fate.prop_map(|(crashes_ms, cancel_ms, tool_calls)| Fate {
        crashes_ms,
        cancel_ms,
        tool_calls,
    });
    let turns = prop::collection::vec(said(), 0..4);
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let run = TestRunner::new(config).run(&(turns, fate), |(turns, fate)| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(holds(turns, fate));
        Ok(())
    });
    run.unwrap();
}
