//! Whether the terminal shows what a person types.

/// The terminal's echo. Dropping it restores the earlier setting.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// The terminal's earlier settings, while it shows nothing.
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Echo {
    /// Stops showing what is typed, except line ends. Returns `false` where that is impossible:
    /// standard input is not a terminal, or the system's terminals are not supported.
    #[cfg(unix)]
    pub(super) fn hide(&mut self) -> bool {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        if self.before.is_some() {
            return true;
        }
        let terminal = std::io::stdin();
        let Ok(before) = tcgetattr(&terminal) else {
            return false;
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        let set = tcsetattr(&terminal, OptionalActions::Now, &hidden).is_ok();
        self.before = set.then_some(before);
        set
    }

    /// Would stop showing what is typed; impossible on this system.
    #[cfg(not(unix))]
    pub(super) fn hide(&mut self) -> bool {
        false
    }

    /// Shows what is typed again.
    pub(super) fn show(&mut self) {
        #[cfg(unix)]
        if let Some(before) = self.before.take() {
            use rustix::termios::{OptionalActions, tcsetattr};
            // A terminal that is gone needs no restoring.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.show();
    }
}
