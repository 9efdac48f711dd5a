//! Models to plug into a team.

pub mod offline;
#[cfg(feature = "openai")]
pub mod openai;
mod secret;

pub use offline::OfflineModel;
#[cfg(feature = "openai")]
pub use openai::{OpenAi, OpenAiSettings};
#[cfg(any(feature = "openai", feature = "yaml"))]
pub(crate) use secret::SecretText;
pub use secret::{Secret, SecretError};
