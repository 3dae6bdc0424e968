//! Runs a daemon for as long as its lab is up: keeps the newest of what it prints, and starts it again when it ended
//! by itself.
//!
//! There is no daemon of latlab's that could do so. This process carries the lab's label like its child, so removing
//! the lab's processes ends both; the child does not outlive it either way.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::log::Kept;
use crate::os;

/// A daemon that ends more often than this in [`WINDOW`] stays down.
const MAX_RESTARTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Before each start but the first: `destroy` ends this process meanwhile.
const PAUSE: Duration = Duration::from_millis(200);

/// The exit code of a daemon whose configuration is wrong: starting it again would not help.
const BAD_CONFIGURATION: i32 = 2;

/// Runs the program until it ends in order. In the directory, `log` and `log.old` hold what it said (`most` bytes each),
/// `restarts` how often it was started again and why.
pub fn run(directory: &str, most: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
    let most = most.parse();
    let most = most.map_err(|_| format!("respawn {directory}: no number of bytes"))?;
    let directory = Path::new(directory);
    let failed = |error: std::io::Error| format!("respawn {program}: {error}");
    let mut log =
        Kept::create(&directory.join("log"), &directory.join("log.old"), most).map_err(failed)?;
    let mut recent = VecDeque::new();
    for restarts in 1_u64.. {
        let status = once(program, arguments, &mut log).map_err(failed)?;
        match status.code() {
            Some(0) => return Ok(()),
            Some(BAD_CONFIGURATION) => return Err(format!("{program} refused its configuration")),
            _ => {}
        }
        let now = Instant::now();
        recent.push_back(now);
        recent.retain(|then| now.duration_since(*then) < WINDOW);
        let is_over = recent.len() > MAX_RESTARTS;
        let outcome = if is_over {
            "stays down: it ended too often within a minute"
        } else {
            "was started again"
        };
        let said = format!("it ended by itself ({}) and {outcome}", reason(status));
        let count = restarts - u64::from(is_over);
        // Lost if the disk is full.
        let _ = log.write(format!("latlab-agent: {said}\n").as_bytes());
        let _ = fs::write(directory.join("restarts"), format!("{count} {said}\n"));
        if is_over {
            return Err(said);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn once(program: &str, arguments: &[&str], log: &mut Kept) -> std::io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    os::die_with_this_one(&mut command);
    let mut child = command.spawn()?;
    if let Some(mut said) = child.stderr.take() {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = said.read(&mut buffer) {
            log.write(&buffer[..read])?;
        }
    }
    child.wait()
}

fn reason(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> std::path::PathBuf {
        let path =
            std::env::temp_dir().join(format!("latlab-respawn-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn shell(directory: &Path, script: &str) -> Result<(), String> {
        let directory = directory.display().to_string();
        run(&directory, "4096", "/bin/sh", &["-c", script])
    }

    #[test]
    fn a_dying_daemon_is_restarted_a_limited_number_of_times() {
        let directory = place("dies");
        let script = format!(
            "echo begun >> {}/begun; echo dying >&2; kill -9 $$",
            directory.display()
        );
        let said = shell(&directory, &script).unwrap_err();
        assert!(
            said.contains("signal 9") && said.contains("stays down"),
            "{said}"
        );
        let begun = fs::read_to_string(directory.join("begun")).unwrap();
        assert_eq!(begun.lines().count(), MAX_RESTARTS + 1);
        let restarts = fs::read_to_string(directory.join("restarts")).unwrap();
        assert!(
            restarts.starts_with("5 it ended by itself (signal 9) and stays down"),
            "{restarts}"
        );
        let log = fs::read_to_string(directory.join("log")).unwrap();
        assert_eq!(log.matches("dying\n").count(), MAX_RESTARTS + 1);
        assert_eq!(log.matches("was started again").count(), MAX_RESTARTS);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_orderly_exit_or_failed_start_is_not_restarted() {
        let directory = place("ends");
        shell(&directory, "head -c 300000 /dev/zero >&2").unwrap();
        for name in ["log", "log.old"] {
            let kept = fs::metadata(directory.join(name)).unwrap().len();
            assert!(kept <= 4096 + 16 * 1024, "{name}: {kept}");
        }
        shell(&directory, "echo wrong >&2; exit 2").unwrap_err();
        assert_eq!(
            fs::read_to_string(directory.join("log")).unwrap(),
            "wrong\n"
        );
        assert!(!directory.join("restarts").exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
