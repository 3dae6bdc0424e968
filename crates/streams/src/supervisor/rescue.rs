//! Offers that are not claimed: reset if the connection is gone, relayed if a program accepted it unseen.
//!
//! A program that is not under the filter may have a listening socket of one that is: passed to it, or kept by an
//! io_uring. Or the node translates addresses (nftables), and a server has the connection under other names than the
//! client, by which no offer is found. Such a server gets the anchor. Then the client's bytes are taken from its shadow and sent through the anchor.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::connection::{ConnectionId, End, Shadow, State};
use super::state::Supervisor;
use crate::descriptors::holder;
use crate::registry::{Key, NodeId};
use crate::relay;
use crate::shadow::Kind;
use crate::sys::task::Task;
use crate::sys::{socket, tables};

/// When an offer is first looked for. Most are claimed within a millisecond.
const FIRST_CHECK: Duration = Duration::from_millis(100);

/// The urgent byte that has the close of the end where it is unread reset the other one.
pub(super) const RESETTING: u8 = b'!';

impl Supervisor {
    /// Something happened at the client's anchor of an unclaimed offer.
    pub(super) fn abandoned(&mut self, id: ConnectionId) {
        let Some(anchor) = self.client_anchor(id) else {
            return;
        };
        match socket::tcp_state(anchor.as_fd()) {
            Ok(socket::TCP_CLOSE) | Err(_) => self.reset(id),
            // Bytes or an end came through it, so a program has the other end.
            Ok(_) => self.relay(id),
        }
    }

    /// Looks in the kernel's tables for offers whose connections do not wait to be accepted: one table for each node.
    pub(super) fn check_offers(&mut self) {
        let mut offers: BTreeMap<NodeId, Vec<(ConnectionId, Key)>> = BTreeMap::new();
        for (id, connection) in self.connections.iter() {
            match &connection.state {
                State::Offered(offered) if offered.since.elapsed() >= FIRST_CHECK => {
                    let of_node = offers.entry(connection.key.server).or_default();
                    of_node.push((id, connection.key));
                }
                _ => {}
            }
        }
        for (node, offers) in offers {
            let Ok(found) = tables::connections(&self.nodes[node]) else {
                continue;
            };
            for (id, key) in offers {
                match found.get(&(key.local, key.peer)) {
                    Some(true) => self.relay(id),
                    Some(false) => drop(self.was_missing(id, false)),
                    // Not by these names. A table that changes while it is read may leave one out once.
                    None if self.was_missing(id, true) => self.relay(id),
                    None => {}
                }
            }
        }
    }

    /// Notes whether the server's end of an offer was in its node's table; whether it was missing before.
    fn was_missing(&mut self, id: ConnectionId, is_missing: bool) -> bool {
        match self.connections.get_mut(id).map(|c| &mut c.state) {
            Some(State::Offered(offered)) => std::mem::replace(&mut offered.is_missing, is_missing),
            _ => false,
        }
    }

    /// The server's end is gone before it was accepted, which a client sees as a reset.
    fn reset(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(id) else {
            return;
        };
        let State::Offered(offered) = connection.state else {
            return;
        };
        self.sources.remove(&offered.token);
        match &offered.client_shadow {
            // An end that is closed with unread bytes resets the other one (unix(7)). A full one has some.
            Some(client) => drop(send(client, b"\0", SendFlags::DONTWAIT)),
            None => drop(set_socket_linger(
                &offered.server_shadow,
                Some(Duration::ZERO),
            )),
        }
    }

    /// Has the close of a shadow reset its peer, as `SO_LINGER` without a time does: an end of AF_UNIX does so while it
    /// has unread bytes. An urgent byte is one that programs do not read by chance. `file` is the shadow.
    pub(super) fn arm_reset(&self, shadow: &Shadow<'_>, file: &OwnedFd) {
        if shadow.connection.kind == Kind::Tcp {
            set_socket_linger(file, Some(Duration::ZERO)).ok();
            return;
        }
        let flags = SendFlags::OOB | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let State::Offered(offered) = &shadow.connection.state {
            send(&offered.server_shadow, &[RESETTING], flags).ok();
            return;
        }
        let peer = shadow.connection.end(shadow.side.other());
        if let Some(peer) = peer.and_then(shadow_of) {
            send(&peer, &[RESETTING], flags).ok();
        }
    }

    /// Joins the server's end of the shadow with the client's anchor.
    fn relay(&mut self, id: ConnectionId) {
        let anchor = self.client_anchor(id).map(OwnedFd::try_clone);
        let Some(Ok(anchor)) = anchor else {
            return;
        };
        let Some(offered) = self.take_offer(id, State::Relayed) else {
            return;
        };
        self.relayed += 1;
        drop(offered.client_shadow);
        if let Err(shadow) = relay::start(offered.server_shadow, anchor) {
            shutdown(&shadow, Shutdown::Both).ok();
        }
    }
}

/// The shadow of an end, from whichever process has it now.
fn shadow_of(end: &End) -> Option<OwnedFd> {
    let file = |process: u32, number: i32| {
        let file = Task::open(process).ok()?.file(number).ok()?;
        (socket::cookie(file.as_fd()) == Ok(end.cookie)).then_some(file)
    };
    file(end.task, end.number).or_else(|| {
        let place = holder(end.session.group(end.task)?, end.inode)?;
        file(place.process, place.number)
    })
}
