//! The commands, one file for each.

#[cfg(feature = "full")]
mod acp;
mod answer;
mod cancel;
mod catalogue;
mod chat;
mod check;
mod copy;
mod doctor;
#[cfg(feature = "full")]
mod eval;
mod fork;
#[cfg(feature = "full")]
pub(super) mod index;
mod init;
#[cfg(feature = "full")]
mod key;
#[cfg(feature = "full")]
mod listening;
#[cfg(feature = "full")]
mod mcp;
#[cfg(feature = "full")]
mod memory;
mod migrate;
mod names;
mod nodes;
#[cfg(feature = "full")]
mod open;
pub(super) mod prices;
mod prune;
mod reloading;
mod replay;
mod resume;
pub(super) mod run;
mod runs;
mod serve;
mod sessions;
mod shell;
mod show;
#[cfg(feature = "full")]
mod standard_streams;
mod steer;
mod team_file;
mod trying;

use std::{
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use ghostlight::files;
use ghostlight_actors::{
    actor::{System, SystemError, pinned_team},
    contract::{Entropy as _, RunRow, StoreError, SystemEntropy},
    definition::TeamSpec,
    run::{Registry, Team},
    vocabulary::{Effect, RunId},
};

#[cfg(feature = "full")]
use super::nouns::ProtocolCommand;
use super::{
    arguments::{Command, StoreArguments},
    exit::{Exit, Failure},
    follow::Follow,
    interrupt::Interrupt,
    keeping::{self, Keeping},
    nouns::{
        ListCommand, PricesCommand, RecordingCommand, ShellCommand, StoreCommand, TeamCommand,
    },
    plain_text, say,
};

/// How long another process may take to read the mailbox of a run that it carries; it looks ten times
/// a second.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// Runs the command.
pub(super) async fn perform(command: Command, registry: Registry) -> Result<Exit, Failure> {
    match command {
        Command::Chat(arguments) => chat::chat(arguments, registry).await,
        Command::Run(arguments) => run::run(arguments, registry).await,
        Command::Serve(arguments) => serve::serve(*arguments, registry).await,
        #[cfg(feature = "full")]
        Command::Dev(arguments) => serve::serve(arguments.into_serve(), registry).await,
        #[cfg(feature = "full")]
        Command::Key(arguments) => key::key(&arguments),
        #[cfg(feature = "full")]
        Command::Protocol(spoken) => match spoken {
            #[cfg(feature = "full")]
            ProtocolCommand::Acp(arguments) => acp::serve(arguments, registry).await,
            #[cfg(feature = "full")]
            ProtocolCommand::Mcp(arguments) => mcp::serve(arguments, registry).await,
        },
        Command::Resume(arguments) => resume::resume(arguments, registry).await,
        Command::Runs(arguments) => runs::runs(arguments).await,
        Command::Session(arguments) => sessions::session(arguments).await,
        #[cfg(feature = "full")]
        Command::Memory(arguments) => memory::memory(arguments).await,
        Command::Show(arguments) => show::show(arguments).await,
        Command::Answer(arguments) => answer::answer(arguments, registry).await,
        Command::Steer(arguments) => steer::steer(arguments).await,
        Command::Cancel(arguments) => cancel::cancel(arguments, registry).await,
        Command::Fork(arguments) => fork::fork(arguments, registry).await,
        Command::Recording(RecordingCommand::Export(arguments)) => replay::export(arguments).await,
        Command::Recording(RecordingCommand::Replay(arguments)) => {
            replay::replay(arguments, registry).await
        }
        #[cfg(feature = "full")]
        Command::Eval(arguments) => eval::eval(arguments, registry).await,
        #[cfg(feature = "full")]
        Command::Docs(asked) => index::perform(asked).await,
        Command::Doctor(arguments) => doctor::doctor(arguments, registry).await,
        Command::Store(verb) => store(verb, registry).await,
        Command::Team(verb) => match verb {
            TeamCommand::Init(arguments) => init::init(&arguments),
            TeamCommand::Check(arguments) => check::check(&arguments, registry),
            TeamCommand::Draw(arguments) => team_file::draw(&arguments, registry),
            TeamCommand::Schema => team_file::schema(&registry),
        },
        Command::List(kind) => match kind {
            ListCommand::Tools(arguments) => catalogue::tools(&arguments, &registry),
            ListCommand::Behaviors(arguments) => catalogue::behaviors(&arguments, &registry),
            ListCommand::Policies(arguments) => catalogue::policies(&arguments, &registry),
            ListCommand::Interceptors(arguments) => catalogue::interceptors(&arguments, &registry),
            ListCommand::Providers(arguments) => catalogue::providers(&arguments, &registry),
        },
        Command::Prices(PricesCommand::Show(arguments)) => prices::show(&arguments),
        Command::Prices(PricesCommand::Update { file }) => prices::update(&file),
        Command::Shell(ShellCommand::Completions(arguments)) => shell::completions(&arguments),
        Command::Shell(ShellCommand::Man(arguments)) => shell::man(&arguments),
    }
}

async fn store(verb: StoreCommand, registry: Registry) -> Result<Exit, Failure> {
    #[cfg(not(feature = "full"))]
    let _ = registry;
    match verb {
        #[cfg(feature = "full")]
        StoreCommand::Open(arguments) => open::open(arguments, registry).await,
        StoreCommand::Copy(arguments) => copy::copy(arguments).await,
        StoreCommand::Verify(arguments) => migrate::verify(arguments).await,
        StoreCommand::Migrate(arguments) => migrate::migrate(arguments).await,
        StoreCommand::Prune(arguments) => prune::prune(arguments).await,
        StoreCommand::Nodes(arguments) => nodes::nodes(arguments).await,
    }
}

/// Starts a System of one team that carries only the runs that it is given.
async fn start(
    keeping: &Keeping,
    team: TeamSpec,
    registry: Registry,
) -> Result<System, SystemError> {
    let team = Team {
        spec: team,
        registry,
    };
    let system = System::builder(keeping.store.clone()).recover(false);
    // A person who can write the store's file may do anything with it.
    Ok(system.team(team).start().await?.as_operator())
}

/// Starts a System for a run that was begun, and for what follows it. The team comes from the
/// definition to which the run is pinned, so its file is not needed.
async fn start_for(
    keeping: &Keeping,
    row: &RunRow,
    registry: Registry,
) -> Result<(System, Follow), Failure> {
    let team = pinned_team(&keeping.store, row.root).await?;
    let follow = Follow::new(column_of(&team), keeping);
    let history = keeping.last_position(row.root).await?;
    let system = start(keeping, team, registry).await?;
    Ok((system, follow.after(history)))
}

/// Starts a System that only posts: it has no team, and carries nothing.
async fn start_to_post(keeping: &Keeping) -> Result<System, SystemError> {
    let system = System::builder(keeping.store.clone()).recover(false);
    Ok(system.start().await?.as_operator())
}

/// Whether a run cannot continue in this program because its team names code that the program
/// lacks.
fn lacks_code(failure: &Failure) -> bool {
    let Failure::System(error) = failure else {
        return false;
    };
    matches!(error, SystemError::Definition(_) | SystemError::Model(_))
}

/// Whether another process carries a run now.
async fn is_carried(keeping: &Keeping, run: RunId) -> Result<bool, Failure> {
    let held = keeping.store.held_elsewhere(vec![run.into()]).await?;
    Ok(held.first().copied().unwrap_or_default())
}

/// Says when a posted message takes effect, for a run that this program does not carry; `carried`
/// tells whether another process does.
fn say_when(keeping: &Keeping, root: RunId, carried: bool, done: &str) {
    let (id, option) = (root.short(), &keeping.option);
    note(&match carried {
        true => format!("{done}; the process that carries run {id} takes it"),
        false => format!(
            "{done}; nobody carries run {id} now: it takes effect when a program that has its tools and \
             behaviors continues with it (`ghostlight resume {id}{option}`, or that program's own command)"
        ),
    });
}

/// A key for a conversation without a name.
fn fresh_key() -> String {
    format!("{:012x}", SystemEntropy.bits() >> 80)
}

/// An id for a turn without a name.
fn fresh_turn() -> String {
    format!("{:032x}", SystemEntropy.bits())
}

/// Resumes a run, unless another process carries it and takes the items from the mailbox of
/// `receiver`, the run of its tree whose mailbox has them; then it returns `false`.
async fn recover_or_leave(system: &System, root: RunId, receiver: RunId) -> Result<bool, Failure> {
    let mut patience = PATIENCE;
    loop {
        let refused = match system.resume(root, false).await {
            Ok(_) => return Ok(true),
            Err(SystemError::Store(refused @ StoreError::Owned { .. })) => refused,
            Err(error) => return Err(error.into()),
        };
        if system.store().mailbox(receiver.into()).await?.is_empty() {
            return Ok(false);
        }
        // The process may be about to release the run, or hang.
        patience = patience.checked_sub(PAUSE).ok_or(refused)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Stops a System; a second interrupt ends the process, too. An earlier failure matters more than
/// one of the stop.
async fn stop(
    system: &System,
    interrupt: &mut Interrupt,
    result: Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let stopped = tokio::select! {
        biased;
        stopped = system.stop() => stopped,
        () = interrupt.fired() => std::process::exit(Exit::Interrupted as i32),
    };
    match (result, stopped) {
        (Ok(_), Err(error)) => Err(error.into()),
        (result, _) => result,
    }
}

/// The width of a column for these agents' names, indented by their depth.
fn column_of(team: &TeamSpec) -> usize {
    let width = |(above, agent): &(Vec<&str>, &ghostlight_actors::definition::AgentSpec)| {
        2 * above.len() + agent.display_name().chars().count()
    };
    team.agent.walk().iter().map(width).max().unwrap_or(0)
}

/// The largest recording or session that is read from a file, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// Reads a file that the command has exported.
fn read_record(path: &Path) -> io::Result<String> {
    files::read_text(path, MAX_RECORD_BYTES)
}

/// Prints a line on stdout.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", plain_text::plain(text))?;
    out.flush()?;
    Ok(())
}

/// Says something on stderr.
fn note(text: &str) {
    say(text);
}

/// Says that there is no store yet, which is not a failure of a command for all runs.
fn no_runs_yet(arguments: &StoreArguments) -> Result<Exit, Failure> {
    let location = keeping::location_of(arguments)?;
    note(&format!("no runs yet; they will be kept in {location}"));
    Ok(Exit::Done)
}

/// The word of team files for what repeating a call would do.
fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    }
}

/// A number of things, in words.
fn counted(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}
