//! The supervisor's own end: all children stop in reverse order, and then the supervisor does.

use super::group::{Group, Step};
use super::slot::Status;
use super::{ChildError, ChildKey, Command, Machine, Phase};
use crate::exit::EndReason;
use crate::spec::{AutoShutdown, Strategy};

impl Machine {
    pub(super) fn significant_child_ended(&mut self, child: String) {
        if self.is_ending() {
            return;
        }
        let ends = match self.spec.auto_shutdown {
            AutoShutdown::Never => false,
            AutoShutdown::AnySignificant => true,
            AutoShutdown::AllSignificant => {
                let mut slots = self.children.values();
                !slots.any(|slot| slot.spec.significant && slot.status.is_active())
            }
        };
        if ends {
            self.begin_ending(EndReason::AutoShutdown { child });
        }
    }

    /// Begins the end, unless it has begun: the first reason stays.
    pub(super) fn begin_ending(&mut self, reason: EndReason) {
        if self.is_ending() {
            return;
        }
        self.phase = Phase::Ending {
            reason,
            below: None,
        };
        if let Some(Group {
            step: Step::Waiting(timer),
            ..
        }) = self.group.take()
        {
            self.cancel(timer);
        }
        let keys: Vec<ChildKey> = self.children.keys().copied().collect();
        for key in &keys {
            self.abandon_plans(*key);
        }
        if self.spec.strategy == Strategy::SimpleOneForOne {
            for key in keys.into_iter().rev() {
                self.begin_stop(key, self.rest(key));
            }
        }
        self.advance_ending();
    }

    /// Cancels all plans for this child other than its end.
    fn abandon_plans(&mut self, key: ChildKey) {
        self.refuse_queued(key, &ChildError::Ended);
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        let status = slot.status;
        let callers = std::mem::take(&mut slot.start_callers);
        self.refuse_all(callers, &ChildError::Ended);
        match status {
            Status::BackingOff(timer) => {
                self.cancel(timer);
                self.lay_down(key, self.rest(key));
            }
            Status::Held => self.lay_down(key, self.rest(key)),
            Status::Stopping {
                generation, kill, ..
            } => {
                let after = self.rest(key);
                self.set_status(
                    key,
                    Status::Stopping {
                        generation,
                        after,
                        kill,
                    },
                );
            }
            Status::Stopped | Status::Starting { .. } | Status::Running { .. } => {}
        }
    }

    pub(super) fn advance_ending(&mut self) {
        let Phase::Ending { reason, below } = &mut self.phase else {
            return;
        };
        if self.alive == 0 {
            let reason = reason.clone();
            self.phase = Phase::Ended;
            self.out.push(Command::EndSelf(reason));
            return;
        }
        let range = below.map_or(self.children.range(..), |below| {
            self.children.range(..below)
        });
        let last = range.rev().find(|(_, slot)| slot.status.is_alive());
        let Some((key, slot)) = last else { return };
        let (key, stopping) = (*key, matches!(slot.status, Status::Stopping { .. }));
        *below = Some(ChildKey(key.0 + 1));
        if !stopping {
            self.begin_stop(key, self.rest(key));
        }
    }
}
