//! A small world for the pure machine: children that start, end and die as a test says, and a clock that
//! the test moves. What the machine does is written down as a trace.
//!
//! Trace: `+a` started, `!a` did not start, `?a` hangs in its start, `-a` asked to stop, `#a` killed,
//! `/a` start dropped, `^` escalated, `=answer` a caller's answer.
//! State: `a` runs, `a~` will be started again, `a.` stopped, `a*` starting, `a-` stopping.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ghostlight_supervisor::machine::{
    Answer, Caller, ChildKey, ChildState, Command, How, Incarnation, Input, Machine, Timer,
};
use ghostlight_supervisor::{
    ChildError, ChildSpec, EndReason, Exit, RestartDecision, SupervisorSpec,
};

/// A supervisor and what is below it, as data.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) spec: SupervisorSpec,
    pub(crate) children: Vec<(ChildSpec, Option<Tree>)>,
}

/// What is decided outside a tree, and what happened in all of it, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// How many more starts are to fail, by the child's id. Ids are unique in a tree.
    pub(crate) refusals: BTreeMap<String, u32>,
    pub(crate) trace: Vec<String>,
}

impl Fate {
    /// Whether the next start of this child is to fail; it is then used up.
    pub(crate) fn refuses(&mut self, id: &str) -> bool {
        match self.refusals.get_mut(id) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }
}

#[derive(Debug)]
pub(crate) enum Life {
    Hanging,
    Leaf,
    Below(Box<World>),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) now: Duration,
    pub(crate) end: Option<EndReason>,
    spec: SupervisorSpec,
    names: BTreeMap<ChildKey, (String, Option<Tree>)>,
    pub(crate) lives: BTreeMap<Incarnation, Life>,
    timers: BTreeMap<Timer, Duration>,
    pub(crate) inputs: VecDeque<Input>,
    callers: u64,
    open_callers: BTreeSet<Caller>,
    pub(crate) hanging: BTreeSet<String>,
    pub(crate) stubborn: BTreeSet<String>,
    pub(crate) ignoring: BTreeSet<String>,
}

impl World {
    pub(crate) fn new(tree: Tree, now: Duration) -> Self {
        let specs = tree.children.iter().map(|(spec, _)| spec.clone()).collect();
        let machine = Machine::new(tree.spec, specs, 0).unwrap();
        let names = machine
            .children()
            .zip(&tree.children)
            .map(|(view, (spec, below))| (view.key, (spec.id.clone(), below.clone())))
            .collect();
        Self {
            machine,
            now,
            end: None,
            spec: tree.spec,
            names,
            lives: BTreeMap::new(),
            timers: BTreeMap::new(),
            inputs: VecDeque::new(),
            callers: 0,
            open_callers: BTreeSet::new(),
            hanging: BTreeSet::new(),
            stubborn: BTreeSet::new(),
            ignoring: BTreeSet::new(),
        }
    }

    pub(crate) fn boot(&mut self, fate: &mut Fate) {
        self.inputs.push_back(Input::Boot);
        self.settle(fate);
    }

    pub(crate) fn shut_down(&mut self, fate: &mut Fate) {
        self.inputs.push_back(Input::Shutdown);
        self.settle(fate);
    }

    /// Lets everything that was set off happen, but no time pass.
    pub(crate) fn settle(&mut self, fate: &mut Fate) {
        let mut steps = 0;
        while let Some(input) = self.inputs.pop_front() {
            steps += 1;
            assert!(
                steps < 100_000,
                "the machine goes round in circles: {:?}",
                fate.trace
            );
            for command in self.machine.handle(self.now, input) {
                self.carry_out(command, fate);
            }
        }
    }

    fn carry_out(&mut self, command: Command, fate: &mut Fate) {
        assert!(self.end.is_none(), "{command:?} after the end");
        match command {
            Command::Spawn(incarnation) => self.spawn(incarnation, fate),
            Command::Stop(incarnation, how) => self.stop(incarnation, how, fate),
            Command::ArmTimer(timer, after) => {
                self.timers.insert(timer, self.now + after);
            }
            Command::CancelTimer(timer) => {
                assert!(
                    self.timers.remove(&timer).is_some(),
                    "cancelled a timer that is not armed"
                );
            }
            Command::Reply(caller, answer) => {
                assert!(self.open_callers.remove(&caller), "answered twice");
                fate.note(format!("={}", answer_text(&answer)));
            }
            Command::Escalate(_) => {
                fate.note("^".to_owned());
            }
            Command::EndSelf(reason) => {
                assert!(
                    self.lives.is_empty(),
                    "ended before its children: {:?}",
                    self.lives
                );
                self.end = Some(reason);
            }
            Command::Forget(key) => {
                self.names.remove(&key);
            }
            Command::Changed(..) | Command::Booted => {}
        }
    }

    fn spawn(&mut self, incarnation: Incarnation, fate: &mut Fate) {
        let (id, below) = self.names[&incarnation.child].clone();
        let living = self
            .lives
            .keys()
            .any(|life| life.child == incarnation.child);
        assert!(!living, "{id} was started beside its predecessor");
        if self.hanging.contains(&id) {
            fate.note(format!("?{id}"));
            self.lives.insert(incarnation, Life::Hanging);
            return;
        }
        if self.ignoring.remove(&id) {
            fate.note(format!("!{id}"));
            return self.inputs.push_back(Input::Ignored(incarnation));
        }
        let life = if fate.refuses(&id) {
            None
        } else if let Some(tree) = below {
            let mut world = Self::new(tree, self.now);
            world.boot(fate);
            world.end.is_none().then(|| Life::Below(Box::new(world)))
        } else {
            Some(Life::Leaf)
        };
        if let Some(life) = life {
            fate.note(format!("+{id}"));
            self.lives.insert(incarnation, life);
            self.inputs.push_back(Input::Started(incarnation));
        } else {
            fate.note(format!("!{id}"));
            let error = "refused".to_owned();
            let verdict = RestartDecision::Counted;
            self.inputs.push_back(Input::StartFailed {
                incarnation,
                error,
                verdict,
            });
        }
    }

    fn stop(&mut self, incarnation: Incarnation, how: How, fate: &mut Fate) {
        let id = self.names[&incarnation.child].0.clone();
        let mark = match how {
            How::CancelStart => "/",
            How::Gently => "-",
            How::Kill => "#",
        };
        if self.lives.contains_key(&incarnation) {
            fate.note(format!("{mark}{id}"));
        }
        let exit = match (how, self.lives.get_mut(&incarnation)) {
            // It has ended by itself, and that is on its way.
            (_, None) => return,
            (How::CancelStart, Some(Life::Hanging)) => Exit::Unobserved,
            // It has started, and that is on its way.
            (How::CancelStart, Some(_)) => return,
            (How::Gently, Some(_)) if self.stubborn.contains(&id) => return,
            (How::Gently, Some(Life::Below(world))) => {
                world.shut_down(fate);
                assert!(world.end.is_some());
                Exit::Stopped {
                    reason: Some("shutdown".to_owned()),
                }
            }
            (How::Gently, Some(_)) => Exit::Stopped {
                reason: Some("shutdown".to_owned()),
            },
            (How::Kill, Some(_)) => Exit::Killed,
        };
        self.exit(incarnation, exit, RestartDecision::Counted);
    }

    fn exit(&mut self, incarnation: Incarnation, exit: Exit, verdict: RestartDecision) {
        if self.lives.remove(&incarnation).is_some() {
            self.inputs.push_back(Input::Exited {
                incarnation,
                exit,
                verdict,
            });
        }
    }

    /// Ends a child by itself; it is noticed when the world settles. Whether there was one.
    pub(crate) fn die(&mut self, id: &str, exit: Exit, verdict: RestartDecision) -> bool {
        let incarnation = self.machine.find(id).and_then(|child| child.incarnation);
        let alive = incarnation.filter(|life| self.lives.contains_key(life));
        if let Some(incarnation) = alive {
            self.exit(incarnation, exit, verdict);
        }
        alive.is_some()
    }

    fn caller(&mut self) -> Caller {
        self.callers += 1;
        self.open_callers.insert(Caller(self.callers));
        Caller(self.callers)
    }

    pub(crate) fn start_child(&mut self, spec: ChildSpec, below: Option<Tree>) {
        let (caller, key) = (self.caller(), self.machine.allocate());
        self.names.insert(key, (spec.id.clone(), below));
        self.inputs
            .push_back(Input::StartChild { caller, key, spec });
    }

    pub(crate) fn terminate_child(&mut self, id: &str) {
        let (caller, id) = (self.caller(), id.to_owned());
        self.inputs.push_back(Input::TerminateChild { caller, id });
    }

    pub(crate) fn restart_child(&mut self, id: &str) {
        let (caller, id) = (self.caller(), id.to_owned());
        self.inputs.push_back(Input::RestartChild { caller, id });
    }

    pub(crate) fn delete_child(&mut self, id: &str) {
        let (caller, id) = (self.caller(), id.to_owned());
        self.inputs.push_back(Input::DeleteChild { caller, id });
    }

    /// When the next timer of this supervisor is due.
    fn due(&self) -> Option<(Duration, Timer)> {
        self.timers.iter().map(|(timer, due)| (*due, *timer)).min()
    }

    /// When the next timer in the whole tree is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let below = self.below().filter_map(World::next_due);
        self.due()
            .map(|(due, _)| due)
            .into_iter()
            .chain(below)
            .min()
    }

    /// Fires the first timer that is due now, upper supervisors first. Whether there was one.
    pub(crate) fn fire(&mut self, fate: &mut Fate) -> bool {
        if let Some((due, timer)) = self.due()
            && due <= self.now
        {
            self.timers.remove(&timer);
            self.inputs.push_back(Input::TimerFired(timer));
            self.settle(fate);
            return true;
        }
        for life in self.lives.values_mut() {
            if let Life::Below(world) = life
                && world.fire(fate)
            {
                self.collect_ended(fate);
                return true;
            }
        }
        false
    }

    pub(crate) fn set_time(&mut self, now: Duration) {
        self.now = now;
        for life in self.lives.values_mut() {
            if let Life::Below(world) = life {
                world.set_time(now);
            }
        }
    }

    pub(crate) fn advance(&mut self, by: Duration, fate: &mut Fate) {
        let to = self.now + by;
        loop {
            match self.next_due() {
                Some(due) if due <= to => self.set_time(due.max(self.now)),
                _ => break,
            }
            while self.fire(fate) {}
        }
        self.set_time(to);
    }

    /// Supervisors below that have ended by themselves are children that have exited.
    pub(crate) fn collect_ended(&mut self, fate: &mut Fate) {
        let mut ended = Vec::new();
        for (incarnation, life) in &mut self.lives {
            if let Life::Below(world) = life {
                world.collect_ended(fate);
                if let Some(reason) = &world.end {
                    ended.push((
                        *incarnation,
                        Exit::Stopped {
                            reason: Some(reason.to_string()),
                        },
                    ));
                }
            }
        }
        for (incarnation, exit) in ended {
            self.exit(incarnation, exit, RestartDecision::Counted);
        }
        self.settle(fate);
    }

    pub(crate) fn below(&self) -> impl Iterator<Item = &World> {
        self.lives.values().filter_map(|life| match life {
            Life::Below(world) => Some(&**world),
            Life::Leaf | Life::Hanging => None,
        })
    }

    /// The supervisor at this path of ids.
    pub(crate) fn at(&mut self, path: &[String]) -> Option<&mut World> {
        let Some((id, rest)) = path.split_first() else {
            return Some(self);
        };
        let incarnation = self.machine.find(id)?.incarnation?;
        match self.lives.get_mut(&incarnation)? {
            Life::Below(world) => world.at(rest),
            Life::Leaf | Life::Hanging => None,
        }
    }

    /// What runs and what does not, the whole tree.
    pub(crate) fn state(&self) -> String {
        if let Some(end) = &self.end {
            return format!("end: {}", end_text(end));
        }
        let mut words = Vec::new();
        for child in self.machine.children() {
            let mark = match child.state {
                ChildState::Running => "",
                ChildState::Restarting => "~",
                ChildState::Stopped => ".",
                ChildState::Starting => "*",
                ChildState::Stopping => "-",
                other => panic!("{other:?} is no state of a child that is there"),
            };
            let mut word = format!("{}{mark}", child.spec.id);
            if let Some(Life::Below(world)) = child
                .incarnation
                .and_then(|incarnation| self.lives.get(&incarnation))
            {
                word = format!("{word}({})", world.state());
            }
            words.push(word);
        }
        words.join(" ")
    }

    /// Nobody is left without an answer.
    pub(crate) fn assert_all_answered(&self) {
        assert!(
            self.open_callers.is_empty(),
            "callers without an answer: {:?}",
            self.open_callers
        );
    }

    pub(crate) fn spec(&self) -> SupervisorSpec {
        self.spec
    }

    /// The ids of this supervisor's children.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.machine
            .children()
            .map(|child| child.spec.id.clone())
            .collect()
    }
}

fn end_text(end: &EndReason) -> String {
    match end {
        EndReason::Stopped => "stopped".to_owned(),
        EndReason::StartFailed { child, .. } => format!("{child} did not start"),
        EndReason::RestartsUsedUp(escalation) => format!("used up by {}", escalation.child),
        EndReason::AutoShutdown { child } => format!("auto by {child}"),
        other => panic!("{other:?} is not known here"),
    }
}

pub(crate) fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Started(_) => "started".to_owned(),
        Answer::Done => "done".to_owned(),
        Answer::Refused(ChildError::StartFailed { .. }) => "start failed".to_owned(),
        Answer::Refused(ChildError::Invalid(_)) => "invalid".to_owned(),
        Answer::Refused(error) => format!("{error:?}").to_lowercase(),
    }
}
