//! `ghostlight recording replay` and `ghostlight recording export`.

use std::{io::Write as _, path::Path};

use ghostlight::config;
use ghostlight_actors::{
    actor::{RecordedText, recording},
    contract::RunFilter,
    definition::TeamSpec,
    run::{self, Recording, RecordingError, Registry},
};

use crate::{
    arguments::{Export, Replay},
    default_model::{self, ModelArguments},
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    plain_text,
};

/// Replays runs and files, and tells for each whether today's code does what was recorded.
pub(super) async fn replay(arguments: Replay, registry: Registry) -> Result<Exit, Failure> {
    let (registry, team) = match &arguments.team {
        Some(path) => {
            let mut file = config::load(path)?;
            default_model::define(file.spec_mut(), &registry, &ModelArguments::default())?;
            (file.resolve(registry)?, Some(file.into_spec()))
        }
        None => (registry, None),
    };
    let mut exit = Exit::Done;
    let mut count = 0;
    for recording in recordings(&arguments, team.as_ref()).await? {
        count += 1;
        let replayed = match run::replay(&recording, &registry, team.as_ref()) {
            Ok(replayed) => replayed,
            Err(error) => {
                super::note(&format!("run {}: {error}", recording.root.short()));
                exit = Exit::Failed;
                continue;
            }
        };
        let differs = arguments.deny_drift && replayed.has_drifted();
        if differs || !replayed.is_faithful() {
            exit = Exit::Failed;
        }
        if arguments.show.json {
            for run in &replayed.runs {
                print_json(run)?;
            }
        } else {
            super::print(&replayed.to_string())?;
            if differs && replayed.is_faithful() {
                super::print(
                    "  a model request differs from the recorded one, which --deny-drift counts",
                )?;
            }
        }
    }
    if count == 0 {
        super::note("there is nothing to replay");
    }
    Ok(exit)
}

async fn recordings(
    arguments: &Replay,
    team: Option<&TeamSpec>,
) -> Result<Vec<Recording>, Failure> {
    let mut found = Vec::new();
    if arguments.all {
        let keeping = Keeping::open_what_is_there(&arguments.store).await?;
        let mut filter = RunFilter::default();
        filter.roots = true;
        let mut rows = keeping.store.runs(filter).await?;
        rows.retain(|row| team.is_none_or(|team| team.name == row.team));
        // The oldest first.
        for row in rows.iter().rev() {
            found.push(recording(&keeping.store, row.run).await?);
        }
    }
    let mut keeping = None;
    for name in &arguments.runs {
        if Path::new(name).is_file() {
            let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {error}"));
            let text = super::read_record(Path::new(name)).map_err(|error| wrong(&error))?;
            let read = Recording::from_json_lines(&text);
            found.push(read.map_err(|error: RecordingError| wrong(&error))?);
            continue;
        }
        let keeping = match &keeping {
            Some(keeping) => keeping,
            None => keeping.insert(Keeping::open_what_is_there(&arguments.store).await?),
        };
        let row = keeping.find(name).await.map_err(|failure| match failure {
            Failure::Usage(text) => Failure::Usage(format!("{text}; and it is not a file")),
            other => other,
        })?;
        found.push(recording(&keeping.store, row.run).await?);
    }
    Ok(found)
}

/// Prints the recording of a run's tree as JSON lines.
pub(super) async fn export(arguments: Export) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let row = keeping.find(&arguments.run).await?;
    let recorded = RecordedText::of(&keeping.store, row.run).await?;
    // Everything is checked before anything is printed.
    let mut leaving = arguments.secrets.leaving_lines();
    if leaving.is_to_look() {
        recorded
            .each_line(|line| -> Result<(), Failure> {
                leaving.look(&line);
                Ok(())
            })
            .await?;
    }
    leaving.may_print().map_err(Failure::Usage)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    recorded
        .each_line(|line| -> Result<(), Failure> {
            writeln!(out, "{}", plain_text::json(leaving.shown(line)))?;
            Ok(())
        })
        .await?;
    out.flush()?;
    Ok(Exit::Done)
}
