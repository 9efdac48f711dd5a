//! aimock, an OpenAI-compatible server that none of us wrote.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use ghostlight::models::OpenAi;
use serde_json::Value;

/// The version that the tests were written against.
pub(crate) const VERSION: &str = "1.43.0";

/// A running server on a port of its own. It is killed when dropped.
pub(crate) struct Aimock {
    child: Child,
    url: String,
    fixtures: PathBuf,
}

impl Aimock {
    /// Starts a server with these fixtures (`[{"match": …, "response": …}]`) and flags, and
    /// returns when it listens; nothing where `GHOSTLIGHT_SKIP_AIMOCK=1` leaves these tests out.
    ///
    /// # Panics
    /// When it is not installed, with the command that installs it, or does not start.
    pub(crate) fn start(fixtures: Value, flags: &[&str]) -> Option<Self> {
        if std::env::var_os("GHOSTLIGHT_SKIP_AIMOCK").is_some_and(|value| value == "1") {
            eprintln!("left out, because GHOSTLIGHT_SKIP_AIMOCK=1");
            return None;
        }
        let program = program();
        assert!(
            program.exists(),
            "aimock is not at {}; install it with\n    npm install --prefix target/aimock \
             @copilotkit/aimock@{VERSION}\nor name it in GHOSTLIGHT_AIMOCK",
            program.display()
        );
        let path = fixture_path();
        let text = serde_json::json!({ "fixtures": fixtures }).to_string();
        fs::write(&path, text).expect("fixtures are written");
        let mut child = Command::new(&program)
            .args(["--port", "0", "--fixtures"])
            .arg(&path)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("aimock starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // It says its address once it listens, or ends.
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            Some(address.trim().to_owned())
        });
        let Some(url) = url else {
            let _ = child.kill();
            panic!("aimock ended without listening: {:?}", child.wait());
        };
        // Its log must be read, or it waits for ever once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        let fixtures = path;
        Some(Self {
            child,
            url,
            fixtures,
        })
    }

    /// The address of its chat completions, without `/chat/completions`.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.url)
    }

    /// The model of this server.
    pub(crate) fn model(&self) -> OpenAi {
        OpenAi::new("test-model").base_url(self.base_url())
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.fixtures);
    }
}

fn program() -> PathBuf {
    match std::env::var_os("GHOSTLIGHT_AIMOCK") {
        Some(path) => path.into(),
        None => {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/aimock/node_modules/.bin/llmock")
        }
    }
}

fn fixture_path() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("aimock-{}-{number}.json", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}
