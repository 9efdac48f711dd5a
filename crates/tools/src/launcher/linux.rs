//! Limits, Landlock and seccomp, and the command that is started with them.

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

use super::{Confinement, Launch, bubblewrap};

/// How often the launcher checks whether the program that started it is still there.
const LOOKS: Duration = Duration::from_millis(200);

pub(super) fn probe(asks_for_bubblewrap: bool) -> Confinement {
    // First, since it needs rights that are gone afterwards.
    let bubblewrap = asks_for_bubblewrap.then(bubblewrap::works);
    // The process ends after this check, so its rights do not matter.
    let nothing = Launch {
        required: true,
        ..Launch::default()
    };
    Confinement {
        rlimits: limit(&nothing).is_ok(),
        landlock: landlock(&nothing).is_ok(),
        seccomp: seccomp(false).is_ok(),
        bubblewrap,
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
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value);
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
