//! The wait of a model call until its provider is asked again.

use serde::{Deserialize, Serialize};

use super::{Timestamp, Usage};

/// The wait of a model call until its provider is asked again, with all that was spent on the call before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Retry {
    /// When the provider is asked again.
    pub at: Timestamp,
    /// When the call began.
    pub since: Timestamp,
    /// How many tries failed. A try is an attempt, or several if an interceptor repeats it.
    pub tries: u32,
    /// How many attempts were made.
    pub attempts: u32,
    /// How many answers that came through tickets the attempts have taken.
    #[serde(default)]
    pub answers: u32,
    /// The consumption of the failed attempts.
    #[serde(default)]
    pub usage: Usage,
}

impl Retry {
    /// A call that begins now.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            at: now,
            since: now,
            tries: 0,
            attempts: 0,
            answers: 0,
            usage: Usage::default(),
        }
    }
}
