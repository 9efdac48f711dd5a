//! The launcher: a small program between an agent and a command, which gives up rights and then starts the command.
//!
//! Limits, Landlock and seccomp apply to the process that requests them and to all its descendants, so they are
//! requested in a process of its own. The launcher stays as the parent of the command, and ends it with all its
//! descendants when the program that started the launcher is gone.
//!
//! The launcher is the program `ghostlight-launcher`, or any program whose `main` begins with [`run`].

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::OnceLock,
};

use serde::{Deserialize, Serialize};

/// The first argument of a launcher.
const ARGUMENT: &str = "--ghostlight-launch";
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
    /// seccomp: no network unless it is allowed, no new privileges, no other namespaces, and no way out of the process
    /// group that is ended as a whole.
    pub seccomp: bool,
    /// Limits of processor time, memory, files and processes.
    pub rlimits: bool,
}

impl Confinement {
    /// Whether the machine has all of them.
    pub fn is_whole(&self) -> bool {
        self.landlock && self.seccomp && self.rlimits
    }
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("Landlock", self.landlock),
            ("seccomp", self.seccomp),
            ("rlimits", self.rlimits),
        ];
        let named = |there: bool| {
            let names: Vec<&str> = parts
                .iter()
                .filter(|(_, is)| *is == there)
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

/// The arguments of a launcher before those of the command.
pub(crate) fn arguments(launch: &Launch) -> Result<[String; 2], serde_json::Error> {
    Ok([ARGUMENT.to_owned(), serde_json::to_string(launch)?])
}

/// The arguments that ask a launcher for the machine's means.
pub(crate) fn probing() -> [&'static str; 2] {
    [ARGUMENT, "probe"]
}

#[cfg(not(target_os = "linux"))]
fn asked(_: Vec<std::ffi::OsString>) -> Result<ExitCode, String> {
    Err("commands are confined on Linux only".to_owned())
}

#[cfg(target_os = "linux")]
fn asked(arguments: Vec<std::ffi::OsString>) -> Result<ExitCode, String> {
    let mut arguments = arguments.into_iter();
    let wanted = arguments.next().ok_or("it is not said what is wanted")?;
    if wanted == "probe" {
        use std::io::Write as _;
        let said = serde_json::to_string(&linux::probe()).map_err(|error| error.to_string())?;
        writeln!(std::io::stdout(), "{said}").map_err(|error| error.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = wanted.to_str().ok_or("what is wanted is no text")?;
    let program = arguments.next().ok_or("there is no command")?;
    if wanted == ALONE {
        let (memory, program) = (program, arguments.next().ok_or("there is no command")?);
        return Err(linux::become_alone(&memory, &program, arguments));
    }
    let mut launch: Launch = serde_json::from_str(wanted).map_err(|error| error.to_string())?;
    if !launch.alone {
        linux::confine(&launch)?;
        return linux::start(&program, arguments);
    }
    // The launcher has to start a process itself, so a second launcher gives up that right and becomes the command. The
    // same holds for memory: a program with an allocator of its own reserves more than a command may have.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
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

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::BTreeMap,
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
        Resource, Rlimit, Signal, getpgrp, getppid, getuid, kill_process_group, setrlimit,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, apply_filter,
    };

    use super::{Confinement, Launch};

    /// How often the launcher checks whether the program that started it is still there.
    const LOOKS: Duration = Duration::from_millis(200);

    pub(super) fn probe() -> Confinement {
        // The process ends after this check, so its rights do not matter.
        let nothing = Launch {
            required: true,
            ..Launch::default()
        };
        Confinement {
            rlimits: limit(&nothing).is_ok(),
            landlock: landlock(&nothing).is_ok(),
            seccomp: seccomp(false).is_ok(),
        }
    }

    pub(super) fn confine(launch: &Launch) -> Result<(), String> {
        for confined in [limit(launch), landlock(launch), seccomp(launch.network)] {
            if let Err(reason) = confined
                && launch.required
            {
                return Err(format!(
                    "{reason}; set `confinement: best_effort` to go without it"
                ));
            }
        }
        Ok(())
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
        let failed = |error: landlock::RulesetError| {
            format!("Landlock is not there as it is needed: {error}")
        };
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
                AccessFs::from_all(ABI::V5),
            ))
            .map_err(failed)?
            .restrict_self()
            .map_err(failed)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err("Landlock is not there".to_owned()),
            _ => Ok(()),
        }
    }

    fn seccomp(network: bool) -> Result<(), String> {
        // Libraries fall back to `clone`, whose flags can be checked.
        refuse(
            libc::ENOSYS,
            with_x32([(libc::SYS_clone3, Vec::new())].into()),
        )?;
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        if !network {
            rules.insert(libc::SYS_socket, Vec::new());
        }
        let flags = [
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWNET,
            libc::CLONE_NEWNS,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWUTS,
        ];
        let new_namespaces = flags.into_iter().map(|flag| {
            let flag = flag as u64;
            let condition = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Qword,
                SeccompCmpOp::MaskedEq(flag),
                flag,
            );
            condition.and_then(|condition| SeccompRule::new(vec![condition]))
        });
        let new_namespaces: Result<Vec<SeccompRule>, _> = new_namespaces.collect();
        rules.insert(
            libc::SYS_clone,
            new_namespaces.map_err(|error| error.to_string())?,
        );
        refuse(libc::EPERM, with_x32(rules))
    }

    /// Makes these system calls fail with an error from now on.
    fn refuse(error: i32, rules: BTreeMap<i64, Vec<SeccompRule>>) -> Result<(), String> {
        let arch = std::env::consts::ARCH.try_into();
        let arch = arch.map_err(|_| "seccomp knows no such processor".to_owned())?;
        let action = SeccompAction::Errno(error as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
        let failed = |error: &dyn std::fmt::Display| format!("seccomp cannot be used: {error}");
        let filter = filter.map_err(|error| failed(&error))?;
        let program: BpfProgram = filter
            .try_into()
            .map_err(|error: seccompiler::BackendError| failed(&error))?;
        apply_filter(&program).map_err(|error| failed(&error))
    }

    /// Gives up the rights that only further processes need, and becomes the program. It returns only with an error.
    pub(super) fn become_alone(
        memory: &OsStr,
        program: &OsStr,
        arguments: impl Iterator<Item = OsString>,
    ) -> String {
        let rule = |argument, operator, value| {
            let condition =
                SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value);
            condition.and_then(|condition| SeccompRule::new(vec![condition]))
        };
        let thread = libc::CLONE_THREAD as u64;
        let conditions = [
            // It may start threads of its own.
            (libc::SYS_clone, rule(0, SeccompCmpOp::MaskedEq(thread), 0)),
            // It may read its own limits, but set none: the superuser could raise them.
            (libc::SYS_prlimit64, rule(0, SeccompCmpOp::Ne, 0)),
            (libc::SYS_prlimit64, rule(2, SeccompCmpOp::Ne, 0)),
        ];
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            OF_OTHERS.iter().map(|call| (*call, Vec::new())).collect();
        for (call, rule) in conditions {
            match rule {
                Ok(rule) => rules.entry(call).or_default().push(rule),
                Err(error) => return error.to_string(),
            }
        }
        let Some(memory) = memory.to_str().and_then(|memory| memory.parse().ok()) else {
            return "the bound on memory is no number".to_owned();
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let limited = limit_to(Resource::As, memory);
        match limited.and_then(|()| refuse(libc::EPERM, with_x32(rules))) {
            Err(reason) => reason,
            Ok(()) => format!(
                "{} cannot be started: {}",
                program.display(),
                command.exec()
            ),
        }
    }

    /// System calls that reach other processes of the user, or leave something that outlives the process.
    const OF_OTHERS: &[i64] = &[
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_setrlimit,
        libc::SYS_setpriority,
        libc::SYS_ioprio_set,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        libc::SYS_shmget,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_mq_open,
    ];

    /// The same calls under the numbers of the processor's other calling convention (x32).
    fn with_x32(rules: BTreeMap<i64, Vec<SeccompRule>>) -> BTreeMap<i64, Vec<SeccompRule>> {
        if cfg!(target_arch = "x86_64") {
            let other = rules
                .iter()
                .map(|(call, rules)| (call | 0x4000_0000, rules.clone()));
            return rules.clone().into_iter().chain(other).collect();
        }
        rules
    }

    /// System calls that no command needs: leaving the process group that is ended as a whole, other namespaces and
    /// roots, the memory and keys of others, the kernel itself, and ways around these rules.
    const REFUSED: &[i64] = &[
        libc::SYS_setsid,
        libc::SYS_setpgid,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_mount_setattr,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_mknodat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_userfaultfd,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_syslog,
        libc::SYS_vhangup,
    ];

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
            let _ = kill_process_group(getpgrp(), Signal::KILL);
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
}
