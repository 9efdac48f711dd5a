//! Every behavior against the server that none of us wrote, streaming and not.

use ghostlight::{behaviors, policies, tool};
use ghostlight_actors::{
    actor::System,
    contract::ToolError,
    definition::BehaviorSpec,
    run::{Agent, Registry},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Delta, Event, Preview},
};
use serde_json::{Value, json};

use crate::aimock::Aimock;

/// Tells the weather of a city.
#[tool(effect = "read")]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("sunny in {city}"))
}

/// The first fixture that fits the last thing that a user said is the answer.
fn fixtures() -> Value {
    let answer = |said: &str, content: &str| json!({"match": {"userMessage": said}, "response": {"content": content}});
    let weather = json!([{"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}]);
    let steps = r##"{"steps": [{"id": "E1", "tool": "get_weather", "input": {"city": "Oslo"}}]}"##;
    json!([
        answer("Judge the answer above", r#"{"approved": true, "score": 9, "critique": ""}"#),
        answer("The steps are done", "It is sunny, as planned."),
        answer("Do this step of the plan", "sunny in Oslo"),
        answer("The calls are done", "It is sunny, by evidence."),
        answer("Observation: sunny", "Thought: I know it.\nFinal: It is sunny, as observed."),
        answer("react", "Thought: I look.\nAction: get_weather\nArgs: {\"city\": \"Oslo\"}"),
        answer("plan_and_solve", r#"{"steps": ["Look up the weather in Oslo."]}"#),
        answer("rewoo", steps),
        answer("reflection", "It is sunny, on reflection."),
        answer("simple", "It is sunny, simply."),
        {"match": {"userMessage": "called", "hasToolResult": false}, "response": {"toolCalls": weather}},
        {"match": {"userMessage": "called", "hasToolResult": true},
            "response": {"content": "It is sunny, as called."}},
    ])
}

#[tokio::test]
async fn every_behavior_answers_through_a_real_server_streaming_and_not() {
    // Pieces come slowly enough that whoever watches from the start sees them.
    let flags = ["--chunk-size", "7", "--latency", "20"];
    let Some(server) = Aimock::start(fixtures(), &flags) else {
        return;
    };
    let cases = [
        ("simple", "simple", "It is sunny, simply."),
        ("function_calling", "called", "It is sunny, as called."),
        ("react", "react", "It is sunny, as observed."),
        ("reflection", "reflection", "It is sunny, on reflection."),
        (
            "plan_and_solve",
            "plan_and_solve",
            "It is sunny, as planned.",
        ),
        ("rewoo", "rewoo", "It is sunny, by evidence."),
        ("adaptive", "called", "It is sunny, as called."),
    ];
    for (behavior, said, expected) in cases {
        for streaming in [false, true] {
            // A policy that has nothing to say here watches over each of them.
            let agent = Agent::new("desk").behavior(BehaviorSpec::new(behavior));
            let agent = agent.tool(get_weather).policy("repetition", json!({}));
            let agent = if streaming { agent.streaming() } else { agent };
            let registry = policies::register(behaviors::register(Registry::new()));
            let system = System::builder(InMemoryStore::new())
                .registry(registry)
                .model("default", server.model())
                .team(agent.into_team().unwrap())
                .start()
                .await
                .unwrap();
            let run = system.session("desk", "s").send(Turn::text(said)).await;
            let run = run.unwrap();
            let mut events = run.events();
            let mut pieces = 0;
            while let Some(record) = events.next().await {
                let event = record.unwrap().event;
                if let Event::Preview(Preview::Delta { delta, .. }) = event {
                    pieces += u32::from(matches!(delta, Delta::Text(_)));
                }
            }
            let outcome = run.outcome().await.unwrap();
            assert_eq!(outcome.text(), expected, "{behavior}");
            assert_eq!(pieces > 1, streaming, "{behavior}: {pieces} pieces");
            system.stop().await.unwrap();
        }
    }
}
