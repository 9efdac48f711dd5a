//! Callers that sign their requests with an identity of `did:wba`.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt, io,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderMap, HeaderName, StatusCode},
};
use ghostlight_anp::{Did, DidDocument, Signature, SignatureError, SignedRequest};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::nonces;
use crate::{
    body,
    caller::{Caller, Holder, Scope, written},
    problem::Problem,
    server::State,
};

/// How long a document is taken as it was read, and how long one whose keys do not fit: a key may have been changed.
const FRESH: Duration = Duration::from_secs(5 * 60);
const AGAIN: Duration = Duration::from_secs(10);
/// How many identities of a host, which are not known here, are asked for within a minute: anybody can name any number.
const MAX_UNKNOWN: u32 = 120;
const MINUTE: Duration = Duration::from_secs(60);
/// How many documents are kept.
const MAX_DOCUMENTS: usize = 1_000;
/// The longest time in which a document must come.
const FETCH: Duration = Duration::from_secs(10);

const SIGNATURE: HeaderName = HeaderName::from_static("signature");
const INPUT: HeaderName = HeaderName::from_static("signature-input");
const DIGEST: HeaderName = HeaderName::from_static("content-digest");

type Fetched = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;
type Fetch = Arc<dyn Fn(String) -> Fetched + Send + Sync>;

/// Callers with identities of the method `did:wba` (Agent Network Protocol), who sign each request (RFC 9421) with a key
/// of their DID document.
///
/// Only identities of the hosts that are [let in](Self::host) are looked at, and only their documents are fetched. A
/// signature must cover the method, the address and the body; it holds for five minutes, and once, over restarts and for all
/// servers over one store. At most 120 identities of a host that are not known yet are asked for within a minute. A caller is
/// the subject of its DID: its sessions are its own. Keys of Ed25519 and P-256 are verified; secp256k1 is not.
#[derive(Clone)]
pub struct Identities {
    fetch: Fetch,
    hosts: BTreeMap<String, Vec<Scope>>,
    known: Arc<Known>,
}

/// A document with the time at which it was read; `None` for one that could not be read.
type Read = (Instant, Option<Arc<DidDocument>>);

#[derive(Default)]
struct Known {
    documents: Mutex<HashMap<Did, Read>>,
    /// The unknown identities of each host that were asked for since a time.
    unknown: Mutex<HashMap<String, (Instant, u32)>>,
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Identities {
    /// Identities whose documents this function fetches, given their address: `https://HOST/…/did.json`. It follows no
    /// redirects.
    pub fn new<F>(fetch: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<String>> + Send + 'static,
    {
        Self {
            fetch: Arc::new(move |address| Box::pin(fetch(address))),
            hosts: BTreeMap::new(),
            known: Arc::default(),
        }
    }

    /// Lets in the identities of this host, such as `example.org`, with these scopes. A port other than that of HTTPS
    /// belongs to it, as in `example.org:8443`.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>, scopes: &[Scope]) -> Self {
        self.hosts.insert(host.into(), scopes.to_vec());
        self
    }

    /// Whether a request has a signature.
    pub(crate) fn sees(headers: &HeaderMap) -> bool {
        headers.contains_key(SIGNATURE) || headers.contains_key(INPUT)
    }

    /// The caller that signed this request.
    pub(crate) async fn caller(
        &self,
        state: &State,
        request: &mut Request,
    ) -> Result<Caller, Problem> {
        let Some(base) = &state.address else {
            let detail =
                "the server does not know its own address, which is signed: its operator sets it";
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "address", detail));
        };
        let text = |headers: &HeaderMap, name: &HeaderName| {
            let mut all = headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (Some(one), None) => one.to_str().map(str::to_owned).ok(),
                _ => None,
            }
        };
        let headers = request.headers();
        let (Some(input), Some(signature)) = (text(headers, &INPUT), text(headers, &SIGNATURE))
        else {
            return Err(refused(&"give one `Signature-Input` and one `Signature`"));
        };
        let digest = text(headers, &DIGEST);
        let signature = Signature::read(&input, &signature).map_err(|error| refused(&error))?;
        let Some(scopes) = self.hosts.get(signature.claimed().authority()) else {
            return Err(refused(&"identities of this host are not let in"));
        };
        let base = base.trim_end_matches('/');
        let place = request
            .uri()
            .path_and_query()
            .map_or("/", |place| place.as_str());
        let signed = SignedRequest {
            method: request.method().as_str(),
            target: &format!("{base}{place}"),
            authority: base
                .split_once("://")
                .map_or(base, |(_, rest)| rest.split('/').next().unwrap_or(rest)),
            content_digest: digest.as_deref(),
            has_body: !request.body().is_end_stream(),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(i64::MAX, |now| {
            i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
        });
        let document = self.document(signature.claimed(), FRESH).await?;
        let mut verified = signature.verify(&signed, &document, now);
        if matches!(
            verified,
            Err(SignatureError::Document(_) | SignatureError::Forged)
        ) {
            let document = self.document(signature.claimed(), AGAIN).await?;
            verified = signature.verify(&signed, &document, now);
        }
        let head = verified.map_err(|error| refused(&error))?;
        // Only now, so that a stranger's body is not kept.
        let body = body::taken(request, &state.limits).await?;
        let did = head.with_body(&body).map_err(|error| refused(&error))?;
        nonces::take(state.system.store(), &signature, now).await?;
        *request.body_mut() = Body::from(body);
        let subject = written(&did.to_string());
        let subject =
            subject.ok_or_else(|| refused(&"the identity is too long for a subject here"))?;
        Ok(Caller::of(Holder {
            subject,
            scopes: scopes.clone(),
            ..Holder::default()
        }))
    }

    /// The document of an identity, read within this time.
    async fn document(&self, did: &Did, fresh: Duration) -> Result<Arc<DidDocument>, Problem> {
        let known = self.known.documents.lock().get(did).cloned();
        match &known {
            Some((at, Some(document))) if at.elapsed() < fresh => return Ok(document.clone()),
            Some((at, None)) if at.elapsed() < AGAIN => return Err(unread()),
            Some((_, Some(_))) => {}
            _ => self.count_unknown(did.authority())?,
        }
        let read = self.read(did).await;
        if let Err(error) = &read {
            tracing::warn!(%error, %did, "a DID document cannot be read");
        }
        let document = read.ok();
        let mut documents = self.known.documents.lock();
        // A forger may have had it read again: it stays as long as it would have.
        let stays = |(at, known): &Read| known.is_some() && at.elapsed() < FRESH;
        if document.is_none() && documents.get(did).is_some_and(stays) {
            return Err(unread());
        }
        for longest in [FRESH, AGAIN] {
            if documents.len() >= MAX_DOCUMENTS {
                documents.retain(|_, (at, known)| {
                    at.elapsed() < known.as_ref().map_or(AGAIN, |_| longest)
                });
            }
        }
        if documents.len() < MAX_DOCUMENTS {
            documents.insert(did.clone(), (Instant::now(), document.clone()));
        }
        document.ok_or_else(unread)
    }

    async fn read(&self, did: &Did) -> Result<Arc<DidDocument>, Box<dyn Error + Send + Sync>> {
        let fetched = tokio::time::timeout(FETCH, (self.fetch)(did.document_address())).await??;
        Ok(Arc::new(DidDocument::read(&fetched, did)?))
    }

    /// Counts an unknown identity of a host.
    fn count_unknown(&self, host: &str) -> Result<(), Problem> {
        let mut unknown = self.known.unknown.lock();
        let (since, count) = unknown
            .entry(host.to_owned())
            .or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= MINUTE {
            (*since, *count) = (Instant::now(), 0);
        }
        if *count >= MAX_UNKNOWN {
            let detail =
                "too many unknown identities of this host were asked for: try again in a minute";
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Problem::new(status, "too-many-at-once", detail));
        }
        *count += 1;
        Ok(())
    }
}

fn unread() -> Problem {
    refused(&"the DID document cannot be read; the server's log says why")
}

fn refused(why: &dyn fmt::Display) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", why.to_string())
}
