//! Vectors from a server that speaks OpenAI's embeddings.

use std::sync::{Arc, Mutex};

use ghostlight::{
    contract::{EmbedderHandle, EmbeddingKind, EmbeddingPurpose},
    models::{OpenAiEmbedder, Secret},
    retrieval::CachedEmbedder,
    vocabulary::ErrorKind,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// A server that answers each request with this, and keeps what it was sent.
async fn serve(
    answer: impl Fn(&Value) -> (u16, Value) + Send + 'static,
) -> (String, Arc<Mutex<Vec<(String, Value)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let kept = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut part = [0; 4096];
                let read = socket.read(&mut part).await.unwrap();
                bytes.extend_from_slice(&part[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str::<Value>(body)
                {
                    break (head.to_owned(), body);
                }
            };
            let (status, answer) = answer(&body);
            kept.lock().unwrap().push((head, body));
            let answer = answer.to_string();
            let said = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            );
            socket.write_all(said.as_bytes()).await.unwrap();
        }
    });
    (address, seen)
}

/// A vector for each input, in an order of the server's own.
fn backwards(body: &Value) -> (u16, Value) {
    let inputs = body["input"].as_array().unwrap();
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .rev()
        .map(|(place, input)| json!({ "index": place, "embedding": [input.as_str().unwrap().len(), 0.0, 0.0] }))
        .collect();
    (
        200,
        json!({ "object": "list", "data": data, "model": "m", "usage": { "prompt_tokens": 1 } }),
    )
}

#[tokio::test]
async fn batches_and_prefixes_are_sent_and_vectors_come_in_order() {
    let (address, seen) = serve(backwards).await;
    let embedder = OpenAiEmbedder::new("e5", 3)
        .base_url(address)
        .api_key(Secret::value("sk-hunter2"))
        .prefixes("query: ", "passage: ")
        .batch(2);
    let embedder = EmbedderHandle::new(embedder);
    assert_eq!(embedder.space().kind, EmbeddingKind::Semantic);
    assert!(embedder.space().name.contains("e5") && !embedder.space().name.contains("hunter2"));
    let vectors = embedder
        .embed(&["a", "b", "c"], EmbeddingPurpose::Document)
        .await
        .unwrap();
    assert_eq!(vectors, vec![vec![1.0, 0.0, 0.0]; 3]);
    let seen = seen.lock().unwrap();
    let inputs: Vec<&Value> = seen.iter().map(|(_, body)| &body["input"]).collect();
    assert_eq!(
        inputs,
        [&json!(["passage: a", "passage: b"]), &json!(["passage: c"])]
    );
    let head = seen[0].0.to_ascii_lowercase();
    assert!(
        head.starts_with("post /v1/embeddings ")
            && head.contains("authorization: bearer sk-hunter2"),
        "{head}"
    );
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_that_says_what_to_do() {
    let asked = |address: String, dimension: usize| async move {
        let embedder = EmbedderHandle::new(OpenAiEmbedder::new("m", dimension).base_url(address));
        embedder
            .embed(
                &["the private text of a user", "b"],
                EmbeddingPurpose::Query,
            )
            .await
            .unwrap_err()
    };
    let (address, _) = serve(backwards).await;
    let error = asked(address, 4).await;
    assert!(error.message.contains("3 numbers and not 4"), "{error}");
    let (address, _) = serve(|_| {
        (
            200,
            json!({ "data": [{ "index": 0, "embedding": [1, 0, 0] }] }),
        )
    })
    .await;
    assert_eq!(asked(address, 3).await.kind, ErrorKind::Malformed);
    let twice =
        json!({ "data": [{ "index": 0, "embedding": [1] }, { "index": 0, "embedding": [1] }] });
    let (address, _) = serve(move |_| (200, twice.clone())).await;
    assert_eq!(asked(address, 1).await.kind, ErrorKind::Malformed);
    let (address, _) = serve(|_| (429, json!({ "error": { "message": "slow down" } }))).await;
    let error = asked(address, 3).await;
    assert!(error.retryable && error.status == Some(429), "{error:?}");
    let echo = |_: &Value| {
        (
            400,
            json!({ "error": { "message": "cannot embed: the private text of a user" } }),
        )
    };
    let (address, _) = serve(echo).await;
    let error = asked(address, 3).await;
    assert!(
        !error.retryable && !error.message.contains("private text of a user"),
        "{error}"
    );
}

#[tokio::test]
async fn what_was_asked_before_is_not_asked_again() {
    let (address, seen) = serve(backwards).await;
    let cached = CachedEmbedder::new(OpenAiEmbedder::new("m", 3).base_url(address), 4);
    let embedder = EmbedderHandle::new(cached);
    let ask = async |texts: &[&str]| {
        embedder
            .embed(texts, EmbeddingPurpose::Query)
            .await
            .unwrap();
        seen.lock().unwrap().len()
    };
    assert_eq!(ask(&["a", "b", "a"]).await, 1);
    assert_eq!(seen.lock().unwrap()[0].1["input"], json!(["a", "b"]));
    assert_eq!(ask(&["b", "a"]).await, 1);
    // Another purpose is another vector.
    embedder
        .embed(&["a"], EmbeddingPurpose::Document)
        .await
        .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
    // Two generations of two texts are kept.
    assert_eq!(ask(&["c", "d", "e", "f"]).await, 3);
    assert_eq!(ask(&["a"]).await, 4);
}
