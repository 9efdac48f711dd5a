//! A secret that a person gives for one tool call.

use secrecy::{ExposeSecret, SecretString};

/// A password, code or key that a person gave for one tool call.
///
/// It lives in the memory of this process only: no journal, event, log or model sees it. It is wiped when it is
/// dropped, and replaced wherever the tool's output contains it.
#[derive(Clone)]
pub struct Credential(SecretString);

impl Credential {
    /// Keeps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(SecretString::from(secret.into()))
    }

    /// The secret itself, for the one place that uses it.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }

    /// The text without the secret.
    pub(crate) fn taken_out_of(&self, text: String) -> String {
        let secret = self.reveal();
        if secret.is_empty() || !text.contains(secret) {
            return text;
        }
        text.replace(secret, crate::safety::REDACTED)
    }
}

opaque!(Credential);
