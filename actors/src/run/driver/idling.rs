//! A run that waits only for the outside.

use super::{Driver, LegEnd};
use crate::{
    contract::RunStatus,
    run::{ChildReport, leg::Leg},
    vocabulary::Timestamp,
};

impl Driver {
    /// Whether the run waits only for the outside. The parent and the index are told when this
    /// changes.
    pub(super) fn settle_idle(&mut self, leg: &Leg) -> bool {
        let idle = self.acts.is_empty()
            && self.background.is_empty()
            && self.children.values().all(|child| child.idle.is_some())
            && (!self.children.is_empty() || leg.machine().has_waits());
        // The run may wait for another event than before without having been at work in between.
        let standing = idle.then(|| self.wake_at(leg));
        if standing != self.told_idle {
            self.told_idle = standing;
            let wake_at = standing.flatten();
            if let Some(parent) = &self.parent {
                parent.tell(match idle {
                    true => ChildReport::Idle { wake_at },
                    false => ChildReport::Busy,
                });
            }
            let status = match idle {
                true => RunStatus::Waiting,
                false => RunStatus::Running,
            };
            self.journal
                .change_row(|row| (row.status, row.wake_at) = (status, wake_at));
        }
        idle
    }

    /// Marks the run as at work again. No run above may fall asleep meanwhile. The commit that ends
    /// the wait writes this to the index too: a process that starts recovers the runs that are at
    /// work and leaves those that wait.
    pub(super) fn goes_on(&mut self) {
        if self.tell_at_work() {
            self.journal.change_row(|row| {
                (row.status, row.wake_at) = (RunStatus::Running, None);
            });
        }
    }

    /// Tells the parent that the run waits no longer. `true` if the run was reported as waiting
    /// before.
    pub(super) fn tell_at_work(&mut self) -> bool {
        let waited = self.told_idle.take().is_some();
        if let Some(parent) = self.parent.as_ref().filter(|_| waited) {
            parent.tell(ChildReport::Busy);
        }
        waited
    }

    fn wake_at(&self, leg: &Leg) -> Option<Timestamp> {
        let (timer, pause) = leg.machine().first_times();
        // The wall clock's present time, since others know no other.
        let set_back_ms = self.ports.clock().set_back_ms();
        let pause = pause.map(|at| Timestamp(at.0.saturating_sub(set_back_ms)));
        let children = self.children.values().filter_map(|child| child.idle?);
        let own = timer
            .into_iter()
            .chain(pause)
            .chain(self.wall_time_warning)
            .chain(self.deadline);
        children.chain(own).min()
    }

    /// A root sleeps together with all runs below it, and only when all of them are idle.
    pub(super) fn falls_asleep(&self, leg: &Leg) -> Result<(), LegEnd> {
        let told = self.sender.told_so_far();
        let wake_at = self.wake_at(leg);
        match self.sender.is_dealing() {
            true => Ok(()),
            false => Err(LegEnd::Asleep { wake_at, told }),
        }
    }
}
