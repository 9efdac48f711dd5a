//! A view of all files in which those that a command may not change are read-only.
//!
//! Landlock says what can be opened, and has no say over modes, owners, times and attributes of files. In a namespace of its
//! own, whose mounts are read-only but for the folder, changing those fails as well, and within the folder it works.

use std::{
    env, fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    io::Errno,
    mount::{MountFlags, mount_bind_recursive, mount_remount},
    process::{getgid, getuid},
    thread::UnshareFlags,
};

/// Makes all files read-only for this process and its descendants, but for those at and below these paths. Many containers
/// allow no new namespaces, so this fails there.
pub(super) fn make_read_only(but: &[PathBuf]) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("mounts cannot be made read-only: {error}");
    own_namespaces().map_err(|error| failed(&error))?;
    // Writing to a device does not change the file system that it is on.
    let writable = but.iter().filter_map(|path| path.canonicalize().ok());
    let writable = writable.filter(|path| path.is_dir() || path.is_file());
    let writable: Vec<PathBuf> = writable.collect();
    for path in &writable {
        mount_bind_recursive(path, path).map_err(|error| failed(&error))?;
    }
    let mounts = fs::read("/proc/self/mountinfo").map_err(|error| failed(&error))?;
    for mounted in mounts.split(|byte| *byte == b'\n').filter_map(mount_point) {
        let stays = writable.iter().any(|path| mounted.starts_with(path));
        if !stays {
            remount(&mounted).map_err(|error| failed(&error))?;
        }
    }
    // This folder is still the one of the mount below.
    let folder = env::current_dir().map_err(|error| failed(&error))?;
    env::set_current_dir(folder).map_err(|error| failed(&error))
}

fn own_namespaces() -> std::io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // What is unsafe about it concerns the flag `FILES`, which is not given.
    #[expect(deprecated)]
    rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn remount(path: &Path) -> Result<(), Errno> {
    let remounted = statvfs(path).and_then(|found| {
        let has = |flag, then| match found.f_flag.contains(flag) {
            true => then,
            false => MountFlags::empty(),
        };
        // A namespace of its own may take away none of these.
        let flags = MountFlags::BIND
            | MountFlags::RDONLY
            | has(StatVfsMountFlags::NOSUID, MountFlags::NOSUID)
            | has(StatVfsMountFlags::NODEV, MountFlags::NODEV)
            | has(StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC);
        mount_remount(path, flags, c"")
    });
    match remounted {
        // A mount to which this account has no path.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => Ok(()),
        Err(Errno::ACCESS) if path.symlink_metadata().is_err() => Ok(()),
        remounted => remounted,
    }
}

/// The fifth word of a line of `mountinfo`, in which some bytes are written as three octal digits.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let word = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let code = match first {
            b'\\' => after
                .get(..3)
                .and_then(|digits| std::str::from_utf8(digits).ok()),
            _ => None,
        };
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(byte.unwrap_or(*first));
        rest = byte.map_or(after, |_| &after[3..]);
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}
