//! Streams that programs have closed: their anchors are closed too, which frees their names.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::connection::{Connection, ConnectionId, State};
use super::state::Supervisor;
use crate::registry::Way;
use crate::shadow::Kind;
use crate::sys::tables;

impl Supervisor {
    /// No reference to a claimed shadow is kept here, so only the kernel's tables tell that it is closed.
    pub(super) fn sweep(&mut self) {
        let Ok(open) = self.open_shadows() else {
            return;
        };
        let is_closed = |connection: &Connection| {
            let client = connection.client.as_ref().map_or(0, |client| client.inode);
            match &connection.state {
                State::Claimed { server } => {
                    !open.contains(&client) && !open.contains(&server.inode)
                }
                State::Relayed => !open.contains(&client),
                State::Connecting(_) | State::Offered(_) => false,
            }
        };
        let connections = self.connections.iter();
        let closed = connections.filter(|(_, connection)| is_closed(connection));
        let closed: Vec<ConnectionId> = closed.map(|(id, _)| id).collect();
        for id in closed {
            if let Some(connection) = self.connections.remove(id) {
                reset(&connection);
            }
        }
    }

    /// The inodes of the sockets in all namespaces that have shadows.
    pub(super) fn open_shadows(&self) -> io::Result<HashSet<u64>> {
        let mut open = HashSet::new();
        let mut hosts = BTreeSet::new();
        let mut kinds = [false; 2];
        for (_, connection) in self.connections.iter() {
            match connection.way {
                Way::Between { server, client } => hosts.extend([server, client]),
                Way::Here => kinds[usize::from(connection.kind == Kind::Tcp)] = true,
            }
        }
        let [unix, tcp] = kinds;
        if unix {
            open.extend(tables::unix_inodes()?);
        }
        if tcp {
            open.extend(tables::tcp_inodes(self.hosts.own())?);
        }
        for host in hosts {
            open.extend(tables::tcp_inodes(self.hosts.netns(host))?);
        }
        Ok(open)
    }
}

/// Has the anchors of a stream end at once, as nothing is under way between them. The first one to be closed would keep the
/// client's port for a minute (TIME_WAIT), whichever program closed first, and a client has no more than 28,000 ports.
fn reset(connection: &Connection) {
    if matches!(connection.state, State::Claimed { .. }) {
        for end in connection.ends() {
            set_socket_linger(&end.anchor, Some(Duration::ZERO)).ok();
        }
    }
}
