//! `ghostlight fork`.

use ghostlight::config;
use ghostlight_actors::{
    actor::{self, SystemError, pinned_team},
    run::Registry,
    vocabulary::{Entry, JournalId, RunId},
};

use crate::{
    arguments::Fork,
    default_model::{self, ModelArguments},
    exit::{Exit, Failure},
    follow::Follow,
    interrupt::Interrupt,
    keeping::Keeping,
};

/// Forks a run, and follows the fork until it rests.
pub(super) async fn fork(arguments: Fork, registry: Registry) -> Result<Exit, Failure> {
    if let Some(input) = &arguments.input
        && input.trim().is_empty()
    {
        let empty = "there is nothing to say: the text of --input is empty";
        return Err(Failure::Usage(empty.to_owned()));
    }
    let file = arguments.team.as_ref().map(config::load).transpose()?;
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let row = keeping.find(&arguments.run).await?;
    let pinned = pinned_team(&keeping.store, row.run).await?;
    let team = match file {
        Some(mut file) => {
            if file.spec().name != pinned.name {
                return Err(Failure::Usage(format!(
                    "run {} is one of team {}, and the file holds team {}",
                    row.run.short(),
                    pinned.name,
                    file.spec().name
                )));
            }
            default_model::define(file.spec_mut(), &registry, &ModelArguments::default())?;
            file.resolve(registry.clone())?;
            file.into_spec()
        }
        None => pinned,
    };
    let follow = Follow::new(super::column_of(&team), &keeping);
    let system = super::start(&keeping, team, registry).await?;
    let mut interrupt = Interrupt::new()?;
    let result = async {
        let mut options = match arguments.at {
            Some(at) => actor::Fork::at(at),
            None => actor::Fork::latest(),
        };
        if let Some(input) = arguments.input {
            options = options.input(input);
        }
        if let Some(session) = arguments.session {
            options = options.session(session);
        }
        if arguments.team.is_some() {
            options = options.todays_team();
        }
        let run = system.run(row.run).fork(options).await?;
        let copied = copied(&keeping, run.id()).await?;
        let follow = follow.after(copied.position);
        let mut follow = follow.json(arguments.show.json).yes(arguments.yes);
        follow.note(&format!(
            "team {}, run {}, forked from {} at {}",
            row.team,
            run.id().short(),
            row.run.short(),
            copied.at
        ));
        follow.run(&system, &run, &mut interrupt).await
    }
    .await;
    super::stop(&system, &mut interrupt, result).await
}

/// The entries that a fork has copied from its run.
struct Copied {
    at: u64,
    /// The position of the last copied entry in the order of commits.
    position: u64,
}

async fn copied(keeping: &Keeping, fork: RunId) -> Result<Copied, Failure> {
    let lines = keeping.store.read(JournalId::Run(fork), 0, 1).await?;
    let first = lines.first().and_then(|line| line.line.decode().ok());
    let forked = match first {
        Some(Entry::RunStarted(start)) => start.forked,
        _ => None,
    };
    let forked = forked.ok_or(SystemError::UnknownRun(fork))?;
    let last = forked.copied.saturating_sub(1);
    let last = keeping.store.read(JournalId::Run(fork), last, 1).await?;
    let position = last.first().map_or(0, |line| line.position);
    let at = forked.at;
    Ok(Copied { at, position })
}
