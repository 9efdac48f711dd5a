//! The sources of what operations wait for.

use std::borrow::Cow;

use crate::vocabulary::{OperationId, Timestamp};

/// What ends the waiting of an operation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) enum Source {
    /// A time of the wall clock.
    Time(Timestamp),
    /// The end of a pause: see [`Clock::forward`](crate::contract::Clock::forward).
    Pause(Timestamp),
    /// A message of this name.
    Message(Cow<'static, str>),
    /// An item for this operation.
    Item(OperationId),
    /// The end of the child that this operation began.
    Child(OperationId),
}

/// Where an operation may have come to its end.
pub(in crate::run) enum Look {
    Ready(OperationId),
    At(Source),
    Cancel(OperationId, String),
}
