//! The settings of an embedder, from a team file or the command line.

use ghostlight_actors::contract::EmbedderHandle;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "openai")]
use super::EmbeddingForm;
#[cfg(any(feature = "openai", feature = "encoder"))]
use ghostlight_retrieval::CachedEmbedder;
use ghostlight_retrieval::LexicalEmbedder;

/// How many vectors of queries are cached.
#[cfg(any(feature = "openai", feature = "encoder"))]
const CACHED: usize = 1_000;
/// The most embedders that are kept for further use.
const KEPT: usize = 64;
/// The most numbers of a lexical vector.
const MAX_DIMENSION: usize = 4_096;

/// An embedder as plain data.
///
/// ```yaml
/// embedder: { provider: openai, model: nomic-embed-text, dimension: 768, base_url: "http://127.0.0.1:11434/v1" }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "provider", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EmbedderSpec {
    /// Hashes of words and of parts of words. It needs no model and knows no meaning.
    Lexical {
        /// The number of dimensions of a vector; 512 if it is left out.
        #[serde(default = "default_dimension")]
        dimension: usize,
    },
    /// A sentence encoder in a folder, computed in this process.
    #[cfg(feature = "encoder")]
    Local(LocalEmbedderSpec),
    /// A model of OpenAI, or of a server that speaks its embeddings.
    #[cfg(feature = "openai")]
    Openai(Box<super::OpenAiEmbedderSpec>),
    /// A model of Cohere, with the key in `CO_API_KEY`.
    #[cfg(feature = "openai")]
    Cohere(Box<super::OpenAiEmbedderSpec>),
    /// A model of Google's, with the key in `GEMINI_API_KEY`.
    #[cfg(feature = "openai")]
    Gemini(Box<super::OpenAiEmbedderSpec>),
    /// A model of Mistral, with the key in `MISTRAL_API_KEY`.
    #[cfg(feature = "openai")]
    Mistral(Box<super::OpenAiEmbedderSpec>),
    /// A model of Voyage, with the key in `VOYAGE_API_KEY`.
    #[cfg(feature = "openai")]
    Voyage(Box<super::OpenAiEmbedderSpec>),
}

/// A sentence encoder in a folder. See [`SentenceEncoder`](ghostlight_retrieval::SentenceEncoder).
#[cfg(feature = "encoder")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LocalEmbedderSpec {
    /// The folder of the model. In a team file a path that begins with `./` is taken from the
    /// file's folder.
    pub path: std::path::PathBuf,
    /// The prefix of a query, such as `query: `. Some models are trained with one.
    #[serde(default)]
    pub query_prefix: String,
    /// The prefix of a text to be found, such as `passage: `.
    #[serde(default)]
    pub document_prefix: String,
}

#[cfg(feature = "openai")]
fn of_server(
    form: EmbeddingForm,
    settings: &super::OpenAiEmbedderSpec,
) -> Result<EmbedderHandle, String> {
    if settings.dimension == 0 {
        return Err(String::from(
            "the dimension must be that of the model's vectors, such as 768",
        ));
    }
    let embedder = super::OpenAiEmbedder::of(form, settings.clone());
    Ok(EmbedderHandle::new(CachedEmbedder::new(embedder, CACHED)))
}

fn default_dimension() -> usize {
    LexicalEmbedder::DEFAULT_DIMENSION
}

impl Default for EmbedderSpec {
    fn default() -> Self {
        Self::Lexical {
            dimension: default_dimension(),
        }
    }
}

impl EmbedderSpec {
    /// The embedder. Equal settings give the same one, with its model, its connections and its
    /// cached vectors, for as long as the process lives.
    ///
    /// # Errors
    /// A setting that is out of its bounds, with the bounds; or a model that cannot be read.
    pub fn embedder(&self) -> Result<EmbedderHandle, String> {
        static MADE: Mutex<Vec<(EmbedderSpec, EmbedderHandle)>> = Mutex::new(Vec::new());
        // The lock is held while a model is read, so that it is read once.
        let mut made = MADE.lock();
        if let Some((_, embedder)) = made.iter().find(|(settings, _)| settings == self) {
            return Ok(embedder.clone());
        }
        let embedder = self.make()?;
        if made.len() >= KEPT {
            made.remove(0);
        }
        made.push((self.clone(), embedder.clone()));
        Ok(embedder)
    }

    fn make(&self) -> Result<EmbedderHandle, String> {
        match self {
            Self::Lexical { dimension } if !(1..=MAX_DIMENSION).contains(dimension) => Err(
                format!("the dimension {dimension} is not from 1 to {MAX_DIMENSION}"),
            ),
            Self::Lexical { dimension } => {
                Ok(EmbedderHandle::new(LexicalEmbedder::new(*dimension)))
            }
            #[cfg(feature = "encoder")]
            Self::Local(settings) => {
                let encoder = ghostlight_retrieval::SentenceEncoder::open(&settings.path);
                let encoder = encoder.map_err(|error| error.to_string())?;
                let encoder = encoder.prefixes(&settings.query_prefix, &settings.document_prefix);
                Ok(EmbedderHandle::new(CachedEmbedder::new(encoder, CACHED)))
            }
            #[cfg(feature = "openai")]
            Self::Openai(settings) => of_server(EmbeddingForm::Openai, settings),
            #[cfg(feature = "openai")]
            Self::Cohere(settings) => of_server(EmbeddingForm::Cohere, settings),
            #[cfg(feature = "openai")]
            Self::Gemini(settings) => of_server(EmbeddingForm::Gemini, settings),
            #[cfg(feature = "openai")]
            Self::Mistral(settings) => of_server(EmbeddingForm::Mistral, settings),
            #[cfg(feature = "openai")]
            Self::Voyage(settings) => of_server(EmbeddingForm::Voyage, settings),
        }
    }

    /// Reads an embedder from one word, as on the command line: `lexical`,
    /// `local:FOLDER` for a sentence encoder, or `openai:MODEL:DIMENSION` for a server at `OPENAI_BASE_URL` with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// The expected form, if the text has another.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "`{text}` is not an embedder: write lexical, local:FOLDER or openai:MODEL:DIMENSION"
            )
        };
        if text == "lexical" {
            return Ok(Self::default());
        }
        #[cfg(feature = "encoder")]
        if let Some(path) = text.strip_prefix("local:") {
            return Ok(Self::Local(LocalEmbedderSpec {
                path: path.into(),
                query_prefix: String::new(),
                document_prefix: String::new(),
            }));
        }
        #[cfg(feature = "openai")]
        if let Some((model, dimension)) = text
            .strip_prefix("openai:")
            .and_then(|rest| rest.rsplit_once(':'))
        {
            let dimension = dimension.parse().map_err(|_| wanted())?;
            let mut embedder = super::OpenAiEmbedder::new(model, dimension);
            let variable = |name: &str| {
                crate::environment::variable(name).filter(|value| !value.trim().is_empty())
            };
            if let Some(base_url) = variable("OPENAI_BASE_URL") {
                embedder = embedder.base_url(base_url.trim());
            }
            if variable("OPENAI_API_KEY").is_some() {
                embedder = embedder.api_key(super::Secret::variable("OPENAI_API_KEY"));
            }
            return Ok(Self::Openai(Box::new(embedder.settings().clone())));
        }
        Err(wanted())
    }
}
