//! `ghostlight resume`.

use ghostlight_actors::{
    actor::SystemError,
    contract::{RunFilter, RunRow, RunStatus, StoreError},
    run::Registry,
};

use crate::{
    arguments::Resume,
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    telemetry::Exporter,
};

pub(super) async fn resume(arguments: Resume, registry: Registry) -> Result<Exit, Failure> {
    let mut interrupt = Interrupt::new()?;
    if let Some(prefix) = &arguments.run {
        let keeping = Keeping::open_to_change(&arguments.store).await?;
        let row = keeping.find(prefix).await?;
        return one(&keeping, &row, &arguments, registry, &mut interrupt).await;
    }
    let Some(mut keeping) = Keeping::open_if_there(&arguments.store).await? else {
        return super::no_runs_yet(&arguments.store);
    };
    let mut exit = Exit::Done;
    let open = open_runs(&keeping).await?;
    if open.is_empty() {
        super::note("no run is open");
    }
    for row in open {
        if row.status == RunStatus::Parked {
            let id = row.run.short();
            super::note(&format!(
                "run {id} is parked, and tried again only by its name: ghostlight resume {id}{}",
                keeping.option
            ));
            continue;
        }
        let result = one(&keeping, &row, &arguments, registry.clone(), &mut interrupt).await;
        let ended = match result {
            Err(Failure::System(SystemError::Store(StoreError::Owned { .. }))) => {
                super::note(&format!(
                    "run {} is carried by another process",
                    row.run.short()
                ));
                Exit::Done
            }
            Err(error) if !matches!(error.exit(), Exit::Store) => {
                super::note(&format!("run {}: {error}", row.run.short()));
                error.exit()
            }
            other => other?,
        };
        if ended == Exit::Interrupted {
            return Ok(ended);
        }
        // The first result other than success becomes the exit code.
        if exit == Exit::Done {
            exit = ended;
        }
        // A System closes its store, and each run has a System of its own: two teams may call
        // different models by one name.
        keeping = Keeping::open(&arguments.store).await?;
    }
    Ok(exit)
}

async fn open_runs(keeping: &Keeping) -> Result<Vec<RunRow>, Failure> {
    let mut filter = RunFilter::default();
    (filter.open, filter.roots) = (true, true);
    let mut open = keeping.store.runs(filter).await?;
    // The oldest first.
    open.reverse();
    Ok(open)
}

async fn one(
    keeping: &Keeping,
    row: &RunRow,
    arguments: &Resume,
    registry: Registry,
    interrupt: &mut Interrupt,
) -> Result<Exit, Failure> {
    let (system, follow) = super::start_for(keeping, row, registry).await?;
    let exporter = Exporter::begin(&system).await?;
    let mut follow = follow.json(arguments.show.json).yes(arguments.yes);
    let result = match system.resume(row.root, arguments.take_over).await {
        Ok(_) => {
            let run = system.run(row.root);
            follow.note(&format!("team {}, run {}", row.team, row.root.short()));
            follow.run(&system, &run, interrupt).await
        }
        Err(error) => Err(error.into()),
    };
    exporter.end().await;
    super::stop(&system, interrupt, result).await
}
