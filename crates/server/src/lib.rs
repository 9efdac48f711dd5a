//! Agents on the network: one HTTP core, and the protocols that clients of agents speak.
//!
//! **A protocol is a translation of turns and events, and nothing else.** A request is a turn with an id, so a client's
//! retry is one run. A stream is a reading of recorded events whose ids are their places in the journal, so
//! `Last-Event-ID` resumes exactly, even after the server was killed. A protocol's cancel cancels the run, and a run's
//! question is the protocol's request for input. The server keeps nothing that the journal does not hold.
//!
//! [`Server`] makes an [`axum::Router`] of a [`System`](ghostlight_actors::actor::System), to nest into another
//! service, or serves it itself:
//!
//! ```no_run
//! # async fn serve(system: ghostlight_actors::actor::System) -> std::io::Result<()> {
//! use ghostlight_server::{KeyFile, Server};
//!
//! let server = Server::new(system).keys(KeyFile::open("keys.json"));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! server.serve(listener, std::future::pending::<()>()).await
//! # }
//! ```
//!
//! Types of axum are in the public interface of this package on purpose: it is made to be a part of another axum
//! service. The engine and the package `ghostlight` expose none.

#[cfg(feature = "a2a")]
mod a2a;
mod access;
mod address;
mod agui;
#[cfg(feature = "anp")]
mod anp;
mod api;
mod body;
mod caller;
mod compatible;
mod connections;
mod cookie;
#[cfg(feature = "deliveries")]
mod deliveries;
mod endpoint;
mod files;
mod issuer;
mod keys;
#[cfg(feature = "deliveries")]
mod messengers;
mod metrics;
mod options;
mod page;
mod peers;
mod problem;
mod quotas;
mod requests;
mod served;
mod server;
mod settings;
mod sse;
mod stall;
mod subjects;
mod variables;
mod waiting;
mod webhooks;

pub use access::Admitted;
#[cfg(feature = "anp")]
pub use anp::Identities;
pub use axum;
pub use caller::Scope;
#[cfg(feature = "deliveries")]
pub use deliveries::{Deliveries, DeliveryError, DeliveryOptions};
pub use endpoint::{Access, Endpoint};
pub use issuer::Issuer;
pub use keys::{ApiKeyError, Key, KeyFile, KeySpec, NewKey};
pub use options::ServerOptions;
pub use page::PageFile;
pub use peers::Peers;
pub use problem::Problem;
pub use quotas::{Measure, Quota, QuotaFor};
pub use served::{
    Messenger, MessengerForm, Notification, RunNews, ServedSpec, Webhook, WebhookMethod,
    WebhookPiece, WebhookSignature,
};
pub use server::{Server, Visibility};
pub use settings::{Callers, ServerOptionsError};
