//! A native node: processes of the host in a network namespace of their own, on the host's own
//! files. Nothing runs in it until a command is started, so it costs a namespace and no process.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::session::{Command, Error, Exit, Session, Signaller};
use crate::cgroup::NodeCgroup;
use crate::sys::netns::NetNs;
use crate::sys::process::{self, Process};
use crate::sys::spawn::Spawn;

/// Between two looks at a command that is waited for without end.
const LONG: Duration = Duration::from_secs(3600);

/// Where a native node's commands run.
#[derive(Debug)]
pub struct Native {
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    /// Its pinned network namespace; the host's own when absent (a node of kind `host`).
    pub netns: Option<PathBuf>,
    /// Its control group, where there is one.
    pub cgroup: Option<NodeCgroup>,
}

impl Native {
    /// Starts a command.
    ///
    /// # Errors
    /// When the program is not there, or the node is gone.
    pub fn start(&self, command: &Command) -> Result<NativeSession, Error> {
        let Some((program, arguments)) = command.argv.split_first() else {
            return Err("no command was given".into());
        };
        let netns = self.netns.as_deref().map(NetNs::open).transpose()?;
        let entry = self.cgroup.as_ref().map(NodeCgroup::entry).transpose()?;
        let (stdin, our_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (our_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (our_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut spawn = Spawn::new(program, &self.lab_id)
            .args(arguments)
            .session()
            .descriptor(stdin.as_fd(), 0)
            .descriptor(stdout.as_fd(), 1)
            .descriptor(stderr.as_fd(), 2);
        for (name, value) in &command.env {
            spawn = spawn.env(name, value);
        }
        if let Some(netns) = &netns {
            spawn = spawn.netns(netns.as_fd());
        }
        if let Some(entry) = &entry {
            spawn = spawn.cgroup(entry);
        }
        if let Some(directory) = &command.cwd {
            spawn = spawn.directory(directory);
        }
        Ok(NativeSession {
            process: Arc::new(spawn.start()?),
            stdin: Some(our_stdin),
            stdout: Some(our_stdout),
            stderr: Some(our_stderr),
        })
    }
}

/// A command running in a native node.
#[derive(Debug)]
pub struct NativeSession {
    process: Arc<Process>,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

impl Session for NativeSession {
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
            let signal = Signal::from_named_raw(signal).ok_or("not a signal of this system")?;
            process.signal(signal)?;
            Ok(())
        })
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        while !self.process.wait(LONG)? {}
        match self.process.collect()? {
            Some(process::Exit::Code(code)) => Ok(Exit::Code(code)),
            Some(process::Exit::Signal(signal)) => Ok(Exit::Signal(signal)),
            None => Err("the command's status was collected by somebody else".into()),
        }
    }
}
