//! Streams that programs have closed: their anchors are closed too, which frees their names.

use super::connection::{ConnectionId, State};
use super::state::Supervisor;
use crate::shadow::Kind;
use crate::sys::tables::{self, Table};

impl Supervisor {
    /// No reference to a claimed shadow is kept here, so only the kernel's table tells that it is closed.
    pub(super) fn sweep(&mut self) {
        if self.connections.len() == 0 {
            return;
        }
        let table = match self.kind {
            Kind::Unix => Table::Unix,
            Kind::Tcp => Table::Tcp,
        };
        let Ok(open) = tables::inodes(table) else {
            return;
        };
        let is_closed = |state: &State, client: u64| match state {
            State::Claimed { server } => !open.contains(&client) && !open.contains(&server.inode),
            State::Relayed => !open.contains(&client),
            State::Connecting(_) | State::Offered(_) => false,
        };
        let closed: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, c)| {
                let client = c.client.as_ref().map_or(0, |client| client.inode);
                is_closed(&c.state, client)
            })
            .map(|(id, _)| id)
            .collect();
        for id in closed {
            self.connections.remove(id);
        }
    }
}
