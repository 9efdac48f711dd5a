//! Limits, Landlock, capabilities and seccomp, and the command that is started with them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        fs::MetadataExt,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getuid, kill_current_process_group, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
};

use super::{
    Confinement, Launch, bubblewrap,
    calls::{self, Allowed},
    mounts,
};

/// How often the launcher checks whether the program that started it is still there.
const LOOKS: Duration = Duration::from_millis(200);

pub(super) fn probe(asks_for_bubblewrap: bool) -> Confinement {
    // The process ends after this check, so its rights do not matter.
    let nothing = Launch {
        required: true,
        ..Launch::default()
    };
    // First, since these need rights that are gone afterwards.
    let bubblewrap = asks_for_bubblewrap.then(bubblewrap::works);
    let mounts = mounts::make_read_only(&nothing.write).is_ok();
    let allowed = Allowed {
        network: false,
        metadata: false,
        signals: false,
    };
    Confinement {
        rlimits: limit(&nothing).is_ok(),
        mounts,
        landlock: landlock(&nothing).is_ok(),
        seccomp: drop_capabilities()
            .and_then(|()| calls::restrict(allowed))
            .is_ok(),
        bubblewrap,
    }
}

pub(super) fn confine(launch: &Launch) -> Result<(), String> {
    let demanded = |confined: Result<(), String>| match confined {
        Err(reason) if launch.required => Err(format!(
            "{reason}; set `confinement: best_effort` to go without it"
        )),
        _ => Ok(()),
    };
    demanded(limit(launch))?;
    // Where other files cannot be made read-only, the filter refuses the calls, also for the files of the folder.
    let metadata = match (launch.own_mounts, launch.alone) {
        (true, _) => true,
        // A single process may change no file, so there is nothing that it needs these calls for.
        (false, true) => false,
        (false, false) => mounts::make_read_only(&launch.write).is_ok(),
    };
    let files = landlock(launch);
    let allowed = Allowed {
        network: launch.network,
        metadata,
        signals: files.is_ok() && holds_signals_back(),
    };
    demanded(files)?;
    demanded(drop_capabilities())?;
    demanded(calls::restrict(allowed))
}

/// Gives up all rights of the superuser, which also in a namespace of its own would be more than a command needs.
fn drop_capabilities() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // An ordinary account may not, and has no way to use what stays in the set. An older kernel knows fewer of them.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| format!("rights cannot be given up: {error}"))
}

fn limit(launch: &Launch) -> Result<(), String> {
    let limits = launch.limits;
    limit_to(Resource::Core, 0)?;
    limit_to(Resource::Cpu, limits.cpu_s)?;
    if !launch.alone {
        limit_to(Resource::As, limits.memory_bytes)?;
    }
    limit_to(Resource::Fsize, limits.file_bytes)?;
    limit_to(Resource::Nofile, limits.open_files)?;
    limit_to(Resource::Nproc, running().saturating_add(limits.processes))
}

fn limit_to(resource: Resource, most: u64) -> Result<(), String> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(resource, limit).map_err(|error| format!("a limit cannot be set: {error}"))
}

/// How many processes and threads this user account runs.
fn running() -> u64 {
    let own = getuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let of_user = entries.flatten().filter(|entry| {
        let is_process = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && entry.metadata().is_ok_and(|found| found.uid() == own)
    });
    let tasks = of_user
        .map(|entry| fs::read_dir(entry.path().join("task")).map_or(1, Iterator::count) as u64);
    tasks.sum()
}

fn landlock(launch: &Launch) -> Result<(), String> {
    let failed =
        |error: landlock::RulesetError| format!("Landlock is not there as it is needed: {error}");
    // Before version 3 of Landlock a file could be truncated against the rules.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))
        .map_err(failed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .map_err(failed)?
        .scope(Scope::from_all(ABI::V6))
        .map_err(failed)?;
    if !launch.network {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(ABI::V4))
            .map_err(failed)?;
    }
    let status = ruleset
        .create()
        .map_err(failed)?
        .add_rules(path_beneath_rules(
            &launch.read,
            AccessFs::from_read(ABI::V5),
        ))
        .map_err(failed)?
        .add_rules(path_beneath_rules(
            &launch.write,
            AccessFs::from_all(ABI::V5) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        ))
        .map_err(failed)?
        .restrict_self()
        .map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("Landlock is not there".to_owned()),
        _ => Ok(()),
    }
}

/// Whether Landlock has a say over signals here, as it has since Linux 6.12.
fn holds_signals_back() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.scope(Scope::Signal).is_ok()
}

/// Gives up the rights that only further processes need, and becomes the program. It returns only with an error.
pub(super) fn become_alone(
    memory: &OsStr,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> String {
    let Some(memory) = memory.to_str().and_then(|memory| memory.parse().ok()) else {
        return "the bound on memory is not a number".to_owned();
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let limited = limit_to(Resource::As, memory);
    match limited.and_then(|()| calls::restrict_to_one_process()) {
        Err(reason) => reason,
        Ok(()) => format!(
            "{} cannot be started: {}",
            program.display(),
            command.exec()
        ),
    }
}

pub(super) fn start(
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> Result<ExitCode, String> {
    let asked_by = getppid();
    let started = Command::new(program).args(arguments).spawn();
    let mut child =
        started.map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    // Only the command holds the pipes, so that they end with it.
    close_own();
    thread::spawn(move || {
        while getppid() == asked_by {
            thread::sleep(LOOKS);
        }
        // Nobody reads the result.
        let _ = kill_current_process_group(Signal::KILL);
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    Ok(ExitCode::from(code as u8))
}

/// Closes stdin and stdout, which belong to the command.
fn close_own() {
    use std::io;
    if let Ok(null) = fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = io::stdout();
}
