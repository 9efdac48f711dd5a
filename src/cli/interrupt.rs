//! Ctrl-C, and the system's wish that the process ends.

use std::io;

/// Fires when the process is asked to end.
#[derive(Debug)]
pub(super) struct Interrupt {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Interrupt {
    /// From here on being asked does not end the process by itself. A hangup still does, so that
    /// `nohup` works; nothing is lost by it.
    #[cfg(unix)]
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        ];
        Ok(Self { signals })
    }

    /// From here on being asked does not end the process by itself.
    #[cfg(not(unix))]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits until the process is asked to end. It may be dropped and asked again.
    #[cfg(unix)]
    pub(super) async fn fired(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }

    /// Waits until the process is asked to end. It may be dropped and asked again.
    #[cfg(not(unix))]
    pub(super) async fn fired(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
