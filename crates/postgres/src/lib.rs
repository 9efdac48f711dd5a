//! The store of Ghostlight's agents in PostgreSQL.
