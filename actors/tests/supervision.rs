//! What the supervisor promises: OTP's table, case by case, against the pure machine; a reference model
//! of OTP against it for 100,000 random steps; and real actors, with every trap of ractor's.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "supervision/actors.rs"]
mod actors;
#[path = "supervision/defects.rs"]
mod defects;
#[path = "supervision/interleavings.rs"]
mod interleavings;
#[path = "supervision/live.rs"]
mod live;
#[path = "supervision/otp_table.rs"]
mod otp_table;
#[path = "supervision/random_trees.rs"]
mod random_trees;
#[path = "supervision/reference.rs"]
mod reference;
#[path = "supervision/script.rs"]
mod script;
#[path = "supervision/spec.rs"]
mod spec;
#[path = "supervision/starts.rs"]
mod starts;
#[path = "supervision/traps.rs"]
mod traps;
#[path = "supervision/world.rs"]
mod world;
