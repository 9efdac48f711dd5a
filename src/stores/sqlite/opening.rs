//! Opening: an existing file is inspected, without changing it, before anything is written.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

use ghostlight_actors::contract::StoreError;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, config::DbConfig, params};

use super::{
    Options, absence,
    anchor::{self, Mark},
    chain::{CommitDigest, Hash},
    connection,
    fault::{Fault, io},
    owner::{self, Guard, with_suffix},
    rows,
    schema::{self, Header},
};
use crate::files;

/// The file that was found at a path.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The last commit.
    pub(super) mark: Mark,
    /// The error for a caller that wants to write nevertheless.
    pub(super) truncated: Option<StoreError>,
}

/// The path of the file itself, with links followed: its owners and its anchor stand beside it, and
/// every process that opens it must find them. The file, and each file that belongs to it, must be
/// missing or a regular file without another name.
pub(super) fn real_path(path: &Path) -> Result<PathBuf, StoreError> {
    let place = path.display().to_string();
    let path = files::resolve(path).map_err(|error| io(&place, "looking for it", &error))?;
    for suffix in ["", "-wal", "-shm", "-journal", ".anchor"] {
        look_at(&with_suffix(&path, suffix), one_regular_file)?;
    }
    look_at(&owner::folder_of(&path), |found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "the store's locks are to be in a folder of this name, and this is none; it is left as \
             it is",
        )),
    })?;
    Ok(path)
}

/// Checks the file at a path without opening it; a missing file is fine.
fn look_at(path: &Path, check: fn(&Metadata) -> io::Result<()>) -> Result<(), StoreError> {
    let looked = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) => check(&found),
    };
    looked.map_err(|error| io(&path.display().to_string(), "opening it", &error))
}

fn one_regular_file(found: &Metadata) -> io::Result<()> {
    files::regular(found)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(found) > 1 {
        // SQLite names its log, and this module its locks, after the file: under two names there
        // would be two of each.
        return Err(io::Error::other(
            "the file has a second name (a hard link), under which another process could write it \
             unseen; remove one of the names, or put a copy in its place",
        ));
    }
    Ok(())
}

/// Inspects a store and its anchor. Nothing is written, repaired or checkpointed.
pub(super) fn inspect(path: &Path, options: &Options) -> Result<Found, StoreError> {
    let place = path.display().to_string();
    // The anchor first: commits that are made meanwhile can only make the store newer than it.
    let anchored = read_anchor(path)?;
    if !is_made(path)? {
        let reason = match path.exists() {
            true => "the file is empty: no store was made in it yet",
            false => "no store was made there yet",
        };
        let reason = reason.to_owned();
        return Err(StoreError::Io { place, reason });
    }
    let header = read_start(path).map_err(|error| io(&place, "reading it", &error))?;
    check_version(&place, schema::read_header(&header))?;
    inspect_tables(path, &place, anchored, options)
}

fn inspect_tables(
    path: &Path,
    place: &str,
    anchored: Option<Mark>,
    options: &Options,
) -> Result<Found, StoreError> {
    let at = |fault: Fault| fault.at(place);
    let mut connection = connection::open_read_only(path).map_err(at)?;
    let prepared = connection
        .busy_timeout(options.busy_timeout)
        .and_then(|()| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true));
    prepared.map_err(|error| at(error.into()))?;
    let snapshot = connection.transaction().map_err(|error| at(error.into()))?;
    // The log may hold a later version than the file's own header.
    let version = pragma(&snapshot, "user_version").map_err(at)?;
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    check_version(place, Header::Store(version))?;
    schema::check_tables(&snapshot, version).map_err(at)?;
    check_structure(&snapshot, options.full_check_bytes).map_err(at)?;
    let mark = check_end(&snapshot).map_err(at)?;
    let truncated = match anchored {
        Some(anchored) => compare(&snapshot, place, mark, anchored)?,
        None => None,
    };
    Ok(Found { mark, truncated })
}

fn read_anchor(path: &Path) -> Result<Option<Mark>, StoreError> {
    let path = anchor::path_of(path);
    anchor::read(&path).map_err(|error| {
        let place = path.display().to_string();
        if error.kind() == io::ErrorKind::InvalidData {
            let reason = format!("{error} (remove it only if you trust the store without it)");
            StoreError::Damaged { place, reason }
        } else {
            io(&place, "reading it", &error)
        }
    })
}

/// The first bytes of a file, read without SQLite.
fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(100);
    let file = files::open_regular(OpenOptions::new().read(true), path)?;
    file.take(100).read_to_end(&mut start)?;
    Ok(start)
}

fn check_version(place: &str, header: Header) -> Result<(), StoreError> {
    match header {
        Header::Store(found) if found > schema::current_version() => Err(StoreError::TooNew {
            place: place.to_owned(),
            found,
            known: schema::current_version(),
        }),
        Header::Store(found) if found < schema::FIRST => Err(StoreError::NoLongerRead {
            place: place.to_owned(),
            found,
            oldest: schema::FIRST,
        }),
        Header::Store(_) => Ok(()),
        Header::Foreign(reason) => Err(StoreError::Damaged {
            place: place.to_owned(),
            reason: reason.to_owned(),
        }),
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
}

/// Compares every index with its table, if the file is not too large for that.
fn check_structure(connection: &Connection, full_check_bytes: u64) -> Result<(), Fault> {
    let bytes = pragma(connection, "page_count")?.saturating_mul(pragma(connection, "page_size")?);
    if u64::try_from(bytes).is_ok_and(|bytes| bytes > full_check_bytes) {
        return absence::check(connection, false);
    }
    check_pages(connection)?;
    absence::check(connection, true)
}

/// Compares every index with its table.
pub(super) fn check_pages(connection: &Connection) -> Result<(), Fault> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(Fault::Damaged(found.replace('\n', " ")))
    }
}

/// The last commit, after its digest was recomputed from its entries.
fn check_end(connection: &Connection) -> Result<Mark, Fault> {
    let last = "SELECT number, position, digest FROM commits ORDER BY number DESC LIMIT 2";
    let mut select = connection.prepare(last)?;
    let columns = |row: &Row<'_>| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        Ok((number, row.get::<_, i64>(1)?, row.get::<_, Hash>(2)?))
    };
    let commits: Vec<_> = select.query_map([], columns)?.collect::<Result<_, _>>()?;
    let (number, position, digest) = commits.first().copied().unwrap_or((0, 0, [0; 16]));
    let (before, start, before_digest) = commits.get(1).copied().unwrap_or((0, 0, [0; 16]));
    let last = "SELECT max((SELECT coalesce(max(position), 0) FROM entries), \
                    (SELECT coalesce(max(position), 0) FROM gone))";
    let any_deleted = "SELECT EXISTS (SELECT 1 FROM commits WHERE first IS NOT NULL)";
    let hashes = "SELECT hash FROM (SELECT position, hash FROM entries WHERE position > ?1 \
                      UNION ALL SELECT position, hash FROM gone WHERE position > ?1) \
                  ORDER BY position";
    let end: i64 = connection.query_row(last, [], |row| row.get(0))?;
    // All entries before a commit without entries may be deleted, and their commits folded.
    let folded = end < position && position == start;
    let folded = folded && connection.query_row(any_deleted, [], |row| row.get(0))?;
    if number != before + u64::from(number > 0) || (end != position && !folded) {
        return Err(Fault::damaged("its last commits are missing in part"));
    }
    let mut computed = CommitDigest::after(&before_digest, number);
    let mut entries = connection.prepare(hashes)?;
    let mut entries = entries.query(params![start])?;
    while let Some(row) = entries.next()? {
        computed.entry(&rows::hash(row, 0)?);
    }
    if number > 0 && computed.done() != digest {
        return Err(Fault::Damaged(format!(
            "commit {number} does not match its digest"
        )));
    }
    Ok(Mark { number, digest })
}

/// Compares the store's commits with its anchor.
fn compare(
    connection: &Connection,
    place: &str,
    mark: Mark,
    anchored: Mark,
) -> Result<Option<StoreError>, StoreError> {
    if anchored.number > mark.number {
        return Ok(Some(StoreError::Truncated {
            place: place.to_owned(),
            have: mark.number,
            expected: anchored.number,
        }));
    }
    let digest: Option<Hash> = connection
        .query_row(
            "SELECT digest FROM commits WHERE number = ?1",
            [anchored.number.cast_signed()],
            |row| row.get(0),
        )
        .optional()
        .map_err(|error| Fault::from(error).at(place))?;
    if anchored.number == 0 || digest == Some(anchored.digest) {
        return Ok(None);
    }
    // The anchor is older than a deletion, so its commit may be folded and its digest unknown.
    if digest.is_none() {
        let folded = "SELECT EXISTS (SELECT 1 FROM commits WHERE first <= ?1 AND number >= ?1)";
        let folded = connection
            .query_row(folded, [anchored.number.cast_signed()], |row| row.get(0))
            .map_err(|error| Fault::from(error).at(place))?;
        if folded {
            return Ok(None);
        }
    }
    Err(StoreError::Damaged {
        place: place.to_owned(),
        reason: format!(
            "its commit {} is not the one that its anchor knows: one of the two files belongs \
             to another store",
            anchored.number
        ),
    })
}

/// Whether a store was made at this path. A file that is missing or empty is none, and an error if its
/// anchor or its log says that there was one.
pub(super) fn is_made(path: &Path) -> Result<bool, StoreError> {
    let place = path.display().to_string();
    let has_content = |path: &Path| match fs::metadata(path) {
        Ok(file) => Ok(file.len() > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io(&place, "looking at it", &error)),
    };
    if has_content(path)? {
        return Ok(true);
    }
    let log = with_suffix(path, "-wal");
    let lost = match read_anchor(path)?.filter(|mark| mark.number > 0) {
        Some(anchored) => StoreError::Truncated {
            place: place.clone(),
            have: 0,
            expected: anchored.number,
        },
        // SQLite would replay that log into a new file.
        None if has_content(&log)? => StoreError::Damaged {
            place: place.clone(),
            reason: format!("the file is gone, but its log {} is there", log.display()),
        },
        None => return Ok(false),
    };
    // Another process may have made the store meanwhile.
    match has_content(path)? {
        true => Ok(true),
        false => Err(lost),
    }
}

/// Makes a store where there is none. It appears under its name complete or not at all.
pub(super) fn make_if_missing(path: &Path) -> Result<(), StoreError> {
    let is_missing = || match fs::metadata(path) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_missing() {
        return Ok(());
    }
    let place = path.display().to_string();
    // Another process may have made the file, and written to it, before the guard was acquired.
    let guard = Guard::wait(path).map_err(|error| io(&place, "locking it", &error))?;
    match is_made(path)? {
        true => Ok(()),
        false => make(path, &guard).map_err(|fault| fault.at(&place)),
    }
}

fn make(path: &Path, guard: &Guard) -> Result<(), Fault> {
    let os = |error: io::Error| Fault::Os(error);
    let fresh = guard.fresh("store.new").map_err(os)?;
    // SQLite gives its other files the mode of this one.
    let mut options = files::private();
    options
        .write(true)
        .create_new(true)
        .open(&fresh)
        .map_err(os)?;
    let mut connection = Connection::open(&fresh)?;
    connection.pragma_update(None, "page_size", 4096)?;
    schema::migrate(&mut connection, 0, schema::MIGRATIONS)?;
    // The file's header keeps this mode, so every program uses it.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| Fault::Sql(error))?;
    File::open(&fresh)
        .and_then(|file| file.sync_all())
        .map_err(os)?;
    fs::rename(&fresh, path).map_err(os)?;
    anchor::sync_folder(path);
    Ok(())
}

/// Syncs SQLite's log. The last commits in it may be claims, which are not synced by themselves, or those of a process
/// that died before its sync; the anchor names none of them before that.
pub(super) fn sync_log(path: &Path) -> io::Result<()> {
    let log = with_suffix(path, "-wal");
    match files::open_regular(OpenOptions::new().write(true), &log) {
        Ok(log) => log.sync_data(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the writing connection, and brings the tables up to date. The guard keeps other processes
/// from doing so at the same time.
pub(super) fn open_writer(
    path: &Path,
    options: &Options,
    _guard: &Guard,
) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    // NORMAL would lose the last commits when power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // For systems whose plain sync leaves data in the disk's own cache (macOS).
    connection.pragma_update(None, "fullfsync", true)?;
    connection::settle(&connection)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Damaged(format!(
            "its journal mode is {mode} and not WAL"
        )));
    }
    let version = u32::try_from(pragma(&connection, "user_version")?).unwrap_or(u32::MAX);
    if version < schema::current_version() {
        schema::migrate(&mut connection, version, schema::MIGRATIONS)?;
    }
    Ok(connection)
}
