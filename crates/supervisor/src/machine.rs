//! The decisions of a supervisor as a pure state machine, without actors, tasks and clocks.
//!
//! [`Machine::handle`] takes one [`Input`] and the time, and returns the [`Command`]s to carry out,
//! in order. The rules are those of Erlang/OTP's `supervisor` (stdlib), plus back-off, excused exits
//! and escalation. OTP's supervisor does one thing at a time, and other messages wait in its
//! mailbox. This one never blocks, so a message that OTP would handle afterwards arrives in the
//! middle of an action. Each such case ends as it would in OTP, with these exceptions:
//!
//! - a child's start can be interrupted by a command to terminate it, by its group's restart or by
//!   the supervisor's end;
//! - a child that dies while others restart immediately widens that restart;
//! - a child added while its group restarts is started last, with the group;
//! - a group continues without a member that is terminated while the group restarts.
//!
//! Architecture invariant: each child has at most one incarnation. The next [`Command::Spawn`]
//! comes only after [`Input::Exited`], [`Input::StartFailed`] or [`Input::Ignored`] for the
//! previous one.

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

/// The shortest wait before the restart after an excused exit. Otherwise a child that fails at once
/// would be restarted in a busy loop.
pub const EXCUSED_DELAY_MIN: Duration = Duration::from_millis(100);

/// A child's place below its supervisor. Start order is the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKey(u64);

/// One life of a child: its place, and a number that is unique below this supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// The child.
    pub child: ChildKey,
    /// The number; later lives have larger ones.
    pub generation: u64,
}

/// A timer that the machine has armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(u64);

/// A caller that waits for an answer; the driver of the machine chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);

/// An event or a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The supervisor starts: start the first children, one after another.
    Boot,
    /// Add a child and start it.
    StartChild {
        /// The caller.
        caller: Caller,
        /// Its place, from [`Machine::allocate`].
        key: ChildKey,
        /// The child.
        spec: ChildSpec,
    },
    /// Stop a child, or cancel its pending restart.
    TerminateChild {
        /// The caller.
        caller: Caller,
        /// The id of the child.
        id: String,
    },
    /// Start a child that is stopped.
    RestartChild {
        /// The caller.
        caller: Caller,
        /// The id of the child.
        id: String,
    },
    /// Forget a child that is stopped.
    DeleteChild {
        /// The caller.
        caller: Caller,
        /// The id of the child.
        id: String,
    },
    /// A child started.
    Started(Incarnation),
    /// A child did not start.
    StartFailed {
        /// The life that did not begin.
        incarnation: Incarnation,
        /// Why.
        error: String,
        /// The verdict of the child's classifier.
        verdict: RestartDecision,
    },
    /// A child returned [`Ignore`](super::Ignore) from its start.
    Ignored(Incarnation),
    /// A child has actually ended, or a cancelled start has.
    Exited {
        /// The life that ended.
        incarnation: Incarnation,
        /// How it ended.
        exit: Exit,
        /// The verdict of the child's classifier.
        verdict: RestartDecision,
    },
    /// A timer's time has come.
    TimerFired(Timer),
    /// The supervisor must end.
    Shutdown,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Start this life.
    Spawn(Incarnation),
    /// End this life; its end is then reported by [`Input::Exited`].
    Stop(Incarnation, How),
    /// Report when this duration has passed.
    ArmTimer(Timer, Duration),
    /// That timer is no longer needed.
    CancelTimer(Timer),
    /// Answer a caller (exactly once each).
    Reply(Caller, Answer),
    /// The child has changed to this state.
    Changed(ChildKey, String, ChildState),
    /// This child was removed from the table, and no further command refers to it.
    Forget(ChildKey),
    /// Notify the parent that restarts are used up.
    Escalate(Escalation),
    /// All first children have started, so the supervisor has started.
    Booted,
    /// All children have ended, so the supervisor must end.
    EndSelf(EndReason),
}

/// How a life is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Drop its start. If it has already started, it stays until it is told to stop.
    CancelStart,
    /// Ask it to stop.
    Gently,
    /// Kill it.
    Kill,
}

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The child is running as this life.
    Started(Incarnation),
    /// The request was carried out.
    Done,
    /// The request was refused.
    Refused(ChildError),
}

/// Why a command to a supervisor was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// No child has this id.
    #[error("no such child; see `which_children` for those there are")]
    NotFound,
    /// The child is running, or is being started by a command.
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
    /// The child does not run, and is not started again by itself.
    #[error("the child is stopped; restart it with `restart_child`")]
    Stopped,
    /// The child returned [`Ignore`](super::Ignore); unless it is temporary, it is kept without an
    /// actor.
    #[error("the child chose not to start")]
    Ignored,
    /// The child was terminated before it started.
    #[error("the child was terminated before it had started")]
    Terminated,
    /// The supervisor is ending or has ended.
    #[error("the supervisor has ended or is about to; ask its parent for the new one")]
    Ended,
    /// A child below [`SimpleOneForOne`](super::Strategy::SimpleOneForOne) is never kept stopped.
    #[error("a simple_one_for_one supervisor keeps no stopped children; start a new child")]
    SimpleOneForOne,
    /// The supervisor does not accept the spec.
    #[error(transparent)]
    Invalid(#[from] SpecError),
}

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildState {
    /// It is being started.
    Starting,
    /// It is running.
    Running,
    /// It was asked to stop, or killed, and has not ended yet.
    Stopping,
    /// It is not running and will be restarted automatically.
    Restarting,
    /// It is not running, and its spec is kept.
    Stopped,
    /// It was removed. Only watchers of changes see this state.
    Removed,
}

/// One child, as [`Machine::children`] shows it.
#[derive(Debug, Clone, Copy)]
pub struct ChildView<'a> {
    /// Its place.
    pub key: ChildKey,
    /// Its specification.
    pub spec: &'a ChildSpec,
    /// Its current state.
    pub state: ChildState,
    /// Its current life, if it has one.
    pub incarnation: Option<Incarnation>,
    /// How many times the supervisor has restarted it.
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
    /// The group restart that is under way; the first start of all children is one, too.
    group: Option<Group>,
    timers: BTreeMap<Timer, Purpose>,
    /// The times of the restarts that may still count, oldest first.
    restarts: VecDeque<Duration>,
    /// The number of children with an incarnation.
    alive: usize,
    random: Xoshiro256PlusPlus,
    next_key: u64,
    next_generation: u64,
    next_timer: u64,
    now: Duration,
    out: Vec<Command>,
}

impl Machine {
    /// A supervisor that has not started its first `children` yet. `seed` is used if the spec has
    /// none.
    ///
    /// # Errors
    /// The errors of [`SupervisorSpec::validate`].
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

    /// Handles an input at `now` (the time since any fixed moment, never less than before), and
    /// returns the commands to carry out, in order. An outdated input (a result of an earlier life,
    /// a cancelled timer) is ignored.
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

    /// Whether everything has ended and [`Command::EndSelf`] was returned.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether it starts children and accepts commands.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Whether the supervisor is ending or has ended.
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
