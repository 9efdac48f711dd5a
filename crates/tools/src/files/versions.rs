//! The former contents of changed files, so that a change can be undone and is never made twice.
//!
//! Below `.ghostlight/versions`, `0000000012.json` says what a change did and `0000000012.before` holds
//! what was there. Both are written before the file is replaced.

use std::io;

use ghostlight_actors::vocabulary::Digest;
use serde::{Deserialize, Serialize};

use super::root::{KEPT, Root};

/// How many bytes of former contents are kept.
const BYTES: u64 = 64 << 20;
/// How many bytes a description may have.
const DESCRIPTION_BYTES: u64 = 64 << 10;

/// One change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Version {
    /// The key of the call that made it.
    pub(super) key: String,
    pub(super) path: String,
    /// The digest of what was there; nothing where there was no file.
    pub(super) before: Option<String>,
    /// The digest of what is there since; nothing where the file was removed.
    pub(super) after: Option<String>,
    /// The change that it took back.
    pub(super) undoes: Option<u64>,
    /// What the model was told.
    pub(super) told: String,
}

pub(super) fn digest(content: &[u8]) -> String {
    Digest::of(content).to_string()
}

/// The former contents of a folder.
pub(super) struct Versions<'f> {
    root: &'f Root,
    keep: usize,
}

impl<'f> Versions<'f> {
    pub(super) fn of(root: &'f Root, keep: usize) -> Self {
        Self { root, keep }
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let dir = match self.root.folder(&[KEPT, "versions"]) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in dir.entries()? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read(&self, number: u64) -> io::Result<Option<Version>> {
        let name = format!("{number:010}.json");
        let text = self
            .root
            .content(&[KEPT, "versions", &name], DESCRIPTION_BYTES)?;
        // One that cannot be read, such as after the machine lost power, is none.
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// The changes, from the newest on.
    pub(super) fn newest_first(&self) -> io::Result<Vec<(u64, Version)>> {
        let mut found = Vec::new();
        for number in self.numbers()?.into_iter().rev() {
            found.extend(self.read(number)?.map(|version| (number, version)));
        }
        Ok(found)
    }

    /// What was there before a change.
    pub(super) fn before(&self, number: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
        let name = format!("{number:010}.before");
        self.root.content(&[KEPT, "versions", &name], most)
    }

    /// Keeps what is to be changed.
    pub(super) fn keep(&self, version: &Version, before: Option<&[u8]>) -> io::Result<()> {
        let mut numbers = self.numbers()?;
        let number = numbers.last().map_or(1, |last| last + 1);
        if let Some(before) = before {
            let name = format!("{number:010}.before");
            self.root.replace(&[KEPT, "versions", &name], before)?;
        }
        let text = serde_json::to_vec(version)?;
        let name = format!("{number:010}.json");
        self.root.replace(&[KEPT, "versions", &name], &text)?;
        numbers.push(number);
        self.prune(&numbers)
    }

    fn prune(&self, numbers: &[u64]) -> io::Result<()> {
        let (mut bytes, mut kept) = (0_u64, 0_usize);
        for (age, number) in numbers.iter().rev().enumerate() {
            let before = format!("{number:010}.before");
            let size = self
                .root
                .file(&[KEPT, "versions", &before])
                .map_or(0, |(_, size)| size);
            bytes += size;
            kept += 1;
            // The newest is always kept: it is what tells a repeated call that it was made.
            if age > 0 && (kept > self.keep.max(1) || bytes > BYTES) {
                let _ = self.root.remove(&[KEPT, "versions", &before]);
                self.root
                    .remove(&[KEPT, "versions", &format!("{number:010}.json")])?;
            }
        }
        Ok(())
    }
}
