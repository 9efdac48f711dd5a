//! Identifiers of the method `did:wba`.

use std::{fmt, str::FromStr};

/// The longest identifier, in bytes.
const MAX_BYTES: usize = 512;
const METHOD: &str = "did:wba:";

/// An identity of an agent or person: `did:wba:example.org:agents:desk`. Whoever controls the host controls the identity.
///
/// An address of digits is not a host of a DID: it belongs to whoever has it at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Did {
    text: String,
    /// The host, with its port where there is one.
    authority: String,
    path: Vec<String>,
}

/// A text that is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a DID of the method wba: {fault}")]
pub struct DidError {
    text: String,
    fault: &'static str,
}

impl Did {
    /// The host, without a port.
    pub fn host(&self) -> &str {
        let host = self.authority.split_once(':');
        host.map_or(&self.authority, |(host, _)| host)
    }

    /// The host, with its port where it names one: `example.org:8443`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The address of its document: `https://HOST/PATH/did.json`, or `/.well-known/did.json` without a path.
    pub fn document_address(&self) -> String {
        let folder = match self.path.as_slice() {
            [] => ".well-known".to_owned(),
            path => path.join("/"),
        };
        format!("https://{}/{folder}/did.json", self.authority)
    }

    /// The last part of its path, which binds it to a key where it begins with `e1_` or `k1_`.
    pub(crate) fn last(&self) -> Option<&str> {
        self.path.last().map(String::as_str)
    }
}

impl FromStr for Did {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        let wrong = |fault| DidError {
            text: text.chars().take(80).collect(),
            fault,
        };
        if text.len() > MAX_BYTES {
            return Err(wrong("it is longer than 512 bytes"));
        }
        let rest = text.strip_prefix(METHOD);
        let rest = rest.ok_or_else(|| wrong("it begins with did:wba:"))?;
        let mut parts = rest.split(':');
        let first = parts.next().unwrap_or_default();
        // The colon before a port is escaped; nothing else may be.
        let (host, port) = match first.split_once("%3A").or(first.split_once("%3a")) {
            Some((host, port)) => (host, Some(port)),
            None => (first, None),
        };
        let is_label = |label: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=63).contains(&label.len()) && label.chars().all(fits)
        };
        if host.len() > 253 || !host.split('.').all(is_label) {
            return Err(wrong("its host is not a name in small letters"));
        }
        let last = host.rsplit('.').next().unwrap_or_default();
        if last
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit())
        {
            return Err(wrong("its host is an address of digits"));
        }
        let authority = match port.map(str::parse::<u16>) {
            None => host.to_owned(),
            Some(Ok(port)) if port > 0 => format!("{host}:{port}"),
            Some(_) => return Err(wrong("its port is not a number")),
        };
        let path: Vec<String> = parts.map(str::to_owned).collect();
        let is_part = |part: &String| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !part.is_empty() && part.chars().all(fits) && !part.chars().all(|c| c == '.')
        };
        if !path.iter().all(is_part) {
            return Err(wrong("a part of its path is not of A-Z a-z 0-9 . _ -"));
        }
        Ok(Self {
            text: text.to_owned(),
            authority,
            path,
        })
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_did_says_where_its_document_is() {
        for (text, address) in [
            (
                "did:wba:example.org",
                "https://example.org/.well-known/did.json",
            ),
            (
                "did:wba:example.org:agents:desk",
                "https://example.org/agents/desk/did.json",
            ),
            (
                "did:wba:localhost%3A8443:a",
                "https://localhost:8443/a/did.json",
            ),
        ] {
            let did: Did = text.parse().unwrap();
            assert_eq!(did.document_address(), address);
            assert_eq!(did.to_string(), text);
            assert!(address.contains(did.authority()) && did.authority().starts_with(did.host()));
            assert!(!did.host().contains(':'));
        }
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_did() {
        let long = format!("did:wba:{}", "a".repeat(600));
        for text in [
            "",
            "did:web:example.org",
            "did:wba:",
            "did:wba:example.org:",
            "did:wba:example.org::a",
            "did:wba:example.org:..",
            "did:wba:example.org:.",
            "did:wba:example.org:a/b",
            "did:wba:example.org:%2e%2e",
            "did:wba:example.org/x",
            "did:wba:example.org?x",
            "did:wba:example.org#k",
            "did:wba:user@example.org",
            "did:wba:127.0.0.1",
            "did:wba:127.1",
            "did:wba:0x7f000001.1",
            "did:wba:[::1]",
            "did:wba:example.org%3A0",
            "did:wba:example.org%3A99999",
            "did:wba:example.org%3A80%3A80",
            "did:wba:example.org%2F",
            "did:wba:EXAMPLE.org",
            "did:wba:exa mple.org",
            "did:wba:ex\u{e4}mple.org",
            &long,
        ] {
            assert!(text.parse::<Did>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_leads_to_its_own_host(text in "did:wba:[a-zA-Z0-9.%:/@#?_-]{0,40}|\\PC{0,60}") {
            if let Ok(did) = text.parse::<Did>() {
                let address = did.document_address();
                let rest = address.strip_prefix("https://").unwrap();
                let (authority, path) = rest.split_once('/').unwrap();
                let port = authority.strip_prefix(did.host()).unwrap();
                prop_assert!(port.is_empty() || port.starts_with(':'));
                prop_assert!(!path.contains("..") || path.split('/').all(|part| part != ".."));
            }
        }
    }
}
