//! Connections that read, and the settings of every connection.

use std::{fs, path::Path};

use ghostlight_safety::percent_encoded;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{fault::Fault, owner::with_suffix, schema};

/// Opens a connection that cannot write.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = match open_settled(path, flags) {
        Err(fault) if is_read_only_mount(&fault, path) => open_unchanging(path, flags),
        connection => connection,
    }?;
    schema::show_as_current(&connection)?;
    Ok(connection)
}

fn open_settled(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(32);
    settle(&connection)?;
    // SQLite opens a file at its first read.
    connection.pragma_query(None, "schema_version", |_| Ok(()))?;
    Ok(connection)
}

/// Whether a file could not be opened because SQLite cannot make its log beside it: the file is on
/// a read-only mount, and its last writer removed the log.
fn is_read_only_mount(fault: &Fault, path: &Path) -> bool {
    let log = fs::metadata(with_suffix(path, "-wal"));
    fault.needs_to_write() && !log.is_ok_and(|log| log.len() > 0)
}

/// Opens a file on a read-only mount, without a log and without locks.
fn open_unchanging(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let path = path.as_os_str().as_encoded_bytes();
    let parts: Vec<String> = path
        .split(|byte| *byte == b'/')
        .map(percent_encoded)
        .collect();
    let uri = format!("file:{}?immutable=1", parts.join("/"));
    open_settled(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI)
}

/// The settings of each connection, for writing or reading.
pub(super) fn settle(connection: &Connection) -> Result<(), Fault> {
    // SQLite then checks the pages that it reads more closely.
    connection.pragma_update(None, "cell_size_check", true)?;
    // Without this guarantee SQLite plans a statement again whenever another value is bound to its
    // LIMIT, which takes longer than a short read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}
