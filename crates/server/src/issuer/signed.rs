//! Tokens in their compact form (JWS, RFC 7515), and the keys that sign them.
//!
//! `docs/decisions/013-tokens.md` says why no library reads them. Signatures are checked by ring.

use std::io;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ghostlight_safety::unambiguous_json;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The most bytes of a set of keys.
const MAX_BYTES: usize = 1 << 20;

/// The accepted algorithms: neither shared secrets nor unsigned tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Algorithm {
    RS256,
    ES256,
    EdDSA,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
    /// Extensions that must be understood; none is.
    crit: Option<Value>,
}

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Signed<'t> {
    header: Header,
    /// The signed bytes.
    message: &'t str,
    claims: &'t str,
    signature: Vec<u8>,
}

impl<'t> Signed<'t> {
    /// Parses a token; `None` for a text of another form.
    pub(super) fn read(token: &'t str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let header: Header = unambiguous_json(decoded(header)?).ok()?;
        let signature = decoded(signature)?;
        header.crit.is_none().then_some(Self {
            header,
            message,
            claims,
            signature,
        })
    }

    /// The issuer that the token names, whether or not it has signed the token.
    pub(super) fn issuer(&self) -> Option<String> {
        let claims: Map<String, Value> = unambiguous_json(decoded(self.claims)?).ok()?;
        claims.get("iss")?.as_str().map(str::to_owned)
    }

    /// The claims of the token, if one of these keys signed it.
    pub(super) fn claims(&self, keys: &KeySet) -> Option<Map<String, Value>> {
        let key = keys.of(self)?;
        let message = self.message.as_bytes();
        key.verifies(self.header.alg, message, &self.signature)?;
        unambiguous_json(decoded(self.claims)?).ok()
    }

    /// A token that names this key as its signer.
    #[cfg(test)]
    pub(super) fn of_key(kid: &str) -> Self {
        Self {
            header: Header {
                alg: Algorithm::EdDSA,
                kid: Some(kid.to_owned()),
                crit: None,
            },
            message: "",
            claims: "",
            signature: Vec::new(),
        }
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// The published keys.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublicKey>);

/// One published key.
#[derive(Debug, Deserialize)]
struct PublicKey {
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    #[serde(flatten)]
    material: Material,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kty")]
enum Material {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Curve { crv: String, x: String, y: String },
    #[serde(rename = "OKP")]
    Edwards { crv: String, x: String },
}

impl KeySet {
    /// Parses a set of keys; keys of unknown kinds are left out.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        if text.len() > MAX_BYTES {
            return Err(io::Error::other("the set of keys is too long"));
        }
        let document: Document = unambiguous_json(text)?;
        let keys = document.keys.into_iter();
        Ok(Self(
            keys.filter_map(|key| serde_json::from_value(key).ok())
                .collect(),
        ))
    }

    /// Whether the set has the key that a token names.
    pub(super) fn has(&self, signed: &Signed<'_>) -> bool {
        self.of(signed).is_some()
    }

    /// The key that a token names; the only key, if the token names none.
    fn of(&self, signed: &Signed<'_>) -> Option<&PublicKey> {
        match &signed.header.kid {
            Some(kid) => self.0.iter().find(|key| key.kid.as_ref() == Some(kid)),
            None => self.0.first().filter(|_| self.0.len() == 1),
        }
    }
}

impl PublicKey {
    /// Whether this key made the signature. The key decides which algorithm is valid, never the token.
    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Option<()> {
        let said = self.alg.as_ref();
        let fits = said.is_none_or(|said| *said == format!("{algorithm:?}"));
        let signs = self.r#use.as_ref().is_none_or(|usage| usage == "sig");
        (fits && signs).then_some(())?;
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, Algorithm::RS256) => {
                let (n, e) = (decoded(n)?, decoded(e)?);
                RsaPublicKeyComponents { n, e }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                    .ok()
            }
            (Material::Curve { crv, x, y }, Algorithm::ES256) if crv == "P-256" => {
                let mut point = vec![4];
                for half in [decoded(x)?, decoded(y)?] {
                    (half.len() == 32).then_some(())?;
                    point.extend(half);
                }
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
                    .ok()
            }
            (Material::Edwards { crv, x }, Algorithm::EdDSA) if crv == "Ed25519" => {
                UnparsedPublicKey::new(&ED25519, decoded(x)?)
                    .verify(message, signature)
                    .ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The examples A.2 (RSA) and A.3 (P-256) of RFC 7515.
    const RSA_KEY: &str = r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
    const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    const P256_KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    const P256_TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    fn keys(keys: &[&str]) -> KeySet {
        KeySet::parse(&format!(r#"{{"keys":[{}]}}"#, keys.join(","))).unwrap()
    }

    #[test]
    fn the_examples_of_the_rfc_are_signed_and_each_changed_byte_is_seen() {
        for (key, token, other) in [
            (RSA_KEY, RSA_TOKEN, P256_KEY),
            (P256_KEY, P256_TOKEN, RSA_KEY),
        ] {
            let set = keys(&[key]);
            let claims = Signed::read(token).unwrap().claims(&set).unwrap();
            assert_eq!(claims["iss"], "joe");
            assert!(
                Signed::read(token)
                    .unwrap()
                    .claims(&keys(&[other]))
                    .is_none()
            );
            for place in (0..token.len()).step_by(7) {
                let mut changed = token.as_bytes().to_vec();
                changed[place] ^= 1;
                let changed = String::from_utf8(changed).unwrap();
                let claims = Signed::read(&changed).and_then(|signed| signed.claims(&set));
                assert!(claims.is_none(), "{place}");
            }
        }
    }

    #[test]
    fn a_key_signs_only_as_it_says_and_what_is_not_known_is_left_out() {
        let token = Signed::read(P256_TOKEN).unwrap();
        let with = |more: &str| P256_KEY.replacen('{', &format!("{{{more},"), 1);
        for (more, fits) in [
            (r#""use":"sig","alg":"ES256""#, true),
            (r#""use":"enc""#, false),
            (r#""alg":"RS256""#, false),
        ] {
            assert_eq!(
                token.claims(&keys(&[&with(more)])).is_some(),
                fits,
                "{more}"
            );
        }
        // With several keys the token must name one.
        assert!(token.claims(&keys(&[P256_KEY, P256_KEY])).is_none());
        let odd = keys(&[
            r#"{"kty":"future"}"#,
            r#"{"kty":"oct","k":"AA"}"#,
            "7",
            P256_KEY,
        ]);
        assert!(token.claims(&odd).is_some());
        for wrong in ["", "[]", "{}", r#"{"keys":7}"#, &" ".repeat(MAX_BYTES + 1)] {
            assert!(KeySet::parse(wrong).is_err(), "{wrong:.9}");
        }
        let crit = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","crit":["exp"]}"#);
        for wrong in ["", ".", "..", "a.b", "a.b.c", &format!("{crit}.e30.AA")] {
            assert!(Signed::read(wrong).is_none(), "{wrong}");
        }
    }
}
