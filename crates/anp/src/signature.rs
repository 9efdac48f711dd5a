//! Signatures of HTTP requests (RFC 9421), in the part of it that `did:wba` uses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::{
    did::{Did, DidError},
    document::{DidDocument, DocumentError},
};

/// How old a signature may be, and how far its clock may be ahead, in seconds.
const MAX_AGE_S: i64 = 300;
const LEEWAY_S: i64 = 60;
/// The longest header of a signature, and the longest nonce, in bytes.
const MAX_HEADER: usize = 4 << 10;
const MAX_NONCE: usize = 128;

/// A request as its sender signed it.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'r> {
    /// The method, such as `POST`.
    pub method: &'r str,
    /// The whole address, with its query.
    pub target: &'r str,
    /// The host, with its port where the address has one.
    pub authority: &'r str,
    /// The header `Content-Digest` (RFC 9530).
    pub content_digest: Option<&'r str>,
    /// Whether a body follows.
    pub has_body: bool,
}

/// A request whose head was signed. Its sender is known once the [body](Self::with_body) is the one that was signed, too.
#[derive(Debug)]
#[must_use]
pub struct SignedHead<'s> {
    did: &'s Did,
    /// The digest that the body must have; none where no body may follow.
    digest: Option<String>,
}

impl<'s> SignedHead<'s> {
    /// The caller's identity, if this is the body that was signed.
    ///
    /// # Errors
    /// [`SignatureError::Digest`] for another body.
    pub fn with_body(self, body: &[u8]) -> Result<&'s Did, SignatureError> {
        let fits = match self.digest {
            Some(signed) => {
                let digest = digest::digest(&digest::SHA256, body);
                signed == format!("sha-256=:{}:", STANDARD.encode(digest))
            }
            None => body.is_empty(),
        };
        fits.then_some(self.did).ok_or(SignatureError::Digest)
    }
}

/// A signature of a request, not verified yet.
#[derive(Clone, Debug)]
pub struct Signature {
    did: Did,
    key: String,
    components: Vec<String>,
    algorithm: Option<String>,
    created: i64,
    expires: Option<i64>,
    nonce: String,
    bytes: Vec<u8>,
    /// The parameters as they were sent, which are signed, too.
    parameters: String,
}

/// Why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The headers are malformed, or leave out what is needed.
    #[error("the signature cannot be read: {0}")]
    Malformed(&'static str),
    /// Its key belongs to no identity.
    #[error(transparent)]
    Did(#[from] DidError),
    /// Its key is not in the document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It covers too little of the request.
    #[error("the signature does not cover {0}")]
    Uncovered(&'static str),
    /// It is too old, not valid yet, or over.
    #[error("the signature is of another time: sign each request when it is sent")]
    Time,
    /// The body is not the one that was signed.
    #[error("the body does not have the digest that its header says")]
    Digest,
    /// The request is not the one that was signed.
    #[error("the signature is not one of this request")]
    Forged,
}

impl Signature {
    /// Reads the headers `Signature-Input` and `Signature`, which hold one signature.
    ///
    /// # Errors
    /// [`SignatureError::Malformed`] for other texts, and [`SignatureError::Did`] for a key of no `did:wba`.
    pub fn read(input: &str, signature: &str) -> Result<Self, SignatureError> {
        let malformed = SignatureError::Malformed;
        if input.len() > MAX_HEADER || signature.len() > MAX_HEADER {
            return Err(malformed("its headers are too long"));
        }
        let read = |text: &str| Parser::new(text).parse::<Dictionary>();
        let signed = read(input).map_err(|_| malformed("`Signature-Input` is not a dictionary"))?;
        let signatures =
            read(signature).map_err(|_| malformed("`Signature` is not a dictionary"))?;
        let one = (signed.len() == 1 && signatures.len() == 1).then_some(());
        one.ok_or(malformed("there is more than one"))?;
        let list = match signed.first() {
            Some((label, ListEntry::InnerList(list))) => Some((label, list)),
            _ => None,
        };
        let (label, list) = list.ok_or(malformed("`Signature-Input` names no components"))?;
        let bytes = match signatures.get(label.as_str()) {
            Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
            _ => None,
        };
        let bytes = bytes.ok_or(malformed("`Signature` has no bytes under its name"))?;
        let mut components = Vec::new();
        for item in &list.items {
            let name = item
                .bare_item
                .as_string()
                .filter(|_| item.params.is_empty());
            let name = name.ok_or(malformed("a component is not a plain name"))?;
            if components.iter().any(|known| known == name.as_str()) {
                return Err(malformed("a component is given twice"));
            }
            components.push(name.as_str().to_owned());
        }
        let text = |name: &str| match list.params.get(name) {
            Some(BareItem::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let number = |name: &str| match list.params.get(name) {
            Some(BareItem::Integer(number)) => Some(i64::from(*number)),
            _ => None,
        };
        let algorithm = text("alg");
        if algorithm.is_none() && list.params.contains_key("alg") {
            return Err(malformed("its `alg` is not text"));
        }
        let key = text("keyid").ok_or(malformed("it names no `keyid`"))?;
        let (did, _) = key
            .split_once('#')
            .ok_or(malformed("its `keyid` is not a key of a DID"))?;
        let nonce = text("nonce").filter(|nonce| (1..=MAX_NONCE).contains(&nonce.len()));
        let (_, parameters) = input
            .split_once('=')
            .ok_or(malformed("`Signature-Input` is not a dictionary"))?;
        Ok(Self {
            did: did.parse()?,
            key: key.to_owned(),
            components,
            algorithm: algorithm.map(str::to_owned),
            created: number("created").ok_or(malformed("it does not say when it was `created`"))?,
            expires: number("expires"),
            nonce: nonce.ok_or(malformed("it has no `nonce`"))?.to_owned(),
            bytes: bytes.to_owned(),
            parameters: parameters.trim().to_owned(),
        })
    }

    /// The identity that it claims, about which nothing is known before it is [verified](Self::verify).
    pub fn claimed(&self) -> &Did {
        &self.did
    }

    /// Its nonce, 1 to 128 bytes. A request whose identity has used the nonce before is to be refused.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The last second since 1970 at which it can be accepted: five minutes after it was made.
    pub fn holds_until(&self) -> i64 {
        let over = self.created.saturating_add(MAX_AGE_S);
        self.expires.map_or(over, |expires| expires.min(over))
    }

    /// Verifies the head of a request at this time, in seconds since 1970, before its body is read. It must cover the
    /// method, the whole address and, where there is a body, its digest.
    ///
    /// # Errors
    /// The fault in it; see [`SignatureError`].
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        document: &DidDocument,
        now_s: i64,
    ) -> Result<SignedHead<'_>, SignatureError> {
        let covers = |name: &str| self.components.iter().any(|covered| covered == name);
        if !covers("@method") {
            return Err(SignatureError::Uncovered("the method"));
        }
        if !covers("@target-uri") {
            return Err(SignatureError::Uncovered("the address"));
        }
        if request.has_body && !covers("content-digest") {
            return Err(SignatureError::Uncovered("the body's digest"));
        }
        let age = now_s.saturating_sub(self.created);
        let over = self.expires.is_some_and(|expires| expires < now_s);
        if over || !(-LEEWAY_S..=MAX_AGE_S).contains(&age) {
            return Err(SignatureError::Time);
        }
        let digest = match covers("content-digest") {
            true => Some(request.content_digest.ok_or(SignatureError::Digest)?),
            false => None,
        };
        let message = self.message(request)?;
        let key = document.key(&self.did, &self.key)?;
        let algorithm = self.algorithm.as_deref();
        if algorithm.is_some_and(|algorithm| algorithm != key.algorithm()) {
            return Err(SignatureError::Malformed(
                "its `alg` is not that of its key",
            ));
        }
        if !key.verifies(message.as_bytes(), &self.bytes) {
            return Err(SignatureError::Forged);
        }
        Ok(SignedHead {
            did: &self.did,
            digest: digest.map(|digest| digest.trim().to_owned()),
        })
    }

    /// The signed text: the "signature base" (RFC 9421, 2.5).
    fn message(&self, request: &SignedRequest<'_>) -> Result<String, SignatureError> {
        let mut message = String::new();
        for name in &self.components {
            let value = match name.as_str() {
                "@method" => request.method,
                "@target-uri" => request.target,
                "@authority" => request.authority,
                "content-digest" => request.content_digest.unwrap_or_default().trim(),
                _ => return Err(SignatureError::Malformed("a component is not known here")),
            };
            message.push_str(&format!("\"{name}\": {value}\n"));
        }
        message.push_str(&format!("\"@signature-params\": {}", self.parameters));
        Ok(message)
    }
}
