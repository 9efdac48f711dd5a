//! The supervisor: starts actors, watches them, starts them again by the rules of Erlang/OTP.
//!
//! A [`Supervisor`] supervises any ractor actor. What is told about a child is plain data
//! ([`ChildSpec`]); how it is made is a factory ([`Child`]). The rules are OTP's: strategies,
//! intensity, permanent, transient and temporary children, ordered start, reverse stop with a time
//! for each, significant children. Added are waits with chance before restarts ([`Backoff`]), a
//! notice to the parent when restarts are used up ([`Escalation`]), and exits that do not count
//! ([`Child::classify_exits`]).
//!
//! ```
//! # use ractor::{Actor, ActorProcessingErr, ActorRef};
//! use ghostlight_supervisor::{
//!     Child, ChildSpec, Strategy, Supervisor, SupervisorSpec,
//! };
//!
//! struct Echo;
//! impl Actor for Echo {
//!     type Msg = String;
//!     type State = ();
//!     type Arguments = ();
//!     async fn pre_start(&self, _: ActorRef<String>, _: ()) -> Result<(), ActorProcessingErr> {
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let (supervisor, task) = Supervisor::builder(SupervisorSpec::new(Strategy::OneForOne))
//!     .child(Child::of(ChildSpec::worker("first"), || (Echo, ())))
//!     .start()
//!     .await?;
//! supervisor.start_child(Child::of(ChildSpec::worker("second").transient(), || (Echo, ()))).await?;
//! assert_eq!(supervisor.which_children().await?.len(), 2);
//! supervisor.stop().await; // "second", then "first", then the supervisor
//! task.await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # What is promised
//!
//! - The mailbox never waits. Starts, stops and back-off are tasks which the supervisor owns; it
//!   answers while a child hangs in its start, and while it restarts others.
//! - A child starts only when its predecessor's task has ended, the predecessor's state is dropped, and
//!   so have ended the descendants that it had when it was told to stop. (The descendants of a child
//!   that ended by itself are told to die by ractor, and nobody can wait for them.)
//! - Stopping a supervisor, by its handle, by ractor's `stop` or by its parent, stops its children in
//!   reverse order, each within its time. Only a kill does not; it kills all below.
//! - A kill, and a task aborted from outside, count as abnormal.
//! - Nothing is registered under a name.
//! - A caller that goes away changes nothing.
//!
//! While it starts and while it ends, a supervisor takes no questions: ractor delivers no messages then
//! (nor does OTP). A first child must not ask its own supervisor in `pre_start`.
//!
//! # How it is made
//!
//! [`machine`] decides and is pure; the actor carries out; a *keeper* task per life starts a child,
//! waits for its end and tells.

mod actor;
mod child;
mod child_life;
mod exit;
mod handle;
pub mod machine;
mod spec;

pub use actor::SupervisorMessage;
pub use child::{Child, Ignore, Spawned};
pub use exit::{EndReason, Escalation, Exit, RestartDecision, SHUTDOWN};
pub use handle::{Change, ChildInfo, StartError, Supervisor, SupervisorBuilder};
pub use machine::{ChildError, ChildState};
pub use spec::{
    AutoShutdown, Backoff, ChildKind, ChildSpec, Intensity, Restart, Shutdown, SpecError, Strategy,
    SupervisorSpec,
};
