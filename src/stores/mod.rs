//! Where journals are kept: stores that implement
//! [`Store`](ghostlight_actors::contract::Store).

#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
