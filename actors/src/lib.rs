//! The engine of Ghostlight: what runs, who watches it, and what is remembered.
//!
//! An agent is an ordinary async function that touches the world only through its
//! [`RunContext`](run::RunContext); everything that passes through is recorded, so after a crash
//! the function is run again from its top and gets recorded results back.

#[macro_use]
pub mod vocabulary;

pub mod actor;
mod assembly;
pub mod contract;
pub mod definition;
pub mod run;
pub mod session;
pub mod testing;

pub use ractor;
