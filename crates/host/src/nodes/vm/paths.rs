//! Files and sockets in the directory of a guest.

use std::path::{Path, PathBuf};

/// Channel ports of a guest, each for one client at a time.
pub const PORTS: usize = 8;

/// A `virtiofsd` socket for share `index`.
pub fn virtiofs_socket(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("fs{index}.sock"))
}

/// The newest part of the guest's console; the part before it is in `console.log.old`, older parts are lost.
pub fn console_path(dir: &Path) -> PathBuf {
    dir.join("console.log")
}

pub fn qmp_path(dir: &Path) -> PathBuf {
    dir.join("qmp.sock")
}

/// Where QEMU's own words go.
pub fn log_path(dir: &Path) -> PathBuf {
    dir.join("qemu.log")
}

pub fn socket_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("port{index}.sock"))
}
