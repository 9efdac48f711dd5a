//! `ghostlight eval`.

mod add;
mod data;
mod export;
mod fork;

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
};

use ghostlight_actors::{
    actor::System,
    run::{Registry, Team},
};

use crate::{
    cli::{
        arguments::StoreArguments,
        default_model::{self, ModelArguments},
        eval_arguments::{Eval, EvalAct},
        exit::{Exit, Failure},
        interrupt::Interrupt,
        keeping::Keeping,
    },
    config,
    evals::{
        Evaluation, Reach, Report,
        suite::{SuiteSpec, Wanted},
    },
    files,
};

/// The largest suite that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

pub(super) async fn eval(arguments: Eval, registry: Registry) -> Result<Exit, Failure> {
    let arguments = match arguments.act {
        Some(EvalAct::Add(arguments)) => return add::add(arguments).await,
        Some(EvalAct::Fork(arguments)) => return fork::fork(arguments, registry).await,
        Some(EvalAct::Export(arguments)) => return export::export(arguments, registry).await,
        None => arguments,
    };
    let path = arguments.file.clone().unwrap_or_default();
    let mut suite = read(&path)?;
    if let Some(concurrency) = arguments.concurrency {
        suite.concurrency = concurrency;
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let wanted = Wanted::new()
        .only(arguments.only.as_deref().unwrap_or_default())
        .limit(arguments.limit.map(usize::from))
        .strict(arguments.strict);
    let samples = data::samples(&suite, &folder, &wanted, &arguments.store).await?;
    let mut file = config::load(folder.join(&suite.team))?;
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    let model = default_model::describe(file.spec(), &registry);
    let evaluation = Evaluation::in_folder(suite, file.spec(), samples, &folder).map_err(usage)?;
    super::note(&format!(
        "evaluation {}: {} cells, model {model}",
        evaluation.suite().evaluation,
        evaluation.cells(),
    ));
    if arguments.dry_run {
        return Ok(Exit::Done);
    }
    let keeping = Keeping::open(&arguments.store).await?;
    let system = start(&keeping, evaluation.teams(&registry)).await?;
    let mut interrupt = Interrupt::new()?;
    let carried = tokio::select! {
        cells = carry_out(&evaluation, &system) => cells,
        () = interrupt.fired() => Ok(None),
    };
    let result = match carried {
        Ok(Some(report)) => tell(&report, &arguments),
        Ok(None) => {
            super::note(
                "interrupted: the same command goes on with the cells that are not recorded yet",
            );
            Ok(Exit::Interrupted)
        }
        Err(failure) => Err(failure),
    };
    super::stop(&system, &mut interrupt, result).await
}

/// The evaluation in a file, over the samples that are wanted.
async fn evaluation(
    path: &Path,
    wanted: &Wanted,
    store: &StoreArguments,
    registry: &Registry,
) -> Result<Evaluation, Failure> {
    let suite = read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let samples = data::samples(&suite, folder, wanted, store).await?;
    let mut file = config::load(folder.join(&suite.team))?;
    default_model::define(file.spec_mut(), registry, &ModelArguments::default())?;
    Evaluation::in_folder(suite, file.spec(), samples, folder).map_err(usage)
}

fn read(path: &Path) -> Result<SuiteSpec, Failure> {
    let text = files::read_text(path, MAX_BYTES)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let read: Option<SuiteSpec> = config::read_settings(&text, &path.display().to_string())?;
    read.ok_or_else(|| Failure::Usage(format!("{}: the file holds no evaluation", path.display())))
}

fn usage(fault: impl ToString) -> Failure {
    Failure::Usage(fault.to_string())
}

/// Starts a System of the teams of all variants, which carries only the turns that it is given.
async fn start(keeping: &Keeping, teams: Vec<Team>) -> Result<System, Failure> {
    let mut system = System::builder(keeping.store.clone()).recover(false);
    for team in teams {
        system = system.team(team);
    }
    Ok(system.start().await?.as_operator())
}

async fn carry_out(evaluation: &Evaluation, system: &System) -> Result<Option<Report>, Failure> {
    let (done, all) = (Cell::new(0), evaluation.cells());
    let progress = io::stderr().is_terminal();
    let cells = evaluation.run(system, |_| {
        done.set(done.get() + 1);
        if progress {
            let _ = write!(io::stderr(), "\r{} of {all} cells", done.get());
        }
    });
    let cells = cells.await?;
    if progress {
        let _ = writeln!(io::stderr());
    }
    let judged = evaluation.judge(system, Reach::Try, &cells).await?;
    Ok(Some(Report::with_judged(evaluation, cells, &judged)))
}

/// Prints the report, writes its files, and says by the exit code whether the gate lets it pass.
fn tell(report: &Report, arguments: &Eval) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.markdown {
        std::fs::write(path, report.markdown())?;
    }
    if let Some(path) = &arguments.junit {
        std::fs::write(path, report.junit()?)?;
    }
    print_report(report, arguments.html.as_deref(), arguments.show.json)
}

/// Prints the report and writes it as HTML where that is wanted.
fn print_report(report: &Report, html: Option<&Path>, json: bool) -> Result<Exit, Failure> {
    if let Some(path) = html {
        std::fs::write(path, report.html())?;
    }
    let text = match json {
        true => serde_json::to_string_pretty(report).map_err(io::Error::other)?,
        false => report.text(),
    };
    super::print(text.trim_end())?;
    Ok(match report.passes() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
