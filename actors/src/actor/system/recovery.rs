//! How runs go on that no process carries: woken one by one, resumed by name, or recovered
//! together.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::oneshot, task::JoinSet};

use super::System;
use crate::{
    actor::{
        Run, SystemError,
        acting::Use,
        agent_command::{AgentCommand, Place},
        launch::recover_together,
        poll_interval::AGAIN,
        recording::read_row,
        shared::Shared,
        wake::WakeReply,
    },
    contract::{ItemBody, MailboxItem, RunFilter, RunRow, RunStatus, StoreError},
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};

/// How many interrupted runs are claimed and read together.
const TAKEN_UP_TOGETHER: usize = 128;

/// How long a System waits for more places once some are free, before it takes up what it left.
const SETTLING: Duration = Duration::from_millis(100);

/// A team and a tenant. A tenant is the part of an owner's name before its first `:`.
type Tenant = (String, String);

fn tenant_of(session: &SessionId, row: &RunRow) -> Tenant {
    let owner = row.owner.as_deref().unwrap_or_default();
    let tenant = owner.split(':').next().unwrap_or_default();
    (session.team.to_string(), tenant.to_owned())
}

/// Runs in the order in which they are taken up: one of each team and tenant in turn, the oldest
/// first, so that many runs of one do not hold up those of another. `live` counts the runs that each
/// has here already. `rows` begins with the newest.
fn in_turns(
    rows: Vec<(SessionId, RunRow)>,
    live: HashMap<Tenant, usize>,
) -> Vec<(SessionId, RunRow)> {
    let mut counts = live;
    let placed = rows.into_iter().rev().map(|(session, row)| {
        let count = counts.entry(tenant_of(&session, &row)).or_default();
        *count += 1;
        (*count, (session, row))
    });
    let mut placed: Vec<(usize, (SessionId, RunRow))> = placed.collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, row)| row).collect()
}

/// Root runs that go on by themselves.
#[derive(Default)]
struct Uncarried {
    /// How many are live here.
    live: HashMap<Tenant, usize>,
    /// Those that no process carries, and that sleep.
    asleep: Vec<(Timestamp, RunId)>,
    /// Those that no process carries, and that were interrupted.
    interrupted: Vec<(SessionId, RunRow)>,
}

impl Shared {
    /// The root run that carries a run's tree now, if the tree has not ended.
    async fn open_root_of(&self, row: RunRow) -> Result<Option<RunRow>, StoreError> {
        let row = match row.status {
            RunStatus::Continued => self.services.current(row.run).await?.unwrap_or(row),
            _ => row,
        };
        if row.parent.is_none() {
            return Ok((!row.status.is_ended()).then_some(row));
        }
        self.open_root(row.root).await
    }

    /// The open run that carries the tree of this root now.
    async fn open_root(&self, root: RunId) -> Result<Option<RunRow>, StoreError> {
        let mut filter = RunFilter::open();
        (filter.roots, filter.root) = (true, Some(root));
        Ok(self.services.store.runs(filter).await?.pop())
    }

    /// Wakes a sleeping run of this System: its root is recovered, and reads its mailbox. `place` is kept for the root,
    /// if it must not be live beyond the bound.
    pub(crate) async fn wake(self: &Arc<Self>, run: RunId, place: Option<Place>) {
        let again = self.wake_again(run);
        match self.session_to_wake(run).await {
            Ok(Some((session, root))) => {
                if let Ok(agent) = self.agent_of(&session).await {
                    let again = Some(WakeReply::Again(again));
                    let _ = agent.cast(AgentCommand::Wake(root, false, again, place));
                }
            }
            Ok(None) => again.done(),
            Err(error) => again.failed(&error),
        }
    }

    /// The session whose agent can take up a sleeping run, and the root that carries the run's tree; `None` where nothing
    /// here is to do for it.
    async fn session_to_wake(&self, run: RunId) -> Result<Option<(SessionId, RunId)>, StoreError> {
        let store = &self.services.store;
        let Some(row) = self.services.current(run).await? else {
            return Ok(None);
        };
        let mailboxes = [row.run, row.begun_as()];
        let Some(root) = self.open_root_of(row).await? else {
            return Ok(None);
        };
        if self.is_out_of_reach(&root).await? {
            return Ok(None);
        }
        // A parked run waits until it is retried, but a cancellation in its mailbox is carried out.
        if root.status == RunStatus::Parked && !self.is_to_be_cancelled(&root).await? {
            return Ok(None);
        }
        let session = root.session.clone();
        let Some(session) = session.filter(|session| self.carries(session, &root)) else {
            return Ok(None);
        };
        let journal = JournalId::Session(session.clone());
        if store.held_elsewhere(vec![journal.clone()]).await? == [true] {
            // The process that has the session reads what came. If that one dies first, nobody looks after a run that
            // waits; one that is at work is recovered with all its process had.
            let mut is_unread = false;
            for mailbox in mailboxes {
                is_unread |= root.status == RunStatus::Waiting
                    && !store.mailbox(mailbox.into()).await?.is_empty();
            }
            // An agent that is here learns that it lost the session, and tells those who wait for it.
            let is_here = self.agents.lock().contains_key(&session);
            match (is_here, is_unread) {
                (true, true) => self.set_alarm(self.services.clock.now().after(AGAIN), run),
                (true, false) => {}
                (false, true) => {
                    let owner = "another process".to_owned();
                    return Err(StoreError::Owned { journal, owner });
                }
                (false, false) => return Ok(None),
            }
        }
        Ok(Some((session, root.run)))
    }

    /// Recovers interrupted roots of sessions: together, where their agents can wait for that.
    async fn recover(self: Arc<Self>, rows: Vec<(SessionId, RunRow)>) -> Result<(), SystemError> {
        let (mut expecting, mut together) = (Vec::new(), Vec::new());
        for (session, row) in rows {
            let agent = self.agent_of(&session).await?;
            let (sender, expects) = oneshot::channel();
            let _ = agent.cast(AgentCommand::Expect(row.run, sender));
            if let Some(expected) = expects.await.unwrap_or_default() {
                expecting.push(expected);
                together.push((session, row));
            } else {
                let again = Some(WakeReply::Again(self.wake_again(row.run)));
                let _ = agent.cast(AgentCommand::Wake(row.run, false, again, None));
            }
        }
        if together.is_empty() {
            return Ok(());
        }
        let known = |team: &str| self.team(team).map(|team| (team.digest, team.pinned));
        let taken = recover_together(&self.services, together, known).await;
        let taken = taken.unwrap_or_else(|error| {
            tracing::warn!(%error, "runs are recovered one by one");
            Vec::new()
        });
        for (expected, taken) in expecting.into_iter().zip(taken) {
            if let Some(taken) = taken {
                // If the agent is gone, its next incarnation reads the session.
                let _ = expected.send(Box::new(taken));
            }
        }
        Ok(())
    }

    /// The roots of all trees in which a run goes on by itself. A step of a run below may be
    /// durable before its effect on the runs above is: if a run below is at work, its root does not
    /// wait for its own wake time.
    async fn awake_roots(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let awake = self.services.store.runs(filter).await?;
        let (mut roots, below): (Vec<_>, Vec<_>) =
            awake.into_iter().partition(|row| row.parent.is_none());
        let is_at_work = |row: &&RunRow| row.status != RunStatus::Waiting;
        let at_work: BTreeSet<RunId> = below
            .iter()
            .filter(is_at_work)
            .map(|row| row.root)
            .collect();
        let known: BTreeSet<RunId> = roots.iter().map(|row| row.root).collect();
        let below: BTreeSet<RunId> = below.into_iter().map(|row| row.root).collect();
        for root in below.difference(&known) {
            let found = self.open_root(*root).await?;
            roots.extend(found.filter(|row| row.status == RunStatus::Waiting));
        }
        for root in roots.iter_mut().filter(|row| at_work.contains(&row.root)) {
            root.wake_at = None;
        }
        Ok(roots)
    }

    /// The root runs of this System's teams that go on by themselves by this time.
    async fn find_uncarried(
        &self,
        statuses: &[RunStatus],
        until: Timestamp,
    ) -> Result<Uncarried, StoreError> {
        let filter = RunFilter {
            awake_by: Some(until),
            statuses: statuses.to_vec(),
            ..RunFilter::default()
        };
        let (mut awake, mut others) = (Uncarried::default(), Vec::new());
        for row in self.awake_roots(filter).await? {
            let Some(session) = row.session.clone() else {
                continue;
            };
            let live = &self.services.previewer.live;
            if live.is_live(row.run) {
                *awake.live.entry(tenant_of(&session, &row)).or_default() += 1;
            } else if !live.is_stuck(row.run)
                && self.carries(&session, &row)
                && !self.is_out_of_reach(&row).await?
            {
                others.push((session, row));
            }
        }
        // A living process carries its runs itself, and is checked again as long as it lives.
        if !others.is_empty() {
            // A run goes with its session, whoever has the run's own journal.
            let sessions = others.iter().map(|(session, _)| session.clone().into());
            let held = self.services.store.held_elsewhere(sessions.collect()).await;
            let mut held = held.unwrap_or_default().into_iter();
            others.retain(|_| !held.next().unwrap_or_default());
        }
        for (session, row) in others {
            match row.wake_at.filter(|_| row.status == RunStatus::Waiting) {
                Some(at) => awake.asleep.push((at, row.run)),
                None => awake.interrupted.push((session, row)),
            }
        }
        Ok(awake)
    }

    /// Recovers the root runs that no living process carries, and has those woken that sleep until
    /// soon. Only runs with these statuses are read; all, without any. `set_back_ms` is how far the
    /// wall clock was set back since the last call: what sleeps then is woken by the clock of before.
    async fn take_up(
        self: &Arc<Self>,
        statuses: &[RunStatus],
        set_back_ms: u64,
    ) -> Result<(), SystemError> {
        let until = match set_back_ms {
            0 => self.known_until(),
            _ => Timestamp(u64::MAX),
        };
        let awake = self.find_uncarried(statuses, until).await?;
        for (at, run) in awake.asleep {
            self.set_alarm(Timestamp(at.0.saturating_sub(set_back_ms)), run);
        }
        let mut interrupted = in_turns(awake.interrupted, awake.live);
        let live = &self.services.previewer.live;
        let free = live.free(self.limits.max_live_runs);
        let left = interrupted.len() > free;
        if left || statuses.is_empty() {
            live.leave_runs(left);
        }
        interrupted.truncate(free);
        // While the store reads one group, others are decoded.
        let mut groups: JoinSet<Result<(), SystemError>> = JoinSet::new();
        let mut interrupted = interrupted.into_iter();
        loop {
            let group: Vec<_> = interrupted.by_ref().take(TAKEN_UP_TOGETHER).collect();
            let is_last = group.is_empty();
            let beside = if is_last { 0 } else { 1 };
            while groups.len() > beside {
                match groups.join_next().await {
                    Some(Ok(recovered)) => recovered?,
                    Some(Err(error)) => tracing::error!(%error, "runs are not recovered"),
                    None => {}
                }
            }
            if is_last {
                return Ok(());
            }
            groups.spawn(self.clone().recover(group));
        }
    }

    /// How many places are worth reading all interrupted runs.
    fn several_places(&self) -> usize {
        (self.limits.max_live_runs / 16).max(1)
    }

    /// A place for a run whose time has come. Where interrupted runs were left for want of places, those that they wait
    /// for are not taken.
    pub(crate) fn place_for_sleeper(&self) -> Option<Place> {
        let others = match self.services.previewer.live.leaves_runs() {
            true => self.several_places(),
            false => 0,
        };
        let places = self.limits.max_live_runs.saturating_sub(others);
        self.services.previewer.live.keep(places.max(1))
    }

    /// Returns when places are free for runs that were left for want of them. It waits for several of many places,
    /// since all interrupted runs are read to choose fairly among them.
    async fn has_places(&self) {
        let live = &self.services.previewer.live;
        loop {
            live.root_left().await;
            let free = live.free(self.limits.max_live_runs);
            if free >= self.several_places() && live.leaves_runs() {
                return;
            }
        }
    }

    async fn is_to_be_cancelled(&self, row: &RunRow) -> Result<bool, StoreError> {
        let mailbox = self.services.store.mailbox(row.begun_as().into()).await?;
        let cancels = |item: &MailboxItem| matches!(item.body, ItemBody::Cancel { .. });
        Ok(mailbox.iter().any(cancels))
    }
}

impl System {
    /// Resumes a run in this process and returns its handle. A parked run is retried. With
    /// `take_over` a run is taken from an owner that lives but hangs: the owner's appends are
    /// refused from then on.
    ///
    /// # Errors
    /// [`SystemError::Store`] with [`StoreError::Owned`](crate::contract::StoreError::Owned)
    /// when another process carries the run; [`SystemError::UnknownRun`],
    /// [`SystemError::UnknownTeam`].
    pub async fn resume(&self, run: RunId, take_over: bool) -> Result<Run, SystemError> {
        self.check_run(run, Use::Carry).await?;
        let row = read_row(&self.0.services.store, run).await?;
        let Some(root) = self.0.open_root_of(row).await? else {
            return Ok(self.run(run));
        };
        if self.0.is_out_of_reach(&root).await? {
            let team = root.team;
            return Err(SystemError::OutOfReach { run, team });
        }
        let Some(session) = root.session.clone() else {
            return Err(SystemError::UnknownRun(run));
        };
        self.0.known_team(&session.team)?.check_code_of(&root)?;
        self.0.services.previewer.live.retry_tree(root.root);
        let wake = |sender| {
            let caller = Some(WakeReply::Caller(sender));
            AgentCommand::Wake(root.run, take_over, caller, None)
        };
        self.0.ask_agent(&session, wake).await??;
        Ok(self.run(run))
    }

    /// Whether the tree of a run has not ended.
    pub(crate) async fn is_open(&self, run: RunId) -> Result<bool, SystemError> {
        let row = read_row(&self.0.services.store, run).await?;
        Ok(self.0.open_root_of(row).await?.is_some())
    }

    /// Recovers the open runs of this System's teams that no living process carries. Sleeping runs
    /// sleep on until their time. Runs that later code of their team has carried
    /// ([`TeamSpec::version`](crate::definition::TeamSpec::version)) are left to the processes that
    /// have it.
    ///
    /// The runs of each team and tenant are taken up in turn, the oldest first, until as many are
    /// live as [`SystemOptions::max_live_runs`](crate::actor::SystemOptions) allows. The others are left to other
    /// processes, or to this one when places are free again.
    ///
    /// A run whose journal this process cannot read is tried once, and then only when it is
    /// [resumed](Self::resume) or [retried](Run::retry).
    ///
    /// A System does so when it [starts](super::SystemBuilder::start), and afterwards takes up by
    /// itself what it left. If several processes share a store, a process that calls it again from
    /// time to time recovers the runs of processes that died meanwhile.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn recover(&self) -> Result<(), SystemError> {
        self.0.take_up(&[], 0).await
    }
}

/// Wakes runs that sleep until soon, and takes up those that were left when all places were taken.
pub(super) async fn keep_recovering(shared: Arc<Shared>) {
    let clock = shared.services.clock.clone();
    let mut set_back_ms = clock.set_back_ms();
    loop {
        tokio::select! {
            biased;
            () = shared.clock_jump.notified() => {}
            () = shared.has_places() => clock.sleep(SETTLING).await,
            () = clock.sleep(shared.poll_interval()) => {}
        }
        let asleep = [RunStatus::Waiting];
        let statuses: &[RunStatus] = match shared.services.previewer.live.leaves_runs() {
            true => &[],
            false => &asleep,
        };
        let now_ms = clock.set_back_ms();
        match shared
            .take_up(statuses, now_ms.saturating_sub(set_back_ms))
            .await
        {
            Ok(()) => set_back_ms = now_ms,
            Err(error) => {
                tracing::warn!(%error, "sleeping and interrupted runs cannot be looked for")
            }
        }
    }
}
