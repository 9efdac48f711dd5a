//! The supervisor: starts actors, watches them, starts them again by the rules of Erlang/OTP.
//!
//! It is the package `ghostlight-supervisor`, which supervises any ractor actor and needs no other part of
//! Ghostlight.

pub use ghostlight_supervisor::*;
