//! One child's life: its start, its end, and the decision on its restart.

use std::time::Duration;

use rand::RngExt;

use super::slot::{After, Origin, Status};
use super::{
    Answer, ChildError, ChildKey, ChildState, Command, EXCUSED_DELAY_MIN, How, Incarnation,
    Machine, Phase, Purpose,
};
use crate::exit::{EndReason, Escalation, Exit, RestartDecision};
use crate::spec::{Restart, Shutdown, Strategy};

impl Machine {
    pub(super) fn set_status(&mut self, key: ChildKey, status: Status) {
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        let before = std::mem::replace(&mut slot.status, status);
        match (before.is_alive(), status.is_alive()) {
            (false, true) => self.alive += 1,
            (true, false) => self.alive -= 1,
            _ => {}
        }
        if before.state() != status.state() {
            self.out
                .push(Command::Changed(key, slot.spec.id.clone(), status.state()));
        }
    }

    pub(super) fn remove(&mut self, key: ChildKey) {
        let Some(slot) = self.children.remove(&key) else {
            return;
        };
        if slot.status.is_alive() {
            self.alive -= 1;
        }
        self.ids.remove(&slot.spec.id);
        self.out
            .push(Command::Changed(key, slot.spec.id, ChildState::Removed));
        self.out.push(Command::Forget(key));
    }

    /// The future of a child that has ended for good.
    pub(super) fn rest(&self, key: ChildKey) -> After {
        let forget = self.spec.strategy == Strategy::SimpleOneForOne
            || self
                .children
                .get(&key)
                .is_none_or(super::slot::ChildSlot::is_temporary);
        if forget { After::Remove } else { After::Keep }
    }

    /// Puts a child without an incarnation into its last state.
    pub(super) fn lay_down(&mut self, key: ChildKey, after: After) {
        match after {
            After::Keep => self.set_status(key, Status::Stopped),
            After::Hold => self.set_status(key, Status::Held),
            After::Remove => self.remove(key),
        }
    }

    pub(super) fn begin_start(&mut self, key: ChildKey, origin: Origin) {
        let generation = self.next_generation;
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        self.next_generation += 1;
        // The first start of all children has this origin, too; only later ones are restarts.
        if origin == Origin::Restart && !slot.fresh && !matches!(self.phase, Phase::Booting) {
            slot.restarts += 1;
        }
        self.set_status(key, Status::Starting { generation, origin });
        self.out.push(Command::Spawn(Incarnation {
            child: key,
            generation,
        }));
    }

    pub(super) fn begin_stop(&mut self, key: ChildKey, after: After) {
        let Some(slot) = self.children.get(&key) else {
            return;
        };
        match slot.status {
            Status::Starting { generation, .. } => {
                self.set_status(
                    key,
                    Status::Stopping {
                        generation,
                        after,
                        kill: None,
                    },
                );
                let incarnation = Incarnation {
                    child: key,
                    generation,
                };
                self.out.push(Command::Stop(incarnation, How::CancelStart));
            }
            Status::Running { generation } => self.stop_running(key, generation, after),
            Status::Stopped | Status::Held | Status::BackingOff(_) | Status::Stopping { .. } => {}
        }
    }

    fn stop_running(&mut self, key: ChildKey, generation: u64, after: After) {
        let Some(slot) = self.children.get(&key) else {
            return;
        };
        let shutdown = slot.spec.shutdown();
        let incarnation = Incarnation {
            child: key,
            generation,
        };
        let kill = match shutdown {
            Shutdown::BrutalKill => {
                self.out.push(Command::Stop(incarnation, How::Kill));
                None
            }
            Shutdown::Within(time) => {
                self.out.push(Command::Stop(incarnation, How::Gently));
                Some(self.arm(Purpose::Kill(incarnation), time))
            }
            Shutdown::Infinity => {
                self.out.push(Command::Stop(incarnation, How::Gently));
                None
            }
        };
        self.set_status(
            key,
            Status::Stopping {
                generation,
                after,
                kill,
            },
        );
    }

    pub(super) fn started(&mut self, incarnation: Incarnation) {
        let Incarnation { child, generation } = incarnation;
        let status = self.current(incarnation);
        match status {
            Some(Status::Starting { .. }) => {
                self.set_status(child, Status::Running { generation });
                let now = self.now;
                if let Some(slot) = self.children.get_mut(&child) {
                    slot.fresh = false;
                    slot.started_at = now;
                    for caller in std::mem::take(&mut slot.start_callers) {
                        self.reply(caller, Answer::Started(incarnation));
                    }
                }
                self.group_member_is_done(child);
            }
            // The start was cancelled after it had succeeded; from now on the child has its full
            // time to stop.
            Some(Status::Stopping {
                after, kill: None, ..
            }) => {
                self.stop_running(child, generation, after);
            }
            // This actor is not wanted and must not live on.
            _ => self.out.push(Command::Stop(incarnation, How::Kill)),
        }
    }

    pub(super) fn start_failed(
        &mut self,
        incarnation: Incarnation,
        error: String,
        verdict: RestartDecision,
    ) {
        let key = incarnation.child;
        let (origin, fresh, id, callers) = match self.current(incarnation) {
            Some(Status::Stopping { .. }) => {
                return self.exited(incarnation, Exit::StartFailed { error }, verdict);
            }
            Some(Status::Starting { origin, .. }) => {
                let Some(slot) = self.children.get_mut(&key) else {
                    return;
                };
                let callers = std::mem::take(&mut slot.start_callers);
                (origin, slot.fresh, slot.spec.id.clone(), callers)
            }
            _ => return,
        };
        self.refuse_all(
            callers,
            &ChildError::StartFailed {
                error: error.clone(),
            },
        );
        if let Some(after) = self.stop_that_was_coming(key) {
            self.ended(key, if fresh { After::Remove } else { after });
        } else if matches!(self.phase, Phase::Booting) {
            self.lay_down(key, After::Keep);
            self.begin_ending(EndReason::StartFailed { child: id, error });
        } else if fresh {
            self.remove(key);
            self.group_member_is_done(key);
        } else if origin == Origin::Command {
            self.lay_down(key, After::Keep);
        } else {
            self.restart(key, Exit::StartFailed { error }, verdict);
        }
    }

    pub(super) fn ignored(&mut self, incarnation: Incarnation) {
        let key = incarnation.child;
        match self.current(incarnation) {
            Some(Status::Starting { .. }) => {
                if let Some(slot) = self.children.get_mut(&key) {
                    slot.fresh = false;
                    let callers = std::mem::take(&mut slot.start_callers);
                    self.refuse_all(callers, &ChildError::Ignored);
                }
                let after = self.stop_that_was_coming(key).unwrap_or(self.rest(key));
                self.ended(key, after);
            }
            Some(Status::Stopping { after, .. }) => self.ended(key, after),
            _ => {}
        }
    }

    /// The future of a child that ended just before it would have been stopped in its turn. This
    /// end is neither counted nor the cause of another restart, because OTP would have found the
    /// child dead when it came to stop it.
    fn stop_that_was_coming(&self, key: ChildKey) -> Option<After> {
        if self.is_ending() {
            Some(self.rest(key))
        } else if self.group_is_stopping(key) {
            Some(self.hold(key))
        } else {
            None
        }
    }

    pub(super) fn exited(
        &mut self,
        incarnation: Incarnation,
        exit: Exit,
        verdict: RestartDecision,
    ) {
        let key = incarnation.child;
        match self.current(incarnation) {
            Some(Status::Stopping { after, kill, .. }) => {
                if let Some(timer) = kill {
                    self.cancel(timer);
                }
                self.ended(key, after);
            }
            Some(Status::Running { .. }) => match self.stop_that_was_coming(key) {
                Some(after) => self.ended(key, after),
                None => self.exited_by_itself(key, exit, verdict),
            },
            Some(Status::Starting { .. }) => {
                self.start_failed(incarnation, exit.to_string(), verdict);
            }
            _ => {}
        }
    }

    fn exited_by_itself(&mut self, key: ChildKey, exit: Exit, verdict: RestartDecision) {
        let Some(slot) = self.children.get(&key) else {
            return;
        };
        let for_good = match slot.spec.restart {
            Restart::Permanent => false,
            Restart::Transient => exit.is_normal(),
            Restart::Temporary => true,
        };
        if for_good {
            let (significant, id) = (slot.spec.significant, slot.spec.id.clone());
            self.ended(key, self.rest(key));
            if significant {
                self.significant_child_ended(id);
            }
        } else {
            self.restart(key, exit, verdict);
        }
    }

    /// The child has no incarnation any more.
    fn ended(&mut self, key: ChildKey, after: After) {
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        let id = slot.spec.id.clone();
        let stop_callers = std::mem::take(&mut slot.stop_callers);
        let mut start_callers = Vec::new();
        let mut queued = Vec::new();
        if after != After::Hold {
            start_callers = std::mem::take(&mut slot.start_callers);
            queued = std::mem::take(&mut slot.queued);
            slot.failures = 0;
            slot.fresh = false;
        }
        self.lay_down(key, after);
        for caller in stop_callers {
            self.reply(caller, Answer::Done);
        }
        self.refuse_all(start_callers, &ChildError::Terminated);
        self.run_queued(&id, queued);
        self.group_member_is_done(key);
        self.advance_ending();
    }

    /// Decides on the restart of a child that must run and is not running.
    fn restart(&mut self, key: ChildKey, exit: Exit, verdict: RestartDecision) {
        let now = self.now;
        let backoff = self.spec.backoff;
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        let ran = matches!(slot.status, Status::Running { .. });
        if ran && now.saturating_sub(slot.started_at) >= backoff.reset_after {
            slot.failures = 0;
        }
        slot.failures = slot.failures.saturating_add(1);
        let (failures, id) = (slot.failures, slot.spec.id.clone());
        if verdict == RestartDecision::Counted
            && let Some(restarts) = self.count_restart()
        {
            let period_ms = u64::try_from(self.spec.intensity.period.as_millis());
            let period_ms = period_ms.unwrap_or(u64::MAX);
            let escalation = Escalation {
                child: id,
                exit,
                restarts,
                period_ms,
            };
            self.lay_down(key, After::Keep);
            self.out.push(Command::Escalate(escalation.clone()));
            return self.begin_ending(EndReason::RestartsUsedUp(escalation));
        }
        let chance = if backoff.base.is_zero() {
            0.0
        } else {
            self.random.random()
        };
        let mut delay = backoff.delay(failures, chance);
        if verdict == RestartDecision::Excused {
            delay = delay.max(EXCUSED_DELAY_MIN);
        }
        if self.spec.strategy.is_group() {
            self.restart_group(key, delay);
        } else if delay.is_zero() {
            self.begin_start(key, Origin::Restart);
        } else {
            let timer = self.arm(Purpose::Backoff(key), delay);
            self.set_status(key, Status::BackingOff(timer));
        }
    }

    /// Adds a restart; returns the number of restarts if there are too many.
    fn count_restart(&mut self) -> Option<u32> {
        let intensity = self.spec.intensity;
        let oldest = self
            .now
            .checked_sub(intensity.period)
            .unwrap_or(Duration::ZERO);
        while self.restarts.front().is_some_and(|at| *at < oldest) {
            self.restarts.pop_front();
        }
        self.restarts.push_back(self.now);
        let count = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
        (count > intensity.restarts).then_some(count)
    }

    pub(super) fn restart_now(&mut self, key: ChildKey) {
        let waits = self.children.get(&key).map(|slot| slot.status);
        if let Some(Status::BackingOff(_)) = waits {
            self.begin_start(key, Origin::Restart);
        }
    }

    /// The status of the child that this life currently belongs to.
    fn current(&self, incarnation: Incarnation) -> Option<Status> {
        let status = self.children.get(&incarnation.child)?.status;
        (status.incarnation(incarnation.child) == Some(incarnation)).then_some(status)
    }
}
