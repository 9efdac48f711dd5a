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
    open: Gathers,
}

type Results = Result<Vec<Result<ToolOutput, ToolError>>, ToolError>;
type Work = dyn Fn(Vec<Arguments>) -> BoxFuture<'static, Results> + Send + Sync;

/// The batch that still gathers calls, if there is one.
type Gathers = Arc<Mutex<Option<Arc<Open>>>>;

/// A batch that still gathers calls, or is under way.
struct Open {
    asked: Mutex<Vec<Arguments>>,
    full: Notify,
    /// Whoever of its calls is alive carries it on.
    done: Shared<BoxFuture<'static, Arc<Results>>>,
}

impl Batching {
    /// Has calls that come together done by this function, which gives as many results, in the same
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
            open: Gathers::default(),
        }
    }

    /// Sets how many calls are done together at most.
    #[must_use]
    pub fn max(mut self, calls: usize) -> Self {
        self.max = calls.max(1);
        self
    }

    /// Sets how long a call waits for others at most.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Takes a place in the batch that gathers, or begins one.
    fn join(&self, arguments: Arguments, next: &NextTool<'_>) -> (usize, Arc<Open>) {
        let mut gathers = self.open.lock();
        let batch = gathers.get_or_insert_with(|| self.begin(next)).clone();
        let place = {
            let mut asked = batch.asked.lock();
            asked.push(arguments);
            asked.len() - 1
        };
        if place + 1 >= self.max {
            *gathers = None;
            batch.full.notify_one();
        }
        (place, batch)
    }

    fn begin(&self, next: &NextTool<'_>) -> Arc<Open> {
        let (work, pause) = (self.work.clone(), next.pause(self.within));
        let gathers = self.open.clone();
        Arc::new_cyclic(|batch: &Weak<Open>| {
            let batch = batch.clone();
            let done = async move {
                let Some(batch) = batch.upgrade() else {
                    return Arc::new(Err(ToolError::new("nobody waits for it")));
                };
                tokio::select! {
                    biased;
                    () = batch.full.notified() => {}
                    () = pause => {}
                }
                Arc::new(batch.carry(&gathers, &*work).await)
            };
            Open {
                asked: Mutex::default(),
                full: Notify::new(),
                done: done.boxed().shared(),
            }
        })
    }
}

impl Open {
    /// Closes the batch, does what was asked, and holds the function to its word.
    async fn carry(self: &Arc<Self>, gathers: &Gathers, work: &Work) -> Results {
        let asked = {
            let mut gathers = gathers.lock();
            if gathers.as_ref().is_some_and(|open| Arc::ptr_eq(open, self)) {
                *gathers = None;
            }
            std::mem::take(&mut *self.asked.lock())
        };
        let expected = asked.len();
        let results = AssertUnwindSafe(work(asked)).catch_unwind().await;
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
        let done = batch.done.clone().await;
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
