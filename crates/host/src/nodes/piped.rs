//! A command that is a child of this process and speaks through three pipes: what a session in a
//! native node and in a container has in common. Only how the child is started differs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::session::{Error, Exit, Session, Signaller};
use crate::sync::lock;
use crate::sys;
use crate::sys::process::Process;

#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

/// The command's first process, which leads a session of its own, and so a process group.
#[derive(Debug)]
struct Leader {
    process: Process,
    is_collected: Mutex<bool>,
}

impl Leader {
    /// Signals all that it started, as a terminal does and as the agent of a guest.
    fn signal(&self, signal: Signal) -> Result<(), sys::Error> {
        let is_collected = lock(&self.is_collected);
        if !*is_collected {
            self.process.signal_group(signal)?;
        }
        Ok(())
    }

    fn collect(&self) -> Result<Option<Exit>, sys::Error> {
        let mut is_collected = lock(&self.is_collected);
        *is_collected = true;
        self.process.collect()
    }
}

#[derive(Debug)]
pub struct PipedSession {
    leader: Arc<Leader>,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl PipedSession {
    /// Makes the pipes and has `spawn` start the command on them. Fails when there are no descriptors left, or what
    /// `spawn` says.
    pub fn start<E: From<sys::Error>>(
        spawn: impl FnOnce(Streams<'_>) -> Result<Process, E>,
    ) -> Result<PipedSession, E> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(sys::Error::of("make", "a pipe"));
        let (stdin, our_stdin) = pipe()?;
        let (our_stdout, stdout) = pipe()?;
        let (our_stderr, stderr) = pipe()?;
        let process = spawn(Streams {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
        })?;
        Ok(PipedSession {
            leader: Arc::new(Leader {
                process,
                is_collected: Mutex::new(false),
            }),
            stdin: Some(our_stdin),
            stdout: Some(our_stdout),
            stderr: Some(our_stderr),
        })
    }
}

impl Session for PipedSession {
    fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>> {
        self.stdin.take().map(|fd| Box::new(File::from(fd)) as _)
    }

    fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stdout.take().map(|fd| Box::new(File::from(fd)) as _)
    }

    fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>> {
        self.stderr.take().map(|fd| Box::new(File::from(fd)) as _)
    }

    fn signaller(&self) -> Signaller {
        let leader = Arc::clone(&self.leader);
        Box::new(move |signal| {
            let unknown = || Error::Other("not a signal of this system".into());
            let signal = Signal::from_named_raw(signal).ok_or_else(unknown)?;
            Ok(leader.signal(signal)?)
        })
    }

    fn wait_for(&mut self, timeout: Duration) -> Result<Option<Exit>, Error> {
        if !self.leader.process.wait(timeout)? {
            return Ok(None);
        }
        let collected = || Error::Other("another process collected the command's status".into());
        self.leader.collect()?.ok_or_else(collected).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::sys::spawn::Spawn;

    #[test]
    fn signals_reach_what_the_command_has_started() {
        let script = "sleep 60 & echo $!; wait; sleep 60";
        let session = PipedSession::start(|streams| {
            let shell = Spawn::new("sh", "test-piped").args(["-c", script]);
            let shell = shell.session().descriptor(streams.stdin, 0);
            let shell = shell.descriptor(streams.stdout, 1);
            shell.descriptor(streams.stderr, 2).start()
        });
        let mut session = session.unwrap();
        let mut output = BufReader::new(session.take_stdout().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let child = Process::of_pid(line.trim().parse().unwrap()).unwrap();
        let signal = session.signaller();
        signal(15).unwrap();
        assert_eq!(session.wait().unwrap(), Exit::Signal(15));
        assert!(child.unwrap().wait(Duration::from_secs(3600)).unwrap());
        // The number of one that was collected may be another's.
        signal(15).unwrap();
    }
}
