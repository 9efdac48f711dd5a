//! A secret that a person gives for one tool call, or that a tool sends.

use secrecy::{ExposeSecret, SecretString};

/// The length of a word, in bytes, that may be a key whatever its name is.
const LONG: usize = 16;

/// A password, code or key: one that a person gave for one tool call, or one that a tool sends.
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

    /// The secrets in the value of a header: the whole, and the words behind the name of a scheme. A header without a
    /// secret's name holds one only if its value is as long as a key.
    pub fn of_header(name: &str, value: &str) -> Vec<Self> {
        let words = value.split_whitespace();
        let behind_scheme = words.skip(1);
        let may_be = |word: &&str| word.len() >= LONG || ghostlight_safety::is_secret_key(name);
        let secrets = [value.trim()].into_iter().chain(behind_scheme);
        secrets.filter(may_be).map(Self::new).collect()
    }

    /// The secret that an environment variable inside of an address holds: one of a secret's name, or a value as long as a
    /// key that is no host or address itself.
    pub fn of_variable(name: &str, value: &str) -> Option<Self> {
        let value = value.trim();
        let is_key = value.len() >= LONG && !value.contains(['.', ':', '/']);
        let is_secret = !value.is_empty() && (is_key || ghostlight_safety::is_secret_key(name));
        is_secret.then(|| Self::new(value))
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
        text.replace(secret, ghostlight_safety::REDACTED)
    }
}

opaque!(Credential);
