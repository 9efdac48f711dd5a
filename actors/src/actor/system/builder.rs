//! The setup of a System.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use ractor::ActorCell;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::{System, tool_sources::knowing};
use crate::{
    actor::{
        SystemError, SystemOptions,
        acting::Acting,
        companion::Companions,
        group_commit::GroupCommit,
        live_runs::LiveRuns,
        model_gateway::{Gateways, ModelGateway},
        observers::Observers,
        previewer::Previewer,
        runtime_nudge::RuntimeNudge,
        services::Services,
        shared::{Shared, TeamEntry},
        state_cache::StateCache,
        supervisor::Supervisor,
        tool_executor::ToolExecutor,
        volatile::VolatileTeams,
    },
    assembly::{Intercept, Registry, Team},
    contract::{
        Clock, Entropy, Model, ModelHandle, ModelHost, StoreHandle, SystemClock, SystemEntropy,
        ToolHandle, check_finished,
    },
    definition::{DefinitionError, Durability, TeamSpec},
};

/// A System that is not started yet.
#[must_use = "nothing runs before `start`"]
pub struct SystemBuilder {
    store: StoreHandle,
    registry: Registry,
    /// Models and tools that were added one by one; they replace those of registries.
    named: Registry,
    teams: Vec<Team>,
    clock: Option<Arc<dyn Clock>>,
    entropy: Arc<dyn Entropy>,
    limits: SystemOptions,
    recover: bool,
    around: Option<Around>,
}

/// A function that wraps the models and tools of a System.
pub(crate) type Around = Box<dyn Fn(Registry) -> Registry + Send>;

impl SystemBuilder {
    pub(super) fn new(store: StoreHandle) -> Self {
        Self {
            store,
            registry: Registry::new(),
            named: Registry::new(),
            teams: Vec::new(),
            clock: None,
            entropy: Arc::new(SystemEntropy),
            limits: SystemOptions::default(),
            recover: true,
            around: None,
        }
    }

    /// Adds the entries of a registry, for all teams. They replace entries of earlier registries
    /// with the same names.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = self.registry.with(registry);
        self
    }

    /// Adds a model for all teams, in place of a registry's model of this name; `default` serves
    /// agents that name none. A team's own model of this name serves that team alone.
    pub fn model(mut self, name: impl Into<String>, model: impl Model) -> Self {
        self.named = self.named.model(name, ModelHandle::new(model));
        self
    }

    /// Adds a tool for all teams, in place of a registry's tool of this name. A team's own tool of
    /// this name serves that team alone.
    pub fn tool(mut self, tool: impl Into<ToolHandle>) -> Self {
        self.named = self.named.tool(tool);
        self
    }

    /// Puts an interceptor around calls to models and tools, inside the interceptors that were
    /// added before and outside the teams' own.
    pub fn intercept(mut self, intercept: impl Into<Intercept>) -> Self {
        self.registry = self.registry.intercept(intercept);
        self
    }

    /// Adds a team.
    pub fn team(mut self, team: impl Into<Team>) -> Self {
        self.teams.push(team.into());
        self
    }

    /// Sets the clock; without it the System uses the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the source of random bits; without it the System uses the operating system's.
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Sets the bounds.
    pub fn options(mut self, limits: SystemOptions) -> Self {
        self.limits = limits;
        self
    }

    /// Sets whether the System recovers open runs when it starts, and keeps schedules; the default
    /// is `true`. With `false` each run waits for [`System::resume`] or for an item in its mailbox,
    /// and schedules are left to other processes.
    pub fn recover(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    /// Wraps every model and tool that is given in code.
    pub(crate) fn around(mut self, around: impl Fn(Registry) -> Registry + Send + 'static) -> Self {
        self.around = Some(Box::new(around));
        self
    }

    /// Starts the System. Open runs of its teams go on from what was recorded.
    ///
    /// # Errors
    /// A team that names something that does not exist; what the store fails with.
    pub async fn start(self) -> Result<System, SystemError> {
        self.start_below(None).await
    }

    /// Starts the System below an actor of the caller's. The actor gets the System's end as a
    /// supervision event, and the end of the actor ends the System.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_linked(self, supervisor: ActorCell) -> Result<System, SystemError> {
        self.start_below(Some(supervisor)).await
    }

    async fn start_below(self, above: Option<ActorCell>) -> Result<System, SystemError> {
        let (mut teams, limits, entropy) = (self.teams, self.limits, self.entropy);
        let mut registry = self.registry.with(self.named);
        if let Some(around) = self.around {
            registry = around(registry);
            for team in &mut teams {
                team.registry = around(std::mem::take(&mut team.registry));
            }
        }
        let (registry, entries) = resolved(registry, teams, &self.store).await?;
        check_finished(&self.store).await?;
        let in_memory = |(spec, _): &&(TeamSpec, Registry)| spec.durability == Durability::Memory;
        let volatile: BTreeSet<String> = entries
            .values()
            .filter(in_memory)
            .map(|(spec, _)| spec.name.clone())
            .collect();
        let volatile = (!volatile.is_empty())
            .then(|| VolatileTeams::new(self.store.clone(), volatile.into(), limits.retention));
        let store = match &volatile {
            Some(volatile) => StoreHandle::new(volatile.clone()),
            None => self.store,
        };
        let entries = entries
            .into_iter()
            .map(|(name, (spec, registry))| (name, TeamEntry::new(registry, &spec)))
            .collect::<BTreeMap<_, _>>();
        let (requests, requests_in) = mpsc::unbounded_channel();
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let registry = Arc::new(registry);
        let previewer = Previewer {
            observers: Observers::default(),
            live: LiveRuns::default(),
            clock: clock.clone(),
        };
        let waits = (limits.gateway, limits.linger);
        let mut gateways = Gateways::new(waits, entropy.clone(), previewer.clone());
        gateways.add("", &registry);
        for (team, entry) in &entries {
            gateways.add(&format!("team {team} "), &entry.registry);
        }
        let executor = ToolExecutor::new(limits.executor, entropy.clone(), previewer.clone());
        let services = Services {
            committer: GroupCommit::new(store.clone()),
            state: Arc::new(StateCache::new(store.clone())),
            store,
            gateways: Arc::new(RwLock::new(gateways)),
            executor: Arc::new(executor),
            companions: Companions::new(clock.clone()),
            state_locks: Arc::default(),
            registry,
            clock,
            process: entropy.bits() as u32,
            entropy,
            previewer,
            credentials: Arc::default(),
        };
        let shared = Arc::new(Shared {
            services: Arc::new(services),
            limits,
            teams: RwLock::new(entries),
            recovers: self.recover,
            clock_jump: Notify::new(),
            agents: Mutex::default(),
            held: Mutex::default(),
            looking_again: Mutex::default(),
            beginning: Mutex::default(),
            admissions: Arc::new(Semaphore::new(limits.max_admissions.max(1))),
            root: OnceLock::new(),
            teams_supervisor: RwLock::default(),
            requests,
            idle: Mutex::default(),
            schedules: Notify::new(),
            other_tools: Notify::new(),
            clock_jumps: Mutex::default(),
            stopped: AtomicBool::new(false),
            volatile,
            nudge: Mutex::new(RuntimeNudge::start()),
        });
        let supervisor = shared.clone().tree(requests_in);
        let (root, _) = match above {
            Some(above) => supervisor.start_linked(above).await?,
            None => supervisor.start().await?,
        };
        shared.services.companions.below(root.clone());
        tokio::spawn(ends_with(root.clone(), Arc::downgrade(&shared)));
        let _ = shared.root.set(root);
        let system = System(shared, Acting::default());
        system.0.announce().await?;
        system.0.record_tool_sources().await?;
        system.0.attend(system.0.services.gateways()).await;
        if self.recover {
            system.0.declare_schedules().await?;
            system.recover().await?;
        }
        Ok(system)
    }
}

/// Tells whoever waits for this System when its root supervisor has ended, however it came to that.
async fn ends_with(root: Supervisor, shared: Weak<Shared>) {
    root.wait().await;
    if let Some(shared) = shared.upgrade()
        && !shared.stopped.swap(true, Ordering::AcqRel)
    {
        tracing::error!("the System has stopped: its root supervisor has ended");
        shared.services.previewer.live.let_go();
    }
}

impl Shared {
    /// Begins what these models do beside their calls.
    pub(super) async fn attend(&self, gateways: Vec<Arc<ModelGateway>>) {
        let host = ModelHost::new(self.services.clone());
        for gateway in gateways {
            gateway.attend(&host).await;
        }
    }
}

impl System {
    /// A System over this store, to be started. It knows only the behaviors, tools and providers
    /// that it is given: those of the package `ghostlight` come with
    /// `.registry(ghostlight::builtin())`, as in `System::open` of that package.
    pub fn builder(store: impl Into<StoreHandle>) -> SystemBuilder {
        SystemBuilder::new(store.into())
    }
}

/// A team's definition, and the code behind its names.
type Resolved = BTreeMap<String, (TeamSpec, Registry)>;

/// The code that all teams share, and each team with the code behind its names, once its toolsets
/// are open.
async fn resolved(
    shared: Registry,
    teams: Vec<Team>,
    store: &StoreHandle,
) -> Result<(Registry, Resolved), SystemError> {
    shared.refuse_twice("the System")?;
    let mut entries = Resolved::new();
    for Team { spec, registry } in teams {
        let registry = shared.clone().with(registry).define(&spec)?;
        registry.open_toolsets().await;
        let name = spec.name.clone();
        let registry = knowing(store, &name, registry).await?.settle(&spec)?;
        registry.check_models(&spec)?;
        if entries.insert(name.clone(), (spec, registry)).is_some() {
            return Err(DefinitionError::TeamTwice { name }.into());
        }
    }
    Ok((shared, entries))
}

opaque!(SystemBuilder { store });
