//! What a memory promises, one file a promise.

mod stage;

mod concurrency;
mod crashes;
mod episodes;
mod eviction;
mod forgetting;
mod killed;
mod scopes;
mod searching;
mod time_travel;
