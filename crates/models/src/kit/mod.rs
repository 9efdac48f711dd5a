//! The parts that the providers here are made of, for a provider of one's own.
//!
//! A provider of one's own says three things: its server ([`Provider`]), the body of a request, and what each piece of an answer
//! means ([`Answer`]). [`Server`] does the rest, as for every provider here:
//!
//! - A request is legal: each call has a name and an id that servers accept and one result, schemas of tools are mended, and
//!   files that the models cannot take are refused before the call.
//! - One call is one attempt, within its time limits and bounds. An error says whether another attempt may help and how long the
//!   server asks to wait; retries are the gateway's, and a new attempt voids what the one before it has shown.
//! - All calls of a model keep one pace, and one pause where the server asks for one.
//! - An answer may come whole or as a stream of events, compressed or not. One that is cut off is an error.
//! - A status is never lost, and an error has the server's words, without anything that repeats the request or a key.
//! - Usage that the server does not tell is estimated, and priced by the settings.
//! - A key goes to its own server alone, not in clear, and is in no log.
//!
//! The guide has a provider in a hundred lines, on its page *Extending Ghostlight*.

mod answer;
mod provider;
mod server;

pub use answer::Answer;
pub use provider::Provider;
pub use server::{Server, ServerSpec};
