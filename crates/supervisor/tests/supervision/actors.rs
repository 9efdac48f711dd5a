//! Actors that do what a test says, and write down what happens to them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use ghostlight_supervisor::{
    Change, Child, ChildSpec, ChildState, Escalation, Ignore, Strategy, Supervisor, SupervisorSpec,
};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{Semaphore, broadcast};

/// What happened, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|other| *other == line).count()
    }
}

/// How a probe starts.
#[derive(Debug, Clone, Default)]
pub(crate) enum Start {
    #[default]
    Ready,
    /// Waits for a permit.
    Gate(Arc<Semaphore>),
    /// Returns an error as long as the number is above zero, and lowers it.
    Fail(Arc<AtomicU32>),
    Panic,
    Ignore,
    /// Stops itself before it has started.
    StopAtOnce,
    /// Asks its own supervisor for its children.
    AskSupervisor,
}

#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) id: String,
    pub(crate) log: Log,
    pub(crate) start: Start,
    /// Waits for ever in `post_stop`.
    pub(crate) stubborn: bool,
    /// Starts another actor below itself, linked by ractor alone.
    pub(crate) below: Option<fn(Log, ActorCell) -> BoxFuture<'static, ()>>,
}

impl Probe {
    pub(crate) fn new(id: &str, log: &Log) -> Self {
        Self {
            id: id.to_owned(),
            log: log.clone(),
            start: Start::Ready,
            stubborn: false,
            below: None,
        }
    }

    pub(crate) fn child(self, spec: ChildSpec) -> Child {
        Child::of(spec, move || (self.clone(), ()))
    }
}

#[derive(Debug)]
pub(crate) enum Order {
    Panic,
    Fail,
    /// Changes half of its state and then never returns.
    Hang,
    /// Blocks its thread until told.
    Block(Receiver<()>),
    /// Writes this down.
    Note(String),
}

#[cfg(feature = "cluster")]
impl ractor::Message for Order {}

/// A state that says when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    id: String,
    log: Log,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.log.write(format!("{} dropped", self.id));
    }
}

impl Actor for Probe {
    type Msg = Order;
    type State = Guard;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Order>,
        (): (),
    ) -> Result<Guard, ActorProcessingErr> {
        self.log.write(format!("{} starts", self.id));
        match &self.start {
            Start::Ready => {}
            Start::Gate(gate) => gate.acquire().await?.forget(),
            Start::Fail(times) => {
                let lower = |left: u32| left.checked_sub(1);
                if times
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, lower)
                    .is_ok()
                {
                    return Err("not yet".into());
                }
            }
            Start::Panic => panic!("in pre_start"),
            Start::StopAtOnce => myself.stop(None),
            Start::Ignore => return Err(Ignore.into()),
            Start::AskSupervisor => {
                // It is not linked yet: its supervisor is known from the outside.
                let supervisor = SUPERVISOR.with(|cell| cell.borrow().clone()).unwrap();
                let children = supervisor.which_children().await?;
                self.log
                    .write(format!("{} sees {} children", self.id, children.len()));
            }
        }
        if let Some(start) = self.below {
            start(self.log.clone(), myself.get_cell()).await;
        }
        self.log.write(format!("{} started", self.id));
        Ok(Guard {
            id: self.id.clone(),
            log: self.log.clone(),
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Order>,
        order: Order,
        state: &mut Guard,
    ) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Panic => panic!("as ordered"),
            Order::Fail => return Err("as ordered".into()),
            Order::Hang => {
                state.id.push_str(" half changed");
                std::future::pending::<()>().await;
            }
            Order::Block(until) => {
                self.log.write(format!("{} blocks", self.id));
                // Synchronous to this actor, whose kill it outlasts. Not `recv` alone: tokio may have put
                // the supervisor's task behind this one, where no other thread can take it from.
                let _ = tokio::task::block_in_place(|| until.recv());
                self.log.write(format!("{} blocked", self.id));
            }
            Order::Note(what) => self.log.write(format!("{} {what}", self.id)),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Order>,
        _: SupervisionEvent,
        _: &mut Guard,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Order>, _: &mut Guard) -> Result<(), ActorProcessingErr> {
        self.log.write(format!("{} stops", self.id));
        if self.stubborn {
            std::future::pending::<()>().await;
        }
        self.log.write(format!("{} stopped", self.id));
        Ok(())
    }
}

std::thread_local! {
    /// For [`Start::AskSupervisor`]; the tests that use it run on one thread.
    pub(crate) static SUPERVISOR: std::cell::RefCell<Option<Supervisor>> =
        const { std::cell::RefCell::new(None) };
}

/// An actor above a supervisor: notes escalations and ends.
#[derive(Debug)]
pub(crate) struct Parent(pub(crate) Log);

#[derive(Debug)]
pub(crate) struct Escalated(Escalation);

#[cfg(feature = "cluster")]
impl ractor::Message for Escalated {}

impl From<Escalation> for Escalated {
    fn from(escalation: Escalation) -> Self {
        Self(escalation)
    }
}

impl Actor for Parent {
    type Msg = Escalated;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Escalated>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Escalated>,
        Escalated(escalation): Escalated,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        self.0.write(format!("escalated: {escalation}"));
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Escalated>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(_, _, reason) => {
                self.0
                    .write(format!("ended: {}", reason.unwrap_or_default()));
            }
            SupervisionEvent::ActorFailed(_, error) => self.0.write(format!("failed: {error}")),
            _ => {}
        }
        Ok(())
    }
}

/// A supervisor with these restarts in 5 seconds, and these children.
pub(crate) async fn supervise(
    strategy: Strategy,
    restarts: u32,
    children: impl IntoIterator<Item = Child>,
) -> Supervisor {
    let spec = SupervisorSpec::new(strategy).intensity(restarts, Duration::from_secs(5));
    Supervisor::builder(spec)
        .children(children)
        .start()
        .await
        .unwrap()
        .0
}

pub(crate) async fn actor(supervisor: &Supervisor, id: &str) -> ActorCell {
    supervisor
        .find_child(id)
        .await
        .unwrap()
        .unwrap_or_else(|| panic!("{id} does not run"))
}

pub(crate) async fn order(supervisor: &Supervisor, id: &str, order: Order) {
    actor(supervisor, id).await.send_message(order).unwrap();
}

/// Waits for a child's state, at most two minutes.
pub(crate) async fn seen(changes: &mut broadcast::Receiver<Change>, id: &str, state: ChildState) {
    let wait = async {
        loop {
            let change = changes.recv().await.expect("the supervisor ended");
            if change.id == id && change.state == state {
                return;
            }
        }
    };
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, wait)
        .await
        .unwrap_or_else(|_| panic!("never saw {id} {state:?}"));
}

pub(crate) async fn state_of(supervisor: &Supervisor, id: &str) -> Option<ChildState> {
    let children = supervisor.which_children().await.unwrap();
    children
        .into_iter()
        .find(|child| child.id == id)
        .map(|child| child.state)
}
