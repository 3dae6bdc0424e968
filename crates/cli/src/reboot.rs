//! Reboots of other machines by ssh.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ssh::{self, quoted};

/// Options of ssh to a machine that may be away, or goes away meanwhile.
const QUICK: [&str; 4] = ["-o", "ConnectTimeout=3", "-o", "ServerAliveInterval=2"];
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// When the first process began, which tells the starts of a machine apart that has its kernel from another.
const FIRST: &str = "/proc/1/stat";
const BEGAN_FIELD: usize = 20;
/// Returns before the machine goes.
const REBOOT: &str =
    "(sleep 1; systemctl reboot || reboot || reboot -f) </dev/null >/dev/null 2>&1 &";
const POLL: Duration = Duration::from_secs(1);

/// A start of a machine, and nothing else: it differs between machines, and between their starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot(String);

impl Boot {
    /// That of this machine.
    pub fn own() -> Option<Boot> {
        let read = |path| fs::read_to_string(path).ok();
        Boot::of(&read(BOOT_ID)?, &read(FIRST)?)
    }

    /// That of a machine that answers.
    pub fn at(destination: &str) -> Option<Boot> {
        let text = answer(destination, &format!("cat {BOOT_ID} {FIRST}"))?;
        let (id, first) = text.split_once('\n')?;
        Boot::of(id, first)
    }

    fn of(id: &str, first: &str) -> Option<Boot> {
        // The name before may have blanks.
        let (_, fields) = first.rsplit_once(") ")?;
        let began = fields.split(' ').nth(BEGAN_FIELD - 1)?;
        Some(Boot(format!("{} {}", id.trim(), began.trim())))
    }
}

/// The output of a script there, if it succeeds.
pub fn answer(destination: &str, script: &str) -> Option<String> {
    let mut command = ssh::script(destination, script, &QUICK);
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Runs a script as root of a machine. Errors: the last line that it said.
pub fn as_root(destination: &str, script: &str, input: &str) -> Result<String, String> {
    let script = quoted(script);
    let text = format!(
        "[ \"$(id -u)\" = 0 ] && exec sh -c {script}; exec sudo --non-interactive sh -c {script}"
    );
    // A script may keep the machine busy, which then answers late.
    let mut child = ssh::script(destination, &text, &["-o", "ConnectTimeout=5"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ssh: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A machine that is away reads nothing; its status tells.
        stdin.write_all(input.as_bytes()).ok();
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(line.unwrap_or("it does not say why").to_owned())
}

/// Reboots a machine, and waits until it is there again, as `is_there` says. Errors: the reason, in a line.
pub fn reboot(
    destination: &str,
    limit: Duration,
    stop: &AtomicBool,
    is_there: impl Fn() -> bool,
) -> Result<(), String> {
    let before = Boot::at(destination).ok_or("it does not answer by ssh")?;
    if Boot::own().is_some_and(|own| own == before) {
        return Err("it is the machine on which latlab runs".into());
    }
    as_root(destination, REBOOT, "")?;
    let end = Instant::now() + limit;
    loop {
        thread::sleep(POLL);
        if Boot::at(destination).is_some_and(|now| now != before) && is_there() {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err("it was not waited for".into());
        }
        if Instant::now() >= end {
            return Err(format!(
                "it is not back {} s after its reboot",
                limit.as_secs()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_known_by_the_kernel_and_its_first_process() {
        let first = "1 (a b) c) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 17 9 10";
        assert_eq!(Boot::of("abc\n", first), Some(Boot("abc 17".into())));
        assert_eq!(Boot::of("abc", "1"), None);
        assert_eq!(Boot::own(), Boot::own());
        assert!(Boot::own().is_some());
    }
}
