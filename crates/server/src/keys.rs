//! API keys: a file of hashes, written by the command and read by the server.

use std::{
    fmt, fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    caller::{Caller, Holder, Scope, fault_of_name},
    quotas::Quota,
};

/// How long the file's content is trusted before it is read again: a revoked key is refused after this time at the
/// latest.
const FRESH: Duration = Duration::from_millis(500);
/// The largest file of keys that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// The prefix of every key, so that scanners for leaked secrets find it.
const PREFIX: &str = "glk_";

/// Why the keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiKeyError {
    /// The file cannot be read or written.
    #[error("the keys in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a file of keys.
    #[error("{path} is not a file of keys ({reason}); restore it, or delete it and give new keys")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A key with these properties cannot be made.
    #[error("{0}")]
    Invalid(String),
    /// There is no such key.
    #[error("there is no key {0}; `ghostlight key list` lists the keys")]
    Unknown(String),
}

ghostlight_actors::parts_of_system_error!(ApiKeyError);

/// A key as it is stored, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Key {
    /// Its id, which is a part of the key.
    pub id: String,
    /// The owner of the sessions that it begins, within its tenant.
    pub subject: String,
    /// The tenant of that subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The scopes of its holder.
    pub scopes: Vec<Scope>,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it ends, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// When it was revoked, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<u64>,
    /// The quotas of the key; the quotas of its subject apply, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Quota>,
    /// The HMAC-SHA-256 of the secret. A secret has 256 random bits, so that no slow hash is needed.
    hash: String,
}

impl Key {
    /// The name of its subject in the store: after its tenant, such as `acme:ada`, where it has one.
    pub fn owner(&self) -> String {
        Holder::qualified(self.tenant.as_deref(), &self.subject)
    }

    /// Whether it is accepted at this time.
    pub fn is_valid_at(&self, now_ms: u64) -> bool {
        self.revoked_at_ms.is_none() && self.expires_at_ms.is_none_or(|end| now_ms < end)
    }
}

/// The settings of a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySpec {
    /// The owner of the sessions that it begins: 1 to 64 of `A-Z a-z 0-9 . _ @ + -`.
    pub subject: String,
    /// The tenant of that subject, of the same characters. Subjects of two tenants are always different, even if their
    /// names are the same. It is the tenant that tokens of an [`Issuer`](crate::Issuer) name.
    pub tenant: Option<String>,
    /// The scopes of its holder.
    pub scopes: Vec<Scope>,
    /// How long it is accepted; for ever, when left out.
    pub life: Option<Duration>,
    /// The quotas of the key, beside those of its subject and its tenant.
    pub quotas: Vec<Quota>,
}

impl KeySpec {
    /// A key for this subject without a tenant, an end or quotas.
    pub fn new(subject: impl Into<String>, scopes: &[Scope]) -> Self {
        Self {
            subject: subject.into(),
            tenant: None,
            scopes: scopes.to_vec(),
            life: None,
            quotas: Vec::new(),
        }
    }

    /// Why no such key can be made.
    fn fault(&self) -> Option<String> {
        let names = [
            ("subject", Some(&self.subject)),
            ("tenant", self.tenant.as_ref()),
        ];
        for (what, name) in names {
            if let Some((name, fault)) = name.and_then(|name| Some((name, fault_of_name(name)?))) {
                return Some(format!("{name:?} is not a {what}: {fault}"));
            }
        }
        let is_admin = self.scopes.contains(&Scope::Admin);
        let reads_tenant = self.scopes.contains(&Scope::Tenant);
        let fault = match self.scopes.is_empty() {
            true => "a key without a scope opens nothing",
            false if is_admin && !self.quotas.is_empty() => {
                "a key with the scope admin has no quotas: leave one of the two out"
            }
            false if is_admin && self.tenant.is_some() => {
                "a key with the scope admin sees all tenants: leave one of the two out"
            }
            false if reads_tenant && self.tenant.is_none() => {
                "a key with the scope tenant sees all of one tenant: name the tenant"
            }
            false if reads_tenant && self.scopes.contains(&Scope::Run) => {
                "a key with the scope tenant changes nothing: leave the scope run out"
            }
            false if !self.scopes.contains(&Scope::Run) && !self.quotas.is_empty() => {
                "a key without the scope run begins nothing that a quota counts: leave the quotas out"
            }
            false => return None,
        };
        Some(fault.to_owned())
    }
}

/// A new key.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewKey {
    /// The part that is stored.
    pub key: Key,
    /// The key itself, which is stored nowhere.
    pub secret: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    keys: Vec<Key>,
}

/// A file of API keys. The keys are kept as hashes; the file may be changed while servers read it.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    read: Arc<Mutex<Option<Read>>>,
}

/// The file as it was last read.
#[derive(Debug)]
struct Read {
    at: Instant,
    stamp: Option<(SystemTime, u64)>,
    keys: Arc<Vec<Key>>,
}

impl KeyFile {
    /// The keys of this file, which need not exist yet: without it no key is accepted.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: Arc::default(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, with expired and revoked ones.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<Vec<Key>, ApiKeyError> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
            Ok(found) if found.len() > MAX_BYTES => {
                return Err(self.unreadable(format!("it has more than {MAX_BYTES} bytes")));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(&self.path).map_err(|error| self.failed(error))?;
        let document: Document =
            serde_json::from_str(&text).map_err(|error| self.unreadable(error.to_string()))?;
        Ok(document.keys)
    }

    /// Makes a key for a subject without a tenant or quotas.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn add(
        &self,
        subject: &str,
        scopes: &[Scope],
        life: Option<Duration>,
    ) -> Result<NewKey, ApiKeyError> {
        let mut spec = KeySpec::new(subject, scopes);
        spec.life = life;
        self.make(&spec)
    }

    /// Makes a key.
    ///
    /// # Errors
    /// [`ApiKeyError::Invalid`] for a name with other characters, for no scopes, for a key with the scope `admin` that has
    /// a tenant or quotas, since it has no bounds, for one with the scope `tenant` that has no tenant or the scope
    /// `run`, and for one with quotas that lacks the scope `run`; and when the file cannot be written.
    pub fn make(&self, spec: &KeySpec) -> Result<NewKey, ApiKeyError> {
        if let Some(fault) = spec.fault() {
            return Err(ApiKeyError::Invalid(fault));
        }
        let (mut id, mut secret) = ([0; 6], [0; 32]);
        let random = SystemRandom::new();
        for bytes in [&mut id[..], &mut secret[..]] {
            let drawn = random.fill(bytes);
            drawn.map_err(|_| self.failed(io::Error::other("the system gives no random bits")))?;
        }
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let secret = URL_SAFE_NO_PAD.encode(secret);
        let now = now_ms();
        let mut scopes = spec.scopes.clone();
        scopes.sort_unstable();
        scopes.dedup();
        let key = Key {
            subject: spec.subject.clone(),
            tenant: spec.tenant.clone(),
            scopes,
            created_at_ms: now,
            expires_at_ms: spec
                .life
                .map(|life| now.saturating_add(life.as_millis() as u64)),
            revoked_at_ms: None,
            quotas: spec.quotas.clone(),
            hash: URL_SAFE_NO_PAD.encode(hmac::sign(&hashing(), secret.as_bytes())),
            id: id.clone(),
        };
        self.change(|keys| {
            keys.push(key.clone());
            Ok(())
        })?;
        let secret = format!("{PREFIX}{id}_{secret}");
        Ok(NewKey { key, secret })
    }

    /// Revokes a key by its id. A second revocation changes nothing.
    ///
    /// # Errors
    /// [`ApiKeyError::Unknown`], and when the file cannot be written.
    pub fn revoke(&self, id: &str) -> Result<Key, ApiKeyError> {
        let mut revoked = None;
        self.change(|keys| {
            let key = keys.iter_mut().find(|key| key.id == id);
            let key = key.ok_or_else(|| ApiKeyError::Unknown(id.to_owned()))?;
            key.revoked_at_ms.get_or_insert_with(now_ms);
            revoked = Some(key.clone());
            Ok(())
        })?;
        revoked.ok_or_else(|| ApiKeyError::Unknown(id.to_owned()))
    }

    /// Replaces the file as a whole: a reader sees it as it was or as it is, never in between.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Key>) -> Result<(), ApiKeyError>,
    ) -> Result<(), ApiKeyError> {
        let failed = |error| self.failed(error);
        // Of two commands at once, neither may lose the other's change.
        let lock = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.beside("lock"))
            .map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut keys = self.list()?;
        change(&mut keys)?;
        let text = serde_json::to_string_pretty(&Document { keys });
        let text = text.map_err(|error| failed(io::Error::other(error)))?;
        let new = self.beside("new");
        let _ = fs::remove_file(&new);
        let mut options = fs::File::options();
        options.create_new(true).write(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let mut file = options.open(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&new, &self.path).map_err(failed)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// The caller with this key; `None` for a key that is not accepted.
    pub(crate) async fn caller(&self, text: &str) -> Result<Option<Caller>, ApiKeyError> {
        let parts = text
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('_'));
        let Some((id, secret)) = parts else {
            return Ok(None);
        };
        let mut found = None;
        // An unknown key may have been made a moment ago.
        for fresh in [FRESH, Duration::ZERO] {
            let keys = self.read_within(fresh).await?;
            found = keys.iter().find(|key| key.id == id).cloned();
            if found.is_some() {
                break;
            }
        }
        let Some(key) = found else {
            return Ok(None);
        };
        let Ok(hash) = URL_SAFE_NO_PAD.decode(&key.hash) else {
            return Ok(None);
        };
        // The comparison takes constant time.
        let fits = hmac::verify(&hashing(), secret.as_bytes(), &hash).is_ok();
        if !fits || !key.is_valid_at(now_ms()) {
            return Ok(None);
        }
        Ok(Some(Caller::of(Holder {
            subject: key.owner(),
            tenant: key.tenant,
            scopes: key.scopes,
            key: Some((key.id, key.quotas)),
        })))
    }

    /// The keys, read within this time.
    async fn read_within(&self, fresh: Duration) -> Result<Arc<Vec<Key>>, ApiKeyError> {
        let mut read = self.read.lock().await;
        if let Some(read) = read.as_ref().filter(|read| read.at.elapsed() < fresh) {
            return Ok(read.keys.clone());
        }
        let file = self.clone();
        let known = read.as_ref().map(|read| (read.stamp, read.keys.clone()));
        let looked = tokio::task::spawn_blocking(move || {
            let stamp = fs::metadata(&file.path).ok();
            let stamp = stamp.and_then(|found| Some((found.modified().ok()?, found.len())));
            match known {
                Some((was, keys)) if was == stamp => Ok((stamp, keys)),
                _ => Ok((stamp, Arc::new(file.list()?))),
            }
        });
        let looked = looked
            .await
            .unwrap_or_else(|error| Err(self.failed(io::Error::other(error))));
        let (stamp, keys) = looked?;
        let at = Instant::now();
        *read = Some(Read {
            at,
            stamp,
            keys: keys.clone(),
        });
        Ok(keys)
    }

    fn failed(&self, source: io::Error) -> ApiKeyError {
        let path = self.path.clone();
        ApiKeyError::File { path, source }
    }

    fn unreadable(&self, reason: String) -> ApiKeyError {
        let path = self.path.clone();
        ApiKeyError::Unreadable { path, reason }
    }
}

/// The key of the hash. It is not secret; it makes the hashes differ from those of other programs.
fn hashing() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"ghostlight api key v1")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
