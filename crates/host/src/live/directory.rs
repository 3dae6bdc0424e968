//! The directory that a server of TFTP or HTTP gives to machines, and the command line in it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::sys::file::write_atomically;

pub(super) const KERNEL: &str = "vmlinuz";
pub(super) const INITRD: &str = "initrd.img";
const SCRIPT: &str = "boot.ipxe";
const RECORD: &str = "live.json";
const VERSION: &str = "latlab.live/1";
/// A loader of UEFI finds the file by this word; others are told by their scripts.
const FOR_IPXE: &str = "initrd=initrd.img ";
/// x86's COMMAND_LINE_SIZE, with the zero at its end.
const MAX_LINE_BYTES: usize = 2047;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: String,
    /// `uname -r`.
    kernel: String,
    /// The part of the command line that stays, whatever is asked for.
    command_line: String,
}

/// A live system that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    directory: PathBuf,
    record: Record,
}

impl Live {
    /// Reads what an earlier latlab made there.
    pub fn open(directory: &Path) -> Result<Live, Error> {
        let wrong = |reason: String| Error::Record {
            path: directory.to_owned(),
            reason,
        };
        let text = fs::read(directory.join(RECORD))
            .map_err(|error| wrong(format!("cannot read {RECORD}: {error}")))?;
        let record: Record =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("{RECORD}: {error}")))?;
        if record.version != VERSION {
            return Err(wrong(format!("{RECORD} is of {}", record.version)));
        }
        Ok(Live {
            directory: directory.to_owned(),
            record,
        })
    }

    /// Refuses a directory with files of others.
    pub(super) fn may_be_in(directory: &Path) -> Result<(), Error> {
        fs::create_dir_all(directory).map_err(Error::io("make", directory))?;
        let mut entries = fs::read_dir(directory).map_err(Error::io("list", directory))?;
        match entries.next().is_some() && Live::open(directory).is_err() {
            true => Err(Error::Foreign(directory.to_owned())),
            false => Ok(()),
        }
    }

    /// Writes the record and the script: last, when all that they name is there.
    pub(super) fn write(
        directory: &Path,
        kernel: &str,
        console: &str,
        parameters: &[String],
    ) -> Result<Live, Error> {
        let own = format!("{FOR_IPXE}console=tty0 console={console} quiet latlab.live");
        let live = Live {
            directory: directory.to_owned(),
            record: Record {
                version: VERSION.into(),
                kernel: kernel.into(),
                command_line: with(own, parameters),
            },
        };
        let text = serde_json::to_vec_pretty(&live.record).unwrap_or_default();
        write_atomically(&directory.join(RECORD), &text, 0o644)?;
        live.boot_with(&[])?;
        Ok(live)
    }

    pub fn kernel(&self) -> &str {
        &self.record.kernel
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The command line of a start that iPXE has no part in.
    pub(super) fn line_of_medium(&self) -> &str {
        let line = self.record.command_line.as_str();
        line.strip_prefix(FOR_IPXE).unwrap_or(line)
    }

    /// The console that it tells its command line on.
    pub(super) fn console(&self) -> &str {
        let words = self.line_of_medium().split(' ');
        let mut consoles = words.filter_map(|word| word.strip_prefix("console="));
        consoles.nth(1).unwrap_or_default()
    }

    /// Has machines that start from here do it with these parameters beside its own, and with none of before. Returns the
    /// whole command line.
    pub fn boot_with(&self, parameters: &[String]) -> Result<String, Error> {
        let line = with(self.record.command_line.clone(), parameters);
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::LongLine {
                path: self.directory.clone(),
                bytes: line.len(),
                limit: MAX_LINE_BYTES,
            });
        }
        let script = format!(
            "#!ipxe\n# Written by latlab: `latlab host HOST boot` changes it.\n\
             kernel {KERNEL} {line}\ninitrd {INITRD}\nboot\n"
        );
        write_atomically(&self.directory.join(SCRIPT), script.as_bytes(), 0o644)?;
        Ok(line)
    }
}

/// A command line with more parameters.
fn with(line: String, parameters: &[String]) -> String {
    let add = |line: String, word: &String| line + " " + word;
    parameters.iter().fold(line, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-live-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn parameters_of_before_are_gone_with_the_next() {
        let dir = directory("parameters");
        Live::may_be_in(&dir).unwrap();
        Live::write(&dir, "6.1", "ttyS1,115200", &["nosmt".into()]).unwrap();
        let live = Live::open(&dir).unwrap();
        assert_eq!(live.kernel(), "6.1");
        let own = "initrd=initrd.img console=tty0 console=ttyS1,115200 quiet latlab.live nosmt";
        let line = live.boot_with(&["isolcpus=1".into()]).unwrap();
        assert_eq!(line, format!("{own} isolcpus=1"));
        let script = || fs::read_to_string(dir.join(SCRIPT)).unwrap();
        assert!(script().contains(&format!("kernel vmlinuz {line}\n")));
        assert_eq!(live.boot_with(&[]).unwrap(), own);
        assert!(!script().contains("isolcpus"));
        let long = live.boot_with(&["x".repeat(2000)]).unwrap_err();
        assert!(matches!(long, Error::LongLine { .. }), "{long}");
        // An earlier one's directory may be used again.
        Live::may_be_in(&dir).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let dir = directory("foreign");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("thesis.tex"), "").unwrap();
        assert!(matches!(Live::may_be_in(&dir), Err(Error::Foreign(_))));
        assert!(matches!(Live::open(&dir), Err(Error::Record { .. })));
        fs::write(dir.join(RECORD), r#"{"version": "x"}"#).unwrap();
        assert!(matches!(Live::open(&dir), Err(Error::Record { .. })));
        fs::remove_dir_all(dir).unwrap();
    }
}
