//! The files of a folder.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    rc::Rc,
    time::UNIX_EPOCH,
};

use super::{IndexError, SourceEntry, SyncOptions, patterns::Patterns};

/// The most bytes of a file with patterns.
const MAX_PATTERNS_BYTES: u64 = 1 << 20;

/// The patterns that hold in a folder and below it.
struct Rules {
    /// How many names the path of that folder has.
    depth: usize,
    patterns: Patterns,
    /// The rules of the folders above it.
    above: Option<Rc<Rules>>,
}

impl Rules {
    /// The rules in a folder, by those of the folders above it.
    fn of(folder: &Path, above: Option<Rc<Self>>) -> Option<Rc<Self>> {
        let mut patterns = Patterns::default();
        let mut is_any = false;
        for name in [".gitignore", ".ignore"] {
            let text = match read(&folder.join(name), folder, MAX_PATTERNS_BYTES) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), name, %error, "patterns are not read");
                    continue;
                }
            };
            for line in String::from_utf8_lossy(&text).lines() {
                is_any = true;
                if let Err(error) = patterns.add(line) {
                    tracing::warn!(folder = %folder.display(), line, error, "a pattern is not read");
                }
            }
        }
        match is_any {
            true => Some(Rc::new(Self {
                depth: names(folder).len(),
                patterns,
                above,
            })),
            false => above,
        }
    }

    /// The rules of the folders above a folder, up to that of its repository.
    fn above(folder: &Path) -> Option<Rc<Self>> {
        let mut folders: Vec<&Path> = Vec::new();
        for above in folder.ancestors() {
            folders.push(above);
            if above.join(".git").exists() {
                break;
            }
        }
        let outer = folders.into_iter().skip(1).rev();
        outer.fold(None, |rules, folder| Self::of(folder, rules))
    }
}

/// Whether the innermost rule for an entry leaves it out.
fn is_left_out(rules: &Option<Rc<Rules>>, path: &[String], is_folder: bool) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let mut next = rules;
    while let Some(rules) = next {
        if let Some(left_out) = rules.patterns.leave_out(&path[rules.depth..], is_folder) {
            return left_out;
        }
        next = &rules.above;
    }
    false
}

fn names(path: &Path) -> Vec<String> {
    path.iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
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
    let excluded = Patterns::of(&options.exclude).map_err(failed)?;
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), 1, Rules::above(folder))];
    while let Some((inner, depth, above)) = folders.pop() {
        let rules = Rules::of(&inner, above);
        let entries = match fs::read_dir(&inner) {
            Ok(entries) => entries,
            // The folder itself must exist: otherwise all its documents would seem to be deleted.
            Err(error) if depth == 1 => return Err(failed(error.to_string())),
            Err(error) => {
                tracing::warn!(folder = %inner.display(), %error, "a part of the folder is not indexed");
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(error.to_string()))?;
            let path = entry.path();
            // The type is that of the entry itself: a link is neither a file nor a folder.
            let Ok(kind) = entry.file_type() else {
                // The entry is gone.
                continue;
            };
            let name = relative(&path, folder);
            let below: Vec<&str> = name.split('/').collect();
            if entry.file_name().to_string_lossy().starts_with('.')
                || excluded.leave_out(&below, kind.is_dir()) == Some(true)
                || is_left_out(&rules, &names(&path), kind.is_dir())
            {
                continue;
            }
            if kind.is_dir() && depth < options.max_depth {
                folders.push((path, depth + 1, rules.clone()));
            }
            if !kind.is_file()
                || !options.filter.admits(&folder.to_string_lossy(), &name)
                || !reads(&name)
            {
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
