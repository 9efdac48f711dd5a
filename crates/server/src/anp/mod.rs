//! The Agent Network Protocol: teams are described where other sites look for agents, and do what the method `ask` asks;
//! agents announce themselves in a registry; callers sign their requests with identities of `did:wba`.
//!
//! `ghostlight_anp` has the forms and the signatures; this module serves them over HTTP.

mod described;
mod identities;
mod nonces;
mod rpc;
mod services;

use axum::http::Method;
use ghostlight_anp::{Announcement, Service, Statistics};

pub use self::identities::Identities;
use crate::{
    caller::Scope,
    endpoint::{Access, Endpoints},
};

const READ: Access = Access::Needs(Scope::Read);
const RUN: Access = Access::Needs(Scope::Run);

/// All endpoints of the protocol.
pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    let get = Method::GET;
    endpoints
        .add(
            get.clone(),
            "/.well-known/agent-descriptions",
            Access::Public,
            "The agents of this site, with the addresses of their descriptions (ANP).",
            described::all,
        )
        .add(
            get.clone(),
            "/anp/{team}/ad.json",
            Access::Public,
            "What an agent says of itself, with its interface (ANP).",
            described::one,
        )
        .add(
            Method::POST,
            "/anp/{team}/rpc",
            RUN,
            "The method `ask` of an agent, as JSON-RPC 2.0 (ANP).",
            rpc::answer,
        )
        .takes::<rpc::Request>()
        .add(
            get.clone(),
            "/anp-registry/services",
            READ,
            "The services that announced themselves, by type and capabilities (ANP).",
            services::discover,
        )
        .asks::<services::Wanted>()
        .gives::<Vec<Service>>()
        .add(
            Method::POST,
            "/anp-registry/services",
            RUN,
            "Announces a service for a while, or again (ANP).",
            services::announce,
        )
        .takes::<Announcement>()
        .gives::<Service>()
        .add(
            Method::DELETE,
            "/anp-registry/services/{service}",
            RUN,
            "Takes a service back (ANP).",
            services::withdraw,
        )
        .add(
            get.clone(),
            "/anp-registry/best",
            READ,
            "The service with the highest score of those that fit (ANP).",
            services::best,
        )
        .asks::<services::Wanted>()
        .gives::<Service>()
        .add(
            get,
            "/anp-registry/statistics",
            READ,
            "How many services there are (ANP).",
            services::statistics,
        )
        .gives::<Statistics>()
}
