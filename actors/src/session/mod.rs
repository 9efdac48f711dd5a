//! Sessions: turns, the fold of a session's journal, and its checkpoint.
//!
//! Architecture invariant: everything here is plain data and pure functions; the actors carry
//! out what they decide.

mod checkpoint;
mod fold;
mod log;
mod turn_queue;

pub use crate::contract::turn::Turn;
pub(crate) use checkpoint::checkpoint_is_due;
pub use checkpoint::{decode_checkpoint, encode_checkpoint};
pub use fold::SessionFold;
pub use log::{LoggedTurn, SessionLog};
pub(crate) use turn_queue::{TurnDecision, TurnQueue};
