//! Embeddings in the form of each provider: what is asked, with its purpose and dimension, and what is read.

use ghostlight::{
    contract::{Embedder, EmbedderHandle, EmbeddingPurpose},
    models::{EmbedderSpec, EmbeddingForm, OpenAiEmbedder, Secret},
};
use ghostlight_actors::vocabulary::ErrorKind;
use serde_json::{Value, json};

use crate::fake::{Fake, json as whole};

/// An embedder in this form of a server that answers this, whose vectors have two numbers.
fn embedder(fake: &Fake, form: EmbeddingForm) -> OpenAiEmbedder {
    OpenAiEmbedder::at(form, "m", 2)
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("hunter2"))
        .shortened()
}

fn of_openai() -> Value {
    json!({"data": [{"index": 1, "embedding": [3.0, 4.0]}, {"index": 0, "embedding": [1.0, 2.0]}]})
}

/// The form, its answer for two texts, and what is asked for two queries: the path and the body.
fn forms() -> Vec<(EmbeddingForm, Value, &'static str, Value)> {
    let gemini = |text: &str| {
        json!({"model": "models/m", "content": {"parts": [{"text": text}]},
            "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2})
    };
    vec![
        (
            EmbeddingForm::Openai,
            of_openai(),
            "/v1/embeddings",
            json!({"model": "m", "encoding_format": "float", "dimensions": 2, "input": ["a", "b"]}),
        ),
        (
            EmbeddingForm::Mistral,
            of_openai(),
            "/v1/embeddings",
            json!({"model": "m", "output_dimension": 2, "input": ["a", "b"]}),
        ),
        (
            EmbeddingForm::Voyage,
            of_openai(),
            "/v1/embeddings",
            json!({"model": "m", "input_type": "query", "output_dimension": 2, "input": ["a", "b"]}),
        ),
        (
            EmbeddingForm::Cohere,
            json!({"embeddings": {"float": [[1.0, 2.0], [3.0, 4.0]]}, "texts": ["a", "b"]}),
            "/v1/embed",
            json!({"model": "m", "input_type": "search_query", "embedding_types": ["float"],
                "output_dimension": 2, "texts": ["a", "b"]}),
        ),
        (
            EmbeddingForm::Gemini,
            json!({"embeddings": [{"values": [1.0, 2.0]}, {"values": [3.0, 4.0]}]}),
            "/v1/models/m:batchEmbedContents",
            json!({"requests": [gemini("a"), gemini("b")]}),
        ),
    ]
}

#[tokio::test]
async fn each_provider_is_asked_in_its_own_form() {
    for (form, answer, path, asked) in forms() {
        let fake = Fake::json(answer).await;
        let embedder = embedder(&fake, form);
        let vectors = embedder.embed(&["a", "b"], EmbeddingPurpose::Query).await;
        let vectors = serde_json::to_value(vectors.unwrap()).unwrap();
        assert_eq!(vectors, json!([[1.0, 2.0], [3.0, 4.0]]), "{form:?}");
        let received = &fake.received()[0];
        let head = received.head.to_lowercase();
        assert!(
            head.starts_with(&format!("post {} ", path.to_lowercase())),
            "{form:?}: {head}"
        );
        let key = match form {
            EmbeddingForm::Gemini => "x-goog-api-key: hunter2",
            _ => "authorization: bearer hunter2",
        };
        assert!(head.contains(key), "{form:?}: {head}");
        assert_eq!(received.body, asked, "{form:?}");
        // A text to be found is another purpose, where the form knows it.
        embedder
            .embed(&["a", "b"], EmbeddingPurpose::Document)
            .await
            .unwrap();
        let documents = &fake.received()[1].body;
        let knows = !matches!(form, EmbeddingForm::Openai | EmbeddingForm::Mistral);
        assert_eq!(*documents != asked, knows, "{form:?}: {documents}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_an_error() {
    for (form, _, _, _) in forms() {
        for (status, answer) in [
            (200, json!({"data": [], "embeddings": []})),
            (200, json!({"embeddings": {"float": [[1.0, 2.0]]}})),
            (200, json!({"error": {"message": "no such model"}})),
            (400, json!({"detail": "Model m is not supported."})),
        ] {
            let fake = Fake::start([vec![whole(status, &answer.to_string())]]).await;
            let embedder = embedder(&fake, form);
            let error = embedder.embed(&["a", "b"], EmbeddingPurpose::Query).await;
            let error = error.unwrap_err();
            assert!(
                matches!(
                    error.kind,
                    ErrorKind::Malformed | ErrorKind::Model | ErrorKind::InvalidInput
                ),
                "{form:?} {answer}: {error:?}"
            );
        }
    }
}

#[test]
fn a_team_file_names_the_provider() {
    let of = |provider: &str| {
        let written = json!({"provider": provider, "model": "m", "dimension": 2});
        let spec: EmbedderSpec = serde_json::from_value(written).unwrap();
        let embedder: EmbedderHandle = spec.embedder().unwrap();
        embedder.space().to_string()
    };
    for (provider, host) in [
        ("openai", "api.openai.com"),
        ("cohere", "api.cohere.com"),
        ("gemini", "generativelanguage.googleapis.com"),
        ("mistral", "api.mistral.ai"),
        ("voyage", "api.voyageai.com"),
    ] {
        let space = of(provider);
        assert!(
            space.contains(&format!("{provider} m at {host}")),
            "{space}"
        );
    }
}
