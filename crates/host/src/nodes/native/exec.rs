//! A command of a native node.

use std::os::fd::AsFd;
use std::path::Path;

use super::names;
use crate::cgroup::NodeCgroup;
use crate::nodes::driver::Node;
use crate::nodes::piped::{PipedSession, Streams};
use crate::nodes::session::{Command, Error};
use crate::sys::named::with_names;
use crate::sys::netns::NetNs;
use crate::sys::process::Process;
use crate::sys::spawn::Spawn;

/// Starts a command, in a network namespace other than the caller's if one is named.
pub(in crate::nodes) fn exec(
    node: &Node<'_>,
    netns: Option<&Path>,
    command: &Command,
) -> Result<PipedSession, Error> {
    PipedSession::start(|streams| spawn(node, netns, command, streams))
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
    if let Some(directory) = &command.cwd {
        spawn = spawn.directory(directory);
    }
    if netns.is_none() {
        return Ok(spawn.start()?);
    }
    with_names(names::of(node)?, || Ok(spawn.start()?))
}
