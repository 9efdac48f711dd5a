//! The gRPC binding: the same methods as JSON-RPC has, with parameters and results as Protocol Buffers.
//!
//! A [`Codec`] turns the messages of a method into the JSON of the other bindings and back, so that client and server
//! carry out a method in one way, whichever binding it came by.

mod card;
mod codec;
mod status;
mod value;
mod wire;

pub use codec::Codec;
pub(crate) use codec::UnreadError;
pub use status::{error_of, status_of};

use crate::protocol::Method;

/// The full name of the service.
pub const SERVICE: &str = "lf.a2a.v1.A2AService";
/// The metadata of an update for its event. A client that sends it as the header `last-event-id` resumes behind it.
pub const EVENT: &str = "ghostlight/event";

/// The path of a method.
pub fn path(method: Method) -> String {
    format!("/{SERVICE}/{}", method.name())
}
