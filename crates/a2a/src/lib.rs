//! The Agent2Agent protocol (A2A 1.0): its types, tasks made of runs, and remote agents as members of teams.
//!
//! **A protocol is a translation of turns and events, and nothing else.** A task is a run, a context is a session, a
//! message is a turn or an answer. [`translation`] defines this as pure functions over recorded events; the package
//! `ghostlight-server` serves them over HTTP. The protocol keeps nothing that the journal does not hold.
//!
//! In the other direction [`RemoteAgent`] makes an agent that speaks the protocol a member of a team.
//!
//! A [`CardSigner`] signs the cards of agents, and a [`CardKey`] is a key whose signatures a client demands.

pub mod grpc;
pub mod protocol;
pub mod translation;

mod client;
mod remote;
mod signing;

pub use client::{A2aClient, ClientError, ClientOptions, ClientOptionsError, Sent};
pub use remote::{RemoteAgent, RemoteBehavior, RemoteToolset};
pub use signing::{CardError, CardKey, CardKeyError, CardSigner, verify_card};
