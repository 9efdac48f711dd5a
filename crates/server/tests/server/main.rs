//! The server over real sockets: what clients get, and what hostile ones do not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[cfg(feature = "a2a")]
mod a2a;
#[cfg(feature = "a2a")]
mod a2a_access;
#[cfg(feature = "a2a")]
mod a2a_grpc;
#[cfg(feature = "a2a")]
mod a2a_peers;
#[cfg(feature = "a2a")]
mod a2a_pushes;
#[cfg(feature = "a2a")]
mod a2a_signed;
mod agui;
#[cfg(feature = "anp")]
mod anp;
mod bounds;
mod client;
mod client_tools;
mod compatible;
mod comply;
#[cfg(feature = "deliveries")]
mod deliveries;
mod desk;
#[cfg(feature = "evals")]
mod evaluations;
#[cfg(all(
    feature = "a2a",
    feature = "anp",
    feature = "evals",
    feature = "memory"
))]
mod every_route;
mod files;
mod hostile;
mod idle;
mod keys;
mod load;
mod looking_in;
#[cfg(feature = "memory")]
mod memories;
#[cfg(feature = "deliveries")]
mod messengers;
mod our_clients;
mod owners;
mod page;
mod paging;
mod quotas;
#[cfg(feature = "deliveries")]
mod receiver;
mod runs;
mod sdks;
mod site;
mod steering;
mod stopping;
mod streams;
mod tls;
mod tokens;
mod waits;
mod webhooks;
