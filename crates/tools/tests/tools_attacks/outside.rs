//! Attempts to change files outside of the folder without opening them, and to reach processes outside: with mounts of a
//! command's own, with bubblewrap, and where the machine allows no new namespaces; as this account, and as `nobody` where
//! the tests run as root.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
};

use ghostlight_tools::{Terminal, TerminalSpec};
use serde_json::json;

use super::{
    call,
    terminal::{SECRET, Stage, all_end, run, running},
    tool,
};

const NOBODY: u32 = 65_534;
/// What leaves no new namespaces to what it starts.
const WITHOUT: &str = "/usr/bin/bwrap --unshare-user --disable-userns --dev-bind / / --";
const AS_NOBODY: &str = "/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups";

/// What starts a program as on a kernel whose Landlock has no say over signals.
const OLDER: &str = concat!(
    "/usr/bin/python3 ",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/tools_attacks/older_kernel.py"
);

/// The ways in which commands are started: a name, what starts the launcher, and whether with bubblewrap.
const WAYS: [(&str, &[&str], bool); 7] = [
    ("plain", &[], false),
    ("bubblewrap", &[], true),
    ("without namespaces", &[WITHOUT], false),
    ("as nobody", &[AS_NOBODY], false),
    ("as nobody without namespaces", &[AS_NOBODY, WITHOUT], false),
    ("on an older kernel", &[OLDER], false),
    (
        "on an older kernel without namespaces",
        &[WITHOUT, OLDER],
        false,
    ),
];

/// The start of a Python program that counts the attempts that reach something.
const BEGIN: &str = r#"
import ctypes, errno, fcntl, os, resource, socket, struct, sys
lib = ctypes.CDLL(None, use_errno=True)
def call(number, *given):
    if lib.syscall(number, *given) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
def attempt(name, what):
    try:
        what()
        print('REACHED', name)
    except OSError as error:
        assert error.errno in refusals, (name, error)
        print('refused', name)
out, server, me = os.environ['OUT'], int(os.environ['SERVER']), os.getuid()
buffer = ctypes.create_string_buffer(64)
readable, victim = os.environ['READABLE'], int(os.environ['VICTIM'])
refusals = [errno.EPERM, errno.EROFS, errno.ENOSYS, errno.EACCES, errno.EBADF]
if not os.path.exists(out): refusals += [errno.ENOENT, errno.ESRCH]
"#;

/// Of files outside, which belong to the account.
const METADATA: &str = r#"
path = os.open(out, os.O_PATH) if os.path.exists(out) else -1
byte = out.encode()
attempt('chmod', lambda: os.chmod(out, 0o666))
attempt('chmod by a link', lambda: os.chmod('out/secret.txt', 0o666))
attempt('chmod of a handle', lambda: os.chmod(f'/proc/self/fd/{path}', 0o666))
attempt('chmod of a folder', lambda: os.chmod(os.path.dirname(out), 0o777))
attempt('fchmodat2', lambda: call(452, -100, byte, 0o666, 0))
attempt('fchmodat2 of a handle', lambda: call(452, path, b'', 0o666, 0x1000))
attempt('chown', lambda: os.chown(out, me, -1))
attempt('lchown', lambda: os.lchown('out/secret.txt', me, -1))
attempt('fchownat', lambda: call(260, path, b'', me, -1, 0x1000))
attempt('utime', lambda: os.utime(out, (1, 1)))
attempt('utimes', lambda: call(235, byte, None))
attempt('futimesat', lambda: call(261, -100, byte, None))
attempt('old utime', lambda: call(132, byte, None))
attempt('times of a link', lambda: os.utime('out', (1, 1), follow_symlinks=False) or os.utime(out, (1, 1)))
attempt('setxattr', lambda: os.setxattr(out, 'user.note', b'x' * 100))
attempt('setxattrat', lambda: call(463, -100, byte, 0, b'user.note', buffer, 16))
attempt('removexattr', lambda: os.removexattr(out, 'user.kept'))
attempt('file_setattr', lambda: call(469, -100, byte, buffer, 24, 0))
attempt('a device', lambda: os.chmod('/dev/null', 0o666))
attempt('times of a device', lambda: os.utime('/dev/full', (1, 1)))
attempt('a file of the system', lambda: os.chmod(os.path.realpath('/usr/bin/env'), 0o755))
attempt('an open file of the system', lambda: os.fchmod(os.open('/usr/bin/env', os.O_RDONLY), 0o755))
file = os.open(readable, os.O_RDONLY)
attempt('times of an open file', lambda: os.utime(file, (1, 1)))
attempt('present times of an open file', lambda: os.utime(file))
refusals += [errno.ENOTTY, errno.EOPNOTSUPP]
attempt('flags', lambda: fcntl.ioctl(file, 0x40086602, struct.pack('l', 0x40)))
attempt('version', lambda: fcntl.ioctl(file, 0x40087602, struct.pack('l', 7)))
attempt('verity', lambda: fcntl.ioctl(file, 0x40806685, struct.pack('III116x', 1, 1, 4096)))
"#;

/// Signals to a process outside, which ran before the command.
const SIGNALS: &str = r#"
info = struct.pack('iii116x', 9, 0, -1)
attempt('kill', lambda: os.kill(victim, 9))
attempt('kill of a group', lambda: os.killpg(victim, 9))
attempt('tkill', lambda: call(200, victim, 9))
attempt('tgkill', lambda: call(234, victim, victim, 9))
attempt('rt_sigqueueinfo', lambda: call(129, victim, 9, info))
attempt('rt_tgsigqueueinfo', lambda: call(297, victim, victim, 9, info))
attempt('pidfd_send_signal', lambda: call(424, os.open(f'/proc/{victim}', os.O_PATH), 9, None, 0))
attempt('kill in 64 bits', lambda: call(62, ctypes.c_uint64(1 << 40 | victim), 9))
# The owner of a file is signalled when there is something to read.
for own in [
    lambda read: fcntl.fcntl(read, fcntl.F_SETOWN, victim),
    lambda read: fcntl.fcntl(read, fcntl.F_SETOWN, -victim),
    lambda read: fcntl.fcntl(read, 15, struct.pack('ii', 1, victim)),
    lambda read: fcntl.ioctl(read, 0x8901, struct.pack('i', victim)),
    lambda read: fcntl.ioctl(read, 0x8902, struct.pack('i', victim)),
]:
    read, write = socket.socketpair()
    try:
        own(read)
        fcntl.fcntl(read, fcntl.F_SETSIG, 9)
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    except OSError: pass
    write.send(b'x')
"#;

/// Of processes outside, and of what outlives a command.
const PROCESSES: &str = r#"
attempt('prlimit64', lambda: call(302, server, 7, None, buffer))
attempt('setpriority', lambda: os.setpriority(os.PRIO_PROCESS, server, 10))
attempt('setpriority of a group', lambda: os.setpriority(os.PRIO_PGRP, server, 10))
attempt('setpriority of a user', lambda: os.setpriority(os.PRIO_USER, me, 10))
attempt('sched_setaffinity', lambda: os.sched_setaffinity(server, os.sched_getaffinity(0)))
attempt('sched_setaffinity in 64 bits', lambda: call(203, ctypes.c_uint64(1 << 40 | server), 8, b'\xff' * 8))
attempt('sched_setscheduler', lambda: os.sched_setscheduler(server, os.SCHED_BATCH, os.sched_param(0)))
attempt('sched_setattr', lambda: call(314, server, buffer, 0))
attempt('ioprio_set', lambda: call(251, 1, server, 3 << 13))
attempt('ioprio_set of a user', lambda: call(251, 3, me, 3 << 13))
attempt('pidfd_open', lambda: os.pidfd_open(server))
attempt('process_mrelease', lambda: call(448, 0, 0))
attempt('migrate_pages', lambda: call(256, server, 0, None, None))
attempt('kcmp', lambda: call(312, server, server, 0, 0, 0))
attempt('shmget', lambda: call(29, 0x6768, 4096, 0o1600))
attempt('msgget', lambda: call(68, 0x6768, 0o1600))
attempt('semget', lambda: call(64, 0x6768, 1, 0o1600))
attempt('mq_open', lambda: call(240, b'ghostlight', 0o102, 0o600, None))
attempt('fanotify_init', lambda: call(300, 0x200, 0))
attempt('fspick', lambda: call(433, -100, b'.', 0))
attempt('open_tree', lambda: call(428, -100, b'.', 0))
attempt('open_tree_attr', lambda: call(467, -100, b'.', 0, None, 0))
attempt('quotactl_fd', lambda: call(443, 0, 0, 0, None))
attempt('statmount', lambda: call(457, None, buffer, 64, 0))
attempt('of a later kernel', lambda: call(600))
attempt('under an x32 number', lambda: call(0x40000000 + 90, out.encode(), 0o666))
attempt('mknod', lambda: call(133, b'null', 0o20666, 1 << 8 | 3))
attempt('mknodat', lambda: call(259, -100, b'null', 0o20666, 1 << 8 | 3))
attempt('io_uring_setup', lambda: call(425, 1, buffer))
attempt('unix socket', lambda: socket.socket(socket.AF_UNIX))
attempt('vsock', lambda: socket.socket(socket.AF_VSOCK))
attempt('setuid', lambda: os.chmod('a.txt', 0o4755))
attempt('setgid', lambda: os.fchmod(os.open('a.txt', os.O_RDWR), 0o2755))
attempt('setuid from the beginning', lambda: os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755))
attempt('setuid without a name', lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755))
attempt('openat2', lambda: call(437, -100, b'made', buffer, 24))
"#;

/// What programs do in their own folder and to themselves.
const OWN: &str = r#"
import mmap, signal, subprocess, tempfile, threading
child = subprocess.Popen(['/usr/bin/sleep', '60'])
child.terminate()
assert child.wait() == -signal.SIGTERM
signal.raise_signal(signal.SIGURG)
signal.pthread_kill(threading.get_ident(), signal.SIGURG)
os.kill(0, 0); os.killpg(0, 0); os.kill(os.getpid(), 0)
os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
threading.Thread(target=lambda: None).start()
assert os.waitpid(os.posix_spawn('/usr/bin/true', ['true'], {}), 0)[1] == 0
with tempfile.TemporaryFile() as file: file.write(b'x' * 10000)
a, b = socket.socketpair()
os.rename('a.txt', 'b.txt'); os.link('b.txt', 'c.txt'); os.symlink('b.txt', 'd.txt'); os.mkdir('e', 0o755)
os.truncate('b.txt', 1); os.unlink('c.txt')
print('OWN')
"#;

/// What programs change about the files of their folder, where that can be told from the others.
const OWN_METADATA: &str = r#"
import shutil, tarfile
os.chmod('b.txt', 0o640); os.utime('b.txt', (5, 5)); os.chown('b.txt', me, os.getgid()); os.chmod('sub', 0o700)
os.utime(os.open('b.txt', os.O_RDWR)); os.utime('b.txt', (5, 5))
shutil.copy2('b.txt', 'sub/f.txt')
assert os.stat('sub/f.txt').st_mode & 0o777 == 0o640 and os.stat('sub/f.txt').st_mtime == 5
try: os.setxattr('b.txt', 'user.note', b'x')
except OSError as error: assert error.errno == errno.ENOTSUP, error
print('OWN METADATA')
"#;

/// The settings of commands that are started in one of the ways; `None` where this machine has it not.
fn settings(stage: &Stage, wrappers: &[&str]) -> Option<TerminalSpec> {
    let all = stage.root.parent().unwrap();
    let secret = all.join("secret.txt");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let readable = all.join("readable.txt");
    fs::write(&readable, "readable").unwrap();
    let mut settings = stage.settings(json!({ "python3": true, "sleep": true }));
    settings.read.push(readable.clone());
    let launcher = all.join("launcher");
    fs::create_dir_all(all).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ghostlight-launcher"), &launcher).unwrap();
    settings.launcher = Some(launcher.clone());
    let is_there = |wrapper: &str| {
        let mut words = wrapper.split(' ').chain(["/bin/true"]);
        let program = words.next().unwrap();
        let tried = Command::new(program).args(words).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    if !wrappers.iter().all(|wrapper| is_there(wrapper)) {
        return None;
    }
    if !wrappers.is_empty() {
        let script = all.join("wrapped");
        let text = format!(
            "#!/bin/sh\nexec {} {} \"$@\"\n",
            wrappers.join(" "),
            launcher.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        settings.launcher = Some(script);
    }
    if wrappers.contains(&AS_NOBODY) {
        fs::set_permissions(all, fs::Permissions::from_mode(0o755)).unwrap();
        for path in [
            &secret,
            &readable,
            &stage.root,
            &stage.root.join("a.txt"),
            &stage.root.join("sub"),
        ] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let environment = [
        ("OUT", secret.display().to_string()),
        ("READABLE", readable.display().to_string()),
        ("SERVER", std::process::id().to_string()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    settings.env.extend(environment);
    Some(settings)
}

/// A process outside, which ends with the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of the account as which the commands run, in a group of its own.
fn victim(wrappers: &[&str]) -> Victim {
    let as_account = wrappers.iter().filter(|wrapper| **wrapper == AS_NOBODY);
    let mut words = as_account
        .flat_map(|wrapper| wrapper.split(' '))
        .chain(["/usr/bin/sleep", "600"]);
    let program = words.next().unwrap();
    let started = Command::new(program)
        .args(words)
        .stdout(Stdio::null())
        .process_group(0)
        .spawn();
    Victim(started.unwrap())
}

/// The output of a Python program in the folder.
async fn python(terminal: &Terminal, root: &Path, parts: &[&str]) -> String {
    fs::write(root.join("attack.py"), parts.concat()).unwrap();
    run(terminal, "python3", &["attack.py"]).await.unwrap()
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn nothing_outside_is_changed_or_reached_in_any_way_of_starting() {
    for (way, wrappers, bubblewrap) in WAYS {
        let stage = Stage::with_bubblewrap(bubblewrap);
        let mut victim = victim(wrappers);
        let opened = settings(&stage, wrappers).map(|mut settings| {
            let number = ("VICTIM".to_owned(), victim.0.id().to_string());
            settings.env.extend([number]);
            Terminal::open(settings)
        });
        let Some(Ok(terminal)) = opened else {
            let asked_for = std::env::var_os("GHOSTLIGHT_BUBBLEWRAP").is_some();
            assert!(!(asked_for && bubblewrap), "{opened:?}");
            println!("left out, since this machine has it not: {way}");
            continue;
        };
        let outside =
            ["secret.txt", "readable.txt"].map(|name| stage.root.parent().unwrap().join(name));
        let known = || {
            outside.clone().map(|path| {
                let found = fs::metadata(path).unwrap();
                (
                    found.mode(),
                    found.uid(),
                    found.mtime(),
                    found.ctime(),
                    found.ctime_nsec(),
                )
            })
        };
        let before = known();
        let confinement = terminal.confinement().clone();
        let without = wrappers.contains(&WITHOUT);
        assert!(!(without && confinement.mounts), "{way}: {confinement}");
        let mut told = python(
            &terminal,
            &stage.root,
            &[BEGIN, METADATA, PROCESSES, SIGNALS, OWN],
        )
        .await;
        assert!(
            !told.contains("REACHED") && told.contains("\nOWN"),
            "{way}: {told}"
        );
        let attempts = [METADATA, PROCESSES, SIGNALS]
            .concat()
            .matches("attempt(")
            .count();
        assert_eq!(told.matches("refused ").count(), attempts, "{way}: {told}");
        assert_eq!(before, known(), "{way}");
        assert_eq!(fs::read_to_string(&outside[0]).unwrap(), SECRET);
        assert_eq!(victim.0.try_wait().unwrap(), None, "{way}");
        let about = tool(&terminal, "run_command")
            .definition()
            .description
            .clone();
        let can_tell_apart = confinement.mounts || bubblewrap;
        assert_eq!(
            about.contains("cannot change modes"),
            !can_tell_apart,
            "{way}: {about}"
        );
        let changing = [BEGIN, OWN_METADATA].concat();
        if can_tell_apart {
            told = python(&terminal, &stage.root, &[&changing]).await;
            assert!(told.contains("OWN METADATA"), "{way}: {told}");
        } else {
            let told = run(
                &terminal,
                "python3",
                &["-c", "import os; os.chmod('b.txt', 0o640)"],
            );
            let told = told.await.unwrap_err();
            assert!(told.contains("Operation not permitted"), "{way}: {told}");
        }
    }
}

#[tokio::test]
async fn a_command_has_no_capabilities() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "sleep": true }));
    settings.processes = 1;
    let terminal = Terminal::open(settings).unwrap();
    let sleep = json!({ "command": "sleep", "args": ["4731.01"] });
    call(&tool(&terminal, "start_process"), sleep)
        .await
        .unwrap();
    let is_sleep = |process: &Path| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    let process = loop {
        match running("4731.01")
            .into_iter()
            .find(|process| is_sleep(process))
        {
            Some(process) => break process,
            None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    let status = fs::read_to_string(process.join("status")).unwrap();
    for rights in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            status.contains(&format!("{rights}:\t0000000000000000")),
            "{status}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    drop(terminal);
    all_end("4731.01").await;
}

#[tokio::test]
async fn programs_that_change_modes_and_times_work_in_the_folder() {
    let stage = Stage::new();
    let terminal = Terminal::open(stage.settings(json!({ "sh": true }))).unwrap();
    if !terminal.confinement().mounts {
        println!("left out, since this machine allows no new namespaces");
        return;
    }
    let scripts = [
        "command -v git || exit 0; git init -q here && cd here && git config user.name n && git config user.email a@b.c \
         && echo x > a && git add a && git commit -qm one && git clone -q . ../there",
        "mkdir from && echo x > from/a && chmod 751 from/a && tar cf x.tar from && mkdir to && cd to && tar xpf ../x.tar \
         && test \"$(stat -c %a from/a)\" = 751",
        "cp -p a.txt sub/b.txt && touch -d 2001-01-01 sub/b.txt && install -m 700 a.txt sub/c && mkdir -m 700 sub/d",
        "printf '#!/bin/sh\\necho made it run\\n' > run.sh && chmod +x run.sh && ./run.sh",
        "(echo 1; sleep 0.01; echo 2) | sort | xargs -n1 echo > /dev/null; x=$(mktemp) && rm \"$x\"; nice -n 1 true",
        "timeout 5 sleep 0.01; sleep 5 & kill $!; wait $! || test $? = 143",
    ];
    for script in scripts {
        fs::write(stage.root.join("script"), script).unwrap();
        let told = run(&terminal, "sh", &["-e", "script"]).await;
        assert!(told.is_ok(), "{script}: {told:?}");
    }
}

/// The whole machine is looked through, and what can be opened is what is listed here.
#[tokio::test]
async fn what_can_be_read_is_a_list() {
    for bubblewrap in [false, true] {
        let stage = Stage::with_bubblewrap(bubblewrap);
        let Ok(terminal) = Terminal::open(stage.settings(json!({ "python3": true }))) else {
            println!("left out, since this machine has no bubblewrap");
            continue;
        };
        let look = r#"
import os
def look(path):
    try:
        for name in os.listdir(path) if os.path.isdir(path) else [os.close(os.open(path, os.O_RDONLY))]: pass
        print('READ', path)
    except OSError: pass
look('/')
for folder in os.environ['FOLDERS'].split(): look(folder)
for path in os.environ['PATHS'].split(): look(path)
"#;
        let entries = |folder: &str| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path().display().to_string());
            paths.filter(|path| !path.contains(' ')).collect::<Vec<_>>()
        };
        let mut settings = stage.settings(json!({ "python3": true }));
        let own = std::env::current_dir().unwrap().display().to_string();
        let folders = [
            "/",
            "/usr",
            "/usr/local",
            "/etc",
            "/etc/ssl",
            "/etc/pki",
            "/var",
            "/home",
            "/root",
            "/run",
            "/dev",
        ];
        let all = folders.map(entries).concat();
        let others = [
            "/etc/ssl/private",
            "/usr/local/etc",
            "/etc/ssh",
            "/proc/1",
            "/tmp",
            &own,
        ];
        settings.env.insert("FOLDERS".to_owned(), all.join(" "));
        settings.env.insert("PATHS".to_owned(), others.join(" "));
        drop(terminal);
        let terminal = Terminal::open(settings).unwrap();
        let told = python(&terminal, &stage.root, &[look]).await;
        let read: Vec<&str> = told
            .lines()
            .filter_map(|line| line.strip_prefix("READ "))
            .collect();
        assert!(read.contains(&"/usr/bin"), "{told}");
        let mut known = vec![
            "/bin",
            "/lib",
            "/lib32",
            "/lib64",
            "/sbin",
            "/etc/ssl/certs",
            "/etc/ssl/openssl.cnf",
            "/etc/ssl/cert.pem",
        ];
        known.extend([
            "/dev/null",
            "/dev/zero",
            "/dev/full",
            "/dev/random",
            "/dev/urandom",
            // The command's own pipes.
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
        ]);
        for path in &read {
            // Some of what stands below `/etc` is a link to what is installed.
            let real = Path::new(path).canonicalize().unwrap_or_default();
            let of_system = real.starts_with("/usr") && !real.starts_with("/usr/local/etc");
            let name = path.strip_prefix("/etc/").unwrap_or("");
            let of_settings = [
                "alternatives",
                "ca-certificates",
                "group",
                "host.conf",
                "hosts",
                "ld.so.cache",
                "ld.so.conf",
                "ld.so.conf.d",
                "localtime",
                "mime.types",
                "nsswitch.conf",
                "passwd",
                "protocols",
                "resolv.conf",
                "services",
            ];
            // In namespaces a folder above one of these is there, and empty but for it.
            let is_above = bubblewrap && !fs::metadata(path).unwrap().is_file();
            assert!(
                of_system || of_settings.contains(&name) || known.contains(path) || is_above,
                "{path}"
            );
        }
    }
}
