//! The actors: what runs, and who watches it.

pub mod supervisor;
