//! Programs by name: those in the directories of the machine, and latlab's own.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// Where administrators' programs are; an ordinary user's `PATH` leaves them out.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A word of a shell's.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Finds a program as a shell does, and beyond `PATH` where root's programs are.
pub fn find(name: &str) -> Option<PathBuf> {
    Directories::named().find(name)
}

/// The value of `PATH` with which other programs find the same.
pub(crate) fn path() -> OsString {
    std::env::join_paths(Directories::named().0).unwrap_or_default()
}

/// Where programs are looked for, in order.
pub(crate) struct Directories(Vec<PathBuf>);

impl Directories {
    fn named() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::env::split_paths(&path);
        Self(own.chain(SYSTEM.map(PathBuf::from)).collect())
    }

    /// Each of those that are there once: `/sbin` is another name of `/usr/sbin` on most machines. For one who looks for
    /// many programs.
    pub(crate) fn distinct() -> Self {
        let mut seen = HashSet::new();
        let mut named = Self::named().0;
        named.retain(|directory| {
            let found = fs::metadata(directory);
            found.is_ok_and(|found| seen.insert((found.dev(), found.ino())))
        });
        Self(named)
    }

    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let runs = |path: &PathBuf| {
            let metadata = fs::metadata(path);
            metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        let mut paths = self.0.iter().map(|directory| directory.join(name));
        paths.find(runs)
    }
}

pub fn agent() -> Option<PathBuf> {
    Some(latlab_program("latlab-agent", "LATLAB_AGENT")).filter(|path| path.is_file())
}

/// Where a program of latlab's own should be: where the variable says, or beside latlab.
pub(crate) fn latlab_program(name: &str, variable: &str) -> PathBuf {
    let said = std::env::var_os(variable).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join(name));
    said.or_else(beside).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_are_found() {
        let at = std::env::temp_dir().join(format!("latlab-programs-{}", std::process::id()));
        fs::create_dir_all(at.join("folder")).unwrap();
        for (name, mode) in [("text", 0o644), ("runs", 0o755)] {
            fs::write(at.join(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let directories = Directories(vec![PathBuf::from("/nonexistent"), at.clone()]);
        let find = |name: &str| directories.find(name);
        assert_eq!(find("runs"), Some(at.join("runs")));
        assert_eq!(find("text"), None);
        assert_eq!(find("folder"), None);
        fs::remove_dir_all(&at).unwrap();
    }

    #[test]
    fn what_is_in_the_path_is_found_in_its_distinct_directories() {
        let (named, distinct) = (Directories::named(), Directories::distinct());
        assert!(distinct.0.len() <= named.0.len());
        for name in ["sh", "ip", "no-such-program"] {
            assert_eq!(distinct.find(name), named.find(name));
        }
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["/a b/$c", "/it's/`x`", "/\\n\"'"] {
            let mut shell = std::process::Command::new("sh");
            shell.arg("-c").arg(format!("printf %s {}", quoted(word)));
            assert_eq!(shell.output().unwrap().stdout, word.as_bytes());
        }
    }
}
