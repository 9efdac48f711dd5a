//! Callers of an identity provider: tokens (JWT, RFC 7519) that are signed with one of its published keys (JWKS, RFC
//! 7517).

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
    caller::{Caller, Holder, Scope, written},
    problem::Problem,
};

/// How long published keys are trusted before they are read again.
const FRESH: Duration = Duration::from_secs(15 * 60);
/// The shortest time between two reads, however many tokens name unknown keys.
const PAUSE: Duration = Duration::from_secs(10);
/// How long keys are trusted while reading them again fails.
const STALE: Duration = Duration::from_secs(24 * 3_600);
/// The most bytes of a token.
const MAX_TOKEN: usize = 16 << 10;
/// How far the clocks of the provider and of this machine may differ, in seconds.
const LEEWAY_S: f64 = 60.0;
/// The prefix of scopes in the claim `scope`.
const PREFIX: &str = "ghostlight:";

type Fetched = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;
type Fetch = Arc<dyn Fn() -> Fetched + Send + Sync>;

/// An identity provider whose tokens are accepted: its name, their audience, and the rights of their holders.
///
/// A token must be signed with RS256, ES256 or EdDSA by a key of the provider's that is for this algorithm; name this
/// issuer and this audience; have a subject; and not have expired (a minute of leeway is allowed). Its holder has the
/// scopes in the claim `scope` (`ghostlight:read`, `ghostlight:run`, …) and those of the [roles](Self::role) in the
/// claim `roles`; without either claim it has none. The keys are read again after 15 minutes, and when a token names an
/// unknown key.
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

/// The keys as they were last read.
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
    /// Tokens of this issuer (the claim `iss`) for this audience (`aud`). The function fetches the JSON of the issuer's
    /// keys, usually over HTTPS.
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

    /// The same, with the keys in a file.
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

    /// Sets the scopes of a role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>, scopes: &[Scope]) -> Self {
        self.roles
            .insert(role.into(), scopes.iter().copied().collect());
        self
    }

    /// Sets the claim that names a subject's tenant; `tenant_id`, when left out. Subjects of two tenants are always
    /// different, even if their names are the same.
    #[must_use]
    pub fn tenant_claim(mut self, claim: impl Into<String>) -> Self {
        self.tenant = claim.into();
        self
    }

    /// The caller with this token; `None` for a token that is not accepted.
    pub(crate) async fn caller(&self, token: &str) -> Result<Option<Caller>, Problem> {
        if token.len() > MAX_TOKEN {
            return Ok(None);
        }
        let Some(signed) = Signed::read(token) else {
            return Ok(None);
        };
        // The keys of this issuer are not needed, and may not be there, for the tokens of another.
        if signed.issuer().as_ref() != Some(&self.name) {
            return Ok(None);
        }
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

    /// Checks the issuer, the audience and the times of a signed token.
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
        // The time in seconds since 1970; some providers add a fraction.
        let seconds = |name| {
            claims
                .get(name)
                .map(|time| time.as_f64().ok_or("a time is not a number"))
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

    /// The published keys, including the key that the token names; `None` where that key is unknown.
    async fn keys_for(&self, signed: &Signed<'_>) -> Result<Option<Arc<KeySet>>, Problem> {
        // An unknown key may have been published a moment ago.
        for fresh in [FRESH, Duration::ZERO] {
            let keys = self.read_within(fresh).await?;
            if keys.has(signed) {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }

    /// Keys that were read within this time; older ones, where an attempt to read them was made a moment ago. A caller
    /// whose keys are fresh does not wait for a fetch.
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
    /// The keys, unless they were read longer ago than this.
    fn within(&self, most: Duration) -> Option<Arc<KeySet>> {
        let (at, keys) = self.keys.as_ref()?;
        (at.elapsed() < most).then(|| keys.clone())
    }
}

fn unavailable() -> Problem {
    let detail = "the keys of the identity provider cannot be read; the server's log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "identity-provider", detail)
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
        // An unknown key makes the keys be read again, but not each time that it is named.
        assert_eq!(has("new").await, Some(false));
        tokio::time::advance(PAUSE).await;
        assert_eq!(has("new").await, Some(true));
        // A withdrawn key is refused after a while.
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
}
