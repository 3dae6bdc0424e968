//! A command of a native node.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::storage;
use crate::cgroup::NodeCgroup;
use crate::nodes::driver::Node;
use crate::nodes::output;
use crate::nodes::piped::{PipedSession, Streams};
use crate::nodes::session::{Command, Detached, Error};
use crate::sys;
use crate::sys::file::write_atomically;
use crate::sys::named::{Names, with_names};
use crate::sys::netns::NetNs;
use crate::sys::notify::NotifyFilter;
use crate::sys::process::Process;
use crate::sys::spawn::{Confinement, Spawn};

/// Starts a command, in a network namespace other than the caller's if one is named.
pub(in crate::nodes) fn exec(
    node: &Node<'_>,
    netns: Option<&Path>,
    command: &Command,
) -> Result<PipedSession, Error> {
    PipedSession::start(|streams| spawn(node, netns, command, streams))
}

/// Starts a command that no latlab waits for: it is in the node's cgroup and carries the lab's label, so it ends with them.
pub(super) fn detach(node: &Node<'_>, netns: &Path, command: &Command) -> Result<Detached, Error> {
    let directory = node.dir.join("output");
    fs::create_dir_all(&directory).map_err(sys::Error::of("make", directory.display()))?;
    let directory_fd = File::open(&directory);
    let directory_fd = directory_fd.map_err(sys::Error::of("open", directory.display()))?;
    let (name, output) = output::new_file(directory_fd.as_fd())?;
    let null = File::open("/dev/null").map_err(sys::Error::of("open", "/dev/null"))?;
    let streams = Streams {
        stdin: null.as_fd(),
        stdout: output.as_fd(),
        stderr: output.as_fd(),
    };
    let started = spawn(node, Some(netns), command, streams);
    let process = started.inspect_err(|_| {
        // Nothing was written to it.
        let _ = fs::remove_file(directory.join(&name));
    })?;
    Ok(Detached {
        pid: process.id().pid,
        output: directory.join(name),
    })
}

fn spawn(
    node: &Node<'_>,
    netns: Option<&Path>,
    command: &Command,
    streams: Streams<'_>,
) -> Result<Process, Error> {
    let Some((program, arguments)) = command.argv.split_first() else {
        return Err(Error::Other("no command was given".into()));
    };
    let netns = netns.map(NetNs::open).transpose()?;
    let entry = node.cgroup.as_ref().map(NodeCgroup::entry).transpose()?;
    let mut spawn = Spawn::new(program, node.lab_id)
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
    let (filter, listener) = (NotifyFilter::default(), node.stream_session()?);
    if let Some(listener) = &listener {
        spawn = spawn.confine(Confinement {
            held: Some((&filter, listener.as_fd())),
            ..Confinement::default()
        });
    }
    if let Some(directory) = &command.cwd {
        spawn = spawn.directory(directory);
    }
    if netns.is_none() {
        return Ok(spawn.start()?);
    }
    let mounts = storage::mounts(node)?;
    with_names(names(node, &mounts)?, || Ok(spawn.start()?))
}

/// The names that a command of the node finds. Its hosts file is written with its first command: most nodes of a large lab
/// never run one. Containers and guests get theirs as they start.
fn names<'a>(node: &'a Node<'_>, mounts: &'a [(OwnedFd, PathBuf)]) -> Result<Names<'a>, Error> {
    if !node.hosts.exists() {
        if let Some(directory) = node.hosts.parent() {
            fs::create_dir_all(directory).map_err(sys::Error::of("make", directory.display()))?;
        }
        // Two first commands at once both write it, and either finds it whole.
        write_atomically(&node.hosts, node.hosts_file().as_bytes(), 0o644)?;
    }
    Ok(Names {
        host_name: &node.plan.name,
        hosts: &node.hosts,
        labs: node.labs,
        mounts,
    })
}
