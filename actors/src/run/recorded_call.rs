//! Operations as journals hold them.

use super::{call_identity::CallIdentity, recorded_note::RecordedNote};
use crate::vocabulary::{Begun, CallDigest, Family, QuestionKind, Resource, Retry, Spent};

/// What an earlier incarnation recorded in one place.
#[derive(Debug)]
pub(crate) enum Record {
    Call(RecordedCall),
    Note(RecordedNote),
}

/// The journal's word on a call.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCall {
    pub(crate) identity: CallIdentity,
    /// The last start that is recorded.
    pub(crate) begun: Option<Begun>,
    /// What was spent on a model call when it waited for its provider last.
    pub(crate) retry: Option<Box<Retry>>,
    /// Whether its end is recorded.
    pub(crate) completed: bool,
    /// Whether the journal records that the function dropped it.
    pub(crate) dropped: bool,
    /// The digest of the last recorded input that differed from the first.
    pub(crate) drifted: Option<CallDigest>,
}

impl Record {
    pub(super) fn call(&self) -> Option<&RecordedCall> {
        match self {
            Self::Call(call) => Some(call),
            Self::Note(_) => None,
        }
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut RecordedCall> {
        match self {
            Self::Call(call) => Some(call),
            Self::Note(_) => None,
        }
    }
}

impl RecordedCall {
    /// Whether the call may have happened: an earlier incarnation began it, or asked a person about it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match &self.begun {
            Some(Begun::Effect) => true,
            Some(Begun::Question(question)) => question.kind == QuestionKind::InDoubt,
            _ => false,
        }
    }

    /// The consumption of a call that has no result, and that this incarnation did not begin.
    pub(crate) fn charge(&self) -> Spent {
        match &self.retry {
            Some(retry) => Spent {
                usage: retry.usage,
                ..Spent::one(Resource::ModelCalls)
            },
            None => Family::of(&self.identity.kind).consumed(),
        }
    }
}
