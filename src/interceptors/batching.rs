use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{FutureExt, future::Shared};
use ghostlight_actors::{
    contract::{BoxFuture, Interceptor, NextTool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Combines calls of a tool that come within a short time of each other, from any run, into one
/// call of a function that handles them together, as a database or an embedding model can.
///
/// Put it around the tools that the function replaces. Only calls whose effect is `read` are
/// batched; others are made alone. Cancelling a run does not stop its batch while other runs wait
/// for it. Time limits are the function's own, or those of a [`Timeout`](super::Timeout) further
/// out.
///
/// ```
/// use std::time::Duration;
/// use ghostlight::{contract::{ToolError, ToolOutput}, interceptors::Batching};
/// use ghostlight_actors::{run::Intercept, vocabulary::Arguments};
///
/// let together = Batching::new(|asked: Vec<Arguments>| async move {
///     // One query for all of them.
///     let found = asked.iter().map(|arguments| Ok(ToolOutput::text(arguments.text())));
///     Ok::<_, ToolError>(found.collect())
/// });
/// let intercept = Intercept::new(together.max(50).within(Duration::from_millis(5))).tools(["lookup"]);
/// # drop(intercept);
/// ```
pub struct Batching {
    work: Arc<Work>,
    max: usize,
    within: Duration,
    open: Arc<Gathers>,
}

type Results = Result<Vec<Result<ToolOutput, ToolError>>, ToolError>;
type Work = dyn Fn(Vec<Arguments>) -> BoxFuture<'static, Results> + Send + Sync;

/// The batch that still accepts calls, if there is one.
type Gathers = Mutex<Option<Batch>>;

/// A batch, shared by its calls.
#[derive(Clone)]
struct Batch {
    asked: Arc<Asked>,
    /// Any living call of the batch drives it. It is dropped with the last of them.
    done: Shared<BoxFuture<'static, Arc<Results>>>,
}

/// The arguments of a batch's calls.
#[derive(Default)]
struct Asked {
    calls: Mutex<Vec<Arguments>>,
    full: Notify,
}

impl Batching {
    /// Batches calls for this function, which returns one result for each call, in the same order.
    /// A batch has at most 32 calls, and no call waits longer than ten milliseconds for others.
    pub fn new<F, Fut>(work: F) -> Self
    where
        F: Fn(Vec<Arguments>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Results> + Send + 'static,
    {
        Self {
            work: Arc::new(move |asked| work(asked).boxed()),
            max: 32,
            within: Duration::from_millis(10),
            open: Arc::default(),
        }
    }

    /// Sets the most calls of one batch.
    #[must_use]
    pub fn max(mut self, calls: usize) -> Self {
        self.max = calls.max(1);
        self
    }

    /// Sets the longest time that a call waits for others.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Joins the batch that still accepts calls, or begins one.
    fn join(&self, arguments: Arguments, next: &NextTool<'_>) -> (usize, Batch) {
        let mut gathers = self.open.lock();
        let batch = gathers.get_or_insert_with(|| self.begin(next)).clone();
        let place = {
            let mut calls = batch.asked.calls.lock();
            calls.push(arguments);
            calls.len() - 1
        };
        if place + 1 >= self.max {
            *gathers = None;
            batch.asked.full.notify_one();
        }
        (place, batch)
    }

    fn begin(&self, next: &NextTool<'_>) -> Batch {
        let (work, pause) = (self.work.clone(), next.pause(self.within));
        let asked = Arc::new(Asked::default());
        // A weak reference: the batch that accepts calls is inside it.
        let (asking, gathers) = (asked.clone(), Arc::downgrade(&self.open));
        let done = async move {
            tokio::select! {
                biased;
                () = asking.full.notified() => {}
                () = pause => {}
            }
            Arc::new(asking.carry(&gathers, &*work).await)
        };
        let done = done.boxed().shared();
        Batch { asked, done }
    }
}

impl Asked {
    /// Closes the batch, calls the function, and checks the number of results.
    async fn carry(self: &Arc<Self>, gathers: &Weak<Gathers>, work: &Work) -> Results {
        let calls = {
            let gathers = gathers.upgrade();
            let mut gathers = gathers.as_ref().map(|gathers| gathers.lock());
            if let Some(open) = &mut gathers {
                open.take_if(|open| Arc::ptr_eq(&open.asked, self));
            }
            std::mem::take(&mut *self.calls.lock())
        };
        let expected = calls.len();
        let results = AssertUnwindSafe(work(calls)).catch_unwind().await;
        let results =
            results.map_err(|_| ToolError::new("what does calls together panicked"))??;
        match results.len() {
            given if given == expected => Ok(results),
            given => Err(ToolError::new(format!(
                "{expected} calls were done together, and there are {given} results"
            ))),
        }
    }
}

impl Interceptor for Batching {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        if next.definition().effect != Effect::Read {
            return next.call(arguments, cx).await;
        }
        let (place, batch) = self.join(arguments, &next);
        // Only the waiting calls hold the batch, so a batch without calls is dropped.
        let done = batch.done.await;
        match &*done {
            // There are as many results as calls.
            Ok(results) => results[place].clone(),
            Err(error) => Err(error.clone()),
        }
    }
}

impl fmt::Debug for Batching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batching")
            .field("max", &self.max)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}
