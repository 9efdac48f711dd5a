//! The addresses of resources, percent-encoded by RFC 3986.

use ghostlight_safety::{percent_decoded, percent_encoded as encoded};

/// The prefix of the addresses of sessions and artifacts.
const SESSIONS: &str = "ghostlight://sessions/";
const ARTIFACTS: &str = "ghostlight://artifacts/";

/// The templates of these addresses (RFC 6570).
pub(super) const SESSION_TEMPLATE: &str = "ghostlight://sessions/{team}/{session}";
pub(super) const ARTIFACT_TEMPLATE: &str = "ghostlight://artifacts/{team}/{session}/{name}";

/// The target of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A session of a team.
    Session { team: String, key: String },
    /// The latest version of an artifact of a session.
    Artifact {
        team: String,
        key: String,
        name: String,
    },
}

impl Address {
    pub(super) fn session(team: &str, key: &str) -> String {
        format!("{SESSIONS}{}/{}", encoded(team), encoded(key))
    }

    pub(super) fn artifact(team: &str, key: &str, name: &str) -> String {
        let (team, key, name) = (encoded(team), encoded(key), encoded(name));
        format!("{ARTIFACTS}{team}/{key}/{name}")
    }

    pub(super) fn read(address: &str) -> Option<Self> {
        if let Some(path) = address.strip_prefix(SESSIONS) {
            let (team, key) = path.split_once('/')?;
            let (team, key) = (decoded(team)?, decoded(key)?);
            return Some(Self::Session { team, key });
        }
        let mut parts = address.strip_prefix(ARTIFACTS)?.splitn(3, '/');
        let mut next = || parts.next().and_then(decoded);
        let (team, key, name) = (next()?, next()?, next()?);
        Some(Self::Artifact { team, key, name })
    }
}

/// The text that a percent-encoded one stands for, if it is one.
pub(super) fn decoded(text: &str) -> Option<String> {
    let is_code = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_encoded = text.split('%').skip(1).all(is_code);
    let decoded = is_encoded.then(|| percent_decoded(text).into_owned());
    String::from_utf8(decoded?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_says_what_it_leads_to(team in ".+", key in ".+", name in ".+") {
            let address = Address::session(&team, &key);
            prop_assert!(address.is_ascii());
            let session = Address::Session { team: team.clone(), key: key.clone() };
            prop_assert_eq!(Address::read(&address), Some(session));
            let address = Address::artifact(&team, &key, &name);
            prop_assert!(address.is_ascii());
            prop_assert_eq!(Address::read(&address), Some(Address::Artifact { team, key, name }));
        }

        #[test]
        fn no_address_ends_the_program(text in ".*") {
            let _ = Address::read(&text);
            let _ = Address::read(&format!("{ARTIFACTS}{text}"));
        }
    }
}
