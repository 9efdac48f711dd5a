//! Checks of settings: one that could have no effect is refused before the server starts.

use ghostlight_actors::definition::{DefinitionError, TeamSpec};

use crate::{quotas::QuotaFor, served::ServedSpec};

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerOptionsError {
    /// No caller could ever use the quota.
    #[error(
        "a quota of each {} bounds nobody here, since no caller has {}: ask for keys or tokens, or give a quota of the team",
        .0.as_str(),
        if *.0 == QuotaFor::Tenant { "a tenant" } else { "a subject" }
    )]
    Quota(QuotaFor),
    /// No request could ever name the host.
    #[error(
        "{0:?} is not a name that a request has as its host: give the name alone, such as agents.example.org"
    )]
    Host(String),
    /// No browser could ever send the origin.
    #[error(
        "{0:?} is not an origin as browsers send it: give the scheme and the host in small letters, with the port where it is \
         not the usual one, and nothing behind it, such as https://example.org"
    )]
    Origin(String),
    /// No client could ever reach the server at the address.
    #[error("{0:?} is not an address of a server: give one such as https://agents.example.org")]
    Address(String),
    /// A section of a team cannot be served.
    #[error("team {team:?}: {error}")]
    Team {
        /// The team.
        team: String,
        /// The fault.
        error: DefinitionError,
    },
}

ghostlight_actors::parts_of_system_error!(ServerOptionsError);

/// The kinds of callers that a server lets in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callers {
    /// Whether a caller may have a subject.
    pub have_subjects: bool,
    /// Whether a caller may have a tenant.
    pub have_tenants: bool,
}

impl Callers {
    /// The callers of a server with the keys or tokens, the signed requests, and the teams that it has.
    pub fn new(has_keys: bool, has_identities: bool, teams: &[TeamSpec]) -> Self {
        // Webhooks and messengers speak for subjects without a key.
        let speaks = |team: &TeamSpec| {
            let served = ServedSpec::of(team).unwrap_or_default();
            let mut webhooks = served.webhooks.iter();
            !served.messengers.is_empty() || webhooks.any(|webhook| webhook.owner.is_some())
        };
        Self {
            have_subjects: has_keys || has_identities || teams.iter().any(speaks),
            have_tenants: has_keys,
        }
    }

    /// Checks that a quota bounds any of them.
    ///
    /// # Errors
    /// [`ServerOptionsError::Quota`] where it bounds nobody.
    pub fn check_quota(self, whose: QuotaFor) -> Result<(), ServerOptionsError> {
        let bounds = match whose {
            QuotaFor::Team | QuotaFor::Session => true,
            QuotaFor::Subject | QuotaFor::SubjectAndTeam => self.have_subjects,
            QuotaFor::Tenant => self.have_tenants,
        };
        bounds.then_some(()).ok_or(ServerOptionsError::Quota(whose))
    }
}

impl ServerOptionsError {
    /// Checks a name under which a server is to answer.
    ///
    /// # Errors
    /// [`ServerOptionsError::Host`] for a text with a scheme, a port or a path.
    pub fn check_host(name: &str) -> Result<(), Self> {
        let bracketed = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let is_host = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_name(name),
        };
        is_host
            .then_some(())
            .ok_or_else(|| Self::Host(name.to_owned()))
    }

    /// Checks an origin whose pages are to be let in.
    ///
    /// # Errors
    /// [`ServerOptionsError::Origin`] for a text that browsers never send.
    pub fn check_origin(origin: &str) -> Result<(), Self> {
        let is_origin = parts(origin).is_some_and(|(scheme, host, port)| {
            let usual = if scheme == "https" { 443 } else { 80 };
            Self::check_host(host).is_ok()
                && port != Some(usual)
                && !origin.bytes().any(|byte| byte.is_ascii_uppercase())
        });
        is_origin
            .then_some(())
            .ok_or_else(|| Self::Origin(origin.to_owned()))
    }

    /// Checks the address at which clients reach a server.
    ///
    /// # Errors
    /// [`ServerOptionsError::Address`] for a text that is not an address of HTTP.
    pub fn check_address(address: &str) -> Result<(), Self> {
        let authority = address.find("://").map_or(0, |at| at + 3);
        let end = address[authority..].find('/').map(|at| authority + at);
        let reaches = parts(&address[..end.unwrap_or(address.len())])
            .is_some_and(|(_, host, _)| Self::check_host(host).is_ok())
            && !address.contains(['?', '#', ' ']);
        reaches
            .then_some(())
            .ok_or_else(|| Self::Address(address.to_owned()))
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}

/// The scheme, the host and the port of an origin.
fn parts(origin: &str) -> Option<(&str, &str, Option<u16>)> {
    let (scheme, rest) = origin.split_once("://")?;
    matches!(scheme, "http" | "https").then_some(())?;
    // An IPv6 address stands in brackets, so no other colon is the port's.
    match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            Some((scheme, host, Some(port.parse().ok()?)))
        }
        _ => Some((scheme, rest, None)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::definition::AgentSpec;

    use super::*;
    use crate::served::{Messenger, Webhook};

    #[test]
    fn a_quota_of_subjects_or_tenants_needs_callers_that_have_them() {
        let all = [
            QuotaFor::Team,
            QuotaFor::Subject,
            QuotaFor::SubjectAndTeam,
            QuotaFor::Tenant,
        ];
        let bounded = |callers: Callers| all.map(|whose| callers.check_quota(whose).is_ok());
        let plain = TeamSpec::new(AgentSpec::new("desk"));
        let mut owned = plain.clone();
        let webhook = Webhook::new("w", "${S}").owner("ada");
        owned.webhooks.push(webhook.into());
        let mut heard = plain.clone();
        heard
            .messengers
            .push(Messenger::new("m", "https://a", "${S}").into());
        let open = Callers::new(false, false, &[plain]);
        assert_eq!(bounded(open), [true, false, false, false]);
        for subjects in [
            Callers::new(false, true, &[]),
            Callers::new(false, false, &[owned]),
            Callers::new(false, false, &[heard]),
        ] {
            assert_eq!(bounded(subjects), [true, true, true, false]);
        }
        assert_eq!(bounded(Callers::new(true, false, &[])), [true; 4]);
    }

    #[test]
    fn a_host_an_origin_and_an_address_have_the_form_in_which_they_come() {
        for fine in ["agents.example.org", "localhost", "127.0.0.1", "[::1]"] {
            ServerOptionsError::check_host(fine).unwrap();
        }
        for wrong in ["", "a:80", "https://a", "a/b", "::1", "*", "a b"] {
            ServerOptionsError::check_host(wrong).unwrap_err();
        }
        for fine in ["https://a.example", "http://a:8080", "http://[::1]:3000"] {
            ServerOptionsError::check_origin(fine).unwrap();
        }
        for wrong in [
            "a.example",
            "https://a.example/",
            "https://A.example",
            "https://a:443",
            "http://a:80",
            "null",
            "*",
            "https://",
            "ftp://a",
        ] {
            ServerOptionsError::check_origin(wrong).unwrap_err();
        }
        for fine in ["https://a.example", "https://a.example/x", "http://a:1/x/"] {
            ServerOptionsError::check_address(fine).unwrap();
        }
        for wrong in ["a.example", "https://", "https://a?b", "//a", "https:/a"] {
            ServerOptionsError::check_address(wrong).unwrap_err();
        }
    }
}
