//! Lines of standard input, mostly typed by a person at a terminal.

use std::{io, sync::Arc, thread};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

/// The most bytes that are read at once; a terminal gives one line at a time.
const PIECE: usize = 4096;

/// The longest accepted line, in bytes: what a person types or pastes is shorter.
const MAX_LINE: usize = 1 << 20;
/// The most lines that wait for a question. Only a program sends more, and nobody asked for them.
const MAX_WAITING: usize = 64;

/// The lines from some moment on.
#[derive(Debug)]
pub(super) struct Typing {
    /// The bytes of a line that has not ended. Nothing is read while it is locked.
    begun: Arc<Mutex<Vec<u8>>>,
    lines: mpsc::Receiver<String>,
}

impl Typing {
    /// Begins to read.
    ///
    /// # Errors
    /// When the thread that reads cannot be started.
    pub(super) fn new() -> io::Result<Self> {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (sender, lines) = mpsc::channel(MAX_WAITING);
        let reader = Reader {
            begun: begun.clone(),
            lines: sender,
        };
        // Reading a terminal cannot be interrupted, so it has its own thread, which ends with the
        // process.
        let thread = thread::Builder::new().name("ghostlight-terminal".into());
        thread.spawn(move || reader.read())?;
        Ok(Self { begun, lines })
    }

    /// Forgets everything typed at a terminal so far, whether it was read or not.
    pub(super) fn forget(&mut self) {
        // Nothing is read while this is locked, so everything read later was typed later.
        let mut begun = self.begun.lock();
        // This fails if standard input is no longer a terminal; then nobody types.
        #[cfg(unix)]
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        begun.clear();
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line; `None` when no more will come.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

struct Reader {
    begun: Arc<Mutex<Vec<u8>>>,
    lines: mpsc::Sender<String>,
}

impl Reader {
    /// Reads lines as long as they are wanted. The last line may lack its end.
    fn read(&self) {
        let mut piece = [0; PIECE];
        while let Ok((mut line, length)) = self.piece(&mut piece) {
            if length == 0 {
                if !line.is_empty() {
                    self.send(&mut line);
                }
                return;
            }
            for byte in &piece[..length] {
                if *byte == b'\n' {
                    self.send(&mut line);
                } else if line.len() < MAX_LINE {
                    line.push(*byte);
                } else {
                    super::say(&format!(
                        "error: a line on stdin has more than {MAX_LINE} bytes; nothing more is read"
                    ));
                    return;
                }
            }
        }
    }

    fn send(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line).into_owned();
        line.clear();
        // If lines are no longer wanted, reading stops; if too many wait, this one is dropped.
        let _ = self.lines.try_send(text);
    }

    /// Waits for input and reads it, unless it is forgotten. Nothing is read at the end of the
    /// input or when lines are no longer wanted, so the input stays for the next reader.
    #[cfg(unix)]
    fn piece(&self, piece: &mut [u8]) -> io::Result<(MutexGuard<'_, Vec<u8>>, usize)> {
        use rustix::{
            event::{PollFd, PollFlags, Timespec, poll},
            io::{read, retry_on_intr},
        };
        let stdin = io::stdin();
        let wait = |at_most: Option<&Timespec>| {
            let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
            retry_on_intr(|| poll(&mut terminal, at_most))
        };
        loop {
            wait(None)?;
            let begun = self.begun.lock();
            if self.lines.is_closed() {
                return Ok((begun, 0));
            }
            if wait(Some(&Timespec::default()))? > 0 {
                let length = retry_on_intr(|| read(&stdin, &mut *piece))?;
                return Ok((begun, length));
            }
        }
    }

    /// Reads the next input. On this system, unread input cannot be forgotten.
    #[cfg(not(unix))]
    fn piece(&self, piece: &mut [u8]) -> io::Result<(MutexGuard<'_, Vec<u8>>, usize)> {
        let length = io::Read::read(&mut io::stdin(), piece)?;
        Ok((self.begun.lock(), length))
    }
}
