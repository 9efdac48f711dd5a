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

/// Makes one call of many: calls of a tool that come within a short time of each other, from whichever
/// runs, are given together to a function that does them at once, as a database or an
/// embedding model can.
///
/// Put it around the tools that the function does. Only calls whose effect is `read` are gathered; others
/// go on alone. A run that is cancelled leaves the rest of its batch to the others. The function sets bounds
/// of its own on time, or a [`Timeout`](super::Timeout) further out does.
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

/// The batch that still gathers calls, if there is one.
type Gathers = Mutex<Option<Batch>>;

/// A batch, as its calls share it.
#[derive(Clone)]
struct Batch {
    asked: Arc<Asked>,
    /// Any of its calls that is alive carries it on. It ends with the last of them.
    done: Shared<BoxFuture<'static, Arc<Results>>>,
}

/// What the calls of a batch ask for.
#[derive(Default)]
struct Asked {
    calls: Mutex<Vec<Arguments>>,
    full: Notify,
}

impl Batching {
    /// Gives calls that come together to this function, which returns as many results, in the same
    /// order: at most 32 calls, of which none waits longer than ten milliseconds for others.
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

    /// Sets how long a call waits at most for others.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Takes a place in the batch that gathers, or begins one.
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
        // Held weakly: the batch that gathers is in there.
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
    /// Closes the batch, does what was asked, and holds the function to its word.
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
        // Only the waiting calls hold the batch, so one that nobody waits for is dropped.
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
