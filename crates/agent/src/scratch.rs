//! A program's directory: new and empty, with the medium that holds it, and removed again.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use latlab_wire::corpus::{self, Digest};
use latlab_wire::scratch::Medium;

use crate::os;

/// Magic numbers of statfs(2) (`linux/magic.h`). A share of 9p has that of the host's file system.
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
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let kind = kind_of(&path.canonicalize()?, &mounts);
    Ok(Medium {
        kind: kind.unwrap_or("unknown").to_owned(),
        is_memory,
    })
}

/// The type of the file system that is mounted nearest above a path (proc_pid_mounts(5)); a later one covers others.
fn kind_of<'m>(path: &Path, mounts: &'m str) -> Option<&'m str> {
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (target, kind) = (words.next()?, words.next()?);
        path.starts_with(target).then_some((target.len(), kind))
    });
    above
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_holds_a_path() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\ndata /var/tmp 9p rw 0 0\n\
            data /var/tmp virtiofs rw 0 0\n";
        for (path, kind) in [
            ("/home", "ext4"),
            ("/run/latlab", "tmpfs"),
            ("/running", "ext4"),
            ("/var/tmp/x", "virtiofs"),
        ] {
            assert_eq!(kind_of(Path::new(path), mounts), Some(kind), "{path}");
        }
        assert_eq!(kind_of(Path::new("/x"), ""), None);
    }

    #[test]
    fn a_directory_is_new_each_time_and_a_link_is_not_followed() {
        let root = std::env::temp_dir().join(format!("latlab-scratch-{}", std::process::id()));
        fs::create_dir_all(root.join("kept")).unwrap();
        fs::write(root.join("kept/file"), "x").unwrap();
        let at = root.join("a/scratch");
        let path = at.to_str().unwrap();
        new(path).unwrap();
        fs::write(at.join("old"), "x").unwrap();
        new(path).unwrap();
        assert!(fs::read_dir(&at).unwrap().next().is_none());
        remove(path).unwrap();
        std::os::unix::fs::symlink(root.join("kept"), &at).unwrap();
        new(path).unwrap();
        assert!(root.join("kept/file").exists() && at.symlink_metadata().unwrap().is_dir());
        fs::remove_dir_all(&root).unwrap();
    }
}
