//! Starts and stops that take their time and end in any order: whatever happens in between, the machine
//! keeps its invariants and comes to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ghostlight_supervisor::machine::{
    Answer, Caller, ChildKey, Command, How, Incarnation, Input, Machine, Timer,
};
use ghostlight_supervisor::{
    AutoShutdown, Backoff, ChildSpec, EndReason, Exit, RestartDecision, Shutdown, Strategy,
    SupervisorSpec,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const STEPS: usize = 100_000;
const STEPS_OF_A_SUPERVISOR: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    Starting { dropped: bool },
    Running,
    Stopping,
}

struct Chaos {
    machine: Machine,
    random: Xoshiro256PlusPlus,
    now: Duration,
    lives: BTreeMap<Incarnation, Life>,
    forgotten: BTreeSet<ChildKey>,
    timers: BTreeMap<Timer, Duration>,
    waiting: BTreeSet<Caller>,
    callers: u64,
    ids: u32,
    escalations: u32,
    booted: bool,
    end: Option<EndReason>,
    history: Vec<String>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let strategies = [
            Strategy::OneForOne,
            Strategy::OneForAll,
            Strategy::RestForOne,
            Strategy::SimpleOneForOne,
        ];
        let spec = SupervisorSpec::new(strategies[random.random_range(0..4)])
            .intensity(random.random_range(0..12), Duration::from_secs(2))
            .auto_shutdown(AutoShutdown::AllSignificant)
            .backoff(if random.random() {
                Backoff::IMMEDIATE
            } else {
                Backoff::exponential(Duration::from_millis(200), Duration::from_secs(2))
            });
        let children: Vec<_> = (0..random.random_range(0..6))
            .map(|id| child(&mut random, id))
            .collect();
        let ids = children.len() as u32;
        Self {
            machine: Machine::new(spec, children, seed).unwrap(),
            random,
            now: Duration::ZERO,
            lives: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            timers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            callers: 0,
            ids,
            escalations: 0,
            booted: false,
            end: None,
            history: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input) {
        let commands = self.machine.handle(self.now, input.clone());
        self.history
            .push(format!("{:?} {input:?}\n        -> {commands:?}", self.now));
        for command in commands {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        assert!(self.end.is_none(), "a command after the end");
        match command {
            Command::Spawn(life) => {
                assert!(
                    !self.forgotten.contains(&life.child),
                    "a forgotten child was started"
                );
                let beside = self.lives.keys().any(|other| other.child == life.child);
                assert!(!beside, "started beside its predecessor");
                assert!(
                    !self.machine.is_ending(),
                    "started while the supervisor ends"
                );
                self.lives.insert(life, Life::Starting { dropped: false });
            }
            Command::Stop(life, how) => {
                let state = self
                    .lives
                    .get_mut(&life)
                    .expect("it was told of the end of this one");
                match (how, *state) {
                    (How::CancelStart, Life::Starting { .. }) => {
                        *state = Life::Starting { dropped: true };
                    }
                    (How::Gently | How::Kill, Life::Running | Life::Stopping) => {
                        *state = Life::Stopping;
                    }
                    other => panic!("{other:?} cannot be done"),
                }
            }
            Command::ArmTimer(timer, after) => {
                assert!(self.timers.insert(timer, self.now + after).is_none());
            }
            Command::CancelTimer(timer) => {
                assert!(self.timers.remove(&timer).is_some(), "cancelled twice");
            }
            Command::Reply(caller, answer) => {
                assert!(self.waiting.remove(&caller), "answered twice");
                if let Answer::Started(life) = answer {
                    assert_eq!(
                        self.lives.get(&life),
                        Some(&Life::Running),
                        "it does not run"
                    );
                }
            }
            Command::Changed(..) => {}
            Command::Forget(child) => {
                let alive = self.lives.keys().any(|life| life.child == child);
                assert!(!alive, "forgotten while it lives");
                assert!(self.forgotten.insert(child), "forgotten twice");
            }
            Command::Escalate(_) => self.escalations += 1,
            Command::Booted => {
                assert!(!std::mem::replace(&mut self.booted, true), "booted twice");
            }
            Command::EndSelf(reason) => {
                assert!(self.lives.is_empty(), "ended before its children");
                assert!(self.timers.is_empty(), "ended with timers armed");
                assert!(self.waiting.is_empty(), "ended with callers waiting");
                let used_up = matches!(reason, EndReason::RestartsUsedUp(_));
                assert_eq!(self.escalations, u32::from(used_up));
                self.end = Some(reason);
            }
        }
    }

    /// Something that was set off comes to its end, or a child dies.
    fn resolve(&mut self, fail: bool) {
        if self.lives.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.lives.len());
        let Some((life, state)) = self
            .lives
            .iter()
            .nth(at)
            .map(|(life, state)| (*life, *state))
        else {
            return;
        };
        let verdict = if fail && self.random.random() {
            RestartDecision::Excused
        } else {
            RestartDecision::Counted
        };
        let error = "chaos".to_owned();
        match state {
            Life::Starting { dropped } => match self.random.random_range(0..8) {
                0 if fail => {
                    self.lives.remove(&life);
                    self.feed(Input::StartFailed {
                        incarnation: life,
                        error,
                        verdict,
                    });
                }
                1 if fail => {
                    self.lives.remove(&life);
                    self.feed(Input::Ignored(life));
                }
                2..8 if dropped => {
                    self.lives.remove(&life);
                    self.feed(Input::Exited {
                        incarnation: life,
                        exit: Exit::Unobserved,
                        verdict,
                    });
                }
                _ => {
                    self.lives.insert(life, Life::Running);
                    self.feed(Input::Started(life));
                }
            },
            Life::Running if !fail => {}
            Life::Running | Life::Stopping => {
                self.lives.remove(&life);
                let exit = match self.random.random_range(0..3) {
                    0 => Exit::Stopped { reason: None },
                    1 => Exit::Killed,
                    _ => Exit::Failed { error },
                };
                self.feed(Input::Exited {
                    incarnation: life,
                    exit,
                    verdict,
                });
            }
        }
    }

    fn command(&mut self) {
        self.callers += 1;
        let caller = Caller(self.callers);
        self.waiting.insert(caller);
        let id = format!("c{}", self.random.random_range(0..self.ids.max(1)));
        let input = match self.random.random_range(0..5) {
            0 => {
                let number = if self.random.random() {
                    self.ids
                } else {
                    self.random.random_range(0..=self.ids)
                };
                self.ids = self.ids.max(number + 1);
                let spec = child(&mut self.random, number);
                Input::StartChild {
                    caller,
                    key: self.machine.allocate(),
                    spec,
                }
            }
            1 => Input::RestartChild { caller, id },
            2 => Input::DeleteChild { caller, id },
            _ => Input::TerminateChild { caller, id },
        };
        self.feed(input);
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_millis(self.random.random_range(0..700));
        while let Some((due, timer)) = self
            .timers
            .iter()
            .map(|(timer, due)| (*due, *timer))
            .min()
            .filter(|(due, _)| *due <= self.now)
        {
            let _ = due;
            self.timers.remove(&timer);
            self.feed(Input::TimerFired(timer));
        }
        // A timer that nobody armed.
        if self.random.random_range(0..20) == 0
            && let Some(timer) = self.timers.keys().next().copied()
        {
            self.timers.remove(&timer);
            self.feed(Input::TimerFired(timer));
            self.feed(Input::TimerFired(timer));
        }
    }

    fn run(&mut self) -> usize {
        self.feed(Input::Boot);
        let mut steps = 0;
        while self.end.is_none() && steps < STEPS_OF_A_SUPERVISOR {
            steps += 1;
            match self.random.random_range(0..20) {
                0..12 => self.resolve(self.booted),
                12..16 if self.booted => self.command(),
                19 if self.random.random_range(0..10) == 0 => self.feed(Input::Shutdown),
                _ => self.pass_time(),
            }
        }
        // Now everything that hangs comes to its end, and so must the supervisor.
        if self.end.is_none() {
            self.feed(Input::Shutdown);
        }
        let mut left = 10_000;
        while self.end.is_none() {
            self.resolve(false);
            left -= 1;
            assert!(left > 0, "the supervisor never ends");
        }
        assert!(self.machine.is_ended());
        steps
    }
}

fn child(random: &mut Xoshiro256PlusPlus, number: u32) -> ChildSpec {
    let spec = ChildSpec::worker(format!("c{number}"));
    let spec = match random.random_range(0..4) {
        0 => spec.transient(),
        1 => spec.temporary(),
        2 => spec.temporary().significant(),
        _ => spec,
    };
    match random.random_range(0..4) {
        0 => spec.stopped_by(Shutdown::BrutalKill),
        1 => spec.stopped_by(Shutdown::Infinity),
        2 => spec.stopped_by(Shutdown::Within(Duration::from_millis(300))),
        _ => spec,
    }
}

#[test]
fn whatever_order_things_happen_in_the_machine_keeps_its_invariants() {
    let (mut steps, mut escalations, mut autos) = (0, 0, 0);
    let mut seed = 0x6368_616f;
    while steps < STEPS {
        seed += 1;
        let mut chaos = Chaos::new(seed);
        let run = std::panic::AssertUnwindSafe(|| chaos.run());
        match std::panic::catch_unwind(run) {
            Ok(run) => steps += 1 + run,
            Err(panic) => {
                let children: Vec<_> = chaos.machine.children().collect();
                panic!("seed {seed}: {panic:?}\n{:#?}\n{children:?}", chaos.history);
            }
        }
        escalations += chaos.escalations;
        autos += u32::from(matches!(chaos.end, Some(EndReason::AutoShutdown { .. })));
    }
    // The walk went where it is interesting.
    assert!(
        escalations > 50 && autos > 20,
        "{escalations} escalations, {autos} automatic ends"
    );
}
