#![doc = include_str!("../README.md")]

mod approval_arguments;
mod arguments;
mod asking;
mod assistant;
mod attaching;
mod commands;
mod decisions;
mod default_model;
#[cfg(feature = "full")]
mod document_arguments;
mod echo;
mod env_file;
#[cfg(feature = "full")]
mod eval_add_arguments;
#[cfg(feature = "full")]
mod eval_arguments;
#[cfg(feature = "full")]
mod eval_export_arguments;
#[cfg(feature = "full")]
mod eval_fork_arguments;
#[cfg(feature = "full")]
mod eval_look_arguments;
#[cfg(feature = "full")]
mod eval_optimise_arguments;
#[cfg(feature = "full")]
mod eval_rollout_arguments;
mod exit;
#[cfg(all(feature = "full", target_os = "linux"))]
mod folder_notices;
mod follow;
mod interrupt;
mod keeping;
mod leaving;
mod location;
mod logging;
#[cfg(feature = "full")]
mod memory_arguments;
mod more_arguments;
mod nouns;
mod one_file;
mod plain_text;
mod questions;
mod retention_arguments;
mod screen;
#[cfg(feature = "full")]
mod server_arguments;
mod session_arguments;
mod streamed_text;
mod style;
mod telemetry;
mod timeline;
mod typing;
mod user_config;
mod when;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{
    Parser as _,
    error::{ContextKind, ContextValue},
};
use ghostlight_actors::run::Registry;

use self::{
    arguments::Arguments,
    exit::{Exit, Failure},
    style::Style,
};

/// The whole command: it reads the process's arguments, does what they ask with the tools,
/// behaviors and models of this registry, and returns the exit code.
///
/// It starts its own runtime, so it must be called outside of any, and it takes over Ctrl-C and the
/// panic hook of the process.
pub fn main(registry: Registry) -> ExitCode {
    // The command starts itself again as the launcher of its tools' programs.
    #[cfg(all(feature = "full", unix))]
    if let Some(code) = ghostlight::tools::launcher::run() {
        return code;
    }
    main_from(std::env::args_os(), registry)
}

/// Like [`main`], with the given arguments; the first is the program's name.
pub fn main_from<I>(arguments: I, registry: Registry) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let given: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let given = match one_file::with_settings(given) {
        Ok(given) => given,
        Err(failure) => {
            say(&format!("error: {failure}"));
            return failure.exit().into();
        }
    };
    let arguments = match Arguments::try_parse_from(given) {
        Ok(arguments) => arguments,
        Err(told) => return tell(&told).into(),
    };
    keep_out_of_core_dumps();
    std::panic::set_hook(Box::new(|panic| {
        // RUST_BACKTRACE decides whether a backtrace is wanted.
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        say(&format!("panic: {panic}{trace}"));
    }));
    if let Err(failure) = set_up(&arguments.style) {
        say(&format!("error: {failure}"));
        return failure.exit().into();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let performed = match runtime {
        Ok(runtime) => {
            let performed = runtime.block_on(commands::perform(
                arguments.command,
                with_documents(registry),
            ));
            // The System has stopped; a tool that blocks its thread must not keep the process
            // alive.
            runtime.shutdown_background();
            performed
        }
        Err(error) => Err(Failure::Io(error)),
    };
    let exit = performed.unwrap_or_else(|failure| {
        if !failure.is_silent() {
            say(&format!("error: {failure}"));
        }
        failure.exit()
    });
    exit.into()
}

/// Registers the command's own document tools, which also read PDF, in another process of the
/// command.
#[cfg(feature = "full")]
fn with_documents(registry: Registry) -> Registry {
    // They replace the tools that read no PDF.
    registry.with(ghostlight::documents::register(
        Registry::new(),
        commands::index::readers(),
    ))
}

#[cfg(not(feature = "full"))]
fn with_documents(registry: Registry) -> Registry {
    registry
}

/// Applies the settings other than the arguments, and starts the log.
fn set_up(style: &Style) -> Result<(), Failure> {
    style::choose(style.clone());
    logging::begin(style)?;
    user_config::load()?;
    commands::prices::load()?;
    if let Some(told) = env_file::load(style.env_file.as_ref())? {
        say(&told);
    }
    Ok(())
}

/// Keeps the process's memory, keys among it, out of core dumps and, on Linux, away from other
/// processes of its user. If the system refuses, the command works all the same.
fn keep_out_of_core_dumps() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = setrlimit(Resource::Core, none);
    }
}

/// Prints clap's message: help and the version, which are not errors, or what is wrong with the
/// arguments. The message may quote active characters, perhaps put together by a program.
fn tell(told: &clap::Error) -> Exit {
    if !told.use_stderr() {
        let _ = told.print();
        return Exit::Done;
    }
    let verb = match told.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) => verb.as_str(),
        _ => "",
    };
    let option = match told.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.as_str(),
        _ => "",
    };
    match (nouns::moved(verb), left_out([verb, option])) {
        (_, Some(word)) => say(&format!(
            "error: `{word}` is not in this program, which was built without the cargo feature `full`; build it without \
             `--no-default-features`"
        )),
        (Some(today), None) => say(&format!(
            "error: `{verb}` is now `{today}`; see `ghostlight --help`"
        )),
        // Without colours: clap would print what is quoted with its own escapes.
        (None, None) => say(told.render().to_string().trim_end()),
    }
    Exit::Usage
}

/// The first of these words that the feature `full` brings, in a program without it.
fn left_out(words: [&str; 2]) -> Option<&str> {
    const BROUGHT: [&str; 10] = [
        "--listen", "acp", "dev", "docs", "eval", "key", "mcp", "memory", "open", "protocol",
    ];
    let mut words = words.into_iter();
    words.find(|word| cfg!(not(feature = "full")) && BROUGHT.contains(word))
}

/// Writes to stderr. If that is closed, nobody can be told.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain_text::plain(text));
}

/// The program on the page about the command compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/command.md")]
struct Command;
