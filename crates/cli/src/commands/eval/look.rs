//! `ghostlight eval score`, `eval compare` and `eval show`: what is recorded of an evaluation.

use std::{io, path::Path};

use ghostlight::{
    evals::{Cell, Compared, Evaluation, Reach, SavedReport, statistics::Verdict},
    files,
};
use ghostlight_actors::run::Registry;

use super::{Chosen, Files, carry_out, evaluation, start, tell, usage};
use crate::{
    commands::{note, print, stop},
    eval_look_arguments::{EvalCompare, EvalScore, EvalShow},
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
};

/// The largest report that is read, in bytes.
const MAX_BYTES: u64 = 512 << 20;

/// Scores recorded cells by the scorers that the suite names now.
pub(super) async fn score(arguments: EvalScore, registry: Registry) -> Result<Exit, Failure> {
    let chosen = Chosen {
        only: arguments.only.as_deref(),
        ..Chosen::default()
    };
    let (evaluation, _) = evaluation(
        &arguments.file,
        chosen,
        &arguments.model,
        &arguments.store,
        &registry,
    )
    .await?;
    let reach = match arguments.offline {
        true => Reach::Look,
        false => Reach::Score,
    };
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let system = start(&keeping, evaluation.teams(&registry)).await?;
    let mut interrupt = Interrupt::new()?;
    let carried = tokio::select! {
        report = carry_out(&evaluation, &system, reach) => report,
        () = interrupt.fired() => Ok(None),
    };
    let result = match carried {
        Ok(Some(report)) => {
            if report
                .variants
                .iter()
                .all(|v| v.counts.not_run == v.counts.all())
            {
                note(
                    "nothing of this evaluation is recorded: carry it out with `ghostlight eval` first",
                );
            }
            let files = Files {
                markdown: arguments.markdown.as_deref(),
                junit: arguments.junit.as_deref(),
                html: arguments.html.as_deref(),
            };
            tell(&report, files, arguments.show.json)
        }
        Ok(None) => Ok(Exit::Interrupted),
        Err(failure) => Err(failure),
    };
    stop(&system, &mut interrupt, result).await
}

/// Compares two variants of an evaluation, or two reports.
pub(super) async fn compare(arguments: EvalCompare, registry: Registry) -> Result<Exit, Failure> {
    let margin = arguments.not_worse_by.unwrap_or(0.0);
    if !(0.0..1.0).contains(&margin) {
        return Err(usage("--not-worse-by is a share, from 0 to below 1"));
    }
    let (base, other) = (&arguments.base, &arguments.other);
    let (one, two) = match &arguments.suite {
        Some(file) => {
            let (evaluation, _) = evaluation(
                file,
                Chosen::default(),
                &arguments.model,
                &arguments.store,
                &registry,
            )
            .await?;
            let names = evaluation.suite().variant_names();
            if let Some(unknown) = [base, other].into_iter().find(|name| !names.contains(name)) {
                let known = names.join(", ");
                return Err(usage(format!(
                    "the evaluation has no variant {unknown:?}; there are: {known}"
                )));
            }
            let keeping = Keeping::open_to_change(&arguments.store).await?;
            let cells = recorded(&evaluation, &keeping, &registry).await?;
            (of_variant(&cells, base), of_variant(&cells, other))
        }
        None => {
            let (one, two) = (saved(base)?, saved(other)?);
            for difference in one.differences(&two) {
                note(&format!("warning: {difference}"));
            }
            (one.cells, two.cells)
        }
    };
    let compared = Compared::new(
        (base, &one.iter().collect::<Vec<_>>()),
        (other, &two.iter().collect::<Vec<_>>()),
        margin,
    );
    if compared.measures.is_empty() {
        return Err(usage(
            "no sample has a result in both, so there is nothing to compare",
        ));
    }
    let text = match arguments.show.json {
        true => serde_json::to_string_pretty(&compared).map_err(io::Error::other)?,
        false => compared.text(),
    };
    print(text.trim_end())?;
    let passes = match (arguments.not_worse_by, compared.verdict) {
        (None, _) | (Some(_), Verdict::Better | Verdict::NotWorse) => true,
        (Some(_), _) => false,
    };
    Ok(match passes {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// Shows cells, the worst first.
pub(super) async fn show(arguments: EvalShow, registry: Registry) -> Result<Exit, Failure> {
    let cells = match report(&arguments.file)? {
        Some(report) => report.cells,
        None => {
            let (evaluation, _) = evaluation(
                &arguments.file,
                Chosen::default(),
                &arguments.model,
                &arguments.store,
                &registry,
            )
            .await?;
            let keeping = Keeping::open_to_change(&arguments.store).await?;
            recorded(&evaluation, &keeping, &registry).await?
        }
    };
    let evaluated = variants(&cells);
    let (only, variant) = (arguments.only.as_deref(), arguments.variant.as_deref());
    let wanted = |cell: &Cell| {
        only.is_none_or(|only| cell.sample.contains(only))
            && variant.is_none_or(|variant| cell.variant == variant)
    };
    let cells: Vec<Cell> = cells.into_iter().filter(wanted).collect();
    if cells.is_empty() {
        let known = evaluated.join(", ");
        return Err(usage(format!(
            "no cell is like this; the variants are: {known}"
        )));
    }
    let shown = Cell::worst_first(&cells);
    let shown = &shown[..shown.len().min(arguments.limit.get())];
    let text = match arguments.show.json {
        true => serde_json::to_string_pretty(shown).map_err(io::Error::other)?,
        false => {
            let texts: Vec<String> = shown.iter().map(|cell| cell.text()).collect();
            let more = cells.len() - shown.len();
            match more {
                0 => texts.join("\n"),
                more => format!(
                    "{}\nand {more} more: --limit shows them\n",
                    texts.join("\n")
                ),
            }
        }
    };
    print(text.trim_end())?;
    Ok(Exit::Done)
}

/// The cells of an evaluation as far as they are recorded, without asking any model.
pub(super) async fn recorded(
    evaluation: &Evaluation,
    keeping: &Keeping,
    registry: &Registry,
) -> Result<Vec<Cell>, Failure> {
    let system = start(keeping, evaluation.teams(registry)).await?;
    let mut interrupt = Interrupt::new()?;
    let mut cells = Vec::new();
    let read = carry_out(evaluation, &system, Reach::Look).await;
    let read = read.map(|report| {
        cells.extend(report.into_iter().flat_map(|report| report.cells));
        Exit::Done
    });
    stop(&system, &mut interrupt, read).await?;
    Ok(cells)
}

/// The names of the variants of these cells, in their order.
fn variants(cells: &[Cell]) -> Vec<String> {
    let mut names: Vec<String> = cells.iter().map(|cell| cell.variant.clone()).collect();
    names.dedup();
    names
}

fn of_variant(cells: &[Cell], variant: &str) -> Vec<Cell> {
    let cells = cells.iter().filter(|cell| cell.variant == variant);
    cells.cloned().collect()
}

/// The report in a file; `None` for a file that is none, such as a suite.
fn report(path: &Path) -> Result<Option<SavedReport>, Failure> {
    let text = files::read_text(path, MAX_BYTES)
        .map_err(|error| usage(format!("{}: {error}", path.display())))?;
    match text.trim_start().starts_with('{') && text.contains("\"cells\"") {
        true => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| usage(format!("{}: is not a report: {error}", path.display()))),
        false => Ok(None),
    }
}

/// A report with the cells of one variant: `FILE`, or `FILE#VARIANT`.
fn saved(named: &str) -> Result<SavedReport, Failure> {
    let (path, variant) = match named.rsplit_once('#') {
        Some((path, variant)) if !Path::new(named).exists() => (path, Some(variant)),
        _ => (named, None),
    };
    let mut report = report(Path::new(path))?.ok_or_else(|| {
        usage(format!(
            "{path}: is not a report that `ghostlight eval --json` wrote; for variants of a suite give --suite"
        ))
    })?;
    let names = report.variants();
    let chosen = match (variant, names.as_slice()) {
        (Some(variant), names) if names.contains(&variant) => variant.to_owned(),
        (None, [only]) => (*only).to_owned(),
        _ => {
            let known: Vec<String> = names.iter().map(|name| format!("{path}#{name}")).collect();
            return Err(usage(format!(
                "name a variant of the report: {}",
                known.join(", ")
            )));
        }
    };
    report.cells.retain(|cell| cell.variant == chosen);
    Ok(report)
}
