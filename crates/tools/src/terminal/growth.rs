//! How much the files of some folders grow while a command runs.
//!
//! The kernel bounds each file of a process and not their sum, so the folders are measured again and again. What a file
//! takes on the disk counts, at least one block of it, and a file with several names counts once. A file that has no name
//! any more is not seen: it is gone with the command, and bounded as each file is.

use std::{fs, io, os::unix::fs::MetadataExt, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// How many times as long as a look the pause after it is at least, so that large folders do not keep a core busy.
const REST: u32 = 4;
/// The bytes that the smallest file counts: a block of the usual file systems.
const BLOCK: u64 = 4096;

/// The folders of a command, and how much they may grow.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    folders: Arc<[PathBuf]>,
    max_bytes: u64,
}

/// A bound, with the size that the folders had when the command was started.
#[derive(Debug)]
pub(super) struct Growth {
    bound: Bound,
    before: Size,
}

/// Why a command goes too far.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Exceeded {
    #[error(
        "the files that it may change grew by {by} bytes, and its bound is {bound} (`max_growth_bytes`); what it wrote is \
         still there"
    )]
    Grew { by: u64, bound: u64 },
    #[error(
        "it made folders that cannot be read, so that what it writes cannot be measured; what it wrote is still there"
    )]
    Hidden,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Size {
    bytes: u64,
    /// The folders that cannot be read.
    unread: u64,
}

impl Bound {
    /// A bound over all files at and below these paths.
    pub(super) fn new(folders: impl IntoIterator<Item = PathBuf>, max_bytes: u64) -> Self {
        let found = folders
            .into_iter()
            .filter_map(|path| path.canonicalize().ok());
        let mut folders: Vec<PathBuf> = found.collect();
        folders.sort();
        // A folder comes directly before what is below it.
        folders.dedup_by(|below, above| below.starts_with(&*above));
        let folders = folders.into();
        Self { folders, max_bytes }
    }

    /// Measures the folders before a command is started.
    pub(super) async fn begin(&self) -> Growth {
        Growth {
            bound: self.clone(),
            before: self.measure().await,
        }
    }

    async fn measure(&self) -> Size {
        let folders = self.folders.clone();
        // Its thread goes on for as long as somebody waits for it.
        let waited_for = Arc::new(());
        let waiting = Arc::downgrade(&waited_for);
        let measured = spawn_blocking(move || {
            let mut size = Size::default();
            for path in folders.iter() {
                size.add(path.clone(), || waiting.strong_count() > 0);
            }
            size
        });
        // It fails only where the runtime is at its end, and the command with it.
        let size = measured.await.unwrap_or_default();
        drop(waited_for);
        size
    }
}

impl Growth {
    /// Whether the folders have grown too much by now.
    pub(super) async fn check(&self) -> Result<(), Exceeded> {
        let now = self.bound.measure().await;
        let by = now.bytes.saturating_sub(self.before.bytes);
        let bound = self.bound.max_bytes;
        match now.unread > self.before.unread {
            _ if by > bound => Err(Exceeded::Grew { by, bound }),
            true => Err(Exceeded::Hidden),
            false => Ok(()),
        }
    }

    /// Waits until they have, for ever if they never do.
    pub(super) async fn exceeded(&self) -> Exceeded {
        let mut pause = PAUSE;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            if let Err(exceeded) = self.check().await {
                return exceeded;
            }
            pause = PAUSE.max(began.elapsed() * REST);
        }
    }
}

impl Size {
    /// Adds what is at and below a path, while it is wanted. Links are not followed.
    fn add(&mut self, path: PathBuf, is_wanted: impl Fn() -> bool) {
        let mut open = vec![path];
        while let Some(path) = open.pop().filter(|_| is_wanted()) {
            let is_folder = match fs::symlink_metadata(&path) {
                Ok(found) => {
                    let on_disk = found.blocks().saturating_mul(512).max(BLOCK);
                    let is_folder = found.is_dir();
                    let names = if is_folder { 1 } else { found.nlink().max(1) };
                    self.bytes = self.bytes.saturating_add(on_disk / names);
                    is_folder
                }
                Err(error) => {
                    self.missed(&error);
                    false
                }
            };
            if !is_folder {
                continue;
            }
            match fs::read_dir(&path) {
                Ok(entries) => open.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) => self.missed(&error),
            }
        }
    }

    /// A folder that cannot be looked at counts, unless it was removed in the meantime.
    fn missed(&mut self, error: &io::Error) {
        if !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ) {
            self.unread += 1;
        }
    }
}
