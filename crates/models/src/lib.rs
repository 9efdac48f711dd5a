#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))] // docs.rs shows which feature each item needs.

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
mod client;
mod counter;
mod credential;
mod embedder;
#[doc(hidden)]
pub mod environment;
mod estimate;
mod fallback;
#[doc(hidden)]
pub mod files;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "vertex")]
mod google;
// Some of it is used by OpenAI's provider only.
#[cfg(feature = "http")]
#[cfg_attr(not(feature = "openai"), allow(dead_code, unused_imports))]
mod http;
#[cfg(feature = "http")]
pub mod kit;
pub mod offline;
#[cfg(feature = "openai")]
pub mod openai;
#[cfg_attr(not(feature = "http"), allow(dead_code))]
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
pub use counter::TokenCounter;
pub use credential::{CredentialError, CredentialSource, FreshCredential};
pub use embedder::EmbedderSpec;
#[cfg(feature = "encoder")]
pub use embedder::LocalEmbedderSpec;
pub use estimate::Estimate;
pub use fallback::Fallback;
#[cfg(feature = "gemini")]
pub use gemini::{Gemini, GeminiSpec};
#[cfg(feature = "vertex")]
pub use google::GoogleCloud;
#[cfg(feature = "http")]
pub use http::Timeouts;
#[cfg(feature = "http")]
#[doc(hidden)]
pub use http::parse_address;
pub use offline::OfflineModel;
#[cfg(feature = "openai")]
pub use openai::{EmbeddingForm, OpenAi, OpenAiEmbedder, OpenAiEmbedderSpec, OpenAiSpec};
pub use prices::PriceTable;
#[cfg(feature = "openai")]
pub use responses::{OpenAiResponses, OpenAiResponsesSpec};
#[doc(hidden)]
pub use secret::SecretText;
pub use secret::{Secret, SecretError};
