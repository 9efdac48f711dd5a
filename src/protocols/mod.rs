//! Protocols for talking to other programs.

#[cfg(feature = "http")]
mod approval_webhook;

#[cfg(feature = "http")]
pub use approval_webhook::{ApprovalWebhook, ApprovalWebhookSpec};
