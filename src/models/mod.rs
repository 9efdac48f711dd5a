//! Models to plug into a team.

#[cfg(feature = "openai")]
pub mod openai;
#[cfg(feature = "openai")]
mod secret;

#[cfg(feature = "openai")]
pub use openai::{OpenAi, OpenAiSettings};
#[cfg(feature = "openai")]
pub use secret::{Secret, SecretError};
pub mod offline;

pub use offline::OfflineModel;
