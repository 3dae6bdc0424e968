//! `connect`: the anchor is connected in the program's place, then its descriptor is exchanged.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use latlab_wire::streams::{canonical, parse_sockaddr};
use rustix::event::epoll::EventFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;

use super::connection::{Connecting, Connection, ConnectionId, End, Offered, Side, State};
use super::held::Held;
use super::state::{Source, Supervisor};
use crate::options;
use crate::registry::{Key, NodeId, Plain, Target, Way};
use crate::shadow::Kind;
use crate::sys::{registrations, socket};

/// How long a non-blocking call is held at most. A handshake within the host takes some 50 µs.
const NON_BLOCKING_TIMEOUT: Duration = Duration::from_millis(2);
/// The longest `sockaddr` that is read.
const MAX_ADDRESS_BYTES: u64 = 128;

/// The family of an address with which a connection is dissolved (connect(2)).
const UNSPECIFIED: [u8; 2] = [0; 2];

fn is_connecting(state: u8) -> bool {
    // TCP_SYN_SENT of `net/tcp_states.h`.
    state == 2
}

impl Supervisor {
    pub(super) fn connect(&mut self, held: Held) {
        let Some((file, cookie)) = held.socket() else {
            return held.proceed();
        };
        let length = held.call.arguments[2].min(MAX_ADDRESS_BYTES);
        let address = held.memory();
        let address = address.and_then(|m| m.read(held.call.arguments[1], length as usize));
        let Ok(address) = address else {
            return held.proceed();
        };
        if let Some(shadow) = self.connections.of_shadow(cookie) {
            let id = shadow.id;
            return match address.starts_with(&UNSPECIFIED) {
                true => self.disconnect(&held, &file, cookie),
                false => self.connect_again(&held, id),
            };
        }
        if self.hosts.have(file.as_fd()) {
            return held.refuse();
        }
        let to = parse_sockaddr(&address);
        let Some(to) = to.filter(|_| socket::is_tcp(file.as_fd())) else {
            return held.proceed();
        };
        let Some(target) = self.registry.target(held.node(), to) else {
            return held.proceed();
        };
        if socket::tcp_state(file.as_fd()) != Ok(socket::TCP_CLOSE) {
            // An earlier call was interrupted: the kernel says how far it has come.
            self.withdraw(cookie);
            return held.proceed();
        }
        let found = self.may_become_stream(held.node(), &file, target, to);
        if !matches!(found, Err(Plain::NoListener)) {
            self.counts.connection(target.node, to.port());
        }
        if let Err(reason) = found {
            self.stays_plain(reason);
            return held.proceed();
        }
        let is_blocking = socket::is_blocking(&file);
        match socket::connect(file.as_fd(), &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return held.answer(Err(error)),
        }
        let timeout = match is_blocking {
            true => socket::timeout(&file, Timeout::Send),
            false => Some(NON_BLOCKING_TIMEOUT),
        };
        let connecting = Connecting {
            is_blocking,
            deadline: timeout.map(|timeout| Instant::now() + timeout),
            anchor: file,
            token: self.poller.token(),
            held,
        };
        self.begin(connecting, target, canonical(to));
    }

    /// A second call on a socket that was exchanged. The first one after an answer of `EINPROGRESS` says that it is
    /// connected, as the kernel does.
    fn connect_again(&mut self, held: &Held, id: ConnectionId) {
        let connection = self.connections.get_mut(id);
        let first = connection.is_some_and(|c| !std::mem::replace(&mut c.is_told, true));
        held.answer(if first { Ok(()) } else { Err(Errno::ISCONN) });
    }

    /// Dissolves a connection: the program gets its anchor back, which is connected no more.
    fn disconnect(&mut self, held: &Held, file: &OwnedFd, cookie: u64) {
        let Some(shadow) = self.connections.of_shadow(cookie) else {
            return held.proceed();
        };
        let number = held.call.int(0);
        let anchor = &shadow.end.anchor;
        let result = || {
            let found = held.references(file)?;
            if found.is_shared {
                // The other one would lead to the shadow still.
                return Err(Errno::INVAL);
            }
            self.arm_reset(&shadow, file);
            socket::disconnect(anchor.as_fd())?;
            fcntl_setfl(anchor, fcntl_getfl(file)?)?;
            let listener = &held.session.listener;
            listener.replace(held.call.id, anchor.as_fd(), number, found.close_on_exec)?;
            let (file, anchor) = (file.as_fd(), anchor.as_fd());
            registrations::move_all(&held.task()?, number, file, anchor, &found.registrations);
            Ok(())
        };
        let (id, result) = (shadow.id, result());
        if result.is_ok() {
            self.forget_connection(id);
        }
        held.answer(result);
    }

    /// Drops all that is held of a connection, of which a program has the anchor again.
    pub(super) fn forget_connection(&mut self, id: ConnectionId) {
        let state = self
            .connections
            .remove(id)
            .map(|connection| connection.state);
        if let Some(State::Offered(offered)) = state {
            self.sources.remove(&offered.token);
        }
    }

    /// Why the connection of a client's socket stays plain, if that is known before it is made.
    fn may_become_stream(
        &self,
        client: NodeId,
        file: &OwnedFd,
        target: Target,
        to: SocketAddr,
    ) -> Result<(), Plain> {
        let flags = fcntl_getfl(file).unwrap_or(OFlags::empty());
        match () {
            () if !self.registry.is_listening(target.node, to) => Err(Plain::NoListener),
            () if self.is_off(client, target, to.port()) => Err(Plain::Off),
            () if self.is_full() => Err(Plain::Limit),
            () if options::resets_at_close(file.as_fd()) => Err(Plain::ResetAtClose),
            () if options::defers_or_pins(file.as_fd()) => Err(Plain::SpecialSending),
            // Signals of readiness go with the file.
            () if flags.bits() & libc::O_ASYNC as u32 != 0 => Err(Plain::AsyncIo),
            () => Ok(()),
        }
    }

    /// Notes a connection whose names are known since its first segment was sent.
    fn begin(&mut self, connecting: Connecting, target: Target, to: SocketAddr) {
        let from = socket::local(connecting.anchor.as_fd());
        let node = connecting.held.node();
        let way = from.map(|from| (from, self.registry.way(target, node, from)));
        let Ok((from, Some(way))) = way else {
            self.stays_plain(Plain::ForeignSource);
            return go_on(&connecting);
        };
        let events = EventFlags::OUT;
        if self
            .poller
            .add(&connecting.anchor, connecting.token, events)
            .is_err()
        {
            self.stays_plain(Plain::Failed);
            return go_on(&connecting);
        }
        let token = connecting.token;
        let id = self.connections.insert(Connection {
            key: Key {
                server: target.node,
                local: to,
                peer: canonical(from),
            },
            client: None,
            way,
            kind: match way {
                Way::Here => self.kind,
                Way::Between { .. } => Kind::Tcp,
            },
            is_told: connecting.is_blocking,
            state: State::Connecting(connecting),
        });
        self.sources.insert(token, Source::Connecting(id));
        self.connecting.insert(id);
        self.connected(id);
    }

    /// Exchanges the client's descriptor if its anchor is connected by now, or answers with the error.
    pub(super) fn connected(&mut self, id: ConnectionId) {
        let Some(State::Connecting(connecting)) = self.connections.get(id).map(|c| &c.state) else {
            return;
        };
        match socket::tcp_state(connecting.anchor.as_fd()) {
            Ok(state) if is_connecting(state) => {}
            Ok(socket::TCP_CLOSE) | Err(_) => self.refused(id),
            Ok(_) => self.exchange(id),
        }
    }

    /// The anchor cannot be connected: a blocking call is told why; the kernel keeps the reason for another one.
    fn refused(&mut self, id: ConnectionId) {
        let Some(connecting) = self.end_connecting(id) else {
            return;
        };
        match connecting.is_blocking {
            true => {
                let error = socket::take_error(connecting.anchor.as_fd());
                let error = error.err().unwrap_or(Errno::CONNABORTED);
                connecting.held.answer(Err(error));
            }
            false => go_on(&connecting),
        }
    }

    /// The anchor is not connected in time.
    pub(super) fn too_slow(&mut self, id: ConnectionId) {
        if let Some(connecting) = self.end_connecting(id) {
            self.stays_plain(Plain::Slow);
            // The kernel's answer when SO_SNDTIMEO has passed.
            connecting.held.answer(Err(Errno::INPROGRESS));
        }
    }

    /// Has the connection of an anchor stay plain, if it has not been exchanged.
    fn withdraw(&mut self, cookie: u64) {
        let is_of = |id: &ConnectionId| match self.connections.get(*id).map(|c| &c.state) {
            Some(State::Connecting(connecting)) => {
                socket::cookie(connecting.anchor.as_fd()) == Ok(cookie)
            }
            _ => false,
        };
        let id = self.connecting.iter().copied().find(is_of);
        if id.and_then(|id| self.end_connecting(id)).is_some() {
            self.stays_plain(Plain::Interrupted);
        }
    }

    /// Forgets a connection that was not exchanged.
    pub(super) fn end_connecting(&mut self, id: ConnectionId) -> Option<Connecting> {
        if !matches!(self.connections.get(id)?.state, State::Connecting(_)) {
            return None;
        }
        self.connecting.remove(&id);
        let State::Connecting(connecting) = self.connections.remove(id)?.state else {
            return None;
        };
        self.poller.remove(&connecting.anchor);
        self.sources.remove(&connecting.token);
        Some(connecting)
    }

    /// Has a connection that is being made stay plain.
    pub(super) fn leave_to_kernel(&mut self, id: ConnectionId) {
        if let Some(connecting) = self.end_connecting(id) {
            self.stays_plain(Plain::Off);
            go_on(&connecting);
        }
    }

    fn exchange(&mut self, id: ConnectionId) {
        let found = self.connections.get(id);
        let Some(names) = found.map(|c| (c.key, c.way, c.kind)) else {
            return;
        };
        let Some(connecting) = self.end_connecting(id) else {
            return;
        };
        match self.offer(names, connecting) {
            Ok(()) => {
                self.streams += 1;
                self.counts.stream(names.0.server, names.0.local.port());
            }
            Err((reason, connecting)) => {
                self.stays_plain(reason);
                go_on(&connecting);
            }
        }
    }

    /// Gives the client its shadow and answers its call.
    fn offer(
        &mut self,
        (key, way, kind): (Key, Way, Kind),
        connecting: Connecting,
    ) -> Result<(), (Plain, Box<Connecting>)> {
        let prepared = self.prepare(&connecting, way, kind).and_then(|prepared| {
            put(&connecting, &prepared.1)?;
            Ok(prepared)
        });
        let (client, client_shadow, server_shadow) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Err((reason, Box::new(connecting))),
        };
        // Interrupted now, it will ask again and be told.
        let is_told = answer_of(&connecting).is_ok() && connecting.is_blocking;
        let token = self.poller.token();
        let events = EventFlags::IN | EventFlags::RDHUP;
        self.poller.add(&client.anchor, token, events).ok();
        let cookie = client.cookie;
        let id = self.connections.insert(Connection {
            key,
            client: Some(client),
            way,
            kind,
            is_told,
            state: State::Offered(Offered {
                client_shadow: second_reference(kind, client_shadow),
                server_shadow,
                token,
                since: Instant::now(),
                is_missing: false,
            }),
        });
        self.sources.insert(token, Source::Offered(id));
        self.connections.names(cookie, id, Side::Client);
        Ok(())
    }

    fn prepare(
        &self,
        connecting: &Connecting,
        way: Way,
        kind: Kind,
    ) -> Result<(End, OwnedFd, OwnedFd), Plain> {
        let failed = |_| Plain::Failed;
        if !connecting.held.is_valid() {
            return Err(Plain::Interrupted);
        }
        let pair = match way {
            Way::Here => kind.pair(),
            Way::Between { server, client } => self.hosts.pair(server, client),
        };
        let (ours, theirs) = pair.map_err(|_| Plain::Limit)?;
        let anchor = connecting.anchor.try_clone().map_err(|_| Plain::Limit)?;
        let held = &connecting.held;
        let client = End::new(anchor, &ours, held, held.call.int(0)).map_err(failed)?;
        options::carry(client.anchor.as_fd(), ours.as_fd(), kind);
        if !connecting.is_blocking {
            fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(failed)?;
        }
        Ok((client, ours, theirs))
    }
}

/// Puts a shadow in the place of the client's descriptor, as that is by now: the anchor may have been long in coming, and
/// other threads went on.
fn put(connecting: &Connecting, shadow: &OwnedFd) -> Result<(), Plain> {
    let (held, anchor) = (&connecting.held, &connecting.anchor);
    let found = held.references(anchor).map_err(|_| Plain::Interrupted)?;
    match () {
        () if found.is_shared => return Err(Plain::SharedDescriptor),
        () if !connecting.is_at_number() => return Err(Plain::Interrupted),
        () => {}
    }
    let (number, listener) = (held.call.int(0), &held.session.listener);
    listener
        .replace(held.call.id, shadow.as_fd(), number, found.close_on_exec)
        .map_err(|_| Plain::Interrupted)?;
    if let Ok(task) = held.task() {
        let (anchor, shadow) = (anchor.as_fd(), shadow.as_fd());
        registrations::move_all(&task, number, anchor, shadow, &found.registrations);
    }
    Ok(())
}

/// The answer that the kernel would have given.
fn answer_of(connecting: &Connecting) -> Result<(), Errno> {
    let held = &connecting.held;
    let result = match connecting.is_blocking {
        true => Ok(()),
        false => Err(Errno::INPROGRESS),
    };
    held.session.listener.answer(held.call.id, result)
}

/// Leaves a connection that has begun to the kernel.
fn go_on(connecting: &Connecting) {
    match connecting.is_blocking && connecting.is_at_number() {
        // The kernel goes on to wait, or finds it connected.
        true => connecting.held.proceed(),
        // Or else it would connect what is at the number by now.
        false => drop(answer_of(connecting)),
    }
}

/// A shadow of TCP whose close lingers would keep us, if a program closed it first.
fn second_reference(kind: Kind, shadow: OwnedFd) -> Option<OwnedFd> {
    if kind == Kind::Unix {
        return Some(shadow);
    }
    if options::lingers(shadow.as_fd()) {
        std::thread::spawn(move || drop(shadow));
    }
    None
}
