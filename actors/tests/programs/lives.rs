//! The lives of a team: processes that come and go over one store.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{Clock, DynStore, RunFilter, RunRow, SeededEntropy, Store},
    run::Registry,
    session::Turn,
    testing::{EffectLog, Fault, FaultyStore, Harm, InMemoryStore, SimulatedClock, Strike},
    vocabulary::{Entry, JournalId, RunId, Timestamp},
};

use crate::{
    disturbances::{answer, disturb, is_over, parked},
    drawing::{Draw, Plan},
    promises,
    team::{model, team},
};

/// How often the last life is looked at, each half a second, before it counts as one that hangs.
const LOOKS: u32 = 600;

/// What outlives the processes.
pub(crate) struct World {
    seed: u64,
    pub(crate) plan: Plan,
    pub(crate) store: InMemoryStore,
    pub(crate) log: EffectLog,
    clock: SimulatedClock,
    /// The code of all lives.
    pub(crate) code: Vec<Registry>,
    /// At the beginning of each life but the first, how many effects had begun and the keys of those whose results
    /// were recorded.
    pub(crate) recorded: Vec<(usize, BTreeSet<String>)>,
    pub(crate) forks: u32,
    /// The runs whose cancellation was acknowledged, and when.
    pub(crate) cancelled: Vec<(RunId, Timestamp)>,
    life: u64,
}

impl World {
    pub(crate) async fn rows(&self) -> Vec<RunRow> {
        self.store.runs(RunFilter::default()).await.unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn entries(&self, run: RunId) -> Vec<Entry> {
        let lines = self.store.read(JournalId::Run(run), 0, usize::MAX).await;
        let lines = lines.unwrap().into_iter();
        lines.map(|stored| stored.line.decode().unwrap()).collect()
    }

    /// All that was recorded and done, as text.
    pub(crate) async fn story(&self) -> String {
        let mut story = String::new();
        for row in self.rows().await {
            writeln!(story, "{} {} {:?}", row.run, row.agent, row.status).unwrap();
            let lines = self.store.read(JournalId::Run(row.run), 0, usize::MAX);
            for stored in lines.await.unwrap() {
                writeln!(story, "    {}: {}", stored.position, stored.line.text).unwrap();
            }
        }
        for effect in self.log.effects() {
            writeln!(story, "{effect:?}").unwrap();
        }
        story
    }

    async fn start(&mut self, store: impl Store) -> System {
        // The code of the first process is older than that of the others.
        let team = team(&self.plan, &self.log, self.life > 0);
        let team = team.into_team().unwrap();
        self.code.push(team.registry.clone());
        let entropy = SeededEntropy::new(self.seed.rotate_left(40) ^ self.life);
        System::builder(store)
            .clock(self.clock.clone())
            .entropy(entropy)
            .model("default", model())
            .team(team)
            .start()
            .await
            .unwrap()
    }

    /// The process dies, and its successor finds what was durable.
    async fn crash(&mut self, system: Option<System>) {
        self.store.crash();
        if let Some(system) = system {
            system.supervisor().unwrap().actor().kill();
        }
        self.store = self.store.another_process();
        self.log = self.log.next_process();
        self.life += 1;
        pause(1).await;
        let begun = self.log.effects().len();
        let recorded = promises::recorded_keys(self).await;
        self.recorded.push((begun, recorded));
    }

    /// One life, which a crash at one of its commits may end early.
    async fn live(&mut self, draw: &Draw, sent: &mut u64) {
        let fault = Fault {
            call: 1 + draw.below(40),
            strike: draw.one_of(&[Strike::Before, Strike::After]),
            harm: Harm::Crash,
        };
        let store = FaultyStore::at_commit(self.store.clone(), fault);
        let crashed = store.clone();
        let work = async {
            let system = self.start(store).await;
            while *sent < self.plan.turns {
                say(&system, *sent);
                pause(5).await;
                *sent += 1;
            }
            for _ in 0..40 {
                pause(1 + draw.below(40)).await;
                disturb(&system, draw, self).await;
            }
            system
        };
        let system = tokio::select! {
            biased;
            () = crashed.crashed() => None,
            system = work => Some(system),
        };
        self.crash(system).await;
    }

    /// The last life, which nothing disturbs, until all runs have ended.
    async fn come_to_an_end(&mut self, draw: &Draw) -> System {
        let system = self.start(self.store.clone()).await;
        for turn in 0..self.plan.turns {
            say(&system, turn);
        }
        for _ in 0..LOOKS {
            pause(500).await;
            answer(&system, draw).await;
            let rows = self.rows().await;
            if let Some(row) = parked(&rows) {
                let entries = self.entries(row.run).await;
                let (run, agent) = (row.run, &row.agent);
                panic!("{run} of {agent} is parked: {:?}", entries.last());
            }
            if is_over(&rows) {
                return system;
            }
        }
        let rows = self.rows().await;
        let open: Vec<_> = rows.iter().filter(|row| !row.status.is_ended()).collect();
        panic!("these runs do not end: {open:#?}");
    }
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Says a turn, which is one run however often it is said.
fn say(system: &System, number: u64) {
    let session = system.session("lead", "s");
    let turn = Turn::text("go").id(format!("t{number}"));
    tokio::spawn(async move { session.send(turn).await });
}

/// Lives through all that is drawn from a seed, checks what was promised, and tells what happened.
pub(crate) async fn live_through(seed: u64, shows: bool) -> String {
    let mut world = live_all(seed, shows).await;
    promises::check(&mut world).await;
    world.story().await
}

/// Lives through all that is drawn from a seed.
pub(crate) async fn live_all(seed: u64, shows: bool) -> World {
    let draw = Draw::new(seed);
    let plan = draw.plan();
    if shows {
        println!("{plan:#?}");
    }
    let mut world = World {
        seed,
        plan,
        store: InMemoryStore::new(),
        log: EffectLog::new(),
        clock: SimulatedClock::starting_at(Timestamp(1_700_000_000_000)),
        code: Vec::new(),
        recorded: Vec::new(),
        forks: 0,
        cancelled: Vec::new(),
        life: 0,
    };
    let lives = 1 + draw.below(4);
    let mut sent = 0;
    for _ in 0..lives {
        world.live(&draw, &mut sent).await;
    }
    let ended = std::panic::AssertUnwindSafe(world.come_to_an_end(&draw));
    let ended = futures_util::FutureExt::catch_unwind(ended).await;
    if shows {
        println!("{}", world.story().await);
    }
    match ended {
        Ok(system) => system.stop().await.unwrap(),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    world.store = world.store.another_process();
    world
}
