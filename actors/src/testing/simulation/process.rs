//! The processes of a simulation, one after another, until all work is done.

use std::{sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::{
    outside::{Outside, take_over},
    ports::{Place, SimulatedModel, SimulatedTool},
    set_up::Simulation,
    store::{SimulatedStore, noticed_as_poisoned},
    world::World,
};
use crate::{
    actor::{
        System, SystemError, SystemOptions,
        supervisor::{Backoff, Intensity},
    },
    contract::{ModelHandle, SeededEntropy, ToolHandle},
    testing::{EffectLog, InMemoryStore, Strike},
};

/// The longest life of a process that meets faults, in milliseconds.
const LIFE_MS: u64 = 6_000;
/// The time in which most of the processes that stand still come to it, in milliseconds.
const FREEZES_WITHIN_MS: u64 = 1_500;
/// The most store calls of a process that dies at one of them.
const CALLS: u64 = 300;

/// Holds the System of one process: killing it kills everything in it.
struct Root;

impl Actor for Root {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// One process of the program.
struct Process {
    root: ActorRef<()>,
    /// The process's own handle on the disk.
    disk: InMemoryStore,
    store: SimulatedStore,
}

impl Process {
    async fn dies(&self) {
        self.store.kill();
        self.root.kill();
        self.disk.crash();
        // Killed tasks come to their end.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }
}

/// How a process came to its end.
enum End {
    /// All work is done.
    Done,
    Died,
    Froze,
    /// The last process did not finish the work.
    Hung,
    Failed(SystemError),
}

/// Lets processes come and go until all work is done; the last one meets no faults.
pub(super) async fn live(simulation: &Simulation, world: &Arc<World>, seed: u64) -> u32 {
    let crashes = world.faults.crashes;
    let mut log = EffectLog::new();
    let mut frozen: Option<Process> = None;
    let mut number = 0;
    loop {
        number += 1;
        let faulty = number <= crashes;
        let still = frozen.take();
        if !faulty && let Some(still) = &still {
            still.dies().await;
        }
        let disk = world.disk.another_process();
        let inner = (simulation.disk)(disk.clone());
        let store = SimulatedStore::new(inner, world.clone(), faulty);
        let Ok((root, _)) = Actor::spawn(None, Root, ()).await else {
            world.violate("a process does not start".to_owned());
            return number;
        };
        world.tell(format_args!("process {number} starts"));
        let process = Process { root, disk, store };
        let place = Place {
            world: world.clone(),
            store: process.store.clone(),
            process: number,
            faulty,
        };
        let builder = System::builder(process.store.clone())
            .clock(world.clock.clone())
            .entropy(SeededEntropy::new(seed ^ u64::from(number).rotate_left(40)))
            .options(knobs(world));
        let builder = (simulation.scenario.build)(builder, log.clone());
        let builder = builder.around(move |registry| {
            let (for_models, for_tools) = (place.clone(), place.clone());
            registry.around(
                move |inner| {
                    let place = for_models.clone();
                    ModelHandle::new(SimulatedModel { inner, place })
                },
                move |inner| {
                    let place = for_tools.clone();
                    ToolHandle::new(SimulatedTool { inner, place })
                },
            )
        });
        let starting = builder.start_linked(process.root.get_cell());
        let of = Life {
            simulation,
            world,
            process: &process,
            still: still.as_ref().filter(|_| faulty),
            faulty,
        };
        let end = of.lead(starting).await;
        if let Some(still) = &still {
            still.dies().await;
        }
        world.tell(format_args!("process {number} {}", told(&end)));
        log = log.next_process();
        match end {
            End::Froze => {
                process.store.freeze();
                frozen = Some(process);
                world.strike("process frozen");
            }
            End::Died => {
                process.dies().await;
                world.strike("process killed");
            }
            End::Done => {
                process.dies().await;
                return number;
            }
            End::Hung => {
                process.dies().await;
                world.violate(format!("the work hangs: {}", super::check::standing(world)));
                return number;
            }
            End::Failed(error) => {
                process.dies().await;
                world.violate(format!("the work fails without a fault: {error}"));
                return number;
            }
        }
        if world.chance.happens(world.faults.clock) {
            world.ledger.lock().jumped = true;
            world.strike("clock set back");
            world.clock.set_back(world.chance.millis(20_000));
        }
    }
}

fn told(end: &End) -> &'static str {
    match end {
        End::Done => "is done",
        End::Died => "dies",
        End::Froze => "stands still",
        End::Hung => "hangs",
        End::Failed(_) => "fails",
    }
}

/// One process from its start to its end.
struct Life<'a> {
    simulation: &'a Simulation,
    world: &'a Arc<World>,
    process: &'a Process,
    /// The process before, if it is frozen.
    still: Option<&'a Process>,
    faulty: bool,
}

impl Life<'_> {
    async fn lead(&self, starting: impl Future<Output = Result<System, SystemError>>) -> End {
        let (world, store) = (self.world, &self.process.store);
        if !self.faulty {
            return tokio::time::timeout(self.simulation.patience, self.work(starting))
                .await
                .unwrap_or(End::Hung);
        }
        let freezes = world.chance.happens(world.faults.frozen);
        let mut lifetime = world.chance.millis(LIFE_MS);
        if freezes && world.chance.happens(0.7) {
            // Most work is done by later.
            lifetime = world.chance.millis(FREEZES_WITHIN_MS);
        } else if self.still.is_some() && world.chance.happens(0.7) {
            // The process that stood still goes on first.
            lifetime = Duration::from_millis(LIFE_MS);
        } else if world.chance.happens(0.5) {
            let strike = [Strike::Before, Strike::After][usize::from(world.chance.happens(0.5))];
            store.crash_at(1 + world.chance.below(CALLS), strike);
            lifetime = Duration::from_millis(LIFE_MS);
        }
        tokio::select! {
            biased;
            () = store.crashed() => End::Died,
            () = noticed_as_poisoned(store, world) => End::Died,
            () = tokio::time::sleep(lifetime) => if freezes { End::Froze } else { End::Died },
            () = jumps(world) => End::Died,
            end = self.work(starting) => match end {
                // Nothing is left to do; the next process finds it done.
                End::Done | End::Failed(_) => End::Died,
                end => end,
            },
        }
    }

    async fn work(&self, starting: impl Future<Output = Result<System, SystemError>>) -> End {
        let system = match starting.await {
            Ok(system) => system,
            // A process that cannot read its store does not start.
            Err(_) if self.faulty => return End::Died,
            Err(error) => return End::Failed(error),
        };
        let dying = self.faulty.then(|| self.process.store.clone());
        let outside = Outside::new(self.simulation, self.world.clone(), dying);
        let taking_over = take_over(&system, self.world, self.still.is_some());
        let done = tokio::join!(outside.work(&system), taking_over, self.wakes()).0;
        match done {
            Ok(()) => End::Done,
            Err(error) => End::Failed(error),
        }
    }

    /// A frozen process goes on, finds that another one owns its runs, and dies.
    async fn wakes(&self) {
        let Some(still) = self.still else { return };
        tokio::time::sleep(self.world.chance.millis(1_500)).await;
        self.world
            .tell(format_args!("the process that stood still goes on"));
        still.store.thaw();
        tokio::time::sleep(self.world.chance.millis(1_500)).await;
        still.dies().await;
    }
}

/// Lets the clock jump now and then, and never returns.
async fn jumps(world: &World) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if world.chance.happens(world.faults.clock) {
            world.ledger.lock().jumped = true;
            if world.chance.happens(0.3) {
                world.strike("clock set back");
                world.clock.set_back(world.chance.millis(20_000));
                continue;
            }
            world.strike("clock jump");
            let far = [10_000, 3_600_000][usize::from(world.chance.happens(0.2))];
            world.clock.advance(world.chance.millis(far));
        }
    }
}

/// The limits of this process: what takes minutes in production happens within seconds, and not always equally fast.
fn knobs(world: &World) -> SystemOptions {
    let chance = &world.chance;
    let mut limits = SystemOptions {
        linger: chance.millis(2_000),
        passivate_after: chance.millis(3_000),
        poll_interval: Duration::from_millis(25) + chance.millis(200),
        run_restarts: Intensity::new(8, Duration::from_secs(10)),
        run_backoff: Backoff::exponential(Duration::from_millis(10), Duration::from_millis(200)),
        ..SystemOptions::default()
    };
    limits.gateway.attempts = 1 + u32::try_from(chance.below(4)).unwrap_or(0);
    limits.gateway.base_pause = chance.millis(200);
    limits.gateway.max_pause = Duration::from_secs(1);
    limits.gateway.concurrency = 1 + usize::try_from(chance.below(8)).unwrap_or(0);
    limits.executor.concurrency = 1 + usize::try_from(chance.below(8)).unwrap_or(0);
    limits.executor.timeout = Duration::from_millis(2_500 + chance.below(1_000));
    limits.executor.grace = chance.millis(800);
    limits.executor.kept_results = usize::try_from(chance.below(16)).unwrap_or(0);
    limits.executor.own_tasks = chance.happens(0.5);
    limits
}
