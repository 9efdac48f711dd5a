//! The requests of callers: start, terminate, restart and delete a child.

use super::slot::{After, ChildSlot, Origin, Queued, Status};
use super::{Answer, Caller, ChildError, ChildKey, Command, Machine};
use crate::spec::{ChildSpec, Strategy};

impl Machine {
    pub(super) fn start_child(&mut self, caller: Caller, key: ChildKey, spec: ChildSpec) {
        match self.admit(&spec) {
            Ok(None) => {
                self.ids.insert(spec.id.clone(), key);
                let mut slot = ChildSlot::new(spec, Status::Stopped);
                slot.fresh = true;
                slot.start_callers.push(caller);
                self.children.insert(key, slot);
                self.start_or_hold(key);
            }
            Ok(Some(same_id)) => self.enqueue(same_id, caller, Queued::Start(key, spec)),
            Err(error) => {
                self.out.push(Command::Forget(key));
                self.refuse(caller, error);
            }
        }
    }

    /// Whether a new child may start: at once, or once the child with its id has ended.
    fn admit(&self, spec: &ChildSpec) -> Result<Option<ChildKey>, ChildError> {
        if !self.is_serving() {
            return Err(ChildError::Ended);
        }
        spec.validate(self.spec.auto_shutdown)?;
        let Some((key, slot)) = self.lookup(&spec.id) else {
            return Ok(None);
        };
        match slot.status {
            Status::Running { .. }
            | Status::Starting {
                origin: Origin::Command,
                ..
            } => Err(ChildError::AlreadyStarted),
            Status::Stopping {
                after: After::Keep | After::Remove,
                ..
            } => Ok(Some(key)),
            _ => Err(ChildError::AlreadyPresent),
        }
    }

    pub(super) fn restart_child(&mut self, caller: Caller, id: &str) {
        let (key, status) = match self.idle_child(id) {
            Ok(found) => found,
            Err(error) => return self.refuse(caller, error),
        };
        if matches!(status, Status::Stopping { .. }) {
            return self.enqueue(key, caller, Queued::Restart);
        }
        if let Some(slot) = self.children.get_mut(&key) {
            slot.start_callers.push(caller);
        }
        self.start_or_hold(key);
    }

    pub(super) fn delete_child(&mut self, caller: Caller, id: &str) {
        match self.idle_child(id) {
            Ok((key, Status::Stopping { .. })) => self.enqueue(key, caller, Queued::Delete),
            Ok((key, _)) => {
                self.remove(key);
                self.reply(caller, Answer::Done);
            }
            Err(error) => self.refuse(caller, error),
        }
    }

    /// The child with this id if it is stopped, or is being stopped for good.
    fn idle_child(&self, id: &str) -> Result<(ChildKey, Status), ChildError> {
        if !self.is_serving() {
            return Err(ChildError::Ended);
        }
        if self.spec.strategy == Strategy::SimpleOneForOne {
            return Err(ChildError::SimpleOneForOne);
        }
        let (key, slot) = self.lookup(id).ok_or(ChildError::NotFound)?;
        match slot.status {
            Status::Stopped
            | Status::Stopping {
                after: After::Keep | After::Remove,
                ..
            } => Ok((key, slot.status)),
            Status::Running { .. }
            | Status::Starting {
                origin: Origin::Command,
                ..
            } => Err(ChildError::Running),
            _ => Err(ChildError::Restarting),
        }
    }

    pub(super) fn terminate_child(&mut self, caller: Caller, id: &str) {
        if !self.is_serving() {
            return self.refuse(caller, ChildError::Ended);
        }
        let Some((key, slot)) = self.lookup(id) else {
            return self.refuse(caller, ChildError::NotFound);
        };
        let status = slot.status;
        match status {
            Status::Stopped => self.reply(caller, Answer::Done),
            Status::Held | Status::BackingOff(_) => {
                if let Status::BackingOff(timer) = status {
                    self.cancel(timer);
                }
                self.give_up(key);
                self.reply(caller, Answer::Done);
            }
            Status::Starting { .. } | Status::Running { .. } => {
                self.add_stop_caller(key, caller);
                self.begin_stop(key, self.rest(key));
            }
            Status::Stopping {
                generation, kill, ..
            } => {
                self.add_stop_caller(key, caller);
                let after = self.rest(key);
                self.set_status(
                    key,
                    Status::Stopping {
                        generation,
                        after,
                        kill,
                    },
                );
                // Commands that wait for the stop are refused: the last command was to stop.
                self.refuse_queued(key, &ChildError::Terminated);
            }
        }
    }

    /// Cancels the pending restart of a child.
    fn give_up(&mut self, key: ChildKey) {
        if let Some(slot) = self.children.get_mut(&key) {
            slot.failures = 0;
            slot.fresh = false;
            let callers = std::mem::take(&mut slot.start_callers);
            self.refuse_all(callers, &ChildError::Terminated);
        }
        self.lay_down(key, self.rest(key));
    }

    fn start_or_hold(&mut self, key: ChildKey) {
        if self.joins_group(key) {
            self.set_status(key, Status::Held);
        } else {
            self.begin_start(key, Origin::Command);
        }
    }

    fn add_stop_caller(&mut self, key: ChildKey, caller: Caller) {
        if let Some(slot) = self.children.get_mut(&key) {
            slot.stop_callers.push(caller);
        }
    }

    fn lookup(&self, id: &str) -> Option<(ChildKey, &ChildSlot)> {
        let key = *self.ids.get(id)?;
        Some((key, self.children.get(&key)?))
    }

    fn enqueue(&mut self, key: ChildKey, caller: Caller, queued: Queued) {
        if let Some(slot) = self.children.get_mut(&key) {
            slot.queued.push((caller, queued));
        }
    }

    pub(super) fn refuse_queued(&mut self, key: ChildKey, error: &ChildError) {
        let Some(slot) = self.children.get_mut(&key) else {
            return;
        };
        for (caller, queued) in std::mem::take(&mut slot.queued) {
            if let Queued::Start(key, _) = queued {
                self.out.push(Command::Forget(key));
            }
            self.refuse(caller, error.clone());
        }
    }

    /// Carries out the commands that waited for a child's end, in their original order.
    pub(super) fn run_queued(&mut self, id_of: &str, queued: Vec<(Caller, Queued)>) {
        for (caller, queued) in queued {
            match queued {
                Queued::Start(key, spec) => self.start_child(caller, key, spec),
                Queued::Restart => self.restart_child(caller, id_of),
                Queued::Delete => self.delete_child(caller, id_of),
            }
        }
    }
}
