//! The ractor actor that carries out the commands of the [`Machine`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent,
};
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::child::Child;
use super::child_life::{ChildLife, Event, Events};
use super::exit::{EndReason, Escalation, Exit, RestartDecision, SHUTDOWN};
use super::handle::{Change, ChildInfo, StartError};
use super::machine::{
    Answer, Caller, ChildError, ChildKey, ChildView, Command, How, Incarnation, Input, Machine,
    Timer,
};
use super::spec::SupervisorSpec;

/// The most changes that a watcher may lag behind before it misses some.
const CHANGES_KEPT: usize = 1024;

/// A message to a supervisor. Only [`Supervisor`](super::Supervisor) creates one.
#[derive(Debug)]
pub struct SupervisorMessage(pub(super) Request);

#[cfg(feature = "cluster")]
impl ractor::Message for SupervisorMessage {}

#[derive(Debug)]
pub(super) enum Request {
    /// Events are waiting.
    Wake,
    Start(Child, RpcReplyPort<Result<ActorCell, ChildError>>),
    Restart(String, RpcReplyPort<Result<ActorCell, ChildError>>),
    Terminate(String, RpcReplyPort<Result<(), ChildError>>),
    Delete(String, RpcReplyPort<Result<(), ChildError>>),
    Find(String, RpcReplyPort<Option<ActorCell>>),
    Which(RpcReplyPort<Vec<(ChildInfo, Option<ActorCell>)>>),
    Watch(RpcReplyPort<broadcast::Receiver<Change>>),
}

/// The arguments of a supervisor's start.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) spec: SupervisorSpec,
    pub(super) children: Vec<Child>,
    pub(super) escalate: Option<Arc<dyn Fn(Escalation) + Send + Sync>>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, children, .. } = self;
        f.debug_struct("Plan")
            .field("spec", spec)
            .field("children", children)
            .finish_non_exhaustive()
    }
}

enum Port {
    Actor(RpcReplyPort<Result<ActorCell, ChildError>>),
    Done(RpcReplyPort<Result<(), ChildError>>),
}

/// The actor. All its waiting happens in tasks that its state owns.
pub(super) struct SupervisorActor;

pub(super) struct State {
    machine: Machine,
    origin: Instant,
    myself: ActorCell,
    events: Events,
    mailbox: mpsc::UnboundedReceiver<Event>,
    /// Exits during the first start, handled once ractor's events can be received.
    deferred: Vec<Event>,
    children: BTreeMap<ChildKey, Child>,
    lives: BTreeMap<Incarnation, ChildLife>,
    /// The number of lives whose actor is not known yet.
    starting: usize,
    known: HashMap<ActorId, Incarnation>,
    /// Exits that ractor has reported before the end of the actor's task was.
    exits: HashMap<ActorId, Exit>,
    timers: BTreeMap<Timer, AbortOnDropHandle<()>>,
    callers: BTreeMap<Caller, Port>,
    next_caller: u64,
    changes: broadcast::Sender<Change>,
    escalate: Option<Arc<dyn Fn(Escalation) + Send + Sync>>,
    end: Option<EndReason>,
}

impl Actor for SupervisorActor {
    type Msg = SupervisorMessage;
    type State = State;
    type Arguments = Plan;

    /// Starts the first children, one after another. If one does not start, those before it are
    /// stopped in reverse order, and the supervisor does not start either.
    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        plan: Plan,
    ) -> Result<State, ActorProcessingErr> {
        let mut state = State::new(&myself, plan)?;
        state.apply(Input::Boot);
        while !state.machine.is_serving() && !state.machine.is_ended() {
            let Some(event) = state.mailbox.recv().await else {
                break;
            };
            match event {
                // The exit is not known yet: ractor delivers no events before we have started.
                Event::Ended { .. } if !state.machine.is_ending() => state.deferred.push(event),
                event => state.take(event, true),
            }
            if state.machine.is_ending() {
                for event in std::mem::take(&mut state.deferred) {
                    state.take(event, true);
                }
            }
        }
        match state.end {
            None => Ok(state),
            Some(EndReason::StartFailed { child, error }) => {
                Err(StartError::Child { child, error }.into())
            }
            Some(reason) => Err(StartError::Refused {
                error: reason.to_string(),
            }
            .into()),
        }
    }

    async fn post_start(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        for event in std::mem::take(&mut state.deferred) {
            state.events.send(event);
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: SupervisorMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message.0 {
            Request::Wake => {
                while let Ok(event) = state.mailbox.try_recv() {
                    state.take(event, false);
                }
            }
            request => state.answer(request),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(actor) = event.actor_id()
            && (state.starting > 0 || state.known.contains_key(&actor))
        {
            // The event contains the child's state, whose destructor is the child's code.
            let exit = catch_unwind(AssertUnwindSafe(|| Exit::from_event(event)));
            let panicked = || {
                Some(Exit::Failed {
                    error: "dropping its state panicked".into(),
                })
            };
            if let Some(exit) = exit.unwrap_or_else(|_| panicked()) {
                state.exits.insert(actor, exit);
                state.report_came(actor);
            }
        }
        Ok(())
    }

    /// Stops the children, if that has not happened yet; otherwise ractor would kill them.
    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.apply(Input::Shutdown);
        while !state.machine.is_ended() {
            let Some(event) = state.mailbox.recv().await else {
                break;
            };
            state.take(event, true);
        }
        Ok(())
    }
}

/// A random seed for a supervisor without one.
fn drawn_seed() -> u64 {
    rand::random()
}

impl State {
    fn new(myself: &ActorRef<SupervisorMessage>, plan: Plan) -> Result<Self, StartError> {
        let specs: Vec<_> = plan
            .children
            .iter()
            .map(|child| child.spec().clone())
            .collect();
        let machine = Machine::new(plan.spec, specs, drawn_seed())?;
        let keys: Vec<ChildKey> = machine.children().map(|view| view.key).collect();
        let (events, mailbox) = Events::new(myself.clone());
        Ok(Self {
            machine,
            origin: Instant::now(),
            myself: myself.get_cell(),
            events,
            mailbox,
            deferred: Vec::new(),
            children: keys.into_iter().zip(plan.children).collect(),
            lives: BTreeMap::new(),
            starting: 0,
            known: HashMap::new(),
            exits: HashMap::new(),
            timers: BTreeMap::new(),
            callers: BTreeMap::new(),
            next_caller: 0,
            changes: broadcast::Sender::new(CHANGES_KEPT),
            escalate: plan.escalate,
            end: None,
        })
    }

    fn apply(&mut self, input: Input) {
        for command in self.machine.handle(self.origin.elapsed(), input) {
            self.carry_out(command);
        }
    }

    /// Handles an event of one of our tasks. `last` says that ractor will deliver no more events.
    fn take(&mut self, event: Event, last: bool) {
        match event {
            Event::Started(incarnation, actor) => self.started(incarnation, actor),
            Event::StartFailed(incarnation, error) => {
                self.forget_life(incarnation);
                let exit = Exit::StartFailed {
                    error: error.clone(),
                };
                let verdict = self.classify(incarnation, &exit);
                self.apply(Input::StartFailed {
                    incarnation,
                    error,
                    verdict,
                });
            }
            Event::Ignored(incarnation) => {
                self.forget_life(incarnation);
                self.apply(Input::Ignored(incarnation));
            }
            Event::Ended {
                incarnation,
                settled,
            } => self.ended(incarnation, settled || last),
            Event::TimerFired(timer) => {
                self.timers.remove(&timer);
                self.apply(Input::TimerFired(timer));
            }
        }
    }

    fn started(&mut self, incarnation: Incarnation, actor: ActorCell) {
        match self.lives.get_mut(&incarnation) {
            Some(life) => {
                self.known.insert(actor.get_id(), incarnation);
                life.actor = Some(actor);
                self.starting -= 1;
                if self.starting == 0 {
                    // Exits of actors that somebody else linked to us.
                    self.exits.retain(|actor, _| self.known.contains_key(actor));
                }
                self.apply(Input::Started(incarnation));
            }
            None => actor.kill(),
        }
    }

    /// A life has ended. ractor sent its report before the task ended, but to another port than
    /// this event, and into a queue behind senders that may still be writing. So the report may
    /// arrive later, and is waited for, unless `settled` says that it will not come.
    fn ended(&mut self, incarnation: Incarnation, settled: bool) {
        let Some(life) = self.lives.get_mut(&incarnation) else {
            return;
        };
        let exit = life
            .actor
            .as_ref()
            .and_then(|actor| self.exits.remove(&actor.get_id()));
        if exit.is_none() && life.actor.is_some() && !settled {
            return life.await_report(incarnation, self.events.clone());
        }
        self.forget_life(incarnation);
        let exit = exit.unwrap_or(Exit::Unobserved);
        let verdict = self.classify(incarnation, &exit);
        self.apply(Input::Exited {
            incarnation,
            exit,
            verdict,
        });
    }

    /// ractor has reported how this actor ended; its life may have been waiting for the report.
    fn report_came(&mut self, actor: ActorId) {
        let Some(incarnation) = self.known.get(&actor).copied() else {
            return;
        };
        if self
            .lives
            .get(&incarnation)
            .is_some_and(ChildLife::awaits_report)
        {
            self.ended(incarnation, true);
        }
    }

    fn forget_life(&mut self, incarnation: Incarnation) {
        match self.lives.remove(&incarnation) {
            Some(ChildLife {
                actor: Some(actor), ..
            }) => {
                self.known.remove(&actor.get_id());
                self.exits.remove(&actor.get_id());
            }
            Some(_) => self.starting -= 1,
            None => {}
        }
    }

    fn classify(&self, incarnation: Incarnation, exit: &Exit) -> RestartDecision {
        self.children
            .get(&incarnation.child)
            .map_or(RestartDecision::Counted, |child| child.classify(exit))
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Spawn(incarnation) => self.spawn(incarnation),
            Command::Stop(incarnation, how) => {
                if let Some(life) = self.lives.get_mut(&incarnation) {
                    match how {
                        How::CancelStart => life.cancel_start(),
                        How::Gently => life.stop(SHUTDOWN),
                        How::Kill => life.kill(),
                    }
                }
            }
            Command::ArmTimer(timer, after) => {
                let events = self.events.clone();
                let task = tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    events.send(Event::TimerFired(timer));
                });
                self.timers.insert(timer, AbortOnDropHandle::new(task));
            }
            Command::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Command::Reply(caller, answer) => self.reply(caller, answer),
            Command::Changed(_, id, state) => {
                tracing::debug!(supervisor = %self.myself.get_id(), child = id, ?state, "child");
                // There may be no watchers.
                let _ = self.changes.send(Change { id, state });
            }
            Command::Forget(key) => {
                self.children.remove(&key);
            }
            Command::Escalate(escalation) => {
                tracing::warn!(supervisor = %self.myself.get_id(), %escalation, "restarts used up");
                if let Some(escalate) = &self.escalate {
                    escalate(escalation);
                }
            }
            Command::Booted => {}
            Command::EndSelf(reason) => {
                self.myself.stop(Some(reason.to_string()));
                self.end = Some(reason);
            }
        }
    }

    fn spawn(&mut self, incarnation: Incarnation) {
        // The table of factories contains every child of the machine.
        let Some(child) = self.children.get(&incarnation.child) else {
            return;
        };
        let (life, started) = ChildLife::start(child, incarnation, self.events.clone());
        self.lives.insert(incarnation, life);
        self.starting += 1;
        if let Some(actor) = started {
            self.started(incarnation, actor);
        }
    }

    /// Sends an answer; the caller may have gone away.
    fn reply(&mut self, caller: Caller, answer: Answer) {
        match (self.callers.remove(&caller), answer) {
            (Some(Port::Actor(port)), Answer::Started(incarnation)) => {
                let actor = self.actor_of(incarnation).ok_or(ChildError::NotFound);
                let _ = port.send(actor);
            }
            (Some(Port::Actor(port)), Answer::Done) => {
                let _ = port.send(Err(ChildError::NotFound));
            }
            (Some(Port::Actor(port)), Answer::Refused(error)) => {
                let _ = port.send(Err(error));
            }
            (Some(Port::Done(port)), Answer::Refused(error)) => {
                let _ = port.send(Err(error));
            }
            (Some(Port::Done(port)), Answer::Done | Answer::Started(_)) => {
                let _ = port.send(Ok(()));
            }
            (None, _) => {}
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Wake => {}
            Request::Start(child, port) => {
                let caller = self.caller(Port::Actor(port));
                let key = self.machine.allocate();
                let spec = child.spec().clone();
                self.children.insert(key, child);
                self.apply(Input::StartChild { caller, key, spec });
            }
            Request::Restart(id, port) => {
                let caller = self.caller(Port::Actor(port));
                self.apply(Input::RestartChild { caller, id });
            }
            Request::Terminate(id, port) => {
                let caller = self.caller(Port::Done(port));
                self.apply(Input::TerminateChild { caller, id });
            }
            Request::Delete(id, port) => {
                let caller = self.caller(Port::Done(port));
                self.apply(Input::DeleteChild { caller, id });
            }
            Request::Find(id, port) => {
                let life = self.machine.find(&id).and_then(|child| child.incarnation);
                let _ = port.send(life.and_then(|incarnation| self.actor_of(incarnation)));
            }
            Request::Which(port) => {
                let children = self.machine.children().map(|child| self.describe(child));
                let _ = port.send(children.collect());
            }
            Request::Watch(port) => {
                let _ = port.send(self.changes.subscribe());
            }
        }
    }

    fn caller(&mut self, port: Port) -> Caller {
        let caller = Caller(self.next_caller);
        self.next_caller += 1;
        self.callers.insert(caller, port);
        caller
    }

    fn actor_of(&self, incarnation: Incarnation) -> Option<ActorCell> {
        self.lives.get(&incarnation)?.actor.clone()
    }

    fn describe(&self, child: ChildView<'_>) -> (ChildInfo, Option<ActorCell>) {
        let actor = child
            .incarnation
            .and_then(|incarnation| self.actor_of(incarnation));
        let info = ChildInfo {
            id: child.spec.id.clone(),
            kind: child.spec.kind,
            restart: child.spec.restart,
            state: child.state,
            restarts: child.restarts,
            actor: actor.as_ref().map(|actor| actor.get_id().to_string()),
            children: Vec::new(),
        };
        (info, actor)
    }
}
