//! Model calls whose answers come hours later.

use std::{
    any::Any,
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{BoxFuture, Clock, ItemBody, MailboxItem, StoreHandle};
use crate::vocabulary::{ModelTicket, OperationError, Retry, RunId, Usage};

/// The surroundings of a System's parts.
pub(crate) trait Surroundings: fmt::Debug + Send + Sync + 'static {
    /// Puts an item into a run's mailbox.
    fn post(&self, run: RunId, item: MailboxItem)
    -> BoxFuture<'static, Result<(), OperationError>>;

    /// The keeper of the actors that packages add.
    fn companions(&self) -> Arc<dyn Any + Send + Sync>;

    /// The store, for what is only read.
    fn store(&self) -> &StoreHandle;

    /// The clock.
    fn clock(&self) -> &Arc<dyn Clock>;
}

/// The System in which a model is asked, for a model that works beside its calls. Cloning shares it.
#[derive(Clone)]
pub struct ModelHost(Arc<dyn Surroundings>);

impl ModelHost {
    pub(crate) fn new(surroundings: Arc<dyn Surroundings>) -> Self {
        Self(surroundings)
    }

    /// The System's store, for what the model must not lose.
    pub fn store(&self) -> &StoreHandle {
        self.0.store()
    }

    /// The System's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.0.clock()
    }

    pub(crate) fn companions(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.companions()
    }

    /// Gives the answer of a suspended call, in the model's own form, and wakes its run. A second answer to a ticket
    /// changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::vocabulary::ErrorKind::NotFound) when the run has ended; what the store fails with.
    pub async fn answer(&self, ticket: &ModelTicket, answer: String) -> Result<(), OperationError> {
        let operation = ticket.operation;
        let given = GivenAnswer {
            ticket: ticket.clone(),
            answer,
        };
        let text = serde_json::to_string(&given).unwrap_or_default();
        let body = ItemBody::Result {
            operation,
            result: Ok(text),
        };
        let item = MailboxItem::new(ticket.item(), self.clock().now(), body);
        self.0.post(ticket.run, item).await
    }
}

impl fmt::Debug for ModelHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelHost({:?})", self.store())
    }
}

/// An answer on its way to the call that waits for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct GivenAnswer {
    ticket: ModelTicket,
    answer: String,
}

/// A model call, as its attempts share it.
pub(crate) trait AttemptedCall: Send + Sync + 'static {
    /// The state of its attempts.
    fn attempts(&self) -> &Attempts;

    /// The same call, if it can wait for hours.
    fn suspendable(self: Arc<Self>) -> Option<Arc<dyn SuspendableCall>>;
}

/// A call that a model may suspend.
pub(crate) trait SuspendableCall: AttemptedCall {
    /// The System in which it is made.
    fn host(&self) -> &ModelHost;

    /// Its ticket for the answer that comes after this many others.
    fn ticket(&self, number: u32) -> ModelTicket;
}

/// The state that all attempts of one call share.
pub(crate) struct Attempts {
    /// How many have begun.
    begun: AtomicU32,
    /// The consumption of those that failed.
    lost: Mutex<Usage>,
    answers: Mutex<Answers>,
    suspended: Notify,
}

/// The answers that came for a call, and how many of them attempts have taken.
struct Answers {
    left: std::vec::IntoIter<String>,
    taken: u32,
}

impl Attempts {
    /// The attempts of a call for which these answers came, after those that were made before.
    pub(crate) fn of(answers: Vec<String>, before: Option<&Retry>) -> Self {
        Self {
            begun: AtomicU32::new(before.map_or(0, |before| before.attempts)),
            lost: Mutex::new(before.map(|before| before.usage).unwrap_or_default()),
            answers: Mutex::new(Answers {
                left: answers.into_iter(),
                taken: before.map_or(0, |before| before.answers),
            }),
            suspended: Notify::new(),
        }
    }

    /// The attempts of a call outside of a run, after this many.
    pub(super) fn after(begun: u32) -> Self {
        let attempts = Self::of(Vec::new(), None);
        attempts.begun.store(begun, Ordering::Relaxed);
        attempts
    }

    /// How many have begun.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The consumption of those that failed.
    pub(crate) fn lost(&self) -> Usage {
        *self.lost.lock()
    }

    /// Adds the consumption of one that failed, and returns that of all.
    pub(crate) fn lose(&self, usage: Usage) -> Usage {
        let mut lost = self.lost.lock();
        *lost += usage;
        *lost
    }

    /// How many answers they have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.answers.lock().taken
    }

    /// Begins the next one, and returns its number.
    pub(super) fn begin(&self) -> u32 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until an attempt suspends the call.
    pub(crate) async fn suspended(&self) {
        self.suspended.notified().await;
    }
}

/// A call outside of a run.
impl AttemptedCall for Attempts {
    fn attempts(&self) -> &Attempts {
        self
    }

    fn suspendable(self: Arc<Self>) -> Option<Arc<dyn SuspendableCall>> {
        None
    }
}

/// A model call's means to wait for hours, shared by its attempts. The model [suspends](Self::suspend) the call: what is
/// under way of it is dropped, interceptors with it, and its run may fall asleep. Once somebody
/// [answers](ModelHost::answer) the [ticket](Self::ticket), the call begins again, and an attempt
/// [takes](Self::take_answer) the answer instead of asking.
#[derive(Clone)]
pub struct Suspension(Arc<dyn SuspendableCall>);

impl Suspension {
    /// The means of this call, if it can wait.
    pub(super) fn of(call: &Arc<dyn AttemptedCall>) -> Option<Self> {
        call.clone().suspendable().map(Self)
    }

    /// The System in which the call is made.
    pub fn host(&self) -> &ModelHost {
        self.0.host()
    }

    /// The ticket for the next answer. It is the same each time until an answer is taken, also after a crash.
    pub fn ticket(&self) -> ModelTicket {
        self.0.ticket(self.0.attempts().answers.lock().taken)
    }

    /// The next answer that came to a ticket of this call, and that no attempt has taken since the call began again.
    pub fn take_answer(&self) -> Option<String> {
        self.take_answer_if(|_| true)
    }

    /// The same, if this finds that the answer is its own. Otherwise the answer stays for another attempt: a model that is
    /// asked where another one fails may have suspended the call.
    pub fn take_answer_if(&self, is_own: impl FnOnce(&str) -> bool) -> Option<String> {
        let mut answers = self.0.attempts().answers.lock();
        loop {
            let text = answers.left.as_slice().first()?;
            let given: Option<GivenAnswer> = serde_json::from_str(text).ok();
            // Others are for a request that was never recorded, or are no answers at all.
            let Some(given) = given.filter(|given| given.ticket == self.0.ticket(answers.taken))
            else {
                answers.left.next();
                continue;
            };
            if !is_own(&given.answer) {
                return None;
            }
            answers.left.next();
            answers.taken += 1;
            return Some(given.answer);
        }
    }

    /// Suspends the call until its ticket is answered. The future never ends: it is dropped. The source of the answer must
    /// be durable before, since the call is not made again until then.
    pub async fn suspend(&self) -> Infallible {
        self.0.attempts().suspended.notify_one();
        std::future::pending().await
    }
}

opaque!(Suspension);
