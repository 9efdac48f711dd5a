//! The Agent Network Protocol (ANP): identities of the method `did:wba`, signed requests, descriptions of agents, and a
//! registry.
//!
//! It is the package `ghostlight-anp`. Teams are served by [`Server`](crate::server::Server), with the callers that
//! [`Identities`](crate::server::Identities) lets in.

pub use ghostlight_anp::*;
