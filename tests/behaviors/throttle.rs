//! Messages that are held back, and told to be.

use std::time::Duration;

use ghostlight::{behaviors, policies::Throttle, tools::tool_fn};
use ghostlight_actors::{
    actor::System,
    contract::ToolError,
    run::{Agent, Registry},
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Effect, ModelResponse, ToolCall, ToolDefinition, ToolStatus},
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Mail {
    to: String,
    text: String,
}

/// After so many seconds, messages to somebody, and how each ends.
type Turn<'a> = (u64, Vec<(&'a str, &'a str)>, Vec<(ToolStatus, &'a str)>);

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_too_soon_is_not_sent_and_its_agent_is_told_so() {
    use ToolStatus::{Blocked, Error, Success};
    let long = "All that there is to say of it. ".repeat(8);
    let turns: Vec<Turn<'_>> = vec![
        (0, vec![("ada", &long)], vec![(Success, "sent")]),
        (
            60,
            vec![("ada", "done?")],
            vec![(Blocked, "may go in 60 s")],
        ),
        (0, vec![("ben", "I look")], vec![(Success, "sent")]),
        (
            5,
            vec![("ben", "I still look")],
            vec![(Blocked, "may go in 10 s")],
        ),
        // What was found may follow at once.
        (0, vec![("ben", &long)], vec![(Success, "sent")]),
        (90, vec![("ben", &long)], vec![(Blocked, "may go in 30 s")]),
        // What was not sent counts for nothing.
        (31, vec![("ben", "bounces")], vec![(Error, "ben is full")]),
        (0, vec![("ben", "again")], vec![(Success, "sent")]),
        (
            0,
            vec![("cy", "one"), ("cy", "two")],
            vec![(Success, "sent"), (Blocked, "Held back, and not sent")],
        ),
    ];
    let replies = turns.iter().flat_map(|(_, messages, _)| {
        let calls = messages.iter().enumerate().map(|(place, (to, text))| {
            ToolCall::new(place.to_string(), "send", json!({"to": to, "text": text}))
        });
        [Reply::from(ModelResponse::tool_calls(calls)), "ok".into()]
    });
    let model = ScriptedModel::replies(replies);
    let send = ToolDefinition::new("send", "sends").effect(Effect::Once);
    let send = tool_fn(send, |mail: Mail| async move {
        match mail.text.as_str() {
            "bounces" => Err(ToolError::new(format!("{} is full", mail.to))),
            _ => Ok("sent"),
        }
    });
    let desk = Agent::new("desk")
        .tool(send)
        .policy("throttle", || Throttle::default().tool("send", "to"));
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "s");
    let mut seen = 0;
    for (pause, messages, expected) in turns {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let run = session.send("go").await.unwrap();
        assert_eq!(run.outcome().await.unwrap().text(), "ok");
        let said = session.transcript().await.unwrap().since(seen);
        seen += said.len();
        let results = said.iter().flat_map(|message| message.tool_results());
        let results: Vec<_> = results.collect();
        assert_eq!(results.len(), expected.len());
        for (result, (status, text)) in results.iter().zip(expected) {
            assert_eq!(result.status, status, "{messages:?}: {}", result.text);
            assert!(result.text.contains(text), "{messages:?}: {}", result.text);
        }
    }
    system.stop().await.unwrap();
}
