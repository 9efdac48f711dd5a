//! A folder outside of which no path leads.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, File, OpenOptions, Permissions},
};
use ghostlight_actors::contract::ToolError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FilesError;

/// The folder of former contents. No tool reaches it.
pub(super) const KEPT: &str = ".ghostlight";
/// The most bytes of a path.
const PATH_BYTES: usize = 1_024;
/// The most components of a path.
const PATH_PARTS: usize = 64;

/// An open folder, with the patterns of what is hidden from models.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Dir,
    exclude: GlobSet,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File(u64),
    Link,
    Other,
}

/// One entry of a folder.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Root {
    pub(crate) fn open(path: &Path, exclude: &[String]) -> Result<Self, FilesError> {
        let dir = Dir::open_ambient_dir(path, ambient_authority());
        let dir = dir.map_err(|source| FilesError::Root {
            root: path.to_owned(),
            source,
        })?;
        let mut patterns = GlobSetBuilder::new();
        for pattern in exclude {
            // On some file systems `.GIT` is `.git`.
            let glob = GlobBuilder::new(pattern).case_insensitive(true).build();
            patterns.add(glob?);
        }
        let exclude = patterns.build()?;
        Ok(Self { dir, exclude })
    }

    /// The components of a path from this folder; none for the folder itself.
    pub(crate) fn parts<'p>(&self, path: &'p str) -> Result<Vec<&'p str>, ToolError> {
        let refused = |why: &str| {
            let shown: String = path.chars().take(200).collect();
            Err(ToolError::denied(format!(
                "the path {shown:?} is refused: {why}"
            )))
        };
        if path.len() > PATH_BYTES {
            return refused("it is too long");
        }
        if path.contains('\0') {
            return refused("it holds a null byte");
        }
        if path.starts_with(['/', '\\']) || path.contains('\\') || has_drive(path) {
            return refused("give it relative to the folder, with `/` between its parts");
        }
        let parts: Vec<&str> = path
            .split('/')
            .filter(|p| !matches!(*p, "" | "."))
            .collect();
        if parts.len() > PATH_PARTS {
            return refused("it is too deep");
        }
        if parts.contains(&"..") {
            return refused("`..` leads out of the folder");
        }
        if self.hides(&parts) {
            return refused("it is not open to tools");
        }
        Ok(parts)
    }

    /// Whether the entry at this path is hidden from models.
    pub(super) fn hides(&self, parts: &[&str]) -> bool {
        let mut whole = String::new();
        parts.iter().any(|part| {
            if !whole.is_empty() {
                whole.push('/');
            }
            whole.push_str(part);
            part.eq_ignore_ascii_case(KEPT)
                || self.exclude.is_match(part)
                || self.exclude.is_match(&whole)
        })
    }

    /// The folder at this path, no component of which may be a link.
    pub(crate) fn folder(&self, parts: &[&str]) -> io::Result<Dir> {
        let mut dir = self.dir.try_clone()?;
        for part in parts {
            dir = below(&dir, part)?;
        }
        Ok(dir)
    }

    /// The folder that holds the entry at this path. With `make`, missing folders are created.
    fn holder<'p>(&self, parts: &[&'p str], make: bool) -> io::Result<(Dir, &'p str)> {
        let Some((name, above)) = parts.split_last() else {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a folder",
            ));
        };
        let mut dir = self.dir.try_clone()?;
        for part in above {
            dir = match below(&dir, part) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    match dir.create_dir(part) {
                        // Another process has made it meanwhile.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => made?,
                    }
                    below(&dir, part)?
                }
                opened => opened?,
            };
        }
        Ok((dir, name))
    }

    /// A regular file, open for reading, and its size in bytes.
    pub(super) fn file(&self, parts: &[&str]) -> io::Result<(File, u64)> {
        let (dir, name) = self.holder(parts, false)?;
        file_in(&dir, name)
    }

    /// The whole content of a file of at most this many bytes; `None` if it does not exist.
    pub(crate) fn content(&self, parts: &[&str], most: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.file(parts) {
            Ok((file, _)) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        // The file may grow while it is read.
        file.take(most + 1).read_to_end(&mut content)?;
        match content.len() as u64 > most {
            true => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {most} bytes"),
            )),
            false => Ok(Some(content)),
        }
    }

    /// Replaces a file atomically, with the permissions of the old one. Whoever runs the new one gets no rights of its
    /// owner or group: those were given to the old content.
    pub(super) fn replace(&self, parts: &[&str], content: &[u8]) -> io::Result<()> {
        let (dir, name) = self.holder(parts, true)?;
        let permissions = match self.file(parts) {
            Ok((file, _)) => Some(file.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{KEPT}-new-{}-{number}", std::process::id());
        let written = (|| {
            let _ = dir.remove_file(&temporary);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).custom_flags_nofollow();
            #[cfg(unix)]
            if permissions.is_some() || parts.first() == Some(&KEPT) {
                // Only the owner reads what may be secret, until the permissions are set, and former contents for ever.
                cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
            }
            let mut file = dir.open_with(&temporary, &options)?;
            file.write_all(content)?;
            if let Some(permissions) = permissions {
                file.set_permissions(without_others_rights(permissions))?;
            }
            file.sync_all()?;
            dir.rename(&temporary, &dir, name)
        })();
        if written.is_err() {
            let _ = dir.remove_file(&temporary);
        }
        written?;
        sync(&dir)
    }

    /// Removes a file.
    pub(super) fn remove(&self, parts: &[&str]) -> io::Result<()> {
        let (dir, name) = self.holder(parts, false)?;
        dir.remove_file(name)?;
        sync(&dir)
    }

    /// The entries of an open folder, sorted by name, without those that are hidden from models. `below` is the
    /// folder's own path.
    pub(crate) fn list(&self, dir: &Dir, below: &[&str]) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        for entry in dir.entries()? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be asked for.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let mut parts = below.to_vec();
            parts.push(&name);
            if self.hides(&parts) {
                continue;
            }
            let kind = entry.file_type()?;
            let kind = match (kind.is_dir(), kind.is_file(), kind.is_symlink()) {
                (true, ..) => Kind::Folder,
                (_, true, _) => match entry.metadata() {
                    Ok(metadata) => Kind::File(metadata.len()),
                    // The entry is gone.
                    Err(_) => continue,
                },
                (_, _, true) => Kind::Link,
                _ => Kind::Other,
            };
            found.push(Listed { name, kind });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

/// Opens a regular file in a folder, for reading, and returns its size in bytes, too.
pub(super) fn file_in(dir: &Dir, name: &str) -> io::Result<(File, u64)> {
    let file = dir.open_with(name, OpenOptions::new().read(true).custom_flags_nofollow())?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a folder",
        ));
    }
    if !metadata.is_file() {
        return Err(io::Error::other(
            "it is not a regular file but a device, pipe or socket",
        ));
    }
    Ok((file, metadata.len()))
}

/// Opens a folder in a folder. It must not be a link.
pub(super) fn below(dir: &Dir, name: &str) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    let opened = dir.open_with(name, options.read(true).custom_flags_nofollow())?;
    if !opened.metadata()?.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{name:?} is not a folder"),
        ));
    }
    Ok(Dir::from_std_file(opened.into_std()))
}

/// These permissions without the bits for setting the user and the group of whoever runs the file.
fn without_others_rights(permissions: Permissions) -> Permissions {
    #[cfg(unix)]
    {
        use cap_std::fs::PermissionsExt;
        let mode = permissions.mode();
        Permissions::from_mode(mode & 0o777)
    }
    #[cfg(not(unix))]
    permissions
}

/// Flushes a folder's entries to disk.
fn sync(dir: &Dir) -> io::Result<()> {
    #[cfg(unix)]
    dir.open(".")?.sync_all()?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

fn has_drive(path: &str) -> bool {
    let mut start = path.chars();
    let letter = start.next().is_some_and(|c| c.is_ascii_alphabetic());
    letter && start.next() == Some(':')
}

/// Opening without links, and without waiting for the other end of a pipe.
trait NoFollow {
    fn custom_flags_nofollow(&mut self) -> &mut Self;
}

impl NoFollow for OpenOptions {
    fn custom_flags_nofollow(&mut self) -> &mut Self {
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt;
            use rustix::fs::OFlags;
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            self.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
        }
        self
    }
}

/// The error message for the model, for a failed access.
pub(super) fn told(path: &str, error: &io::Error) -> ToolError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is none; `list_files` shows what there is".to_owned(),
        _ if is_link(error) => "a part of it is a link, and links are not followed".to_owned(),
        _ => error.to_string(),
    };
    ToolError::new(format!("{path}: {why}"))
}

fn is_link(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    return {
        let _ = error;
        false
    };
}
