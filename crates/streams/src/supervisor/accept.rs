//! `listen` and `accept`: the anchor is accepted in the program's place, and its stream handed over instead.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use latlab_wire::streams::canonical;
use rustix::fs::{OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::net::listen;
use rustix::net::sockopt::Timeout;

use super::accepts::{Accepts, UNDELIVERED_TIMEOUT, Waiting};
use super::connection::{ConnectionId, End, Side, State};
use super::held::Held;
use super::state::{Source, Supervisor};
use crate::descriptors::has_room;
use crate::options;
use crate::registry::{Key, NodeId};
use crate::sys::{socket, tables};

impl Supervisor {
    /// The kernel binds an unbound socket as it listens, so its address is only known afterwards.
    pub(super) fn listen(&mut self, held: &Held) {
        let Some((file, cookie)) = held.socket() else {
            return held.proceed();
        };
        if self.hosts.have(file.as_fd()) {
            return held.refuse();
        }
        if !socket::takes_tcp(file.as_fd()) {
            return held.proceed();
        }
        let result = listen(&file, held.call.int(1));
        if result.is_ok() && options::allow_streams(file.as_fd()) {
            if let Ok(address) = socket::local(file.as_fd()) {
                self.note_listening(&file, cookie, held.node(), address);
            }
        }
        drop(file);
        held.answer(result);
    }

    fn note_listening(&mut self, file: &OwnedFd, cookie: u64, node: NodeId, at: SocketAddr) {
        let Ok(stat) = fstat(file) else {
            return;
        };
        if self.registry.is_full(node) {
            if let Ok(open) = tables::tcp_inodes(&self.nodes[node]) {
                self.registry.forget_closed(node, &open);
            }
        }
        self.registry.listens(cookie, stat.st_ino, node, at);
    }

    pub(super) fn accept(&mut self, held: Held, flags: i32) {
        let Some((file, cookie)) = held.socket() else {
            return held.proceed();
        };
        if self.registry.listener(cookie).is_none() {
            return held.proceed();
        }
        let kept = self.accepts.get_mut(&cookie);
        if let Some((anchor, _)) = kept.and_then(|accepts| accepts.undelivered.pop_front()) {
            self.deliver(&held, flags, cookie, anchor);
            return self.forget_idle(cookie);
        }
        match next_connection(&held, &file) {
            Ok(anchor) => self.deliver(&held, flags, cookie, anchor),
            Err(Errno::AGAIN) if socket::is_blocking(&file) => {
                let deadline = socket::timeout(&file, Timeout::Recv);
                let waiting = Waiting {
                    held,
                    flags,
                    deadline: deadline.map(|timeout| Instant::now() + timeout),
                };
                self.wait_to_accept(&file, cookie, waiting);
            }
            Err(error) => held.answer(Err(error)),
        }
    }

    /// Holds a call until its socket is ready. No reference to the socket is kept meanwhile, or a program could not
    /// close it and listen at the same port again.
    fn wait_to_accept(&mut self, file: &OwnedFd, cookie: u64, waiting: Waiting) {
        let token = self.accepts_of(cookie).token;
        if self.poller.add_once(file, token).is_err() {
            waiting.held.answer(Err(Errno::NOBUFS));
            return self.forget_idle(cookie);
        }
        self.accepts_of(cookie).waiting.push_back(waiting);
    }

    /// The calls that are held on a listening socket.
    fn accepts_of(&mut self, cookie: u64) -> &mut Accepts {
        let (poller, sources) = (&mut self.poller, &mut self.sources);
        self.accepts.entry(cookie).or_insert_with(|| {
            let token = poller.token();
            sources.insert(token, Source::Accepting(cookie));
            Accepts::new(token)
        })
    }

    /// A listening socket on which calls are held has become ready.
    pub(super) fn acceptable(&mut self, cookie: u64) {
        while let Some(waiting) = self.next_waiting(cookie) {
            let Some((file, _)) = waiting.held.socket().filter(|(_, own)| *own == cookie) else {
                // Another thread closed the descriptor: the kernel would have held the socket for this call.
                waiting.held.answer(Err(Errno::BADF));
                continue;
            };
            match next_connection(&waiting.held, &file) {
                Ok(anchor) => self.deliver(&waiting.held, waiting.flags, cookie, anchor),
                Err(Errno::AGAIN) => {
                    self.wait_first(&file, cookie, waiting);
                    return;
                }
                Err(error) => waiting.held.answer(Err(error)),
            }
        }
        self.forget_idle(cookie);
    }

    /// The longest held call whose task still waits.
    fn next_waiting(&mut self, cookie: u64) -> Option<Waiting> {
        let accepts = self.accepts.get_mut(&cookie)?;
        loop {
            let waiting = accepts.waiting.pop_front()?;
            if waiting.held.is_valid() {
                return Some(waiting);
            }
        }
    }

    fn wait_first(&mut self, file: &OwnedFd, cookie: u64, waiting: Waiting) {
        let Some(accepts) = self.accepts.get_mut(&cookie) else {
            return;
        };
        self.poller.add_once(file, accepts.token).ok();
        accepts.waiting.push_front(waiting);
    }

    fn forget_idle(&mut self, cookie: u64) {
        if self.accepts.get(&cookie).is_some_and(Accepts::is_idle) {
            if let Some(accepts) = self.accepts.remove(&cookie) {
                self.sources.remove(&accepts.token);
            }
        }
    }

    /// Answers calls whose time has passed.
    pub(super) fn expire_accepts(&mut self, now: Instant) {
        self.retain_accepts(now, |waiting| {
            let is_late = waiting.deadline.is_some_and(|at| at <= now);
            if is_late {
                waiting.held.answer(Err(Errno::AGAIN));
            }
            !is_late
        });
    }

    /// Forgets calls whose tasks were interrupted.
    pub(super) fn forget_interrupted(&mut self) {
        self.retain_accepts(Instant::now(), |waiting| waiting.held.is_valid());
    }

    fn retain_accepts(&mut self, now: Instant, keep: impl Fn(&Waiting) -> bool) {
        let cookies: Vec<u64> = self.accepts.keys().copied().collect();
        for cookie in cookies {
            let Some(accepts) = self.accepts.get_mut(&cookie) else {
                continue;
            };
            accepts.waiting.retain(&keep);
            accepts
                .undelivered
                .retain(|(_, since)| *since + UNDELIVERED_TIMEOUT > now);
            self.forget_idle(cookie);
        }
    }

    /// Gives a program the stream of an accepted anchor, or the anchor where there is none.
    fn deliver(&mut self, held: &Held, flags: i32, listening: u64, anchor: OwnedFd) {
        let id = self.stream_of(held, &anchor);
        let Some((id, server_shadow)) = id else {
            let given = self.hand_over(held, flags, &anchor, &anchor);
            if given.is_err() {
                self.keep(listening, anchor);
            }
            return;
        };
        let kind = self.connections.get(id).map_or(self.kind, |c| c.kind);
        options::carry(anchor.as_fd(), server_shadow.as_fd(), kind);
        let Ok(number) = self.hand_over(held, flags, &anchor, &server_shadow) else {
            return self.keep(listening, anchor);
        };
        if let Ok(server) = End::new(anchor, &server_shadow, held, number) {
            self.connections.names(server.cookie, id, Side::Server);
            self.take_offer(id, State::Claimed { server });
        }
    }

    /// The stream that was offered for an anchor, with the server's end of its shadow.
    fn stream_of(&mut self, held: &Held, anchor: &OwnedFd) -> Option<(ConnectionId, OwnedFd)> {
        let key = Key {
            server: held.node(),
            local: canonical(socket::local(anchor.as_fd()).ok()?),
            peer: canonical(socket::peer(anchor.as_fd()).ok()?),
        };
        // The server may be faster than our own notice that the client's anchor is connected.
        let id = self.connections.of_key(&key)?;
        self.connected(id);
        let id = self.connections.of_key(&key)?;
        match &self.connections.get(id)?.state {
            State::Offered(offered) => Some((id, offered.server_shadow.try_clone().ok()?)),
            _ => None,
        }
    }

    /// Writes the peer's address and gives the descriptor, as accept4(2) does.
    fn hand_over(
        &self,
        held: &Held,
        flags: i32,
        anchor: &OwnedFd,
        given: &OwnedFd,
    ) -> Result<i32, Errno> {
        if held.call.arguments[1] != 0 {
            let name = socket::peer_name(anchor.as_fd()).unwrap_or_default();
            if let Err(error) = held.write_name(&name) {
                held.answer(Err(error));
                return Err(error);
            }
        }
        if flags & libc::SOCK_NONBLOCK != 0 {
            fcntl_setfl(given, OFlags::NONBLOCK).ok();
        }
        let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
        let session = &held.session;
        let result = session
            .listener
            .give(held.call.id, given.as_fd(), close_on_exec);
        if let Err(error) = result {
            // The task was interrupted, or another thread has filled its table.
            held.answer(Err(error));
        }
        result
    }

    /// Keeps a connection for the next call.
    fn keep(&mut self, listening: u64, anchor: OwnedFd) {
        let kept = (anchor, Instant::now());
        self.accepts_of(listening).undelivered.push_back(kept);
    }
}

/// The next connection of a listening socket. One that its task has no descriptor for stays where poll(2) sees it.
fn next_connection(held: &Held, listening: &OwnedFd) -> Result<OwnedFd, Errno> {
    match socket::is_readable(listening)? && !has_room(held.call.task) {
        true => Err(Errno::MFILE),
        false => socket::accept(listening.as_fd()),
    }
}
