//! The state that the actors of a System share.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use ractor::ActorRef;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    SystemError, SystemOptions,
    agent_command::AgentCommand,
    runtime_nudge::RuntimeNudge,
    services::Services,
    supervised_ref::SupervisedRef,
    supervisor::Supervisor,
    volatile::VolatileTeams,
    wake::{TimerRequest, WakeAgain},
};
use crate::{
    assembly::Registry,
    contract::{CarriedTeam, ClockJump, RunRow, StoreError},
    definition::{Pinned, TeamSpec},
    vocabulary::{Digest, RunId, SessionId, Timestamp, listed},
};

/// The shortest time without work after which an agent may be ended.
pub(crate) const LEAST_IDLENESS: Duration = Duration::from_millis(10);
/// How often a System looks for runs that sleep until soon; a longer `SystemOptions::poll_interval` replaces it.
const LOOK: Duration = Duration::from_secs(30);
/// How many jumps of the clock are kept.
const CLOCK_JUMPS: usize = 16;

/// The state that the actors of a System share.
pub(crate) struct Shared {
    pub(crate) services: Arc<Services>,
    pub(crate) limits: SystemOptions,
    pub(super) teams: RwLock<BTreeMap<String, TeamEntry>>,
    /// Whether this System recovers runs and sends the turns of schedules by itself.
    pub(super) recovers: bool,
    /// Tells of a jump of the wall clock.
    pub(super) clock_jump: Notify,
    pub(super) agents: Mutex<HashMap<SessionId, SupervisedRef<AgentCommand>>>,
    /// The sessions that agents leave alone for now, since they are being deleted or rewound.
    pub(super) held: Mutex<HashSet<SessionId>>,
    /// The ids of posted turns that are on their way into their sessions.
    pub(super) beginning: Mutex<HashSet<String>>,
    /// The sessions whose mailboxes are looked at again after a pause.
    pub(super) looking_again: Mutex<HashSet<SessionId>>,
    pub(super) admissions: Arc<Semaphore>,
    pub(super) root: OnceLock<Supervisor>,
    /// The supervisor of the sessions' agents, in its current incarnation.
    pub(super) teams_supervisor: RwLock<Option<Supervisor>>,
    pub(super) requests: mpsc::UnboundedSender<TimerRequest>,
    /// Agents without anything to do, the one that has rested longest at the front.
    pub(super) idle: Mutex<VecDeque<IdleAgent>>,
    /// Tells the scheduler that a schedule was kept or let go.
    pub(super) schedules: Notify,
    /// Tells that the toolsets of a team have other tools.
    pub(super) other_tools: Notify,
    pub(super) clock_jumps: Mutex<VecDeque<ClockJump>>,
    pub(super) stopped: AtomicBool,
    /// The store of teams that keep their runs in memory, if there are any.
    pub(super) volatile: Option<VolatileTeams>,
    /// The nudge, until the System is stopped.
    pub(super) nudge: Mutex<Option<RuntimeNudge>>,
}

/// A team with the definition to which its next runs are pinned.
#[derive(Clone)]
pub(crate) struct TeamEntry {
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) digest: Digest,
    /// The definition as it was given, with toolsets by their names.
    pub(super) spec: Arc<TeamSpec>,
    pub(crate) bytes: Arc<[u8]>,
    /// The code that its runs find under the names of its definition.
    pub(crate) registry: Arc<Registry>,
}

impl TeamEntry {
    /// The same team with the current tools of its toolsets; `None` where these have not changed.
    fn with_changed_toolsets(&self) -> Option<Self> {
        if !self.registry.toolsets_changed() {
            return None;
        }
        let mut registry = (*self.registry).clone();
        match registry.ask_toolsets(&self.spec, true) {
            Ok(()) => Some(Self::new(registry, &self.spec)),
            Err(error) => {
                tracing::warn!(team = %self.spec.name, %error, "the team goes on with the tools that it had");
                None
            }
        }
    }

    /// Refuses a run that later code of this team has carried.
    pub(super) fn check_code_of(&self, row: &RunRow) -> Result<(), StoreError> {
        check_code(row, self.spec.version)
    }

    /// Another definition of this team, with its code: its bytes, and their hash.
    pub(super) fn pin_other(&self, other: &TeamSpec) -> Result<(Digest, Arc<[u8]>), SystemError> {
        let (spec, team) = (&self.spec, other.name.clone());
        let refused = |reason: String| SystemError::NotReloaded { team, reason };
        if other.name != spec.name {
            return Err(refused(format!("the run is one of team {:?}", spec.name)));
        }
        let differing = [
            ("models", other.models != spec.models),
            ("tools", other.tools != spec.tools),
            ("interceptors", other.interceptors != spec.interceptors),
            ("durability", other.durability != spec.durability),
        ];
        if let Some((section, _)) = differing.into_iter().find(|(_, differs)| *differs) {
            return Err(refused(format!(
                "a fork has the `{section}` of the team as it is served, and the definition given for it \
                 has others: reload the team with them first"
            )));
        }
        Ok(self.registry.pin_checked(other)?.encode())
    }

    pub(super) fn new(registry: Registry, spec: &TeamSpec) -> Self {
        let pinned = registry.pin(spec);
        let (digest, bytes) = pinned.encode();
        Self {
            spec: Arc::new(spec.clone()),
            registry: Arc::new(registry),
            pinned: Arc::new(pinned),
            digest,
            bytes,
        }
    }
}

/// Refuses a run that later code than this version of its team's has carried.
pub(super) fn check_code(row: &RunRow, known: u32) -> Result<(), StoreError> {
    if row.version <= known {
        return Ok(());
    }
    Err(StoreError::LaterCode {
        journal: row.run.into(),
        team: row.team.clone(),
        version: row.version,
        known,
    })
}

fn overloaded(bound: usize) -> SystemError {
    SystemError::Overloaded {
        what: "the system".into(),
        bound,
    }
}

impl Shared {
    pub(crate) fn team(&self, name: &str) -> Option<TeamEntry> {
        let entry = self.teams.read().get(name).cloned()?;
        let Some(changed) = entry.with_changed_toolsets() else {
            return Some(entry);
        };
        // If two callers see the change at once, either may win: both have read the toolsets since.
        self.teams.write().insert(name.to_owned(), changed.clone());
        self.other_tools.notify_one();
        Some(changed)
    }

    /// A team, or the error that names those that there are.
    pub(crate) fn known_team(&self, name: &str) -> Result<TeamEntry, SystemError> {
        self.team(name).ok_or_else(|| SystemError::UnknownTeam {
            name: name.to_owned(),
            known: listed(self.teams.read().keys()),
        })
    }

    /// The version of a team's code in this process; 0 for a team that it does not have.
    pub(crate) fn version_of(&self, team: &str) -> u32 {
        let teams = self.teams.read();
        teams.get(team).map_or(0, |entry| entry.spec.version)
    }

    /// Whether this process has the code that a root run needs: its team, in no older version than
    /// the one that carried the run.
    pub(crate) fn carries(&self, session: &SessionId, row: &RunRow) -> bool {
        let teams = self.teams.read();
        let team = teams.get(&*session.team);
        team.is_some_and(|entry| entry.check_code_of(row).is_ok())
    }

    /// Tells the other processes which teams this one carries.
    pub(super) async fn announce(&self) -> Result<(), StoreError> {
        let carried = |(team, entry): (&String, &TeamEntry)| CarriedTeam {
            team: team.clone(),
            version: entry.spec.version,
        };
        let carried = self.teams.read().iter().map(carried).collect();
        match self.services.store.membership() {
            Some(membership) => membership.announce(carried).await,
            // Nobody is there to be told.
            None => Ok(()),
        }
    }

    /// How many turns are on their way into sessions.
    pub(super) fn admitted(&self) -> usize {
        let all = self.limits.max_admissions.max(1);
        all.saturating_sub(self.admissions.available_permits())
    }

    /// Admits a turn, or refuses it, at once. Whether it adds a run is known to its session's agent, if there is one.
    pub(crate) fn admit(&self, session: &SessionId) -> Result<OwnedSemaphorePermit, SystemError> {
        let agent = self.agents.lock().get(session).and_then(SupervisedRef::get);
        if agent.is_none() {
            self.check_places()?;
        }
        let permit = self.admissions.clone().try_acquire_owned();
        permit.map_err(|_| overloaded(self.limits.max_admissions))
    }

    /// Refuses a run beyond the bound.
    pub(super) fn check_places(&self) -> Result<(), SystemError> {
        let bound = self.limits.max_live_runs;
        match self.services.previewer.live.roots() < bound {
            true => Ok(()),
            false => Err(overloaded(bound)),
        }
    }

    /// Has an agent told when it has had nothing to do for long enough.
    pub(crate) fn watch_idleness(&self, agent: ActorRef<AgentCommand>, stirred: u64) {
        let since = self.services.clock.monotonic();
        let idle = {
            let mut idle = self.idle.lock();
            idle.push_back((since, agent, stirred));
            idle.len()
        };
        // Between the two, the timer service looks soon enough by itself: waking it for each turn that ends would cost
        // as much as many a turn.
        if idle == 1 || idle == self.limits.max_idle_sessions.saturating_add(1) {
            let _ = self.requests.send(TimerRequest::LookForIdle);
        }
    }

    /// Tells the agents that have had nothing to do for long enough, and returns when the next one will have.
    pub(super) fn tell_idle(&self, now: Timestamp) -> Timestamp {
        let rest = self.limits.passivate_after.max(LEAST_IDLENESS);
        let mut idle = self.idle.lock();
        loop {
            let least = match idle.len() > self.limits.max_idle_sessions {
                true => LEAST_IDLENESS,
                false => rest,
            };
            let due = idle.front().map(|(since, ..)| since.after(least));
            match due {
                Some(due) if due <= now => {}
                later => return later.unwrap_or(Timestamp(u64::MAX)),
            }
            if let Some((_, agent, stirred)) = idle.pop_front() {
                // An agent that ended meanwhile needs no message.
                let _ = agent.cast(AgentCommand::Passivate(stirred));
            }
        }
    }

    /// Clears the alarm of a run that is awake.
    pub(crate) fn awake(&self, run: RunId) {
        let _ = self.requests.send(TimerRequest::Awake(run));
    }

    /// Notes a jump of the wall clock.
    pub(crate) fn clock_jumped(&self, jump: ClockJump) {
        let ClockJump { at, by_ms } = jump;
        tracing::warn!(at_ms = at.0, by_ms, "the clock jumped");
        let mut jumps = self.clock_jumps.lock();
        if jumps.len() >= CLOCK_JUMPS {
            jumps.pop_front();
        }
        jumps.push_back(jump);
        drop(jumps);
        // Another schedule or run may be due now.
        self.schedules.notify_one();
        self.clock_jump.notify_one();
    }

    /// How often this System looks for runs that sleep until soon.
    pub(super) fn poll_interval(&self) -> Duration {
        LOOK.max(self.limits.poll_interval)
    }

    /// Until when the times at which runs are to be woken are kept in memory. A System that recovers
    /// runs by itself finds those that sleep for longer in the store, when it looks again; one that
    /// failed to look may do so once more before they are late.
    pub(super) fn known_until(&self) -> Timestamp {
        match self.recovers {
            true => self.services.clock.now().after(self.poll_interval() * 2),
            false => Timestamp(u64::MAX),
        }
    }

    /// Wakes a run at the time that its row in the store has, or soon.
    pub(crate) fn wake_later(&self, at: Timestamp, run: RunId) {
        if at <= self.known_until() {
            self.set_alarm(at, run);
        }
    }

    /// A wake of this run, to be sent to its agent.
    pub(crate) fn wake_again(&self, run: RunId) -> WakeAgain {
        WakeAgain::new(run, self.requests.clone(), self.services.clock.clone())
    }

    /// Asks the timer service to wake a run at this time.
    pub(super) fn set_alarm(&self, at: Timestamp, run: RunId) {
        let _ = self.requests.send(TimerRequest::WakeAt(at, run));
    }

    /// Whether a run is on disk, while its team looks only into memory.
    pub(crate) async fn is_out_of_reach(&self, row: &RunRow) -> Result<bool, StoreError> {
        match &self.volatile {
            Some(volatile) => volatile.leaves_out(row).await,
            None => Ok(false),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// An agent without anything to do: since when, and how many messages it had counted then.
pub(super) type IdleAgent = (Timestamp, ActorRef<AgentCommand>, u64);
