//! A borrowed program, and versions of programs.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Borrowed {
    /// The file to execute: the program, or its loader.
    pub program: PathBuf,
    /// Arguments that come before its own.
    pub arguments: Vec<OsString>,
    pub version: String,
    /// Where it comes from, for people.
    pub origin: String,
}

/// The first word that begins with a number: `Version: 4.2.1`, `QEMU emulator version 10.0.2 (Debian ...)`.
pub(super) fn version_in(said: &str) -> Option<String> {
    let words = said.split_whitespace();
    let mut numbers = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    numbers.next().map(str::to_owned)
}

pub(super) fn is_at_least(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_numbers() {
        assert_eq!(version_in("Version: 4.2.1\n").as_deref(), Some("4.2.1"));
        let qemu = "QEMU emulator version 10.0.2 (Debian 1:10.0.2)";
        assert_eq!(version_in(qemu).as_deref(), Some("10.0.2"));
        assert_eq!(version_in("nothing"), None);
        for (version, oldest, enough) in [
            ("4.2.1", (4, 2), true),
            ("4.10", (4, 2), true),
            ("4.1.1", (4, 2), false),
            ("10.0.2+ds", (9, 0), true),
            ("x", (0, 1), false),
        ] {
            assert_eq!(is_at_least(version, oldest), enough, "{version}");
        }
    }
}
