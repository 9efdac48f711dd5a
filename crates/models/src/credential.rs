//! Keys that change while a program runs: short-lived tokens of clouds, and secrets that are rotated.

use std::{
    fmt,
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight_actors::{contract::BoxFuture, vocabulary::seconds};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::{process::Command, sync::Mutex, time::timeout};

use crate::files;

/// How long a key lasts where nobody says it.
const LASTS: Duration = Duration::from_secs(300);
/// How long before its end a key is fetched anew, at most; at least a fifth of its life is used.
const EARLY: Duration = Duration::from_secs(60);
/// How long a program may take to print a key.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a key.
const MAX_BYTES: usize = 64 << 10;

/// Where a key comes from that changes: a cloud's tokens, a vault. See [`Secret::changing`](super::Secret::changing).
///
/// ```
/// use std::time::Duration;
///
/// use ghostlight_models::{CredentialError, CredentialSource, FreshCredential, OpenAi, Secret};
///
/// struct Vault;
///
/// impl CredentialSource for Vault {
///     async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
///         let token = String::from("…"); // Asked of the vault.
///         Ok(FreshCredential::new(token).lasts(Duration::from_secs(3_600)))
///     }
/// }
///
/// let model = OpenAi::new("gpt-5").api_key(Secret::changing(Vault));
/// # let _ = model;
/// ```
pub trait CredentialSource: Send + Sync + 'static {
    /// The key as it is now. It is asked again shortly before the key ends, and when a server refuses the key; never by two
    /// at once.
    fn fetch(&self) -> impl Future<Output = Result<FreshCredential, CredentialError>> + Send;
}

/// A key, and how long it lasts.
#[derive(Clone)]
pub struct FreshCredential {
    key: SecretString,
    lasts: Duration,
}

impl FreshCredential {
    /// A key that is fetched anew after five minutes.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: SecretString::from(key.into()),
            lasts: LASTS,
        }
    }

    /// Sets how long it lasts from now on.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }
}

impl fmt::Debug for FreshCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshCredential")
            .field("lasts", &self.lasts)
            .finish_non_exhaustive()
    }
}

/// Why there is no key. The words hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialError(String);

ghostlight_actors::parts_of_system_error!(CredentialError);

impl CredentialError {
    /// With these words, which people see: what failed, and what to do.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// A key from a program or a file, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangingSpec {
    /// A program with its arguments, whose first line of output is the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    /// A file that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    /// How long a key lasts; five minutes when left out.
    #[serde(
        rename = "lasts_s",
        with = "seconds",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub(super) lasts: Option<Duration>,
}

impl ChangingSpec {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.command.first(), &self.file) {
            (Some(program), None) if !program.trim().is_empty() => {}
            (None, Some(file)) if !file.as_os_str().is_empty() => {}
            _ => return Err("a key that changes has a `command` or a `file`, and not both"),
        }
        match self.lasts {
            Some(Duration::ZERO) => Err("`lasts_s` must be above 0"),
            _ => Ok(()),
        }
    }

    async fn printed(&self) -> Result<String, CredentialError> {
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Err(CredentialError::new(
                "there is no command that prints a key",
            ));
        };
        let failed = |why: &dyn fmt::Display| {
            CredentialError::new(format!("the program {program} prints no key: {why}"))
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        // What it says may hold the key, so nobody is told.
        command.stderr(Stdio::null()).kill_on_drop(true);
        let ran = timeout(PATIENCE, command.output()).await;
        let ran = ran.map_err(|_| failed(&format_args!("it took more than {PATIENCE:?}")))?;
        let output = ran.map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    fn read(&self) -> Result<String, CredentialError> {
        let file = self.file.clone().unwrap_or_default();
        let failed = |why: &dyn fmt::Display| {
            CredentialError::new(format!(
                "the key in {} cannot be read: {why}",
                file.display()
            ))
        };
        let text = files::read_text(&file, MAX_BYTES as u64).map_err(|error| failed(&error))?;
        Ok(text.trim().to_owned())
    }
}

impl CredentialSource for ChangingSpec {
    async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
        let key = match self.command.is_empty() {
            true => self.read()?,
            false => self.printed().await?,
        };
        let fresh = FreshCredential::new(key);
        Ok(match self.lasts {
            Some(lasts) => fresh.lasts(lasts),
            None => fresh,
        })
    }
}

trait ErasedSource: Send + Sync {
    fn fetch(&self) -> BoxFuture<'_, Result<FreshCredential, CredentialError>>;
}

impl<S: CredentialSource> ErasedSource for S {
    fn fetch(&self) -> BoxFuture<'_, Result<FreshCredential, CredentialError>> {
        Box::pin(CredentialSource::fetch(self))
    }
}

/// A key that changes, with the one that is known. Clones share it.
#[derive(Clone)]
pub(crate) struct Changing(Arc<Shared>);

struct Shared {
    /// The source of it, where that is plain data.
    spec: Option<ChangingSpec>,
    source: Box<dyn ErasedSource>,
    known: Mutex<Option<Known>>,
}

struct Known {
    key: SecretString,
    /// When it is fetched anew, and when it is over.
    due: Instant,
    over: Instant,
}

impl Changing {
    pub(super) fn of(source: impl CredentialSource) -> Self {
        Self::with(None, source)
    }

    pub(super) fn of_spec(spec: ChangingSpec) -> Self {
        Self::with(Some(spec.clone()), spec)
    }

    fn with(spec: Option<ChangingSpec>, source: impl CredentialSource) -> Self {
        Self(Arc::new(Shared {
            spec,
            source: Box::new(source),
            known: Mutex::default(),
        }))
    }

    pub(super) fn spec(&self) -> Option<&ChangingSpec> {
        self.0.spec.as_ref()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self.spec(), other.spec()) {
            (Some(one), Some(two)) => one == two,
            _ => Arc::ptr_eq(&self.0, &other.0),
        }
    }

    /// The key as it is now. One that a server has refused is not given again.
    #[cfg_attr(
        not(any(feature = "anthropic", feature = "gemini", feature = "openai")),
        allow(dead_code)
    )]
    pub(super) async fn key(
        &self,
        refused: Option<&SecretString>,
    ) -> Result<SecretString, CredentialError> {
        // Whoever comes meanwhile waits, and takes what is fetched.
        let mut known = self.0.known.lock().await;
        let is_refused = |key: &SecretString| {
            refused.is_some_and(|refused| refused.expose_secret() == key.expose_secret())
        };
        let now = Instant::now();
        if let Some(known) = &*known
            && known.due > now
            && !is_refused(&known.key)
        {
            return Ok(known.key.clone());
        }
        match self.0.source.fetch().await {
            Ok(fresh) if fresh.key.expose_secret().is_empty() => Err(CredentialError::new(
                "the key is empty: see that its program prints it, or its file holds it",
            )),
            Ok(fresh) => {
                let early = EARLY.min(fresh.lasts / 5);
                *known = Some(Known {
                    key: fresh.key.clone(),
                    due: now + fresh.lasts.saturating_sub(early),
                    over: now + fresh.lasts,
                });
                Ok(fresh.key)
            }
            Err(error) => match &*known {
                Some(known) if known.over > now && !is_refused(&known.key) => {
                    tracing::warn!(%error, "a key cannot be fetched anew; the known one still lasts");
                    Ok(known.key.clone())
                }
                _ => Err(error),
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Gives `key1`, `key2` and so on, which last so long; fails at these.
    struct Counts(Arc<AtomicU32>, Duration, &'static [u32]);

    impl CredentialSource for Counts {
        async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
            let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
            match self.2.contains(&number) {
                true => Err(CredentialError::new("away")),
                false => Ok(FreshCredential::new(format!("key{number}")).lasts(self.1)),
            }
        }
    }

    async fn key(changing: &Changing) -> Result<String, CredentialError> {
        let key = changing.key(None).await?;
        Ok(key.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn a_key_is_fetched_once_for_all_and_again_when_it_is_refused() {
        let asked = Arc::new(AtomicU32::new(0));
        let changing = Changing::of(Counts(asked.clone(), Duration::from_secs(60), &[3]));
        let (one, two) = tokio::join!(key(&changing), key(&changing));
        assert_eq!((one.unwrap(), two.unwrap()), ("key1".into(), "key1".into()));
        let refused = SecretString::from("key1");
        let again = changing.key(Some(&refused)).await.unwrap();
        assert_eq!(again.expose_secret(), "key2");
        // Another one that was refused with the same key gets the new one.
        let again = changing.key(Some(&refused)).await.unwrap();
        assert_eq!(again.expose_secret(), "key2");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let refused = SecretString::from("key2");
        assert!(changing.key(Some(&refused)).await.is_err());
    }

    #[tokio::test]
    async fn a_key_is_fetched_before_its_end_and_lasts_where_that_fails() {
        let asked = Arc::new(AtomicU32::new(0));
        let changing = Changing::of(Counts(asked, Duration::from_millis(500), &[2]));
        assert_eq!(key(&changing).await.unwrap(), "key1");
        tokio::time::sleep(Duration::from_millis(420)).await;
        assert_eq!(key(&changing).await.unwrap(), "key1");
        assert_eq!(key(&changing).await.unwrap(), "key3");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_prints_a_key_and_no_failure_repeats_what_it_said() {
        let printing = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned).to_vec();
            Changing::of_spec(ChangingSpec {
                command,
                file: None,
                lasts: Some(Duration::from_secs(9)),
            })
        };
        assert_eq!(
            key(&printing("echo hunter2; echo more")).await.unwrap(),
            "hunter2"
        );
        for script in ["echo hunter2 >&2; exit 3", "true"] {
            let error = key(&printing(script)).await.unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
