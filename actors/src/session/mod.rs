//! Sessions: turns, the fold of a session's journal, and its checkpoint.
//!
//! Architecture invariant: everything here is plain data and pure functions; the actors carry
//! out what they decide.

mod checkpoint;
mod desk;
mod fold;
mod turn;

pub use checkpoint::{decode_checkpoint, encode_checkpoint};
pub use desk::{Admission, Desk};
pub use fold::SessionFold;
pub use turn::Turn;
