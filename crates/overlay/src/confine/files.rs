//! Files that can be opened, by Landlock: irrevocable rules for a thread and its children.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::sys;

/// Access rights of the first version (include/uapi/linux/landlock.h).
const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;

/// Refused wherever no rule allows it. Sockets are made and removed where commands name them, so those two rights are free.
const HANDLED: u64 = EXECUTE
    | WRITE_FILE
    | READ_FILE
    | READ_DIR
    | REMOVE_DIR
    | MAKE_CHAR
    | MAKE_DIR
    | MAKE_REG
    | MAKE_FIFO
    | MAKE_BLOCK
    | MAKE_SYM;

/// Devices that the daemon and the libraries below it open.
const DEVICES: [(&str, u64); 4] = [
    ("/dev/net/tun", READ_FILE | WRITE_FILE),
    ("/dev/null", READ_FILE | WRITE_FILE),
    ("/dev/random", READ_FILE),
    ("/dev/urandom", READ_FILE),
];

/// Reading is allowed below every directory of the root but `/dev`, so of no device that a file there stands for.
pub fn confine() -> io::Result<()> {
    let rules = match sys::ruleset(HANDLED) {
        Ok(rules) => rules,
        // Not built in, or not switched on: the system calls and capabilities are what is left.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in fs::read_dir("/")?.flatten() {
        if entry.file_name() == "dev" {
            continue;
        }
        let rights = match fs::metadata(entry.path()) {
            Ok(found) if found.is_dir() => READ_FILE | READ_DIR,
            Ok(_) => READ_FILE,
            Err(_) => continue,
        };
        let _ = open(&entry.path()).and_then(|place| sys::allow(&rules, place.as_fd(), rights));
    }
    for (device, rights) in DEVICES {
        // Where there is none, there is nothing to allow.
        let _ = open(Path::new(device)).and_then(|file| sys::allow(&rules, file.as_fd(), rights));
    }
    // A thread without privileges may restrict itself, once it promises to gain none.
    rustix::thread::set_no_new_privs(true)?;
    sys::restrict(&rules)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)
}
