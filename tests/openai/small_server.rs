//! A server of SmolLM2 135M on this machine, which `GHOSTLIGHT_REAL_MODEL=1 ./test` installs.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

const SERVE: &str = include_str!("../../examples/small_model.py");

/// A running server. It is killed when dropped.
pub(crate) struct SmallModel {
    child: Child,
    pub(crate) base_url: String,
}

impl SmallModel {
    /// Starts it on a port of its own; nothing where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("GHOSTLIGHT_SMALL_MODEL") else {
            eprintln!(
                "left out: GHOSTLIGHT_REAL_MODEL=1 ./test installs the model and sets GHOSTLIGHT_SMALL_MODEL"
            );
            return None;
        };
        let mut child = Command::new(python)
            .args(["-c", SERVE, "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // It says its address once the model is loaded, or ends.
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let Some(base_url) = line.strip_prefix("OPENAI_BASE_URL=") else {
            let _ = child.kill();
            panic!("the server ended without an address: {:?}", child.wait());
        };
        Some(Self {
            child,
            base_url: base_url.to_owned(),
        })
    }
}

impl Drop for SmallModel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
