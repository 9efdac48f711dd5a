//! The Agent Network Protocol (ANP): identities of the method `did:wba`, signed requests, descriptions of agents, and a
//! registry.
//!
//! It is the package `ghostlight-anp`. Teams are served by [`Server`](crate::server::Server), with the callers that
//! [`Identities`](crate::server::Identities) lets in. A [`RegistrySearch`] is a tool that asks a registry, and a
//! [`RegistryPresence`] one that announces a service there.

mod registry_presence;
mod registry_search;

use ghostlight_actors::run::Registry as Names;

pub use ghostlight_anp::*;
pub use registry_presence::RegistryPresence;
pub use registry_search::{RegistrySearch, RegistrySearchError};

/// Registers the kinds of tools `anp_registry` and `anp_presence`.
pub(crate) fn register(names: Names) -> Names {
    names
        .tool_kind("anp_registry", registry_search::of_settings)
        .tool_kind("anp_presence", registry_presence::of_settings)
}
