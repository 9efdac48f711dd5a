//! DID documents: the keys of an identity.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey},
};
use serde::Deserialize;

use crate::did::Did;

/// The most bytes of a document.
const MAX_BYTES: usize = 64 << 10;
/// The bytes before an Ed25519 key in its multibase form.
const ED25519_PREFIX: [u8; 2] = [0xed, 0x01];

/// The document of an identity: its keys, and those of them that may sign requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidDocument {
    id: String,
    #[serde(default)]
    verification_method: Vec<Method>,
    #[serde(default)]
    authentication: Vec<Reference>,
}

/// A key, or the id of one that stands elsewhere in the document.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Reference {
    Id(String),
    Key(Method),
}

/// A key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Method {
    id: String,
    #[serde(default)]
    public_key_multibase: Option<String>,
    #[serde(default)]
    public_key_jwk: Option<JsonWebKey>,
}

/// A key in JSON (RFC 7517). One that has a member twice does not read: readers differ in which of the two counts.
#[derive(Clone, Debug, Deserialize)]
struct JsonWebKey {
    kty: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A document that says nothing of a caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is not a document.
    #[error("the DID document cannot be read: {0}")]
    Malformed(String),
    /// It is the document of another identity.
    #[error("the DID document is that of {0:?}")]
    Foreign(String),
    /// The key is none of its keys, or not one that authenticates.
    #[error("the DID document has no key {0:?} for authentication")]
    NoKey(String),
    /// The key is of a kind that is not verified here: neither Ed25519 nor P-256.
    #[error("the key {0:?} is neither Ed25519 nor P-256")]
    KindOfKey(String),
    /// The identity is bound to another key by the end of its name.
    #[error("the identity is bound to another key than {0:?}")]
    Unbound(String),
}

/// A key that verifies signatures.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PublicKey {
    Ed25519(Vec<u8>),
    /// The point, uncompressed.
    P256(Vec<u8>),
}

impl DidDocument {
    /// Reads the document of this identity.
    ///
    /// # Errors
    /// [`DocumentError::Malformed`] for a text that is not a document or has more than 64 KiB, and
    /// [`DocumentError::Foreign`] for the document of another identity.
    pub fn read(text: &str, did: &Did) -> Result<Self, DocumentError> {
        if text.len() > MAX_BYTES {
            return Err(DocumentError::Malformed(
                "it is longer than 64 KiB".to_owned(),
            ));
        }
        let document: Self = serde_json::from_str(text)
            .map_err(|error| DocumentError::Malformed(error.to_string()))?;
        if document.id != did.to_string() {
            let id = document.id.chars().take(80).collect();
            return Err(DocumentError::Foreign(id));
        }
        Ok(document)
    }

    /// A key for authentication.
    pub(crate) fn key(&self, did: &Did, id: &str) -> Result<PublicKey, DocumentError> {
        let own = || id.to_owned();
        let found = self
            .authentication
            .iter()
            .find_map(|reference| match reference {
                Reference::Key(key) if key.id == id => Some(key),
                Reference::Id(named) if named == id => {
                    self.verification_method.iter().find(|key| key.id == id)
                }
                _ => None,
            });
        let key = found.ok_or_else(|| DocumentError::NoKey(own()))?;
        let key = key
            .public()
            .ok_or_else(|| DocumentError::KindOfKey(own()))?;
        match did.last() {
            Some(last) if last.starts_with("e1_") || last.starts_with("k1_") => {
                // Keys of `k1_…` are secp256k1, which is not verified here.
                let bound = last.strip_prefix("e1_").zip(key.thumbprint());
                bound
                    .is_some_and(|(bound, thumbprint)| bound == thumbprint)
                    .then_some(key)
                    .ok_or_else(|| DocumentError::Unbound(own()))
            }
            _ => Ok(key),
        }
    }
}

impl Method {
    fn public(&self) -> Option<PublicKey> {
        if let Some(text) = &self.public_key_multibase {
            let bytes = bs58::decode(text.strip_prefix('z')?).into_vec().ok()?;
            let key = bytes.strip_prefix(&ED25519_PREFIX)?;
            return (key.len() == 32).then(|| PublicKey::Ed25519(key.to_owned()));
        }
        let jwk = self.public_key_jwk.as_ref()?;
        let half = |text: &Option<String>| {
            let bytes = URL_SAFE_NO_PAD.decode(text.as_ref()?).ok()?;
            (bytes.len() == 32).then_some(bytes)
        };
        match (jwk.kty.as_deref()?, jwk.crv.as_deref()?) {
            ("OKP", "Ed25519") => half(&jwk.x).map(PublicKey::Ed25519),
            ("EC", "P-256") => {
                let point = [vec![4], half(&jwk.x)?, half(&jwk.y)?];
                Some(PublicKey::P256(point.concat()))
            }
            _ => None,
        }
    }
}

impl PublicKey {
    /// Whether this key signed the message.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }

    /// The name of its algorithm (RFC 9421, 6.2.2).
    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "ed25519",
            Self::P256(_) => "ecdsa-p256-sha256",
        }
    }

    /// The thumbprint (RFC 7638) of an Ed25519 key, which an identity `e1_…` ends with.
    fn thumbprint(&self) -> Option<String> {
        let Self::Ed25519(key) = self else {
            return None;
        };
        let x = URL_SAFE_NO_PAD.encode(key);
        let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let digest = digest::digest(&digest::SHA256, jwk.as_bytes());
        Some(URL_SAFE_NO_PAD.encode(digest))
    }
}
