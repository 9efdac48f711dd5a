//! The Agent Network Protocol (ANP): identities, signed requests, descriptions of agents, and a registry.
//!
//! A caller proves who it is by a signature (RFC 9421) with a key of its [DID document](DidDocument), which stands at an
//! address that its [DID](Did) (method `did:wba`) names. [`SignedRequest`] says what is signed, and [`Signature`] reads and
//! verifies it, the head before the body is read; its caller remembers nonces, so that no request is taken twice. A [`Registry`] keeps agents that announce themselves, as
//! long as they go on announcing themselves.
//!
//! This package opens no connection: the caller of [`Signature::verify`] fetches the document.

mod description;
mod did;
mod document;
mod registry;
mod signature;

pub use description::{Description, descriptions};
pub use did::{Did, DidError};
pub use document::{DidDocument, DocumentError};
pub use registry::{Announcement, Registry, RegistryError, Service, Statistics};
pub use signature::{Signature, SignatureError, SignedHead, SignedRequest};
