//! The nonces of signed requests that were taken, so that none is taken twice: they are kept in the store, for the next
//! process and for all servers over it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use ghostlight_actors::{
    contract::{Batch, Expected, StateWrite, StoreError, StoreHandle},
    vocabulary::Digest,
};
use ghostlight_anp::Signature;
use serde_json::value::to_raw_value;

use crate::problem::Problem;

/// The scope of the nonces in the store; agents have no scope of this name.
const SCOPE: &str = "server-nonces";
/// How many nonces one value of the store keeps at most. There are 256 values, by the first byte of the nonce's digest:
/// each is small, and requests seldom meet in one.
const MOST: usize = 500;
/// How often a commit is tried again after a conflict with another request.
const ATTEMPTS: usize = 100;
/// How much longer a nonce is kept than its signature holds, in seconds: the clocks of two servers differ.
const MARGIN_S: i64 = 60;

/// The digests of nonces, each with the time in seconds since 1970 until which it is kept.
type Kept = BTreeMap<String, i64>;

/// Takes the nonce of a verified signature. The request is refused where it was taken before.
pub(super) async fn take(
    store: &StoreHandle,
    signature: &Signature,
    now_s: i64,
) -> Result<(), Problem> {
    let named = format!("{}\n{}", signature.claimed(), signature.nonce());
    let digest = Digest::of(named.as_bytes()).to_string();
    let key = digest.chars().take(2).collect::<String>();
    for _ in 0..ATTEMPTS {
        let slot = store.state(SCOPE.to_owned(), key.clone()).await?;
        let kept = slot.value.map(serde_json::from_value::<Kept>).transpose();
        let mut kept = kept
            .map_err(|error| StoreError::Damaged {
                place: "the nonces of signed requests".to_owned(),
                reason: error.to_string(),
            })?
            .unwrap_or_default();
        kept.retain(|_, until| *until >= now_s);
        if kept.contains_key(&digest) {
            let detail = "the nonce was used already";
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                detail,
            ));
        }
        if kept.len() >= MOST {
            return Err(busy());
        }
        let until = signature.holds_until().saturating_add(MARGIN_S);
        kept.insert(digest.clone(), until);
        let value = to_raw_value(&kept).map_err(|error| StoreError::Unwritable {
            reason: error.to_string(),
        })?;
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: SCOPE.to_owned(),
            key: key.clone(),
            value: Some(value),
            expected: Expected::Version(slot.version),
        });
        match store.commit(vec![batch]).await?.pop() {
            Some(Err(StoreError::Conflict { .. })) => {}
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(_)) | None => return Ok(()),
        }
    }
    Err(busy())
}

fn busy() -> Problem {
    let detail = "too many signed requests at once: try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
}
