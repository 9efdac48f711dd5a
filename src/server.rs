//! Agents on the network: one HTTP core, and the protocols that clients of agents speak.
//!
//! It is the package `ghostlight-server`. `ghostlight serve --listen` is made of it.

pub use ghostlight_server::*;
