//! The caller of a request, and what belongs to it.

use std::{fmt, str::FromStr, sync::Arc};

use ghostlight_actors::{
    actor::System,
    vocabulary::{SessionId, tenant_of},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quotas::Quota;

/// The longest subject and tenant, in bytes, in their escaped form as parts of a session's key.
const MAX_NAME: usize = 200;

/// The scopes of a key's holder.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// See its own sessions, runs and questions.
    Read,
    /// Say turns, answer, steer, cancel and fork, in its own sessions.
    Run,
    /// See the sessions, runs and questions of all subjects of its tenant, and change nothing. A credential with this
    /// scope changes nothing whatever its other scopes are.
    Tenant,
    /// Read the metrics.
    Metrics,
    /// See and change everything.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Run,
        Self::Tenant,
        Self::Metrics,
        Self::Admin,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Tenant => "tenant",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not a scope: read, run, tenant, metrics or admin"))
    }
}

/// The caller of a request, as its credentials show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The operator of the program: every caller of a server without keys, and the holder of an admin key.
    Operator,
    /// The reader of a tenant, who sees what belongs to all of its subjects and changes nothing.
    Reader {
        /// The tenant.
        tenant: String,
        /// The holder of the key or token.
        holder: Arc<Holder>,
    },
    /// The subject of a key or token.
    Subject(Arc<Holder>),
}

/// A subject with the rights of its key or token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The subject, after its tenant where it has one.
    pub(crate) subject: String,
    pub(crate) tenant: Option<String>,
    pub(crate) scopes: Vec<Scope>,
    /// The id of the key, and its own quotas.
    pub(crate) key: Option<(String, Vec<Quota>)>,
}

impl Holder {
    /// The subject after its tenant; the colon between them occurs in no name.
    pub(crate) fn qualified(tenant: Option<&str>, subject: &str) -> String {
        match tenant {
            Some(tenant) => format!("{tenant}:{subject}"),
            None => subject.to_owned(),
        }
    }
}

impl Caller {
    /// The caller with this credential: the operator, if the credential has the scope `admin`, and the reader of its
    /// tenant, if it has a tenant and the scope `tenant`.
    pub(crate) fn of(holder: Holder) -> Self {
        if holder.scopes.contains(&Scope::Admin) {
            return Self::Operator;
        }
        match &holder.tenant {
            Some(tenant) if holder.scopes.contains(&Scope::Tenant) => Self::Reader {
                tenant: tenant.clone(),
                holder: Arc::new(holder),
            },
            _ => Self::Subject(Arc::new(holder)),
        }
    }

    /// The holder of its credential; `None` for the operator.
    fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Operator => None,
            Self::Reader { holder, .. } | Self::Subject(holder) => Some(holder),
        }
    }

    /// The tenant of its subject.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.holder()?.tenant.as_deref()
    }

    /// Its scopes.
    pub(crate) fn scopes(&self) -> &[Scope] {
        self.holder().map_or(&Scope::ALL, |holder| &holder.scopes)
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        match self {
            Self::Operator => true,
            Self::Reader { holder, .. } => match scope {
                Scope::Read => true,
                Scope::Run => false,
                other => holder.scopes.contains(&other),
            },
            Self::Subject(holder) => holder.scopes.contains(&scope),
        }
    }

    /// Whether it may look at what belongs to this owner.
    pub(crate) fn reaches(&self, owner: Option<&str>) -> bool {
        match self {
            Self::Operator => true,
            Self::Reader { tenant, .. } => owner.and_then(tenant_of) == Some(tenant),
            Self::Subject(holder) => owner == Some(&holder.subject),
        }
    }

    /// The System with the rights of this caller.
    pub(crate) fn system(&self, system: &System) -> System {
        match self {
            Self::Operator => system.as_operator(),
            Self::Reader { tenant, .. } => system.reading_tenant(tenant.as_str()),
            Self::Subject(holder) => system.acting_for(holder.subject.as_str()),
        }
    }

    pub(crate) fn subject(&self) -> Option<&str> {
        self.holder().map(|holder| holder.subject.as_str())
    }

    /// The id of the caller's key, with the quotas of the key itself.
    pub(crate) fn key(&self) -> Option<(&str, &[Quota])> {
        let (id, quotas) = self.holder()?.key.as_ref()?;
        Some((id, quotas))
    }

    /// The session that the caller means by this key. Each subject has a space of keys of its own, so no other subject
    /// can name, take or guess them; the operator and the readers of tenants name sessions by their whole keys.
    pub(crate) fn session(&self, team: &str, key: &str) -> SessionId {
        let key = match self {
            Self::Operator | Self::Reader { .. } => key.to_owned(),
            Self::Subject(holder) => format!("{}/{key}", holder.subject),
        };
        let (team, key) = (team.into(), key.into());
        SessionId { team, key }
    }

    /// The key by which the caller means this session; `None` for one outside of a subject's space. Only
    /// [`reaches`](Self::reaches) tells whether another caller may look at the session.
    pub(crate) fn key_of<'s>(&self, session: &'s SessionId) -> Option<&'s str> {
        match self {
            Self::Operator | Self::Reader { .. } => Some(&session.key),
            Self::Subject(holder) => {
                let key = session.key.strip_prefix(&holder.subject)?;
                key.strip_prefix('/')
            }
        }
    }
}

/// A name as a part of a session's key: characters that could end the part or be mistaken are escaped as `%` and two
/// digits for each byte. `None` for an empty name and one that is too long.
pub(crate) fn written(name: &str) -> Option<String> {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    (1..=MAX_NAME).contains(&text.len()).then_some(text)
}

/// The fault in the name of a key's subject or tenant; `None` for a valid one.
pub(crate) fn fault_of_name(name: &str) -> Option<&'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(fits);
    (!fits).then_some("give 1 to 64 of A-Z a-z 0-9 . _ @ + -")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_subject_reaches_a_session_of_another() {
        let [ada, ad] = ["ada", "ad"].map(|name| {
            let subject = name.to_owned();
            Caller::Subject(Arc::new(Holder {
                subject,
                ..Holder::default()
            }))
        });
        let hers = ada.session("desk", "1");
        assert_eq!(ada.key_of(&hers), Some("1"));
        assert_eq!(ad.key_of(&hers), None);
        assert_ne!(ad.session("desk", "a/1"), hers);
        assert_eq!(Caller::Operator.key_of(&hers), Some("ada/1"));
    }

    #[test]
    fn the_scope_tenant_makes_a_reader_of_whoever_has_a_tenant() {
        let caller = |tenant: Option<&str>, scopes: &[Scope]| {
            Caller::of(Holder {
                subject: Holder::qualified(tenant, "ada"),
                tenant: tenant.map(str::to_owned),
                scopes: scopes.to_vec(),
                key: None,
            })
        };
        let reader = caller(Some("acme"), &[Scope::Read, Scope::Run, Scope::Tenant]);
        assert!(reader.may(Scope::Read) && !reader.may(Scope::Run));
        assert!(!reader.may(Scope::Metrics) && !reader.may(Scope::Admin));
        assert!(reader.reaches(Some("acme:bob")));
        for other in [None, Some("acme"), Some("other:bob"), Some("acme:x:bob")] {
            assert!(!reader.reaches(other), "{other:?}");
        }
        // Whoever has no tenant would otherwise be the reader of all owners without a tenant.
        let nobody = caller(None, &[Scope::Tenant]);
        assert!(!nobody.may(Scope::Read) && !nobody.reaches(Some("bob")));
    }

    #[test]
    fn names_that_differ_are_written_differently_and_end_nowhere() {
        assert_eq!(written("auth0|ada").unwrap(), "auth0%7cada");
        assert_eq!(written("a/b:c").unwrap(), "a%2fb%3ac");
        assert_ne!(written("a%2fb"), written("a/b"));
        assert_eq!(written("ada@example.org").unwrap(), "ada@example.org");
        assert!(written("").is_none() && written(&"x".repeat(201)).is_none());
    }
}
