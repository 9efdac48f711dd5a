use std::fmt;

use futures_util::TryFutureExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::task::AbortOnDropHandle;

use super::PlainOperation;
use crate::{
    run::{Act, Begin, Gate, OperationContext, Performing, RunContext},
    vocabulary::{Begun, Digest, Effect, ErrorKind, OperationError},
};

/// Begins a side effect in the user's own code.
fn begin_step<T>(
    cx: &OperationContext,
    name: String,
    effect: Effect,
    future: impl Future<Output = Result<T, OperationError>> + Send + 'static,
) -> Begin<T>
where
    T: Serialize + Send + 'static,
{
    let once = effect == Effect::Once;
    if cx.start().dry_run && effect != Effect::Read {
        let message = format!("dry run: the step {name:?} was not done");
        return Begin::failed(ErrorKind::Denied, message);
    }
    if once && matches!(cx.started, Some(Begun::Effect)) {
        let message = format!(
            "the step {name:?} was started, and its outcome is unknown; it is not repeated"
        );
        let durable = cx.durable.clone();
        return Begin::act(Gate::Open, async move {
            durable.settled().await;
            Err(OperationError::new(ErrorKind::InDoubt, message))
        });
    }
    let act = async move {
        // A task of its own contains a panic. Dropping the handle ends the task.
        let task = AbortOnDropHandle::new(tokio::spawn(future));
        Begin::Ready(match task.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => {
                let kind = if once {
                    ErrorKind::InDoubt
                } else {
                    ErrorKind::Panicked
                };
                Err(OperationError::new(
                    kind,
                    format!("the step {name:?} panicked"),
                ))
            }
            Err(_) => Err(OperationError::new(
                ErrorKind::Cancelled,
                format!("the step {name:?} was stopped with its runtime"),
            )),
        })
    };
    Begin::Act(Act::new(Gate::of(effect), act).recorded(once))
}

impl RunContext {
    /// Performs a side effect of the function's own, with its effect class: a `read` or
    /// `idempotent` step may run again after a crash, a `once` step never does. The future runs
    /// only when no result is recorded.
    ///
    /// # Errors
    /// The error of the future. [`ErrorKind::InDoubt`] when a `once` step was begun and its end is
    /// not recorded.
    pub fn step<F, T, E>(
        &self,
        name: impl Into<String>,
        effect: Effect,
        future: F,
    ) -> Performing<PlainOperation<T>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let name = name.into();
        let failed = name.clone();
        let future = future.map_err(move |error| {
            OperationError::new(ErrorKind::Other, format!("{failed}: {error}"))
        });
        self.step_with(name, effect, future)
    }

    /// The same, of a future that says itself what kind its failure is.
    pub(crate) fn step_with<T>(
        &self,
        name: String,
        effect: Effect,
        future: impl Future<Output = Result<T, OperationError>> + Send + 'static,
    ) -> Performing<PlainOperation<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let digest = Digest::of(name.as_bytes());
        let begin_name = name.clone();
        self.perform(PlainOperation::new("step", name, digest, move |cx| {
            begin_step(&cx, begin_name, effect, future)
        }))
    }
}
