//! ReAct: tools by text.

use ghostlight_actors::{
    run::Agent,
    testing::Reply,
    vocabulary::{Role, StopReason},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo, echo_call};

fn agent(settings: serde_json::Value) -> Agent {
    desk("react", settings)
        .instructions("Be brief.")
        .tool(echo())
}

/// Scenario 9 of the conformance list.
#[tokio::test(start_paused = true)]
async fn several_lines_fences_and_two_malformed_turns_come_to_an_answer() {
    let replies = [
        "Thought: look\nAction: echo\nArgs: {\n  \"text\": \"one\"\n}",
        "Thought: again\nAction: echo\nArgs:\n```json\n{\"text\": \"two\"}\n```",
        "I am sure that it is two.",
        "Action: echo\nArgs: {\"text\": \"cut",
        "Thought: done\nFinal: two\n\nas I said",
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "two\n\nas I said");
    let said = stage.said(4);
    assert_eq!(said[2], "user: observation: one");
    assert_eq!(said[4], "user: observation: two");
    assert!(
        said[6].starts_with("user: there is neither `action:` nor `final:`"),
        "{said:?}"
    );
    assert!(said[8].contains("before they are complete"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn the_server_needs_no_tool_calling() {
    let replies = ["Action: echo\nArgs: {\"text\": \"1\"}", "Final: ok"];
    let stage = Stage::of(agent(json!({})), replies).await;
    stage.ask("go").await;
    for number in 0..2 {
        let request = stage.request(number);
        assert!(request.tools.is_empty() && request.output.is_none());
        assert!(request.instructions.starts_with("Be brief."));
        assert!(request.instructions.contains("- echo: Says it again."));
        assert_eq!(request.settings.stop, ["\nObservation:"]);
        let messages = request.conversation.messages();
        assert!(messages.iter().all(|message| message.role != Role::Tool));
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_and_failing_tools_are_observations() {
    let replies = [
        "Action: search\nArgs: {}\nAction: echo\nArgs: {\"text\": \"fail twice\"}",
        "Final: no luck",
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "no luck");
    let last = stage.last(1);
    assert!(
        last.contains("observation 1 (search): [not done] there is no tool \"search\""),
        "{last}"
    );
    assert!(
        last.contains("observation 2 (echo): [not done] twice"),
        "{last}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_model_makes_up_as_observation_is_cut() {
    let replies = [
        "Action: echo\nArgs: {\"text\": \"1\"}\nObservation: 99\nFinal: 99",
        "Final: 1",
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "1");
    assert!(!stage.said(1).join("\n").contains("99"));
}

#[tokio::test(start_paused = true)]
async fn turns_that_cannot_be_read_are_bounded() {
    let stage = Stage::of(agent(json!({"max_parse_failures": 1})), ["a", "b"]).await;
    let outcome = stage.ask("go").await;
    assert!(
        matches!(outcome.stop_reason(), Some(StopReason::GaveUp(why)) if why.contains("neither"))
    );
    assert_eq!(outcome.text(), "b");
}

#[tokio::test(start_paused = true)]
async fn it_hands_over_and_takes_over_a_conversation_with_native_calls() {
    let native = desk("function_calling", json!({})).tool(echo());
    let texter = Agent::new("texter").behavior(agent(json!({})).spec().behavior.clone());
    let replies: Vec<Reply> = vec![
        echo_call("a", "1").into(),
        ghostlight_actors::vocabulary::ToolCall::new(
            "b",
            "transfer_to_texter",
            "{\"request\": \"go on\"}",
        )
        .into(),
        "Action: transfer_to_desk\nArgs: {\"request\": \"go on\"}".into(),
        "done".into(),
    ];
    let stage = Stage::of(native.agent(texter), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let handed = stage.said(2);
    assert_eq!(
        handed[1..3],
        [
            "assistant: action: echo\nargs: {\"text\":\"1\"}",
            "user: observation: 1"
        ]
    );
    assert!(stage.last(3).contains("go on"), "{:?}", stage.said(3));
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_schema_is_explained_and_checked() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Price {
        gross: f64,
    }
    let replies = ["Final: a lot", "Final: {\"gross\": 95.2}"];
    let stage = Stage::of(agent(json!({})).output::<Price>(), replies).await;
    let outcome = stage.ask("price?").await;
    assert!((outcome.parse::<Price>().unwrap().gross - 95.2).abs() < 1e-9);
    assert!(
        stage
            .request(0)
            .instructions
            .contains("fits this schema: {")
    );
}

#[tokio::test(start_paused = true)]
async fn actions_in_fences_are_all_read_and_what_follows_them_too() {
    let action =
        |text: &str| format!("Action: echo\nArgs:\n```json\n{{\"text\": \"{text}\"}}\n```\n");
    let (ann, bob) = (action("ann"), action("bob"));
    let replies = [
        format!("Thought: both\n{ann}{bob}"),
        format!("{ann}Observation: made up\nFinal: made up too"),
        format!("{ann}Final: told"),
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "told");
    let both = stage.last(1);
    assert!(both.contains("ann") && both.contains("bob"), "{both}");
    let said = stage.said(2);
    assert_eq!(said[4], "user: observation: ann");
    assert!(!said[3].contains("made up"), "{said:?}");
}
