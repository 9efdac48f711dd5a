//! How files are opened here: for their user alone, since the data of runs are private, and only if
//! they are regular files. Opening a device may act on it, and opening a FIFO waits for its other
//! end.

use std::path::PathBuf;
use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Read as _},
    path::Path,
};

/// Options that make a new file for its user alone. An existing file keeps its mode.
pub fn private() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder and its missing parents, for its user alone. Existing folders stay as they are.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The path in a variable of the environment.
pub fn variable_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The system's folder for a user's data.
pub fn data_folder() -> Option<PathBuf> {
    let base = if cfg!(windows) {
        variable_path("LOCALAPPDATA").or_else(|| variable_path("APPDATA"))
    } else if cfg!(target_os = "macos") {
        variable_path("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        // XDG Base Directory Specification: a relative path must be ignored.
        let xdg = variable_path("XDG_DATA_HOME").filter(|path| path.is_absolute());
        xdg.or_else(|| variable_path("HOME").map(|home| home.join(".local/share")))
    };
    base.map(|base| base.join("ghostlight"))
}

/// Opens a regular file, or makes it if the options say so. Anything else at the path, also a
/// symbolic link, is left untouched: neither opened nor waited for.
///
/// # Errors
/// `InvalidInput` with the kind of thing at the path; otherwise the error of opening.
pub fn open_regular(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(found) => regular(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    open(options.clone(), path, false)
}

/// Reads a regular file of at most this many bytes; a link to one is followed.
///
/// # Errors
/// `InvalidInput` if it is not a regular file, `FileTooLarge`; otherwise the error of reading.
pub fn read_at_most(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    regular(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    let mut bytes = Vec::new();
    let file = open(options, path, true)?;
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("it has more than {max_bytes} bytes, which are the most");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a regular file of at most this many bytes as text.
///
/// # Errors
/// As [`read_at_most`], and `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let text = String::from_utf8(read_at_most(path, max_bytes)?);
    text.map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault.utf8_error()))
}

/// The real path of a file, or the path where it would be made; links are followed once.
///
/// # Errors
/// `NotFound` for a dangling link, and for a missing folder.
pub fn resolve(path: &Path) -> io::Result<std::path::PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(found) => path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if found.is_symlink() => {
                let message = "it is a symbolic link that leads to no file; name that file itself";
                io::Error::new(io::ErrorKind::NotFound, message)
            }
            _ => error,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = "it names no file";
            let name = path.file_name();
            let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, message))?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            Ok(folder.canonicalize()?.join(name))
        }
        Err(error) => Err(error),
    }
}

/// Refuses anything but a regular file.
///
/// # Errors
/// `InvalidInput` with the kind of thing that it is.
pub fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let kind = in_words(found.file_type());
    let message = format!("it is {kind} and no regular file; it is left as it is");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn in_words(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return "a FIFO";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    match kind.is_symlink() {
        _ if kind.is_dir() => "a folder",
        true => "a symbolic link",
        false => "something else",
    }
}

/// Opens a file, and checks the open file again, since it may have been replaced after the first
/// check.
#[cfg_attr(not(unix), allow(unused_mut, unused_variables))]
fn open(mut options: OpenOptions, path: &Path, follow: bool) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = match follow {
            true => OFlags::NONBLOCK | OFlags::NOCTTY,
            false => OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW,
        };
        let flags = flags.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let file = options.open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}
