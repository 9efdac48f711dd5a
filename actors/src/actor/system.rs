//! Everything in this process: the root supervisor, the store, the gateways.

mod builder;
mod open_runs;
mod recovery;
mod reloading;
mod retention;
mod schedules;
mod tree;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use builder::SystemBuilder;
pub use open_runs::OpenRuns;
use parking_lot::{Mutex, RwLock};
use ractor::{ActorRef, ActorRuntime};
pub use retention::{Pruned, Retention};
pub use schedules::Scheduled;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{
    ExecutorOptions, GatewayOptions, Run, Session, SystemError,
    acting::{Acting, Use},
    agent::{Agent, AgentArguments, AgentMessage},
    handles::Early,
    runtime_nudge::RuntimeNudge,
    services::Services,
    supervised_ref::SupervisedRef,
    supervisor::{
        Backoff, Child, ChildError, ChildInfo, ChildSpec, Intensity, Shutdown, Supervisor,
    },
    timer_service::TimerRequest,
    volatile::VolatileTeams,
};
use crate::{
    contract::{ClockJump, RunFilter, RunRow, StoreError, StoreHandle},
    definition::{Pinned, TeamSpec},
    run::{Command, Registry},
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

/// How long an agent has nothing to do before it may be put to sleep, at the least.
const LEAST_IDLENESS: Duration = Duration::from_millis(10);
/// How often it is looked whether an agent that retires has ended, every millisecond.
const LOOKS_FOR_END: u32 = 20;

/// How many jumps of the clock are known.
const CLOCK_JUMPS: usize = 16;

/// The bounds of a System.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// How many turns may be on their way into sessions at once; past it `send` answers
    /// [`SystemError::Overloaded`] at once.
    pub admissions: usize,
    /// How many turns wait in one session.
    pub queued_turns: usize,
    /// How many root runs are live at once; past it new turns are refused.
    pub live_runs: usize,
    /// How long a run that waits for the outside stays in memory before it sleeps.
    pub linger: Duration,
    /// How long a session without anything to do stays in memory; 10 milliseconds at the least.
    pub passivate_after: Duration,
    /// How often it is looked for what other processes posted to runs of this one. What this
    /// process posts is seen at once.
    pub look: Duration,
    /// The bound on a run's journal, in entries; past it operations fail as over budget.
    pub max_entries: u64,
    /// How often a run's function may crash without recording anything in between before its
    /// input counts as poison: a message that it received last is quarantined, a run that was
    /// delegated fails with [`AgentError::Crashed`](crate::vocabulary::AgentError::Crashed), any
    /// other run is parked with it. The count is durable; 0 is without bound.
    pub poison_after: u32,
    /// How often a run's function, or an agent below, may crash within a period, whatever it
    /// records in between. Past it the run ends as one whose input is poison; for an agent below
    /// the runs that it hosted do.
    pub run_restarts: Intensity,
    /// The pause before a crashed function is run again or an agent below is started again.
    pub run_backoff: Backoff,
    /// Which ended runs are kept; all, when nothing is set. A System that recovers runs by
    /// itself deletes the others at its start and then at least hourly.
    pub retention: Retention,
    /// How models are treated.
    pub gateway: GatewayOptions,
    /// How tools are treated.
    pub executor: ExecutorOptions,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            admissions: 4096,
            queued_turns: 64,
            live_runs: 100_000,
            linger: Duration::from_secs(30),
            passivate_after: Duration::from_secs(300),
            look: Duration::from_millis(25),
            max_entries: 100_000,
            poison_after: 3,
            run_restarts: Intensity::new(10, Duration::from_secs(60)),
            run_backoff: Backoff::exponential(Duration::from_millis(50), Duration::from_secs(5)),
            retention: Retention::default(),
            gateway: GatewayOptions::default(),
            executor: ExecutorOptions::default(),
        }
    }
}

/// Everything in this process: teams of agents below a root supervisor, over one store.
///
/// It starts no runtime, installs no signal handler, panic hook or subscriber, and registers no
/// name in ractor's process-wide registry, so two of them live in one process. Cloning shares
/// it; dropping it stops nothing, [`stop`](Self::stop) does.
#[derive(Clone)]
pub struct System(Arc<Shared>, Acting);

/// What the actors of a System share.
pub(crate) struct Shared {
    pub(crate) services: Services,
    pub(crate) limits: Limits,
    teams: RwLock<BTreeMap<String, TeamEntry>>,
    /// Whether it says the turns of schedules.
    keeps_schedules: bool,
    agents: Mutex<HashMap<SessionId, SupervisedRef<AgentMessage>>>,
    admissions: Arc<Semaphore>,
    root: OnceLock<Supervisor>,
    teams_supervisor: OnceLock<Arc<RwLock<Option<Supervisor>>>>,
    requests: mpsc::UnboundedSender<TimerRequest>,
    /// Tells the scheduler that a schedule was kept or let go.
    schedules: Notify,
    clock_jumps: Mutex<VecDeque<ClockJump>>,
    stopped: AtomicBool,
    /// The store of teams that keep their runs in memory, if there are any.
    volatile: Option<VolatileTeams>,
    /// Until it is stopped.
    nudge: Mutex<Option<RuntimeNudge>>,
}

/// A team as its next runs will keep it.
#[derive(Clone)]
pub(crate) struct TeamEntry {
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) digest: Digest,
    /// The definition as it was given, with toolsets by their names.
    spec: Arc<TeamSpec>,
    pub(crate) bytes: Arc<[u8]>,
    /// What its runs find under the names of its agents.
    pub(crate) registry: Arc<Registry>,
}

impl TeamEntry {
    /// The same with the tools that its toolsets have now, where they have others.
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

    fn new(registry: Registry, spec: &TeamSpec) -> Self {
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

impl Shared {
    pub(crate) fn team(&self, name: &str) -> Option<TeamEntry> {
        let entry = self.teams.read().get(name).cloned()?;
        let Some(changed) = entry.with_changed_toolsets() else {
            return Some(entry);
        };
        // Of two that see the change at once either may win: both have asked since.
        self.teams.write().insert(name.to_owned(), changed.clone());
        Some(changed)
    }

    pub(crate) fn team_names(&self) -> String {
        let teams = self.teams.read();
        if teams.is_empty() {
            return "none".to_owned();
        }
        teams.keys().cloned().collect::<Vec<_>>().join(", ")
    }

    /// Room for a new turn, or a refusal, at once.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, SystemError> {
        let overloaded = |bound| SystemError::Overloaded {
            what: "the system".into(),
            bound,
        };
        if self.services.previewer.live.roots() >= self.limits.live_runs {
            return Err(overloaded(self.limits.live_runs));
        }
        let permit = self.admissions.clone().try_acquire_owned();
        permit.map_err(|_| overloaded(self.limits.admissions))
    }

    /// The agent that holds a session, started if need be.
    pub(crate) async fn agent_of(
        self: &Arc<Self>,
        session: &SessionId,
    ) -> Result<ActorRef<AgentMessage>, SystemError> {
        for _ in 0..100 {
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            if let Some(agent) = self.agents.lock().get(session).and_then(SupervisedRef::get) {
                return Ok(agent);
            }
            let supervisor = self.teams_supervisor.get().and_then(|s| s.read().clone());
            let Some(supervisor) = supervisor else {
                self.services.clock.sleep(Duration::from_millis(5)).await;
                continue;
            };
            let slot = self
                .agents
                .lock()
                .entry(session.clone())
                .or_default()
                .clone();
            let child = self.session_child(session, &slot);
            let id = session.to_string();
            match supervisor.start_child(child).await {
                Ok(_) => {}
                Err(ChildError::AlreadyPresent) => {
                    let _ = supervisor.delete_child(&id).await;
                }
                Err(ChildError::AlreadyStarted | ChildError::Ended) => {
                    self.services.clock.sleep(Duration::from_millis(1)).await;
                }
                Err(error) => {
                    tracing::error!(%session, %error, "the session's agent does not start");
                    return Err(SystemError::Stopped);
                }
            }
        }
        Err(SystemError::Stopped)
    }

    fn session_child(
        self: &Arc<Self>,
        session: &SessionId,
        slot: &SupervisedRef<AgentMessage>,
    ) -> Child {
        let spec = ChildSpec::worker(session.to_string())
            .transient()
            .stopped_by(Shutdown::Within(Duration::from_secs(5)));
        let (shared, session, slot) = (self.clone(), session.clone(), slot.clone());
        let lives = Arc::new(AtomicBool::new(false));
        Child::new(spec, move |supervisor| {
            let arguments = AgentArguments {
                shared: shared.clone(),
                session: Some(session.clone()),
            };
            let (slot, lives) = (slot.clone(), lives.clone());
            async move {
                let spawned = ActorRuntime::spawn_linked(None, Agent, arguments, supervisor);
                let (agent, task) = spawned.await?;
                slot.set(agent.clone());
                if lives.swap(true, Ordering::AcqRel) {
                    let _ = agent.cast(AgentMessage::Recover);
                }
                Ok((agent.get_cell(), task))
            }
        })
        .at_once()
    }

    /// Asks for an agent that has nothing to do to be ended.
    pub(crate) fn passivate(&self, session: SessionId) {
        let _ = self.requests.send(TimerRequest::Passivate(session));
    }

    /// Asks for an agent to be told when it has had nothing to do for long enough.
    pub(crate) fn watch_idleness(&self, agent: ActorRef<AgentMessage>, stirred: u64) {
        // An agent that has something to do is asked again: without a pause both would spin.
        let pause = self.limits.passivate_after.max(LEAST_IDLENESS);
        let due = self.services.clock.monotonic().after(pause);
        let _ = self.requests.send(TimerRequest::Idle(due, agent, stirred));
    }

    /// Lets no run be woken that is awake.
    pub(crate) fn awake(&self, run: RunId) {
        let _ = self.requests.send(TimerRequest::Awake(run));
    }

    /// Notes a jump of the wall's time.
    pub(crate) fn clock_jumped(&self, jump: ClockJump) {
        let ClockJump { at, by_ms } = jump;
        tracing::warn!(at_ms = at.0, by_ms, "the clock jumped");
        let mut jumps = self.clock_jumps.lock();
        if jumps.len() >= CLOCK_JUMPS {
            jumps.pop_front();
        }
        jumps.push_back(jump);
        drop(jumps);
        // What is due when is another question now.
        self.schedules.notify_one();
    }

    /// Asks for a run to be woken then.
    pub(crate) fn wake_later(&self, at: Timestamp, run: RunId) {
        let _ = self.requests.send(TimerRequest::WakeAt(at, run));
    }

    /// Ends an agent; its next message starts it again. `false` when it has something to do, and
    /// stays.
    pub(crate) async fn end_agent(&self, session: &SessionId) -> bool {
        // From here on nobody finds it; what it was sent before it deals with, or stays for.
        let Some(slot) = self.agents.lock().remove(session) else {
            return true;
        };
        let (sender, retired) = oneshot::channel();
        let told = slot.send(AgentMessage::Retire(sender)).is_ok();
        let retired = if told { retired.await.ok() } else { Some(true) };
        if retired != Some(true) {
            // It has something to do, or was lost before it could say so and is started again.
            self.found_again(session, slot);
            return false;
        }
        let supervisor = self.teams_supervisor.get().and_then(|s| s.read().clone());
        if let Some(supervisor) = supervisor {
            let id = session.to_string();
            // Only what has ended is deleted: by now another one may have been started.
            for _ in 0..LOOKS_FOR_END {
                let deleted = supervisor.delete_child(&id).await;
                if !matches!(deleted, Err(ChildError::Running | ChildError::Restarting)) {
                    return true;
                }
                self.services.clock.sleep(Duration::from_millis(1)).await;
            }
            self.found_again(session, slot);
        }
        true
    }

    /// An agent that was to end stays: whoever looks for it finds it, and no other in its stead.
    fn found_again(&self, session: &SessionId, slot: SupervisedRef<AgentMessage>) {
        let mut agents = self.agents.lock();
        let found = agents.entry(session.clone()).or_default();
        if found.get().is_none() {
            *found = slot;
        }
    }

    /// Whether a run is on disk whose team looks only into memory.
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

impl System {
    /// A System over this store, to be started. It knows the behaviors, tools and providers that it is given and no
    /// other: give it those of the package `ghostlight` with `.registry(ghostlight::builtin())`, which is what
    /// `System::open` of that package does.
    pub fn builder(store: impl Into<StoreHandle>) -> SystemBuilder {
        SystemBuilder::new(store.into())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// For whom its handles act.
    pub(super) fn acting(&self) -> &Acting {
        &self.1
    }

    pub(super) fn acting_as(&self, acting: Acting) -> Self {
        Self(self.0.clone(), acting)
    }

    /// The conversation with a team under this key. It begins with its first turn.
    pub fn session(&self, team: impl Into<String>, key: impl Into<String>) -> Session {
        let id = SessionId {
            team: team.into(),
            key: key.into(),
        };
        Session {
            system: self.clone(),
            id,
        }
    }

    /// A run of the store, live or past.
    pub fn run(&self, id: RunId) -> Run {
        Run {
            system: self.clone(),
            id,
            early: Early::default(),
        }
    }

    /// Runs of the store, the latest begun first; those of others are left out where it
    /// [acts for an owner](Self::acting_for).
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, SystemError> {
        let mut rows = Vec::new();
        for row in self.0.services.store.runs(filter).await? {
            match self.check_run(row.run, Use::Look).await {
                Ok(()) => rows.push(row),
                Err(SystemError::Foreign { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// The open roots of the store that a later program wrote, each with its error: this System leaves
    /// them alone, and that program takes them up.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn newer_runs(&self) -> Result<Vec<(RunRow, StoreError)>, SystemError> {
        let filter = RunFilter {
            open: true,
            roots: true,
            ..RunFilter::default()
        };
        let rows = self.runs(filter).await?;
        Ok(super::newer_runs(&self.0.services.store, &rows).await?)
    }

    /// How the machine's clock jumped while this System lived, the last jumps only: forward when the
    /// machine had slept, either way when somebody corrected it.
    pub fn clock_jumps(&self) -> Vec<ClockJump> {
        self.0.clock_jumps.lock().iter().copied().collect()
    }

    /// The store.
    pub fn store(&self) -> &StoreHandle {
        &self.0.services.store
    }

    /// The supervision tree as it stands now.
    pub async fn tree(&self) -> Vec<ChildInfo> {
        match self.0.root.get() {
            Some(root) => root.which_children().await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// The root supervisor, to watch its children or to hang one's own below it.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.0.root.get()
    }

    /// Stops the System: runs let go where they stand and go on when it is started again. The
    /// store is closed.
    ///
    /// # Errors
    /// What the store fails with when it is closed.
    pub async fn stop(&self) -> Result<(), SystemError> {
        self.0.stopped.store(true, Ordering::Release);
        let live = &self.0.services.previewer.live;
        for run in live.live() {
            live.tell(run, Command::LetGo);
        }
        live.ring_all();
        if let Some(root) = self.0.root.get() {
            root.stop().await;
        }
        self.0.services.store.close().await?;
        drop(self.0.nudge.lock().take());
        Ok(())
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System")
            .field("store", &self.0.services.store)
            .finish_non_exhaustive()
    }
}

/// The team that a run is pinned to, read from its store: a run can be resumed without the
/// file that its team came from.
///
/// # Errors
/// [`SystemError::UnknownRun`], [`SystemError::Pinned`], and what the store fails with.
pub async fn pinned_team(store: &StoreHandle, run: RunId) -> Result<TeamSpec, SystemError> {
    let lines = store.read(JournalId::Run(run), 0, 1).await?;
    let recorded = crate::run::Recorded::fold(&lines, run)?;
    let start = recorded.start.ok_or(SystemError::UnknownRun(run))?;
    let missing = |reason: String| SystemError::Pinned { run, reason };
    let bytes = store.blob(start.definition).await?;
    let bytes = bytes.ok_or_else(|| missing(format!("no blob {}", start.definition)))?;
    let pinned = Pinned::decode(&bytes).map_err(|error| missing(error.to_string()))?;
    Ok(pinned.team)
}
