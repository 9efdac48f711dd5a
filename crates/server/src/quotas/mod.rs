//! How many turns and tokens somebody may use within a time.
//!
//! Each quota is a bucket (a token bucket: it holds as much as the quota allows, each turn takes from it, and it fills
//! evenly). Buckets stand in the System's store and are changed by comparing and setting, so several processes share
//! them and a restart forgets nothing. Tokens are reserved when a turn begins, and settled when its run has ended.

mod admission;
mod bucket;
mod ledger;
mod quota;

pub(crate) use admission::{Quotas, used};
pub(crate) use ledger::Slot;
pub use quota::{Measure, Quota, QuotaFor};
