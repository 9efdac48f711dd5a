//! Quotas: how many turns and tokens, and how much money, a caller may use within a time.
//!
//! Each quota is a token bucket: it holds as much as the quota allows, each turn takes from it, and it fills evenly.
//! Buckets are in the System's store and are changed by compare-and-set, so several processes share them and a restart
//! loses nothing. Tokens and money are reserved when a turn begins, and settled when its run has ended.

mod admission;
mod bucket;
mod ledger;
mod quota;

pub(crate) use admission::{Quotas, used};
pub(crate) use bucket::Use;
pub(crate) use ledger::Slot;
pub use quota::{Measure, Quota, QuotaFor};
