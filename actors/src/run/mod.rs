//! One run: the context through which an agent's function acts, the operations, the delivery
//! of their results, and replay.
//!
//! Architecture invariant: a run knows no actor. It asks the world, the store too, through
//! `Ports`, for code by its name through `Code`, and is told things through its channel of commands, `RunCommands`.

mod behavior;
mod call_identity;
mod calls;
mod carried;
mod code;
mod command;
mod command_channel;
mod completed;
mod context;
mod decision;
mod delegated;
mod driver;
mod fork;
mod function;
mod future_set;
mod gate;
mod handover;
mod hearing;
mod journal;
mod ledger;
mod leg;
mod leg_start;
mod load;
mod loop_context;
mod notes;
mod observe;
mod operation;
mod operation_log;
pub mod operations;
mod policy;
mod ports;
mod recorded_call;
mod recorded_change;
mod recorded_note;
mod recorded_result;
mod recording;
mod recovered_conversation;
mod rehearsal;
mod run_machine;
mod steering;
mod steering_inbox;
mod steps;
mod takeover;
mod task;
mod temp;

pub use behavior::{Behavior, BehaviorHandle};
pub(crate) use call_identity::{InputDigest, OperationInput};
pub(crate) use calls::{
    Called, ModelAnswer, ModelCall, ModelCode, ModelEnd, ToolCode, ToolEnd, ToolInvocation,
    ToolSlot, Tries,
};
pub(crate) use carried::{Asked, CallKey, Carried, Keeper, Manner};
pub(crate) use code::Code;
pub(crate) use command::{ChildReport, ChildResult, Command, Idleness};
pub(crate) use command_channel::{ParentSender, RunCommands, RunSender};
pub(crate) use completed::Kept;
pub use context::{Composed, Performing, RunContext};
pub use fork::ForkError;
pub(crate) use function::{AgentCode, AgentFunction, Returned};
pub use gate::Gate;
pub use load::Recorded;
pub use loop_context::LoopContext;
pub use observe::Observer;
pub use operation::{
    Act, Arrival, Attempt, Begin, Changes, Operation, OperationContext, Wait, WaitFor, Write,
};
pub(crate) use operation::{Child, Unsaved};
pub(crate) use operation_log::OperationLog;
pub use policy::{
    BeforeTool, GoalEnd, GoalStatus, HookContext, Judgement, OwnTool, Policy, PolicyContext,
    PolicyHandle, Verdict,
};
pub use ports::Task;
pub(crate) use ports::{ChildStart, OnCommitted, Ports, StateLock};
pub(crate) use recording::Written;
pub use recording::{Recording, RecordingError};
pub(crate) use rehearsal::rehearse;
pub use rehearsal::{Divergence, Drift, Replay, RunReplay};
pub use run_machine::answers;
pub(crate) use run_machine::unfit;
pub(crate) use task::{Incarnation, Loaded, RunExit, RunTask, SessionTail, first_row};

pub(crate) use fork::{ChangedByTree, Copies, ForkTarget, ForkedRun, KeyHistory, fork};
pub(crate) use leg::Leg;
pub(crate) use recorded_result::{is_error, read_end, read_result};

// Programs find the names of the room above here. No file of this room uses them.
pub use crate::assembly::{
    Agent, AgentBehavior, AgentModel, AgentPolicy, Intercept, Registry, Team, replay,
};
