//! `ghostlight eval export`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
};

use ghostlight::evals::{
    Evaluation,
    judges::is_of_judge,
    trajectory::{Export, ExportFault, Form, Rows, Secrets, TrajectoryFault},
};
use ghostlight_actors::{
    actor::System,
    contract::{RunFilter, RunRow},
    run::Registry,
    vocabulary::RunId,
};

use super::{Chosen, beside, unwritten};
use crate::{
    commands::{note, plain_text},
    eval_export_arguments::{EvalExport, TrainingForm},
    exit::{Exit, Failure},
    keeping::Keeping,
};

/// How many runs are listed at once.
const PAGE: usize = 256;

/// Writes recorded turns as rows for trainers.
pub(super) async fn export(arguments: EvalExport, registry: Registry) -> Result<Exit, Failure> {
    let form = form(arguments.form);
    let secrets = match (arguments.secrets.with_secrets, arguments.secrets.redact) {
        (true, _) => Secrets::Keep,
        (_, true) => Secrets::Redact,
        _ => Secrets::Refuse,
    };
    let evaluation = match &arguments.file {
        None if form.takes_pairs() => {
            let message = "a pair needs repeats of one sample: name the file of an evaluation";
            return Err(Failure::Usage(message.to_owned()));
        }
        None => None,
        Some(file) => {
            let chosen = Chosen {
                only: arguments.only.as_deref(),
                ..Chosen::default()
            };
            let (model, store) = (&arguments.model, &arguments.store);
            let read = super::evaluation(file, chosen, model, store, &registry).await?;
            Some(read.0)
        }
    };
    let keeping = match &evaluation {
        Some(_) => Keeping::open_to_change(&arguments.store).await?,
        None => Keeping::open_what_is_there(&arguments.store).await?,
    };
    let evaluation = match evaluation {
        Some(evaluation) => {
            let system = super::start(&keeping, evaluation.teams(&registry)).await?;
            Some((evaluation, system))
        }
        None => None,
    };
    let source = Source {
        evaluation,
        runs: match &arguments.runs {
            Some(names) => found(&keeping, names).await?,
            None => Vec::new(),
        },
        team: arguments.team,
    };
    let export = Export::new(form).secrets(secrets).all(arguments.all);
    let export = export.forks(arguments.forks);
    if secrets == Secrets::Refuse {
        // Everything is looked at before anything is written.
        source.each(&keeping, &export, &mut io::sink()).await?;
    }
    let told = match &arguments.to {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            let told = source.each(&keeping, &export, &mut out).await?;
            out.flush()?;
            told
        }
        Some(path) => {
            // A file that is there stays until the new one is whole.
            let part = beside(path);
            let file = File::create(&part).map_err(|error| unwritten(path, &error))?;
            let mut out = BufWriter::new(file);
            let told = source.each(&keeping, &export, &mut out).await;
            let told = told.and_then(|told| {
                out.into_inner().map_err(io::IntoInnerError::into_error)?;
                fs::rename(&part, path).map_err(|error| unwritten(path, &error))?;
                Ok(told)
            });
            if told.is_err() {
                let _ = fs::remove_file(&part);
            }
            told?
        }
    };
    if let Some((_, system)) = &source.evaluation {
        system.stop().await?;
    }
    note(&told.to_string());
    if told.rows == 0 && form.takes_pairs() {
        note(
            "a pair is two repeats of one sample in one variant, of which one has the better reward: there are none",
        );
    }
    Ok(Exit::Done)
}

fn form(form: TrainingForm) -> Form {
    match form {
        TrainingForm::Openai => Form::OpenaiChat,
        TrainingForm::OpenaiPreference => Form::OpenaiPreference,
        TrainingForm::TrlSft => Form::TrlSft,
        TrainingForm::TrlDpo => Form::TrlDpo,
        TrainingForm::TrlKto => Form::TrlKto,
        TrainingForm::Verl => Form::Verl,
        TrainingForm::Atif => Form::Atif,
    }
}

async fn found(keeping: &Keeping, names: &[String]) -> Result<Vec<RunId>, Failure> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.push(keeping.find(name).await?.root);
    }
    Ok(found)
}

/// The data to export.
struct Source {
    /// An evaluation, and a System that reads its cells and starts none.
    evaluation: Option<(Evaluation, System)>,
    /// The runs; all of the store where there is none, and no evaluation.
    runs: Vec<RunId>,
    /// The team of the runs; any where it is left out.
    team: Option<String>,
}

impl Source {
    /// Writes all rows, a sample or a run after the other.
    async fn each(
        &self,
        keeping: &Keeping,
        export: &Export,
        out: &mut impl Write,
    ) -> Result<Told, Failure> {
        let mut told = Told::default();
        if let Some((evaluation, system)) = &self.evaluation {
            for sample in evaluation.samples() {
                let rows = export.sample(system, evaluation, sample).await;
                told.write(rows.map_err(fault)?, out)?;
            }
            return Ok(told);
        }
        for run in &self.runs {
            let rows = export.run(&keeping.store, *run).await;
            told.write(rows.map_err(fault)?, out)?;
        }
        if self.runs.is_empty() {
            let mut after: Option<RunRow> = None;
            loop {
                let mut filter = RunFilter::default();
                (filter.roots, filter.limit) = (true, PAGE);
                (filter.team, filter.after) = (self.team.clone(), after);
                let page = keeping.store.runs(filter).await?;
                // Verdicts are not examples of a team, unless theirs is named.
                let is_wanted = |row: &&RunRow| {
                    let is_named = self.team.is_some();
                    row.run == row.root
                        && row.status.is_ended()
                        && (is_named || !is_of_judge(&row.team))
                };
                for row in page.iter().filter(is_wanted) {
                    let rows = export.run(&keeping.store, row.run).await;
                    told.write(rows.map_err(fault)?, out)?;
                }
                after = page.into_iter().next_back();
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(told)
    }
}

#[derive(Default)]
struct Told {
    rows: u64,
    left_out: u64,
}

impl Told {
    fn write(&mut self, rows: Rows, out: &mut impl Write) -> Result<(), Failure> {
        for row in &rows.rows {
            writeln!(out, "{}", plain_text::json(row.to_string()))?;
            self.rows += 1;
        }
        self.left_out += rows.left_out;
        Ok(())
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = super::super::counted(self.rows, "row");
        match self.left_out {
            0 => write!(f, "{rows}"),
            n => write!(
                f,
                "{rows}; {n} without one, such as those that did not succeed"
            ),
        }
    }
}

fn fault(fault: ExportFault) -> Failure {
    match fault {
        ExportFault::Trajectory(TrajectoryFault::System(error)) => error.into(),
        ExportFault::Trajectory(TrajectoryFault::Store(error)) => error.into(),
        ExportFault::Secret(run) => Failure::Usage(format!(
            "run {} holds what looks like secrets: give --with-secrets to export them, or --redact to leave them out",
            run.short()
        )),
        other => Failure::Usage(other.to_string()),
    }
}
