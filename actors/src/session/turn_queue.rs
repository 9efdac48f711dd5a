use std::collections::VecDeque;

use super::{SessionFold, Turn};
use crate::{definition::WhileBusy, vocabulary::RunId};

/// Decides about a turn: one run at a time, the other turns wait, up to a bound.
#[derive(Debug)]
pub(crate) struct TurnQueue<T> {
    waiting: VecDeque<(Turn, T)>,
    bound: usize,
    busy: bool,
}

/// The decision about a turn.
#[derive(Debug, PartialEq)]
pub(crate) enum TurnDecision<T> {
    /// The turn was sent before; this is its run.
    Known(RunId, T),
    /// The turn begins now.
    Begin(Turn, T),
    /// The turn waits until those before it have ended.
    Queued,
    /// Another turn is under way, and this one is not to wait.
    Busy(T),
    /// The turn is to be said to the run that is under way.
    Steer(Turn, T),
    /// Too many turns wait already.
    Overloaded(T),
    /// The session belongs to another owner.
    Foreign(T),
    /// Another message was sent before under the turn's id, which this is; that turn's run.
    Other(String, RunId, T),
}

impl<T> TurnQueue<T> {
    /// A queue in which at most `bound` turns wait.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bound,
            busy: false,
        }
    }

    /// Notes whether a run is under way.
    pub(crate) fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Whether a run is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Takes a turn, by this rule where another is under way.
    pub(crate) fn offer(
        &mut self,
        fold: &SessionFold,
        (turn, reply): (Turn, T),
        while_busy: WhileBusy,
    ) -> TurnDecision<T> {
        let known = turn
            .id
            .as_ref()
            .is_some_and(|id| fold.turns.contains_key(id));
        match while_busy {
            _ if !self.busy || known || is_foreign(fold, &turn) => self.queue(fold, turn, reply),
            WhileBusy::Steer if turn.needs_own_run() => self.queue(fold, turn, reply),
            WhileBusy::Queue => self.queue(fold, turn, reply),
            WhileBusy::Refuse => TurnDecision::Busy(reply),
            WhileBusy::Steer => TurnDecision::Steer(turn, reply),
        }
    }

    /// Takes a turn, which waits if it must.
    pub(crate) fn queue(&mut self, fold: &SessionFold, turn: Turn, reply: T) -> TurnDecision<T> {
        if is_foreign(fold, &turn) {
            return TurnDecision::Foreign(reply);
        }
        let reply = match known(fold, &turn, reply) {
            Ok(decision) => return decision,
            Err(reply) => reply,
        };
        if !self.busy {
            self.busy = true;
            return TurnDecision::Begin(turn, reply);
        }
        if self.waiting.len() >= self.bound {
            return TurnDecision::Overloaded(reply);
        }
        self.waiting.push_back((turn, reply));
        TurnDecision::Queued
    }

    /// The next turn, unless a run is under way. A turn that needs no run of its own leaves the
    /// agent free, so call this again until it gives `None`.
    pub(crate) fn next(&mut self, fold: &SessionFold) -> Option<TurnDecision<T>> {
        if self.busy {
            return None;
        }
        let (turn, reply) = self.waiting.pop_front()?;
        Some(self.queue(fold, turn, reply))
    }

    /// Takes out the waiting turns whose id has a run by now: they were sent twice, and their
    /// callers need not wait for another turn's end.
    pub(crate) fn known(&mut self, fold: &SessionFold) -> Vec<TurnDecision<T>> {
        let mut found = Vec::new();
        for (turn, reply) in std::mem::take(&mut self.waiting) {
            if is_foreign(fold, &turn) {
                self.waiting.push_back((turn, reply));
                continue;
            }
            match known(fold, &turn, reply) {
                Ok(decision) => found.push(decision),
                Err(reply) => self.waiting.push_back((turn, reply)),
            }
        }
        found
    }

    /// Whether a turn of this owner waits.
    pub(crate) fn has_waiting_of(&self, owner: Option<&str>) -> bool {
        let mut speakers = self.waiting.iter().map(|(turn, _)| turn.owner.as_deref());
        speakers.any(|speaker| speaker == owner)
    }

    /// Whether turns wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes all turns that wait, and returns their replies.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..).map(|(_, reply)| reply)
    }
}

/// The decision about a turn whose id was sent before; the reply is given back where it was not.
fn known<T>(fold: &SessionFold, turn: &Turn, reply: T) -> Result<TurnDecision<T>, T> {
    let sent = turn
        .id
        .as_ref()
        .and_then(|id| Some((id, fold.turns.get(id)?)));
    match sent {
        None => Err(reply),
        Some((_, known)) if known.says(&turn.message) => Ok(TurnDecision::Known(known.run, reply)),
        Some((id, known)) => Ok(TurnDecision::Other(id.clone(), known.run, reply)),
    }
}

/// Whether the session belongs to another owner than the turn names.
fn is_foreign(fold: &SessionFold, turn: &Turn) -> bool {
    match (&fold.owner, &turn.owner) {
        (Some(owner), Some(speaker)) => owner != speaker,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vocabulary::{Entry, Message, SessionTurn};

    const QUEUE: WhileBusy = WhileBusy::Queue;

    #[test]
    fn one_turn_at_a_time_in_order_up_to_the_bound() {
        let (fold, mut turn_queue) = (SessionFold::default(), TurnQueue::new(1));
        assert!(matches!(
            turn_queue.offer(&fold, ("a".into(), 1), QUEUE),
            TurnDecision::Begin(_, 1)
        ));
        assert_eq!(
            turn_queue.offer(&fold, ("b".into(), 2), QUEUE),
            TurnDecision::Queued
        );
        assert_eq!(
            turn_queue.offer(&fold, ("c".into(), 3), QUEUE),
            TurnDecision::Overloaded(3)
        );
        assert!(turn_queue.next(&fold).is_none(), "one is under way");
        turn_queue.set_busy(false);
        assert!(matches!(
            turn_queue.next(&fold),
            Some(TurnDecision::Begin(_, 2))
        ));
        turn_queue.set_busy(false);
        assert!(turn_queue.next(&fold).is_none());
        assert!(!turn_queue.is_busy() && !turn_queue.has_waiting());
    }

    #[test]
    fn a_turn_that_comes_meanwhile_waits_or_is_refused_or_steers_by_setting() {
        let (mut fold, stranger) = (SessionFold::default(), Turn::text("b").owner("eve"));
        fold.owner = Some("ada".to_owned());
        let run = RunId::from_random(1);
        let mut turn = SessionTurn::new("known", run, Message::user("c"));
        turn.owner = Some("ada".to_owned());
        fold.add(Entry::TurnStarted(Box::new(turn)));
        let own = |text: &str| Turn::text(text).owner("ada");
        for rule in [WhileBusy::Queue, WhileBusy::Refuse, WhileBusy::Steer] {
            let mut turn_queue = TurnQueue::new(9);
            let first = turn_queue.offer(&fold, (own("a"), 1), rule);
            assert!(matches!(first, TurnDecision::Begin(_, 1)), "{rule:?}");
            let second = turn_queue.offer(&fold, (own("b"), 2), rule);
            match rule {
                WhileBusy::Queue => assert_eq!(second, TurnDecision::Queued),
                WhileBusy::Refuse => assert_eq!(second, TurnDecision::Busy(2)),
                WhileBusy::Steer => assert_eq!(second, TurnDecision::Steer(own("b"), 2)),
            }
            assert_eq!(
                turn_queue.offer(&fold, (stranger.clone(), 3), rule),
                TurnDecision::Foreign(3)
            );
            let again = turn_queue.offer(&fold, (own("c").id("known"), 4), rule);
            assert_eq!(again, TurnDecision::Known(run, 4));
            let other = turn_queue.offer(&fold, (own("d").id("known"), 6), rule);
            assert_eq!(other, TurnDecision::Other("known".to_owned(), run, 6));
            assert_eq!(
                turn_queue.queue(&fold, own("d"), 5),
                TurnDecision::Queued,
                "{rule:?}"
            );
        }
    }

    #[test]
    fn turns_that_wait_under_one_id_hold_nobody_up() {
        let (mut fold, mut turn_queue) = (SessionFold::default(), TurnQueue::new(9));
        turn_queue.set_busy(true);
        for (id, reply) in [("b", 1), ("b", 2), ("c", 3)] {
            turn_queue.offer(&fold, (Turn::text("x").id(id), reply), QUEUE);
        }
        turn_queue.set_busy(false);
        assert!(matches!(
            turn_queue.next(&fold),
            Some(TurnDecision::Begin(_, 1))
        ));
        let run = RunId::from_random(1);
        let turn = SessionTurn::new("b", run, Message::user("x"));
        fold.add(Entry::TurnStarted(Box::new(turn)));
        assert_eq!(turn_queue.known(&fold), [TurnDecision::Known(run, 2)]);
        turn_queue.set_busy(false);
        assert!(matches!(
            turn_queue.next(&fold),
            Some(TurnDecision::Begin(_, 3))
        ));
    }

    #[test]
    fn a_turn_sent_twice_is_one_run_and_a_stranger_is_refused() {
        let (mut fold, mut turn_queue) = (SessionFold::default(), TurnQueue::new(1));
        let run = RunId::from_random(1);
        let mut turn = SessionTurn::new("t1", run, Message::user("hello"));
        turn.owner = Some("ada".into());
        fold.add(Entry::TurnStarted(Box::new(turn)));
        let again = Turn::text("hello").id("t1").owner("ada");
        assert_eq!(
            turn_queue.offer(&fold, (again, ()), QUEUE),
            TurnDecision::Known(run, ())
        );
        let stranger = Turn::text("hello").owner("bob");
        assert_eq!(
            turn_queue.offer(&fold, (stranger, ()), QUEUE),
            TurnDecision::Foreign(())
        );
    }
}
