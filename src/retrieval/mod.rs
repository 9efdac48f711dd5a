//! Finding the passages of a body of text that fit a question.

pub mod bm25;
pub mod markdown;
pub mod terms;
