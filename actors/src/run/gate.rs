//! Acts outside of the process, and what each waits for.

use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, future::Either};
use tokio_util::{future::FutureExt as _, sync::CancellationToken};

use super::journal::Durable;
use crate::{contract::BoxFuture, vocabulary::Effect};

/// The condition that an act waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It begins when everything before it is durable.
    Before,
    /// It begins at once; its result counts when everything before it is durable.
    After,
    /// It waits for nothing. It changes nothing, so nothing outside depends on earlier entries.
    Open,
}

impl Gate {
    /// The condition that an act of this effect waits for.
    pub fn of(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Open,
            _ => Self::Before,
        }
    }
}

/// The condition of one act, and what ends it early.
pub(crate) struct Gating {
    pub(super) gate: Gate,
    pub(super) durable: Arc<Durable>,
    /// How many entries must be durable.
    pub(super) mark: u64,
    pub(super) cancelled: CancellationToken,
}

/// An act that has no gate yet.
pub(crate) trait Ungated<T>: Send {
    /// The act behind its gate, in the same box. It gives nothing if it is cancelled.
    fn gate(self: Box<Self>, gating: Gating) -> BoxFuture<'static, Option<T>>;
}

/// An act in a box that has room for its gate.
pub(super) fn ungated<F: Future<Output: Send> + Send + 'static>(
    act: F,
) -> Box<dyn Ungated<F::Output>> {
    Box::new(with_room(act, gated))
}

/// An act, and the function that puts it behind its gate. It is not polled.
struct Held<F, M>(Option<(F, M)>);

impl<F: Future, M> Future for Held<F, M> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

fn with_room<F, M: FnOnce(F, Gating) -> G, G>(act: F, gated: M) -> Either<Held<F, M>, G> {
    Either::Left(Held(Some((act, gated))))
}

impl<F, M, G> Ungated<F::Output> for Either<Held<F, M>, G>
where
    F: Future + Send + 'static,
    M: FnOnce(F, Gating) -> G + Send + 'static,
    G: Future<Output = Option<F::Output>> + Send + 'static,
{
    fn gate(mut self: Box<Self>, gating: Gating) -> BoxFuture<'static, Option<F::Output>> {
        if let Either::Left(held) = &mut *self
            && let Some((act, gated)) = held.0.take()
        {
            *self = Either::Right(gated(act, gating));
        }
        Box::into_pin(self)
    }
}

/// The act behind its gate. Combinators give its room to what comes after it; an `async` block would keep both.
fn gated<F: Future>(act: F, gating: Gating) -> impl Future<Output = Option<F::Output>> {
    let Gating {
        gate,
        durable,
        mark,
        cancelled,
    } = gating;
    let after = (gate == Gate::After).then(|| durable.clone());
    let unwanted = cancelled.clone();
    let before = async move {
        if unwanted.is_cancelled() {
            // It was cancelled before it began.
            return pending().await;
        }
        if gate == Gate::Before {
            durable.passed(mark).await;
            if durable.confirm().await.is_err() {
                // The driver hears of the failure by itself and ends everything.
                pending().await
            }
        }
    };
    let over = before.then(|()| act).then(move |end| async move {
        if let Some(durable) = after {
            durable.passed(mark).await;
        }
        end
    });
    over.with_cancellation_token_owned(cancelled)
}
