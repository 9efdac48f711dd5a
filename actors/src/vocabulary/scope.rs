//! The scopes of state and artifacts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::IdError;

/// The scope of a value or an artifact. It is a type of its own and not a part of the key, so no key can reach into
/// another scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// The working memory of a tree: one for a root run and all runs below it. It lives as long as the root run is
    /// kept.
    Run,
    /// One for all turns of a session. In a delegated run it is the working memory of the tree.
    Session,
    /// One for each user, over all sessions that this owner has with the team.
    User(String),
    /// One for the team, over all users.
    App,
    /// One for each run, until the run ends. No store keeps it; after a crash it is rebuilt from the run's own
    /// journal. Child runs have their own.
    Temp,
}

/// The form in journals: `run`, `session`, `user:` with the owner, `app`, `temp`. A slash or a percent sign in the
/// owner is escaped as in a URL, since journals append a slash and the key.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("run"),
            Self::Session => f.write_str("session"),
            Self::App => f.write_str("app"),
            Self::Temp => f.write_str("temp"),
            Self::User(owner) => {
                let owner = owner.replace('%', "%25").replace('/', "%2F");
                write!(f, "user:{owner}")
            }
        }
    }
}

impl FromStr for Scope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "run" => Ok(Self::Run),
            "session" => Ok(Self::Session),
            "app" => Ok(Self::App),
            "temp" => Ok(Self::Temp),
            _ => match text.strip_prefix("user:") {
                Some(owner) => Ok(Self::User(owner.replace("%2F", "/").replace("%25", "%"))),
                None => Err(IdError::new(
                    "a scope: run, session, user:OWNER, app or temp",
                    text,
                )),
            },
        }
    }
}

/// The prefixes of the keys that the engine keeps for itself in a scope: topics, and remembered decisions about calls.
const OF_ENGINE: [&str; 2] = ["topic:", "approval:"];

/// The prefix of the keys of memories, which are written by operations of their own.
const OF_MEMORIES: &str = "memory:";

/// Whether a key belongs to the engine, so that nothing else may write it.
pub(crate) fn is_key_of_engine(key: &str) -> bool {
    OF_ENGINE.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a key belongs to the engine or to a memory, so that tools and functions may not write it as state.
pub(crate) fn is_reserved_key(key: &str) -> bool {
    is_key_of_engine(key) || key.starts_with(OF_MEMORIES)
}

/// The error text for a write to such a key.
pub(crate) fn key_of_engine(key: &str) -> String {
    let prefixes = OF_ENGINE.join("`, `");
    format!(
        "the key {key:?} is the engine's own: nothing else may write keys that begin with \
         `{prefixes}` or `{OF_MEMORIES}`; take another"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Scope;

    #[test]
    fn a_scope_reads_as_it_was_written_and_no_owner_looks_like_a_key() {
        let user = |owner: &str| Scope::User(owner.to_owned());
        let scopes = [
            Scope::Run,
            Scope::Session,
            Scope::App,
            Scope::Temp,
            user("ada"),
            user("a/b"),
            user("a%2Fb"),
            user("50%"),
            user(""),
        ];
        for scope in scopes {
            let text = scope.to_string();
            assert!(!text.contains('/'), "{text}");
            assert_eq!(text.parse::<Scope>().unwrap(), scope, "{text}");
        }
        "session:x".parse::<Scope>().unwrap_err();
    }
}
