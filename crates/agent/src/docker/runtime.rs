//! The OCI runtime that the daemon calls: runc, with latlab's configuration.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::handover::{COUNT, DESCRIPTORS, DOCUMENT, FIRST};
use crate::os;

/// The name under which this program is the runtime.
const NAME: &str = "docker-runtime";

pub fn is_meant(program: &str) -> bool {
    Path::new(program)
        .file_name()
        .is_some_and(|name| name == NAME)
}

/// Executes runc with the same words. Returns only on failure.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut words: Vec<OsString> = words.collect();
    if let Some(order) = words.iter().position(|word| word == "create") {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| format!("{NAME}: the variable {name} is not set"))
        };
        let bundle = bundle(&words).ok_or_else(|| format!("{NAME}: no bundle is named"))?;
        let document = variable(DOCUMENT)?;
        fs::copy(&document, bundle.join("config.json"))
            .map_err(|e| format!("{NAME}: cannot copy {document}: {e}"))?;
        let count = variable(COUNT)?;
        let number = count
            .parse()
            .map_err(|_| format!("{NAME}: {COUNT} is {count}"))?;
        hand_down(&variable(DESCRIPTORS)?, number)
            .map_err(|e| format!("{NAME}: cannot hand descriptors down: {e}"))?;
        let preserve = ["--preserve-fds".into(), count.into()];
        words.splice(order + 1..order + 1, preserve);
    }
    // Groups that are read-only are accepted of a rootless container.
    let error = Command::new("runc")
        .arg("--rootless=true")
        .args(words)
        .exec();
    Err(format!("{NAME}: cannot execute runc: {error}"))
}

fn bundle(words: &[OsString]) -> Option<PathBuf> {
    let mut words = words.iter().skip_while(|word| *word != "--bundle");
    words.nth(1).map(PathBuf::from)
}

/// Opens the first process's descriptors once more, at the same numbers. The first is written to, others are read.
fn hand_down(directory: &str, count: RawFd) -> io::Result<()> {
    let numbers = FIRST..FIRST + count;
    let open = |number: RawFd| {
        let path = format!("{directory}/{number}");
        let options = File::options()
            .write(number == FIRST)
            .read(number != FIRST)
            .to_owned();
        options.open(path)
    };
    let files: Vec<File> = numbers.clone().map(open).collect::<Result<_, _>>()?;
    // New descriptors get the lowest numbers, in order, so none is overwritten before its turn.
    numbers
        .zip(files)
        .try_for_each(|(number, file)| os::hand_down(file.into(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_the_program_the_runtime() {
        assert!(is_meant("/run/x/docker-runtime") && is_meant(NAME));
        assert!(!is_meant("/usr/bin/latlab-agent") && !is_meant(""));
    }

    #[test]
    fn the_bundle_follows_its_option() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let shims = words("--root /r create --bundle /b --pid-file /p id");
        assert_eq!(bundle(&shims), Some(PathBuf::from("/b")));
        assert_eq!(bundle(&words("create --bundle")), None);
    }
}
