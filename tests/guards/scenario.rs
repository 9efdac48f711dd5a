//! Scenario 21 of the field's conformance list, in one run.

use ghostlight::{
    actor::System,
    interceptors::{Authorization, PersonalAction, PersonalDataGuard},
    prelude::*,
    run::Intercept,
    vocabulary::{Delta, Effect, Event, Message, Preview, ToolCall, Transcript},
};
use serde_json::json;

use crate::{Echo, Says};

/// Personal data is cut between two pieces of a stream, a number that only looks like a card passes, and a tool that is
/// blocked by a pattern stays blocked though another pattern allows it.
#[tokio::test(start_paused = true)]
async fn cut_data_is_hidden_a_false_card_passes_and_a_block_beats_what_is_allowed() {
    // The first number has Luhn's check digit, the second one has not.
    let pieces = [
        "Paid by 4111 1111 ",
        "1111 1111, order 4111 1111 11",
        "11 1112, ask ada@exam",
        "ple.org.",
    ];
    let expected = "Paid by [card], order 4111 1111 1111 1112, ask [email].";
    let (model, echo) = (Says::of(&pieces), Echo::new(Effect::Read));
    let told = tool_of_name("echo_aloud");
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let call = |id: &str, name: &str| ToolCall::new(id, name, json!({ "text": "hello" }));
        let results = cx
            .tools([call("1", "echo"), call("2", "echo_aloud")])
            .await?;
        let conversation = Transcript::from_iter([Message::user("go")]);
        let answer = cx.model(cx.model_request(conversation)).await?;
        let statuses: Vec<String> = results.iter().map(|r| format!("{:?}", r.status)).collect();
        Ok(Outcome::answer(format!(
            "{}|{}",
            statuses.join(" "),
            answer.content()
        )))
    });
    let rules = Authorization::new().allow(["echo*"]).block(["*_aloud"]);
    let team = desk
        .streaming()
        .tool(echo.clone())
        .tool(told)
        .into_team()
        .unwrap();
    let team = team
        .intercept(Intercept::new(rules))
        .intercept(Intercept::new(PersonalDataGuard::new(PersonalAction::Mask)));
    let system = System::builder(InMemoryStore::new()).model("default", model);
    let system = system.team(team).start().await.unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let (mut events, mut shown) = (run.events(), String::new());
    while let Some(record) = events.next().await {
        if let Event::Preview(Preview::Delta {
            delta: Delta::Text(text),
            ..
        }) = record.unwrap().event
        {
            shown.push_str(&text);
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), format!("Success Denied|{expected}"));
    assert!(shown.len() > 20 && expected.starts_with(&shown), "{shown}");
    assert_eq!(echo.calls(), 1);
    system.stop().await.unwrap();
}

/// A tool that must not be called.
fn tool_of_name(name: &str) -> ghostlight::contract::ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Text {
        #[expect(dead_code)]
        text: String,
    }
    let definition = ghostlight::vocabulary::ToolDefinition::new(name, "Shouts.");
    tool_fn(definition.effect(Effect::Read), |_: Text| async {
        Err::<String, _>(ToolError::new("it was called"))
    })
}
