//! Models to plug into a team.

#[cfg(feature = "bedrock")]
mod amazon;
#[cfg(feature = "anthropic")]
pub mod anthropic;
// Some of it is used by one of the two only.
#[cfg(any(feature = "anthropic", feature = "openai"))]
#[cfg_attr(
    not(all(feature = "anthropic", feature = "openai")),
    allow(dead_code, unused_imports)
)]
mod batches;
#[cfg(feature = "bedrock")]
pub mod bedrock;
#[cfg(feature = "http")]
pub(crate) mod client;
mod credential;
mod embedder;
mod fallback;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "vertex")]
mod google;
// Some of it is used by OpenAI's provider only.
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai"))]
#[cfg_attr(not(feature = "openai"), allow(dead_code, unused_imports))]
pub(crate) mod http;
pub mod offline;
#[cfg(feature = "openai")]
pub mod openai;
#[cfg_attr(
    not(any(feature = "anthropic", feature = "gemini", feature = "openai")),
    allow(dead_code)
)]
mod prices;
#[cfg(feature = "openai")]
pub mod responses;
mod secret;
#[cfg(any(feature = "anthropic", feature = "gemini"))]
mod vertex;

#[cfg(feature = "bedrock")]
pub use amazon::AmazonCredentials;
#[cfg(feature = "anthropic")]
pub use anthropic::{Anthropic, AnthropicSpec};
#[cfg(any(feature = "anthropic", feature = "openai"))]
pub use batches::BatchSpec;
#[cfg(feature = "bedrock")]
pub use bedrock::{Bedrock, BedrockSpec};
// The command calls a judge and fetches keys with it.
#[cfg(feature = "http")]
#[doc(hidden)]
pub use client::http_client;
pub use credential::{CredentialError, CredentialSource, FreshCredential};
pub use embedder::EmbedderSpec;
#[cfg(feature = "retrieval")]
pub use embedder::LocalEmbedderSpec;
pub use fallback::Fallback;
#[cfg(feature = "gemini")]
pub use gemini::{Gemini, GeminiSpec};
#[cfg(feature = "vertex")]
pub use google::GoogleCloud;
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai"))]
pub use http::Timeouts;
pub use offline::OfflineModel;
#[cfg(feature = "openai")]
pub use openai::{EmbeddingForm, OpenAi, OpenAiEmbedder, OpenAiEmbedderSpec, OpenAiSpec};
pub use prices::PriceTable;
#[cfg(feature = "openai")]
pub use responses::{OpenAiResponses, OpenAiResponsesSpec};
#[cfg(any(
    feature = "a2a",
    feature = "acp",
    feature = "anp",
    feature = "anthropic",
    feature = "gemini",
    feature = "openai",
    feature = "tools",
    feature = "yaml"
))]
pub(crate) use secret::SecretText;
pub use secret::{Secret, SecretError};
