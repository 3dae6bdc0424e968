//! The words of `latlab-agent scratch` and `latlab-agent repeat`, which built-in programs of workloads run with.

use std::fmt;

/// The first word of the line that tells where a new directory is.
const SCRATCH: &str = "latlab-scratch";
/// The first word of the line of each run.
const RUN: &str = "latlab-run";

/// The file system that holds a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Medium {
    /// The file system, as mount(8) names it.
    pub kind: String,
    pub is_memory: bool,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = if self.is_memory { "memory" } else { "storage" };
        write!(f, "{SCRATCH} {} {medium}", self.kind)
    }
}

impl Medium {
    /// Reads the output of `scratch new`.
    pub fn parse(text: &str) -> Option<Medium> {
        let line = text.lines().next_back()?;
        let mut words = line.strip_prefix(SCRATCH)?.split_whitespace();
        let kind = words.next()?.to_owned();
        let is_memory = match words.next()? {
            "memory" => true,
            "storage" => false,
            _ => return None,
        };
        Some(Medium { kind, is_memory })
    }
}

/// The line of a run that took so long.
pub fn run_line(took_ns: u64) -> String {
    format!("{RUN} {took_ns}")
}

/// The times of all runs, in nanoseconds.
pub fn runs(text: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(RUN));
    lines.filter_map(|rest| rest.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        for is_memory in [true, false] {
            let medium = Medium {
                kind: "tmpfs".into(),
                is_memory,
            };
            assert_eq!(Medium::parse(&format!("{medium}\n")), Some(medium));
        }
        for broken in [
            "",
            "latlab-scratch",
            "latlab-scratch ext4",
            "latlab-scratch ext4 tape",
        ] {
            assert_eq!(Medium::parse(broken), None, "{broken}");
        }
        let text = format!("{}\nother\n{}\n", run_line(5), run_line(70));
        assert_eq!(runs(&text), [5, 70]);
    }
}
