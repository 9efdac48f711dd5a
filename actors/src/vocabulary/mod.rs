//! Plain data that every part of the engine shares: messages, tools, model requests and
//! responses, events, usage, identifiers and errors.
//!
//! Architecture invariant: nothing here does I/O, waits, or knows an actor. Every type can be stored as JSON and,
//! where a checkpoint holds it, with `bincode`; therefore enums are externally tagged and no field is skipped.

#[macro_use]
mod opaque;
#[macro_use]
mod setters;

mod artifact;
mod attached;
mod budget;
mod call_report;
pub(crate) mod canonical;
mod cause;
mod changed;
mod continuation;
mod digest;
mod entry;
mod error;
mod event;
mod event_text;
mod family;
mod forked;
mod format;
mod id;
mod id_error;
mod message;
mod message_parts;
mod model;
mod model_ticket;
mod outcome;
mod owner;
mod parameters;
mod parent_policy;
mod prices;
mod provider_part;
mod question;
mod retry;
mod scope;
mod sources;
mod time;
mod tool;
mod tool_filter;
mod transcript;
mod typed;
mod unknown_part;
mod usage;
mod words;

pub use artifact::{Artifact, ArtifactInfo};
pub use attached::{FileError, check_link};
pub(crate) use budget::charge;
pub use budget::{Amounts, Budget, Resource, Spent};
pub use call_report::{AnsweredBy, ApprovalDecision, Approved, CallReport};
pub use cause::{AskedBy, Cause};
pub use changed::Changed;
pub use continuation::{Continuation, Continued};
pub use digest::{CallDigest, Digest};
pub use entry::{Begun, Entry, RunEnd, RunStart, SessionTurn, TurnEnd};
pub use error::{AgentError, ErrorKind, OperationError};
pub use event::{Event, EventId, EventRecord, Preview, RunResult, UnknownEvent};
pub use family::Family;
pub use forked::Forked;
pub use format::FORMAT;
pub(crate) use format::OLDEST;
pub use ghostlight_supervisor::seconds;
pub(crate) use id::OperationMap;
pub use id::{JournalId, OperationId, RunId, SessionId};
pub use id_error::IdError;
pub use message::{
    Arguments, Data, DataSource, Message, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus,
};
pub use model::{
    Delta, FinishReason, ModelRequest, ModelResponse, ModelSettings, OutputSchema, Retold,
    ToolChoice, ToolSet,
};
pub use model_ticket::ModelTicket;
pub use outcome::{Answer, NoAnswer, Outcome, StopReason, Transfer};
pub use owner::tenant_of;
pub use parameters::{ParametersError, legal_parameters};
pub use parent_policy::ParentPolicy;
pub use prices::Prices;
pub use provider_part::{ProviderPart, ProviderPartKind};
pub use question::{Question, QuestionKind};
pub use retry::Retry;
pub use scope::Scope;
pub(crate) use scope::{is_key_of_engine, is_reserved_key, key_of_engine};
pub use time::Timestamp;
pub(crate) use tool::schema_of;
pub use tool::{Approval, Effect, InDoubt, ToolDefinition};
pub(crate) use tool_filter::wildcard;
pub use tool_filter::{CallSpec, ToolFilter};
pub use transcript::Transcript;
pub(crate) use typed::typed_text;
pub use unknown_part::UnknownPart;
pub use usage::Usage;
pub(crate) use words::{as_text, listed};
