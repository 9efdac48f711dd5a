//! Stores for journals: implementations of [`Store`](ghostlight_actors::contract::Store).

#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

#[cfg(feature = "postgres")]
pub use ghostlight_postgres::{self as postgres, PostgresStore};
