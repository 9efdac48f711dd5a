//! The spans of memories, of retrieval, and of the other steps of a run.

use ghostlight_actors::vocabulary::{OperationError, OperationId, RunId, Timestamp};
use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_sdk::trace::SpanEvents;
use serde::de::IgnoredAny;

use super::{Ended, Finished, Measure, TreeReader, recorded, run::RunSoFar, seconds};
use crate::{conventions as names, ids, words};

/// The purpose of an operation beside model calls and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Memory,
    Retrieval,
    Step,
}

impl Work {
    /// Of the work of an operation; `None` for what takes no time worth a span, such as reading a value of state.
    fn of(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "step" if name.starts_with("recall") => Some(Self::Retrieval),
            "step" => Some(Self::Step),
            _ if kind.starts_with("memory_") => Some(Self::Memory),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Retrieval => "retrieval",
            Self::Step => "step",
        }
    }
}

impl TreeReader {
    /// The span of an operation that is not a call of a model or a tool. When it began is not recorded: not before the entry
    /// that precedes its end.
    pub(super) fn work(
        &self,
        id: RunId,
        run: &RunSoFar,
        (op, kind, name): (OperationId, &str, &str),
        result: &str,
        at: Timestamp,
    ) -> Option<Finished> {
        let work = Work::of(kind, name)?;
        let result: Result<IgnoredAny, OperationError> = recorded(result)?;
        let (error, description) = match result {
            Ok(_) => (None, String::new()),
            Err(failed) => (Some(words::of_kind(&failed.kind)), failed.message),
        };
        let mut attributes = run.attributes(work.as_str(), &self.session);
        attributes.push(KeyValue::new(names::OPERATION_ID, op.to_string()));
        attributes.push(KeyValue::new(names::OPERATION_KIND, kind.to_owned()));
        // A step has the name that a program gives it, and a memory its own.
        let shown = match work {
            Work::Memory => kind.to_owned(),
            Work::Retrieval | Work::Step => format!("{} {name}", work.as_str()),
        };
        let times = (run.last_at, at);
        let measure = Measure::Work {
            work,
            seconds: seconds(times.0, times.1),
            error: error.clone(),
        };
        let ended = Ended {
            id: ids::span_of_operation(id, op),
            parent: ids::span_of_run(id),
            name: shown,
            kind: SpanKind::Internal,
            times,
            attributes,
            events: SpanEvents::default(),
            error,
            description,
        };
        Some(self.finished(ended, measure))
    }
}
