//! What a memory promises, one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod stage;

mod concurrency;
mod crashes;
mod deciding;
mod episodes;
mod eviction;
mod forgetting;
mod importing;
mod killed;
mod round_trips;
mod scopes;
mod searching;
mod ten_thousand;
mod time_travel;
