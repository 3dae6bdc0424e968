//! Keeps logs of bounded size from endless streams. The host gives it what a guest, its QEMU and its file servers
//! print: in a plain file, a guest that has them print for ever would fill the host's memory (`/run`).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::os;

/// Copies from descriptors to files until each one's end; four words each: descriptor, path, former, bytes. A file
/// that has this many bytes takes the place of the former, and the next one begins: so the newest is kept, at
/// least these bytes of it and at most twice as many.
pub fn keep(logs: &[&str]) -> Result<(), String> {
    let mut threads = Vec::new();
    for log in logs.chunks(4) {
        let [fd, path, former, most] = log else {
            return Err("log takes four words for each".into());
        };
        let wrong = |word: &str| format!("log {path}: '{word}' makes no sense");
        let bytes = most.parse().map_err(|_| wrong(most))?;
        let fd = fd.parse().map_err(|_| wrong(fd))?;
        let mut input = os::inherited(fd)
            .map(File::from)
            .map_err(|_| wrong("descriptor"))?;
        let (path, former) = (PathBuf::from(path), PathBuf::from(former));
        threads.push(std::thread::spawn(move || {
            copy(&mut input, &path, &former, bytes)
                .map_err(|error| format!("log {}: {error}", path.display()))
        }));
    }
    let joined = threads.into_iter().map(std::thread::JoinHandle::join);
    let ended = joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    ended.collect()
}

fn copy(input: &mut impl Read, path: &Path, former: &Path, most: u64) -> io::Result<()> {
    let mut kept = Kept::create(path, former, most)?;
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        kept.write(&buffer[..read])?;
    }
}

pub struct Kept {
    path: PathBuf,
    former: PathBuf,
    most: u64,
    file: File,
    length: u64,
}

impl Kept {
    /// Begins a file that has at most `most` bytes, and what is written at once, before it takes the place of `former`.
    pub fn create(path: &Path, former: &Path, most: u64) -> io::Result<Kept> {
        Ok(Kept {
            path: path.into(),
            former: former.into(),
            most,
            file: File::create(path)?,
            length: 0,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.length >= self.most {
            fs::rename(&self.path, &self.former)?;
            self.file = File::create(&self.path)?;
            self.length = 0;
        }
        // A full disk loses this part; the next may find room again.
        let _ = self.file.write_all(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_no_more_than_twice_the_bound() {
        let dir = std::env::temp_dir().join(format!("latlab-agent-log-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, former) = (dir.join("log"), dir.join("log.old"));
        let said: Vec<u8> = (0_u32..300_000).flat_map(u32::to_le_bytes).collect();
        // Divides neither what is read at once nor the whole.
        let most = 100_000;
        copy(&mut said.as_slice(), &path, &former, most).unwrap();
        let mut kept = fs::read(&former).unwrap();
        kept.extend(fs::read(&path).unwrap());
        assert!(said.ends_with(&kept));
        let bound = most as usize;
        assert!(
            (bound..2 * (bound + 16 * 1024)).contains(&kept.len()),
            "{}",
            kept.len()
        );
        // A short one is whole, and one file.
        fs::remove_file(&former).unwrap();
        copy(&mut &said[..bound], &path, &former, most).unwrap();
        assert_eq!(fs::read(&path).unwrap(), &said[..bound]);
        assert!(!former.exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
