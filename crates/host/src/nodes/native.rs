//! A native node: processes of the host in a network namespace of their own, on the host's own
//! files. Nothing runs in it until a command is started, so it costs a namespace and no process.

use std::os::fd::AsFd;
use std::path::PathBuf;

use super::piped::{PipedSession, Streams};
use super::session::{Command, Error};
use crate::cgroup::NodeCgroup;
use crate::sys::named::{Names, with_names};
use crate::sys::netns::NetNs;
use crate::sys::process::Process;
use crate::sys::spawn::Spawn;

/// Where a native node's commands run.
#[derive(Debug)]
pub struct Native {
    /// Identifier of the deployment, the label of its processes.
    pub lab_id: String,
    /// Its pinned network namespace; the host's own when absent (a node of kind `host`).
    pub netns: Option<PathBuf>,
    /// Its names; the host's own when absent.
    pub names: Option<NativeNames>,
    /// Its cgroup, where there is one.
    pub cgroup: Option<NodeCgroup>,
}

/// A native node's names.
#[derive(Debug)]
pub struct NativeNames {
    pub host_name: String,
    /// Its hosts file.
    pub hosts: PathBuf,
    /// The directory below which labs have their mounts.
    pub labs: PathBuf,
}

impl Native {
    /// Starts a command.
    ///
    /// # Errors
    /// When the program is not there, or the node is gone.
    pub fn start(&self, command: &Command) -> Result<PipedSession, Error> {
        PipedSession::start(|streams| self.spawn(command, streams))
    }

    fn spawn(&self, command: &Command, streams: Streams<'_>) -> Result<Process, Error> {
        let Some((program, arguments)) = command.argv.split_first() else {
            return Err(Error::Other("no command was given".into()));
        };
        let netns = self.netns.as_deref().map(NetNs::open).transpose()?;
        let entry = self.cgroup.as_ref().map(NodeCgroup::entry).transpose()?;
        let mut spawn = Spawn::new(program, &self.lab_id)
            .args(arguments)
            .session()
            .descriptor(streams.stdin, 0)
            .descriptor(streams.stdout, 1)
            .descriptor(streams.stderr, 2);
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
        let Some(names) = &self.names else {
            return Ok(spawn.start()?);
        };
        let names = Names {
            host_name: &names.host_name,
            hosts: &names.hosts,
            labs: &names.labs,
        };
        with_names(names, || Ok(spawn.start()?))
    }
}
