use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    run::{Act, Begin, Gate, Operation, OperationContext, Performing, RunContext},
    vocabulary::{Begun, Digest, Effect, ErrorKind, OperationError},
};

/// A side effect in the user's own code.
pub struct Step<F> {
    name: String,
    effect: Effect,
    future: F,
}

impl<F> fmt::Debug for Step<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F, T, E> Operation for Step<F>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
    E: fmt::Display + Send + 'static,
{
    type Output = T;

    fn kind(&self) -> &'static str {
        "step"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        Digest::of(self.name.as_bytes())
    }

    fn begin(self, cx: OperationContext) -> Begin<T> {
        let once = self.effect == Effect::Once;
        let name = self.name;
        if cx.start().dry_run && self.effect != Effect::Read {
            let message = format!("dry run: the step {name:?} was not done");
            return Begin::failed(ErrorKind::Denied, message);
        }
        if once && matches!(cx.started, Some(Begun::Effect)) {
            let message = format!(
                "the step {name:?} was started, and its outcome is unknown; it is not repeated"
            );
            return Begin::act(Gate::Open, async move {
                cx.durable.settled().await;
                Err(OperationError::new(ErrorKind::InDoubt, message))
            });
        }
        let future = self.future;
        let act = async move {
            // A task of its own contains a panic. Dropping the handle ends the task.
            let task = AbortOnDropHandle::new(tokio::spawn(future));
            Begin::Ready(match task.await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(OperationError::new(
                    ErrorKind::Other,
                    format!("{name}: {error}"),
                )),
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
        Begin::Act(Act::new(Gate::of(self.effect), act).recorded(once))
    }
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
    ) -> Performing<Step<F>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        self.perform(Step {
            name: name.into(),
            effect,
            future,
        })
    }
}
