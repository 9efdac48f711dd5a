//! The words of people that the function of a leg hears.

use std::collections::{BTreeMap, BTreeSet};

use super::steering_inbox::{Said, SteeringInbox};
use crate::vocabulary::Message;

/// The words to the function, by the lane that heard them and the place among those at which the
/// lane listened.
pub(crate) type HeardAt = BTreeMap<(u32, u32), Vec<Message>>;

/// The words of people to a leg's run.
#[derive(Default)]
pub(crate) struct Steering {
    /// Messages that the function has just got. The commit that records them strikes them off the
    /// mailbox.
    pub(super) taken: Vec<Said>,
    /// Messages that came with model answers which the function dropped unread. They are heard
    /// next.
    pub(super) unheard: Vec<Message>,
    /// The words that earlier incarnations heard, and this one has not asked for yet.
    pub(super) recorded: HeardAt,
    /// The lanes that hear nothing: those of policies, whose model calls are about something
    /// else.
    pub(super) deaf: BTreeSet<u32>,
}

impl Steering {
    /// Takes the messages that came with answers which the function dropped unread, for a lane that hears.
    pub(super) fn take_unheard(&mut self, lane: u32) -> Vec<Message> {
        match self.deaf.contains(&lane) {
            true => Vec::new(),
            false => std::mem::take(&mut self.unheard),
        }
    }

    pub(super) fn take(&mut self, waiting: &SteeringInbox) -> Vec<Message> {
        let said = waiting.take();
        let messages = said.iter().map(|said| said.message.clone()).collect();
        self.taken.extend(said);
        messages
    }
}
