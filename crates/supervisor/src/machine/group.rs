//! The restart of a group: stop in reverse order, wait, start in order.

use std::time::Duration;

use super::slot::{After, Origin, Status};
use super::{ChildKey, Command, Machine, Phase, Purpose, Timer};
use crate::spec::Strategy;

/// A restart that is under way, for all children from `from` on.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) from: ChildKey,
    pub(super) delay: Duration,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Children at and above `below` have ended.
    Stopping { below: Option<ChildKey> },
    /// All have ended; the back-off runs.
    Waiting(Timer),
    /// Held children from `next` on are still to be started, after `current` has been.
    Starting {
        next: ChildKey,
        current: Option<ChildKey>,
    },
}

impl Step {
    pub(super) fn starting_at(next: ChildKey) -> Self {
        Self::Starting {
            next,
            current: None,
        }
    }
}

impl Machine {
    /// Begins the restart of a group, or merges it with the restart that is under way. Children
    /// that were not restarted yet stay held, and the new range covers them, because a child that
    /// can still fail on its own is either below the old range or was already restarted.
    pub(super) fn restart_group(&mut self, cause: ChildKey, delay: Duration) {
        if let Some(Group {
            step: Step::Waiting(timer),
            ..
        }) = self.group.take()
        {
            self.cancel(timer);
        }
        let from = match self.spec.strategy {
            Strategy::OneForAll => ChildKey(0),
            _ => cause,
        };
        self.set_status(cause, Status::Held);
        let members: Vec<ChildKey> = self.children.range(from..).map(|(key, _)| *key).collect();
        for key in members {
            let Some(slot) = self.children.get_mut(&key) else {
                continue;
            };
            match &mut slot.status {
                Status::Stopped => self.set_status(key, Status::Held),
                // As in OTP, where its termination ends first, the child comes back with its group.
                Status::Stopping {
                    after: after @ After::Keep,
                    ..
                } if slot.queued.is_empty() => {
                    *after = After::Hold;
                }
                _ => {}
            }
        }
        self.group = Some(Group {
            from,
            delay,
            step: Step::Stopping { below: None },
        });
        self.advance_group();
    }

    pub(super) fn advance_group(&mut self) {
        loop {
            let Some(group) = &mut self.group else { return };
            let from = group.from;
            match &mut group.step {
                Step::Waiting(_)
                | Step::Starting {
                    current: Some(_), ..
                } => return,
                Step::Stopping { below } => {
                    let range = below.map_or(self.children.range(from..), |below| {
                        self.children.range(from..below.max(from))
                    });
                    let last = range.rev().find(|(_, slot)| slot.status.is_alive());
                    if let Some((key, slot)) = last {
                        let (key, stopping) =
                            (*key, matches!(slot.status, Status::Stopping { .. }));
                        // It is still in the range, and is handled when it has ended.
                        *below = Some(ChildKey(key.0 + 1));
                        if !stopping {
                            let after = self.hold(key);
                            self.begin_stop(key, after);
                        }
                        return;
                    }
                    let delay = group.delay;
                    if delay.is_zero() {
                        group.step = Step::starting_at(from);
                    } else {
                        let timer = self.arm(Purpose::Group, delay);
                        self.set_step(Step::Waiting(timer));
                    }
                }
                Step::Starting { next, current } => {
                    let held = self.children.range(*next..);
                    let held = held
                        .into_iter()
                        .find(|(_, slot)| slot.status == Status::Held);
                    let Some((key, _)) = held else {
                        return self.group_is_up();
                    };
                    let key = *key;
                    *current = Some(key);
                    *next = ChildKey(key.0 + 1);
                    self.begin_start(key, Origin::Restart);
                }
            }
        }
    }

    fn set_step(&mut self, step: Step) {
        if let Some(group) = &mut self.group {
            group.step = step;
        }
    }

    fn group_is_up(&mut self) {
        self.group = None;
        if matches!(self.phase, Phase::Booting) {
            self.phase = Phase::Serving;
            self.out.push(Command::Booted);
        }
    }

    pub(super) fn group_wait_is_over(&mut self) {
        if let Some(group) = &mut self.group {
            group.step = Step::starting_at(group.from);
            self.advance_group();
        }
    }

    /// This child has started or has ended, so the group may continue.
    pub(super) fn group_member_is_done(&mut self, key: ChildKey) {
        if let Some(Group {
            step: Step::Starting { current, .. },
            ..
        }) = &mut self.group
            && *current == Some(key)
        {
            *current = None;
        }
        self.advance_group();
    }

    /// The future of a child that is stopped with its group. A temporary child never comes back,
    /// unless a caller still waits for its first start.
    pub(super) fn hold(&self, key: ChildKey) -> After {
        match self.children.get(&key) {
            Some(slot) if slot.fresh || !slot.is_temporary() => After::Hold,
            _ => After::Remove,
        }
    }

    pub(super) fn group_is_stopping(&self, key: ChildKey) -> bool {
        matches!(&self.group, Some(Group { from, step: Step::Stopping { .. }, .. }) if key >= *from)
    }

    /// Whether a child that must start now has to wait for its turn in the group.
    pub(super) fn joins_group(&self, key: ChildKey) -> bool {
        match &self.group {
            Some(Group { from, .. }) if key < *from => false,
            Some(Group {
                step: Step::Starting { next, .. },
                ..
            }) => key >= *next,
            Some(_) => true,
            None => false,
        }
    }
}
