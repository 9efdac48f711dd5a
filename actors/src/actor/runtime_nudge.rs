//! Keeps a runtime's time passing while code blocks a thread.

use std::{
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The longest time for which timers and connections may stand still.
const BEAT: Duration = Duration::from_millis(100);

/// Keeps timers and connections going while code of a tool's or an agent's blocks its thread.
///
/// One of a runtime's threads waits for the timers and connections of all. When one of these fires,
/// that thread picks up the task behind it, and another thread waits in its stead only after it had
/// something to do and rests again. If the task blocks and nothing else happens, no thread waits:
/// deadlines pass, and cancellations and signals go unheard. So a thread of its own, which nothing
/// can block, regularly gives the runtime something to do. See
/// <https://github.com/tokio-rs/tokio/issues/4730>.
///
/// The nudge beats until it is dropped.
#[derive(Debug)]
pub(crate) struct RuntimeNudge {
    _lives: SyncSender<()>,
}

impl RuntimeNudge {
    /// Begins to beat for the current runtime. `None` in a runtime of one thread, which no beat
    /// could help, or when no thread can be started.
    pub(crate) fn start() -> Option<Self> {
        let runtime = Handle::current();
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let (lives, over) = sync_channel(0);
        let beat = move || {
            while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                drop(runtime.spawn(std::future::ready(())));
            }
        };
        let thread = thread::Builder::new().name("ghostlight-nudge".into());
        match thread.spawn(beat) {
            Ok(_) => Some(Self { _lives: lives }),
            Err(error) => {
                tracing::warn!(%error, "code that blocks will stop the clock: there is no thread");
                None
            }
        }
    }
}
