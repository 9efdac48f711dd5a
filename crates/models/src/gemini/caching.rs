//! Prefixes of requests that the provider keeps for a while: instructions and tools, made once for all runs of a process.
//!
//! <https://ai.google.dev/api/caching>

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::vocabulary::{Digest, ModelRequest};
use http::{Method, header::CONTENT_TYPE};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::settings::GeminiSpec;
use crate::http::{Attempt, Endpoint, Failure, Phase, Scrub, read_json};

/// The fields of a request that a prefix holds. A request that names a prefix has none of them.
const FIELDS: [&str; 3] = ["systemInstruction", "toolConfig", "tools"];
/// The field of a request that names a prefix.
const NAMED: &str = "cachedContent";
/// A shorter prefix has less than the 1,024 tokens that the provider asks for at least.
const LEAST_BYTES: usize = 1_024;
/// How many prefixes of a process are kept at once.
const MOST: usize = 256;
/// The longest time that a call waits for a prefix to be made or extended.
const WAITING: Duration = Duration::from_secs(30);
/// The largest answer about a prefix.
const MAX_ABOUT: u64 = 1024 * 1024;
/// A prefix is not named within this time of its end.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a prefix is not made again that was refused, and one not made or extended where that failed otherwise.
const REFUSED: Duration = Duration::from_secs(3_600);
const FAILED: Duration = Duration::from_secs(60);

/// The prefixes of the process, by server, key, model and content.
static PREFIXES: LazyLock<Mutex<HashMap<Digest, Arc<Prefix>>>> = LazyLock::new(Mutex::default);

/// A prefix. Whoever makes or extends it holds the lock, so that others wait and do not make another one.
#[derive(Default)]
struct Prefix(tokio::sync::Mutex<State>);

/// How a prefix stands at the provider.
#[derive(Default)]
enum State {
    /// It was not made.
    #[default]
    Absent,
    /// The provider keeps it until then. A request that names it after the second time has it kept for longer.
    Kept {
        kept: Kept,
        until: Instant,
        extend_after: Instant,
    },
    /// It is not made before then.
    Refused(Instant),
}

/// A prefix as it was made at the provider once.
#[derive(Clone)]
struct Kept {
    name: String,
    /// Whether the provider has answered a request with it.
    has_served: Arc<AtomicBool>,
}

/// The address of prefixes, and their times.
struct Place<'a> {
    endpoint: &'a Endpoint,
    settings: &'a GeminiSpec,
    request: &'a ModelRequest,
}

/// A prefix that a request names.
pub(super) struct Named {
    prefix: Arc<Prefix>,
    kept: Kept,
    /// The fields that the request does not have.
    fields: Map<String, Value>,
    /// The tokens that were written for it.
    pub(super) written: u64,
}

/// Lets a request name its prefix, where the provider keeps it. A request whose prefix cannot be kept stays as it is.
pub(super) async fn shorten(
    endpoint: &Endpoint,
    settings: &GeminiSpec,
    request: &ModelRequest,
    body: &mut Value,
) -> Option<Named> {
    let body = body.as_object_mut()?;
    if body.contains_key(NAMED) {
        return None;
    }
    let fields = FIELDS.into_iter().filter_map(|name| {
        let value = body.get(name)?;
        Some((name.to_owned(), value.clone()))
    });
    let fields: Map<String, Value> = fields.collect();
    let text = Value::Object(fields.clone()).to_string();
    if text.len() < LEAST_BYTES {
        return None;
    }
    let place = Place {
        endpoint,
        settings,
        request,
    };
    let prefix = Prefix::of(place.key(&text))?;
    let (kept, written) = prefix.name(&place, &fields).await?;
    FIELDS.into_iter().for_each(|name| drop(body.remove(name)));
    body.insert(NAMED.to_owned(), kept.name.clone().into());
    Some(Named {
        prefix,
        kept,
        fields,
        written,
    })
}

impl Named {
    /// Notes that the provider has answered with the prefix.
    pub(super) fn served(&self) {
        self.kept.has_served.store(true, Ordering::Relaxed);
    }

    /// Makes a request whole again that was refused with its prefix, which is not named any more.
    pub(super) async fn undo(self, body: &mut Value) {
        let Some(body) = body.as_object_mut() else {
            return;
        };
        body.remove(NAMED);
        body.extend(self.fields);
        let mut state = self.prefix.0.lock().await;
        // Another call may have made it anew.
        if let State::Kept { kept, .. } = &*state
            && kept.name == self.kept.name
        {
            *state = match self.kept.has_served.load(Ordering::Relaxed) {
                true => State::Absent,
                false => State::Refused(Instant::now() + REFUSED),
            };
        }
    }
}

/// Whether a request was refused because of its prefix, which may be gone.
pub(super) fn may_be_gone(failure: &Failure) -> bool {
    match failure {
        Failure::Rejected {
            status: 400,
            report,
            ..
        } => report.says(&["cachedcontent", "cached content", "cached_content"]),
        Failure::Rejected { status, .. } => [403, 404].contains(status),
        _ => false,
    }
}

impl Prefix {
    /// The prefix of this key; `None` where too many are kept.
    fn of(key: Digest) -> Option<Arc<Self>> {
        let mut prefixes = PREFIXES.lock();
        if let Some(known) = prefixes.get(&key) {
            return Some(known.clone());
        }
        if prefixes.len() >= MOST {
            let now = Instant::now();
            prefixes.retain(|_, prefix| Arc::strong_count(prefix) > 1 || prefix.is_of_use(now));
        }
        (prefixes.len() < MOST).then(|| prefixes.entry(key).or_default().clone())
    }

    fn is_of_use(&self, now: Instant) -> bool {
        match self.0.try_lock().as_deref() {
            Ok(State::Absent) => false,
            Ok(State::Kept { until, .. } | State::Refused(until)) => *until > now,
            Err(_) => true,
        }
    }

    /// The prefix at the provider, and the tokens that were written to make it now.
    async fn name(&self, place: &Place<'_>, fields: &Map<String, Value>) -> Option<(Kept, u64)> {
        let mut state = self.0.lock().await;
        let now = Instant::now();
        match &mut *state {
            State::Refused(until) if *until > now => return None,
            State::Kept {
                kept,
                until,
                extend_after,
            } if *until > now + MARGIN => {
                if *extend_after > now {
                    return Some((kept.clone(), 0));
                }
                match place.extend(&kept.name).await {
                    Ok(()) => {
                        *until = now + place.ttl();
                        *extend_after = now + place.ttl() / 2;
                    }
                    Err(failure) if may_be_gone(&failure) => *until = now,
                    Err(failure) => {
                        // Those who wait meanwhile do not wait for another attempt.
                        *extend_after = Instant::now() + FAILED;
                        place.warn("is not kept for longer", failure);
                    }
                }
                if *until > Instant::now() + MARGIN {
                    return Some((kept.clone(), 0));
                }
            }
            _ => {}
        }
        let now = Instant::now();
        let pause = match place.make(fields).await {
            Ok((name, written)) => {
                let kept = Kept {
                    name,
                    has_served: Arc::default(),
                };
                *state = State::Kept {
                    kept: kept.clone(),
                    until: now + place.ttl(),
                    extend_after: now + place.ttl() / 2,
                };
                return Some((kept, written));
            }
            Err(failure) => {
                let pause = match &failure {
                    Failure::Rejected {
                        status: 400 | 403..=405,
                        ..
                    } => REFUSED,
                    _ => FAILED,
                };
                place.warn("is not kept by the provider", failure);
                pause
            }
        };
        *state = State::Refused(Instant::now() + pause);
        None
    }
}

impl Place<'_> {
    fn ttl(&self) -> Duration {
        self.settings.cache_ttl.max(Duration::from_secs(60))
    }

    /// A key of the prefix with this text, from which nobody can tell the key of the server.
    fn key(&self, text: &str) -> Digest {
        let model = &self.settings.model;
        let mut parts = vec![
            self.endpoint.base.as_bytes(),
            model.as_bytes(),
            text.as_bytes(),
        ];
        for (name, value) in &self.endpoint.headers {
            parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
        }
        Digest::of_parts(&parts)
    }

    /// The address below which names stand, that of all prefixes, and the model as a prefix names it.
    fn addresses(&self) -> (&str, String, String) {
        let (base, model) = (self.endpoint.base.as_str(), &self.settings.model);
        // In Vertex AI names begin with the project.
        let vertex = base
            .strip_suffix("/publishers/google")
            .and_then(|place| Some((place, place.find("/projects/")?)));
        match vertex {
            Some((place, at)) => (
                &base[..at],
                format!("{place}/cachedContents"),
                format!("{}/models/{model}", &base[at + 1..]),
            ),
            None => (
                base,
                format!("{base}/cachedContents"),
                format!("models/{model}"),
            ),
        }
    }

    /// Has the provider keep a prefix. Returns its name, and the tokens that were written.
    async fn make(&self, fields: &Map<String, Value>) -> Result<(String, u64), Failure> {
        let (_, all, model) = self.addresses();
        let mut body = fields.clone();
        body.insert("model".to_owned(), model.into());
        body.insert("ttl".to_owned(), self.ttl_text());
        let made = self.ask(Method::POST, all, &Value::Object(body)).await?;
        let tokens = made["usageMetadata"]["totalTokenCount"].as_u64();
        match made["name"].as_str().filter(|name| is_plain(name)) {
            Some(name) => Ok((name.to_owned(), tokens.unwrap_or_default())),
            None => Err(Failure::Malformed("it names no cached content".to_owned())),
        }
    }

    /// Has the provider keep a prefix for the whole time again.
    async fn extend(&self, name: &str) -> Result<(), Failure> {
        let (root, ..) = self.addresses();
        let url = format!("{root}/{name}?updateMask=ttl");
        let body = json!({"ttl": self.ttl_text()});
        self.ask(Method::PATCH, url, &body).await.map(drop)
    }

    fn ttl_text(&self) -> Value {
        format!("{}s", self.ttl().as_secs()).into()
    }

    async fn ask(&self, method: Method, url: String, body: &Value) -> Result<Value, Failure> {
        let Self {
            endpoint, settings, ..
        } = self;
        let request = endpoint.http.request(method, url);
        let request = request
            .headers(endpoint.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let attempt = Attempt::new(endpoint.http.clone(), &settings.timeouts, MAX_ABOUT);
        let asked = async {
            let request = request.build().map_err(|_| Failure::Request)?;
            let mut body = attempt.at(endpoint).send(request).await?;
            read_json(&body.read_all().await?)
        };
        timeout(WAITING, asked)
            .await
            .unwrap_or(Err(Failure::Timeout(Phase::Total)))
    }

    /// Nothing of it fails the call.
    fn warn(&self, what: &str, failure: Failure) {
        let (endpoint, model) = (self.endpoint, &self.settings.model);
        let scrub = Scrub::new(self.request);
        let error = failure.into_error(&endpoint.host, endpoint.kind, &scrub);
        tracing::warn!(model, %error, "the prefix of a request {what}");
    }
}

/// Whether a name of the server fits into a path.
fn is_plain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte);
    !name.is_empty() && name.len() <= 512 && name.bytes().all(fits) && !name.contains("//")
}
