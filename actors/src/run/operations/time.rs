use std::time::Duration;

use futures_util::future::{Either, select, select_all};
use uuid::{Builder, Uuid};

use super::PlainOperation;
use crate::{
    run::{Arrival, Begin, Composed, Performing, RunContext, Wait, WaitFor},
    vocabulary::{AgentError, Begun, Digest, Timestamp},
};

/// The digest of operations that have no input.
pub(super) const NO_INPUT: Digest = Digest([0; 32]);

/// The time was over before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {0:?}")]
pub struct Elapsed(pub Duration);

impl From<Elapsed> for AgentError {
    fn from(elapsed: Elapsed) -> Self {
        Self::failed(elapsed)
    }
}

impl RunContext {
    /// The present time.
    pub fn now(&self) -> Performing<PlainOperation<Timestamp>> {
        self.perform(PlainOperation::new("now", "", NO_INPUT, |cx| {
            Begin::Ready(Ok(cx.now()))
        }))
    }

    /// A fresh random UUID (version 4).
    pub fn uuid(&self) -> Performing<PlainOperation<Uuid>> {
        self.perform(PlainOperation::new("random", "", NO_INPUT, |cx| {
            let bytes = cx.ports.entropy().bits().to_be_bytes();
            Begin::Ready(Ok(Builder::from_random_bytes(bytes).into_uuid()))
        }))
    }

    /// A random number from 0 up to, but not including, 1.
    pub fn random(&self) -> Composed<f64> {
        let draw = self.uuid();
        Composed(Box::pin(async move {
            // 53 of the bits that a version 4 UUID leaves free fill the mantissa of a double.
            let bits = draw.await?.as_u128() & ((1 << 53) - 1);
            Ok(bits as f64 / (1u64 << 53) as f64)
        }))
    }

    /// Waits, durably: minutes or weeks, over crashes and restarts.
    pub fn sleep(&self, duration: Duration) -> Performing<PlainOperation<()>> {
        let digest = Digest::of(&duration.as_millis().to_le_bytes());
        self.perform(PlainOperation::new("sleep", "", digest, move |cx| {
            // A pause that an earlier incarnation began keeps its end.
            let at = match cx.started {
                Some(Begun::Timer(at)) => at,
                _ => cx.ports.clock().forward().after(duration),
            };
            Begin::Wait(Wait::new(WaitFor::Timer(at), |arrival| match arrival {
                Arrival::Timer => Ok(()),
                other => Err(other.unexpected()),
            }))
        }))
    }

    /// Waits for a future, but not longer than this. When the time is over the future is
    /// dropped, which cancels the operations that it had begun.
    pub fn timeout<F>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + Send + use<F>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let pause = self.sleep(duration);
        async move {
            let future = std::pin::pin!(future);
            match select(future, pause).await {
                Either::Left((output, _)) => Ok(output),
                Either::Right(_) => Err(Elapsed(duration)),
            }
        }
    }

    /// Waits for the first of several futures, and gives its place and its output. The others
    /// are dropped, which cancels the operations that they had begun. With nothing to wait for
    /// it waits for ever.
    pub fn race<F>(
        &self,
        futures: Vec<F>,
    ) -> impl Future<Output = (usize, F::Output)> + Send + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
        async move {
            if futures.is_empty() {
                return std::future::pending().await;
            }
            let (output, place, losers) = select_all(futures).await;
            drop(losers);
            (place, output)
        }
    }
}
