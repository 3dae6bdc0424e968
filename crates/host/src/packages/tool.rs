//! A tool of the archive, run to its end: its output, or its last words.

use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{Error, TIMEOUT};

const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a tool in its own words (no translations) to its end, calling `tick` meanwhile. Output goes to
/// files so that no pipe can fill up.
pub(crate) fn run(
    tool: &'static str,
    mut command: Command,
    tick: &mut dyn FnMut(),
) -> Result<String, Error> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let capture = || -> io::Result<(File, File)> {
        let fd = rustix::fs::memfd_create("latlab", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(fd);
        Ok((file.try_clone()?, file))
    };
    let failed = |source| Error::Tool { tool, source };
    let (stdout, out) = capture().map_err(failed)?;
    let (stderr, err) = capture().map_err(failed)?;
    command
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = command.spawn().map_err(failed)?;
    let start = Instant::now();
    let mut reported = start;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            // The child may have ended by itself in this moment.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(Error::Silent { command: shown });
        }
        std::thread::sleep(Duration::from_millis(5));
        if reported.elapsed() > REPORT_INTERVAL {
            reported = Instant::now();
            tick();
        }
    };
    if status.success() {
        return Ok(text_of(stdout));
    }
    let words = text_of(stderr);
    let errors = words.lines().filter(|line| line.starts_with("E: "));
    let errors: Vec<&str> = errors.collect();
    let last = || words.lines().rev().find(|line| !line.trim().is_empty());
    let detail = match errors.is_empty() {
        true => last().unwrap_or("no message").to_owned(),
        false => errors.join("; "),
    };
    Err(Error::Failed {
        command: shown,
        detail,
    })
}

fn text_of(mut file: File) -> String {
    use std::io::Seek;
    let mut bytes = Vec::new();
    // A memory file of our own; should it fail, the text is what could be read.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo out; echo 'E: first' >&2; echo other >&2; exit 3",
        ]);
        let error = run("sh", command, &mut || ()).unwrap_err();
        assert!(error.to_string().ends_with("failed: E: first"), "{error}");
        let error = run("x", Command::new("/nonexistent/x"), &mut || ()).unwrap_err();
        assert!(matches!(error, Error::Tool { .. }), "{error}");
    }
}
