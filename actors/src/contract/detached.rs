//! Files beside the entries that hold them: a store keeps the bytes of a file once, however many entries hold it.
//!
//! Everybody reads and writes entries through a [`StoreHandle`](super::StoreHandle). It takes each long file out of the
//! text of an entry before the store gets it, and puts it back when the entry is read. In between the text is
//!
//! ```json
//! {"detached":{"files":[{"at":PLACE,"content":HASH}],"entry":ENTRY}}
//! ```
//!
//! `ENTRY` is the entry's text, in which an empty text stands for the base64 of each file, and `PLACE` is the place in it,
//! in bytes, where the base64 belongs. The bytes are a blob, and a row of the session or of the tree of runs refers to it:
//! both are in the commit that brings the entry, and the row goes when the session or the tree is deleted. So an entry
//! finds the files of its own session or tree alone, and nobody who writes an entry can name a hash: a text that was
//! written in this form is taken for what it is, a text, and put into this form once more.
//!
//! A program that does not know this form takes it for an entry of a later one, and leaves it alone.

use std::sync::{Arc, OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::vocabulary::{Data, Digest};

/// The beginning of a text without its files.
const BEGIN: &str = "{\"detached\":";
/// The text before the base64 of a file, in an entry.
const FILE: &str = "\"base64\":\"";

/// Whether a text is in the form without files.
pub(super) fn is_detached(text: &str) -> bool {
    text.starts_with(BEGIN)
}

/// Whether files may be in a text that a store keeps beside it.
pub(crate) fn may_have_files(text: &str) -> bool {
    text.len() > Data::MAX_INLINE && text.contains(FILE)
}

/// An entry with the files that a store keeps beside it.
pub(super) struct Attached {
    entry: Box<str>,
    files: Vec<File>,
    text: OnceLock<Box<str>>,
}

pub(super) struct File {
    pub(super) at: usize,
    pub(super) hash: Digest,
    pub(super) content: Arc<[u8]>,
}

impl Attached {
    pub(super) fn new(entry: impl Into<Box<str>>, files: Vec<File>) -> Self {
        Self {
            entry: entry.into(),
            files,
            text: OnceLock::new(),
        }
    }

    /// Finds the files in the text of an entry; `None` where there are none. They are written back as they were: base64
    /// that has another form than ours stays in the entry.
    pub(super) fn find(text: &str) -> Option<Self> {
        if is_detached(text) {
            return Some(Self::new(text, Vec::new()));
        }
        if !may_have_files(text) {
            return None;
        }
        let (mut entry, mut files, mut rest) = (String::new(), Vec::new(), text);
        // In JSON no quote inside of a text is followed by these characters, so a text begins behind them.
        while let Some(at) = rest.find(FILE) {
            let (before, value) = rest.split_at(at + FILE.len());
            entry.push_str(before);
            rest = value;
            let base64 = &value[..value.find('"').unwrap_or(0)];
            if base64.len() > Data::MAX_INLINE
                && let Ok(content) = BASE64.decode(base64)
            {
                files.push(File {
                    at: entry.len(),
                    hash: Digest::of(&content),
                    content: content.into(),
                });
                rest = &value[base64.len()..];
            }
        }
        entry.push_str(rest);
        (!files.is_empty()).then(|| Self::new(entry, files))
    }

    /// The entry, with an empty text for each file.
    pub(super) fn entry(&self) -> &str {
        &self.entry
    }

    pub(super) fn files(&self) -> Vec<(Digest, Arc<[u8]>)> {
        let each = self.files.iter();
        each.map(|file| (file.hash, file.content.clone())).collect()
    }

    /// The form in which a store keeps it.
    pub(super) fn detached(&self) -> Box<str> {
        let place = |file: &File| FileAt {
            at: file.at,
            content: file.hash,
        };
        let files: Vec<FileAt> = self.files.iter().map(place).collect();
        // Numbers and hashes always have a form as JSON.
        let files = serde_json::to_string(&files).unwrap_or_default();
        let entry = &self.entry;
        format!("{BEGIN}{{\"files\":{files},\"entry\":{entry}}}}}").into()
    }

    /// Writes the text.
    pub(super) fn write(&self) -> String {
        let mut text = String::with_capacity(self.len());
        let mut written = 0;
        for File { at, content, .. } in &self.files {
            text.push_str(&self.entry[written..*at]);
            BASE64.encode_string(content, &mut text);
            written = *at;
        }
        text.push_str(&self.entry[written..]);
        text
    }

    /// The text, which is kept from now on.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.write().into())
    }

    /// The length of the text.
    pub(super) fn len(&self) -> usize {
        let files = self.files.iter();
        let files: usize = files.map(|file| file.content.len().div_ceil(3) * 4).sum();
        self.entry.len() + files
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form<'t> {
    #[serde(borrow)]
    Detached(Detached<'t>),
}

/// An entry without its files, as a store has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detached<'t> {
    pub(super) files: Vec<FileAt>,
    #[serde(borrow)]
    pub(super) entry: &'t RawValue,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileAt {
    pub(super) at: usize,
    pub(super) content: Digest,
}

impl<'t> Detached<'t> {
    /// The hashes of its files.
    pub(super) fn hashes(&self) -> Vec<Digest> {
        self.files.iter().map(|file| file.content).collect()
    }

    /// Reads the text of an entry without its files.
    ///
    /// # Errors
    /// The fault of the text.
    pub(super) fn read(text: &'t str) -> Result<Self, String> {
        let read = serde_json::from_str(text);
        let Form::Detached(read) = read.map_err(|error| error.to_string())?;
        let entry = read.entry.get();
        let is_place = |file: &FileAt| entry.is_char_boundary(file.at);
        let are_places = read.files.iter().all(is_place);
        if are_places && read.files.is_sorted_by_key(|file| file.at) {
            Ok(read)
        } else {
            Err("a file has no place in its entry".to_owned())
        }
    }
}
