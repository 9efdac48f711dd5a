//! The files of a folder.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    time::UNIX_EPOCH,
};

use super::{IndexError, SourceEntry, SyncOptions};

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
    let mut excluded = ignore::overrides::OverrideBuilder::new(folder);
    for pattern in &options.exclude {
        let wrong = |error: ignore::Error| failed(format!("exclude {pattern:?}: {error}"));
        // An override that begins so leaves out what fits, and nothing else.
        excluded.add(&format!("!{pattern}")).map_err(wrong)?;
    }
    let excluded = excluded
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let walk = ignore::WalkBuilder::new(folder)
        .overrides(excluded)
        .follow_links(false)
        .require_git(false)
        .max_depth(Some(options.max_depth))
        .build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            // The folder itself must exist: otherwise all its documents would seem to be deleted.
            Err(error) if error.depth() == Some(0) || error.depth().is_none() => {
                return Err(failed(error.to_string()));
            }
            Err(error) => {
                tracing::warn!(%error, "a part of the folder is not indexed");
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
            // The entry is gone.
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
