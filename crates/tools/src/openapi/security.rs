//! The authentication that a document asks for.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::{AUTHORIZATION, HeaderName};
use secrecy::SecretString;
use serde_json::Value;

use super::{
    OpenApiError,
    document::{Document, text_of},
    request::{Draft, encoded},
};
use crate::web::UNSENT;

/// The place of a credential in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scheme {
    Header(HeaderName),
    Query(String),
    Cookie(String),
    /// `user:password` in the header `authorization`.
    Basic,
    /// A token in the header `authorization`: bearer, OAuth 2 and OpenID Connect.
    Bearer,
}

/// A credential with its scheme.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    scheme: Scheme,
    /// The secret, or the reference by which it is looked up.
    pub(super) secret: SecretString,
}

/// The document's schemes for which there are credentials.
pub(super) type Credentials = BTreeMap<String, Credential>;

/// Finds the scheme of each credential.
pub(super) fn credentials(
    document: &Document,
    given: &BTreeMap<String, SecretString>,
) -> Result<Credentials, OpenApiError> {
    let schemes = document.root().pointer("/components/securitySchemes");
    let schemes = schemes.and_then(Value::as_object);
    let found = given.iter().map(|(name, secret)| {
        let described = schemes.and_then(|schemes| schemes.get(name));
        let scheme = described
            .and_then(|scheme| document.at(scheme))
            .and_then(scheme_of);
        let scheme = scheme.ok_or_else(|| OpenApiError::Scheme {
            name: name.clone(),
            known: schemes.map_or_else(String::new, |schemes| {
                let names: Vec<&str> = schemes.keys().take(20).map(String::as_str).collect();
                names.join(", ")
            }),
        })?;
        let secret = secret.clone();
        Ok((name.clone(), Credential { scheme, secret }))
    });
    found.collect()
}

fn scheme_of(scheme: &Value) -> Option<Scheme> {
    match text_of(scheme, "type")? {
        "apiKey" => {
            let name = text_of(scheme, "name")?.to_owned();
            match text_of(scheme, "in")? {
                "header" => {
                    let name = HeaderName::try_from(name).ok()?;
                    (!UNSENT.contains(&name.as_str())).then_some(Scheme::Header(name))
                }
                "query" => Some(Scheme::Query(name)),
                "cookie" => Some(Scheme::Cookie(name)),
                _ => None,
            }
        }
        "http" if text_of(scheme, "scheme")?.eq_ignore_ascii_case("basic") => Some(Scheme::Basic),
        "http" if text_of(scheme, "scheme")?.eq_ignore_ascii_case("bearer") => Some(Scheme::Bearer),
        "oauth2" | "openIdConnect" => Some(Scheme::Bearer),
        _ => None,
    }
}

/// The authentication that an operation demands.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// The schemes of the first alternative whose credentials are all there.
    satisfied: Vec<String>,
    /// The document's schemes, if no alternative has all of its credentials.
    pub(super) missing: Option<String>,
}

impl Demand {
    /// Reads `security` of an operation, or else of the document: a list of alternatives, each with the schemes that
    /// must all be satisfied.
    pub(super) fn of(security: Option<&Value>, known: &Credentials) -> Self {
        let alternatives = security.and_then(Value::as_array);
        let alternatives: Vec<Vec<&String>> = alternatives
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .map(|schemes| schemes.keys().collect())
            .take(32)
            .collect();
        let is_met = |schemes: &&Vec<&String>| {
            !schemes.is_empty() && schemes.iter().all(|name| known.contains_key(*name))
        };
        if let Some(met) = alternatives.iter().find(is_met) {
            let satisfied = met.iter().map(|name| (*name).clone()).collect();
            return Self {
                satisfied,
                missing: None,
            };
        }
        let is_open = alternatives.is_empty() || alternatives.iter().any(Vec::is_empty);
        let names: Vec<&str> = alternatives
            .iter()
            .flatten()
            .map(|name| name.as_str())
            .take(8)
            .collect();
        Self {
            satisfied: Vec::new(),
            missing: (!is_open).then(|| ghostlight_safety::sanitize_line(&names.join(", "), 200)),
        }
    }

    /// The credentials of the satisfied alternative.
    pub(super) fn credentials<'k>(
        &'k self,
        known: &'k Credentials,
    ) -> impl Iterator<Item = &'k Credential> {
        self.satisfied.iter().filter_map(|name| known.get(name))
    }
}

impl Credential {
    /// Puts the secret into a request.
    pub(super) fn sign(&self, draft: &mut Draft, secret: &str) -> Result<(), String> {
        match &self.scheme {
            Scheme::Header(name) => draft.secret_header(name.clone(), secret)?,
            Scheme::Query(name) => draft.query.push((encoded(name), encoded(secret))),
            Scheme::Cookie(name) => draft.cookies.push((encoded(name), encoded(secret))),
            Scheme::Basic => {
                let basic = format!("Basic {}", BASE64_STANDARD.encode(secret));
                draft.secret_header(AUTHORIZATION, &basic)?;
            }
            Scheme::Bearer => draft.secret_header(AUTHORIZATION, &format!("Bearer {secret}"))?,
        }
        Ok(())
    }
}
