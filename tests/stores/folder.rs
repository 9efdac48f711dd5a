//! A folder for one test.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Removed when the test is over; left for inspection when it failed.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stores-{}-{count}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The store's file.
    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("store.db")
    }

    /// A file that belongs to the store.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        self.0.join(format!("store.db{suffix}"))
    }

    /// Copies the store as it lies on the disk, as a crash would leave it: all but the locks.
    pub(crate) fn image(&self) -> Self {
        let copy = Self::new();
        for suffix in ["", "-wal", ".anchor"] {
            if self.beside(suffix).exists() {
                fs::copy(self.beside(suffix), copy.beside(suffix)).unwrap();
            }
        }
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}
