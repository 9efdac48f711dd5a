//! What the supervisor promises: OTP's table, case by case, against the pure machine; a reference model
//! of OTP against it for 100,000 random steps; and real actors, with every trap of ractor's.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod actors;
mod defects;
mod interleavings;
mod live;
mod otp_table;
mod random_trees;
mod reference;
mod script;
mod spec;
mod starts;
mod traps;
mod world;
