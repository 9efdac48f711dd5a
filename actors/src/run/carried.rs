//! Calls to the world that outlast the run that makes them.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{InputDigest, calls::ToolInvocation};
use crate::{
    contract::BoxFuture,
    vocabulary::{CallDigest, OperationId, RunId, ToolCall},
};

/// A call's key: its run and its operation, in every incarnation of the run.
pub(crate) type CallKey = (RunId, OperationId);

/// The request of a call. If an answer was lost on its way to the disk, the next incarnation of the run may use the same
/// operation for another request.
#[derive(Clone)]
pub(crate) enum Asked {
    Model(InputDigest),
    Tool(Arc<ToolInvocation>),
}

impl Asked {
    /// A digest of it: for a tool, of its name, the arguments and the model's id of the call. A result carries that id, so
    /// it belongs to a call with the same id only.
    pub(crate) fn digest(&self) -> InputDigest {
        match self {
            Self::Model(digest) => digest.clone(),
            Self::Tool(invocation) => {
                let mut hasher = DefaultHasher::new();
                let ToolCall {
                    id,
                    name,
                    arguments,
                    ..
                } = &*invocation.call;
                (name, arguments.text(), id).hash(&mut hasher);
                CallDigest(hasher.finish()).into()
            }
        }
    }
}

/// How a call is to be carried.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) key: CallKey,
    pub(crate) asked: Asked,
    /// Fires when the call's result is no longer wanted.
    pub(crate) unwanted: CancellationToken,
    /// Whether the call goes on to a known end although its result is no longer wanted.
    pub(crate) settles: bool,
}

/// Takes over calls whose run is gone.
pub(crate) trait Keeper<T>: Send + Sync {
    fn take_over(&self, call: BoxFuture<'static, T>, manner: Manner);
}

/// A call that is carried by the task that polls it. If it is dropped before its end, its keeper takes it over, unless its
/// result is unwanted.
pub(crate) struct Carried<T: 'static> {
    call: Option<BoxFuture<'static, T>>,
    begun: bool,
    keeper: Option<(Manner, Arc<dyn Keeper<T>>)>,
}

impl<T: 'static> Carried<T> {
    /// A call that this keeper takes over.
    pub(crate) fn kept(
        call: BoxFuture<'static, T>,
        manner: Manner,
        keeper: Arc<dyn Keeper<T>>,
    ) -> Self {
        Self {
            call: Some(call),
            begun: false,
            keeper: Some((manner, keeper)),
        }
    }

    /// A call that nobody takes over.
    pub(crate) fn alone(call: BoxFuture<'static, T>) -> Self {
        Self {
            call: Some(call),
            begun: false,
            keeper: None,
        }
    }
}

impl<T: 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        let polled = call.poll_unpin(cx);
        if polled.is_ready() {
            self.call = None;
        }
        polled
    }
}

impl<T: 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let (Some(call), Some((manner, keeper))) = (self.call.take(), self.keeper.take())
            && self.begun
            && (manner.settles || !manner.unwanted.is_cancelled())
        {
            keeper.take_over(call, manner);
        }
    }
}
