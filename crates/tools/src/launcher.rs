//! The launcher: a small program between an agent and a command, which gives up rights and then starts the command.
//!
//! Limits, Landlock and seccomp apply to the process that requests them and to all its descendants, so they are
//! requested in a process of its own. The launcher stays as the parent of the command, and ends it with all its
//! descendants when the program that started the launcher is gone. Where it is asked for, bubblewrap stands between the
//! two: launcher, `bwrap`, launcher, command.
//!
//! The launcher is the program `ghostlight-launcher`, or any program whose `main` begins with [`run`].

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod mounts;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::OnceLock,
};

use serde::{Deserialize, Serialize};

/// The first argument of a launcher.
const ARGUMENT: &str = "--ghostlight-launch";
/// The argument that asks for the machine's means, and the one after it that asks for bubblewrap, too.
const PROBE: &str = "probe";
const BUBBLEWRAP: &str = "bubblewrap";
/// The argument that makes the launcher become the command, instead of its parent.
#[cfg(target_os = "linux")]
const ALONE: &str = "alone";
/// The exit code of a launcher that could not confine or start the command.
pub(crate) const FAILED: i32 = 125;
/// The prefix of the launcher's messages.
pub(crate) const SAYS: &str = "ghostlight-launcher: ";

/// The path of a program that is a launcher.
static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();

/// The rights that a command keeps. They travel as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Launch {
    /// The files and folders that the command may read and run.
    pub(crate) read: Vec<PathBuf>,
    /// The files and folders that it may also change.
    pub(crate) write: Vec<PathBuf>,
    pub(crate) network: bool,
    /// Whether to start the command only if all of this can be enforced.
    pub(crate) required: bool,
    /// Whether the command is a single process, which starts no other, and neither signals nor changes any.
    pub(crate) alone: bool,
    /// Whether the command has namespaces of its own.
    pub(crate) bubblewrap: bool,
    /// Whether all files but those that it may change are read-only already, as in the namespaces of bubblewrap.
    #[serde(default)]
    pub(crate) own_mounts: bool,
    pub(crate) limits: Rlimits,
}

/// The limits of a command's processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rlimits {
    /// Seconds of the processor that one process may use; 60 when left out.
    pub cpu_s: u64,
    /// Bytes of memory that one process may reserve; 4 GiB when left out.
    pub memory_bytes: u64,
    /// Bytes of the largest file that it may write; 1 GiB when left out.
    pub file_bytes: u64,
    /// Files that one process may have open; 256 when left out.
    pub open_files: u64,
    /// Processes and threads, beyond those that the user account runs when the command starts; 256 when left out. The
    /// system does not apply this limit to the superuser.
    pub processes: u64,
}

impl Default for Rlimits {
    fn default() -> Self {
        Self {
            cpu_s: 60,
            memory_bytes: 4 << 30,
            file_bytes: 1 << 30,
            open_files: 256,
            processes: 256,
        }
    }
}

/// The means of this machine to confine commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// Landlock: only named files and folders can be read or changed.
    pub landlock: bool,
    /// seccomp: no network unless it is allowed, no new privileges, no other namespaces, no way out of the process
    /// group that is ended as a whole, and no system call that is not known to be harmless.
    pub seccomp: bool,
    /// Mounts of the command's own, in which all files but those that it may change are read-only. Without them and
    /// without bubblewrap no command changes the mode, owner, times or attributes of a file, not even of its own ones.
    pub mounts: bool,
    /// Limits of processor time, memory, files and processes.
    pub rlimits: bool,
    /// bubblewrap: namespaces in which there are no other files, processes and network interfaces. `None` where the
    /// settings do not ask for it.
    pub bubblewrap: Option<bool>,
}

impl Confinement {
    /// Whether the machine has all of them, bubblewrap only where it is asked for. Mounts do not count, since commands
    /// are confined without them too, and can do less.
    pub fn is_whole(&self) -> bool {
        self.landlock && self.seccomp && self.rlimits && self.bubblewrap != Some(false)
    }
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("mounts", self.mounts.then_some(true)),
            ("Landlock", Some(self.landlock)),
            ("seccomp", Some(self.seccomp)),
            ("rlimits", Some(self.rlimits)),
            ("bubblewrap", self.bubblewrap),
        ];
        let named = |there: bool| {
            let names: Vec<&str> = parts
                .iter()
                .filter(|(_, is)| *is == Some(there))
                .map(|(name, _)| *name)
                .collect();
            names.join(", ")
        };
        match (named(true).as_str(), named(false).as_str()) {
            ("", missing) => write!(f, "none ({missing} are missing)"),
            (there, "") => f.write_str(there),
            (there, missing) => write!(f, "{there} (missing: {missing})"),
        }
    }
}

/// Makes this program a launcher for its own commands. Call it at the very beginning of `main`, before any thread is
/// started, and return with the code that it gives, if any.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = ghostlight_tools::launcher::run() {
///         return code;
///     }
///     // ... the program itself
///     std::process::ExitCode::SUCCESS
/// }
/// ```
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        if let Ok(own) = std::env::current_exe() {
            let _ = LAUNCHER.set(own);
        }
        return None;
    }
    Some(match asked(arguments.collect()) {
        Ok(code) => code,
        Err(reason) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "{SAYS}{reason}");
            ExitCode::from(FAILED as u8)
        }
    })
}

/// The launcher of this program: the program itself, or `ghostlight-launcher` beside it.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(own) = LAUNCHER.get() {
        return Some(own.clone());
    }
    let own = std::env::current_exe().ok()?;
    let name = format!("ghostlight-launcher{}", std::env::consts::EXE_SUFFIX);
    // Tests and examples are one folder below.
    let mut folders = own.ancestors().skip(1).take(2);
    folders.find_map(|folder: &Path| Some(folder.join(&name)).filter(|path| path.is_file()))
}

/// The folders that are installed for all accounts: those of `/usr`. `/usr/local/etc` holds settings, and keys among them.
pub(crate) fn installed() -> Vec<PathBuf> {
    let inside = |folder: &str, but: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let others = entries.filter(|entry| entry.file_name() != but);
        let mut paths: Vec<PathBuf> = others.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    [inside("/usr", "local"), inside("/usr/local", "etc")].concat()
}

/// The arguments of a launcher before those of the command.
pub(crate) fn arguments(launch: &Launch) -> Result<[String; 2], serde_json::Error> {
    Ok([ARGUMENT.to_owned(), serde_json::to_string(launch)?])
}

/// The arguments that ask a launcher for the machine's means, with bubblewrap or without.
pub(crate) fn probing(bubblewrap: bool) -> impl Iterator<Item = &'static str> {
    let further = bubblewrap.then_some(BUBBLEWRAP);
    [ARGUMENT, PROBE].into_iter().chain(further)
}

#[cfg(not(target_os = "linux"))]
fn asked(_: Vec<std::ffi::OsString>) -> Result<ExitCode, String> {
    Err("commands are confined on Linux only".to_owned())
}

/// The path of this program. In namespaces, where there is no `/proc` that tells it, it is the path with which `bwrap` started it.
#[cfg(target_os = "linux")]
fn own() -> Result<PathBuf, String> {
    let told = std::env::args_os().next().map(PathBuf::from);
    let told = told.filter(|path| path.is_absolute());
    let own = std::env::current_exe();
    own.or_else(|error| told.ok_or(error))
        .map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
fn asked(arguments: Vec<std::ffi::OsString>) -> Result<ExitCode, String> {
    let mut arguments = arguments.into_iter();
    let wanted = arguments.next().ok_or("it is not said what is wanted")?;
    if wanted == PROBE {
        use std::io::Write as _;
        let bubblewrap = arguments.next().is_some_and(|asked| asked == BUBBLEWRAP);
        let said =
            serde_json::to_string(&linux::probe(bubblewrap)).map_err(|error| error.to_string())?;
        writeln!(std::io::stdout(), "{said}").map_err(|error| error.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = wanted.to_str().ok_or("what is wanted is not text")?;
    let program = arguments.next().ok_or("there is no command")?;
    if wanted == ALONE {
        let (memory, program) = (program, arguments.next().ok_or("there is no command")?);
        return Err(linux::become_alone(&memory, &program, arguments));
    }
    let mut launch: Launch = serde_json::from_str(wanted).map_err(|error| error.to_string())?;
    if launch.bubblewrap {
        let own = own()?;
        launch.bubblewrap = false;
        launch.own_mounts = bubblewrap::prepare(&launch).is_ok();
        let inside = self::arguments(&launch).map_err(|error| error.to_string())?;
        let first = bubblewrap::arguments(&launch, &own)
            .into_iter()
            .chain([own.into()]);
        let first = first.chain(inside.map(Into::into)).chain([program]);
        return linux::start(bubblewrap::find()?.as_os_str(), first.chain(arguments));
    }
    if !launch.alone {
        linux::confine(&launch)?;
        return linux::start(&program, arguments);
    }
    // The launcher has to start a process itself, so a second launcher gives up that right and becomes the command. The
    // same holds for memory: a program with an allocator of its own reserves more than a command may have.
    let own = own()?;
    launch.read.push(own.clone());
    linux::confine(&launch)?;
    let memory = launch.limits.memory_bytes;
    let first = [
        ARGUMENT.into(),
        ALONE.into(),
        memory.to_string().into(),
        program,
    ];
    linux::start(own.as_os_str(), first.into_iter().chain(arguments))
}
