//! What the service really did, as lines of a file that outlives it.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::engine::Failure;

pub struct Log {
    file: Mutex<File>,
    attempts: Mutex<HashMap<String, u32>>,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Log {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
            attempts: Mutex::default(),
        })
    }

    /// Writes a line with one call of the system, so that lines of several processes do not mix.
    pub fn line(&self, text: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write_all(format!("{} {text}\n", now_ms()).as_bytes());
    }

    /// Counts the attempts of this process at an invocation.
    pub fn attempt(&self, invocation: &str) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(invocation.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// Reads what was logged.
#[derive(Clone)]
pub struct Lines(pub PathBuf);

impl Lines {
    /// The lines that contain this text, with the time of each in milliseconds.
    pub fn with(&self, text: &str) -> Vec<(u64, String)> {
        let all = std::fs::read_to_string(&self.0).unwrap_or_default();
        all.lines()
            .filter(|line| line.contains(text))
            .filter_map(|line| {
                let (time, rest) = line.split_once(' ')?;
                Some((time.parse().ok()?, rest.to_owned()))
            })
            .collect()
    }

    pub fn count(&self, text: &str) -> usize {
        self.with(text).len()
    }

    /// Waits until as many lines contain this text.
    pub async fn wait(&self, text: &str, count: usize) -> Result<(), Failure> {
        for _ in 0..6_000 {
            if self.count(text) >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!(
            "waited for {count} lines with {text:?}, there are {}",
            self.count(text)
        )
        .into())
    }
}
