#![doc = include_str!("../README.md")]

pub mod bm25;
mod caching;
pub mod chunking;
pub mod citations;
#[cfg(feature = "encoder")]
mod encoder;
#[cfg(feature = "html")]
mod equation;
pub mod fusion;
#[cfg(feature = "html")]
pub mod html;
#[cfg(feature = "index")]
pub mod index;
mod lexical;
#[cfg(any(feature = "documents", feature = "index"))]
pub mod readers;
pub mod routing;
#[cfg(feature = "html")]
mod scripts;
#[cfg(feature = "index")]
pub mod searching;
pub mod terms;
pub mod vectors;

pub use caching::CachedEmbedder;
#[cfg(feature = "encoder")]
pub use encoder::{EncoderError, SentenceEncoder};
pub use lexical::LexicalEmbedder;
