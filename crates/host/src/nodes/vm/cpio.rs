//! A cpio archive in the form the kernel reads (`newc`, see its
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::fs::File;
use std::io::{self, ErrorKind, Write};

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
pub(crate) const FILE: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Ends an archive.
const TRAILER: &str = "TRAILER!!!";

#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub fn directory(&mut self, name: &str) {
        self.add(name, DIRECTORY, &[], (0, 0));
    }

    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.add(name, EXECUTABLE, content, (0, 0));
    }

    /// The kernel opens it for init's standard streams before init could make it.
    pub fn console(&mut self) {
        self.add("dev/console", CHARACTER_DEVICE, &[], (5, 1));
    }

    pub fn add(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.header(name, mode, content.len() as u32, device);
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn header(&mut self, name: &str, mode: u32, size: u32, device: (u32, u32)) {
        self.entries += 1;
        let fields = [
            self.entries, // inode
            mode,
            0, // uid
            0, // gid
            1, // links
            0, // modification time: none, so that equal content makes equal archives
            size,
            0, // device the file is on
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // checksum, unused
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.add(TRAILER, 0, &[], (0, 0));
        self.bytes
    }

    /// Writes what is there, large files behind it without holding them in memory, and the end.
    pub fn finish_with(mut self, files: &[(&str, &File)], mut to: impl Write) -> io::Result<()> {
        for (name, mut file) in files.iter().copied() {
            let length = file.metadata()?.len();
            // The form has 32 bits for it.
            let size = u32::try_from(length).map_err(|_| {
                let gib = length >> 30;
                io::Error::new(ErrorKind::FileTooLarge, format!("{name} has {gib} GiB"))
            })?;
            self.header(name, FILE, size, (0, 0));
            to.write_all(&self.bytes)?;
            self.bytes.clear();
            if io::copy(&mut file, &mut to)? != length {
                return Err(io::Error::other(format!("{name} changed meanwhile")));
            }
            let past = usize::try_from(length % 4).unwrap_or_default();
            self.bytes.resize((4 - past) % 4, 0);
            to.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        to.write_all(&self.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_large_file_is_written_as_one_in_memory_is() {
        let path = std::env::temp_dir().join(format!("latlab-cpio-{}", std::process::id()));
        let mut file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        for content in ["12345", "1234", ""] {
            file.set_len(0).unwrap();
            file.rewind().unwrap();
            file.write_all(content.as_bytes()).unwrap();
            file.rewind().unwrap();
            let [mut one, mut two] = [Archive::default(), Archive::default()];
            one.directory("dir");
            two.directory("dir");
            one.add("file", FILE, content.as_bytes(), (0, 0));
            let mut streamed = Vec::new();
            two.finish_with(&[("file", &file)], &mut streamed).unwrap();
            assert_eq!(streamed, one.finish());
        }
    }

    #[test]
    fn an_entry_has_these_bytes() {
        let mut archive = Archive::default();
        archive.console();
        let expected = "070701000000010000218000000000000000000000000100000000000000000000000000\
                        0000000000000500000001\
                        0000000c00000000dev/console\0\0\0";
        assert_eq!(String::from_utf8(archive.bytes).unwrap(), expected);
    }

    /// Debian's cpio is the reference; the test says so when it is absent.
    #[test]
    fn cpio_lists_the_packed_files() {
        let mut archive = Archive::default();
        archive.directory("dir");
        archive.add("dir/file", FILE, b"12345", (0, 0));
        let bytes = archive.finish();
        let child = Command::new("cpio")
            .args(["-i", "--to-stdout", "--quiet", "dir/file"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("cpio is not installed: the archive was not compared with it");
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, b"12345");
    }
}
