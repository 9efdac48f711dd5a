//! The former contents of changed files, so that a change can be undone and is never made twice.
//!
//! In `.ghostlight/versions`, `0000000012.json` describes a change and `0000000012.before` holds the file's content
//! before it. Both are written before the file is replaced.

use std::io;

use ghostlight_actors::vocabulary::Digest;
use serde::{Deserialize, Serialize};

use super::root::{KEPT, Root};

/// How many bytes of former contents are kept.
const BYTES: u64 = 64 << 20;
/// The most bytes of a description.
const DESCRIPTION_BYTES: u64 = 64 << 10;

/// One change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Version {
    /// The key of the call that made it.
    pub(super) key: String,
    pub(super) path: String,
    /// The digest of the content before the change; `None` if the file did not exist.
    pub(super) before: Option<String>,
    /// The digest of the content after the change; `None` if the file was removed.
    pub(super) after: Option<String>,
    /// The change that this change undid.
    pub(super) undoes: Option<u64>,
    /// The message to the model.
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
        // A description that cannot be read, such as after a power failure, counts as missing.
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// The changes, newest first.
    pub(super) fn newest_first(&self) -> io::Result<Vec<(u64, Version)>> {
        let mut found = Vec::new();
        for number in self.numbers()?.into_iter().rev() {
            found.extend(self.read(number)?.map(|version| (number, version)));
        }
        Ok(found)
    }

    /// The content before a change.
    pub(super) fn before(&self, number: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
        let name = format!("{number:010}.before");
        self.root.content(&[KEPT, "versions", &name], most)
    }

    /// Records a change, with the content before it, before the change is made.
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
            // The newest description is always kept: by it a repeated call is recognised.
            if age > 0 && (kept > self.keep.max(1) || bytes > BYTES) {
                let _ = self.root.remove(&[KEPT, "versions", &before]);
                self.root
                    .remove(&[KEPT, "versions", &format!("{number:010}.json")])?;
            }
        }
        Ok(())
    }
}
