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
use serde_json::Value;
use tokio::time::timeout;

use super::{OpenAiSpec, embedding_forms::EmbeddingForm, endpoint::OpenAiEndpoint};
use crate::{
    Secret, Timeouts,
    http::{
        Attempt, Endpoint, Failure, MAX_RESPONSE_BYTES, Phase, Reaching, Scrub, ServerKind,
        address, display_host, http_setters, no_credentials, without_credentials,
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
/// use ghostlight_actors::contract::EmbedderHandle;
/// use ghostlight_models::OpenAiEmbedder;
///
/// let local = OpenAiEmbedder::new("nomic-embed-text", 768).base_url("http://127.0.0.1:11434/v1");
/// let embedder = EmbedderHandle::new(local);
/// ```
#[derive(Clone)]
pub struct OpenAiEmbedder {
    settings: Arc<OpenAiEmbedderSpec>,
    form: EmbeddingForm,
    endpoint: Arc<OnceLock<Arc<Endpoint>>>,
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

    /// The model of this name at the provider whose form this is, with this number of dimensions and the key in the provider's
    /// variable (`CO_API_KEY`, `GEMINI_API_KEY`, `MISTRAL_API_KEY`, `VOYAGE_API_KEY`).
    pub fn at(form: EmbeddingForm, model: impl Into<String>, dimension: usize) -> Self {
        let settings = Self::new(model, dimension).settings().clone();
        Self::of(form, settings)
    }

    /// With these settings in this form. The address of OpenAI's own server stands for that of the form's.
    pub(crate) fn of(form: EmbeddingForm, mut settings: OpenAiEmbedderSpec) -> Self {
        if settings.base_url == OpenAiSpec::OPENAI {
            form.base_url().clone_into(&mut settings.base_url);
        }
        Self {
            form,
            ..Self::from(settings)
        }
    }

    /// Asks for vectors of the dimension, which only some models can shorten to.
    #[must_use]
    pub fn shortened(self) -> Self {
        self.with(|settings| settings.send_dimension = true)
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

    /// The settings.
    pub fn settings(&self) -> &OpenAiEmbedderSpec {
        &self.settings
    }

    /// Changes the settings.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut OpenAiEmbedderSpec)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.endpoint = Arc::default();
        self
    }

    fn endpoint(&self) -> Result<&Endpoint, ModelError> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let settings = &self.settings;
        // Two concurrent first requests may both open an endpoint; one of the two is kept.
        let endpoint = match self.form {
            EmbeddingForm::Openai => {
                let mut reached = OpenAiSpec::new(&settings.model);
                reached.base_url.clone_from(&settings.base_url);
                reached.api_key.clone_from(&settings.api_key);
                reached.timeouts = settings.timeouts;
                reached.headers.clone_from(&settings.headers);
                reached.allow_plain_http = settings.allow_plain_http;
                OpenAiEndpoint::open(&reached)?.server
            }
            form => Arc::new(Endpoint::open(Reaching {
                base_url: &settings.base_url,
                model: &settings.model,
                key: form.key(&settings.base_url, settings.api_key.as_ref()),
                headers: &settings.headers,
                allow_plain_http: settings.allow_plain_http,
                timeouts: &settings.timeouts,
                kind: ServerKind {
                    name: "a server of embeddings",
                    place: "check the model's name, and that base_url ends where the provider's interface begins",
                },
            })?),
        };
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    async fn attempt(
        &self,
        server: &Endpoint,
        inputs: &[String],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, Failure> {
        let (settings, form) = (&self.settings, self.form);
        let body = form.body(settings, inputs, purpose);
        let body = serde_json::to_vec(&body).map_err(|_| Failure::Request)?;
        let request = server
            .http
            .post(format!("{}{}", server.base, form.path(&settings.model)))
            .headers(server.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let request = request.build().map_err(|_| Failure::Request)?;
        let attempt = Attempt::new(server.http.clone(), &settings.timeouts, MAX_RESPONSE_BYTES);
        let attempt = attempt.at(server);
        let answer = attempt.send(request).await?.read_all().await?;
        form.vectors(&answer, inputs.len())
    }
}

http_setters! { OpenAiEmbedder, OpenAiEmbedderSpec, "/embeddings" }

impl Embedder for OpenAiEmbedder {
    fn space(&self) -> EmbeddingSpace {
        let settings = &self.settings;
        let OpenAiEmbedderSpec {
            query_prefix: query,
            document_prefix: document,
            ..
        } = &**settings;
        let mut name = format!(
            "{} {} at {}",
            self.form.name(),
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
            self.settings.timeouts.total,
            self.attempt(endpoint, &inputs, purpose),
        )
        .await;
        let outcome = outcome.unwrap_or(Err(Failure::Timeout(Phase::Total)));
        outcome.map_err(|failure| {
            let sent = ModelRequest::new(Transcript::from_iter(inputs.iter().map(Message::user)));
            failure.into_error(&endpoint.host, endpoint.kind, &Scrub::new(&sent))
        })
    }

    fn max_batch(&self) -> usize {
        self.settings.batch
    }
}

impl From<OpenAiEmbedderSpec> for OpenAiEmbedder {
    fn from(settings: OpenAiEmbedderSpec) -> Self {
        Self {
            settings: Arc::new(settings),
            form: EmbeddingForm::default(),
            endpoint: Arc::default(),
        }
    }
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAiEmbedder({})", self.space())
    }
}
