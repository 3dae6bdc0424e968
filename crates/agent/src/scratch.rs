//! A program's directory: new and empty, with the medium that holds it, and removed again.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use latlab_wire::corpus::{self, Digest};
use latlab_wire::scratch::Medium;

use crate::os;

/// Magic numbers of statfs(2) (`linux/magic.h`) and the names of their file systems.
const KINDS: [(u32, &str); 11] = [
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (OVERLAY, "overlay"),
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
];
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const OVERLAY: u32 = 0x794c_7630;

/// Makes a directory that only root enters, in place of what is there, and tells what holds it.
pub fn new(path: &str) -> Result<(), String> {
    let made = remove_all(path).and_then(|()| make(Path::new(path)));
    let medium = made.and_then(|()| medium(Path::new(path)));
    let medium = medium.map_err(|error| format!("make {path}: {error}"))?;
    println!("{medium}");
    Ok(())
}

pub fn remove(path: &str) -> Result<(), String> {
    remove_all(path).map_err(|error| format!("remove {path}: {error}"))
}

/// Writes that many bytes of generated text.
pub fn write_text(bytes: &str, path: &str) -> Result<(), String> {
    let bytes: u64 = bytes.parse().map_err(|error| format!("{bytes}: {error}"))?;
    let written = File::create(path)
        .and_then(|file| corpus::write(bytes, &mut io::BufWriter::with_capacity(1 << 16, file)));
    written.map_err(|error| format!("write {path}: {error}"))
}

/// Tells the digest of standard input.
pub fn digest() -> Result<(), String> {
    let digest = Digest::of(&mut io::stdin().lock()).map_err(|error| format!("read: {error}"))?;
    println!("{digest}");
    Ok(())
}

/// A symbolic link in its place is removed, and not followed.
fn remove_all(path: &str) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

fn make(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// An overlay is as its upper layer is. That of a disk tells where on it a file is (FS_IOC_FIEMAP), and memory does not.
fn medium(path: &Path) -> io::Result<Medium> {
    let magic = rustix::fs::statfs(path)?.f_type as u32;
    let known = KINDS.iter().find(|(number, _)| *number == magic);
    let kind = known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned());
    let is_memory = match magic {
        TMPFS | RAMFS => true,
        OVERLAY => {
            let probe = path.join("extents");
            let mapped = os::has_extents(&File::create(&probe)?);
            fs::remove_file(&probe)?;
            !mapped
        }
        _ => false,
    };
    Ok(Medium { kind, is_memory })
}
