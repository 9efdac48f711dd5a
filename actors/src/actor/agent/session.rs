//! An agent that holds a session.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{AgentState, SessionState, answer, item_of};
use crate::{
    actor::{
        SystemError,
        agent_command::{AgentCommand, BegunTurn, Recovery, TurnReply},
        launch::load_session,
        loaded::{LoadedSession, RecoveredSession},
        shared::TeamEntry,
        wake::WakeReply,
    },
    contract::{Append, Batch, Line, StoreError},
    definition::WhileBusy,
    run::{Loaded, OnCommitted, Ports, first_row},
    session::{SessionFold, Turn, TurnDecision, checkpoint_is_due, encode_checkpoint},
    vocabulary::{
        AgentError, Entry, JournalId, RunId, RunStart, SessionId, SessionTurn, Timestamp, TurnEnd,
    },
};

impl SessionState {
    /// Whether this is the run of a turn that was quarantined.
    pub(super) fn has_aside(&self, run: RunId) -> bool {
        self.fold()
            .is_some_and(|fold| fold.aside.contains_key(&run))
    }

    /// The session, if it was read.
    pub(super) fn fold(&self) -> Option<&SessionFold> {
        self.loaded.as_ref().map(|(fold, _)| fold)
    }

    /// Forgets what was read of the session.
    pub(super) fn forget(&mut self) {
        (self.loaded, self.looks) = (None, None);
    }

    /// Takes over an entry that was recorded, if the session was read.
    pub(super) fn record(&mut self, add: impl FnOnce(&mut SessionFold)) -> Option<&SessionFold> {
        let (fold, claim) = self.loaded.as_mut()?;
        add(fold);
        claim.entries += 1;
        Some(fold)
    }

    /// Refuses the turns that still wait.
    pub(super) fn refuse_waiting(&mut self, error: impl Fn() -> SystemError) {
        let refused = || Err(error());
        for reply in self.turns.clear() {
            let _ = reply.send(refused());
        }
        for reply in self.reopening.drain(..).filter_map(|(_, _, reply)| reply) {
            reply.give(refused());
        }
    }
}

impl AgentState {
    pub(super) fn turn(&mut self, turn: Turn, reply: TurnReply) {
        if reply.is_closed() {
            // The turn's sender has left. Nothing of the turn is recorded.
            return;
        }
        let team = self.team();
        let Some(session) = &mut self.session else {
            return;
        };
        let Some((fold, _)) = &session.loaded else {
            if session.early.len() >= self.shared.limits.max_queued_turns.max(1) {
                self.follow(TurnDecision::Overloaded(reply));
                return;
            }
            session.early.reserve_exact(1);
            session.early.push((turn, reply));
            self.load_session();
            return;
        };
        let rule = match session.looks.is_some() {
            true => WhileBusy::Queue,
            false => team.map_or_else(WhileBusy::default, |team| team.pinned.team.while_busy),
        };
        let decision = session.turns.offer(fold, (turn, reply), rule);
        match (decision, self.shared.check_places()) {
            (TurnDecision::Begin(_, reply), Err(full)) => {
                session.turns.set_busy(false);
                let _ = reply.send(Err(full));
            }
            (decision, _) => self.follow(decision),
        }
    }

    pub(super) fn follow(&mut self, decision: TurnDecision<TurnReply>) {
        let Some(session) = &self.session else { return };
        match decision {
            TurnDecision::Known(run, reply) => {
                // A turn that is sent again does not retry its quarantined run.
                let aside = session.has_aside(run);
                let current = session.fold().map_or(run, |fold| fold.current(run));
                let _ = reply.send(Ok(run));
                if !aside {
                    self.wake(current, false, None);
                }
            }
            TurnDecision::Begin(turn, reply) => self.begin_turn(turn, reply),
            TurnDecision::Queued => self.look_at_open_run(),
            TurnDecision::Busy(reply) => {
                let open = session.fold().and_then(|fold| fold.open);
                let session = session.id.to_string();
                let _ = reply.send(Err(match open {
                    Some(run) => SystemError::UnderWay { session, run },
                    None => SystemError::Overloaded {
                        what: session,
                        bound: 1,
                    },
                }));
            }
            TurnDecision::Steer(turn, reply) => self.steer(turn, reply),
            TurnDecision::Overloaded(reply) => {
                let what = format!("session {}", session.id);
                let bound = self.shared.limits.max_queued_turns;
                let _ = reply.send(Err(SystemError::Overloaded { what, bound }));
            }
            TurnDecision::Other(turn, run, reply) => {
                let session = session.id.to_string();
                let _ = reply.send(Err(SystemError::OtherTurn { session, turn, run }));
            }
            TurnDecision::Foreign(reply) => {
                let session = session.id.to_string();
                let _ = reply.send(Err(SystemError::Foreign { session }));
            }
        }
    }

    pub(super) fn load_session(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        if std::mem::replace(&mut session.loading, true) {
            return;
        }
        let (services, id) = (self.shared.services.clone(), session.id.clone());
        let take_over = session.wakes.iter().any(|(_, take_over, _)| *take_over);
        let may_make = !session.is_made && !take_over;
        let version = self.shared.version_of(&id.team);
        let mut loading =
            Box::pin(
                async move { load_session(&services, &id, version, take_over, may_make).await },
            );
        // A store in memory answers at once, and needs no task that waits for it.
        let Some(loaded) = (&mut loading).now_or_never() else {
            self.beside(async move { [AgentCommand::SessionLoaded(Box::new(loading.await))] });
            return;
        };
        self.session_loaded(loaded);
    }

    pub(super) fn session_loaded(&mut self, loaded: Result<LoadedSession, StoreError>) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.loading = false;
        let early = std::mem::take(&mut session.early);
        let wakes = std::mem::take(&mut session.wakes);
        // Each run of `wakes` is live at the end or does not go on, so its place is kept until then.
        let _places = std::mem::take(&mut session.places);
        match loaded {
            Ok(LoadedSession { fold, claim, kept }) => {
                let open = fold.open;
                session.turns.set_busy(open.is_some());
                session.not_carried = open;
                session.kept = Arc::new(AtomicU64::new(kept));
                let is_between_turns = open.is_none() && fold.entries > 0;
                session.loaded = Some((fold, claim));
                if is_between_turns {
                    self.look_for_steering_turns();
                }
                for (turn, reply) in early {
                    self.turn(turn, reply);
                }
                for (run, take_over, reply) in wakes {
                    self.wake(run, take_over, reply);
                }
                if let Some(run) = open.filter(|_| std::mem::take(&mut self.recovering)) {
                    self.wake(run, false, None);
                }
                self.next_turn();
                self.answer_known();
            }
            Err(error) => {
                let is_tried_again = self.was_told && !error.is_lasting() && !error.is_elsewhere();
                for (_, reply) in early {
                    let _ = reply.send(Err(SystemError::Store(error.clone())));
                }
                session.refuse_waiting(|| error.clone().into());
                let error = || SystemError::Store(error.clone());
                for (run, _, reply) in wakes {
                    self.tell_unreadable(run, &error());
                    answer(reply, Err(error()));
                }
                if is_tried_again {
                    self.look_again();
                }
            }
        }
        if self.is_quiet() {
            self.watch_idleness();
        }
    }

    /// Leaves reading the session and this run to the recovery of several sessions, unless the session is open or
    /// being read. Returns where that recovery puts what it read; left without it, the agent reads for itself.
    pub(super) fn stand_by(&mut self, run: RunId) -> Option<Recovery> {
        let session = self.session.as_mut()?;
        if session.loaded.is_some() || std::mem::replace(&mut session.loading, true) {
            return None;
        }
        let (sender, recovered) = oneshot::channel();
        self.beside(async move { [AgentCommand::RecoveredSession(run, recovered.await.ok())] });
        Some(sender)
    }

    /// Goes on with an open run that was read together with others.
    pub(super) fn recovered(&mut self, run: RunId, taken: Option<Box<RecoveredSession>>) {
        if let Some(session) = &mut self.session {
            session.loading = false;
        }
        let Some(taken) = taken else {
            self.wake(run, false, None);
            return;
        };
        self.session_loaded(Ok(taken.session));
        // The run was woken meanwhile: it is being read again, with a later claim.
        if !self.runs.contains_key(&run) {
            self.host_run(run, None);
            self.run_loaded(run, Ok(taken.run));
        }
    }

    pub(super) fn begin_turn(&mut self, mut turn: Turn, reply: TurnReply) {
        let Some(SessionState {
            id,
            loaded: Some((fold, claim)),
            ..
        }) = &self.session
        else {
            return;
        };
        let team = match self.shared.known_team(&id.team) {
            Ok(team) => team,
            Err(error) => {
                let _ = reply.send(Err(error));
                if let Some(session) = &mut self.session {
                    session.turns.set_busy(false);
                }
                return;
            }
        };
        let services = self.services();
        let again = (fold.entries == 0).then(|| turn.clone());
        let turn_id = turn.id.take().unwrap_or_default();
        let run = RunId::of_turn(id, &turn_id);
        let item = self.steers().then(|| item_of(&turn_id));
        let now = services.clock.now();
        let start = Arc::new(first_start(run, &turn, &team, fold, id, now));
        let mut said = SessionTurn::new(turn_id, run, turn.message);
        said.owner = turn
            .owner
            .filter(|_| fold.entries == 0 || fold.owner.is_some());
        let row = Arc::new(first_row(run, &start, team.pinned.team.version));
        let turn_started = Line::later(now, Entry::TurnStarted(Box::new(said.clone())));
        let run_started = Line::later(now, start.clone());
        let journal = JournalId::Session(SessionId::clone(id));
        let item = item.map(|item| (journal.clone(), item));
        let in_session = Append::new(journal, claim.entries, claim.epoch, vec![turn_started]);
        let of_run = Append::new(run, 0, 1, vec![run_started]).row(row.clone());
        let mut batch = Batch {
            appends: vec![in_session, of_run],
            ..Batch::default()
        };
        batch.blobs.push((team.digest, team.bytes.clone()));
        batch.taken.extend(item);
        let (ports, root) = (services.clone(), run);
        let begun = Box::new(BegunTurn {
            row,
            start,
            turn: said,
            reply,
            again,
        });
        let myself = self.myself.clone();
        services.commit(
            batch,
            OnCommitted::new(move |result| {
                if let Ok(committed) = &result {
                    ports.published(root, committed.position + 2);
                }
                let recorded = AgentCommand::TurnRecorded(begun, result.map(drop));
                let _ = myself.cast(recorded);
            }),
        );
    }

    pub(super) fn turn_recorded(&mut self, begun: BegunTurn, result: Result<(), StoreError>) {
        let Some(session) = &mut self.session else {
            return;
        };
        if let Err(error) = result {
            let is_there = matches!(
                error,
                StoreError::Stale { .. } | StoreError::Owned { .. } | StoreError::Sequence { .. }
            );
            if error.is_about_what_is_written() {
                session.refused = Some(begun.turn.turn.clone());
            }
            match begun.again {
                // The session existed already. It is claimed now, which tells its owner.
                Some(turn) if is_there && !std::mem::replace(&mut session.is_made, true) => {
                    session.early.push((turn, begun.reply));
                }
                _ => {
                    let _ = begun.reply.send(Err(SystemError::Store(error)));
                }
            }
            // A turn that nobody waits for is still in the session's mailbox.
            self.look_again();
            // Another process writes to this session, or the store failed, perhaps after the write:
            // the state in memory no longer counts, and a turn that was recorded after all goes on.
            self.reload_session();
            return;
        }
        let run = begun.turn.run;
        let turn = begun.turn;
        if session.record(|fold| fold.add_start(turn)).is_none() {
            return;
        }
        let Some(team) = self.shared.team(&session.id.team) else {
            return;
        };
        // The run is known before its handle is, so that it can be found through the handle.
        let loaded = Loaded::fresh(begun.row, begun.start, team.pinned);
        self.host_run(run, None);
        let _ = begun.reply.send(Ok(run));
        self.carry(loaded, None);
        self.answer_known();
    }

    /// Answers the callers of turns that have begun by now. The others wait for the run that is open now.
    fn answer_known(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let Some((fold, _)) = &session.loaded else {
            return;
        };
        let (known, waits) = (session.turns.known(fold), session.turns.has_waiting());
        for decision in known {
            match decision {
                TurnDecision::Known(run, reply) => drop(reply.send(Ok(run))),
                other => self.follow(other),
            }
        }
        if waits {
            self.look_for_questions(Some(false));
        }
    }

    /// Whether a run's journal is ahead of its session's fold: the run's last entries in the
    /// session's journal became durable, but nobody heard of it.
    pub(super) fn is_news_to_session(&self, run: RunId, loaded: &Loaded) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let parked = matches!(loaded.recorded.parked, Some(AgentError::Crashed { .. }));
        let moved = loaded.row.run != run || (parked && !session.has_aside(run));
        moved && loaded.row.parent.is_none()
    }

    pub(super) fn wake_in_reloaded_session(&mut self, run: RunId, reply: Option<WakeReply>) {
        if let Some(session) = &mut self.session {
            if reply.is_some() {
                session.wakes.push((run, false, reply));
            }
            self.reload_session();
        }
    }

    /// Reads the session again; its open run goes on.
    pub(super) fn reload_session(&mut self) {
        if let Some(session) = &mut self.session {
            session.forget();
            self.recovering = true;
            self.load_session();
        }
    }

    pub(super) fn turn_ended(&mut self, end: &TurnEnd, found_ended: bool) {
        let run = end.run;
        if self.session.is_some() {
            for below in self.leave_agents(run) {
                below.stop(None);
            }
        }
        let Some(session) = &mut self.session else {
            return;
        };
        session.not_carried = None;
        if found_ended {
            // The session's fold was made before that end, or by an earlier incarnation.
            self.reload_session();
            return;
        }
        self.turn_is_over(|fold| fold.add_end(end));
    }

    /// Releases a turn whose run is parked for crashing: the session continues without it.
    pub(super) fn turn_quarantined(&mut self, run: RunId, heard: Vec<String>) {
        self.sleep(run, None);
        if let Some(session) = &mut self.session {
            session.not_carried = None;
        }
        self.turn_is_over(|fold| fold.add(Entry::TurnQuarantined { run, heard }));
    }

    /// Goes on to the next turn, after the last one's entry was added.
    fn turn_is_over(&mut self, add: impl FnOnce(&mut SessionFold)) {
        let store = self.services().store.clone();
        let Some(session) = &mut self.session else {
            return;
        };
        let (kept, id) = (session.kept.clone(), session.id.clone());
        let Some(fold) = session.record(add) else {
            return;
        };
        if checkpoint_is_due(kept.load(Ordering::Acquire), fold.entries)
            && let Some(bytes) = encode_checkpoint(fold)
        {
            let entries = fold.entries;
            self.loads.spawn(async move {
                let put = store.put_checkpoint(SessionId::clone(&id), Some(bytes));
                match put.await {
                    Ok(()) => kept.store(entries, Ordering::Release),
                    Err(error) => tracing::debug!(%error, "the checkpoint was not kept"),
                }
            });
        }
        session.turns.set_busy(false);
        self.look_for_steering_turns();
        self.next_turn();
    }

    /// Handles a run that was to be recovered and cannot be read: the turns that wait for it are
    /// refused. If the run is a quarantined one, the session goes on.
    pub(super) fn not_recovered(&mut self, run: RunId) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.has_aside(run) {
            session.turns.set_busy(false);
            self.next_turn();
        } else {
            session.not_carried = Some(run);
            let name = session.id.to_string();
            session.refuse_waiting(|| SystemError::UnderWay {
                session: name.clone(),
                run,
            });
        }
        self.watch_idleness();
    }

    /// Begins the next of the turns that wait, and answers those before it that need no run.
    pub(super) fn next_turn(&mut self) {
        while let Some(session) = &mut self.session
            && !session.turns.is_busy()
            && let Some((run, take_over, reply)) = session.reopening.pop_front()
        {
            self.wake(run, take_over, reply);
        }
        while let Some(session) = &mut self.session
            && let Some((fold, _)) = &session.loaded
            && let Some(decision) = session.turns.next(fold)
        {
            if let TurnDecision::Begin(_, reply) = &decision
                && reply.is_closed()
            {
                // The turn's sender left while it waited. Nothing of the turn is recorded.
                session.turns.set_busy(false);
                continue;
            }
            self.follow(decision);
        }
    }
}

/// The start of the run that carries this turn.
fn first_start(
    run: RunId,
    turn: &Turn,
    team: &TeamEntry,
    fold: &SessionFold,
    session: &SessionId,
    now: Timestamp,
) -> RunStart {
    let spec = &team.pinned.team;
    let active = fold
        .active_agent
        .as_deref()
        .filter(|name| spec.find(name).is_some());
    let agent = active.unwrap_or(&spec.agent.name).to_owned();
    let mut start = RunStart::new(
        run,
        &*session.team,
        agent,
        team.digest,
        turn.message.clone(),
    );
    start.display_name = team.pinned.display_name_of(&start.agent);
    start.session = Some(session.clone());
    start.history = fold.entries;
    start.budget = spec.budget.narrowed(&turn.budget);
    start.deadline = turn.deadline;
    start.at = now;
    start.owner = turn.owner.clone().or_else(|| fold.owner.clone());
    (start.dry_run, start.streaming) = (turn.dry_run, turn.streaming);
    start.tools.clone_from(&turn.tools);
    start
}
