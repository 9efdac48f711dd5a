//! Every behavior streams when its agent does.

use std::time::Duration;

use ghostlight_actors::{
    testing::{Reply, ScriptedModel},
    vocabulary::{Delta, Event, Preview},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo};

#[tokio::test(start_paused = true)]
async fn every_behavior_shows_its_answer_piece_by_piece() {
    let scenarios: [(&str, Vec<Reply>); 6] = [
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
