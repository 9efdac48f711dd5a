//! The command's arguments.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, builder::NonEmptyStringValueParser};
use ghostlight_actors::vocabulary::{Budget, OperationId};
use serde_json::Value;

#[cfg(feature = "full")]
use super::nouns::ProtocolCommand;
use super::{
    approval_arguments::ApprovalArguments,
    default_model::ModelArguments,
    more_arguments::{Chat, Doctor, State, Steer},
    nouns::{
        ListCommand, PricesCommand, RecordingCommand, ShellCommand, StoreCommand, TeamCommand,
    },
    retention_arguments::RetentionArguments,
    session_arguments::Session,
    style::Style,
    when::age,
};

const AFTER_HELP: &str = "\
Exit codes:
    0  answered, or what was asked for is done
    1  the run failed or is parked, or a replay found a difference
    2  wrong usage, or a fault in the team file
    3  the run stopped before its end (a bound was reached, or it was cancelled)
    4  the run waits for an answer (`ghostlight answer`)
    5  the store failed
    6  another process carries the run
  130  interrupted; the run continues with `ghostlight resume`

Environment:
  OPENAI_API_KEY    the default model is OpenAI's (or compatible)
  ANTHROPIC_API_KEY, GEMINI_API_KEY
                    it is Anthropic's or Google's; without any of the three it is the built-in
                    offline model, which needs no network and is not a neural network
  OPENAI_BASE_URL   where the default model is, such as http://127.0.0.1:11434/v1
  OPENAI_MODEL      which model it is
  GHOSTLIGHT_STORE  the store, where --store is left out
  GHOSTLIGHT_MIGRATE
                    set to `never`, opening a store in PostgreSQL does not migrate it
  GHOSTLIGHT_NODE_KEY
                    the key with which `serve --node-address` asks other servers
  PGPASSWORD, PGSERVICE, PGSSLROOTCERT, ...
                    as for psql
  GHOSTLIGHT_CONFIG your settings, where they are not in config.yaml of your configuration directory
  RUST_LOG          what the engine notes, such as `debug` (stderr, or --log FILE)
  NO_COLOR          no colours

A bare verb acts on a run (run, show, answer, ...) or on a team (chat, dev, serve, eval). All other verbs stand
behind their noun, such as `session list`, `store verify` or `team check`.";

/// Teams of LLM agents that survive anything: kill the process at any instant, and every run
/// continues from its last recorded entry.
#[derive(Debug, Parser)]
#[command(name = "ghostlight", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
    #[command(flatten)]
    pub(super) style: Style,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Talk to a team, or to one agent with the built-in tools
    Chat(Chat),
    /// Give a team something to do, or one agent with the built-in tools, and print the answer
    Run(Run),
    /// Serve a team on a page at this machine, open it in a browser, and follow its file
    #[cfg(feature = "full")]
    Dev(super::server_arguments::Dev),
    /// Keep a team's schedules and its open runs going, until Ctrl-C
    Serve(Box<Serve>),
    /// List runs
    Runs(Runs),
    /// Show everything that happened in a run
    Show(Show),
    /// Answer a question of a run, and continue with it
    Answer(Answer),
    /// Continue runs that were interrupted, or retry a parked run
    #[command(visible_alias = "retry")]
    Resume(Resume),
    /// Cancel a run
    Cancel(Cancel),
    /// Send a message to a run's agent while it works, or a typed message to its function
    Steer(Steer),
    /// Begin a new run that continues from a point of a recorded one
    Fork(Fork),
    /// Try a team on samples, score what it does, and compare variants of it
    #[cfg(feature = "full")]
    Eval(super::eval_arguments::Eval),
    /// Check the setup: what is missing, whether the model answers, whether the store is sound
    Doctor(Doctor),
    /// Sessions: list, show, fork, rewind, delete, export, import; print an artifact of one
    Session(Session),
    /// The memories of a team: list, show, search, forget, export
    #[cfg(feature = "full")]
    Memory(super::memory_arguments::Memory),
    /// Recordings of runs: export them, replay them with today's code
    #[command(subcommand)]
    Recording(RecordingCommand),
    /// The store: show it on a page, copy, verify, migrate, prune; list its nodes
    #[command(subcommand)]
    Store(StoreCommand),
    /// Team files: write one to begin with, check, draw; print their JSON Schema
    #[command(subcommand)]
    Team(TeamCommand),
    /// Documents: index and search them
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Docs(super::document_arguments::Documents),
    /// Names that a team file may use: tools, behaviors, policies, interceptors, providers of models
    #[command(subcommand)]
    List(ListCommand),
    /// Prices of models: show the table in use, or replace it
    #[command(subcommand)]
    Prices(PricesCommand),
    /// API keys of `serve --listen`: add, list, revoke
    #[cfg(feature = "full")]
    Key(super::server_arguments::Key),
    /// Serve a team to an editor (ACP) or another agent (MCP), on the standard streams
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Protocol(ProtocolCommand),
    /// The shell: completions, pages for `man`
    #[command(subcommand)]
    Shell(ShellCommand),
}

/// Where runs are kept.
#[derive(Clone, Debug, Args)]
pub(super) struct StoreArguments {
    /// The file that holds the runs, or postgres://USER@HOST/DATABASE [default: ghostlight.db in the user's data directory]
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
}

/// How what happens is shown.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ShowArguments {
    /// Print one JSON object a line on stdout, and nothing else there
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The team file (YAML), and the task; the task alone is for one agent with the built-in tools. It is
    /// read from stdin where it is left out or `-`
    #[arg(value_name = "TEAM_FILE] [TEXT", num_args = 0..=2)]
    pub(super) words: Vec<String>,
    /// A file to send with the text, by its path or its HTTP address; may be given several times
    #[arg(long, value_name = "PATH|URL")]
    pub(super) file: Vec<String>,
    /// The conversation to which this turn belongs [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(super) session: Option<String>,
    /// Your id of this turn: sent twice in one session, it is one run
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(super) turn_id: Option<String>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    /// Call no tool that has an effect: each says what it would do
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Bounds of this run beyond the team's, such as model_calls=20,tokens=50000; see `budget` in
    /// `ghostlight team schema`
    #[arg(long, value_name = "NAME=NUMBER,…", value_parser = budget)]
    pub(super) budget: Option<Budget>,
    /// Keep the run in memory only: nothing is left when the process ends
    #[arg(long, conflicts_with = "store")]
    pub(super) memory: bool,
    #[command(flatten)]
    pub(super) show: ShowArguments,
    #[command(flatten)]
    pub(super) approval: ApprovalArguments,
    /// Approve and confirm whatever the run asks to have approved or confirmed
    #[arg(long)]
    pub(super) yes: bool,
}

/// A budget in one argument; the names are those of a team file.
fn budget(text: &str) -> Result<Budget, String> {
    let mut bounds = serde_json::Map::new();
    for bound in text.split(',') {
        let parts = bound.split_once('=');
        let (name, number) = parts.ok_or_else(|| format!("`{bound}` is not NAME=NUMBER"))?;
        let (name, number) = (name.trim(), number.trim());
        let plain = number.replace('_', "");
        let bound = match name.ends_with("_s") {
            true => plain
                .parse()
                .ok()
                .and_then(serde_json::Number::from_f64)
                .map(Value::from),
            false => plain.parse::<u64>().ok().map(Value::from),
        };
        let bound = bound.ok_or_else(|| match name.ends_with("_s") {
            true => format!("`{number}` is not a number of seconds"),
            false => format!("`{number}` is not a whole number, 0 or more"),
        })?;
        if bounds.insert(name.to_owned(), bound).is_some() {
            return Err(format!("`{name}` stands twice"));
        }
    }
    serde_json::from_value(bounds.into()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The team file (YAML), or a folder of them; their `schedules` are kept
    pub(super) team_file: PathBuf,
    #[cfg(feature = "full")]
    #[command(flatten)]
    pub(super) http: super::server_arguments::HttpArguments,
    #[command(flatten)]
    pub(super) retention: RetentionArguments,
    /// End open runs as failed that recorded nothing for this time and that no timer wakes, such as 30d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) expire_silent: Option<Duration>,
    /// Carry at most this number of runs at once; others wait, or continue in other processes
    #[arg(long, value_name = "NUMBER")]
    pub(super) live_runs: Option<usize>,
    /// Wait this long for a model's provider that is down, such as 6h; without it the run fails after four attempts
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(super) patience: Option<Duration>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    /// The run, or the beginning of its id; all open ones, one after the other, where it is left
    /// out
    pub(super) run: Option<String>,
    /// Take the run from a process that carries it but hangs
    #[arg(long, requires = "run")]
    pub(super) take_over: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
    /// Approve and confirm whatever the runs ask to have approved or confirmed
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Runs {
    /// Include runs that have ended
    #[arg(long)]
    pub(super) all: bool,
    /// Only those of this team
    #[arg(long, value_name = "NAME")]
    pub(super) team: Option<String>,
    /// Only those of these statuses, such as waiting,parked
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_enum)]
    pub(super) state: Vec<State>,
    /// Only those that began within this time, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(super) since: Option<Duration>,
    /// At most this number [default: 50; all, with --json]
    #[arg(long, value_name = "NUMBER")]
    pub(super) limit: Option<NonZeroUsize>,
    /// The next page, by the mark that the page before printed
    #[arg(long, value_name = "RUN")]
    pub(super) after: Option<String>,
    /// Only open ones that recorded nothing for this time and that no timer wakes, such as 7d
    #[arg(long, value_name = "AGE", value_parser = age,
        conflicts_with_all = ["all", "team", "state", "since", "limit", "after"])]
    pub(super) silent: Option<Duration>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The run, or the beginning of its id
    pub(super) run: String,
    /// Follow the run until it rests, whichever process carries it
    #[arg(long, conflicts_with = "questions")]
    pub(super) follow: bool,
    /// Show only the run and those below it: agent, id, status and task of each
    #[arg(long, conflicts_with_all = ["follow", "questions"])]
    pub(super) tree: bool,
    /// Show only its questions, each with the whole call that it is about
    #[arg(long)]
    pub(super) questions: bool,
    /// Show redacted parts too
    #[arg(long, requires = "questions")]
    pub(super) reveal: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The run, or the beginning of its id
    #[arg(required_unless_present = "silent")]
    pub(super) run: Option<String>,
    /// Cancel all open runs that recorded nothing for this time and that no timer wakes; `ghostlight runs --silent`
    /// lists them
    #[arg(long, value_name = "AGE", value_parser = age, conflicts_with_all = ["run", "reason", "call"])]
    pub(super) silent: Option<Duration>,
    /// The reason
    #[arg(long, default_value = "cancelled on the command line")]
    pub(super) reason: String,
    /// Cancel only this call, and let the run continue; `ghostlight show` prints the ids
    #[arg(long, value_name = "OPERATION", conflicts_with = "reason")]
    pub(super) call: Option<OperationId>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

#[derive(Debug, Args)]
#[command(override_usage = "ghostlight answer [OPTIONS] RUN [OPERATION] \
    <VALUE | --approve | --deny [REASON] | --happened | --did-not>")]
pub(super) struct Answer {
    /// The run, or the beginning of its id
    pub(super) run: String,
    /// The operation that asks, where more than one does, and the answer (JSON, or else text)
    #[arg(value_name = "OPERATION] [VALUE", num_args = 0..=2)]
    pub(super) rest: Vec<String>,
    #[command(flatten)]
    pub(super) decision: Decision,
    /// Answer only if it asks about the call of this digest, or of one that begins with these digits (8 or
    /// more); `ghostlight show RUN --questions` prints it
    #[arg(long, value_name = "DIGEST")]
    pub(super) digest: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

/// An answer that has a name.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub(super) struct Decision {
    /// Approve it
    #[arg(long)]
    pub(super) approve: bool,
    /// Deny it, for this reason
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    pub(super) deny: Option<String>,
    /// The call in doubt did happen
    #[arg(long)]
    pub(super) happened: bool,
    /// The call in doubt did not happen
    #[arg(long)]
    pub(super) did_not: bool,
}

impl Decision {
    /// Whether an answer was given by its name.
    pub(super) fn given(&self) -> bool {
        self.approve || self.deny.is_some() || self.happened || self.did_not
    }
}

impl Answer {
    /// The operation and the value among the words after the run: a word of the form `0.0.3` is an
    /// operation, unless it is the only word that could be the answer.
    pub(super) fn parts(&self) -> Result<(Option<OperationId>, Option<&str>), String> {
        let words: Vec<&str> = self.rest.iter().map(String::as_str).collect();
        let operation = |word: &str| {
            word.parse::<OperationId>()
                .map_err(|error| error.to_string())
        };
        match (words.as_slice(), self.decision.given()) {
            ([], true) => Ok((None, None)),
            ([word], true) => Ok((Some(operation(word)?), None)),
            ([value], false) => Ok((None, Some(value))),
            ([word, value], false) => Ok((Some(operation(word)?), Some(value))),
            ([], false) => Err(String::from(
                "give the answer: a value, --approve, --deny, --happened or --did-not",
            )),
            (_, true) => Err(String::from(
                "give one answer: a value or an option, not both",
            )),
            _ => Err(String::from(
                "give one answer; quote a text of several words",
            )),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Fork {
    /// The run, or the beginning of its id
    pub(super) run: String,
    /// How many of its entries count, as `ghostlight show` numbers them: entry N is the first that
    /// is done anew [default: all; before the mismatch, where the run is parked for one]
    #[arg(long, value_name = "N")]
    pub(super) at: Option<u64>,
    /// The message at that point; with `--at 1` instead of the run's own input
    #[arg(long, value_name = "TEXT")]
    pub(super) input: Option<String>,
    /// Continue with the team of this file, not with the definition to which the run is pinned
    #[arg(long, value_name = "FILE")]
    pub(super) team: Option<PathBuf>,
    /// The conversation in which the fork continues [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(super) session: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
    /// Approve and confirm whatever the fork asks to have approved or confirmed
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Runs, by their ids or the beginnings of them, or files that `ghostlight recording export` made
    #[arg(value_name = "RUN|FILE", required_unless_present = "all")]
    pub(super) runs: Vec<String>,
    /// All runs of the store; with `--team` those of that team
    #[arg(long, conflicts_with = "runs")]
    pub(super) all: bool,
    /// Replay with the team of this file, not with the definitions to which the runs are pinned
    #[arg(long, value_name = "FILE")]
    pub(super) team: Option<PathBuf>,
    /// Let a model request that differs from the recorded one count as a difference
    #[arg(long)]
    pub(super) deny_drift: bool,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    #[command(flatten)]
    pub(super) show: ShowArguments,
}

/// The treatment of secrets in the export.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(super) struct Secrets {
    /// Print texts that look like secrets too; without this and the next option, nothing that holds one is printed
    #[arg(long)]
    pub(super) with_secrets: bool,
    /// Leave out texts that look like secrets; such a copy is for reading, and differs when it is replayed
    #[arg(long)]
    pub(super) redact: bool,
}

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The run, or the beginning of its id; its whole tree is printed
    pub(super) run: String,
    #[command(flatten)]
    pub(super) secrets: Secrets,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Arguments::command().debug_assert();
    }

    fn answer(words: &str) -> Result<(Option<String>, Option<String>), String> {
        let words = ["ghostlight", "answer"].into_iter().chain(words.split(' '));
        let parsed = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Answer(answer) = parsed.command else {
            return Err(String::from("another command"));
        };
        let (operation, value) = answer.parts()?;
        Ok((operation.map(|id| id.to_string()), value.map(str::to_owned)))
    }

    #[test]
    fn an_answer_may_name_its_operation() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(answer("ab 42").unwrap(), (None, some("42")));
        assert_eq!(
            answer("ab 0.0.3 red").unwrap(),
            (some("0.0.3"), some("red"))
        );
        assert_eq!(answer("ab 0.0.3").unwrap(), (None, some("0.0.3")));
        assert_eq!(answer("ab --approve").unwrap(), (None, None));
        assert_eq!(answer("ab 0.0.3 --approve").unwrap(), (some("0.0.3"), None));
        assert_eq!(answer("ab --deny no").unwrap(), (None, None));
        assert_eq!(answer("ab 0.0.3 --deny").unwrap(), (some("0.0.3"), None));
        for wrong in [
            "ab",
            "ab x y",
            "ab 0.0.1 x y",
            "ab x --approve",
            "ab --approve --deny",
        ] {
            assert!(answer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_budget_is_names_and_numbers_of_a_team_file() {
        let read = budget("model_calls=3, tokens=50_000,wall_time_s=1.5").unwrap();
        assert_eq!((read.model_calls, read.tokens), (Some(3), Some(50_000)));
        let wall_time = Some(Duration::from_millis(1_500));
        assert_eq!((read.wall_time, read.tool_calls), (wall_time, None));
        for (wrong, told) in [
            ("steps=3", "model_calls"),
            ("tokens", "NAME=NUMBER"),
            ("tokens=many", "whole number"),
            ("wall_time_s=long", "number of seconds"),
            ("wall_time_s=-1", "a number of seconds, 0 or more"),
            ("wall_time_ms=9", "wall_time_s"),
            ("", "NAME=NUMBER"),
        ] {
            let error = budget(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
