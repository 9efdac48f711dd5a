//! The processes that have the store open.
//!
//! Each open store holds an operating-system lock on a file of its own, `<store>.owners/<id>`.
//! The lock is released when its process dies, however it dies, so the operating system tells
//! whether an owner lives, and no timeout is involved. The locks are those of [`File::try_lock`];
//! on a network file system they are as reliable as that system makes them.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::files;

/// The lock of this open store. Dropping it frees the journals that it owned.
#[derive(Debug)]
pub(super) struct Owner {
    id: String,
    folder: PathBuf,
    /// Holds the lock while it is open.
    _lock: File,
}

impl Owner {
    /// Takes a fresh id, and removes the files of dead owners.
    ///
    /// A lock file looks dead after it was made and before it is locked; the guard ensures that no
    /// other process removes it then.
    pub(super) fn register(store: &Path, _guard: &Guard) -> io::Result<Self> {
        let folder = folder_of(store);
        sweep(&folder)?;
        let id = fresh_id()?;
        let lock = files::private()
            .write(true)
            .create_new(true)
            .open(folder.join(&id))?;
        lock.lock()?;
        Ok(Self {
            id,
            folder,
            _lock: lock,
        })
    }

    /// The id that stands in the journals that it owns.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the process that opened the store under this id still has it open.
    pub(super) fn lives(&self, id: &str) -> io::Result<bool> {
        if id == self.id {
            return Ok(true);
        }
        lives_in(&self.folder, id)
    }
}

/// Whether a process has the store of this folder of owners open under this id.
pub(super) fn lives_in(folder: &Path, id: &str) -> io::Result<bool> {
    // An id comes from the file, which may be damaged: it must not lead to another folder.
    if !is_id(id) {
        return Ok(false);
    }
    match files::open_regular(&reading(), &folder.join(id)) {
        Ok(file) => is_locked(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If this fails, the lock is released all the same, and the next owner removes the file.
        let _ = fs::remove_file(self.folder.join(&self.id));
    }
}

/// A description of an owner.
pub(super) fn in_words(id: &str) -> String {
    let process = id.split('-').next().unwrap_or(id);
    format!("process {process}")
}

/// The path with this suffix after its file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// An id that is never used twice. A process id comes again (in a container it is always the same);
/// a process id with a time, and a count inside the process, does not.
fn fresh_id() -> io::Result<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since_epoch.map_err(io::Error::other)?.as_nanos();
    Ok(format!("{}-{nanos:x}-{count:x}", process::id()))
}

fn is_id(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    parts.by_ref().take(3).filter(|part| is_part(part)).count() == 3 && parts.next().is_none()
}

fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

pub(super) fn folder_of(store: &Path) -> PathBuf {
    with_suffix(store, ".owners")
}

/// While it exists, no other process makes the store or its anchor, changes its tables, or
/// registers.
#[derive(Debug)]
pub(super) struct Guard {
    folder: PathBuf,
    /// Holds the lock while it is open.
    _lock: File,
}

impl Guard {
    /// Waits until no other process has the guard. A process that dies releases it.
    pub(super) fn wait(store: &Path) -> io::Result<Self> {
        let folder = folder_of(store);
        files::make_private_folder(&folder)?;
        let mut options = files::private();
        options.write(true).create(true).truncate(false);
        let lock = files::open_regular(&options, &folder.join("guard"))?;
        lock.lock()?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// The path for making a file that is to appear under its own name complete. It lies in the
    /// store's own folder, where no foreign file is in the way. What a dead process left there is
    /// removed.
    pub(super) fn fresh(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(path),
        }
    }
}

fn sweep(folder: &Path) -> io::Result<()> {
    for file in fs::read_dir(folder)? {
        let file = file?;
        let path = file.path();
        let is_ours = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(is_id);
        if !is_ours || !file.file_type()?.is_file() {
            continue;
        }
        let opened = files::open_regular(&reading(), &path);
        let swept = opened.and_then(|file| match is_locked(&file)? {
            true => Ok(()),
            false => fs::remove_file(&path),
        });
        match swept {
            // An owner that closes the store removes its file itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_locked(file: &File) -> io::Result<bool> {
    // A shared lock, so that several processes may ask at once without taking each other for the
    // owner.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_store_is_opened_while_others_close_it() {
        let name = format!("ghostlight-owners-{}", process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let store = folder.join("store.db");
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..500 {
                        Owner::register(&store, &Guard::wait(&store).unwrap()).unwrap();
                    }
                });
            }
        });
        fs::remove_dir_all(&folder).unwrap();
    }
}
