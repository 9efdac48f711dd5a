//! A run that waits only for the outside.

use std::time::Duration;

use super::{Driver, LegEnd};
use crate::{
    contract::RunStatus,
    run::{ChildReport, Idleness, leg::Leg},
    vocabulary::Timestamp,
};

/// The shortest time for which a run that waits for the outside stays in memory. It gives the runs below it time to read
/// what they were told, before it looks again.
const LINGER_MIN: Duration = Duration::from_millis(1);

impl Driver {
    /// Whether the run waits only for the outside. The parent and the index are told when this
    /// changes.
    pub(super) fn settle_idle(&mut self, leg: &Leg) -> bool {
        let idle = self.acts.is_empty()
            && self.background.is_empty()
            && self.children.values().all(|child| child.idle.is_some())
            && (!self.children.is_empty() || leg.machine().has_waits());
        // The run may wait for another event than before without having been at work in between.
        let standing = idle.then(|| self.idleness(leg));
        if standing != self.told_idle {
            self.told_idle = standing;
            if let Some(parent) = &self.parent {
                parent.tell(standing.map_or(ChildReport::Busy, ChildReport::Idle));
            }
            let wake_at = standing.and_then(|idleness| idleness.wake_at);
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

    /// How long a run that waits for the outside stays in memory. One that waits for its provider for longer than that does
    /// not: in an outage many runs do, and nothing else is expected for them.
    pub(super) fn lingers(&self) -> Option<Duration> {
        let linger = self.linger?;
        let now = self.ports.clock().now();
        let waits = self.told_idle.filter(|idleness| idleness.for_providers);
        let wakes_in = waits.and_then(|idleness| Some(idleness.wake_at?.since(now)));
        let is_later = wakes_in.is_some_and(|pause| pause > linger);
        Some(match is_later {
            true => LINGER_MIN,
            false => linger.max(LINGER_MIN),
        })
    }

    fn idleness(&self, leg: &Leg) -> Idleness {
        let mut children = self.children.values();
        Idleness {
            wake_at: self.wake_at(leg),
            for_providers: leg.machine().waits_for_providers()
                && children.all(|child| child.idle.is_some_and(|idle| idle.for_providers)),
        }
    }

    fn wake_at(&self, leg: &Leg) -> Option<Timestamp> {
        let (timer, pause) = leg.machine().first_times();
        // The wall clock's present time, since others know no other.
        let set_back_ms = self.ports.clock().set_back_ms();
        let pause = pause.map(|at| Timestamp(at.0.saturating_sub(set_back_ms)));
        let children = self.children.values();
        let children = children.filter_map(|child| child.idle?.wake_at);
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
