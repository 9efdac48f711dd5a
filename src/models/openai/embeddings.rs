//! Embeddings from a server that follows OpenAI's API.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use ghostlight_actors::{
    contract::{Embedder, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError},
    vocabulary::{ErrorKind, Message, ModelRequest, Transcript},
};
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{OpenAiSpec, endpoint::OpenAiEndpoint};
use crate::models::{
    Secret, Timeouts,
    client::install_provider,
    http::{
        Attempt, Failure, MAX_RESPONSE_BYTES, Phase, Scrub, address, display_host, no_credentials,
        without_credentials,
    },
};

/// The settings of an embedding model. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiEmbedderSpec {
    /// The server's name of the model.
    pub model: String,
    /// The number of dimensions of a vector. An answer with another number is refused, so that
    /// vectors of two models are never mixed.
    pub dimension: usize,
    /// The address up to and without `/embeddings`.
    #[serde(default = "openai", deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, OpenAI's own server
    /// gets the key in `OPENAI_API_KEY`, and any other server gets none.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// Whether requests ask for vectors of this dimension. Only some models can shorten their
    /// vectors.
    #[serde(default)]
    pub send_dimension: bool,
    /// The prefix of a query, such as `query: `. Some models are trained with one.
    #[serde(default)]
    pub query_prefix: String,
    /// The prefix of a text to be found, such as `passage: `.
    #[serde(default)]
    pub document_prefix: String,
    /// The most texts in one request, at least 1.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// The time limits of an attempt.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Further fields of each request body. A credential does not belong here.
    #[serde(default, deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers, as for a model: `${NAME}` stands for an environment variable.
    #[serde(default, deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    #[serde(default)]
    pub allow_plain_http: bool,
}

fn openai() -> String {
    String::from(OpenAiSpec::OPENAI)
}

fn default_batch() -> usize {
    64
}

/// Makes embeddings by a model of OpenAI, or of a server with a compatible API (Ollama, llama.cpp,
/// vLLM, LM Studio and others). Unlike lexical vectors, they show that *car* and *automobile* are
/// alike.
///
/// ```no_run
/// use ghostlight::{contract::EmbedderHandle, models::OpenAiEmbedder};
///
/// let local = OpenAiEmbedder::new("nomic-embed-text", 768).base_url("http://127.0.0.1:11434/v1");
/// let embedder = EmbedderHandle::new(local);
/// ```
#[derive(Clone)]
pub struct OpenAiEmbedder {
    settings: Arc<OpenAiEmbedderSpec>,
    endpoint: Arc<OnceLock<OpenAiEndpoint>>,
}

impl OpenAiEmbedder {
    /// The model of this name at OpenAI, with this number of dimensions, such as 1536 for
    /// `text-embedding-3-small`.
    pub fn new(model: impl Into<String>, dimension: usize) -> Self {
        Self::from(OpenAiEmbedderSpec {
            model: model.into(),
            dimension,
            base_url: openai(),
            api_key: None,
            send_dimension: false,
            query_prefix: String::new(),
            document_prefix: String::new(),
            batch: default_batch(),
            timeouts: Timeouts::default(),
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
        })
    }

    /// Sets the address up to and without `/embeddings`.
    #[must_use]
    pub fn base_url(self, address: impl Into<String>) -> Self {
        self.with(|settings| settings.base_url = address.into())
    }

    /// Sets the key.
    #[must_use]
    pub fn api_key(self, key: Secret) -> Self {
        self.with(|settings| settings.api_key = Some(key))
    }

    /// Sets the prefixes of queries and of texts to be found.
    #[must_use]
    pub fn prefixes(self, query: impl Into<String>, document: impl Into<String>) -> Self {
        self.with(|settings| {
            settings.query_prefix = query.into();
            settings.document_prefix = document.into();
        })
    }

    /// Sets the most texts in one request.
    #[must_use]
    pub fn batch(self, texts: usize) -> Self {
        self.with(|settings| settings.batch = texts)
    }

    /// Sets the time limits of an attempt.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        self.with(|settings| settings.timeouts = timeouts)
    }

    /// The settings.
    pub fn settings(&self) -> &OpenAiEmbedderSpec {
        &self.settings
    }

    fn with(mut self, change: impl FnOnce(&mut OpenAiEmbedderSpec)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.endpoint = Arc::default();
        self
    }

    fn endpoint(&self) -> Result<&OpenAiEndpoint, ModelError> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let settings = &self.settings;
        let mut reached = OpenAiSpec::new(&settings.model);
        reached.base_url.clone_from(&settings.base_url);
        reached.api_key.clone_from(&settings.api_key);
        reached.timeouts = settings.timeouts;
        reached.headers.clone_from(&settings.headers);
        reached.allow_plain_http = settings.allow_plain_http;
        // Two concurrent first requests may both open an endpoint; one of the two is kept.
        let endpoint = OpenAiEndpoint::open(&reached)?;
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    async fn attempt(
        &self,
        endpoint: &OpenAiEndpoint,
        inputs: &[String],
    ) -> Result<Vec<Embedding>, Failure> {
        let settings = &self.settings;
        let mut body = Map::new();
        body.insert("model".into(), json!(settings.model));
        body.insert("encoding_format".into(), json!("float"));
        if settings.send_dimension {
            body.insert("dimensions".into(), json!(settings.dimension));
        }
        body.extend(settings.extra.clone());
        body.insert("input".into(), json!(inputs));
        let body = serde_json::to_vec(&body).map_err(|_| Failure::Request)?;
        let server = &endpoint.server;
        let request = server
            .http
            .post(format!("{}/embeddings", server.base))
            .headers(server.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let request = request.build().map_err(|_| Failure::Request)?;
        let attempt = Attempt::new(server.http.clone(), &settings.timeouts, MAX_RESPONSE_BYTES);
        let answer = attempt.send(request).await?.read_all().await?;
        vectors(&answer, inputs.len())
    }
}

/// An answer with a vector for each input, each with the input's index.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Embedding,
}

/// The vectors of an answer, in the order of the inputs.
fn vectors(answer: &[u8], inputs: usize) -> Result<Vec<Embedding>, Failure> {
    let malformed = |what: String| Failure::Malformed(what);
    let answer: Answer = match serde_json::from_slice(answer) {
        Ok(answer) => answer,
        Err(error) => {
            // A server may report an error with a good status.
            let told = serde_json::from_slice::<Value>(answer).ok();
            let told = told.as_ref().and_then(Failure::in_answer);
            return Err(told.unwrap_or_else(|| Failure::unreadable(&error)));
        }
    };
    let mut vectors = vec![None; inputs];
    for (place, item) in answer.data.into_iter().enumerate() {
        let place = item.index.unwrap_or(place);
        match vectors.get_mut(place) {
            Some(slot @ None) => *slot = Some(item.embedding),
            _ => {
                return Err(malformed(format!(
                    "there is no input {place}, or it has two vectors"
                )));
            }
        }
    }
    let vectors: Option<Vec<Embedding>> = vectors.into_iter().collect();
    vectors.ok_or_else(|| malformed(String::from("an input has no vector")))
}

impl Embedder for OpenAiEmbedder {
    fn space(&self) -> EmbeddingSpace {
        let settings = &self.settings;
        let OpenAiEmbedderSpec {
            query_prefix: query,
            document_prefix: document,
            ..
        } = &**settings;
        let mut name = format!(
            "openai {} at {}",
            settings.model,
            display_host(&settings.base_url)
        );
        if !query.is_empty() || !document.is_empty() {
            name.push_str(&format!(" with {query:?} and {document:?}"));
        }
        EmbeddingSpace::new(name, settings.dimension, EmbeddingKind::Semantic)
    }

    async fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        let prefix = match purpose {
            EmbeddingPurpose::Query => &self.settings.query_prefix,
            EmbeddingPurpose::Document => &self.settings.document_prefix,
        };
        // Servers refuse an empty text.
        if let Some(place) = texts.iter().position(|text| text.is_empty()) {
            let message = format!("text {place} of {} is empty: it has no vector", texts.len());
            return Err(ModelError::new(ErrorKind::InvalidInput, message));
        }
        let inputs: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let endpoint = self.endpoint()?;
        let outcome = timeout(
            self.settings.timeouts.total(),
            self.attempt(endpoint, &inputs),
        )
        .await;
        let outcome = outcome.unwrap_or(Err(Failure::Timeout(Phase::Total)));
        outcome.map_err(|failure| {
            let sent = ModelRequest::new(Transcript::from_iter(inputs.iter().map(Message::user)));
            let server = &endpoint.server;
            failure.into_error(&server.host, server.kind, &Scrub::new(&sent))
        })
    }

    fn max_batch(&self) -> usize {
        self.settings.batch
    }
}

impl From<OpenAiEmbedderSpec> for OpenAiEmbedder {
    fn from(settings: OpenAiEmbedderSpec) -> Self {
        install_provider();
        Self {
            settings: Arc::new(settings),
            endpoint: Arc::default(),
        }
    }
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAiEmbedder({})", self.space())
    }
}
