//! `ghostlight serve`.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::OptionFuture;
use ghostlight::config::{self, TeamFile};
use ghostlight_actors::{
    actor::{System, SystemError, SystemOptions},
    contract::{Notice, RunFilter, RunRow, RunStatus, StoreError},
    definition::{DefinitionError, TeamSpec},
    run::{Registry, Team},
    vocabulary::{RunId, Timestamp},
};
use tokio::time::{Interval, MissedTickBehavior};

#[cfg(feature = "full")]
use super::listening::{self, Listening, Served};
use super::reloading::Watched;
use crate::{
    arguments::Serve,
    default_model,
    exit::{Exit, Failure},
    follow::print_json,
    interrupt::Interrupt,
    keeping::Keeping,
    plain_text,
    telemetry::Exporter,
    when,
};

/// How often the states of the runs are checked.
const LOOK: Duration = Duration::from_millis(500);
/// How often runs that other processes left behind are looked for.
const RECOVER: Duration = Duration::from_secs(2);
/// How many of the latest runs are watched, beside those at work.
const LATEST: usize = 256;

pub(super) async fn serve(arguments: Serve, registry: Registry) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for path in team_files(&arguments.team_file)? {
        let mut file = config::load(&path)?;
        default_model::define(file.spec_mut(), &registry, &arguments.model)?;
        files.push((path, file));
    }
    let teams: Vec<TeamSpec> = files.iter().map(|(_, file)| file.spec().clone()).collect();
    #[cfg(feature = "full")]
    let served = Served::new(arguments.http, &arguments.store, &registry, &teams)?;
    #[cfg(feature = "full")]
    let served = served
        .with_evaluations(&arguments.model, &arguments.store, &registry)
        .await?;
    let keeping = Keeping::open(&arguments.store).await?;
    let mut interrupt = Interrupt::new()?;
    // The earlier states are not news, except for runs that continue.
    let names = teams.iter().map(|team| team.name.clone()).collect();
    let mut watch = Watch::new(names, arguments.show.json);
    for row in watch.rows(&keeping).await? {
        watch.seen.insert(row.run, row.status);
    }
    let watched = files.iter().zip(&teams).map(|((path, _), team)| {
        let model = arguments.model.clone();
        Watched::new(path.clone(), team.clone(), model, registry.clone())
    });
    let mut watched: Vec<Watched> = watched.collect();
    #[cfg(feature = "full")]
    let listener = listening::take_address(&served).await?;
    let mut limits = SystemOptions::default();
    limits.retention = arguments.retention.retention();
    limits.expire_silent = arguments.expire_silent;
    limits.max_live_runs = arguments.live_runs.unwrap_or(limits.max_live_runs);
    limits.gateway.patience = arguments.patience.unwrap_or(limits.gateway.patience);
    let builder = System::builder(keeping.store.clone()).options(limits);
    let builder = teams.iter().cloned().fold(builder, |builder, spec| {
        let registry = registry.clone();
        builder.team(Team { spec, registry })
    });
    let system = builder.start().await.map_err(|error| match error {
        SystemError::Definition(error) => of_file(&error, &files, &registry),
        error => error.into(),
    })?;
    let system = system.as_operator();
    let exporter = Exporter::begin(&system).await?;
    let at_work = watch.seen.values().filter(|status| status.is_under_way());
    let told = teams.iter().map(|team| {
        let model = default_model::describe(team, &registry);
        format!("team {}, model {model}", team.name)
    });
    super::note(&format!(
        "{}, {} at work, in {}; Ctrl-C ends it, and all continues with the next start",
        told.collect::<Vec<_>>().join("; "),
        super::counted(at_work.count() as u64, "run"),
        keeping.store.description(),
    ));
    #[cfg(feature = "full")]
    let mut listening = Listening::begin(&system, &served, listener)?;
    #[cfg(not(feature = "full"))]
    let mut listening = ();
    let watching = (&mut watch, &mut watched[..]);
    let result = keep(&system, &keeping, watching, &mut listening, &mut interrupt).await;
    #[cfg(feature = "full")]
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

/// The team file, or all those of a folder, by their names.
fn team_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let is_yaml = path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
        if is_yaml && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Failure::Usage(format!(
            "{} is a folder without team files: name a file, or a folder with files that end in .yaml",
            path.display()
        ))),
        false => Ok(files),
    }
}

/// A fault of a definition, at its place in the file that it is of.
fn of_file(error: &DefinitionError, files: &[(PathBuf, TeamFile)], registry: &Registry) -> Failure {
    let of = |(_, file): &(PathBuf, TeamFile)| file.resolve(registry.clone()).err();
    match (files, files.iter().find_map(of)) {
        ([(_, file)], _) => Failure::Config(file.locate(error)),
        (_, Some(fault)) => Failure::Config(fault),
        (_, None) => Failure::Usage(error.to_string()),
    }
}

/// Keeps the System alive until the process is asked to end, or the store fails.
async fn keep(
    system: &System,
    keeping: &Keeping,
    (watch, watched): (&mut Watch, &mut [Watched]),
    listening: &mut HttpServer,
    interrupt: &mut Interrupt,
) -> Result<Exit, Failure> {
    for scheduled in system.schedules().await? {
        if let Some(next) = scheduled
            .next
            .filter(|_| watch.teams.contains(&scheduled.team))
        {
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
                for file in watched.iter_mut() {
                    if let Some(told) = file.look(system).await {
                        super::note(&told);
                    }
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
#[cfg(feature = "full")]
type HttpServer = Option<Listening>;
#[cfg(not(feature = "full"))]
type HttpServer = ();

/// Waits until the HTTP server has failed; for ever if there is none.
async fn failed(server: &mut HttpServer) {
    #[cfg(feature = "full")]
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

/// The states of the teams' runs that were already reported.
struct Watch {
    teams: HashSet<String>,
    json: bool,
    seen: HashMap<RunId, RunStatus>,
}

impl Watch {
    fn new(teams: HashSet<String>, json: bool) -> Self {
        let seen = HashMap::new();
        Self { teams, json, seen }
    }

    /// The teams' latest roots, those at work, and those that were at work when it last looked. Others, which sleep or
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
        rows.retain(|row| self.teams.contains(&row.team));
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
    use ghostlight_actors::{
        contract::{DynStore, News, StoreHandle},
        run::{Agent, RunContext},
        testing::{FaultyStore, InMemoryStore},
        vocabulary::{AgentError, Outcome},
    };
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::default_model::ModelArguments;

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
        let mut watch = Watch::new(HashSet::from(["desk".to_owned()]), false);
        let model = ModelArguments::default();
        let mut watched = [Watched::new(PathBuf::new(), spec, model, registry)];
        let system = System::builder(keeping.store.clone()).team(team(true));
        let system = system.start().await.unwrap();
        let (mut listening, mut interrupt) = (HttpServer::default(), Interrupt::new().unwrap());
        let watching = (&mut watch, &mut watched[..]);
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
