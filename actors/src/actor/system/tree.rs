//! The supervision tree below the root.

use std::{collections::HashSet, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use ractor::{Actor, ActorRuntime, Message};
use tokio::sync::mpsc;

use super::{Shared, schedules::Scheduler};
use crate::{
    actor::{
        attendant::{Attendant, AttendantArguments, Errand, ErrandBook},
        journal::Journal,
        memory_store::MemoryStore,
        model_gateway::{GatewayArguments, ModelGateway},
        slot::Slot,
        supervisor::{
            Backoff, Child, ChildSpec, Strategy, Supervisor, SupervisorBuilder, SupervisorSpec,
        },
        tool_executor::{ExecutorArguments, ToolExecutor},
    },
    contract::ModelHandle,
};

/// A child whose current life is found in a slot.
fn slotted<A, F>(spec: ChildSpec, slot: Slot<A::Msg>, make: F) -> Child
where
    A: Actor,
    F: Fn() -> (A, A::Arguments) + Send + Sync + 'static,
    A::Msg: Message,
{
    Child::new(spec, move |supervisor| {
        let (actor, arguments) = make();
        let slot = slot.clone();
        async move {
            let spawned = ActorRuntime::spawn_linked(None, actor, arguments, supervisor).await?;
            slot.set(spawned.0.clone());
            Ok((spawned.0.get_cell(), spawned.1))
        }
    })
}

impl Shared {
    /// The supervision tree below the root.
    pub(super) fn tree(
        self: Arc<Self>,
        errands: mpsc::UnboundedReceiver<Errand>,
        keeps_schedules: bool,
    ) -> SupervisorBuilder {
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .seed(self.doors.entropy.bits() as u64)
            .intensity(50, Duration::from_secs(10))
            .backoff(Backoff::exponential(
                Duration::from_millis(5),
                Duration::from_secs(1),
            ));
        let doors = &self.doors;
        let store = doors.store.clone();
        let journal = slotted(
            ChildSpec::worker("journal"),
            doors.journal.clone(),
            move || (Journal, store.clone()),
        );
        let store = doors.store.clone();
        let memory = slotted(
            ChildSpec::worker("memory"),
            doors.memory.clone(),
            move || (MemoryStore, store.clone()),
        );
        let mut children = vec![journal, memory, self.executor()];
        children.extend(
            doors
                .registry
                .models()
                .map(|(name, model)| self.gateway(name, model)),
        );
        children.push(self.clone().teams());
        let book = Arc::new(tokio::sync::Mutex::new(ErrandBook::new(errands)));
        let shared = self.clone();
        children.push(Child::of(ChildSpec::worker("attendant"), move || {
            let (shared, book) = (shared.clone(), book.clone());
            (Attendant, AttendantArguments { shared, book })
        }));
        if keeps_schedules {
            children.push(Child::of(ChildSpec::worker("schedules"), move || {
                (Scheduler, self.clone())
            }));
        }
        Supervisor::builder(spec).children(children)
    }

    fn executor(&self) -> Child {
        let doors = &self.doors;
        let (registry, clock) = (doors.registry.clone(), doors.clock.clone());
        let entropy = doors.entropy.clone();
        let (previews, options) = (doors.previewer.clone(), self.limits.executor);
        let begun = Arc::new(Mutex::new(HashSet::new()));
        slotted(
            ChildSpec::worker("tools"),
            doors.executor.clone(),
            move || {
                let arguments = ExecutorArguments {
                    registry: registry.clone(),
                    options,
                    clock: clock.clone(),
                    entropy: entropy.clone(),
                    previews: previews.clone(),
                    begun: begun.clone(),
                };
                (ToolExecutor, arguments)
            },
        )
    }

    fn gateway(&self, name: &str, model: &ModelHandle) -> Child {
        let doors = &self.doors;
        let slot = doors.gateways.get(name).cloned().unwrap_or_default();
        let (model, options) = (model.clone(), self.limits.gateway);
        let (clock, entropy) = (doors.clock.clone(), doors.entropy.clone());
        let previews = doors.previewer.clone();
        let chain = doors.registry.model_chain(name);
        slotted(
            ChildSpec::worker(format!("model {name}")),
            slot,
            move || {
                let arguments = GatewayArguments {
                    model: model.clone(),
                    chain: chain.clone(),
                    options,
                    clock: clock.clone(),
                    entropy: entropy.clone(),
                    previews: previews.clone(),
                };
                (ModelGateway, arguments)
            },
        )
    }

    /// The supervisor of the sessions' agents.
    fn teams(self: Arc<Self>) -> Child {
        let current: Arc<RwLock<Option<Supervisor>>> = Arc::default();
        let _ = self.teams_supervisor.set(current.clone());
        Child::new(ChildSpec::supervisor("teams"), move |above| {
            let (current, shared) = (current.clone(), self.clone());
            async move {
                let spec = SupervisorSpec::new(Strategy::OneForOne)
                    .seed(shared.doors.entropy.bits() as u64)
                    .intensity(1000, Duration::from_secs(10))
                    .backoff(Backoff::exponential(
                        Duration::from_millis(20),
                        Duration::from_secs(5),
                    ));
                let started = Supervisor::builder(spec).start_linked(above).await;
                let (supervisor, task) =
                    started.map_err(|error| ractor::SpawnErr::StartupFailed(Box::new(error)))?;
                let cell = supervisor.actor();
                // The agents of an earlier life are gone with it; what they carried goes on.
                shared.agents.lock().clear();
                *current.write() = Some(supervisor);
                for run in shared.doors.previewer.routes.live_roots() {
                    shared.wake_later(shared.doors.clock.now(), run);
                }
                Ok((cell, task))
            }
        })
    }
}
