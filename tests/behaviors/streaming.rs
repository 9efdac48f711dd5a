//! Every behavior streams when its agent does.

use std::time::Duration;

use ghostlight_actors::{
    definition::Reach,
    session::Turn,
    testing::{Reply, ScriptedModel},
    vocabulary::{Delta, Event, Preview, ToolCall},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo};

#[tokio::test(start_paused = true)]
async fn every_behavior_shows_its_answer_piece_by_piece() {
    let scenarios: [(&str, Vec<Reply>); 7] = [
        ("simple", vec!["all is well".into()]),
        ("function_calling", vec!["all is well".into()]),
        ("react", vec!["Final: all is well".into()]),
        (
            "reflection",
            vec![
                "all is well".into(),
                r#"{"approved":true,"score":9,"critique":""}"#.into(),
            ],
        ),
        (
            "plan_and_solve",
            vec!["1. a".into(), "alpha".into(), "all is well".into()],
        ),
        ("rewoo", vec!["#E1 = echo[x]".into(), "all is well".into()]),
        ("adaptive", vec!["all is well".into()]),
    ];
    for (behavior, replies) in scenarios {
        let model = ScriptedModel::replies(replies)
            .delay(Duration::from_millis(10))
            .piece_delay(Duration::from_millis(1));
        let agent = desk(behavior, json!({})).tool(echo()).streaming();
        let stage = Stage::with(agent, model).await;
        let run = stage.say("how is it?").await;
        let mut events = run.events();
        let mut shown = String::new();
        while let Some(record) = events.next().await {
            let Event::Preview(Preview::Delta {
                delta: Delta::Text(text),
                ..
            }) = record.unwrap().event
            else {
                continue;
            };
            shown.push_str(&text);
        }
        assert!(shown.contains("all is well"), "{behavior} showed {shown:?}");
        assert!(
            stage.model.requests().iter().all(|request| request.stream),
            "{behavior}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_says_whether_its_answers_are_shown_piece_by_piece_also_below() {
    for (agent_streams, turn_streams, wanted) in [
        (false, None, false),
        (true, None, true),
        (false, Some(true), true),
        (true, Some(false), false),
    ] {
        let below = desk("simple", json!({})).define(|below| below.name = "below".to_owned());
        let below = below.reach(Reach::Delegate);
        let (mut agent, mut below) = (desk("function_calling", json!({})), below);
        if agent_streams {
            (agent, below) = (agent.streaming(), below.streaming());
        }
        let delegate = ToolCall::new("d", "delegate_to_below", json!({"task": "look"}));
        let replies: Vec<Reply> = vec![delegate.into(), "below".into(), "done".into()];
        let stage = Stage::of(agent.agent(below), replies).await;
        let mut turn = Turn::text("go");
        turn.streaming = turn_streams;
        assert_eq!(stage.ask(turn).await.text(), "done");
        let streamed: Vec<bool> = stage
            .model
            .requests()
            .iter()
            .map(|asked| asked.stream)
            .collect();
        assert_eq!(streamed, [wanted; 3], "{agent_streams} {turn_streams:?}");
    }
}
