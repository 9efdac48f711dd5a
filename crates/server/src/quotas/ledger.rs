//! The buckets in the store. Turns that arrive together are decided together, in one commit.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use ghostlight_actors::contract::{Batch, Expected, StateWrite, StoreError, StoreHandle};
use serde_json::value::to_raw_value;
use tokio::sync::{Mutex, oneshot};

use super::{
    bucket::{Bucket, Use},
    quota::Quota,
};
use crate::problem::Problem;

/// The scope of the buckets in the store; agents have no scope of this name.
const SCOPE: &str = "server-quotas";
/// How often a commit is tried again after a conflict with another process.
const ATTEMPTS: usize = 100;
/// How many turns are decided in one commit at most.
const TOGETHER: usize = 256;

/// The buckets of a turn, by their names.
pub(super) type Buckets = BTreeMap<String, Quota>;

/// A change to the buckets of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The turn begins and reserves this much: all of its buckets pay, or none.
    Take(Use),
    /// Its run has ended, and used this much.
    Settle(Use),
    /// The turn was not said.
    GiveBack,
}

/// The standing of the quota that matters most to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    quota: Quota,
    left: u64,
    full_in_s: u64,
    /// In how many seconds to retry, where the turn was refused.
    retry_s: Option<u64>,
}

/// The place where an endpoint leaves the standing of its turn's quotas, for the headers of the response.
pub(crate) type Slot = Arc<OnceLock<Standing>>;

impl Standing {
    fn of(quota: Quota, bucket: &Bucket, refused: Option<Use>) -> Self {
        let retry = refused.map(|wanted| bucket.fits_in_ms(quota, wanted).div_ceil(1_000).max(1));
        Self {
            quota,
            left: bucket.left(quota),
            full_in_s: bucket.full_in_ms(quota).div_ceil(1_000),
            retry_s: retry,
        }
    }

    /// Sets the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), and `Retry-After`.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let Quota {
            measure,
            amount,
            window_s,
        } = self.quota;
        let name = measure.as_str();
        let policy = format!("\"{name}\";q={amount};w={window_s}");
        let now = format!("\"{name}\";r={};t={}", self.left, self.full_in_s);
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", now)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        if let Some(seconds) = self.retry_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }

    /// The refusal of a turn, if it was refused.
    pub(super) fn refusal(&self) -> Option<Problem> {
        let seconds = self.retry_s?;
        let Quota {
            measure,
            amount,
            window_s,
        } = self.quota;
        let detail = format!(
            "{} {} within {window_s} seconds are allowed, and {} are left: try again in {seconds} seconds",
            measure.write(amount),
            measure.as_str(),
            measure.write(self.left),
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        Some(Problem::new(status, "quota-exceeded", detail))
    }
}

/// A change that waits for its commit.
#[derive(Debug)]
struct Wish {
    id: String,
    buckets: Buckets,
    act: Act,
    answer: oneshot::Sender<Result<Option<Standing>, StoreError>>,
}

/// The buckets of all quotas.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    store: StoreHandle,
    waiting: Arc<parking_lot::Mutex<Vec<Wish>>>,
    deciding: Arc<Mutex<()>>,
}

impl Ledger {
    pub(super) fn new(store: StoreHandle) -> Self {
        Self {
            store,
            waiting: Arc::default(),
            deciding: Arc::default(),
        }
    }

    /// Applies a change to the buckets of a turn, and returns their standing.
    pub(super) async fn change(
        &self,
        id: &str,
        buckets: Buckets,
        act: Act,
    ) -> Result<Option<Standing>, StoreError> {
        let (answer, decided) = oneshot::channel();
        let id = id.to_owned();
        self.waiting.lock().push(Wish {
            id,
            buckets,
            act,
            answer,
        });
        // Runs in a task of its own, so that a client that disconnects does not cancel the changes of others.
        let ledger = self.clone();
        tokio::spawn(async move {
            let _deciding = ledger.deciding.lock().await;
            let wishes: Vec<Wish> = {
                let mut waiting = ledger.waiting.lock();
                let many = waiting.len().min(TOGETHER);
                waiting.drain(..many).collect()
            };
            // An earlier task has made the changes of this one.
            if wishes.is_empty() {
                return;
            }
            let standings = ledger.commit(&wishes).await;
            for (number, wish) in wishes.into_iter().enumerate() {
                let standing = match &standings {
                    Ok(standings) => Ok(standings.get(number).cloned().flatten()),
                    Err(error) => Err(error.clone()),
                };
                let _ = wish.answer.send(standing);
            }
        });
        decided.await.unwrap_or(Err(StoreError::Closed))
    }

    /// A bucket as it is now.
    pub(super) async fn bucket(&self, name: &str, quota: Quota) -> Result<Bucket, StoreError> {
        Ok(self.read(name, quota, now_ms()).await?.1)
    }

    /// Empties the buckets of these names of what was taken; how many there were.
    pub(super) async fn clear(&self, is_meant: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        let _deciding = self.deciding.lock().await;
        let kept = self.store.scope(SCOPE.to_owned()).await?;
        let mut batch = Batch::default();
        for (key, _) in kept.into_iter().filter(|(key, _)| is_meant(key)) {
            batch.writes.push(StateWrite {
                scope: SCOPE.to_owned(),
                key,
                value: None,
                expected: Expected::Any,
            });
        }
        let count = batch.writes.len();
        if count > 0 {
            self.store.commit(vec![batch]).await?.pop().transpose()?;
        }
        Ok(count)
    }

    async fn read(
        &self,
        name: &str,
        quota: Quota,
        now_ms: u64,
    ) -> Result<(u64, Bucket), StoreError> {
        let slot = self.store.state(SCOPE.to_owned(), name.to_owned()).await?;
        let kept = slot.value.map(serde_json::from_value).transpose();
        let kept = kept.map_err(|error| StoreError::Damaged {
            place: format!("the quota {name:?}"),
            reason: error.to_string(),
        })?;
        Ok((slot.version, Bucket::now(kept, quota, now_ms)))
    }

    /// Decides these wishes in order, and commits the changed buckets.
    async fn commit(&self, wishes: &[Wish]) -> Result<Vec<Option<Standing>>, StoreError> {
        let mut last = StoreError::Closed;
        for _ in 0..ATTEMPTS {
            let now_ms = now_ms();
            let mut kept: BTreeMap<&str, (u64, Bucket)> = BTreeMap::new();
            for (name, quota) in wishes.iter().flat_map(|wish| &wish.buckets) {
                if !kept.contains_key(name.as_str()) {
                    kept.insert(name, self.read(name, *quota, now_ms).await?);
                }
            }
            let before = kept.clone();
            let standings = wishes
                .iter()
                .map(|wish| decide(wish, &mut kept, now_ms))
                .collect();
            let mut batch = Batch::default();
            for (name, (version, bucket)) in kept {
                if before.get(name).is_some_and(|(_, was)| *was == bucket) {
                    continue;
                }
                let value = to_raw_value(&bucket);
                let value = value.map_err(|error| StoreError::Unwritable {
                    reason: error.to_string(),
                })?;
                batch.writes.push(StateWrite {
                    scope: SCOPE.to_owned(),
                    key: name.to_owned(),
                    value: Some(value),
                    expected: Expected::Version(version),
                });
            }
            if batch.writes.is_empty() {
                return Ok(standings);
            }
            match self.store.commit(vec![batch]).await?.pop() {
                Some(Err(error @ StoreError::Conflict { .. })) => last = error,
                Some(Err(error)) => return Err(error),
                Some(Ok(_)) | None => return Ok(standings),
            }
        }
        Err(last)
    }
}

/// Applies a wish, and returns the standing of the quota that matters most: for a turn that fits, the quota with the
/// least left; for a turn that is refused, the quota with the longest wait.
fn decide<'w>(
    wish: &'w Wish,
    kept: &mut BTreeMap<&'w str, (u64, Bucket)>,
    now_ms: u64,
) -> Option<Standing> {
    let id = wish.id.as_str();
    let refused = match wish.act {
        Act::Take(wanted) => {
            let fits = wish.buckets.iter().all(|(name, quota)| {
                let bucket = kept.get(name.as_str());
                bucket.is_some_and(|(_, bucket)| bucket.fits(*quota, id, wanted))
            });
            (!fits).then_some(wanted)
        }
        Act::Settle(_) | Act::GiveBack => None,
    };
    for (name, quota) in wish.buckets.iter().filter(|_| refused.is_none()) {
        if let Some((_, bucket)) = kept.get_mut(name.as_str()) {
            match wish.act {
                Act::Take(wanted) => bucket.take(*quota, id, wanted, now_ms),
                Act::Settle(used) => bucket.settle(*quota, id, used),
                Act::GiveBack => bucket.give_back(*quota, id),
            }
        }
    }
    let standings = wish.buckets.iter().filter_map(|(name, quota)| {
        let (_, bucket) = kept.get(name.as_str())?;
        Some(Standing::of(*quota, bucket, refused))
    });
    standings.min_by_key(|standing| (Reverse(standing.retry_s), standing.left))
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
