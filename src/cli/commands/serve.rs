//! `ghostlight serve`.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures_util::future::OptionFuture;
use ghostlight_actors::{
    actor::{System, SystemError, SystemOptions},
    contract::{Notice, RunFilter, RunRow, RunStatus, StoreError},
    run::{Registry, Team},
    vocabulary::{RunId, Timestamp},
};
use tokio::time::{Interval, MissedTickBehavior};

#[cfg(feature = "server")]
use super::listening::{self, Listening, Served};
use super::reloading::Watched;
use crate::{
    cli::{
        arguments::Serve,
        default_model,
        exit::{Exit, Failure},
        follow::print_json,
        interrupt::Interrupt,
        keeping::Keeping,
        plain_text,
        telemetry::Exporter,
        when,
    },
    config,
};

/// How often the states of the runs are checked.
const LOOK: Duration = Duration::from_millis(500);
/// How often runs that other processes left behind are looked for.
const RECOVER: Duration = Duration::from_secs(2);
/// How many of the latest runs are watched, beside those at work.
const LATEST: usize = 256;

pub(super) async fn serve(arguments: Serve, registry: Registry) -> Result<Exit, Failure> {
    let mut file = config::load(&arguments.team_file)?;
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    let team = file.spec().clone();
    #[cfg(feature = "server")]
    let served = Served::new(arguments.http, &arguments.store, &registry, &team)?;
    let keeping = Keeping::open(&arguments.store).await?;
    let model = default_model::describe(&team, &registry);
    let mut interrupt = Interrupt::new()?;
    // The earlier states are no news, except for runs that continue.
    let mut watch = Watch::new(team.name.clone(), arguments.show.json);
    for row in watch.rows(&keeping).await? {
        watch.seen.insert(row.run, row.status);
    }
    let spec = team.clone();
    let mut watched = Watched::new(
        arguments.team_file,
        spec.clone(),
        arguments.model,
        registry.clone(),
    );
    #[cfg(feature = "server")]
    let listener = listening::take_address(&served).await?;
    let team = Team { spec, registry };
    let mut limits = SystemOptions::default();
    limits.retention = arguments.retention.retention();
    limits.max_live_runs = arguments.live_runs.unwrap_or(limits.max_live_runs);
    let system = System::builder(keeping.store.clone())
        .options(limits)
        .team(team);
    let system = system.start().await.map_err(|error| match error {
        SystemError::Definition(error) => Failure::Config(file.locate(&error)),
        error => error.into(),
    })?;
    let system = system.as_operator();
    let exporter = Exporter::begin(&system).await?;
    let at_work = watch.seen.values().filter(|status| status.is_under_way());
    super::note(&format!(
        "team {}, model {model}, {} at work, in {}; Ctrl-C ends it, and all goes on with the next start",
        watch.team,
        super::counted(at_work.count() as u64, "run"),
        keeping.store.description(),
    ));
    #[cfg(feature = "server")]
    let mut listening = Listening::begin(&system, &served, listener)?;
    #[cfg(not(feature = "server"))]
    let mut listening = ();
    let watching = (&mut watch, &mut watched);
    let result = keep(&system, &keeping, watching, &mut listening, &mut interrupt).await;
    #[cfg(feature = "server")]
    let result = match listening {
        // First no more requests are accepted, then runs are released where they stand.
        Some(listening) => {
            let ended = listening.end().await;
            result.and_then(|exit| ended.map(|()| exit))
        }
        None => result,
    };
    exporter.end().await;
    super::stop(&system, &mut interrupt, result).await
}

/// Keeps the System alive until the process is asked to end, or the store fails.
async fn keep(
    system: &System,
    keeping: &Keeping,
    (watch, watched): (&mut Watch, &mut Watched),
    listening: &mut HttpServer,
    interrupt: &mut Interrupt,
) -> Result<Exit, Failure> {
    for scheduled in system.schedules().await? {
        if let Some(next) = scheduled.next.filter(|_| scheduled.team == watch.team) {
            let name = scheduled.schedule.name;
            super::note(&format!("schedule {name}, next at {}", when::date(next)));
        }
    }
    let (mut look, mut recover) = (every(LOOK), every(RECOVER));
    let mut left = OptionFuture::from(keeping.store.news(Notice::Left));
    let mut goes_on = true;
    while goes_on {
        tokio::select! {
            biased;
            () = interrupt.fired() => goes_on = false,
            () = failed(listening) => goes_on = false,
            // The runs of a node that leaves are taken up at once, those of one that dies when its end is noticed.
            Some(()) = &mut left => {
                left = keeping.store.news(Notice::Left).into();
                recover.reset_immediately();
            }
            _ = recover.tick() => {
                let recovered = system.recover().await;
                unless_away(keeping, recovered.map_err(Failure::from))?;
            }
            _ = look.tick() => {
                if let Some(told) = watched.look(system).await {
                    super::note(&told);
                }
            }
        }
        let rows = watch.rows(keeping).await;
        for row in unless_away(keeping, rows)?.iter().rev() {
            watch.tell(row)?;
        }
    }
    Ok(Exit::Done)
}

/// The result, or nothing while a database is out of reach: it comes back, and what is under way waits for it. A file
/// that cannot be read any more does not come back.
fn unless_away<T: Default>(keeping: &Keeping, result: Result<T, Failure>) -> Result<T, Failure> {
    match result {
        Err(Failure::System(SystemError::Store(StoreError::Io { place, reason })))
            if keeping.store.description().starts_with("postgres://") =>
        {
            tracing::warn!(place, reason, "the database is away");
            Ok(T::default())
        }
        result => result,
    }
}

/// The HTTP server, if there is one.
#[cfg(feature = "server")]
type HttpServer = Option<Listening>;
#[cfg(not(feature = "server"))]
type HttpServer = ();

/// Waits until the HTTP server has failed; for ever if there is none.
async fn failed(server: &mut HttpServer) {
    #[cfg(feature = "server")]
    if let Some(server) = server {
        return server.ended().await;
    }
    let _ = server;
    std::future::pending().await
}

fn every(pause: Duration) -> Interval {
    let mut every = tokio::time::interval(pause);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

/// The states of the team's runs that were already reported.
struct Watch {
    team: String,
    json: bool,
    seen: HashMap<RunId, RunStatus>,
}

impl Watch {
    fn new(team: String, json: bool) -> Self {
        let seen = HashMap::new();
        Self { team, json, seen }
    }

    /// The team's latest roots, those at work, and those that were at work when it last looked. Others, which sleep or
    /// wait for somebody, may be very many, and are not read.
    async fn rows(&mut self, keeping: &Keeping) -> Result<Vec<RunRow>, Failure> {
        let mut filter = RunFilter::default();
        (filter.roots, filter.limit) = (true, LATEST);
        let mut rows = keeping.store.runs(filter.clone()).await?;
        (filter.awake_by, filter.limit) = (Some(Timestamp::default()), 0);
        let mut known: HashSet<RunId> = rows.iter().map(|row| row.run).collect();
        let at_work = keeping.store.runs(filter).await?.into_iter();
        rows.extend(at_work.filter(|row| known.insert(row.run)));
        let were_at_work = self.seen.iter().filter(|(_, status)| status.is_under_way());
        for (run, _) in were_at_work.filter(|(run, _)| !known.contains(run)) {
            rows.extend(keeping.store.run(*run).await?);
        }
        rows.retain(|row| row.team == self.team);
        let known: HashSet<RunId> = rows.iter().map(|row| row.run).collect();
        self.seen.retain(|run, _| known.contains(run));
        Ok(rows)
    }

    /// Reports the state of a run if it is new.
    fn tell(&mut self, row: &RunRow) -> Result<(), Failure> {
        if self.seen.insert(row.run, row.status) == Some(row.status) {
            return Ok(());
        }
        if self.json {
            return print_json(row);
        }
        let title = plain_text::line(&row.title, 60);
        let at = when::date(row.updated_at);
        super::print(&format!(
            "{at}  {}  {:10}  {title}",
            row.run.short(),
            row.status
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ghostlight_actors::{
        contract::{DynStore, News, StoreHandle},
        run::{Agent, RunContext},
        testing::{FaultyStore, InMemoryStore},
        vocabulary::{AgentError, Outcome},
    };
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::cli::default_model::ModelArguments;

    fn team(ends: bool) -> Team {
        let work = move |_: RunContext| async move {
            if !ends {
                std::future::pending::<()>().await;
            }
            Ok::<_, AgentError>(Outcome::answer("done"))
        };
        Agent::from_fn("desk", work).into_team().unwrap()
    }

    /// The clock stands still but for pauses that all wait for, and the next look is far when the notice comes.
    #[tokio::test(start_paused = true)]
    async fn the_runs_of_a_process_that_leaves_are_taken_up_at_its_notice() {
        let (memory, news) = (InMemoryStore::new(), News::default());
        let (here, seen) = (memory.another_process(), memory.another_process());
        let leaving = System::builder(memory).team(team(false));
        let leaving = leaving.start().await.unwrap();
        let run = leaving.session("desk", "s").send("go").await.unwrap().id();
        let keeping = Keeping {
            store: StoreHandle::new(FaultyStore::telling(here, news.clone())),
            option: String::new(),
            lasting: true,
        };
        let Team { spec, registry } = team(true);
        let mut watch = Watch::new("desk".to_owned(), false);
        let model = ModelArguments::default();
        let mut watched = Watched::new(PathBuf::new(), spec, model, registry);
        let system = System::builder(keeping.store.clone()).team(team(true));
        let system = system.start().await.unwrap();
        let (mut listening, mut interrupt) = (HttpServer::default(), Interrupt::new().unwrap());
        let watching = (&mut watch, &mut watched);
        let took = async {
            sleep(RECOVER * 2 + RECOVER / 4).await;
            leaving.stop().await.unwrap();
            let told = Instant::now();
            news.tell(Notice::Left);
            while seen.run(run).await.unwrap().unwrap().status != RunStatus::Answered {
                sleep(Duration::from_millis(1)).await;
            }
            told.elapsed()
        };
        let took = tokio::select! {
            ended = keep(&system, &keeping, watching, &mut listening, &mut interrupt) => panic!("{ended:?}"),
            took = took => took,
        };
        assert!(took < RECOVER / 4, "{took:?}");
    }
}
