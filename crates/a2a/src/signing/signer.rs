//! The signer of a server's cards.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::json;

use super::{Algorithm, CardKey, CardKeyError, canonical::canonical, message};
use crate::protocol::{AgentCard, AgentCardSignature};

/// Signs agent cards with a private key. Clones share it.
///
/// ```
/// use ghostlight_a2a::{CardKey, CardSigner, protocol::AgentCard, verify_card};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let random = ring::rand::SystemRandom::new();
/// # let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| "no random numbers")?;
/// # use base64::Engine as _;
/// # let text = base64::engine::general_purpose::STANDARD.encode(pkcs8);
/// # let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
/// // Made by `openssl genpkey -algorithm ed25519`.
/// let signer = CardSigner::from_pem(&pem)?;
/// let mut card = AgentCard { name: "translator".to_owned(), ..AgentCard::default() };
/// signer.sign(&mut card)?;
/// let trusted = CardKey::read(&signer.public_key().jwk().to_string())?;
/// let read = verify_card(&serde_json::to_value(&card)?, &[trusted])?;
/// assert_eq!(read.name, "translator");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CardSigner {
    secret: Arc<Secret>,
    public: CardKey,
    id: String,
}

enum Secret {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl CardSigner {
    /// Reads a private key, Ed25519 or P-256, in PEM (`-----BEGIN PRIVATE KEY-----`, which is PKCS#8). Its id in
    /// signatures is its thumbprint (RFC 7638).
    ///
    /// # Errors
    /// The text is no such key.
    pub fn from_pem(pem: &str) -> Result<Self, CardKeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            let why = "it is not a private key in PKCS#8 (-----BEGIN PRIVATE KEY-----); make one with `openssl genpkey \
                       -algorithm ed25519`";
            CardKeyError::Malformed(why.to_owned())
        })?;
        let der = der.secret_pkcs8_der();
        let p256 = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let (secret, algorithm, public) = match Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            Ok(key) => {
                let public = key.public_key().as_ref().to_owned();
                (Secret::Ed25519(key), Algorithm::EdDSA, public)
            }
            Err(_) => {
                let key = EcdsaKeyPair::from_pkcs8(p256, der, &SystemRandom::new())
                    .map_err(|_| CardKeyError::Kind)?;
                let public = key.public_key().as_ref().to_owned();
                (Secret::P256(key), Algorithm::ES256, public)
            }
        };
        let mut public = CardKey::new(algorithm, public, None)?;
        let id = public.thumbprint();
        public.id = Some(id.clone());
        Ok(Self {
            secret: Arc::new(secret),
            public,
            id,
        })
    }

    /// The public key, for those who are to trust what is signed.
    pub fn public_key(&self) -> &CardKey {
        &self.public
    }

    /// The id of the key in signatures.
    pub fn key_id(&self) -> &str {
        &self.id
    }

    /// Adds a signature to a card. Whatever changes the card afterwards makes the signature invalid.
    ///
    /// Some implementations, the official SDKs for Python and JavaScript among them, sign and verify a card without its
    /// empty fields, also where the specification demands them. Both forms are the same for a card that has a text in each
    /// required text, and an element in each required list.
    ///
    /// # Errors
    /// The card has no canonical form, or the system has no random numbers.
    pub fn sign(&self, card: &mut AgentCard) -> Result<(), CardKeyError> {
        let failed = |why: &str| CardKeyError::Signing(why.to_owned());
        let json = serde_json::to_value(&*card).map_err(|error| failed(&error.to_string()))?;
        let bytes = canonical(&json).ok_or_else(|| failed("it has no canonical form"))?;
        let header = json!({ "alg": self.public.algorithm.name(), "kid": self.id, "typ": "JOSE" });
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let message = message(&protected, &bytes);
        let signature = match &*self.secret {
            Secret::Ed25519(key) => key.sign(message.as_bytes()).as_ref().to_owned(),
            Secret::P256(key) => key
                .sign(&SystemRandom::new(), message.as_bytes())
                .map_err(|_| failed("the system gives no random numbers"))?
                .as_ref()
                .to_owned(),
        };
        card.signatures.push(AgentCardSignature {
            protected,
            signature: URL_SAFE_NO_PAD.encode(signature),
            header: None,
        });
        Ok(())
    }
}

/// The private key is shown nowhere.
impl fmt::Debug for CardSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardSigner")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}
