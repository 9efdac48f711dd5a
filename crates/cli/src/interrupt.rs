//! Ctrl-C, and the system's request to end the process.

use std::{io, thread};

use tokio::{runtime, sync::mpsc};

/// Fires when the process is asked to end.
#[derive(Debug)]
pub(super) struct Interrupt {
    asked: mpsc::UnboundedReceiver<()>,
}

impl Interrupt {
    /// From here on, a request to end no longer ends the process by itself. A hangup still does, so
    /// that `nohup` works; nothing is lost by it.
    pub(super) fn new() -> io::Result<Self> {
        // Tools that block every thread of the command's runtime must not keep a person from
        // ending it, so signals have a thread of their own.
        let own = runtime::Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _inside = own.enter();
            Signals::new()?
        };
        let (asks, asked) = mpsc::unbounded_channel();
        let listen = async move {
            loop {
                signals.next().await;
                if asks.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("ghostlight-signals".into());
        thread.spawn(move || own.block_on(listen))?;
        Ok(Self { asked })
    }

    /// Waits until the process is asked to end. The future may be dropped and the method called
    /// again.
    pub(super) async fn fired(&mut self) {
        if self.asked.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 2]);

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
