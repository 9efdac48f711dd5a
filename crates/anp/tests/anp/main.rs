//! The package as a whole: requests that the protocol's own Python package signed, and agents that come and go.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod registry;
mod signatures;
