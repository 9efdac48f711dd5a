//! Namespaces of a command's own, made by the program `bwrap` (bubblewrap).
//!
//! In them there are no files but those that the command may read or change, no processes but its own, and no network
//! but by permission. `bwrap` needs calls that the launcher refuses to commands, so the launcher starts itself again
//! inside, and only then gives up its rights.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{Launch, mounts, probing};

/// Where `bwrap` is looked for: not in the environment's `PATH`, since it is trusted with the confinement.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The program.
pub(super) fn find() -> Result<&'static Path, String> {
    let mut places = PLACES.iter().map(Path::new);
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| "bubblewrap is not installed".to_owned())
}

/// Makes files read-only before `bwrap` mounts them anew, which keeps them so: it has no option for devices that can be
/// written to and whose modes and owners stay.
pub(super) fn prepare(launch: &Launch) -> Result<(), String> {
    // `bwrap` tells the kernel through files here who is who in its namespaces.
    let own = [PathBuf::from("/proc")];
    mounts::make_read_only(&[&launch.write[..], &own].concat())
}

/// The arguments with which `bwrap` makes the namespaces of a command that `own`, a launcher, is to start.
pub(super) fn arguments(launch: &Launch, own: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .into();
    if !launch.network {
        arguments.push("--unshare-net".into());
    }
    // The last one counts, so what may be changed comes after what may be read, even above it.
    let read = launch.read.iter().map(|path| ("--ro-bind-try", &**path));
    let write = launch.write.iter().map(|path| ("--bind-try", &**path));
    let own = [("--ro-bind", own)];
    for (option, path) in read.chain(write).chain(own) {
        let is_device = path.starts_with("/dev");
        let option = if is_device { "--dev-bind-try" } else { option };
        arguments.extend([option.into(), path.into(), path.into()]);
    }
    // What is left between these places is a file system in memory, which the command must not fill.
    arguments.extend(["--remount-ro", "/", "--"].map(OsString::from));
    arguments
}

/// Whether a launcher starts in such namespaces here: many containers allow no new ones.
pub(super) fn works() -> bool {
    let launch = Launch {
        read: vec!["/".into()],
        ..Launch::default()
    };
    let (Ok(bwrap), Ok(own)) = (find(), std::env::current_exe()) else {
        return false;
    };
    // In the order of a launch. That is not part of bubblewrap, and is reported for itself.
    let _ = prepare(&launch);
    let started = Command::new(bwrap)
        .args(arguments(&launch, &own))
        .arg(&own)
        .args(probing(false))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.is_ok_and(|status| status.success())
}
