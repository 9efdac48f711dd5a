//! The decisions of a supervisor as a pure state machine: no actor, no task and no clock in it.
//!
//! [`Machine::handle`] takes one [`Input`] and the time, and returns the [`Command`]s to carry out,
//! in order. The rules are those of Erlang/OTP's `supervisor` (stdlib), plus back-off, excused exits
//! and escalation. OTP's supervisor does one thing at a time and lets everything else wait in its
//! mailbox; this one never waits, so that what OTP would find in its mailbox afterwards arrives in
//! the middle. Each such case ends as it would have ended in OTP, with these liberties:
//!
//! - a child's start can be interrupted, by terminating it, by its group's restart or by the end;
//! - a child that dies while others restart widens that restart at once;
//! - a child added while its group restarts is started last, with the group;
//! - a group goes on without a member that is terminated while the group restarts.
//!
//! Architecture invariant: of one child at most one incarnation exists. The next [`Command::Spawn`]
//! comes only after [`Input::Exited`], [`Input::StartFailed`] or [`Input::Ignored`] for the one before.

mod child_commands;
mod ending;
mod group;
mod lifecycle;
mod slot;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use self::group::{Group, Step};
use self::slot::{ChildSlot, Status};
use super::exit::{EndReason, Escalation, Exit, RestartDecision};
use super::spec::{ChildSpec, SpecError, SupervisorSpec};

/// The shortest wait before the restart that follows an excused exit: nothing else would keep a child
/// that fails at once from being restarted in a busy loop.
pub const EXCUSED_DELAY_MIN: Duration = Duration::from_millis(100);

/// A child's place below its supervisor. Start order is the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKey(u64);

/// One life of a child: its place, and a number that no other life below this supervisor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// Whose life.
    pub child: ChildKey,
    /// The number; later lives have larger ones.
    pub generation: u64,
}

/// A timer that the machine has armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(u64);

/// Who waits for an answer; chosen by whoever drives the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The supervisor starts: start the first children, each after the one before.
    Boot,
    /// Add a child and start it.
    StartChild {
        /// Who asks.
        caller: Caller,
        /// Its place, from [`Machine::allocate`].
        key: ChildKey,
        /// The child.
        spec: ChildSpec,
    },
    /// Stop a child, or its coming restart.
    TerminateChild {
        /// Who asks.
        caller: Caller,
        /// Which child.
        id: String,
    },
    /// Start a child that is stopped.
    RestartChild {
        /// Who asks.
        caller: Caller,
        /// Which child.
        id: String,
    },
    /// Forget a child that is stopped.
    DeleteChild {
        /// Who asks.
        caller: Caller,
        /// Which child.
        id: String,
    },
    /// A child started.
    Started(Incarnation),
    /// A child did not start.
    StartFailed {
        /// Which life did not begin.
        incarnation: Incarnation,
        /// Why.
        error: String,
        /// What the child's classifier says about it.
        verdict: RestartDecision,
    },
    /// A child chose not to start.
    Ignored(Incarnation),
    /// A child has really ended, or a start that was cancelled has.
    Exited {
        /// Which life ended.
        incarnation: Incarnation,
        /// How.
        exit: Exit,
        /// What the child's classifier says about it.
        verdict: RestartDecision,
    },
    /// A timer's time has come.
    TimerFired(Timer),
    /// The supervisor is to end.
    Shutdown,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Start this life.
    Spawn(Incarnation),
    /// End this life; the end is then told by [`Input::Exited`].
    Stop(Incarnation, How),
    /// Tell when this time from now has passed.
    ArmTimer(Timer, Duration),
    /// That timer is no longer wanted.
    CancelTimer(Timer),
    /// Answer a caller (exactly once each).
    Reply(Caller, Answer),
    /// A child's state is now this one.
    Changed(ChildKey, String, ChildState),
    /// This child is gone from the table; nothing will be asked of it again.
    Forget(ChildKey),
    /// Tell the parent that restarts are used up.
    Escalate(Escalation),
    /// All first children have started; the supervisor has.
    Booted,
    /// All children have ended; so shall the supervisor.
    EndSelf(EndReason),
}

/// How a life is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its start is dropped. If it has started meanwhile, it stays until asked otherwise.
    CancelStart,
    /// It is asked to stop.
    Gently,
    /// It is killed.
    Kill,
}

/// What a caller gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The child runs: this life.
    Started(Incarnation),
    /// It is done.
    Done,
    /// It is not done.
    Refused(ChildError),
}

/// Why a command to a supervisor was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// No child has this id.
    #[error("no such child; see `which_children` for those there are")]
    NotFound,
    /// The child runs or is being started by command.
    #[error("the child is running; terminate it first")]
    Running,
    /// The child waits for its restart or is being restarted.
    #[error("the child is being restarted; wait for it, or terminate it first")]
    Restarting,
    /// A running child has this id.
    #[error("a child with this id is already started; use it, or choose another id")]
    AlreadyStarted,
    /// A child that does not run has this id.
    #[error("a child with this id is present but does not run; restart it or delete it")]
    AlreadyPresent,
    /// The child did not start. A child that was to be added is not added.
    #[error("the child did not start: {error}")]
    StartFailed {
        /// Why.
        error: String,
    },
    /// The child chose not to start; unless it is temporary, it is kept without an actor.
    #[error("the child chose not to start")]
    Ignored,
    /// The child was terminated before it had started.
    #[error("the child was terminated before it had started")]
    Terminated,
    /// The supervisor ends or has ended.
    #[error("the supervisor has ended or is about to; ask its parent for the new one")]
    Ended,
    /// A child below [`SimpleOneForOne`](super::Strategy::SimpleOneForOne) is never kept stopped.
    #[error("a simple_one_for_one supervisor keeps no stopped children; start a new child")]
    SimpleOneForOne,
    /// The spec is not one that this supervisor takes.
    #[error(transparent)]
    Invalid(#[from] SpecError),
}

/// What a child is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildState {
    /// Its start is under way.
    Starting,
    /// It runs.
    Running,
    /// It was asked to stop, or killed, and has not ended yet.
    Stopping,
    /// It does not run and will be started again by itself.
    Restarting,
    /// It does not run, and its spec is kept.
    Stopped,
    /// It was forgotten. Only seen by those who watch changes.
    Removed,
}

/// One child, as [`Machine::children`] shows it.
#[derive(Debug, Clone, Copy)]
pub struct ChildView<'a> {
    /// Its place.
    pub key: ChildKey,
    /// What was told about it.
    pub spec: &'a ChildSpec,
    /// What it is doing.
    pub state: ChildState,
    /// Its current life, if it has one.
    pub incarnation: Option<Incarnation>,
    /// How many times it was started again by the supervisor.
    pub restarts: u64,
}

#[derive(Debug)]
enum Phase {
    Booting,
    Serving,
    /// Children at and above `below` have ended.
    Ending {
        reason: EndReason,
        below: Option<ChildKey>,
    },
    Ended,
}

#[derive(Debug, Clone, Copy)]
enum Purpose {
    Backoff(ChildKey),
    Group,
    Kill(Incarnation),
}

/// A supervisor's decisions; see the [module](self).
#[derive(Debug)]
pub struct Machine {
    spec: SupervisorSpec,
    phase: Phase,
    children: BTreeMap<ChildKey, ChildSlot>,
    ids: BTreeMap<String, ChildKey>,
    /// The restart of a group that is under way; the first start of all children is one, too.
    group: Option<Group>,
    timers: BTreeMap<Timer, Purpose>,
    /// When the restarts were that may still count, oldest first.
    restarts: VecDeque<Duration>,
    /// Children that have an incarnation.
    alive: usize,
    random: Xoshiro256PlusPlus,
    next_key: u64,
    next_generation: u64,
    next_timer: u64,
    now: Duration,
    out: Vec<Command>,
}

impl Machine {
    /// A supervisor that has not started its first `children` yet. `seed` is used where the spec
    /// names none.
    ///
    /// # Errors
    /// What [`SupervisorSpec::validate`] finds.
    pub fn new(
        spec: SupervisorSpec,
        children: Vec<ChildSpec>,
        seed: u64,
    ) -> Result<Self, SpecError> {
        spec.validate(&children)?;
        let mut machine = Self {
            spec,
            phase: Phase::Booting,
            children: BTreeMap::new(),
            ids: BTreeMap::new(),
            group: None,
            timers: BTreeMap::new(),
            restarts: VecDeque::new(),
            alive: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(spec.seed.unwrap_or(seed)),
            next_key: 0,
            next_generation: 0,
            next_timer: 0,
            now: Duration::ZERO,
            out: Vec::new(),
        };
        for child in children {
            let key = machine.allocate();
            machine.ids.insert(child.id.clone(), key);
            machine
                .children
                .insert(key, ChildSlot::new(child, Status::Held));
        }
        Ok(machine)
    }

    /// The place for the next child. First children have the first places, in their order.
    pub fn allocate(&mut self) -> ChildKey {
        let key = ChildKey(self.next_key);
        self.next_key += 1;
        key
    }

    /// Takes what happened at `now` (time since any fixed moment; never less than before) and says
    /// what to do, in order. Whatever does not fit (a result of an earlier life, a timer that was
    /// cancelled) is ignored.
    pub fn handle(&mut self, now: Duration, input: Input) -> Vec<Command> {
        self.now = self.now.max(now);
        match input {
            Input::Boot => self.boot(),
            Input::StartChild { caller, key, spec } => self.start_child(caller, key, spec),
            Input::TerminateChild { caller, id } => self.terminate_child(caller, &id),
            Input::RestartChild { caller, id } => self.restart_child(caller, &id),
            Input::DeleteChild { caller, id } => self.delete_child(caller, &id),
            Input::Started(incarnation) => self.started(incarnation),
            Input::StartFailed {
                incarnation,
                error,
                verdict,
            } => {
                self.start_failed(incarnation, error, verdict);
            }
            Input::Ignored(incarnation) => self.ignored(incarnation),
            Input::Exited {
                incarnation,
                exit,
                verdict,
            } => {
                self.exited(incarnation, exit, verdict);
            }
            Input::TimerFired(timer) => self.timer_fired(timer),
            Input::Shutdown => self.begin_ending(EndReason::Stopped),
        }
        std::mem::take(&mut self.out)
    }

    /// Whether everything has ended and [`Command::EndSelf`] was given.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether children are started and commands are taken.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Whether the supervisor is on its way to its end, or there.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Ended)
    }

    /// The children in start order.
    pub fn children(&self) -> impl Iterator<Item = ChildView<'_>> {
        self.children.iter().map(|(key, slot)| ChildView {
            key: *key,
            spec: &slot.spec,
            state: slot.status.state(),
            incarnation: slot.status.incarnation(*key),
            restarts: slot.restarts,
        })
    }

    /// The child with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<ChildView<'_>> {
        let key = *self.ids.get(id)?;
        let slot = self.children.get(&key)?;
        Some(ChildView {
            key,
            spec: &slot.spec,
            state: slot.status.state(),
            incarnation: slot.status.incarnation(key),
            restarts: slot.restarts,
        })
    }

    fn boot(&mut self) {
        if matches!(self.phase, Phase::Booting) && self.group.is_none() {
            self.group = Some(Group {
                from: ChildKey(0),
                delay: Duration::ZERO,
                step: Step::starting_at(ChildKey(0)),
            });
            self.advance_group();
        }
    }

    fn timer_fired(&mut self, timer: Timer) {
        match self.timers.remove(&timer) {
            Some(Purpose::Backoff(key)) => self.restart_now(key),
            Some(Purpose::Group) => self.group_wait_is_over(),
            Some(Purpose::Kill(incarnation)) => {
                if let Some(slot) = self.children.get_mut(&incarnation.child)
                    && let Status::Stopping { kill, .. } = &mut slot.status
                {
                    *kill = None;
                    self.out.push(Command::Stop(incarnation, How::Kill));
                }
            }
            None => {}
        }
    }

    fn arm(&mut self, purpose: Purpose, after: Duration) -> Timer {
        let timer = Timer(self.next_timer);
        self.next_timer += 1;
        self.timers.insert(timer, purpose);
        self.out.push(Command::ArmTimer(timer, after));
        timer
    }

    fn cancel(&mut self, timer: Timer) {
        if self.timers.remove(&timer).is_some() {
            self.out.push(Command::CancelTimer(timer));
        }
    }

    fn reply(&mut self, caller: Caller, answer: Answer) {
        self.out.push(Command::Reply(caller, answer));
    }

    fn refuse(&mut self, caller: Caller, error: ChildError) {
        self.reply(caller, Answer::Refused(error));
    }

    fn refuse_all(&mut self, callers: Vec<Caller>, error: &ChildError) {
        for caller in callers {
            self.refuse(caller, error.clone());
        }
    }
}
