//! Reading what a guest's kernel said last. Its serial console goes to a file, which outlives the guest
//! and is the only witness when nothing else answers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// What the kernel prints first when it gives up.
const PANIC: &str = "Kernel panic - not syncing";
/// How much of the log's end is looked at.
const TAIL_BYTES: u64 = 64 * 1024;
/// How many lines an error shows.
const LINES: usize = 12;

/// The last lines of the log, without control characters; empty if there is no log.
pub fn last_lines(path: &Path) -> Vec<String> {
    let lines = lines(&tail(path));
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

/// The lines of a kernel panic, from its first on; `None` if there was none.
pub fn panic_lines(path: &Path) -> Option<Vec<String>> {
    panic_in(&tail(path))
}

fn panic_in(text: &str) -> Option<Vec<String>> {
    let lines = lines(text);
    let first = lines.iter().position(|line| line.contains(PANIC))?;
    Some(lines[first..].iter().take(LINES).cloned().collect())
}

fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // No log, no witness: the caller's error then stands alone.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_with_what_follows() {
        let log = "[ 1.0] fine\r\n[ 1.1] Kernel panic - not syncing: No working init\r\n\r\n\
                   [ 1.2] CPU: 0\u{1b}[m\r\n";
        let expected = [
            "[ 1.1] Kernel panic - not syncing: No working init",
            "[ 1.2] CPU: 0[m",
        ];
        assert_eq!(panic_in(log).unwrap(), expected);
        assert_eq!(panic_in("[ 1.0] fine\n"), None);
    }

    #[test]
    fn an_absent_log_has_no_lines() {
        assert!(last_lines(Path::new("/nonexistent/console.log")).is_empty());
        assert_eq!(panic_lines(Path::new("/nonexistent/console.log")), None);
    }
}
