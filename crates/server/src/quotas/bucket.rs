//! The arithmetic of one quota's bucket, without I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quota::{Measure, Quota};

/// The most turns that may hold reservations of one quota at once.
pub(super) const MAX_RESERVATIONS: usize = 1_024;

/// The bucket of one quota. One turn or token costs as many units as the window has milliseconds, and each millisecond
/// refills as many units as the quota allows turns or tokens, so nothing is ever rounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Bucket {
    /// The units that are left; negative if a run consumed more than its reservation.
    units: i64,
    at_ms: u64,
    /// The tokens that turns under way have reserved.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reserved: BTreeMap<String, Reserved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reserved {
    tokens: u32,
    at_ms: u64,
}

impl Quota {
    /// The cost of one turn or token, in units.
    fn cost(self) -> i64 {
        i64::from(self.window_s) * 1_000
    }

    fn capacity(self) -> i64 {
        self.cost() * i64::from(self.amount)
    }

    /// The amount that a turn takes if it reserves this many tokens.
    fn wanted(self, tokens: u32) -> u32 {
        match self.measure {
            Measure::Turns => 1,
            Measure::Tokens => tokens.clamp(1, self.amount),
        }
    }
}

impl Bucket {
    /// The bucket as it stands now.
    pub(super) fn now(kept: Option<Self>, quota: Quota, now_ms: u64) -> Self {
        let Some(mut bucket) = kept else {
            return Self {
                units: quota.capacity(),
                at_ms: now_ms,
                reserved: BTreeMap::new(),
            };
        };
        // The clock of another process may be ahead; the time that it has filled is not filled again.
        let passed = now_ms.saturating_sub(bucket.at_ms);
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let flown = i64::from(quota.amount).saturating_mul(passed);
        bucket.units = bucket.units.saturating_add(flown).min(quota.capacity());
        // A clock that is more than a window ahead is wrong, and must not block the quota for longer.
        let latest = now_ms.saturating_add(quota.cost().unsigned_abs());
        bucket.at_ms = bucket.at_ms.clamp(now_ms, latest);
        bucket
    }

    /// Whether a turn with this reservation fits. A turn that has a reservation already always fits.
    pub(super) fn fits(&self, quota: Quota, id: &str, tokens: u32) -> bool {
        if self.reserved.contains_key(id) {
            return true;
        }
        let room = quota.measure == Measure::Turns || self.reserved.len() < MAX_RESERVATIONS;
        room && self.units >= quota.cost() * i64::from(quota.wanted(tokens))
    }

    /// Takes the amount of such a turn.
    pub(super) fn take(&mut self, quota: Quota, id: &str, tokens: u32, now_ms: u64) {
        if self.reserved.contains_key(id) {
            return;
        }
        let tokens = quota.wanted(tokens);
        self.units = self.units.saturating_sub(quota.cost() * i64::from(tokens));
        if quota.measure == Measure::Tokens {
            let at_ms = now_ms;
            self.reserved
                .insert(id.to_owned(), Reserved { tokens, at_ms });
        }
    }

    /// Replaces a turn's reservation by its use; once, however often it is called.
    pub(super) fn settle(&mut self, quota: Quota, id: &str, used: u64) {
        if let Some(reserved) = self.reserved.remove(id) {
            let used = i64::try_from(used).unwrap_or(i64::MAX);
            self.add(quota, i64::from(reserved.tokens).saturating_sub(used));
        }
    }

    /// Gives back the amount that a turn took without being said.
    pub(super) fn give_back(&mut self, quota: Quota, id: &str) {
        match quota.measure {
            Measure::Turns => self.add(quota, 1),
            Measure::Tokens => self.settle(quota, id, 0),
        }
    }

    fn add(&mut self, quota: Quota, amount: i64) {
        let units = quota.cost().saturating_mul(amount);
        self.units = self.units.saturating_add(units).min(quota.capacity());
    }

    /// The turns with reservations: each with its amount and time.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (&str, u32, u64)> {
        let reserved = self.reserved.iter();
        reserved.map(|(id, reserved)| (id.as_str(), reserved.tokens, reserved.at_ms))
    }

    /// How many turns or tokens are left.
    pub(super) fn left(&self, quota: Quota) -> u64 {
        (self.units.max(0) / quota.cost()).unsigned_abs()
    }

    /// In how many milliseconds such a turn will fit.
    pub(super) fn fits_in_ms(&self, quota: Quota, tokens: u32) -> u64 {
        self.holds_in_ms(quota, quota.cost() * i64::from(quota.wanted(tokens)))
    }

    /// In how many milliseconds the bucket is full again.
    pub(super) fn full_in_ms(&self, quota: Quota) -> u64 {
        self.holds_in_ms(quota, quota.capacity())
    }

    fn holds_in_ms(&self, quota: Quota, units: i64) -> u64 {
        let missing = units.saturating_sub(self.units).max(0).unsigned_abs();
        missing.div_ceil(u64::from(quota.amount))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap()
    }

    #[test]
    fn a_bucket_fills_evenly_and_never_beyond_its_quota() {
        let quota = quota("10/10s");
        let mut bucket = Bucket::now(None, quota, 1_000);
        for _ in 0..10 {
            assert!(bucket.fits(quota, "a", 0));
            bucket.take(quota, "a", 0, 1_000);
        }
        assert!(!bucket.fits(quota, "a", 0));
        assert_eq!(bucket.fits_in_ms(quota, 0), 1_000);
        let later = Bucket::now(Some(bucket.clone()), quota, 1_999);
        assert!(!later.fits(quota, "a", 0));
        let later = Bucket::now(Some(later), quota, 2_000);
        assert!(later.fits(quota, "a", 0));
        assert_eq!(later.left(quota), 1);
        let full = Bucket::now(Some(later), quota, u64::MAX);
        assert_eq!((full.left(quota), full.full_in_ms(quota)), (10, 0));
        // A clock that goes back refills nothing, and one that is far ahead does not block the quota for ever.
        let back = Bucket::now(Some(full), quota, 5);
        assert_eq!(back.at_ms, 10_005);
    }

    #[test]
    fn what_was_reserved_is_settled_once_and_a_debt_is_paid_with_time() {
        let quota = quota("100tokens/100s");
        let mut bucket = Bucket::now(None, quota, 0);
        bucket.take(quota, "a", 40, 0);
        bucket.take(quota, "a", 40, 0);
        assert_eq!(bucket.left(quota), 60, "it was taken once");
        bucket.take(quota, "b", 60, 0);
        assert!(!bucket.fits(quota, "c", 1));
        assert!(bucket.fits(quota, "b", 60), "what it has is its");
        bucket.settle(quota, "a", 10);
        bucket.settle(quota, "a", 10);
        assert_eq!(bucket.left(quota), 30);
        bucket.settle(quota, "b", 110);
        assert_eq!(bucket.left(quota), 0, "20 are owed");
        assert_eq!(bucket.fits_in_ms(quota, 1), 21_000);
        bucket.settle(quota, "unknown", 1_000);
        let later = Bucket::now(Some(bucket), quota, 21_000);
        assert_eq!(later.left(quota), 1);
        // A turn that wants more than the quota ever allows takes the whole quota.
        let full = Bucket::now(None, quota, 0);
        assert!(full.fits(quota, "d", u32::MAX));
    }

    #[test]
    fn the_largest_quota_and_the_largest_use_do_not_overflow() {
        let quota = quota("1000000000tokens/31d");
        let mut bucket = Bucket::now(None, quota, u64::MAX);
        bucket.take(quota, "a", u32::MAX, u64::MAX);
        assert_eq!(bucket.left(quota), 0);
        bucket.settle(quota, "a", u64::MAX);
        bucket.take(quota, "b", 1, 0);
        assert!(!Bucket::now(Some(bucket), quota, 0).fits(quota, "c", 1));
    }

    proptest::proptest! {
        #[test]
        fn within_a_window_at_most_the_quota_and_what_flowed_back_is_taken(
            amount in 1_u32..50, window_s in 1_u32..100,
            pauses in proptest::collection::vec(0_u64..5_000, 1..200),
        ) {
            let quota = Quota::turns(amount, std::time::Duration::from_secs(window_s.into())).unwrap();
            let (mut now, mut taken, mut kept) = (0, 0_u64, None);
            for pause in pauses {
                now += pause;
                let mut bucket = Bucket::now(kept.take(), quota, now);
                if bucket.fits(quota, "x", 0) {
                    bucket.take(quota, "x", 0, now);
                    taken += 1;
                }
                kept = Some(bucket);
                let flown = now * u64::from(amount) / (u64::from(window_s) * 1_000);
                proptest::prop_assert!(taken <= u64::from(amount) + flown);
            }
        }
    }
}
