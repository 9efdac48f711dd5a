//! The settings of an embedder, from a team file or the command line.

use ghostlight_actors::contract::EmbedderHandle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "openai")]
use crate::retrieval::CachedEmbedder;
use crate::retrieval::LexicalEmbedder;

/// How many vectors of queries are cached.
#[cfg(feature = "openai")]
const CACHED: usize = 1_000;
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
pub enum EmbedderSettings {
    /// Hashes of words and of parts of words. It needs no model and knows no meaning.
    Lexical {
        /// The number of dimensions of a vector; 512 if it is left out.
        #[serde(default = "default_dimension")]
        dimension: usize,
    },
    /// A model of OpenAI, or of a server that speaks its embeddings.
    #[cfg(feature = "openai")]
    Openai(Box<super::OpenAiEmbedderSettings>),
}

fn default_dimension() -> usize {
    LexicalEmbedder::DEFAULT_DIMENSION
}

impl Default for EmbedderSettings {
    fn default() -> Self {
        Self::Lexical {
            dimension: default_dimension(),
        }
    }
}

impl EmbedderSettings {
    /// The embedder.
    ///
    /// # Errors
    /// A setting that is out of its bounds, with the bounds.
    pub fn embedder(&self) -> Result<EmbedderHandle, String> {
        match self {
            Self::Lexical { dimension } if !(1..=MAX_DIMENSION).contains(dimension) => Err(
                format!("the dimension {dimension} is not from 1 to {MAX_DIMENSION}"),
            ),
            Self::Lexical { dimension } => {
                Ok(EmbedderHandle::new(LexicalEmbedder::new(*dimension)))
            }
            #[cfg(feature = "openai")]
            Self::Openai(settings) if settings.dimension == 0 => Err(String::from(
                "the dimension must be that of the model's vectors, such as 768",
            )),
            #[cfg(feature = "openai")]
            Self::Openai(settings) => {
                let embedder = super::OpenAiEmbedder::from((**settings).clone());
                Ok(EmbedderHandle::new(CachedEmbedder::new(embedder, CACHED)))
            }
        }
    }

    /// Reads an embedder from one word, as on the command line: `lexical`, or
    /// `openai:MODEL:DIMENSION` for a server at `OPENAI_BASE_URL` with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// The expected form, if the text has another.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is no embedder: write lexical or openai:MODEL:DIMENSION");
        if text == "lexical" {
            return Ok(Self::default());
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
