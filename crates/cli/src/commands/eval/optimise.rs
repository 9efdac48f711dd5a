//! `ghostlight eval optimise` and `eval apply`.

use std::{
    cell::RefCell,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
};

use ghostlight::{
    config::{self, ConfigError, TeamFile},
    evals::{
        optimising::{Method, Optimised, Optimiser, Patch},
        suite::{SuiteSpec, TeamSource, Wanted},
    },
    files,
};
use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
};

use super::{TEAM, data, read, start_anew, team, usage, write};
use crate::{
    commands::{note, print, stop},
    default_model,
    eval_optimise_arguments::{EvalApply, EvalOptimise, SearchMethod},
    exit::{Exit, Failure},
    interrupt::Interrupt,
};

/// The largest patch that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Looks for better texts of a team.
pub(super) async fn optimise(arguments: EvalOptimise, registry: Registry) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let mut suite = read(path)?;
    let spec = suite.optimise.get_or_insert_default();
    if let Some(method) = arguments.method {
        spec.method = match method {
            SearchMethod::Bootstrap => Method::Bootstrap,
            SearchMethod::Instructions => Method::Instructions,
            SearchMethod::Gepa => Method::Gepa,
        };
    }
    if let Some(tries) = arguments.tries {
        spec.tries = tries;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let samples = data::samples(&suite, folder, &Wanted::new(), &arguments.store).await?;
    let repeat = suite.repeat as usize;
    let mut file = team(&suite, path)?;
    let holds_team = matches!(suite.team, TeamSource::Here(_));
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    if suite.counts_money() {
        default_model::check_prices(file.spec(), &registry)?;
    }
    let optimiser = Optimiser::in_folder(suite, file.spec(), samples, folder).map_err(usage)?;
    let (train, validate, test) = optimiser.parts();
    let (method, tries) = (optimiser.spec().method.as_str(), optimiser.spec().tries);
    note(&format!(
        "{method}: {train} samples to learn from, {validate} to choose by, {test} sealed for the gain; at most {tries} tries, \
         and {} for the gain",
        2 * test * repeat
    ));
    if arguments.dry_run {
        return Ok(Exit::Done);
    }
    let open: RefCell<Option<System>> = RefCell::new(None);
    let begin = async |teams: Vec<Team>| {
        let system = start_anew(&arguments.store, teams).await?;
        *open.borrow_mut() = Some(system.clone());
        Ok::<_, SystemError>(system)
    };
    let progress = io::stderr().is_terminal();
    let seen = |used: usize| {
        if progress {
            let _ = write!(io::stderr(), "\r{used} of {tries} tries");
        }
    };
    let mut interrupt = Interrupt::new()?;
    let found = tokio::select! {
        found = optimiser.run(begin, &registry, seen) => Some(found),
        () = interrupt.fired() => None,
    };
    if progress {
        let _ = writeln!(io::stderr());
    }
    match found {
        Some(found) => {
            let mut found = found?;
            if let (Some(patch), true) = (&mut found.patch, holds_team) {
                patch.team.clone_from(path);
            }
            tell(&found, arguments.to.as_deref(), arguments.show.json)
        }
        None => {
            note("interrupted: the same command continues from here");
            let system = open.take();
            match system {
                Some(system) => stop(&system, &mut interrupt, Ok(Exit::Interrupted)).await,
                None => Ok(Exit::Interrupted),
            }
        }
    }
}

fn tell(found: &Optimised, to: Option<&Path>, json: bool) -> Result<Exit, Failure> {
    let text = match json {
        true => serde_json::to_string_pretty(found).map_err(io::Error::other)?,
        false => found.text(),
    };
    print(text.trim_end())?;
    if let (Some(patch), Some(path)) = (&found.patch, to) {
        write(path, &patch.yaml())?;
        let path = path.display();
        note(&format!(
            "wrote {path}: read it, then `ghostlight eval apply {path} --write`"
        ));
    }
    Ok(match found.stopped {
        None => Exit::Done,
        Some(_) => Exit::Failed,
    })
}

/// Shows the texts of a patch, and puts them into the team's file where that is wanted.
pub(super) fn apply(arguments: &EvalApply) -> Result<Exit, Failure> {
    let path = &arguments.patch;
    let text = files::read_text(path, MAX_BYTES)
        .map_err(|error| usage(format!("{}: {error}", path.display())))?;
    let patch: Option<Patch> = config::read_settings(&text, &path.display().to_string())?;
    let patch =
        patch.ok_or_else(|| usage(format!("{}: the file holds no patch", path.display())))?;
    let team = arguments.team.as_deref().unwrap_or(&patch.team);
    let shown = team.display();
    let text = files::read_text(team, config::MAX_BYTES)
        .map_err(|error| usage(format!("{shown}: {error}")))?;
    let origin = shown.to_string();
    let read = |text: &str| parsed(text, &origin);
    let before = read(&text)?;
    print(format!("{shown}, found by {}: {}\n", patch.evaluation, patch.gain).as_str())?;
    print(patch.text().trim_end())?;
    let faults = patch.faults(before.spec());
    if let Some(fault) = faults.first() {
        return Err(usage(format!("{shown}: {fault}; nothing was changed")));
    }
    if !arguments.write {
        note("nothing is changed yet: --write puts the texts into the team");
        return Ok(Exit::Done);
    }
    // Each change is read again, so that no other setting changes with it.
    let mut file = before.clone();
    let mut text = None;
    for change in &patch.texts {
        let (agent, key) = (&change.text.agent, change.text.kind.as_str());
        let written = file.with_text(agent, key, |indent| change.yaml_value(indent));
        let read = written.map(|written| {
            let read = read(&written);
            (written, read)
        });
        match read {
            Some((written, Ok(read))) => (text, file) = (Some(written), read),
            _ => return Err(by_hand(&shown.to_string())),
        }
    }
    let mut wanted = before.into_spec();
    patch.apply(&mut wanted);
    let json = |spec: &TeamSpec| serde_json::to_value(spec).map_err(io::Error::other);
    match text {
        Some(text) if json(&wanted)? == json(file.spec())? => {
            // A link stays one, and the file is for nobody else to read than before.
            let team = std::fs::canonicalize(team)?;
            let part = super::beside(&team);
            std::fs::write(&part, text)?;
            std::fs::set_permissions(&part, std::fs::metadata(&team)?.permissions())?;
            std::fs::rename(&part, &team)?;
            note(&format!("changed {shown}"));
            Ok(Exit::Done)
        }
        _ => Err(by_hand(&shown.to_string())),
    }
}

/// The team in the text of a team file, or of a suite that holds its team.
fn parsed(text: &str, origin: &str) -> Result<TeamFile, ConfigError> {
    let suite = config::read_settings::<SuiteSpec>(text, origin);
    match suite {
        Ok(Some(suite)) if matches!(suite.team, TeamSource::Here(_)) => {
            config::parse_within(text, origin, TEAM)
        }
        _ => config::parse(text, origin),
    }
}

fn by_hand(team: &str) -> Failure {
    usage(format!(
        "{team}: the texts cannot be changed in place, since they are written within braces or come from a template or a \
         variable; nothing was changed: put them there by hand"
    ))
}
