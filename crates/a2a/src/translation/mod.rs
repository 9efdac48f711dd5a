//! Runs as tasks, and messages as turns: pure functions, without I/O and without a clock.
//!
//! | the protocol's | ours |
//! |---|---|
//! | agent | team |
//! | context | session |
//! | task | the run of a turn, with all runs below it |
//! | message that names no task | turn; the message's id is the turn's |
//! | message to a task that needs input | answer |
//! | input required | a question is open |
//! | auth required | what is asked is a password, code or key |
//! | completed | answered |
//! | canceled | cancelled |
//! | rejected | handed back (escalated), or held back by the model's provider |
//! | failed | failed, parked, or stopped before its end for any other reason |
//! | artifact `answer` | the run's answer; before its end the pieces of it |
//! | other artifacts | what was saved for the session |

mod task;
mod turn;

pub use task::{ANSWER, TaskReader, Told, end_state, known_state};
pub use turn::{question_name, question_of, turn_of};
