//! What a collector of OpenTelemetry gets of runs.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod collector;
mod command;
mod going_on;
mod receivers;
mod scraped;
mod what_happens;

use std::time::Duration;

use ghostlight::{
    actor::System,
    contract::ToolError,
    opentelemetry::OpenTelemetry,
    prelude::*,
    run::Team,
    testing::{InMemoryStore, ScriptedModel},
    tools::tool_fn,
    vocabulary::{Arguments, ToolCall, ToolDefinition, Usage},
};
use serde_json::json;

use collector::{Answer, Collector, check_whole, is_error, named, text};

/// Counts what an agent asks its model, and answers by the conversation.
fn model(replies: impl IntoIterator<Item = ModelResponse>) -> ScriptedModel {
    let usage = Usage {
        input_tokens: 30,
        output_tokens: 7,
        cached_tokens: 20,
        cost_micros: 11,
        ..Usage::default()
    };
    ScriptedModel::turns(replies).usage(usage)
}

fn calls(id: &str, name: &str, arguments: serde_json::Value) -> ModelResponse {
    ModelResponse::tool_calls([ToolCall::new(id, name, Arguments::from(arguments))])
}

/// A desk that gives the task to an accountant, who uses a tool and gives a part to a checker.
fn desk() -> Team {
    let checker = Agent::new("checker").model(model([ModelResponse::text("it is right")]));
    let add = ToolDefinition::new("add", "adds").effect(Effect::Read);
    let add = tool_fn(add, |numbers: Numbers| async move {
        match numbers.a {
            0.0 => Err(ToolError::new("nothing is no password=hunter22hunter22")),
            a => Ok(a + numbers.b),
        }
    });
    let accountant = Agent::new("accountant")
        .tool(add)
        .delegate_to(checker)
        .model(model([
            calls("a1", "add", json!({ "a": 1.0, "b": 2.0 })),
            calls(
                "a2",
                "delegate_to_checker",
                json!({ "task": "is 3 right?" }),
            ),
            ModelResponse::text("3, says the checker"),
        ]));
    let desk = Agent::new("desk").delegate_to(accountant).model(model([
        calls("d1", "delegate_to_accountant", json!({ "task": "1 + 2?" })),
        ModelResponse::text("it is 3"),
    ]));
    desk.into_team().unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: f64,
    b: f64,
}

async fn system(store: &InMemoryStore, team: Team) -> System {
    let builder = System::builder(store.clone()).registry(ghostlight::builtin());
    builder.team(team).start().await.unwrap()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_run_with_two_delegations_is_one_trace_of_all_its_operations() {
    let collector = Collector::start(Answer::Takes).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let session = system.session("desk", "ada");
    let run = session.send(Turn::text("1 + 2?").id("t1")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "it is 3");
    following.flush().await.unwrap();

    let spans = collector.spans();
    check_whole(&spans);
    let trace = run.id().to_string().replace('-', "");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace));
    // Three runs, six model calls, a tool and two delegations.
    assert_eq!(spans.len(), 12);
    let below = |name: &str, above: &str| {
        let (span, above) = (named(&spans, name), named(&spans, above));
        assert_eq!(span.parent_span_id, above.span_id, "{name} below another");
        assert!(span.start_time_unix_nano >= above.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= above.end_time_unix_nano);
    };
    assert_eq!(named(&spans, "invoke_agent desk").parent_span_id, b"");
    below("execute_tool delegate_to_accountant", "invoke_agent desk");
    below(
        "invoke_agent accountant",
        "execute_tool delegate_to_accountant",
    );
    below("execute_tool add", "invoke_agent accountant");
    below(
        "execute_tool delegate_to_checker",
        "invoke_agent accountant",
    );
    below("invoke_agent checker", "execute_tool delegate_to_checker");

    let tool = named(&spans, "execute_tool add");
    let of_tool = |name| text(&tool.attributes, name);
    assert_eq!(of_tool("gen_ai.operation.name"), "execute_tool");
    assert_eq!(of_tool("gen_ai.tool.call.id"), "a1");
    assert_eq!(of_tool("gen_ai.agent.name"), "accountant");
    assert_eq!(of_tool("ghostlight.tool.effect"), "read");
    assert_eq!(of_tool("ghostlight.tool.answered_by"), "tool");
    let answered = named(&spans, "execute_tool delegate_to_checker");
    assert_eq!(
        text(&answered.attributes, "ghostlight.tool.answered_by"),
        "agent"
    );
    assert_eq!(text(&answered.attributes, "gen_ai.tool.call.id"), "a2");

    let chat = spans.iter().find(|span| span.name.starts_with("chat "));
    let chat = &chat.unwrap().attributes;
    assert_eq!(text(chat, "gen_ai.operation.name"), "chat");
    assert_eq!(text(chat, "gen_ai.usage.input_tokens"), "30");
    assert_eq!(text(chat, "gen_ai.usage.output_tokens"), "7");
    assert_eq!(text(chat, "gen_ai.usage.cache_read.input_tokens"), "20");
    let root = &named(&spans, "invoke_agent desk").attributes;
    assert_eq!(text(root, "gen_ai.conversation.id"), "desk/ada");
    assert_eq!(text(root, "ghostlight.run.id"), run.id().to_string());
    assert_eq!(text(root, "ghostlight.run.end"), "answered");
    assert_eq!(collector.resource("service.name"), "ghostlight");
    // Nothing of what was said.
    for said in ["1 + 2?", "it is 3", "is 3 right?"] {
        assert!(!collector.heard(said), "{said} was exported");
    }

    // The times are those of the record.
    let events = system
        .run(run.id())
        .events()
        .recorded()
        .so_far()
        .await
        .unwrap();
    let root = named(&spans, "invoke_agent desk");
    let nanos = |place: usize| events[place].at.0 * 1_000_000;
    assert_eq!(root.end_time_unix_nano, nanos(events.len() - 1));
    assert!(root.start_time_unix_nano <= nanos(0));
    // What was exported is not exported again.
    following.flush().await.unwrap();
    assert_eq!(collector.spans().len(), 12);
    following.shutdown().await;
    system.stop().await.unwrap();
}

#[cfg(feature = "full")]
#[tokio::test]
async fn memories_and_steps_have_spans_and_a_chat_says_what_it_asked_for() {
    use ghostlight::memory::{Memory, MemoryQuery, MemoryScope};

    let collector = Collector::start(Answer::Takes).await;
    let mut settings = ghostlight::vocabulary::ModelSettings::default();
    (settings.temperature, settings.max_tokens) = (Some(0.5), Some(99));
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let memory = Memory::new("memory").on(&cx, MemoryScope::Session);
        memory.search(MemoryQuery::new("secret words")).await?;
        let found = cx.step("look around", Effect::Read, async {
            Ok::<_, AgentError>(7)
        });
        found.await?;
        let failed = cx.step("fall", Effect::Read, async {
            Err::<(), _>("no password=hunter22")
        });
        failed.await.unwrap_err();
        cx.memory().set("key", &1).await?;
        Ok(Outcome::answer(cx.think().await?.content()))
    });
    let agent = agent
        .settings(settings)
        .model(model([ModelResponse::text("done")]));
    let system = system(&InMemoryStore::new(), agent.into_team().unwrap()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    system.session("desk", "ada").ask("go").await.unwrap();
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    assert_eq!(spans.len(), 5, "a value of state is none");
    let root = &named(&spans, "invoke_agent desk").span_id;
    for (name, operation) in [
        ("memory_search", "memory"),
        ("step look around", "step"),
        ("step fall", "step"),
    ] {
        let span = named(&spans, name);
        assert_eq!(&span.parent_span_id, root, "{name}");
        assert_eq!(text(&span.attributes, "gen_ai.operation.name"), operation);
    }
    assert!(is_error(named(&spans, "step fall")) && !is_error(named(&spans, "memory_search")));
    let chat = spans.iter().find(|span| span.name.starts_with("chat "));
    let chat = &chat.unwrap().attributes;
    assert_eq!(text(chat, "gen_ai.request.temperature"), "0.5");
    assert_eq!(text(chat, "gen_ai.request.max_tokens"), "99");
    for said in ["secret words", "hunter22"] {
        assert!(!collector.heard(said), "{said} was exported");
    }
    following.shutdown().await;
    system.stop().await.unwrap();
}
