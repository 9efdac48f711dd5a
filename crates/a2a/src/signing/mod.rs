//! Signatures of agent cards (the protocol's section 8.4): JSON Web Signatures (RFC 7515) over the canonical form
//! (RFC 8785) of a card.
//!
//! A reader trusts the keys that it was given, and no others: keys and addresses of keys that a signature brings along
//! (`jwk`, `jku`, `x5c`, `x5u`) are not looked at, so nothing is fetched for a card.

mod canonical;
mod key;
mod signer;
mod verification;

pub use key::{CardKey, CardKeyError};
pub use signer::CardSigner;
pub use verification::{CardError, verify_card};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// The algorithms of signatures: neither shared secrets nor unsigned cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Algorithm {
    /// ECDSA over P-256 with SHA-256.
    ES256,
    /// Ed25519.
    #[serde(alias = "Ed25519")]
    EdDSA,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::ES256 => "ES256",
            Self::EdDSA => "EdDSA",
        }
    }
}

/// The signed text: the protected header and the canonical card, each in base64url.
fn message(protected: &str, card: &[u8]) -> String {
    format!("{protected}.{}", URL_SAFE_NO_PAD.encode(card))
}
