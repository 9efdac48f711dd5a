use std::time::Duration;

use futures_util::future::{Either, select, select_all};

use crate::{
    run::{
        Arrival, Begin, Composed, Operation, OperationContext, Performing, RunContext, Wait,
        WaitFor,
    },
    vocabulary::{AgentError, Begun, Digest, Timestamp},
};

/// The present time.
#[derive(Clone, Copy, Debug)]
pub struct Now;

impl Operation for Now {
    type Output = Timestamp;

    fn kind(&self) -> &'static str {
        "now"
    }

    fn digest(&self) -> Digest {
        Digest([0; 32])
    }

    fn begin(self, cx: OperationContext) -> Begin<Timestamp> {
        Begin::Ready(Ok(cx.ports.clock().now()))
    }
}

/// Random bits.
#[derive(Clone, Copy, Debug)]
pub struct Draw;

impl Operation for Draw {
    type Output = uuid::Uuid;

    fn kind(&self) -> &'static str {
        "random"
    }

    fn digest(&self) -> Digest {
        Digest([0; 32])
    }

    fn begin(self, cx: OperationContext) -> Begin<uuid::Uuid> {
        let bytes = cx.ports.entropy().bits().to_be_bytes();
        Begin::Ready(Ok(uuid::Builder::from_random_bytes(bytes).into_uuid()))
    }
}

/// A pause.
#[derive(Clone, Copy, Debug)]
pub struct Sleep(Duration);

impl Operation for Sleep {
    type Output = ();

    fn kind(&self) -> &'static str {
        "sleep"
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.0.as_millis().to_le_bytes())
    }

    fn begin(self, cx: OperationContext) -> Begin<()> {
        // A pause that an earlier incarnation began keeps its end.
        let at = match cx.started {
            Some(Begun::Timer(at)) => at,
            _ => cx.ports.clock().forward().after(self.0),
        };
        Begin::Wait(Wait::new(WaitFor::Timer(at), |arrival| match arrival {
            Arrival::Timer => Ok(()),
            other => Err(other.unexpected()),
        }))
    }
}

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
    pub fn now(&self) -> Performing<Now> {
        self.perform(Now)
    }

    /// A fresh random UUID (version 4).
    pub fn uuid(&self) -> Performing<Draw> {
        self.perform(Draw)
    }

    /// A random number from 0 up to, but not including, 1.
    pub fn random(&self) -> Composed<f64> {
        let draw = self.perform(Draw);
        Composed(Box::pin(async move {
            // 53 of the bits that a version 4 UUID leaves free fill the mantissa of a double.
            let bits = draw.await?.as_u128() & ((1 << 53) - 1);
            Ok(bits as f64 / (1u64 << 53) as f64)
        }))
    }

    /// Waits, durably: minutes or weeks, over crashes and restarts.
    pub fn sleep(&self, duration: Duration) -> Performing<Sleep> {
        self.perform(Sleep(duration))
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
