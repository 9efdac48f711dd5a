//! Whole runs over the engine, against the server that none of us wrote, and against one that breaks off.

use std::time::Duration;

use ghostlight::{
    behaviors,
    models::{OpenAi, openai::Timeouts},
    tool,
};
use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::ToolError,
    run::{Agent, Registry},
    session::Turn,
    testing::{InMemoryStore, check_transcript},
    vocabulary::{Delta, ErrorKind, Event, Message, Outcome, Preview},
};
use serde_json::{Value, json};

use crate::{
    aimock::Aimock,
    fake::{Act, Fake, events, json as answered, piece, stream_head},
};

/// Tells the weather of a city.
#[tool(effect = "read")]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("sunny in {city}"))
}

fn fixtures() -> Value {
    json!([
        {"match": {"userMessage": "weather", "hasToolResult": false},
            "response": {"toolCalls": [
                {"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}]}},
        {"match": {"userMessage": "weather", "hasToolResult": true},
            "response": {"content": "It is sunny in Oslo and in Rome."}},
        {"match": {"userMessage": "cut"}, "truncateAfterChunks": 3,
            "response": {"content": "This answer is cut off before it comes to its end."}},
    ])
}

async fn system(server: &Aimock, streaming: bool) -> System {
    let mut agent = Agent::new("desk").tool(get_weather);
    if streaming {
        agent = agent.streaming();
    }
    started(agent, server.model()).await
}

async fn started(agent: Agent, model: OpenAi) -> System {
    let mut limits = SystemOptions::default();
    limits.gateway.base_pause = Duration::from_millis(5);
    limits.gateway.max_pause = Duration::from_millis(20);
    System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(agent.into_team().unwrap())
        .options(limits)
        .start()
        .await
        .unwrap()
}

/// A desk without tools that asks this model, with short pauses between the attempts.
async fn desk(model: OpenAi, streaming: bool) -> System {
    let mut agent = Agent::new("desk");
    if streaming {
        agent = agent.streaming();
    }
    started(agent, model).await
}

async fn ask(system: &System, text: &str) -> Run {
    system
        .session("desk", "s")
        .send(Turn::text(text))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_whole_run_calls_tools_and_answers_streaming_and_not() {
    let Some(server) = Aimock::start(fixtures(), &["--chunk-size", "7"]) else {
        return;
    };
    for streaming in [false, true] {
        let system = system(&server, streaming).await;
        let run = ask(&system, "weather").await;
        let mut events = run.events();
        let mut shown = String::new();
        let mut tools = Vec::new();
        while let Some(record) = events.next().await {
            match record.unwrap().event {
                Event::Preview(Preview::Delta {
                    delta: Delta::Text(text),
                    ..
                }) => {
                    shown.push_str(&text);
                }
                Event::ToolCalled { result, .. } => tools.push(result.text),
                _ => {}
            }
        }
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.text(), "It is sunny in Oslo and in Rome.");
        tools.sort();
        assert_eq!(tools, ["sunny in Oslo", "sunny in Rome"]);
        assert_eq!(shown.is_empty(), !streaming, "{shown}");
        system.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_of_two_turns_keeps_a_conversation_that_providers_take() {
    let Some(server) = Aimock::start(fixtures(), &[]) else {
        return;
    };
    let system = system(&server, false).await;
    for _ in 0..2 {
        let outcome = ask(&system, "weather").await.outcome().await.unwrap();
        assert_eq!(outcome.text(), "It is sunny in Oslo and in Rome.");
    }
    let said = system
        .session("desk", "s")
        .transcript()
        .await
        .unwrap()
        .messages();
    assert_eq!(said.len(), 8);
    check_transcript(&said).unwrap();
    assert_eq!(*said[0], Message::user("weather"));
}

#[tokio::test]
async fn every_fault_that_stays_ends_in_a_clear_error_after_retries() {
    let faults = [
        ("--chaos-drop", ErrorKind::Model, Some(500)),
        ("--chaos-ratelimit", ErrorKind::RateLimited, Some(429)),
        ("--chaos-malformed", ErrorKind::Malformed, None),
        ("--chaos-disconnect", ErrorKind::Model, None),
    ];
    for (flag, kind, status) in faults {
        let Some(server) = Aimock::start(fixtures(), &[flag, "1"]) else {
            return;
        };
        for streaming in [false, true] {
            let system = system(&server, streaming).await;
            let run = ask(&system, "weather").await;
            let failure = run.outcome().await.unwrap_err().to_string();
            assert!(failure.contains("after 4 attempts"), "{flag}: {failure}");
            let events = run.events().so_far().await.unwrap();
            let failed = events.iter().find_map(|record| match &record.event {
                Event::OperationFailed { error, .. } => error.operation().cloned(),
                _ => None,
            });
            let failed = failed.expect("the failure is recorded");
            assert_eq!(
                (failed.kind, failed.status),
                (kind.clone(), status),
                "{flag}"
            );
            system.stop().await.unwrap();
        }
    }
}

#[tokio::test]
async fn broken_connections_are_tried_again_and_each_attempt_is_closed_and_counted() {
    let half = "{\"choices\": [{\"message\": {\"content\": \"lost";
    let head = format!("HTTP/1.1 200 X\r\ncontent-length: 999\r\n\r\n{half}");
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"lost\"}}]}\n\n";
    for streaming in [false, true] {
        let (begun, answer) = match streaming {
            true => (
                vec![stream_head(), piece(said)],
                events([
                    r#"{"choices":[{"delta":{"content":"well"},"finish_reason":"stop"}]}"#,
                    "[DONE]",
                ]),
            ),
            false => {
                let whole = json!({"choices": [{"message": {"content": "well"}}]});
                (
                    vec![Act::Send(head.clone().into_bytes())],
                    vec![answered(200, &whole.to_string())],
                )
            }
        };
        // Closed before a word of the answer, closed in the middle of it, silent in the middle of it.
        let broken = [begun.clone(), vec![Act::Close]].concat();
        let silent = [begun, vec![Act::Silence]].concat();
        let mut fake = Fake::start([vec![Act::Close], broken, silent, answer]).await;
        let model = fake.model().timeouts(Timeouts {
            idle: Duration::from_millis(300),
            first_byte: Duration::from_secs(5),
            ..Timeouts::default()
        });
        let system = desk(model, streaming).await;
        let run = ask(&system, "hello").await;
        assert_eq!(run.outcome().await.unwrap().text(), "well");
        let records = run.events().so_far().await.unwrap();
        let counted: Vec<u32> = records
            .iter()
            .filter_map(|record| match record.event {
                Event::ModelCalled { attempts, .. } => Some(attempts),
                _ => None,
            })
            .collect();
        assert_eq!(counted, [4]);
        assert_eq!((fake.received().len(), fake.connections()), (4, 4));
        // The server sees that the client has left the connection that fell silent.
        let left = tokio::time::timeout(Duration::from_secs(60), fake.client_left());
        left.await.unwrap();
        system.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_asked_as_often_as_may_be() {
    // Nobody listens there, and the port is nobody else's while it is bound.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap();
    let model = OpenAi::new("m").base_url(format!("http://{address}/v1"));
    let system = desk(model, false).await;
    let run = ask(&system, "hello").await;
    let failure = run.outcome().await.unwrap_err().to_string();
    assert!(
        failure.contains("connection refused") && failure.contains("after 4 attempts"),
        "{failure}"
    );
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_fault_that_passes_is_retried_and_the_run_ends_well() {
    // Three of ten requests fail, by the server's own chance. That four attempts in a row fail is
    // rarer than one in a hundred calls, so a dozen runs show both retries and answers.
    let Some(server) = Aimock::start(fixtures(), &["--chaos-drop", "0.3"]) else {
        return;
    };
    let system = system(&server, false).await;
    let (mut answered, mut retried) = (0, 0);
    for turn in 0..12 {
        let session = system.session("desk", format!("s{turn}"));
        let run = session.send(Turn::text("weather")).await.unwrap();
        if matches!(run.outcome().await, Ok(Outcome::Answer(_))) {
            answered += 1;
        }
        for record in run.events().so_far().await.unwrap() {
            if let Event::ModelCalled { attempts, .. } = record.event {
                retried += u32::from(attempts > 1);
            }
        }
    }
    assert!(answered >= 6, "{answered} of 12 answered");
    assert!(retried >= 1, "no call was retried");
}

#[tokio::test]
async fn a_stream_that_is_always_cut_off_ends_in_a_clear_error() {
    let Some(server) = Aimock::start(fixtures(), &["--chunk-size", "7"]) else {
        return;
    };
    let system = system(&server, true).await;
    let failure = ask(&system, "cut")
        .await
        .outcome()
        .await
        .unwrap_err()
        .to_string();
    assert!(failure.contains("cut off"), "{failure}");
}
