//! The supervision tree below the root.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    pruning::keep_tidy, recovery::keep_recovering, schedules::keep_time,
    tool_sources::keep_tool_sources,
};
use crate::actor::{
    call_table::{CallKeeper, CallTable},
    group_commit::CommitterActor,
    model_gateway::{KEPT_ANSWERS, ModelGateway},
    shared::Shared,
    supervised_ref::slotted,
    supervisor::{
        Backoff, Child, ChildSpec, Strategy, Supervisor, SupervisorBuilder, SupervisorSpec,
    },
    wake::TimerRequest,
    wake_service::{TimerBook, attend},
};
use crate::contract::BoxFuture;

/// An actor for background work, which lasts as long as the actor lives.
struct Background;

/// Such an actor takes no messages.
pub(crate) enum Nothing {}

impl Actor for Background {
    type Msg = Nothing;
    type State = AbortOnDropHandle<()>;
    type Arguments = BoxFuture<'static, ()>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Nothing>,
        work: BoxFuture<'static, ()>,
    ) -> Result<AbortOnDropHandle<()>, ActorProcessingErr> {
        Ok(AbortOnDropHandle::new(tokio::spawn(work)))
    }
}

/// A child that does this work in each of its lives.
fn background<F>(
    name: &str,
    shared: &Arc<Shared>,
    work: impl Fn(Arc<Shared>) -> F + Send + Sync + 'static,
) -> Child
where
    F: Future<Output = ()> + Send + 'static,
{
    let shared = shared.clone();
    Child::of(ChildSpec::worker(name), move || {
        let work: BoxFuture<'static, ()> = Box::pin(work(shared.clone()));
        (Background, work)
    })
}

/// The keeper of calls whose run is gone.
fn keeper<T: Send + 'static>(name: &str, calls: &CallTable<T>, bound: usize) -> Child {
    slotted(name, calls.keeper.clone(), move || {
        (CallKeeper(PhantomData), bound)
    })
}

/// The keeper of a model's answers whose runs are gone.
pub(super) fn answers_of(name: &str, gateway: &ModelGateway) -> Child {
    keeper(name, &gateway.calls, KEPT_ANSWERS)
}

impl Shared {
    /// The supervision tree below the root.
    pub(super) fn tree(
        self: Arc<Self>,
        requests: mpsc::UnboundedReceiver<TimerRequest>,
    ) -> SupervisorBuilder {
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .seed(self.services.entropy.bits() as u64)
            .intensity(50, Duration::from_secs(10))
            .backoff(Backoff::exponential(
                Duration::from_millis(5),
                Duration::from_secs(1),
            ));
        let services = &self.services;
        let committer = slotted("committer", services.committer.actor(), || {
            (CommitterActor, ())
        });
        let executor = &services.executor;
        let bound = executor.options.kept_results;
        let tools = keeper("tools", &executor.calls, bound);
        let mut children = vec![committer, tools];
        let gateways = services.gateways.read();
        let named = gateways.named.iter();
        children.extend(named.map(|(name, gateway)| answers_of(name, gateway)));
        drop(gateways);
        children.push(self.clone().teams());
        let book = Arc::new(tokio::sync::Mutex::new(TimerBook::new(requests)));
        children.push(background("wake_service", &self, move |shared| {
            let book = book.clone();
            async move { attend(&shared, &mut *book.lock().await).await }
        }));
        children.push(background("tool_sources", &self, keep_tool_sources));
        let tidies = self.limits.retention.deletes() || self.limits.expire_silent.is_some();
        if self.recovers && tidies {
            children.push(background("retention", &self, keep_tidy));
        }
        if self.recovers {
            children.push(background("recovery", &self, keep_recovering));
            children.push(background("schedules", &self, keep_time));
        }
        Supervisor::builder(spec).children(children)
    }

    /// The supervisor of the sessions' agents.
    fn teams(self: Arc<Self>) -> Child {
        Child::new(ChildSpec::supervisor("teams"), move |above| {
            let shared = self.clone();
            async move {
                // An agent whose session leaves memory is forgotten at once.
                let spec = SupervisorSpec::new(Strategy::SimpleOneForOne)
                    .seed(shared.services.entropy.bits() as u64)
                    .intensity(1000, Duration::from_secs(10))
                    .backoff(Backoff::exponential(
                        Duration::from_millis(20),
                        Duration::from_secs(5),
                    ));
                let started = Supervisor::builder(spec).start_linked(above).await;
                let (supervisor, task) =
                    started.map_err(|error| ractor::SpawnErr::StartupFailed(Box::new(error)))?;
                let cell = supervisor.actor();
                // The agents of an earlier incarnation are gone with it; the runs that they carried go on.
                shared.agents.lock().clear();
                *shared.teams_supervisor.write() = Some(supervisor);
                for run in shared.services.previewer.live.live_roots() {
                    shared.wake_later(shared.services.clock.now(), run);
                }
                Ok((cell, task))
            }
        })
    }
}
