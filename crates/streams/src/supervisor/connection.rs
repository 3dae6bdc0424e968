//! Connections that are, or may become, streams, by their names and by their sockets' cookies.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use rustix::fs::fstat;
use rustix::io::Errno;

use super::held::{Held, Session};
use crate::registry::{Key, Way};
use crate::shadow::Kind;
use crate::sys::socket;

pub(super) type ConnectionId = u64;

/// An end of a connection that a program has a shadow of.
#[derive(Debug)]
pub(super) struct End {
    /// Its TCP socket.
    pub anchor: OwnedFd,
    /// The anchor's own name and its peer's, as the kernel writes them.
    pub local: Vec<u8>,
    pub peer: Vec<u8>,
    /// The shadow's inode, by which it is found in the kernel's tables while it is open.
    pub inode: u64,
    pub cookie: u64,
    /// The task that was given the shadow, and the descriptor.
    pub task: u32,
    pub number: i32,
    /// The session, one of whose processes has the shadow.
    pub session: Rc<Session>,
}

impl End {
    /// An end by its two sockets, the second of which the caller of `held` has at `number`.
    pub(super) fn new(
        anchor: OwnedFd,
        shadow: &OwnedFd,
        held: &Held,
        number: i32,
    ) -> Result<Self, Errno> {
        Ok(Self {
            local: socket::local_name(anchor.as_fd())?,
            peer: socket::peer_name(anchor.as_fd())?,
            inode: fstat(shadow)?.st_ino,
            cookie: socket::cookie(shadow.as_fd())?,
            anchor,
            task: held.call.task,
            number,
            session: held.session.clone(),
        })
    }
}

#[derive(Debug)]
pub(super) enum State {
    /// The client's call is held until the anchor is connected.
    Connecting(Connecting),
    /// The client has its shadow; the server did not accept yet.
    Offered(Offered),
    /// Both have.
    Claimed { server: End },
    /// The server has the anchor itself; a thread passes the bytes on.
    Relayed,
}

#[derive(Debug)]
pub(super) struct Connecting {
    pub held: Held,
    pub is_blocking: bool,
    pub deadline: Option<Instant>,
    pub anchor: OwnedFd,
    /// The token of the anchor at the poller.
    pub token: u64,
}

impl Connecting {
    /// Whether the client's descriptor leads to the anchor still. Another thread may have closed it meanwhile, and may have
    /// its number for another file.
    pub(super) fn is_at_number(&self) -> bool {
        let own = socket::cookie(self.anchor.as_fd());
        let found = self.held.socket();
        found.is_some_and(|(_, cookie)| own == Ok(cookie))
    }
}

#[derive(Debug)]
pub(super) struct Offered {
    /// A second reference to the client's shadow of AF_UNIX, which lets it be reset.
    pub client_shadow: Option<OwnedFd>,
    pub server_shadow: OwnedFd,
    /// The token of the client's anchor at the poller.
    pub token: u64,
    pub since: Instant,
    /// The server's node had no such connection when it was last looked for.
    pub is_missing: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub key: Key,
    /// There once the client's descriptor was exchanged.
    pub client: Option<End>,
    pub way: Way,
    /// The kind of its shadow.
    pub kind: Kind,
    /// The client asked again whether it is connected, and was told so once.
    pub is_told: bool,
    pub state: State,
}

/// Which end of its connection a shadow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// A shadow that a program has.
pub(super) struct Shadow<'a> {
    pub id: ConnectionId,
    pub end: &'a End,
    pub side: Side,
    pub connection: &'a Connection,
}

impl Connection {
    pub(super) fn end(&self, side: Side) -> Option<&End> {
        match (side, &self.state) {
            (Side::Client, _) => self.client.as_ref(),
            (Side::Server, State::Claimed { server }) => Some(server),
            (Side::Server, _) => None,
        }
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        [Side::Client, Side::Server]
            .into_iter()
            .filter_map(|side| self.end(side))
    }
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    by_id: HashMap<ConnectionId, Connection>,
    by_key: HashMap<Key, ConnectionId>,
    by_cookie: HashMap<u64, (ConnectionId, Side)>,
    next: ConnectionId,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.next;
        self.next += 1;
        self.by_key.insert(connection.key, id);
        self.by_id.insert(id, connection);
        id
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.by_id.remove(&id)?;
        if self.by_key.get(&connection.key) == Some(&id) {
            self.by_key.remove(&connection.key);
        }
        for end in connection.ends() {
            self.by_cookie.remove(&end.cookie);
        }
        Some(connection)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn of_key(&self, key: &Key) -> Option<ConnectionId> {
        self.by_key.get(key).copied()
    }

    /// Notes whose a shadow is.
    pub(super) fn names(&mut self, cookie: u64, id: ConnectionId, side: Side) {
        self.by_cookie.insert(cookie, (id, side));
    }

    /// The end of a shadow.
    pub(super) fn of_shadow(&self, cookie: u64) -> Option<Shadow<'_>> {
        let (id, side) = *self.by_cookie.get(&cookie)?;
        let connection = self.by_id.get(&id)?;
        let end = connection.end(side)?;
        Some(Shadow {
            id,
            end,
            side,
            connection,
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.by_id.iter().map(|(id, connection)| (*id, connection))
    }
}
