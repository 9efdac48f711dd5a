//! How Ghostlight talks with other programs.

#[cfg(feature = "openai")]
mod approval_webhook;

#[cfg(feature = "openai")]
pub use approval_webhook::{ApprovalWebhook, ApprovalWebhookSettings};
