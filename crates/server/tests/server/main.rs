//! The server over real sockets: what clients get, and what hostile ones do not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod client;
mod compatible;
mod desk;
mod hostile;
mod keys;
mod load;
mod owners;
mod runs;
mod sdks;
mod site;
mod stopping;
mod streams;
