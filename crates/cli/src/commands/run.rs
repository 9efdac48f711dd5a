//! `ghostlight run`.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use ghostlight::File;
use ghostlight_actors::{run::Registry, session::Turn};

use crate::{
    arguments,
    assistant::Chosen,
    attaching, default_model,
    exit::{Exit, Failure},
    follow::Follow,
    interrupt::Interrupt,
    keeping::{Keeping, quoted},
    plain_text,
    telemetry::Exporter,
};

pub(super) async fn run(arguments: arguments::Run, registry: Registry) -> Result<Exit, Failure> {
    let team_file = team_file(&arguments.words);
    let mut words = arguments.words.into_iter();
    let text = words.nth(usize::from(team_file.is_some()));
    let chosen = Chosen::new(
        team_file.as_deref(),
        &registry,
        &arguments.model,
        &arguments.approval,
    )?;
    let text = match text {
        Some(text) if text != "-" => text,
        _ => read_task()?,
    };
    if text.trim().is_empty() {
        return Err(Failure::Usage(String::from(
            "there is nothing to do: the text is empty",
        )));
    }
    let files = arguments.file.iter().map(|given| attaching::file(given));
    let files: Vec<File> = files.collect::<Result<_, _>>()?;
    let keeping = if arguments.memory {
        Keeping::memory()
    } else {
        Keeping::open(&arguments.store).await?
    };
    let team = chosen.team().clone();
    let (name, width) = (team.name.clone(), super::column_of(&team));
    let model = default_model::describe(&team, &registry);
    let system = super::start(&keeping, team, registry)
        .await
        .map_err(|error| chosen.failed(error))?;
    let exporter = Exporter::begin(&system).await?;
    let mut interrupt = Interrupt::new()?;
    let mut follow = Follow::new(width, &keeping)
        .json(arguments.show.json)
        .yes(arguments.yes);
    // A new conversation unless one is named; a turn id without a session names its conversation,
    // too.
    let fresh = || super::fresh_key();
    let key = arguments
        .session
        .or_else(|| arguments.turn_id.clone())
        .unwrap_or_else(fresh);
    let session = system.session(name.clone(), key.clone());
    let id = arguments.turn_id.unwrap_or_else(super::fresh_turn);
    follow = follow.expecting(&system, session.id(), &id);
    let mut turn = files
        .into_iter()
        .fold(Turn::text(text).id(id), Turn::attach);
    if arguments.dry_run {
        turn = turn.dry_run();
    }
    if follow.reads_along() {
        turn = turn.streaming(true);
    }
    if let Some(budget) = arguments.budget {
        turn = turn.budget(budget);
    }
    let sent = session.send(turn).await;
    let result = match sent {
        Ok(run) => {
            let (id, key) = (run.id().short(), plain_text::line(&key, 64));
            let kept = match keeping.lasting {
                true => format!("session {}", quoted(&key)),
                false => String::from("in memory only"),
            };
            let dry = if arguments.dry_run {
                ", dry run: no tool with an effect is called"
            } else {
                ""
            };
            follow.announce(&format!(
                "team {name}, model {model}, run {id}, {kept}{dry}"
            ));
            follow.run(&system, &run, &mut interrupt).await
        }
        Err(error) => Err(error.into()),
    };
    exporter.end().await;
    super::stop(&system, &mut interrupt, result).await
}

/// The team file among the words. One word alone is a team file where it ends as one does, or where there is such a
/// file; else it is the text.
pub(crate) fn team_file(words: &[String]) -> Option<PathBuf> {
    match words {
        [file, _, ..] => Some(file.into()),
        [word] if is_team_file(Path::new(word)) => Some(word.into()),
        _ => None,
    }
}

fn is_team_file(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_named_so = matches!(ending, Some("yaml" | "yml"))
        && !path.to_string_lossy().contains(char::is_whitespace);
    is_named_so || path.exists()
}

/// The longest text that is read from stdin, in bytes: a million tokens, more than any model takes.
const MAX_TASK_BYTES: usize = 4 << 20;

/// Reads the task from stdin: a line from a person, everything from a pipe.
fn read_task() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let stdin = io::stdin().lock();
    let terminal = stdin.is_terminal();
    let mut stdin = stdin.take(MAX_TASK_BYTES as u64 + 1);
    if terminal {
        let _ = write!(io::stderr(), "What is to be done? ");
        stdin.read_until(b'\n', &mut bytes)?;
    } else {
        stdin.read_to_end(&mut bytes)?;
    }
    if bytes.len() > MAX_TASK_BYTES {
        return Err(Failure::Usage(format!(
            "what is to be done has more than {MAX_TASK_BYTES} bytes; give the data to a tool, or as \
             documents to search"
        )));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(fault) => Err(Failure::Usage(format!(
            "what is to be done is not UTF-8 text: {}",
            fault.utf8_error()
        ))),
    }
}
