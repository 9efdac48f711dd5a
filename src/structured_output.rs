//! Structured output: reading the JSON that language models write, and holding it to strict schemas.
//!
//! It is the package `ghostlight-structured-output`, which needs no other part of Ghostlight.

pub use ghostlight_structured_output::*;
