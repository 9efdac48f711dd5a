//! `ghostlight eval`.

mod add;
mod data;
mod estimate;
mod export;
mod fork;
mod gateway;
mod look;
mod optimise;
mod progress;
mod rollouts;

use std::{
    cell::RefCell,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use ghostlight::{
    config::{self, TeamFile},
    evals::{
        self, CellResult, Evaluation, Reach, Report,
        statistics::detectable_before,
        suite::{SuiteSpec, TeamSource, Wanted},
    },
    files,
};
use ghostlight_actors::{
    actor::{System, SystemError},
    contract::StoreError,
    run::{Registry, Team},
};

use self::progress::Progress;
use crate::{
    arguments::StoreArguments,
    default_model::{self, ModelArguments},
    eval_arguments::{Eval, EvalAct},
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
};

/// The largest suite that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// The key of a suite below which its team is.
const TEAM: &str = "team";

pub(super) async fn eval(arguments: Eval, registry: Registry) -> Result<Exit, Failure> {
    let arguments = match arguments.act {
        Some(EvalAct::Add(arguments)) => return add::add(arguments).await,
        Some(EvalAct::Apply(arguments)) => return optimise::apply(&arguments),
        Some(EvalAct::Compare(arguments)) => return look::compare(arguments, registry).await,
        Some(EvalAct::Export(arguments)) => return export::export(arguments, registry).await,
        Some(EvalAct::Fork(arguments)) => return fork::fork(arguments, registry).await,
        Some(EvalAct::Optimise(arguments)) => {
            return optimise::optimise(arguments, registry).await;
        }
        Some(EvalAct::Rollouts(arguments)) => return rollouts::rollouts(arguments, registry).await,
        Some(EvalAct::Schema) => {
            let schema = SuiteSpec::schema();
            let text = serde_json::to_string_pretty(&schema).map_err(io::Error::other)?;
            super::print(&text)?;
            return Ok(Exit::Done);
        }
        Some(EvalAct::Score(arguments)) => return look::score(arguments, registry).await,
        Some(EvalAct::Show(arguments)) => return look::show(arguments, registry).await,
        None => arguments,
    };
    let path = arguments.file.clone().unwrap_or_default();
    let chosen = Chosen {
        only: arguments.only.as_deref(),
        limit: arguments.limit.map(usize::from),
        concurrency: arguments.concurrency,
        strict: arguments.strict,
    };
    let (model, store) = (&arguments.model, &arguments.store);
    let (evaluation, model) = evaluation(&path, chosen, model, store, &registry).await?;
    super::note(&format!(
        "evaluation {}: {}, model {model}",
        evaluation.suite().evaluation,
        super::counted(evaluation.cells() as u64, "cell"),
    ));
    if arguments.dry_run {
        super::note(&foreseen(&evaluation));
        let usage = estimate::of(&evaluation, &arguments.store, &registry).await?;
        super::note(&usage);
        return Ok(Exit::Done);
    }
    let keeping = Keeping::open(&arguments.store).await?;
    let system = start(&keeping, evaluation.teams(&registry)).await?;
    if arguments.only.is_none() && arguments.limit.is_none() {
        let outdated = evaluation.outdated(&system).await?;
        if outdated > 0 {
            super::note(&format!(
                "not shown: {} recorded before the team or the samples of this evaluation were changed",
                super::counted(outdated as u64, "cell")
            ));
        }
    }
    let mut interrupt = Interrupt::new()?;
    let carried = tokio::select! {
        cells = carry_out(&evaluation, &system, Reach::Try) => cells,
        () = interrupt.fired() => Ok(None),
    };
    let result = match carried {
        Ok(Some(report)) => {
            let files = Files {
                markdown: arguments.markdown.as_deref(),
                junit: arguments.junit.as_deref(),
                html: arguments.html.as_deref(),
            };
            let told = tell(&report, files, arguments.show.json);
            match report.cells.iter().all(says_nothing) {
                true => {
                    super::note(
                        "no cell says anything about the team: the reasons are below the table",
                    );
                    told.map(|_| Exit::Failed)
                }
                false => told,
            }
        }
        Ok(None) => {
            super::note(
                "interrupted: the same command continues with the cells that are not recorded yet",
            );
            Ok(Exit::Interrupted)
        }
        Err(failure) => Err(failure),
    };
    super::stop(&system, &mut interrupt, result).await
}

fn read(path: &Path) -> Result<SuiteSpec, Failure> {
    let text = files::read_text(path, MAX_BYTES)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let read: Option<SuiteSpec> = config::read_settings(&text, &path.display().to_string())?;
    read.ok_or_else(|| Failure::Usage(format!("{}: the file holds no evaluation", path.display())))
}

/// The team of a suite: the file that it names, or the team in it.
fn team(suite: &SuiteSpec, path: &Path) -> Result<TeamFile, Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let team = match &suite.team {
        TeamSource::File(file) => config::load(folder.join(file)),
        _ => config::load_within(path, TEAM),
    };
    Ok(team?)
}

/// The part of an evaluation that the arguments choose.
#[derive(Clone, Copy, Default)]
struct Chosen<'a> {
    only: Option<&'a str>,
    limit: Option<usize>,
    concurrency: Option<u32>,
    strict: bool,
}

/// The evaluation in a file, and its models in words. Recorded runs that are samples are in the store.
async fn evaluation(
    path: &Path,
    chosen: Chosen<'_>,
    model: &ModelArguments,
    store: &StoreArguments,
    registry: &Registry,
) -> Result<(Evaluation, String), Failure> {
    let mut suite = read(path)?;
    if let Some(concurrency) = chosen.concurrency {
        suite.concurrency = concurrency;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let wanted = Wanted::new()
        .only(chosen.only.unwrap_or_default())
        .limit(chosen.limit)
        .strict(chosen.strict);
    let samples = data::samples(&suite, folder, &wanted, store).await?;
    if let (Some(only), true) = (chosen.only, samples.is_empty()) {
        return Err(usage(format!("no sample has an id that contains {only:?}")));
    }
    let mut file = team(&suite, path)?;
    default_model::define(file.spec_mut(), registry, model)?;
    let model = default_model::describe(file.spec(), registry);
    let evaluation = Evaluation::in_folder(suite, file.spec(), samples, folder).map_err(usage)?;
    if evaluation.suite().counts_money() {
        for team in evaluation.teams(registry) {
            default_model::check_prices(&team.spec, &team.registry)?;
        }
    }
    let mut interceptors = file.spec().interceptors.iter();
    if evaluation.suite().repeat > 1 && interceptors.any(|interceptor| interceptor.name == "cache")
    {
        super::note(
            "warning: the team keeps answers (`cache`), so a repeat may be the same answer once more: try it without",
        );
    }
    Ok((evaluation, model))
}

/// The evaluation in a file, to be looked at.
pub(super) async fn shown(
    path: &Path,
    model: &ModelArguments,
    store: &StoreArguments,
    registry: &Registry,
) -> Result<Evaluation, Failure> {
    let found = evaluation(path, Chosen::default(), model, store, registry).await?;
    Ok(found.0)
}

/// The differences that an evaluation of this size can see.
fn foreseen(evaluation: &Evaluation) -> String {
    let suite = evaluation.suite();
    let variants = suite.variant_names().len();
    let samples = evaluation.cells() / (variants * suite.repeat as usize);
    let counted = |number: usize, thing| super::counted(number as u64, thing);
    let tries = format!(
        "{}, {} each, in {}",
        counted(samples, "sample"),
        counted(suite.repeat as usize, "time"),
        counted(variants, "variant"),
    );
    match detectable_before(samples, suite.repeat, 0.0, (0.25, 0.25)) {
        Some(difference) if variants > 1 => format!(
            "{tries}: differences of success below {:.0} points would be missed one time in five or more, where success is \
             a matter of luck",
            100.0 * difference.min(1.0)
        ),
        _ => tries,
    }
}

fn usage(fault: impl ToString) -> Failure {
    Failure::Usage(fault.to_string())
}

/// Starts a System of the teams of all variants, which carries only the turns that it is given.
async fn start(keeping: &Keeping, teams: Vec<Team>) -> Result<System, SystemError> {
    let mut system = System::builder(keeping.store.clone()).recover(false);
    for team in teams {
        system = system.team(team);
    }
    Ok(system.start().await?.as_operator())
}

/// Starts a System over a store that is opened for it, since a System that stops closes its store.
async fn start_anew(store: &StoreArguments, teams: Vec<Team>) -> Result<System, SystemError> {
    let keeping = Keeping::open(store).await;
    let keeping = keeping.map_err(|failure| match failure {
        Failure::System(error) => error,
        other => SystemError::from(StoreError::Io {
            place: String::from("the store"),
            reason: other.to_string(),
        }),
    })?;
    start(&keeping, teams).await
}

async fn carry_out(
    evaluation: &Evaluation,
    system: &System,
    reach: Reach,
) -> Result<Option<Report>, Failure> {
    let is_shown = io::stderr().is_terminal();
    let progress = RefCell::new(Progress::new(evaluation));
    let cells = evaluation.run_within(system, reach, |cell| {
        let mut progress = progress.borrow_mut();
        progress.add(cell);
        if is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{}", progress.text());
        }
    });
    let cells = cells.await?;
    if is_shown {
        let _ = writeln!(io::stderr());
    }
    let judged = evaluation.judge(system, reach, &cells).await?;
    Ok(Some(Report::with_judged(evaluation, cells, &judged)))
}

/// Writes a file, which an error names.
fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| unwritten(path, &error))
}

/// The error of writing a file, which it names.
fn unwritten(path: &Path, error: &io::Error) -> io::Error {
    let reason = format!("{} cannot be written: {error}", path.display());
    io::Error::new(error.kind(), reason)
}

/// A file beside this one, which takes its place when it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// Whether a cell says nothing about the team: it was not tried, a server failed, or no verdict can be read.
fn says_nothing(cell: &evals::Cell) -> bool {
    let has_end = matches!(
        cell.result,
        CellResult::Scored { .. } | CellResult::AgentFailed { .. }
    );
    !has_end && cell.success().is_none()
}

/// The files that a report is written to, besides what is printed.
#[derive(Clone, Copy, Default)]
struct Files<'a> {
    markdown: Option<&'a Path>,
    junit: Option<&'a Path>,
    html: Option<&'a Path>,
}

/// Prints the report, writes its files, and says by the exit code whether the gate lets it pass.
fn tell(report: &Report, files: Files<'_>, json: bool) -> Result<Exit, Failure> {
    let text = match json {
        true => serde_json::to_string_pretty(report).map_err(io::Error::other)?,
        false => report.text(),
    };
    super::print(text.trim_end())?;
    if let Some(path) = files.markdown {
        write(path, &report.markdown())?;
    }
    if let Some(path) = files.junit {
        write(path, &report.junit()?)?;
    }
    if let Some(path) = files.html {
        write(path, &report.html())?;
    }
    Ok(match report.passes() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
