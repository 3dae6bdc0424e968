//! Asking a tool something, with an end to the timeout.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::spawn::end_with_us;

/// More than this is not read: a version or an error message is short.
const MAX_BYTES: u64 = 64 << 10;

/// Runs a tool with `input` (at most a pipe's buffer, 4 KiB) and returns what it wrote to either
/// output. A tool that fails, or has not ended when the timeout is over, is an error in words.
///
/// The tool is started from the calling thread and so in that thread's namespaces, and ends with it.
pub fn output(
    tool: &OsStr,
    arguments: &[&str],
    input: &str,
    timeout: Duration,
) -> io::Result<String> {
    let mut command = Command::new(tool);
    command.args(arguments);
    let (status, said) = ran(command, input, timeout)?;
    if status.success() {
        return Ok(said);
    }
    let tool = tool.to_string_lossy();
    // Errors begin with the tool's name, after a prompt or not, if it says other things too.
    let name = format!("{tool}: ");
    let error = said
        .lines()
        .find_map(|line| Some(line.split_once(&name)?.1.trim()));
    let first = || said.lines().map(str::trim).find(|line| !line.is_empty());
    let status = status.to_string();
    let reason = error.or_else(first).unwrap_or(&status);
    Err(io::Error::other(format!("{tool}: {reason}")))
}

/// Runs a tool as [`output`] does; returns how it ended and what it said.
pub fn ran(
    mut command: Command,
    input: &str,
    timeout: Duration,
) -> io::Result<(ExitStatus, String)> {
    let deadline = Instant::now() + timeout;
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = end_with_us(&mut command).spawn()?;
    // The command holds our copies of the writing end; without it the pipe ends with the tool.
    drop(command);
    let said = converse(&mut child, &mut reader.into(), input, deadline);
    if said.is_err() {
        // Our own child, not waited for yet: its number cannot have been reused.
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok((status, said?))
}

/// Writes the input, reads until the tool closes its outputs, and waits until it has ended.
fn converse(
    child: &mut Child,
    reader: &mut File,
    input: &str,
    deadline: Instant,
) -> io::Result<String> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // The tool closed its input; its exit status says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            result => result?,
        }
    }
    let mut said = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        wait_until_readable(&*reader, deadline)?;
        match reader.read(&mut chunk)? {
            0 => break,
            read if (said.len() as u64) < MAX_BYTES => said.extend(&chunk[..read]),
            _ => {}
        }
    }
    let pid = rustix::process::Pid::from_child(child);
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    wait_until_readable(&process, deadline)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn wait_until_readable(file: impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut files = [PollFd::new(&file, PollFlags::IN)];
        match poll(&mut files, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            Ok(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str, timeout: Duration) -> io::Result<String> {
        output(OsStr::new("sh"), &["-c", script], input, timeout)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn both_outputs_are_heard_and_the_input_is_given() {
        let said = shell("cat; echo err >&2", "in\n", LONG).unwrap();
        assert_eq!(said, "in\nerr\n");
        assert_eq!(shell("exit 0", "unread", LONG).unwrap(), "");
    }

    #[test]
    fn a_failure_is_told_in_the_tools_words() {
        let error = shell("echo; echo no such thing >&2; exit 3", "", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh: no such thing");
        let error = shell("echo welcome; echo '> sh: no' >&2; exit 3", "", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh: no");
        let error = shell("exit 3", "", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh: exit status: 3");
        let error = output(OsStr::new("/nonexistent/tool"), &[], "", LONG).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_tool_that_hangs_is_given_up() {
        let short = Duration::from_millis(30);
        for script in ["exec sleep 60", "exec >/dev/null 2>&1; exec sleep 60"] {
            let error = shell(script, "", short).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
    }

    #[test]
    fn a_tool_that_says_too_much_is_cut_short() {
        let said = shell("head -c 300000 /dev/zero", "", LONG).unwrap();
        assert!(said.len() as u64 <= MAX_BYTES + 4096);
    }
}
