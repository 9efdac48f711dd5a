//! Keys that change, and models in Google Cloud, which are reached with tokens.
#![cfg(unix)]

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use ghostlight::models::{
    Anthropic, CredentialError, CredentialSource, FreshCredential, Gemini, OpenAi, OpenAiResponses,
    Secret,
};
use ghostlight_actors::vocabulary::ErrorKind;
use serde_json::{Value, json};

use crate::{
    ask,
    fake::{Fake, json as whole},
    respond, stream,
};

/// Gives `key1`, `key2` and so on.
struct Counts(AtomicU32);

impl CredentialSource for Counts {
    async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(FreshCredential::new(format!("key{number}")))
    }
}

fn counts() -> Secret {
    Secret::changing(Counts(AtomicU32::new(0)))
}

fn chat() -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}]})
}

fn anthropic() -> Value {
    json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "ok"}]})
}

fn gemini() -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]})
}

fn response() -> Value {
    json!({"id": "r", "object": "response", "status": "completed", "output": [{"type": "message", "id": "t",
        "role": "assistant", "content": [{"type": "output_text", "text": "ok", "annotations": []}]}]})
}

/// The heads of the requests, in small letters.
fn heads(fake: &Fake) -> Vec<String> {
    let received = fake.received().into_iter();
    received.map(|one| one.head.to_lowercase()).collect()
}

#[tokio::test]
async fn a_key_that_the_server_refuses_is_fetched_anew_once() {
    let refusal = || vec![whole(401, r#"{"error": {"message": "expired"}}"#)];
    let good = |answer: &Value| vec![whole(200, &answer.to_string())];
    for which in 0..4 {
        let answer = [chat(), anthropic(), gemini(), response()][which].clone();
        let fake = Fake::start([good(&answer), refusal(), good(&answer), good(&answer)]).await;
        let url = fake.model().settings().base_url.clone();
        let (open_ai, responses) = (OpenAi::new("m"), OpenAiResponses::new("m"));
        let open_ai = open_ai.base_url(&url).api_key(counts());
        let responses = responses.base_url(&url).api_key(counts());
        let claude = Anthropic::new("m").base_url(&url).api_key(counts());
        let google = Gemini::new("m").base_url(&url).api_key(counts());
        for _ in 0..3 {
            let answer = match which {
                0 => respond(&open_ai, ask("hi")).await,
                1 => respond(&claude, ask("hi")).await,
                2 => respond(&google, ask("hi")).await,
                _ => respond(&responses, ask("hi")).await,
            };
            assert_eq!(answer.unwrap().content(), "ok", "{which}");
        }
        let header = ["authorization: bearer ", "x-api-key: ", "x-goog-api-key: "];
        let header = header[which % 3];
        let keys = ["key1", "key1", "key2", "key2"];
        for (head, key) in heads(&fake).iter().zip(keys) {
            assert!(
                head.contains(&format!("{header}{key}\r\n")),
                "{which}: {head}"
            );
        }
        assert_eq!(fake.received().len(), 4, "{which}");
    }
}

#[tokio::test]
async fn a_file_and_a_program_give_a_key_and_a_failure_says_which() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("key-{}", std::process::id()));
    fs::write(&file, "hunter2\n").unwrap();
    for secret in [Secret::file(&file), Secret::command(["echo", "hunter2"])] {
        let fake = Fake::json(chat()).await;
        let model = fake.model().api_key(secret);
        respond(&model, ask("hi")).await.unwrap();
        assert!(heads(&fake)[0].contains("authorization: bearer hunter2\r\n"));
        assert!(!format!("{model:?} {:?}", model.settings()).contains("hunter2"));
    }
    fs::remove_file(&file).unwrap();
    for (secret, named) in [
        (Secret::file(&file), file.display().to_string()),
        (Secret::command(["false"]), "the program false".to_owned()),
        (Secret::command(["echo"]), "the key is empty".to_owned()),
    ] {
        let fake = Fake::json(chat()).await;
        let error = respond(&fake.model().api_key(secret), ask("hi")).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(error.retryable && error.message.contains(&named), "{error}");
        assert!(fake.received().is_empty());
    }
}

#[tokio::test]
async fn models_in_vertex_are_asked_in_its_form() {
    for streams in [false, true] {
        let fake = Fake::json(gemini()).await;
        let address = |publisher: &str| {
            let base = fake.model().settings().base_url.clone();
            format!("{base}/projects/p/locations/l/publishers/{publisher}")
        };
        let model = Gemini::new("gemini-m")
            .base_url(address("google"))
            .api_key(counts());
        match streams {
            false => drop(respond(&model, ask("hi")).await.unwrap()),
            true => drop(stream(&model, ask("hi")).await),
        }
        let head = &heads(&fake)[0];
        let place = "/v1/projects/p/locations/l/publishers/google/models/gemini-m:";
        assert!(
            head.contains(place) && head.contains("authorization: bearer key1"),
            "{head}"
        );

        let fake = Fake::json(anthropic()).await;
        let base = fake.model().settings().base_url.clone();
        let claude = Anthropic::new("claude-m")
            .base_url(format!(
                "{base}/projects/p/locations/l/publishers/anthropic"
            ))
            .api_key(counts());
        match streams {
            false => drop(respond(&claude, ask("hi")).await.unwrap()),
            true => drop(stream(&claude, ask("hi")).await),
        }
        let received = &fake.received()[0];
        let how = if streams {
            "streamrawpredict"
        } else {
            "rawpredict"
        };
        let place = format!("/publishers/anthropic/models/claude-m:{how} ");
        let head = received.head.to_lowercase();
        assert!(
            head.contains(&place) && head.contains("authorization: bearer key1"),
            "{head}"
        );
        assert_eq!(received.body["anthropic_version"], "vertex-2023-10-16");
        assert_eq!(received.body.get("model"), None);
    }
    // A key that does not change is an API key.
    let fake = Fake::json(gemini()).await;
    let base = fake.model().settings().base_url.clone();
    let model = Gemini::new("gemini-m")
        .base_url(format!("{base}/projects/p/locations/l/publishers/google"))
        .api_key(Secret::value("AIza"));
    respond(&model, ask("hi")).await.unwrap();
    assert!(heads(&fake)[0].contains("x-goog-api-key: aiza"));
}
