//! Retrieval: finding the passages of a body of text that fit a question.
//!
//! It is the package `ghostlight-retrieval`. Ranking by words and vectors, fusion and chunkers are always there; the
//! feature `documents` adds the index of folders of texts, and `retrieval` readers of documents.

pub use ghostlight_retrieval::*;
