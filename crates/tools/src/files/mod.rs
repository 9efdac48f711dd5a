//! Tools for the files of one folder, with no way out of it.
//!
//! A path is resolved from an open handle of the folder, component by component, and no component may be a link. So
//! neither `..`, an absolute path, a link nor a folder that is swapped during the call leads outside. Only regular
//! files are opened, and never one on which the call could block.

mod change;
mod patch;
mod reading;
mod root;
mod searching;
mod versions;

use std::{path::PathBuf, sync::Arc};

use ghostlight_actors::contract::{ToolError, ToolHandle, Toolset};
use parking_lot::Mutex;
use serde::Deserialize;

pub(crate) use root::{Kind, Root};

/// The permissions of [`Files`], and its bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FilesSpec {
    /// The folder. It must exist.
    pub root: PathBuf,
    /// Whether files may be changed; they may not when left out.
    pub write: bool,
    /// Patterns, such as `.git` or `*.pem`, for files and folders that are hidden from models: an entry whose name, or
    /// whose path from the folder, matches a pattern is hidden with everything below it. `.git`, `.env` and `.env.*`
    /// when left out.
    pub exclude: Vec<String>,
    /// The endings of the files that may be changed, without the dot; all when left out.
    pub extensions: Option<Vec<String>>,
    /// The most bytes of text that one call reads; 64 KiB when left out.
    pub max_output_bytes: usize,
    /// The most bytes of a file that is written, changed or searched; 8 MiB when left out.
    pub max_file_bytes: u64,
    /// How many changes are kept for undoing; 200 when left out. Their former contents take at most 64 MiB.
    pub keep_versions: usize,
}

impl Default for FilesSpec {
    fn default() -> Self {
        Self {
            root: PathBuf::new(),
            write: false,
            exclude: [".git", ".env", ".env.*"].map(str::to_owned).into(),
            extensions: None,
            max_output_bytes: 64 << 10,
            max_file_bytes: 8 << 20,
            keep_versions: 200,
        }
    }
}

impl FilesSpec {
    /// Settings for reading the files of a folder.
    pub fn reading(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            ..Self::default()
        }
    }

    /// Settings for reading and changing the files of a folder.
    pub fn writing(root: impl Into<PathBuf>) -> Self {
        Self {
            write: true,
            ..Self::reading(root)
        }
    }
}

/// Why the tools for files cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The folder cannot be opened.
    #[error("the folder {root:?} cannot be opened: {source}; name one that exists in `root`")]
    Root {
        /// The folder.
        root: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A pattern of `exclude` is invalid.
    #[error("`exclude` holds a pattern that cannot be read: {0}")]
    Pattern(#[from] globset::Error),
}

ghostlight_actors::parts_of_system_error!(FilesError);

/// The tools `read_file`, `list_files`, `grep_files` and `diff_file` for the files of one folder and, where the
/// settings allow changes, `write_file`, `edit_file`, `patch_files` and `undo_file`.
///
/// Each change is `idempotent`: its key and the file's former content are written below `.ghostlight` in the folder
/// before the file is replaced atomically, so a call that is repeated after a crash finds its own change.
///
/// ```
/// use ghostlight_tools::{FilesSpec, Files};
/// use ghostlight_actors::contract::Toolset;
///
/// let files = Files::open(FilesSpec::reading("."))?;
/// let tools = files.tools().unwrap_or_default();
/// assert!(tools.iter().any(|tool| tool.definition().name == "read_file"));
/// # Ok::<(), ghostlight_tools::FilesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    tools: Vec<ToolHandle>,
}

/// The state that the tools of one folder share.
#[derive(Debug)]
struct Folder {
    root: Root,
    settings: FilesSpec,
    /// Held while a file is changed.
    changing: Mutex<()>,
}

impl Files {
    /// The tools for a folder.
    ///
    /// # Errors
    /// The folder cannot be opened, or a pattern cannot be read.
    pub fn open(settings: FilesSpec) -> Result<Self, FilesError> {
        let root = Root::open(&settings.root, &settings.exclude)?;
        let write = settings.write;
        let folder = Arc::new(Folder {
            root,
            settings,
            changing: Mutex::default(),
        });
        let mut tools = reading::tools(&folder);
        tools.extend(searching::tools(&folder));
        tools.push(change::diff_tool(&folder));
        if write {
            tools.extend(change::tools(&folder));
        }
        Ok(Self { tools })
    }
}

impl Toolset for Files {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.tools.clone())
    }
}

/// A text cut to a number of characters, with a mark where it was cut.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} more bytes)", &text[..at], text.len() - at),
    }
}

/// The kind of binary file that begins with these bytes, if they are not text.
fn binary_kind(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a zip archive or Office document"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x7fELF", "a program"),
        (b"SQLite format 3\0", "an SQLite database"),
    ];
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic));
    let start = &bytes[..bytes.len().min(8 << 10)];
    known
        .map(|(_, kind)| *kind)
        .or_else(|| start.contains(&0).then_some("a binary file"))
}
