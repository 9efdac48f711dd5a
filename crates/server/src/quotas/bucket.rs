//! The arithmetic of one quota's bucket, without I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quota::{Measure, Quota};

/// The likely cost of one model call, as far as that is known before it is made: some tokens, and a hundredth of the currency.
pub(super) const CALL: Use = Use {
    tokens: 4_096,
    cost_micros: 10_000,
};
/// The most turns that may hold reservations of one quota at once.
pub(super) const MAX_RESERVATIONS: usize = 1_024;

/// The bucket of one quota. One turn, token or millionth of money costs as many units as the window has ticks, and each tick
/// refills as many units as the quota's amount, so nothing is ever rounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Bucket {
    /// The units that are left; negative if a run consumed more than its reservation.
    units: i64,
    at_ms: u64,
    /// The part that turns have taken and that is not settled yet: tokens and money until their runs have ended, a turn until it is
    /// recorded. So a turn that is sent many times at once takes once.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reserved: BTreeMap<String, Reserved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reserved {
    #[serde(alias = "tokens")]
    amount: u64,
    at_ms: u64,
    /// How many requests share it: those that say the same turn.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    requests: u32,
}

fn one() -> u32 {
    1
}

fn is_one(requests: &u32) -> bool {
    *requests == 1
}

/// The amount that a turn reserves, or its run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(super) tokens: u64,
    pub(super) cost_micros: u64,
}

impl Use {
    /// So much of what every quota counts.
    pub(super) fn of(amount: u64) -> Self {
        Self {
            tokens: amount,
            cost_micros: amount,
        }
    }

    /// At least so much of each.
    fn at_least(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            cost_micros: self.cost_micros.max(other.cost_micros),
        }
    }

    pub(super) fn less(self, before: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(before.tokens),
            cost_micros: self.cost_micros.saturating_sub(before.cost_micros),
        }
    }

    fn in_terms_of(self, measure: Measure) -> u64 {
        match measure {
            Measure::Turns => 1,
            Measure::Tokens => self.tokens,
            Measure::Cost => self.cost_micros,
        }
    }
}

impl Quota {
    pub(super) fn window_ms(self) -> u64 {
        u64::from(self.window_s) * 1_000
    }

    /// The shortest time in which a bucket refills, in milliseconds: money has larger amounts.
    fn tick_ms(self) -> u64 {
        match self.measure {
            Measure::Turns | Measure::Tokens => 1,
            Measure::Cost => 1_000,
        }
    }

    /// The units of this amount.
    fn units(self, amount: u64) -> i64 {
        let units = (self.window_ms() / self.tick_ms()).saturating_mul(amount);
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    fn capacity(self) -> i64 {
        self.units(self.amount)
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
        let ticks = now_ms.saturating_sub(bucket.at_ms) / quota.tick_ms();
        let flown = i64::try_from(quota.amount.saturating_mul(ticks)).unwrap_or(i64::MAX);
        bucket.units = bucket.units.saturating_add(flown).min(quota.capacity());
        // A clock that is more than a window ahead is wrong, and must not block the quota for longer.
        let latest = now_ms.saturating_add(quota.window_ms());
        bucket.at_ms = (bucket.at_ms + ticks * quota.tick_ms()).min(latest);
        bucket
    }

    /// The amount that a turn takes if it reserves this much. A budget ends a run only behind the call that uses it up, so
    /// that beside others a turn reserves a call at least.
    fn wanted(&self, quota: Quota, reserved: Use) -> u64 {
        let reserved = match self.reserved.is_empty() {
            true => reserved,
            false => reserved.at_least(CALL),
        };
        reserved.in_terms_of(quota.measure).clamp(1, quota.amount)
    }

    /// Whether a turn with this reservation fits. A turn that has a reservation already always fits.
    pub(super) fn fits(&self, quota: Quota, id: &str, reserved: Use) -> bool {
        if self.reserved.contains_key(id) {
            return true;
        }
        let room = !quota.measure.is_settled() || self.reserved.len() < MAX_RESERVATIONS;
        room && self.units >= quota.units(self.wanted(quota, reserved))
    }

    /// Takes the amount of such a turn; once, however many requests say it.
    pub(super) fn take(&mut self, quota: Quota, id: &str, reserved: Use, now_ms: u64) {
        if let Some(reserved) = self.reserved.get_mut(id) {
            reserved.requests = reserved.requests.saturating_add(1);
            return;
        }
        if !quota.measure.is_settled() {
            // Left by processes that died; they are paid.
            let age = |at_ms| now_ms.saturating_sub(at_ms);
            self.reserved
                .retain(|_, reserved| age(reserved.at_ms) <= quota.window_ms());
        }
        let amount = self.wanted(quota, reserved);
        self.units = self.units.saturating_sub(quota.units(amount));
        if self.reserved.len() < MAX_RESERVATIONS {
            let reserved = Reserved {
                amount,
                at_ms: now_ms,
                requests: 1,
            };
            self.reserved.insert(id.to_owned(), reserved);
        }
    }

    /// Replaces a turn's reservation by its use; once, however often it is called.
    pub(super) fn settle(&mut self, quota: Quota, id: &str, used: Use) {
        if let Some(reserved) = self.reserved.remove(id) {
            let used = quota.units(used.in_terms_of(quota.measure));
            self.add(quota, quota.units(reserved.amount).saturating_sub(used));
        }
    }

    /// Gives back the amount that a turn took, if none of the requests that share it has said the turn.
    pub(super) fn give_back(&mut self, quota: Quota, id: &str) {
        let Some(reserved) = self.reserved.get_mut(id) else {
            return;
        };
        let amount = reserved.amount;
        reserved.requests = reserved.requests.saturating_sub(1);
        if reserved.requests == 0 {
            self.reserved.remove(id);
            self.add(quota, quota.units(amount));
        }
    }

    fn add(&mut self, quota: Quota, units: i64) {
        self.units = self.units.saturating_add(units).min(quota.capacity());
    }

    /// The turns with reservations: each with its amount and time.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let reserved = self.reserved.iter();
        reserved.map(|(id, reserved)| (id.as_str(), reserved.amount, reserved.at_ms))
    }

    /// How many turns or tokens, or how much money in millionths, is left.
    pub(super) fn left(&self, quota: Quota) -> u64 {
        (self.units.max(0) / quota.units(1)).unsigned_abs()
    }

    /// In how many milliseconds such a turn will fit.
    pub(super) fn fits_in_ms(&self, quota: Quota, reserved: Use) -> u64 {
        self.holds_in_ms(quota, quota.units(self.wanted(quota, reserved)))
    }

    /// In how many milliseconds the bucket is full again.
    pub(super) fn full_in_ms(&self, quota: Quota) -> u64 {
        self.holds_in_ms(quota, quota.capacity())
    }

    fn holds_in_ms(&self, quota: Quota, units: i64) -> u64 {
        let missing = units.saturating_sub(self.units).max(0).unsigned_abs();
        let ticks = missing.div_ceil(quota.amount);
        ticks.saturating_mul(quota.tick_ms())
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
        for id in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
            assert!(bucket.fits(quota, id, Use::of(0)));
            bucket.take(quota, id, Use::of(0), 1_000);
        }
        assert!(!bucket.fits(quota, "k", Use::of(0)));
        assert_eq!(bucket.fits_in_ms(quota, Use::of(0)), 1_000);
        let later = Bucket::now(Some(bucket.clone()), quota, 1_999);
        assert!(!later.fits(quota, "k", Use::of(0)));
        let later = Bucket::now(Some(later), quota, 2_000);
        assert!(later.fits(quota, "k", Use::of(0)));
        assert_eq!(later.left(quota), 1);
        let full = Bucket::now(Some(later), quota, u64::MAX);
        assert_eq!((full.left(quota), full.full_in_ms(quota)), (10, 0));
        // A clock that goes back refills nothing, and one that is far ahead does not block the quota for ever.
        let back = Bucket::now(Some(full), quota, 5);
        assert_eq!(back.at_ms, 10_005);
    }

    #[test]
    fn what_was_reserved_is_settled_once_and_a_debt_is_paid_with_time() {
        let quota = quota("100000tokens/100000s");
        let mut bucket = Bucket::now(None, quota, 0);
        bucket.take(quota, "a", Use::of(40_000), 0);
        bucket.take(quota, "a", Use::of(40_000), 0);
        assert_eq!(bucket.left(quota), 60_000, "it was taken once");
        bucket.take(quota, "b", Use::of(60_000), 0);
        assert!(!bucket.fits(quota, "c", Use::of(1)));
        assert!(
            bucket.fits(quota, "b", Use::of(60_000)),
            "what it has is its"
        );
        bucket.settle(quota, "a", Use::of(10_000));
        bucket.settle(quota, "a", Use::of(10_000));
        assert_eq!(bucket.left(quota), 30_000);
        bucket.settle(quota, "b", Use::of(110_000));
        assert_eq!(bucket.left(quota), 0, "20,000 are owed");
        assert_eq!(bucket.fits_in_ms(quota, Use::of(1)), 20_001_000);
        bucket.settle(quota, "unknown", Use::of(1_000_000));
        let later = Bucket::now(Some(bucket), quota, 20_001_000);
        assert_eq!(later.left(quota), 1);
        // A turn that wants more than the quota ever allows takes the whole quota.
        let full = Bucket::now(None, quota, 0);
        assert!(full.fits(quota, "d", Use::of(u64::MAX)));
    }

    #[test]
    fn beside_others_a_turn_reserves_what_a_call_may_cost() {
        let quota = quota("10000tokens/1d");
        let mut bucket = Bucket::now(None, quota, 0);
        bucket.take(quota, "a", Use::of(1), 0);
        assert_eq!(bucket.left(quota), 9_999);
        bucket.take(quota, "b", Use::of(1), 0);
        bucket.take(quota, "c", Use::of(5_000), 0);
        assert_eq!(bucket.left(quota), 9_999 - 4_096 - 5_000);
        assert!(!bucket.fits(quota, "d", Use::of(1)));
    }

    #[test]
    fn a_turn_that_many_requests_say_takes_once_and_no_failing_one_gives_back_what_another_pays() {
        for text in ["10/10s", "100tokens/100s"] {
            let quota = quota(text);
            let mut bucket = Bucket::now(None, quota, 0);
            for _ in 0..20 {
                assert!(bucket.fits(quota, "a", Use::of(10)));
                bucket.take(quota, "a", Use::of(10), 0);
            }
            let left = bucket.left(quota);
            assert!(left == 9 || left == 90, "{text}: {left}");
            for _ in 0..19 {
                bucket.give_back(quota, "a");
            }
            assert_eq!(bucket.left(quota), left, "one of them may still say it");
            bucket.settle(quota, "a", Use::of(10));
            bucket.give_back(quota, "a");
            assert_eq!(bucket.left(quota), left);
            bucket.take(quota, "b", Use::of(10), 0);
            bucket.give_back(quota, "b");
            assert_eq!(bucket.left(quota), left, "nobody said it");
        }
    }

    #[test]
    fn money_is_counted_in_whole_millionths_and_refilled_in_whole_seconds() {
        let quota = quota("10cost/1d");
        let of = |cost_micros| Use {
            tokens: 1_000_000_000,
            cost_micros,
        };
        let mut bucket = Bucket::now(None, quota, 500);
        bucket.take(quota, "a", of(10_000_000), 500);
        assert!(!bucket.fits(quota, "b", of(1)));
        bucket.settle(quota, "a", of(9_999_999));
        assert_eq!(
            (bucket.left(quota), bucket.full_in_ms(quota)),
            (1, 86_400_000)
        );
        bucket.take(quota, "b", of(1), 500);
        bucket.settle(quota, "b", of(1));
        // 115.74 millionths a second: a time that is cut into pieces refills as much.
        let whole = Bucket::now(Some(bucket.clone()), quota, 10_500);
        let mut pieces = bucket.clone();
        for now_ms in (500..=10_500).step_by(7).chain([10_500]) {
            pieces = Bucket::now(Some(pieces), quota, now_ms);
        }
        assert_eq!((whole.left(quota), &whole), (1_157, &pieces));
        assert_eq!(Bucket::now(Some(bucket), quota, 1_499).left(quota), 0);
    }

    #[test]
    fn reservations_of_an_earlier_version_are_read() {
        let kept = r#"{"units":5,"at_ms":7,"reserved":{"a":{"tokens":40,"at_ms":7}}}"#;
        let kept: Bucket = serde_json::from_str(kept).unwrap();
        assert_eq!(kept.reservations().next(), Some(("a", 40, 7)));
    }

    #[test]
    fn the_largest_quota_and_the_largest_use_do_not_overflow() {
        for text in ["1000000000tokens/31d", "1000000cost/31d"] {
            let quota = quota(text);
            let mut bucket = Bucket::now(None, quota, u64::MAX);
            bucket.take(quota, "a", Use::of(u64::MAX), u64::MAX);
            assert_eq!(bucket.left(quota), 0);
            bucket.settle(quota, "a", Use::of(u64::MAX));
            bucket.take(quota, "b", Use::of(1), 0);
            assert!(bucket.fits_in_ms(quota, Use::of(1)) > quota.window_ms());
            assert!(!Bucket::now(Some(bucket), quota, 0).fits(quota, "c", Use::of(1)));
        }
    }

    proptest::proptest! {
        #[test]
        fn within_a_window_at_most_the_quota_and_what_flowed_back_is_taken(
            amount in 1_u64..50, window_s in 1_u32..100,
            pauses in proptest::collection::vec(0_u64..5_000, 1..200),
        ) {
            let quota = Quota::turns(amount, std::time::Duration::from_secs(window_s.into())).unwrap();
            let (mut now, mut taken, mut kept) = (0, 0_u64, None);
            for pause in pauses {
                now += pause;
                let mut bucket = Bucket::now(kept.take(), quota, now);
                if bucket.fits(quota, "x", Use::of(0)) {
                    bucket.take(quota, "x", Use::of(0), now);
                    bucket.settle(quota, "x", Use::of(1));
                    taken += 1;
                }
                kept = Some(bucket);
                let flown = now * amount / (u64::from(window_s) * 1_000);
                proptest::prop_assert!(taken <= amount + flown);
            }
        }
    }
}
