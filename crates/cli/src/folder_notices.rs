//! Notices of the file system: what changes below a folder is told by the kernel (inotify(7)), so that a watched folder
//! need not be read again and again.

use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{self, CreateFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::sync::Notify;

/// How many folders are watched at most: the kernel bounds them for each user, and others need some.
const FOLDERS: usize = 4_096;

/// Watches folders and all below them as they were when it was made, in a thread that ends when this is dropped.
#[derive(Debug)]
pub(super) struct FolderNotices {
    changed: Arc<Notify>,
    stop: Arc<OwnedFd>,
}

impl FolderNotices {
    /// Begins to watch. What changes from now on is told, also if nobody waits yet.
    pub(super) fn watch(folders: &[PathBuf]) -> io::Result<Self> {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut below: Vec<PathBuf> = folders.to_vec();
        let mut count = 0;
        while let Some(folder) = below.pop() {
            count += 1;
            if count > FOLDERS {
                let message = format!("there are more than {FOLDERS} folders");
                return Err(io::Error::other(message));
            }
            watch_one(&changes, &folder)?;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                // A link is not a folder here.
                let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                if entry.file_type()?.is_dir() && !is_hidden {
                    below.push(entry.path());
                }
            }
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let changed = Arc::new(Notify::new());
        let (stopped, told) = (stop.clone(), changed.clone());
        let thread = thread::Builder::new().name("folder-notices".to_owned());
        thread.spawn(move || {
            if let Err(error) = follow(&changes, &stopped, &told) {
                tracing::warn!(%error, "the folders are no longer watched");
            }
        })?;
        Ok(Self { changed, stop })
    }

    /// Waits for the next change.
    pub(super) async fn next(&self) {
        self.changed.notified().await;
    }
}

impl Drop for FolderNotices {
    fn drop(&mut self) {
        // The thread ends with the process at the latest.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

fn watch_one(changes: &OwnedFd, folder: &Path) -> io::Result<()> {
    let flags = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ONLYDIR;
    inotify::add_watch(changes, folder, flags)?;
    Ok(())
}

/// Tells of changes until it is stopped.
fn follow(changes: &OwnedFd, stop: &OwnedFd, told: &Notify) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); 4096];
    loop {
        let mut ready = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(changes, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if !ready[0].revents().is_empty() {
            return Ok(());
        }
        let mut reader = Reader::new(changes, &mut space);
        loop {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        told.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_changes_below_a_folder_is_told_and_reading_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let file = below.join("a.md");
        fs::write(&file, "one").unwrap();
        let notices = FolderNotices::watch(&[folder.path().to_owned()]).unwrap();
        let told = |bound: u64| tokio::time::timeout(Duration::from_millis(bound), notices.next());
        fs::read(&file).unwrap();
        assert!(told(200).await.is_err());
        fs::write(&file, "two").unwrap();
        assert!(told(10_000).await.is_ok());
        fs::remove_file(&file).unwrap();
        assert!(told(10_000).await.is_ok());
        fs::create_dir(below.join("new")).unwrap();
        assert!(told(10_000).await.is_ok());
    }
}
