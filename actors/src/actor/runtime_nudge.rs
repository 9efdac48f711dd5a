//! Time that passes although somebody's code blocks.

use std::{
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use tokio::runtime::{Handle, RuntimeFlavor};

/// How long timers and connections may stand still at the most.
const BEAT: Duration = Duration::from_millis(100);

/// Keeps timers and connections going while code of a tool's or an agent's blocks its thread.
///
/// Of a runtime's threads one waits for the timers and connections of all. When one fires, that
/// thread picks up the task behind it, and another waits in its stead only once it has had
/// something to do and rests again. Should the task block, and nothing else be going on, then
/// nobody waits: deadlines pass, cancellations and signals go unheard. So another thread, which
/// nothing can block, gives the runtime something to do now and then. See
/// <https://github.com/tokio-rs/tokio/issues/4730>.
///
/// It beats until it is dropped.
#[derive(Debug)]
pub(crate) struct RuntimeNudge {
    _lives: SyncSender<()>,
}

impl RuntimeNudge {
    /// Begins to beat for the runtime that it is called in; `None` in a runtime of one thread,
    /// which no beat could help, or where no thread can be had.
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
