//! Models to plug into a team.
//!
//! It is the package `ghostlight-models`. The offline model is always there; the features `anthropic`, `bedrock`, `gemini` and
//! `openai` add providers, and `vertex` the tokens of Google Cloud.

pub use ghostlight_models::*;
