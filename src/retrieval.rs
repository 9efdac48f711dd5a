//! Retrieval: finding the passages of a body of text that fit a question.
//!
//! It is the package `ghostlight-retrieval`. Ranking by words and vectors, fusion and chunkers are always there; the
//! feature `retrieval` adds readers of documents and the index of folders.

pub use ghostlight_retrieval::*;
