//! Whether the terminal shows what a person types.

/// The terminal's echo, which is as it was before when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// How the terminal was set, while it shows nothing.
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Echo {
    /// Shows nothing of what is typed from here on but the end of a line. `false` where that cannot be
    /// had: standard input is no terminal, or one of a system whose terminals are not known here.
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

    /// Shows nothing of what is typed from here on, which cannot be had on this system.
    #[cfg(not(unix))]
    pub(super) fn hide(&mut self) -> bool {
        false
    }

    /// Shows again what is typed.
    pub(super) fn show(&mut self) {
        #[cfg(unix)]
        if let Some(before) = self.before.take() {
            use rustix::termios::{OptionalActions, tcsetattr};
            // A terminal that is gone shows nothing anyway.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.show();
    }
}
