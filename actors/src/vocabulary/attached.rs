//! Files that go with a message: their kinds are told by their bytes and their names.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ghostlight_safety::sanitize_line;

use super::{Data, DataSource, Message, Part};

/// A kind that says nothing.
const BYTES: &str = "application/octet-stream";
/// The longest name in an error, in characters.
const SHOWN: usize = 120;

/// The reason why a file cannot go with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("the file {name:?} cannot be read: {reason}")]
    Unreadable {
        /// Its path, as it was given.
        name: String,
        /// The system's word on it.
        reason: String,
    },
    /// The file holds nothing.
    #[error("the file {name:?} is empty, and no model takes an empty file: leave it out")]
    Empty {
        /// Its name.
        name: String,
    },
    /// The file is larger than what may go with a message.
    #[error(
        "the file {name:?} has more than {most} bytes, which are the most that go with a message: make it smaller, \
         attach a link to it, or give it to a tool"
    )]
    TooLarge {
        /// Its name.
        name: String,
        /// The bound, in bytes.
        most: u64,
    },
    /// A model's server cannot open the address.
    #[error(
        "a model's server cannot open the address {given:?}: {reason}; attach the file itself, or give an address \
         that begins with https:// or http://"
    )]
    NoLink {
        /// The address, without what acts on a terminal.
        given: String,
        /// The fault.
        reason: String,
    },
    /// Neither the bytes nor the name of what is behind a link tell its kind.
    #[error(
        "the address {given:?} does not tell the kind of file behind it: give its media type with it, such as image/png"
    )]
    UnknownKind {
        /// The address.
        given: String,
    },
}

impl Data {
    /// The most bytes of a file that [`from_bytes`](Self::from_bytes) takes: 20 MiB, about what providers take in one
    /// request.
    pub const MAX_BYTES: u64 = 20 << 20;

    /// A file of these bytes. Its kind is told by its bytes, and by the ending of its name where the bytes do not tell.
    ///
    /// ```
    /// use ghostlight_actors::vocabulary::Data;
    ///
    /// let table = Data::from_bytes("prices.csv", b"pear,2\n")?;
    /// assert_eq!(table.media_type, "text/csv");
    /// # Ok::<(), ghostlight_actors::vocabulary::FileError>(())
    /// ```
    ///
    /// # Errors
    /// No bytes, or more than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn from_bytes(name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Result<Self, FileError> {
        let (name, bytes) = (name.into(), bytes.as_ref());
        if bytes.is_empty() {
            return Err(FileError::Empty { name });
        }
        if bytes.len() as u64 > Self::MAX_BYTES {
            return Err(FileError::TooLarge {
                name,
                most: Self::MAX_BYTES,
            });
        }
        Ok(Self {
            media_type: kind_of(&name, bytes).to_owned(),
            name: (!name.is_empty()).then_some(name),
            source: DataSource::Base64(BASE64.encode(bytes)),
        })
    }

    /// The file at this address, which the model's server opens. Its kind is told by the ending of its path.
    ///
    /// # Errors
    /// An address that is not `http` or `https`, such as the path of a file; an address with a name or password, which
    /// would be kept with the conversation; a path that does not tell the kind ([`link_of`](Self::link_of) takes it).
    pub fn link(address: impl Into<String>) -> Result<Self, FileError> {
        let address = address.into();
        check_link(&address)?;
        match kind_by_ending(path_of(&address)) {
            Some(kind) => Self::link_of(address, kind),
            None => Err(FileError::UnknownKind {
                given: sanitize_line(&address, SHOWN),
            }),
        }
    }

    /// The file at this address, of this media type, such as `image/png`.
    ///
    /// # Errors
    /// As [`link`](Self::link), but for the kind.
    pub fn link_of(
        address: impl Into<String>,
        media_type: impl Into<String>,
    ) -> Result<Self, FileError> {
        let address = address.into();
        check_link(&address)?;
        let name = path_of(&address).rsplit('/').next();
        Ok(Self {
            media_type: media_type.into(),
            name: name.filter(|name| !name.is_empty()).map(str::to_owned),
            source: DataSource::Url(address),
        })
    }
}

impl Data {
    /// The most characters of base64 that stand in an entry. The bytes of a longer file are kept beside it.
    pub(crate) const MAX_INLINE: usize = 4 << 10;

    /// Whether a store keeps its bytes beside the entries that hold it.
    pub(crate) fn is_kept_apart(&self) -> bool {
        matches!(&self.source, DataSource::Base64(text) if text.len() > Self::MAX_INLINE)
    }

    /// The bytes that a store keeps beside the entries. `None` for what stays in them: little, an address, and base64 that
    /// could not be written again as it is.
    pub(crate) fn bytes_apart(&self) -> Option<Vec<u8>> {
        match &self.source {
            DataSource::Base64(text) if self.is_kept_apart() => BASE64.decode(text).ok(),
            _ => None,
        }
    }

    /// Gives it back the bytes that were kept apart.
    pub(crate) fn put_back(&mut self, bytes: &[u8]) {
        self.source = DataSource::Base64(BASE64.encode(bytes));
    }
}

impl Message {
    /// The files in it, those of tool results among them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Data> {
        self.parts.iter().flat_map(|part| match part {
            Part::Data(data) => std::slice::from_ref(data),
            Part::ToolResult(result) => &result.attachments,
            _ => &[],
        })
    }

    /// The same, to be changed.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut Data> {
        self.parts.iter_mut().flat_map(|part| match part {
            Part::Data(data) => std::slice::from_mut(data),
            Part::ToolResult(result) => &mut result.attachments,
            _ => &mut [],
        })
    }

    /// Whether a store keeps the bytes of a file in it beside the entries that hold it.
    pub(crate) fn has_files_apart(&self) -> bool {
        self.files().any(Data::is_kept_apart)
    }

    /// The same message with this file behind what it says.
    ///
    /// ```
    /// use ghostlight_actors::vocabulary::{Data, Message};
    ///
    /// let message = Message::user("What does it show?").attach(Data::link("https://example.com/a.png")?);
    /// assert_eq!(message.parts.len(), 2);
    /// # Ok::<(), ghostlight_actors::vocabulary::FileError>(())
    /// ```
    #[must_use]
    pub fn attach(mut self, file: impl Into<Data>) -> Self {
        self.parts.push(Part::Data(file.into()));
        self
    }
}

/// Checks that a model's server can open an address: it is `http` or `https`, names a host, and holds no credential.
///
/// # Errors
/// The fault. No error holds a password.
pub fn check_link(address: &str) -> Result<(), FileError> {
    let fault = |reason: &str, given: &str| FileError::NoLink {
        given: sanitize_line(given, SHOWN),
        reason: reason.to_owned(),
    };
    let lower = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    let scheme = ["https://", "http://"]
        .into_iter()
        .find(|scheme| lower.starts_with(scheme));
    let Some(scheme) = scheme else {
        let reason = match address.split_once(':') {
            Some(("data", _)) => {
                return Err(fault("it holds the bytes themselves", "data:"));
            }
            Some((scheme, _)) if scheme.len() > 1 && scheme.chars().all(char::is_alphanumeric) => {
                format!("it is of the kind {scheme:?}")
            }
            _ => "it is a path on this machine".to_owned(),
        };
        return Err(fault(&reason, address));
    };
    let rest = &address[scheme.len()..];
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return Err(fault("it holds a name or password", scheme));
    }
    if host.is_empty() || host.starts_with(':') {
        return Err(fault("it names no host", address));
    }
    if address.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(fault("it holds white space", address));
    }
    Ok(())
}

/// The path in an address.
fn path_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.split_once('/').map_or("", |(_, path)| path)
}

/// The media type of a file.
fn kind_of(name: &str, bytes: &[u8]) -> &'static str {
    let named = kind_by_ending(name);
    if let Some(kind) = kind_by_bytes(bytes) {
        return match (kind, named) {
            // Documents of office programs are archives; one container holds sound or pictures.
            ("application/zip" | "application/x-ole-storage", Some(named)) => named,
            ("video/mp4", Some(named @ "audio/mp4"))
            | ("video/webm", Some(named @ "audio/webm"))
            | ("audio/ogg", Some(named @ "video/ogg")) => named,
            _ => kind,
        };
    }
    let is_text = !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    match named {
        // The bytes of these kinds tell them, so the name is wrong.
        Some(kind) if kind.starts_with("image/") && kind != "image/svg+xml" => plain(is_text),
        Some("application/pdf") => plain(is_text),
        Some(kind) => kind,
        None if bytes.trim_ascii_start().starts_with(b"<svg") => "image/svg+xml",
        None => plain(is_text),
    }
}

fn plain(is_text: bool) -> &'static str {
    if is_text { "text/plain" } else { BYTES }
}

/// The media type that the first bytes tell.
fn kind_by_bytes(bytes: &[u8]) -> Option<&'static str> {
    let at = |place: usize, word: &[u8]| {
        bytes
            .get(place..)
            .is_some_and(|rest| rest.starts_with(word))
    };
    let begins = |word: &[u8]| at(0, word);
    let kind = if begins(b"\x89PNG\r\n\x1a\n") {
        "image/png"
    } else if begins(b"\xff\xd8\xff") {
        "image/jpeg"
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        "image/gif"
    } else if begins(b"RIFF") && at(8, b"WEBP") {
        "image/webp"
    } else if begins(b"RIFF") && at(8, b"WAVE") {
        "audio/wav"
    } else if begins(b"II*\0") || begins(b"MM\0*") {
        "image/tiff"
    } else if begins(b"BM") && at(6, b"\0\0\0\0") {
        "image/bmp"
    } else if at(4, b"ftyp") {
        match bytes.get(8..12) {
            Some(b"heic" | b"heix" | b"heim" | b"heis") => "image/heic",
            Some(b"mif1" | b"msf1") => "image/heif",
            Some(b"avif" | b"avis") => "image/avif",
            Some(b"M4A " | b"M4B ") => "audio/mp4",
            Some(b"qt  ") => "video/quicktime",
            _ => "video/mp4",
        }
    } else if begins(b"%PDF-") {
        "application/pdf"
    } else if begins(b"ID3") {
        "audio/mpeg"
    } else if begins(b"\xff\xf1") || begins(b"\xff\xf9") {
        "audio/aac"
    } else if bytes.len() > 1 && bytes[0] == 0xff && matches!(bytes[1], 0xfa | 0xfb | 0xf2 | 0xf3) {
        "audio/mpeg"
    } else if begins(b"fLaC") {
        "audio/flac"
    } else if begins(b"OggS") {
        "audio/ogg"
    } else if begins(b"FORM") && at(8, b"AIFF") {
        "audio/aiff"
    } else if begins(b"\x1a\x45\xdf\xa3") {
        "video/webm"
    } else if begins(b"PK\x03\x04") {
        "application/zip"
    } else if begins(b"\xd0\xcf\x11\xe0") {
        "application/x-ole-storage"
    } else if begins(b"\x1f\x8b") {
        "application/gzip"
    } else {
        return None;
    };
    Some(kind)
}

/// The media type that the ending of a name tells.
fn kind_by_ending(name: &str) -> Option<&'static str> {
    let last = name.rsplit(['/', '\\']).next()?;
    let (_, ending) = last.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" | "jpe" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "m4a" | "m4b" => "audio/mp4",
        "aac" => "audio/aac",
        "flac" => "audio/flac",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "weba" => "audio/webm",
        "aif" | "aiff" => "audio/aiff",
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "ogv" => "video/ogg",
        "mpg" | "mpeg" => "video/mpeg",
        "pdf" => "application/pdf",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "odt" => "application/vnd.oasis.opendocument.text",
        "doc" => "application/msword",
        "xls" => "application/vnd.ms-excel",
        "ppt" => "application/vnd.ms-powerpoint",
        "zip" => "application/zip",
        "txt" | "log" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "xml" => "application/xml",
        "json" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "yaml" | "yml" => "application/yaml",
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(name: &str, bytes: &[u8]) -> String {
        Data::from_bytes(name, bytes).unwrap().media_type
    }

    #[test]
    fn bytes_tell_the_kind_and_the_name_where_they_do_not() {
        for (name, bytes, told) in [
            ("a.png", &b"\x89PNG\r\n\x1a\n...."[..], "image/png"),
            ("wrong.png", b"\xff\xd8\xff\xe0..", "image/jpeg"),
            ("", b"%PDF-1.7 ...", "application/pdf"),
            ("a.bin", b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
            ("a", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
            ("song.mp3", b"\xff\xfb\x90\x00", "audio/mpeg"),
            ("voice.m4a", b"\0\0\0 ftypmp42....", "audio/mp4"),
            ("clip.mp4", b"\0\0\0 ftypisom....", "video/mp4"),
            (
                "report.DOCX",
                b"PK\x03\x04....",
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ),
            ("a.zip", b"PK\x03\x04....", "application/zip"),
            ("data.csv", b"a,b\n", "text/csv"),
            ("Makefile", "all: größe\n".as_bytes(), "text/plain"),
            ("x", b"\0\x01\x02", "application/octet-stream"),
            ("x", b"\xfe\xfe", "application/octet-stream"),
            ("no.png", b"hello", "text/plain"),
            ("no.pdf", b"\0\0", "application/octet-stream"),
            ("drawing", b" <svg xmlns=''/>", "image/svg+xml"),
            (
                "drawing.svg",
                b"<?xml version='1.0'?><svg/>",
                "image/svg+xml",
            ),
        ] {
            assert_eq!(kind(name, bytes), told, "{name} {bytes:?}");
        }
    }

    #[test]
    fn a_file_keeps_its_bytes_and_is_bounded() {
        let data = Data::from_bytes("a.txt", "hi").unwrap();
        assert_eq!(data.name.as_deref(), Some("a.txt"));
        assert_eq!(data.bytes(), Some(Ok(b"hi".to_vec())));
        let empty = Data::from_bytes("a.txt", "").unwrap_err();
        assert!(matches!(empty, FileError::Empty { .. }), "{empty}");
        let most = usize::try_from(Data::MAX_BYTES).unwrap();
        assert!(Data::from_bytes("a", vec![1; most]).is_ok());
        let large = Data::from_bytes("a", vec![1; most + 1]).unwrap_err();
        assert!(large.to_string().contains("20971520"), "{large}");
    }

    #[test]
    fn a_link_is_an_address_of_http() {
        for address in [
            "https://example.com/a.png",
            "HTTP://127.0.0.1:8/x/a.PNG?size=2.jpg#b",
        ] {
            let data = Data::link(address).unwrap();
            assert_eq!(data.media_type, "image/png");
            assert!(data.bytes().is_none());
        }
        assert_eq!(
            Data::link("https://example.com/x/a%20b.pdf").unwrap().name,
            Some("a%20b.pdf".to_owned())
        );
        for (address, told) in [
            ("./chart.png", "path on this machine"),
            ("chart.png", "path on this machine"),
            ("/etc/passwd", "path on this machine"),
            ("C:\\chart.png", "path on this machine"),
            ("file:///etc/passwd", "\"file\""),
            ("gs://bucket/a.png", "\"gs\""),
            ("data:image/png;base64,AAAA", "bytes themselves"),
            ("https://", "no host"),
            ("https:///a.png", "no host"),
            ("https://exa mple.com/a.png", "white space"),
            ("https://me:hunter2@example.com/a.png", "password"),
            ("", "path on this machine"),
        ] {
            let error = Data::link(address).unwrap_err();
            assert!(
                matches!(error, FileError::NoLink { .. }),
                "{address}: {error}"
            );
            let error = error.to_string();
            assert!(error.contains(told), "{address}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = Data::link("https://example.com/picture").unwrap_err();
        assert!(error.to_string().contains("media type"), "{error}");
        assert!(Data::link_of("https://example.com/picture", "image/png").is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_name_make_it_panic(name in ".{0,12}", bytes in prop::collection::vec(any::<u8>(), 1..24)) {
            let data = Data::from_bytes(name.clone(), &bytes).unwrap();
            prop_assert_eq!(data.bytes(), Some(Ok(bytes)));
            let _ = Data::link(name);
        }
    }
}
