//! What is under way while a model answers: who comes late sees it, who cancels keeps it, and what it cost is counted.

use std::time::Duration;

use ghostlight::{
    models::{Anthropic, Fallback, Gemini, Secret},
    prelude::*,
    testing::InMemoryStore,
    vocabulary::StopReason,
};
use ghostlight_actors::{
    actor::SystemOptions,
    run::{Registry, operations::Scope},
    session::Turn,
    vocabulary::{Message, Part},
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    ask,
    fake::{Act, Fake, events, json as whole, piece, stream_head},
    respond, stream,
};

async fn desk(model: impl Model) -> System {
    let mut limits = SystemOptions::default();
    limits.gateway.base_pause = Duration::from_millis(1);
    limits.gateway.max_pause = Duration::from_millis(2);
    System::builder(InMemoryStore::new())
        .registry(ghostlight::behaviors::register(Registry::new()))
        .model("default", model)
        .team(Agent::new("desk").streaming().into_team().unwrap())
        .options(limits)
        .start()
        .await
        .unwrap()
}

fn said(text: &str) -> Act {
    let delta = json!({"choices": [{"delta": {"content": text}}]});
    piece(format!("data: {delta}\n\n"))
}

#[tokio::test]
async fn who_comes_late_to_a_stream_gets_what_was_said_and_who_cancels_keeps_it() {
    let long = Duration::from_secs(20);
    let fake = Fake::start([vec![
        stream_head(),
        said("Half of "),
        said("an answer"),
        Act::Silence,
    ]])
    .await;
    let system = desk(fake.model()).await;
    let run = system
        .session("desk", "s")
        .send(Turn::text("go"))
        .await
        .unwrap();
    let mut first = run.text_stream();
    let mut seen = String::new();
    while seen != "Half of an answer" {
        seen += &timeout(long, first.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
            .text;
    }
    let late = timeout(long, run.text_stream().next()).await.unwrap();
    assert_eq!(late.unwrap().unwrap().text, "Half of an answer");
    drop(first);
    run.cancel("enough").await.unwrap();
    let outcome = timeout(long, run.outcome()).await.unwrap().unwrap();
    assert!(
        matches!(
            outcome,
            Outcome::Stopped {
                reason: StopReason::Cancelled(_),
                ..
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(outcome.text(), "Half of an answer");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn nobody_needs_to_watch_for_the_text_before_a_cancellation_to_be_kept() {
    let fake = Fake::start([vec![stream_head(), said("Half of "), Act::Silence]]).await;
    let system = desk(fake.model()).await;
    let run = system
        .session("desk", "s")
        .send(Turn::text("go"))
        .await
        .unwrap();
    fake.request_came().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    run.cancel("enough").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "Half of ");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_failed_attempt_cost_counts_with_the_answer() {
    let cut = || {
        let begun = json!({"type": "message_start", "message": {"type": "message", "model": "m",
            "usage": {"input_tokens": 100, "output_tokens": 1}}});
        let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
        let text = json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "a long text that is paid for"}});
        let events = [begun, block, text].map(|event| format!("data: {event}\n\n"));
        vec![stream_head(), piece(events.concat()), Act::Close]
    };
    let answer = || {
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}"#;
        let text = r#"{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}"#;
        events([text, usage, "[DONE]"])
    };
    let (first, second) = (Fake::start([cut()]).await, Fake::start([answer()]).await);
    let anthropic = Anthropic::new("m")
        .base_url(first.model().settings().base_url.clone())
        .api_key(Secret::value("k"));
    let model = Fallback::new(anthropic).or(second.model());
    let usage = stream(&model, ask("go")).await.0.unwrap().usage;
    assert_eq!(usage.input_tokens, 110);
    assert!(
        usage.output_tokens > 2 + 1 && usage.estimated_tokens > 0,
        "{usage:?}"
    );

    // The same where the engine tries again.
    let half = vec![
        stream_head(),
        said("a long text that is paid for"),
        Act::Close,
    ];
    let fake = Fake::start([half, answer()]).await;
    let system = desk(fake.model()).await;
    let run = system
        .session("desk", "s")
        .send(Turn::text("go"))
        .await
        .unwrap();
    let (outcome, spent) = run.outcome_and_spent().await.unwrap();
    assert_eq!(outcome.text(), "ok");
    assert!(
        spent.usage.input_tokens > 10 && spent.usage.output_tokens > 2,
        "{spent:?}"
    );
    system.stop().await.unwrap();
    // What was refused before it began cost nothing.
    let fake = Fake::start([vec![whole(500, "{}")]]).await;
    let error = respond(&fake.model(), ask("go")).await.unwrap_err();
    assert_eq!(error.usage.total_tokens(), 0);
}

#[tokio::test]
async fn an_answer_that_is_only_a_picture_is_an_answer() {
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]);
    let fake = Fake::json(json!({"modelVersion": "m",
        "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}))
    .await;
    let model = Gemini::new("m")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("k"));
    let system = desk(model).await;
    let session = system.session("desk", "s");
    let run = session.send(Turn::text("draw")).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Answer(_)), "{outcome:?}");
    assert_eq!(outcome.text(), "[picture.png (image/png)]");
    let kept = session.artifact(Scope::Session, "picture.png", None).await;
    let kept = kept.unwrap().unwrap();
    assert_eq!(&*kept.content, b"\x89PNG\r\n\x1a\n");
    assert_eq!(fake.received().len(), 1);
    let messages = session.transcript().await.unwrap().messages();
    let last: &Message = messages.last().unwrap();
    assert!(matches!(&last.parts[..], [Part::Data(_)]), "{last:?}");
    system.stop().await.unwrap();
}
