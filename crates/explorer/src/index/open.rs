//! The file of the index.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};

use super::error::IndexError;

const SCHEMA: &str = include_str!("schema.sql");
/// Raised with every change of the schema, or of what is written into it: an index of another version is built anew.
const VERSION: i32 = 3;
/// Wait for another process that writes the same index.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The index of a directory of runs, by the directory's path.
pub fn file(cache: &Path, runs: &Path) -> PathBuf {
    let digest = Sha256::digest(runs.as_os_str().as_encoded_bytes());
    let name: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    cache.join("explorer").join(format!("{name}.sqlite"))
}

/// Opens the index, or makes it anew where it is of another version, damaged or missing.
pub fn open(path: &Path) -> Result<Connection, IndexError> {
    match existing(path) {
        Ok(Some(connection)) => return Ok(connection),
        Ok(None) | Err(rusqlite::Error::SqliteFailure(..)) => {}
        Err(error) => return Err(error.into()),
    }
    create(path)
}

fn existing(path: &Path) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = connect(path)?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((version == VERSION && check == "ok").then_some(connection))
}

fn create(path: &Path) -> Result<Connection, IndexError> {
    let failed = |action| {
        move |source| IndexError::File {
            action,
            path: path.to_owned(),
            source,
        }
    };
    for suffix in ["", "-wal", "-shm"] {
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        match fs::remove_file(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("remove")(e)),
            _ => {}
        }
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed("create"))?;
    }
    // Private: it repeats what may be in directories that others cannot read.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(failed("create"))?;
    let connection = connect(path)?;
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

/// A further connection to an index that is open already.
pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Readers go on while the scanner writes. The index can be built anew, so no write waits for the disk.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}
