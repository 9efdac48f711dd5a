//! Notices of commits: each one changes the log beside the store's file, and the kernel tells who watches that log
//! (inotify(7)). So a System looks into its mailboxes when something was written, and not forty times a second.

use std::{ffi::OsString, io, mem::MaybeUninit, os::fd::OwnedFd, path::Path, sync::Arc, thread};

use ghostlight_actors::contract::{BoxFuture, News, Notice};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fs::inotify::{self, CreateFlags, Reader, WatchFlags},
    io::Errno,
};

/// The pause after a notice. All that is written during it is told by the next one, so a busy store costs no more than
/// one that is polled.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Watches the log of one store, in a thread that ends when this is dropped.
#[derive(Debug)]
pub(super) struct Notices {
    news: News,
    stop: Arc<OwnedFd>,
}

impl Notices {
    /// Begins to watch the store in this file, which is open.
    pub(super) fn watch(path: &Path) -> io::Result<Self> {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut log = OsString::from(path);
        log.push("-wal");
        // A file that is deleted while it is open changes the number of its names.
        let is_gone = WatchFlags::MOVE_SELF | WatchFlags::ATTRIB;
        inotify::add_watch(&changes, &log, WatchFlags::MODIFY)?;
        inotify::add_watch(&changes, path, is_gone)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let watching = Watching {
            changes,
            stop: stop.clone(),
            news: News::default(),
        };
        let news = watching.news.clone();
        let thread = thread::Builder::new().name("sqlite-notices".to_owned());
        thread.spawn(move || {
            if let Err(error) = watching.follow() {
                // Without notices a System looks every second.
                tracing::warn!(%error, "the store's log is no longer watched");
            }
        })?;
        Ok(Self { news, stop })
    }

    /// Waits for the next commit, of whichever process.
    pub(super) fn next(&self) -> BoxFuture<'static, ()> {
        self.news.next(Notice::Posted)
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // The thread ends with the process at the latest.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

struct Watching {
    changes: OwnedFd,
    stop: Arc<OwnedFd>,
    news: News,
}

impl Watching {
    /// Tells of changes until it is stopped.
    fn follow(&self) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); 4096];
        while !self.is_stopped(None)? {
            self.take_changes(&mut space)?;
            self.news.tell(Notice::Posted);
            if self.is_stopped(Some(&PAUSE))? {
                break;
            }
            // A commit is written to the log a moment before others can read it.
            self.news.tell(Notice::Posted);
        }
        Ok(())
    }

    /// Waits for a change without a bound, or, with one, for that long. Whether the thread is to end.
    fn is_stopped(&self, pause: Option<&Timespec>) -> rustix::io::Result<bool> {
        let mut ready = [
            PollFd::new(&*self.stop, PollFlags::IN),
            PollFd::new(&self.changes, PollFlags::IN),
        ];
        let watched = match pause {
            Some(_) => 1,
            None => 2,
        };
        match poll(&mut ready[..watched], pause) {
            Ok(_) | Err(Errno::INTR) => Ok(!ready[0].revents().is_empty()),
            Err(error) => Err(error),
        }
    }

    /// Takes the changes that wait: whatever they are, the store is to be looked at.
    fn take_changes(&self, space: &mut [MaybeUninit<u8>]) -> rustix::io::Result<()> {
        let mut reader = Reader::new(&self.changes, space);
        loop {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    async fn is_told(news: BoxFuture<'static, ()>) -> bool {
        let bound = Duration::from_secs(10);
        tokio::time::timeout(bound, news).await.is_ok()
    }

    #[tokio::test]
    async fn a_written_log_and_a_deleted_store_are_told_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let [store, log, other] =
            ["s.db", "s.db-wal", "other"].map(|name| folder.path().join(name));
        fs::write(&store, "").unwrap();
        fs::write(&log, "").unwrap();
        let notices = Notices::watch(&store).unwrap();
        for round in 0..3_u8 {
            let news = notices.next();
            fs::write(&log, [round]).unwrap();
            assert!(is_told(news).await);
            assert!(
                is_told(notices.next()).await,
                "it is not told again once it can be read"
            );
        }
        // A write may have been noticed in two parts.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut news = notices.next();
        fs::write(&other, "x").unwrap();
        fs::write(&store, "x").unwrap();
        let soon = tokio::time::timeout(Duration::from_millis(100), &mut news).await;
        assert!(soon.is_err(), "another file was written");
        fs::remove_file(&store).unwrap();
        assert!(is_told(news).await);
    }

    #[test]
    fn the_thread_ends_with_its_store() {
        let folder = tempfile::tempdir().unwrap();
        let [store, log] = ["s.db", "s.db-wal"].map(|name| folder.path().join(name));
        fs::write(&store, "").unwrap();
        fs::write(log, "").unwrap();
        let notices = Notices::watch(&store).unwrap();
        let stop = Arc::downgrade(&notices.stop);
        drop(notices);
        // The thread has the other handle.
        for _ in 0..1_000 {
            if stop.strong_count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the thread goes on");
    }
}
