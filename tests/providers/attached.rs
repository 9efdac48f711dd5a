//! Files that go with a turn, as each provider takes them.

use ghostlight::{
    models::{Anthropic, Gemini, Secret},
    prelude::*,
};
use ghostlight_actors::vocabulary::{Data, ErrorKind, Message, Transcript};
use serde_json::{Value, json};

use crate::{
    fake::{Act, Fake, json as whole},
    respond,
};

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n....";
const PICTURE_SENT: &str = "iVBORw0KGgouLi4u";
const SOUND: &[u8] = b"ID3....";
const PDF: &[u8] = b"%PDF-1.7";

fn claude(fake: &Fake) -> Anthropic {
    Anthropic::new("claude-test")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("k"))
}

fn anthropic_answer() -> Vec<Act> {
    let body = json!({"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"});
    vec![whole(200, &body.to_string())]
}

fn asked(files: &[(&str, &[u8])]) -> ModelRequest {
    let files = files
        .iter()
        .map(|(name, bytes)| Data::from_bytes(*name, bytes).unwrap());
    let message = files.fold(Message::user("Look."), Message::attach);
    ModelRequest::new(Transcript::from_iter([message]))
}

#[tokio::test]
async fn each_provider_gets_files_in_its_form() {
    let files: [(&str, &[u8]); 3] = [("a.png", PICTURE), ("b.pdf", PDF), ("c.csv", b"pear,2")];
    let table = "[c.csv (text/csv)]\npear,2";
    let fake = Fake::start([anthropic_answer()]).await;
    respond(&claude(&fake), asked(&files)).await.unwrap();
    let mut content = fake.only_body()["messages"][0]["content"].clone();
    for block in content.as_array_mut().unwrap() {
        block.as_object_mut().unwrap().remove("cache_control");
    }
    let base64 =
        |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": "Look."},
            {"type": "image", "source": base64("image/png", PICTURE_SENT)},
            {"type": "document", "source": base64("application/pdf", "JVBERi0xLjc=")},
            {"type": "text", "text": table},
        ])
    );
    let answer =
        json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]});
    let fake = Fake::json(answer).await;
    let gemini = Gemini::new("gemini-test")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("k"));
    let files = [files[0], files[1], files[2], ("d.mp3", SOUND)];
    respond(&gemini, asked(&files)).await.unwrap();
    let parts = fake.only_body()["contents"][0]["parts"].clone();
    assert_eq!(
        parts,
        json!([
            {"text": "Look."},
            {"inlineData": {"mimeType": "image/png", "data": PICTURE_SENT}},
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjc="}},
            {"text": table},
            {"inlineData": {"mimeType": "audio/mpeg", "data": "SUQzLi4uLg=="}},
        ])
    );
}

#[tokio::test]
async fn what_a_model_cannot_take_is_refused_before_the_call() {
    let fake = Fake::start([anthropic_answer()]).await;
    let error = respond(&claude(&fake), asked(&[("voice.mp3", SOUND)])).await;
    let error = error.unwrap_err();
    for words in ["claude-test", "voice.mp3 (audio/mpeg)", "application/pdf"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert!(!error.retryable && error.kind == ErrorKind::InvalidInput);
    assert!(fake.received().is_empty());
}

#[tokio::test]
async fn a_session_goes_on_after_a_file_that_was_refused() {
    let fake = Fake::start([anthropic_answer()]).await;
    let team = Agent::new("desk").model(claude(&fake)).into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(team)
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "ada");
    let voice = File::from_bytes("voice.mp3", SOUND).unwrap();
    let error = session.ask(Turn::text("Hear.").attach(voice)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("voice.mp3"), "{error}");
    session.ask("And without it?").await.unwrap();
    let sent: Vec<Value> = fake.received().into_iter().map(|sent| sent.body).collect();
    assert_eq!(sent.len(), 1);
    let told = sent[0]["messages"].to_string();
    assert!(told.contains("And without it?"), "{told}");
    assert!(!told.contains("SUQz"), "{told}");
    system.stop().await.unwrap();
}
