//! A command that is a child of this process and speaks through three pipes: what a session in a
//! native node and in a container has in common. Only how the child is started differs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::session::{Error, Exit, Session, Signaller};
use crate::sys;
use crate::sys::process::{self, Process};

/// A wait without an end, in pieces.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

#[derive(Debug)]
pub struct PipedSession {
    process: Arc<Process>,
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
            process: Arc::new(process),
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
        let process = Arc::clone(&self.process);
        Box::new(move |signal| {
            let unknown = || Error::Other("not a signal of this system".into());
            let signal = Signal::from_named_raw(signal).ok_or_else(unknown)?;
            process.signal(signal)?;
            Ok(())
        })
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        loop {
            if let Some(exit) = self.wait_for(LONG)? {
                return Ok(exit);
            }
        }
    }

    fn wait_for(&mut self, timeout: Duration) -> Result<Option<Exit>, Error> {
        if !self.process.wait(timeout)? {
            return Ok(None);
        }
        match self.process.collect()? {
            Some(process::Exit::Code(code)) => Ok(Some(Exit::Code(code))),
            Some(process::Exit::Signal(signal)) => Ok(Some(Exit::Signal(signal))),
            None => Err(Error::Other(
                "another process collected the command's status".into(),
            )),
        }
    }
}
