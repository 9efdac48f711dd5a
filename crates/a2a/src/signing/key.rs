//! Public keys whose signatures are trusted.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ghostlight_safety::unambiguous_json;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
use rustls::pki_types::{SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde_json::{Map, Value};

use super::Algorithm;

/// The most bytes of a key as text.
const MAX_BYTES: usize = 16 << 10;
/// The bytes before the key itself in an X.509 public key (SPKI): its kind, which is all that varies for these two.
const ED25519_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The first byte of a point of a curve that is written in full.
const UNCOMPRESSED: u8 = 4;

/// A public key, Ed25519 or P-256, whose signatures of cards are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardKey {
    pub(super) algorithm: Algorithm,
    bytes: Vec<u8>,
    /// The id that a signature must name, if it names one.
    pub(super) id: Option<String>,
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardKeyError {
    /// The text is not a key.
    #[error("the key cannot be read: {0}")]
    Malformed(String),
    /// The key is neither Ed25519 nor P-256.
    #[error("the key is neither Ed25519 nor P-256 (EC): cards are signed with such a key")]
    Kind,
    /// The key is private, where a public one is needed.
    #[error("the key is private: keep it with the signer, and give its public part here")]
    Private,
    /// The key says of itself that it verifies no signatures by its algorithm.
    #[error(
        "the key is meant for something else: its {0:?} does not allow to verify signatures with it"
    )]
    Purpose(&'static str),
    /// A signature could not be made.
    #[error("the card cannot be signed: {0}")]
    Signing(String),
}

ghostlight_actors::parts_of_system_error!(CardKeyError);

impl CardKey {
    /// Reads a public key: a JSON Web Key (RFC 7517), or PEM (`-----BEGIN PUBLIC KEY-----`).
    ///
    /// # Errors
    /// The text has more than 16 KiB or is no such key, the key is private, of another kind, or meant for something else.
    pub fn read(text: &str) -> Result<Self, CardKeyError> {
        let malformed = |why: &str| Err(CardKeyError::Malformed(why.to_owned()));
        let text = text.trim();
        if text.len() > MAX_BYTES {
            return malformed("it has more than 16 KiB");
        }
        if text.starts_with('{') {
            let jwk = unambiguous_json(text);
            return Self::of_jwk(&jwk.map_err(|error| CardKeyError::Malformed(error.to_string()))?);
        }
        if text.contains("PRIVATE KEY-----") {
            return Err(CardKeyError::Private);
        }
        if !text.contains("-----BEGIN PUBLIC KEY-----") {
            return malformed("it is neither a JSON Web Key nor PEM (-----BEGIN PUBLIC KEY-----)");
        }
        let spki = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes())
            .map_err(|error| CardKeyError::Malformed(error.to_string()))?;
        let (algorithm, bytes) = match (
            spki.strip_prefix(&ED25519_PREFIX),
            spki.strip_prefix(&P256_PREFIX),
        ) {
            (Some(bytes), _) => (Algorithm::EdDSA, bytes),
            (_, Some(bytes)) => (Algorithm::ES256, bytes),
            (None, None) => return Err(CardKeyError::Kind),
        };
        Self::new(algorithm, bytes.to_owned(), None)
    }

    /// Reads a JSON Web Key (RFC 7517).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn of_jwk(jwk: &Map<String, Value>) -> Result<Self, CardKeyError> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if jwk.contains_key("d") {
            return Err(CardKeyError::Private);
        }
        let part = |name: &'static str| {
            let part = text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            part.filter(|part| part.len() == 32).ok_or_else(|| {
                CardKeyError::Malformed(format!("its {name:?} is not of 32 bytes in base64url"))
            })
        };
        let (algorithm, bytes) = match (text("kty"), text("crv")) {
            (Some("OKP"), Some("Ed25519")) => (Algorithm::EdDSA, part("x")?),
            (Some("EC"), Some("P-256")) => (
                Algorithm::ES256,
                [vec![UNCOMPRESSED], part("x")?, part("y")?].concat(),
            ),
            (None, _) => return Err(CardKeyError::Malformed("it has no `kty`".to_owned())),
            _ => return Err(CardKeyError::Kind),
        };
        let names = |name: &str| jwk.get(name).is_some_and(|value| !value.is_null());
        let given = text("alg").and_then(|name| {
            serde_json::from_value::<Algorithm>(Value::String(name.to_owned())).ok()
        });
        if names("alg") && given != Some(algorithm) {
            return Err(CardKeyError::Purpose("alg"));
        }
        if names("use") && text("use") != Some("sig") {
            return Err(CardKeyError::Purpose("use"));
        }
        let uses = jwk.get("key_ops").and_then(Value::as_array);
        if names("key_ops") && !uses.is_some_and(|uses| uses.iter().any(|one| one == "verify")) {
            return Err(CardKeyError::Purpose("key_ops"));
        }
        if names("kid") && text("kid").is_none() {
            return Err(CardKeyError::Malformed("its `kid` is not text".to_owned()));
        }
        Self::new(algorithm, bytes, text("kid").map(str::to_owned))
    }

    pub(super) fn new(
        algorithm: Algorithm,
        bytes: Vec<u8>,
        id: Option<String>,
    ) -> Result<Self, CardKeyError> {
        let fits = match algorithm {
            Algorithm::EdDSA => bytes.len() == 32,
            Algorithm::ES256 => bytes.len() == 65 && bytes.first() == Some(&UNCOMPRESSED),
        };
        let key = Self {
            algorithm,
            bytes,
            id,
        };
        fits.then_some(key).ok_or(CardKeyError::Kind)
    }

    /// The members of its JSON Web Key that define it, in the order of their names.
    fn defining(&self) -> Vec<(&'static str, String)> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.algorithm {
            Algorithm::EdDSA => vec![
                ("crv", "Ed25519".to_owned()),
                ("kty", "OKP".to_owned()),
                ("x", text(&self.bytes)),
            ],
            Algorithm::ES256 => vec![
                ("crv", "P-256".to_owned()),
                ("kty", "EC".to_owned()),
                ("x", text(&self.bytes[1..33])),
                ("y", text(&self.bytes[33..])),
            ],
        }
    }

    /// Its thumbprint (RFC 7638), by which keys are named that have no id of their own.
    pub(super) fn thumbprint(&self) -> String {
        let members = self.defining();
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":\"{value}\""))
            .collect();
        let jwk = format!("{{{}}}", members.join(","));
        URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, jwk.as_bytes()))
    }

    /// The key as a JSON Web Key, for those who are to trust it.
    pub fn jwk(&self) -> Value {
        let mut jwk: Map<String, Value> = Map::new();
        for (name, value) in self.defining() {
            jwk.insert(name.to_owned(), value.into());
        }
        jwk.insert("alg".to_owned(), self.algorithm.name().into());
        if let Some(id) = &self.id {
            jwk.insert("kid".to_owned(), id.as_str().into());
        }
        Value::Object(jwk)
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.algorithm {
            Algorithm::EdDSA => {
                UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature)
            }
            Algorithm::ES256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes)
                .verify(message, signature),
        };
        verified.is_ok()
    }
}
