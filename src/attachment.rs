//! Files from the disk that go with a message.

use std::path::Path;

use ghostlight_actors::vocabulary::{Data, FileError};

use crate::files;

/// A file that goes with a message: a picture, sound, a document or a text.
///
/// ```no_run
/// use ghostlight::prelude::*;
///
/// let turn = Turn::text("What does the chart show?").attach(File::read("chart.png")?);
/// # let _ = turn;
/// # Ok::<(), ghostlight::Error>(())
/// ```
///
/// Its kind is told by its bytes and its name, its bytes are encoded here, and each model gets it in the form that its
/// provider takes. A model that cannot take it is not asked: the error says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File(Data);

impl File {
    /// Reads a file of at most [`Data::MAX_BYTES`]. It is read at once, as `std::fs` reads.
    ///
    /// # Errors
    /// A file that cannot be read, is not a regular file, is empty or is too large.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let bytes = files::read_at_most(path, Data::MAX_BYTES);
        let bytes = bytes.map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => FileError::TooLarge {
                name: path.display().to_string(),
                most: Data::MAX_BYTES,
            },
            _ => FileError::Unreadable {
                name: path.display().to_string(),
                reason: error.to_string(),
            },
        })?;
        let name = path.file_name().unwrap_or_default();
        Self::from_bytes(name.to_string_lossy(), bytes)
    }

    /// A file of these bytes, under this name.
    ///
    /// # Errors
    /// No bytes, or more than [`Data::MAX_BYTES`].
    pub fn from_bytes(name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Result<Self, FileError> {
        Data::from_bytes(name, bytes).map(Self)
    }

    /// A file at an address of HTTP, which the model's server opens.
    ///
    /// # Errors
    /// Those of [`Data::link`].
    pub fn link(address: impl Into<String>) -> Result<Self, FileError> {
        Data::link(address).map(Self)
    }

    /// The same file as this media type, such as `audio/mpeg`.
    #[must_use]
    pub fn media_type(mut self, media_type: impl Into<String>) -> Self {
        self.0.media_type = media_type.into();
        self
    }

    /// The file as a part of a message.
    pub fn data(&self) -> &Data {
        &self.0
    }
}

impl From<File> for Data {
    fn from(file: File) -> Self {
        file.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_each_fault_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "hello").unwrap();
        let file = File::read(&path).unwrap();
        assert_eq!(file.data().name.as_deref(), Some("a.txt"));
        assert_eq!(file.data().media_type, "text/plain");
        let file = file.media_type("text/x-note");
        assert_eq!(Data::from(file).media_type, "text/x-note");
        for (path, told) in [
            (folder.path().to_owned(), "folder"),
            (folder.path().join("none.png"), "none.png"),
        ] {
            let error = File::read(path).unwrap_err();
            assert!(matches!(error, FileError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains(told), "{error}");
        }
        let large = std::fs::File::create(&path).unwrap();
        large.set_len(Data::MAX_BYTES + 1).unwrap();
        let error = File::read(&path).unwrap_err();
        assert!(matches!(error, FileError::TooLarge { .. }), "{error}");
    }
}
