//! The scopes of state and artifacts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::IdError;

/// The scope of a value or an artifact. It is a type and never a part of a key, so no key can reach
/// into another scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// This run's and all runs below the same root: the working memory of the tree. It lives as
    /// long as the root run is kept.
    Run,
    /// The session's, over all its turns; to a delegated run it is its tree's working memory.
    Session,
    /// The user's, over all sessions that this owner has with the team.
    User(String),
    /// The team's, over all users.
    App,
    /// This run's alone, and gone when it ends: no store keeps it, and after a crash it is read from
    /// the run's own journal. Runs below have their own.
    Temp,
}

/// As journals write it: `run`, `session`, `user:` with the owner, `app`, `temp`. A slash or a percent sign
/// of an owner is written as in a URL, since journals put a slash and the key behind it.
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

/// The prefixes of keys under which the engine keeps something of its own in a scope: topics, and
/// remembered decisions about calls.
const OF_ENGINE: [&str; 2] = ["topic:", "approval:"];

/// And those of memories, which write them by operations of their own.
const OF_MEMORIES: &str = "memory:";

/// Whether a key is the engine's own: nothing else may write it.
pub(crate) fn is_key_of_engine(key: &str) -> bool {
    OF_ENGINE.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether neither tools nor functions write a key as state: it is the engine's own, or a memory's.
pub(crate) fn is_reserved_key(key: &str) -> bool {
    is_key_of_engine(key) || key.starts_with(OF_MEMORIES)
}

/// Why such a key is not written.
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
