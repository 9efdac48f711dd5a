//! The forms in which servers are asked for embeddings.

use ghostlight_actors::contract::{Embedding, EmbeddingPurpose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{OpenAiEmbedderSpec, OpenAiSpec};
use crate::{
    Secret,
    http::{Failure, Key, key_for},
};

/// The form of requests and answers of an embedding model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EmbeddingForm {
    /// OpenAI's, which many servers follow.
    #[default]
    Openai,
    /// Cohere's, which is told whether a text is a query or a document.
    Cohere,
    /// Google's for Gemini, which is told it, too.
    Gemini,
    /// OpenAI's with Mistral's name for the dimension.
    Mistral,
    /// OpenAI's with what Voyage adds: whether a text is a query or a document.
    Voyage,
}

/// The known form of a provider's own server.
struct Server {
    base_url: &'static str,
    host: &'static str,
    key_variable: &'static str,
}

impl EmbeddingForm {
    fn server(self) -> Server {
        let (base_url, host, key_variable) = match self {
            Self::Openai => (OpenAiSpec::OPENAI, "api.openai.com", "OPENAI_API_KEY"),
            Self::Cohere => ("https://api.cohere.com/v2", "api.cohere.com", "CO_API_KEY"),
            Self::Gemini => (
                "https://generativelanguage.googleapis.com/v1beta",
                "generativelanguage.googleapis.com",
                "GEMINI_API_KEY",
            ),
            Self::Mistral => (
                "https://api.mistral.ai/v1",
                "api.mistral.ai",
                "MISTRAL_API_KEY",
            ),
            Self::Voyage => (
                "https://api.voyageai.com/v1",
                "api.voyageai.com",
                "VOYAGE_API_KEY",
            ),
        };
        Server {
            base_url,
            host,
            key_variable,
        }
    }

    /// Its name, as it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Cohere => "cohere",
            Self::Gemini => "gemini",
            Self::Mistral => "mistral",
            Self::Voyage => "voyage",
        }
    }

    /// The address of its own server.
    pub(super) fn base_url(self) -> &'static str {
        self.server().base_url
    }

    /// The key for an address.
    pub(super) fn key(self, base_url: &str, given: Option<&Secret>) -> Option<Key> {
        let server = self.server();
        let key = key_for(base_url, server.host, given, server.key_variable)?;
        Some(match self {
            Self::Gemini => Key::header("x-goog-api-key", key),
            _ => Key::Bearer(key),
        })
    }

    /// The place below the address at which vectors of this model are asked for.
    pub(super) fn path(self, model: &str) -> String {
        match self {
            Self::Openai | Self::Mistral | Self::Voyage => "/embeddings".to_owned(),
            Self::Cohere => "/embed".to_owned(),
            Self::Gemini => format!("/models/{model}:batchEmbedContents"),
        }
    }

    /// The body of a request for the vectors of these texts.
    pub(super) fn body(
        self,
        settings: &OpenAiEmbedderSpec,
        inputs: &[String],
        purpose: EmbeddingPurpose,
    ) -> Value {
        let is_query = matches!(purpose, EmbeddingPurpose::Query);
        let dimension = settings.send_dimension.then_some(settings.dimension);
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        match self {
            Self::Openai => {
                put("model", json!(settings.model));
                put("encoding_format", json!("float"));
                put("dimensions", json!(dimension));
            }
            Self::Mistral => {
                put("model", json!(settings.model));
                put("output_dimension", json!(dimension));
            }
            Self::Voyage => {
                put("model", json!(settings.model));
                put(
                    "input_type",
                    json!(if is_query { "query" } else { "document" }),
                );
                put("output_dimension", json!(dimension));
            }
            Self::Cohere => {
                let kind = if is_query {
                    "search_query"
                } else {
                    "search_document"
                };
                put("model", json!(settings.model));
                put("input_type", json!(kind));
                put("embedding_types", json!(["float"]));
                put("output_dimension", json!(dimension));
            }
            Self::Gemini => {}
        }
        body.extend(settings.extra.clone());
        match self {
            Self::Openai | Self::Mistral | Self::Voyage => {
                body.insert("input".into(), json!(inputs))
            }
            Self::Cohere => body.insert("texts".into(), json!(inputs)),
            Self::Gemini => {
                let kind = if is_query {
                    "RETRIEVAL_QUERY"
                } else {
                    "RETRIEVAL_DOCUMENT"
                };
                let each = inputs.iter().map(|text| {
                    let mut request = json!({
                        "model": format!("models/{}", settings.model),
                        "content": { "parts": [{ "text": text }] },
                        "taskType": kind,
                    });
                    if let Some(dimension) = dimension {
                        request["outputDimensionality"] = json!(dimension);
                    }
                    request
                });
                body.insert("requests".into(), each.collect())
            }
        };
        Value::Object(body)
    }

    /// The vectors of an answer, in the order of the inputs.
    pub(super) fn vectors(self, answer: &[u8], inputs: usize) -> Result<Vec<Embedding>, Failure> {
        match self {
            Self::Openai | Self::Mistral | Self::Voyage => indexed(answer, inputs),
            Self::Cohere => {
                let answer: OfCohere = read(answer)?;
                counted(answer.embeddings.float, inputs)
            }
            Self::Gemini => {
                let answer: OfGemini = read(answer)?;
                let vectors = answer.embeddings.into_iter().map(|of| of.values);
                counted(vectors.collect(), inputs)
            }
        }
    }
}

/// An answer with a vector for each input, each with the input's index.
#[derive(Deserialize)]
struct OfOpenAi {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Embedding,
}

#[derive(Deserialize)]
struct OfCohere {
    embeddings: Floats,
}

#[derive(Deserialize)]
struct Floats {
    float: Vec<Embedding>,
}

#[derive(Deserialize)]
struct OfGemini {
    embeddings: Vec<Values>,
}

#[derive(Deserialize)]
struct Values {
    values: Embedding,
}

fn read<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer).map_err(|error| {
        // A server may report an error with a good status.
        let told = serde_json::from_slice::<Value>(answer).ok();
        let told = told.as_ref().and_then(Failure::in_answer);
        told.unwrap_or_else(|| Failure::unreadable(&error))
    })
}

fn counted(vectors: Vec<Embedding>, inputs: usize) -> Result<Vec<Embedding>, Failure> {
    match vectors.len() == inputs {
        true => Ok(vectors),
        false => Err(Failure::Malformed(format!(
            "it has {} vectors for {inputs} texts",
            vectors.len()
        ))),
    }
}

fn indexed(answer: &[u8], inputs: usize) -> Result<Vec<Embedding>, Failure> {
    let malformed = |what: String| Failure::Malformed(what);
    let answer: OfOpenAi = read(answer)?;
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
