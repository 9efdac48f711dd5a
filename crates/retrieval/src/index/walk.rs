//! The files of a folder.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    time::UNIX_EPOCH,
};

use ignore::{
    WalkBuilder,
    overrides::{Override, OverrideBuilder},
};

use super::{IndexError, SourceEntry, SyncOptions};

/// The patterns of what is left out of a folder, or the fault of the first that cannot be read.
pub(super) fn excluded(folder: &Path, patterns: &[String]) -> Result<Override, String> {
    let mut excluded = OverrideBuilder::new(folder);
    for pattern in patterns {
        // An override that begins so leaves out what fits, and nothing else.
        let added = excluded.add(&format!("!{pattern}"));
        added.map_err(|error| format!("exclude {pattern:?}: {error}"))?;
    }
    excluded.build().map_err(|error| error.to_string())
}

/// The files below a folder that may be read, sorted by name. Links are not followed; files that are hidden, or ignored
/// by a `.gitignore` or `.ignore`, are skipped.
pub(super) fn files(
    folder: &Path,
    options: &SyncOptions,
    reads: impl Fn(&str) -> bool,
) -> Result<Vec<SourceEntry>, IndexError> {
    let failed = |message: String| IndexError::Folder {
        path: folder.to_owned(),
        message,
    };
    let walk = WalkBuilder::new(folder)
        .overrides(excluded(folder, &options.exclude).map_err(failed)?)
        .follow_links(false)
        .require_git(false)
        .max_depth(Some(options.max_depth))
        .build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            // The folder itself must exist: otherwise all its documents would seem to be deleted.
            Err(error) if error.depth().is_none_or(|depth| depth == 0) => {
                return Err(failed(error.to_string()));
            }
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "a part of the folder is not indexed");
                continue;
            }
        };
        // The type is that of the entry itself: a link is not a file.
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let name = relative(entry.path(), folder);
        if !options.filter.admits(&folder.to_string_lossy(), &name) || !reads(&name) {
            continue;
        }
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if files.len() == options.max_files {
            return Err(failed(format!(
                "it holds more than {} files that can be read; name a smaller folder or raise the bound",
                options.max_files
            )));
        }
        let modified = found
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = |time: std::time::Duration| i64::try_from(time.as_nanos());
        files.push(SourceEntry {
            read_as: name.clone(),
            name,
            bytes: found.len(),
            version: Some(modified.map_or(0, |time| nanoseconds(time).unwrap_or(i64::MAX))),
            held: None,
            metadata: Default::default(),
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// The content of a file of at most this many bytes.
pub(super) fn read(path: &Path, folder: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // The file may have been replaced by a link a moment ago.
    let real = fs::canonicalize(path)?;
    if !real.starts_with(fs::canonicalize(folder)?) {
        return Err(io::Error::other(
            "it became a link that leads out of the folder",
        ));
    }
    if !fs::metadata(&real)?.is_file() {
        return Err(io::Error::other("it is not a regular file any more"));
    }
    let mut bytes = Vec::new();
    File::open(&real)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {limit} bytes"),
        )),
        false => Ok(bytes),
    }
}

fn relative(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    let parts = path.iter().map(|part| part.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
