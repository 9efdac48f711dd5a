//! The store in PostgreSQL keeps its promises, against real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod chaos;
mod conformance;
mod copying;
mod fleet;
mod frozen;
#[cfg(unix)]
mod identity;
mod nodes;
mod notices;
mod outages;
mod plans;
mod proxy;
mod round_trips;
#[allow(dead_code)]
mod server;
mod sleepers;
mod trees;
mod upgrade;
