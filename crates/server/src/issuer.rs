//! Callers whom an identity provider vouches for: tokens (JWT, RFC 7519) that it signed with one of its published keys
//! (JWKS, RFC 7517).

mod signed;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::http::StatusCode;
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use self::signed::{KeySet, Signed};
use crate::{
    caller::{Caller, Holder, Scope},
    problem::Problem,
};

/// How long published keys are trusted before they are read again.
const FRESH: Duration = Duration::from_secs(15 * 60);
/// The shortest time between two reads, however many unknown keys are named.
const PAUSE: Duration = Duration::from_secs(10);
/// How long keys are trusted while they cannot be read again.
const STALE: Duration = Duration::from_secs(24 * 3_600);
/// The most bytes of a token.
const MAX_TOKEN: usize = 16 << 10;
/// How far the clocks of the provider and of this machine may differ, in seconds.
const LEEWAY_S: f64 = 60.0;
/// What the names of scopes begin with in the claim `scope`.
const PREFIX: &str = "ghostlight:";
/// The longest subject and tenant, in bytes, once written so that they are a part of a session's key.
const MAX_NAME: usize = 200;

type Fetched = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;
type Fetch = Arc<dyn Fn() -> Fetched + Send + Sync>;

/// An identity provider whose tokens are believed: who signs them, for whom they are, and what their holders may do.
///
/// A token must be signed with RS256, ES256 or EdDSA by a key of the provider's, as that key says; name this issuer and
/// this audience; have a subject; and not be over, up to a minute. What its holder may do is what the claim `scope` says
/// (`ghostlight:read`, `ghostlight:run`, …) and what the [roles](Self::role) in its claim `roles` stand for: nothing,
/// where it says nothing. The keys are read again after 15 minutes, and when a token names one that is unknown.
#[derive(Clone)]
pub struct Issuer {
    name: String,
    audience: String,
    fetch: Fetch,
    roles: BTreeMap<String, BTreeSet<Scope>>,
    tenant: String,
    read: Arc<parking_lot::Mutex<Read>>,
    fetching: Arc<Mutex<()>>,
}

/// The keys, as far as they were read.
#[derive(Default)]
struct Read {
    keys: Option<(Instant, Arc<KeySet>)>,
    tried: Option<Instant>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("name", &self.name)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl Issuer {
    /// Tokens of this issuer (the claim `iss`) for this audience (`aud`), with the JSON of its keys as this function gets
    /// it, over HTTPS as a rule.
    pub fn new<F>(
        name: impl Into<String>,
        audience: impl Into<String>,
        keys: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<String>> + Send + 'static,
    {
        Self {
            name: name.into(),
            audience: audience.into(),
            fetch: Arc::new(move || Box::pin(keys())),
            roles: BTreeMap::new(),
            tenant: "tenant_id".to_owned(),
            read: Arc::default(),
            fetching: Arc::default(),
        }
    }

    /// The same, with keys in a file.
    pub fn with_file(
        name: impl Into<String>,
        audience: impl Into<String>,
        keys: impl Into<PathBuf>,
    ) -> Self {
        let path = keys.into();
        Self::new(name, audience, move || {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
            async move {
                read.await
                    .unwrap_or_else(|error| Err(io::Error::other(error)))
            }
        })
    }

    /// Sets what the holders of a role may do.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>, scopes: &[Scope]) -> Self {
        self.roles
            .insert(role.into(), scopes.iter().copied().collect());
        self
    }

    /// Sets the claim that says of which tenant a subject is; `tenant_id`, when left out. Subjects of two tenants are never
    /// the same, whatever they are called.
    #[must_use]
    pub fn tenant_claim(mut self, claim: impl Into<String>) -> Self {
        self.tenant = claim.into();
        self
    }

    /// Whose token this is now; `None` for one that opens nothing.
    pub(crate) async fn caller(&self, token: &str) -> Result<Option<Caller>, Problem> {
        if token.len() > MAX_TOKEN {
            return Ok(None);
        }
        let Some(signed) = Signed::read(token) else {
            return Ok(None);
        };
        let Some(keys) = self.keys_for(&signed).await? else {
            return Ok(None);
        };
        let Some(claims) = signed.claims(&keys) else {
            return Ok(None);
        };
        if let Err(fault) = self.judge(&claims) {
            tracing::debug!(fault, issuer = self.name, "a token is refused");
            return Ok(None);
        }
        Ok(self.holder(&claims))
    }

    fn holder(&self, claims: &Map<String, Value>) -> Option<Caller> {
        let subject = written(claims.get("sub")?.as_str()?)?;
        let tenant = match claims.get(&self.tenant) {
            None | Some(Value::Null) => None,
            Some(tenant) => Some(written(tenant.as_str()?)?),
        };
        let words = claims.get("scope").and_then(Value::as_str);
        let words = words.unwrap_or_default().split_whitespace();
        let mut scopes: BTreeSet<Scope> = words
            .filter_map(|word| word.strip_prefix(PREFIX)?.parse().ok())
            .collect();
        let roles = ["roles", "role"].map(|name| claims.get(name));
        for role in roles.into_iter().flatten() {
            let several = role.as_array().map(Vec::as_slice);
            let named = several.unwrap_or(std::slice::from_ref(role)).iter();
            for role in named.filter_map(Value::as_str) {
                scopes.extend(self.roles.get(role).into_iter().flatten());
            }
        }
        Some(Caller::of(Holder {
            subject: Holder::qualified(tenant.as_deref(), &subject),
            tenant,
            scopes: scopes.into_iter().collect(),
            key: None,
        }))
    }

    /// Checks for whom a signed token is, and when.
    fn judge(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.name) {
            return Err("it is of another issuer");
        }
        let audience = claims.get("aud").unwrap_or(&Value::Null);
        let several = audience.as_array().map(Vec::as_slice);
        let several = several.unwrap_or(std::slice::from_ref(audience));
        if !several
            .iter()
            .any(|one| one.as_str() == Some(&self.audience))
        {
            return Err("it is for another audience");
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(f64::INFINITY, |now| now.as_secs_f64());
        // Seconds since 1970, with a fraction where a provider likes.
        let seconds = |name| {
            claims
                .get(name)
                .map(|time| time.as_f64().ok_or("a time is no number"))
        };
        match seconds("exp").transpose()? {
            Some(exp) if now < exp + LEEWAY_S => {}
            Some(_) => return Err("it is over"),
            None => return Err("it never ends"),
        }
        match seconds("nbf").transpose()? {
            Some(nbf) if now < nbf - LEEWAY_S => Err("it is not valid yet"),
            _ => Ok(()),
        }
    }

    /// The keys, with that by which a token says that it was signed; `None` where there is no such key.
    async fn keys_for(&self, signed: &Signed<'_>) -> Result<Option<Arc<KeySet>>, Problem> {
        // A key that is not known may have been published a moment ago.
        for fresh in [FRESH, Duration::ZERO] {
            let keys = self.read_within(fresh).await?;
            if keys.has(signed) {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }

    /// The keys, as they were so long ago at the earliest; older, where they were tried to be read a moment ago. Whoever
    /// has what it needs waits for no other.
    async fn read_within(&self, fresh: Duration) -> Result<Arc<KeySet>, Problem> {
        if let Some(keys) = self.read.lock().within(fresh) {
            return Ok(keys);
        }
        let _fetching = self.fetching.lock().await;
        {
            let mut read = self.read.lock();
            let tried = read.tried.is_some_and(|tried| tried.elapsed() < PAUSE);
            if let Some(keys) = read.within(if tried { STALE } else { fresh }) {
                return Ok(keys);
            }
            if tried {
                return Err(unavailable());
            }
            read.tried = Some(Instant::now());
        }
        let fetched = (self.fetch)().await.and_then(|text| KeySet::parse(&text));
        let mut read = self.read.lock();
        match fetched {
            Ok(keys) => read.keys = Some((Instant::now(), Arc::new(keys))),
            Err(error) => {
                tracing::warn!(%error, issuer = self.name, "keys of an identity provider cannot be read");
            }
        }
        read.within(STALE).ok_or_else(unavailable)
    }
}

impl Read {
    /// The keys, unless they are older.
    fn within(&self, most: Duration) -> Option<Arc<KeySet>> {
        let (at, keys) = self.keys.as_ref()?;
        (at.elapsed() < most).then(|| keys.clone())
    }
}

fn unavailable() -> Problem {
    let detail = "the keys of the identity provider cannot be read; the server's log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "identity-provider", detail)
}

/// A name as a part of a session's key: what could end it or look like another is written as `%` and two digits for
/// each byte. `None` for an empty one and one that is too long.
fn written(name: &str) -> Option<String> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn published(kids: &[&str]) -> String {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let keys = kids
            .iter()
            .map(|kid| serde_json::json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x }));
        serde_json::json!({ "keys": keys.collect::<Vec<_>>() }).to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_changed_while_it_runs_and_outlive_a_provider_that_is_down() {
        let document = Arc::new(parking_lot::Mutex::new(Some(published(&["old"]))));
        let shown = document.clone();
        let issuer = Issuer::new("i", "a", move || {
            let text = shown.lock().clone().ok_or_else(|| io::Error::other("down"));
            async move { text }
        });
        let has = async |kid: &str| {
            let signed = Signed::of_key(kid);
            let found = issuer.keys_for(&signed).await;
            found.map(|found| found.is_some()).ok()
        };
        assert_eq!(has("old").await, Some(true));
        *document.lock() = Some(published(&["old", "new"]));
        // A key that is named is looked for, but not at every naming.
        assert_eq!(has("new").await, Some(false));
        tokio::time::advance(PAUSE).await;
        assert_eq!(has("new").await, Some(true));
        // A key that is withdrawn opens nothing after a while.
        *document.lock() = Some(published(&["new"]));
        assert_eq!(has("old").await, Some(true));
        tokio::time::advance(FRESH).await;
        assert_eq!(has("old").await, Some(false));
        *document.lock() = None;
        tokio::time::advance(FRESH).await;
        assert_eq!(has("new").await, Some(true));
        tokio::time::advance(STALE).await;
        assert_eq!(has("new").await, None);
        *document.lock() = Some("{}".to_owned());
        tokio::time::advance(PAUSE).await;
        assert_eq!(has("new").await, None);
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
