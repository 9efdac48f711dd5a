//! The check of a card's signatures.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ghostlight_safety::{cut, unambiguous_json};
use serde_json::{Map, Value};

use super::{
    Algorithm, CardKey,
    canonical::{canonical, canonical_without_empty},
    message,
};
use crate::protocol::{AgentCard, AgentCardSignature};

/// The most signatures that are looked at, the most bytes of a protected header, and the most bytes of a card.
const MAX_SIGNATURES: usize = 16;
const MAX_HEADER: usize = 4 << 10;
const MAX_CARD: usize = 1 << 20;
/// The bytes of a signature of either algorithm.
const SIGNATURE: usize = 64;
/// The most characters of a signature's text in an error.
const SHOWN: usize = 80;

/// Why a card is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// The card has no signature.
    #[error(
        "it is not signed, and only cards of named keys are trusted: ask the agent's operator for a signed card, or \
         remove the keys from the settings"
    )]
    Unsigned,
    /// The card is longer, or has more signatures, than is looked at.
    #[error("it has more than {0}: ask the agent's operator for a smaller card")]
    TooLarge(&'static str),
    /// The card, or a signature, does not follow the protocol.
    #[error("it cannot be read: {0}; ask the agent's operator to sign it anew")]
    Malformed(String),
    /// The signature is made by an algorithm that is not accepted, such as `none`.
    #[error(
        "its signature has the algorithm {0:?}: ask the agent's operator for one by ES256 or EdDSA"
    )]
    Algorithm(String),
    /// The signature demands that its readers support an extension.
    #[error(
        "its signature demands extensions of JWS ({0}), and none is supported: ask the agent's operator for one without"
    )]
    Extension(&'static str),
    /// The key of the signature is not trusted.
    #[error(
        "it is signed with the key {id:?} ({algorithm}), which is none of the trusted keys: if the agent's operator \
         confirms that key, add it to the settings"
    )]
    UnknownKey {
        /// The key's id in the signature; empty if it names none.
        id: String,
        /// The algorithm.
        algorithm: &'static str,
    },
    /// The signature is not one of this card by a trusted key.
    #[error(
        "its signature does not fit: the card was changed after it was signed, or another key signed it under the \
         id {0:?}; do not use the agent before its operator has explained this"
    )]
    Forged(String),
}

ghostlight_actors::parts_of_system_error!(CardError);

/// Verifies that one of these keys signed a card, as JSON, and reads what was signed. The signatures, and fields that are no
/// part of a card, are not in the result.
///
/// A signature holds for as long as its key is trusted: an older card of the same key is accepted, too.
///
/// # Errors
/// No signature of the card is valid; [`CardError`] says why. Of several signatures it is the one that came furthest.
pub fn verify_card(card: &Value, keys: &[CardKey]) -> Result<AgentCard, CardError> {
    let malformed = |why: &str| CardError::Malformed(why.to_owned());
    let signatures = match card.get("signatures") {
        None | Some(Value::Null) => return Err(CardError::Unsigned),
        Some(Value::Array(signatures)) if signatures.is_empty() => return Err(CardError::Unsigned),
        Some(Value::Array(signatures)) => signatures,
        Some(_) => return Err(malformed("`signatures` is not a list")),
    };
    if signatures.len() > MAX_SIGNATURES {
        return Err(CardError::TooLarge("16 signatures"));
    }
    let forms = [canonical(card), canonical_without_empty(card)];
    let [Some(by_rules), Some(without_empty)] = forms else {
        return Err(malformed("it has no canonical form"));
    };
    if by_rules.len() > MAX_CARD {
        return Err(CardError::TooLarge("1 MiB"));
    }
    let mut worst = None;
    for given in signatures {
        match signed_bytes(given, [&by_rules, &without_empty], keys) {
            // The card is read from the bytes that were signed, so nothing else of it counts.
            Ok(bytes) => {
                return serde_json::from_slice(bytes)
                    .map_err(|error| malformed(&error.to_string()));
            }
            Err(error)
                if worst
                    .as_ref()
                    .is_none_or(|worst| rank(&error) > rank(worst)) =>
            {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    Err(worst.unwrap_or(CardError::Unsigned))
}

/// The step to which the check of a signature came; later ones are higher.
fn rank(error: &CardError) -> u8 {
    match error {
        CardError::Forged(_) => 2,
        CardError::UnknownKey { .. } => 1,
        _ => 0,
    }
}

/// The form of a card that a signature is one of.
fn signed_bytes<'c>(
    given: &Value,
    forms: [&'c [u8]; 2],
    keys: &[CardKey],
) -> Result<&'c [u8], CardError> {
    let malformed = |why: &str| CardError::Malformed(why.to_owned());
    let given: AgentCardSignature =
        serde_json::from_value(given.clone()).map_err(|error| malformed(&error.to_string()))?;
    let (algorithm, id) = header(&given)?;
    let signature = given.signature.as_str();
    // The text is decoded only if its length fits; base64 takes four characters for three bytes.
    let signature = (signature.len() <= SIGNATURE * 2)
        .then(|| URL_SAFE_NO_PAD.decode(signature).ok())
        .flatten()
        .filter(|bytes| bytes.len() == SIGNATURE)
        .ok_or_else(|| malformed("a signature is not of 64 bytes in base64url"))?;
    let may_be = |key: &&CardKey| {
        key.algorithm == algorithm
            && (key.id.is_none() || id.is_none() || key.id.as_deref() == id.as_deref())
    };
    let shown = || id.iter().flat_map(|id| id.chars()).take(SHOWN).collect();
    let mut fitting = keys.iter().filter(may_be).peekable();
    if fitting.peek().is_none() {
        return Err(CardError::UnknownKey {
            id: shown(),
            algorithm: algorithm.name(),
        });
    }
    let messages = forms.map(|form| (form, message(&given.protected, form)));
    for key in fitting {
        for (form, message) in &messages {
            if key.verifies(message.as_bytes(), &signature) {
                return Ok(form);
            }
        }
    }
    Err(CardError::Forged(shown()))
}

/// The algorithm and the key's id of a signature.
fn header(given: &AgentCardSignature) -> Result<(Algorithm, Option<String>), CardError> {
    let malformed = |why: &str| CardError::Malformed(why.to_owned());
    if given.protected.len() > MAX_HEADER {
        return Err(CardError::TooLarge("4 KiB in the header of a signature"));
    }
    let protected: Map<String, Value> = URL_SAFE_NO_PAD
        .decode(&given.protected)
        .ok()
        .and_then(|bytes| unambiguous_json(bytes).ok())
        .ok_or_else(|| malformed("the header of a signature is not a JSON object in base64url"))?;
    let empty = Map::new();
    let unprotected = given.header.as_ref().unwrap_or(&empty);
    for extension in ["crit", "b64"] {
        if protected.contains_key(extension) || unprotected.contains_key(extension) {
            return Err(CardError::Extension(extension));
        }
    }
    // RFC 7515, 4: the two headers name nothing twice. An algorithm that is not signed would be the forger's choice.
    if unprotected.contains_key("alg")
        || unprotected.keys().any(|name| protected.contains_key(name))
    {
        return Err(malformed(
            "the header of a signature that is not signed repeats what is signed, or names `alg`",
        ));
    }
    let algorithm = protected.get("alg").cloned().unwrap_or_default();
    let algorithm = serde_json::from_value(algorithm.clone()).map_err(|_| {
        let text = algorithm.as_str().unwrap_or_default();
        CardError::Algorithm(cut(text, SHOWN).into_owned())
    })?;
    match protected.get("kid") {
        None => Ok((algorithm, None)),
        Some(Value::String(id)) => Ok((algorithm, Some(id.clone()))),
        Some(_) => Err(malformed("the `kid` of a signature is not text")),
    }
}
