//! Supervisors: they start actors, watch them, and restart them by the rules of Erlang/OTP.
//!
//! A [`Supervisor`] supervises any ractor actor. The specification of a child is plain data
//! ([`ChildSpec`]); a factory ([`Child`]) creates the child. The rules are OTP's: strategies,
//! intensity, permanent, transient and temporary children, ordered start, stop in reverse order
//! with a time limit for each, significant children. It adds back-off with jitter before restarts
//! ([`Backoff`]), a notice to the parent when restarts are used up ([`Escalation`]), and exits that
//! do not count ([`Child::classify_exits`]).
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
//! - The mailbox is never blocked. Starts, stops and back-off are tasks that the supervisor owns.
//!   It answers while a child hangs in its start, and while it restarts others.
//! - A child starts only after its predecessor's task has ended, the predecessor's state is
//!   dropped, and the descendants that it had when it was told to stop have ended. (The descendants
//!   of a child that ended by itself are told to die by ractor, and nobody can wait for them.)
//! - Stopping a supervisor, by its handle, by ractor's `stop` or by its parent, stops its children
//!   in reverse order, each within its time limit. Only a kill does not: it kills all actors below.
//! - A kill counts as abnormal, and so does a task that was aborted from outside.
//! - Nothing is registered under a name.
//! - A caller that goes away changes nothing.
//!
//! A supervisor answers no requests while it starts and while it ends, because ractor then delivers
//! no messages (nor does OTP). A first child must not call its own supervisor in `pre_start`.
//!
//! # Design
//!
//! [`machine`] makes the decisions and is pure; the actor carries them out. Each life has a task
//! that starts the child, waits for its end and reports it.

mod actor;
mod child;
mod child_life;
mod child_ref;
mod exit;
mod handle;
pub mod machine;
pub mod seconds;
mod spec;

pub use actor::SupervisorMessage;
pub use child::{Child, Ignore, Spawned};
pub use child_ref::ChildRef;
pub use exit::{EndReason, Escalation, Exit, RestartDecision, SHUTDOWN};
pub use handle::{Change, ChildInfo, StartError, Supervisor, SupervisorBuilder};
pub use machine::{ChildError, ChildState};
pub use spec::{
    AutoShutdown, Backoff, ChildKind, ChildSpec, Intensity, Restart, Shutdown, SpecError, Strategy,
    SupervisorSpec,
};
