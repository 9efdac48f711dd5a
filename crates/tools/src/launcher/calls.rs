//! The system calls of a command: those that there are for it, and those that are refused.
//!
//! A filter of system calls sees numbers and not what they point to: it cannot tell a file in the folder from one outside.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// The calls that a filter takes, by their numbers: each call that fits one of the rules, or any where there is no rule.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The numbers of system calls by their names.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// The system calls that there are for commands. All others are as if the kernel had none of that number, so those that later
/// kernels add are refused until somebody has judged them. Left out are those that reach other processes (`ptrace`,
/// `pidfd_open`), that leave something behind when a command has ended (`shmget`), that a filter cannot look into (`openat2`,
/// `io_uring_setup`, `clone3`), and those of administrators (`mount`, `mknod`, `quotactl`).
#[rustfmt::skip]
const THERE: &[i64] = calls! {
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres SYS_clock_gettime
    SYS_clock_nanosleep SYS_clone SYS_close SYS_close_range SYS_connect SYS_copy_file_range SYS_dup SYS_dup3
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit
    SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat
    SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr
    SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_mempolicy
    SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups
    SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid
    SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday
    SYS_getuid SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel
    SYS_io_destroy SYS_io_getevents SYS_io_setup SYS_io_submit SYS_ioctl SYS_ioprio_get SYS_ioprio_set SYS_kill
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat SYS_listen
    SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr SYS_madvise SYS_mbind SYS_membarrier
    SYS_memfd_create SYS_mincore SYS_mkdirat SYS_mlock SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mremap
    SYS_mseal SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_nanosleep SYS_newfstatat SYS_openat
    SYS_personality SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll
    SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2
    SYS_read SYS_readahead SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages
    SYS_removexattr SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending
    SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getaffinity
    SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity
    SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_sendfile
    SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_mempolicy SYS_set_robust_list SYS_set_tid_address SYS_setfsgid
    SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid
    SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shutdown
    SYS_sigaltstack SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice SYS_statfs SYS_statx SYS_symlinkat SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create SYS_timer_delete
    SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
    SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice
    SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// Those that only this processor has: each has a successor above.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD: &[i64] = calls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_wait
    SYS_eventfd SYS_fork SYS_futimesat SYS_getdents SYS_getpgrp SYS_inotify_init SYS_lchown SYS_link SYS_lstat
    SYS_mkdir SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_signalfd
    SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

/// Its number is the same on every processor, and `libc` has it for some only.
const FCHMODAT2: i64 = 452;
/// The commands of `ioctl` that change nothing about a file that is open for reading alone: those of terminals, of open files
/// and of sockets. File systems have others of their own, which change attributes, seal a file or make folders in folders.
#[rustfmt::skip]
const HARMLESS_COMMANDS: &[u64] = &[
    0x5401, 0x5402, 0x5403, 0x5404, 0x802c_542a, // TCGETS TCSETS TCSETSW TCSETSF TCGETS2
    0x540f, 0x5410, 0x5413, 0x5414,              // TIOCGPGRP TIOCSPGRP TIOCGWINSZ TIOCSWINSZ
    0x541b, 0x5421, 0x5450, 0x5451, 0x5452,      // FIONREAD FIONBIO FIONCLEX FIOCLEX FIOASYNC
    0x4004_9409, 0x4020_940d, 0xc020_660b,       // FICLONE FICLONERANGE FS_IOC_FIEMAP
    2, 0x5460, 0x8008_6601, 0x801c_581f,         // FIGETBSZ FIOQSIZE FS_IOC_GETFLAGS FS_IOC_FSGETXATTR
    0x8905, 0x8910, 0x8912, 0x8913, 0x8915,      // SIOCATMARK SIOCGIFNAME SIOCGIFCONF SIOCGIFFLAGS SIOCGIFADDR
    0x8919, 0x891b, 0x8921, 0x8927, 0x8933,      // SIOCGIFBRDADDR SIOCGIFNETMASK SIOCGIFMTU SIOCGIFHWADDR SIOCGIFINDEX
];

/// The commands of `ioctl` and of `fcntl` that say which process a file signals: `FIOSETOWN`, `SIOCSPGRP`, `F_SETOWN`,
/// `F_SETOWN_EX`.
const SET_OWNER: [(i64, u64); 4] = [
    (libc::SYS_ioctl, 0x8901),
    (libc::SYS_ioctl, 0x8902),
    (libc::SYS_fcntl, 8),
    (libc::SYS_fcntl, 15),
];

/// The system calls that send a signal to the process or thread of a number, which is their first argument. A handle of a
/// process is one of the command's own children, since there is no `pidfd_open`.
#[rustfmt::skip]
const SIGNALS: &[i64] = calls! {
    SYS_kill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_tgkill SYS_tkill
};

/// The system calls that change what is known about a file beside its content. The times of an open file are among them: its
/// owner sets them also where it is open for reading alone.
#[rustfmt::skip]
const METADATA: &[i64] = calls! {
    SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_fremovexattr SYS_fsetxattr SYS_lremovexattr SYS_lsetxattr
    SYS_removexattr SYS_setxattr SYS_utimensat
};
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_METADATA: &[i64] = calls! {
    SYS_chmod SYS_chown SYS_futimesat SYS_lchown SYS_utime SYS_utimes
};
#[cfg(not(target_arch = "x86_64"))]
const OLD_METADATA: &[i64] = &[];

/// The permissions of a command beside its files and limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Whether it may open sockets of the internet.
    pub(super) network: bool,
    /// Whether it may change the modes, owners, times and attributes of files. A filter cannot tell whose files these are.
    pub(super) metadata: bool,
    /// Whether Landlock holds signals to processes outside back, so that the filter does not have to.
    pub(super) signals: bool,
}

/// Leaves this process and its descendants the system calls that are allowed.
pub(super) fn restrict(allowed: Allowed) -> Result<(), String> {
    let mut rules: Rules = Rules::new();
    for call in [libc::SYS_setsid, libc::SYS_setpgid] {
        rules.insert(call, Vec::new());
    }
    // Sockets of this machine's other services would lead out of the folder, network or not.
    let internet = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other = internet.map(|family| number(0, SeccompCmpOp::Ne, family as u64));
    rules.insert(
        libc::SYS_socket,
        match allowed.network {
            true => vec![rule(other)?],
            false => Vec::new(),
        },
    );
    rules.insert(libc::SYS_clone, new_namespaces()?);
    for (call, condition) in of_others() {
        rules.entry(call).or_default().push(rule([condition])?);
    }
    for (call, conditions) in privileged_modes() {
        rules.entry(call).or_default().push(rule(conditions)?);
    }
    if !allowed.metadata {
        for call in METADATA.iter().chain(OLD_METADATA).chain(&[FCHMODAT2]) {
            rules.insert(*call, Vec::new());
        }
        let others = HARMLESS_COMMANDS.iter();
        let others = others.map(|command| number(1, SeccompCmpOp::Ne, *command));
        rules.insert(libc::SYS_ioctl, vec![rule(others)?]);
    }
    if !allowed.signals {
        for call in SIGNALS {
            rules.insert(*call, to_earlier_processes()?);
        }
        for (call, command) in SET_OWNER {
            let sets = rule([number(1, SeccompCmpOp::Eq, command)])?;
            rules.entry(call).or_default().push(sets);
        }
    }
    refuse(rules)?;
    let there = THERE.iter().chain(OLD).chain(&[FCHMODAT2]);
    let there = there.map(|call| (*call, Vec::new())).collect();
    // Libraries take this error for an older kernel, and fall back to older calls.
    let otherwise = SeccompAction::Errno(libc::ENOSYS as u32);
    apply(there, otherwise, SeccompAction::Allow)
}

/// Takes away what only a process needs that starts others.
pub(super) fn restrict_to_one_process() -> Result<(), String> {
    let calls = ALONE.iter().chain(OLD_STARTS);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    // It may start threads of its own.
    let thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    rules.insert(libc::SYS_clone, vec![rule([number(0, thread, 0)])?]);
    // It may read its own limits, but set none.
    rules.insert(libc::SYS_prlimit64, vec![rule([is_given(2)])?]);
    refuse(rules)
}

/// System calls that start or signal a process, or change its limits and its share of the processor.
#[rustfmt::skip]
const ALONE: &[i64] = calls! {
    SYS_ioprio_set SYS_kill SYS_pidfd_send_signal SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sched_setaffinity
    SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_setpriority SYS_setrlimit SYS_tgkill SYS_tkill
};

#[cfg(target_arch = "x86_64")]
const OLD_STARTS: &[i64] = calls! { SYS_fork SYS_vfork };
#[cfg(not(target_arch = "x86_64"))]
const OLD_STARTS: &[i64] = &[];

/// Calls that change a process by its number. A command may change its own, which is the number 0.
fn of_others() -> impl Iterator<Item = (i64, Option<SeccompCondition>)> {
    let own = |call, argument, own| (call, number(argument, SeccompCmpOp::Ne, own));
    [
        own(libc::SYS_prlimit64, 0, 0),
        own(libc::SYS_sched_setaffinity, 0, 0),
        own(libc::SYS_sched_setattr, 0, 0),
        own(libc::SYS_sched_setparam, 0, 0),
        own(libc::SYS_sched_setscheduler, 0, 0),
        // The first argument says that the second one is the number of a process.
        own(libc::SYS_setpriority, 0, libc::PRIO_PROCESS.into()),
        own(libc::SYS_setpriority, 1, 0),
        own(libc::SYS_ioprio_set, 0, 1),
        own(libc::SYS_ioprio_set, 1, 0),
    ]
    .into_iter()
}

/// Calls with a mode that gives whoever runs a file the rights of its owner or group: also as root such a file could be
/// left in the folder for another account to run.
fn privileged_modes() -> impl Iterator<Item = (i64, Vec<Option<SeccompCondition>>)> {
    let has = |argument, bits: u32| {
        let bits = u64::from(bits);
        number(argument, SeccompCmpOp::MaskedEq(bits), bits)
    };
    let changes = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
    ];
    let opens = [
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ];
    [libc::S_ISUID, libc::S_ISGID]
        .into_iter()
        .flat_map(move |bit| {
            let changed = changes.into_iter();
            let changed = changed.map(move |(call, mode)| (call, vec![has(mode, bit)]));
            // Without one of these flags there is no mode behind them.
            let makes = [libc::O_CREAT, libc::O_TMPFILE].map(i32::cast_unsigned);
            let opened = opens.into_iter().flat_map(move |(call, flags)| {
                makes.map(|makes| (call, vec![has(flags, makes), has(flags + 1, bit)]))
            });
            changed.chain(opened)
        })
}

/// Signals to processes whose numbers are not above this one's, and to groups by their numbers. A filter cannot tell a
/// command's children from other processes, but those that ran before have lower numbers, until numbers begin again.
fn to_earlier_processes() -> Result<Vec<SeccompRule>, String> {
    let earlier = [
        number(0, SeccompCmpOp::Le, std::process::id().into()),
        // The group of the process that sends it, which a command cannot leave.
        number(0, SeccompCmpOp::Ne, 0),
    ];
    let group = number(0, SeccompCmpOp::Gt, i32::MAX as u64);
    Ok(vec![rule(earlier)?, rule([group])?])
}

fn new_namespaces() -> Result<Vec<SeccompRule>, String> {
    let flags = [
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWUTS,
    ];
    let new = flags.map(|flag| flag as u64);
    new.into_iter()
        .map(|flag| rule([number(0, SeccompCmpOp::MaskedEq(flag), flag)]))
        .collect()
}

/// A condition on an argument of 32 bits; the kernel does not look at the others.
fn number(argument: u8, operator: SeccompCmpOp, value: u64) -> Option<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()
}

/// The condition that an argument is not a null pointer.
fn is_given(argument: u8) -> Option<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0).ok()
}

/// The calls that meet all of these conditions.
fn rule(
    conditions: impl IntoIterator<Item = Option<SeccompCondition>>,
) -> Result<SeccompRule, String> {
    let conditions: Option<Vec<SeccompCondition>> = conditions.into_iter().collect();
    let rule = conditions.and_then(|conditions| SeccompRule::new(conditions).ok());
    rule.ok_or_else(|| "a rule over system calls is invalid".to_owned())
}

/// Makes these system calls fail from now on.
fn refuse(rules: Rules) -> Result<(), String> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    apply(rules, SeccompAction::Allow, refused)
}

/// Applies a filter: what happens with the calls that its rules do not take, and with those that they take.
fn apply(rules: Rules, otherwise: SeccompAction, taken: SeccompAction) -> Result<(), String> {
    let arch = std::env::consts::ARCH.try_into();
    let arch = arch.map_err(|_| "seccomp knows no such processor".to_owned())?;
    let failed = |error: &dyn std::fmt::Display| format!("seccomp cannot be used: {error}");
    let filter = SeccompFilter::new(rules, otherwise, taken, arch);
    let filter = filter.map_err(|error| failed(&error))?;
    let program: BpfProgram = filter
        .try_into()
        .map_err(|error: seccompiler::BackendError| failed(&error))?;
    apply_filter(&program).map_err(|error| failed(&error))
}
