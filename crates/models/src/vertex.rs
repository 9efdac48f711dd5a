//! Models in Google Cloud's Vertex AI, by their addresses.

use super::{
    Secret,
    http::{Key, true_host},
};

/// Whether this is the address of a publisher's models there:
/// `https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/PUBLISHER`.
pub(super) fn is_at(base_url: &str, publisher: &str) -> bool {
    let path = base_url.trim().trim_end_matches('/');
    let of = path.strip_suffix(publisher);
    of.is_some_and(|path| path.ends_with("/publishers/"))
}

/// The key for such an address. What changes is a token; what does not is an API key. Google's own server gets the token of
/// this machine where none is given.
pub(super) fn key(base_url: &str, given: Option<&Secret>) -> Option<Key> {
    match given {
        Some(key) if key.as_changing().is_some() => Some(Key::Bearer(key.clone())),
        Some(key) => Some(Key::header("x-goog-api-key", key.clone())),
        None => own(base_url),
    }
}

#[cfg(feature = "vertex")]
fn own(base_url: &str) -> Option<Key> {
    let host = true_host(base_url);
    let is_googles =
        host == "aiplatform.googleapis.com" || host.ends_with("-aiplatform.googleapis.com");
    is_googles.then(|| Key::Bearer(Secret::changing(super::GoogleCloud::default())))
}

#[cfg(not(feature = "vertex"))]
fn own(base_url: &str) -> Option<Key> {
    if true_host(base_url).ends_with("aiplatform.googleapis.com") {
        tracing::warn!(
            "this program is built without `vertex`, so it has no token of Google Cloud: give `api_key` one"
        );
    }
    None
}
