//! The payload of each kind of message: written and read field by field, so that the layout
//! is these lines and nothing else. Numbers are little endian; texts and lists have a 16-bit length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{
    Exec, ExitStatus, Identity, Interface, Message, NetworkConfig, Renewal, Route, Stream,
};

mod kind {
    pub const HELLO: u8 = 1;
    pub const HELLO_ACK: u8 = 2;
    pub const EXEC: u8 = 3;
    pub const DATA: [u8; 3] = [4, 5, 6];
    pub const END: [u8; 3] = [7, 8, 9];
    pub const CREDIT: [u8; 3] = [10, 11, 12];
    pub const SIGNAL: u8 = 13;
    pub const EXIT_CODE: u8 = 14;
    pub const EXIT_SIGNAL: u8 = 15;
    pub const NETWORK: u8 = 16;
    pub const DONE: u8 = 17;
    pub const FAILED: u8 = 18;
    pub const POWER_OFF: u8 = 21;
    pub const IDENTIFY: u8 = 22;
    pub const RENEW: u8 = 23;
}

const STREAMS: [Stream; 3] = [Stream::Stdin, Stream::Stdout, Stream::Stderr];

/// Writes the payload and returns kind and session.
pub(super) fn put_payload(message: &Message, out: &mut Vec<u8>) -> (u8, u32) {
    (put_fields(message, out), session_of(message))
}

fn put_fields(message: &Message, out: &mut Vec<u8>) -> u8 {
    match message {
        Message::Hello { version, nonce } => {
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(&nonce.to_le_bytes());
            kind::HELLO
        }
        Message::HelloAck {
            version,
            nonce,
            guest_monotonic_ns,
            failure,
        } => {
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(&nonce.to_le_bytes());
            out.extend_from_slice(&guest_monotonic_ns.to_le_bytes());
            put_option(failure.as_deref(), out, put_text);
            kind::HELLO_ACK
        }
        Message::Exec { exec, .. } => {
            put_exec(exec, out);
            kind::EXEC
        }
        Message::Data { stream, data, .. } => {
            out.extend_from_slice(data);
            kind::DATA[*stream as usize]
        }
        Message::End { stream, .. } => kind::END[*stream as usize],
        Message::Credit { stream, bytes, .. } => {
            out.extend_from_slice(&bytes.to_le_bytes());
            kind::CREDIT[*stream as usize]
        }
        Message::Signal { signal, .. } => {
            out.push(*signal);
            kind::SIGNAL
        }
        Message::Exit { status, .. } => {
            let (kind, number) = match status {
                ExitStatus::Code(code) => (kind::EXIT_CODE, *code),
                ExitStatus::Signal(signal) => (kind::EXIT_SIGNAL, *signal),
            };
            out.push(number);
            kind
        }
        Message::Network { config, .. } => {
            put_network(config, out);
            kind::NETWORK
        }
        Message::Identify { identity, .. } => {
            put_identity(identity, out);
            kind::IDENTIFY
        }
        Message::Renew { renewal, .. } => {
            put_renewal(renewal, out);
            kind::RENEW
        }
        Message::Done { .. } => kind::DONE,
        Message::Failed { errno, message, .. } => {
            out.extend_from_slice(&errno.to_le_bytes());
            put_text(message, out);
            kind::FAILED
        }
        Message::PowerOff => kind::POWER_OFF,
    }
}

/// The session in a message's header; 0 for a message that belongs to none.
fn session_of(message: &Message) -> u32 {
    match message {
        Message::Hello { .. } | Message::HelloAck { .. } | Message::PowerOff => 0,
        Message::Exec { session, .. }
        | Message::Data { session, .. }
        | Message::End { session, .. }
        | Message::Credit { session, .. }
        | Message::Signal { session, .. }
        | Message::Exit { session, .. }
        | Message::Network { session, .. }
        | Message::Identify { session, .. }
        | Message::Renew { session, .. }
        | Message::Done { session }
        | Message::Failed { session, .. } => *session,
    }
}

pub(super) fn take_payload(kind: u8, session: u32, r: &mut Reader<'_>) -> Option<Message> {
    let among = |kinds: [u8; 3]| kinds.iter().position(|k| *k == kind).map(|at| STREAMS[at]);
    if let Some(stream) = among(kind::DATA) {
        return Some(Message::Data {
            session,
            stream,
            data: r.rest().to_vec(),
        });
    }
    if let Some(stream) = among(kind::END) {
        return Some(Message::End { session, stream });
    }
    if let Some(stream) = among(kind::CREDIT) {
        return Some(Message::Credit {
            session,
            stream,
            bytes: r.u32()?,
        });
    }
    Some(match kind {
        kind::EXEC => Message::Exec {
            session,
            exec: take_exec(r)?,
        },
        kind::SIGNAL => Message::Signal {
            session,
            signal: r.u8()?,
        },
        kind::EXIT_CODE => Message::Exit {
            session,
            status: ExitStatus::Code(r.u8()?),
        },
        kind::EXIT_SIGNAL => Message::Exit {
            session,
            status: ExitStatus::Signal(r.u8()?),
        },
        kind::NETWORK => Message::Network {
            session,
            config: take_network(r)?,
        },
        kind::IDENTIFY => Message::Identify {
            session,
            identity: take_identity(r)?,
        },
        kind::RENEW => Message::Renew {
            session,
            renewal: take_renewal(r)?,
        },
        kind::DONE => Message::Done { session },
        kind::FAILED => Message::Failed {
            session,
            errno: r.u32()?,
            message: r.text()?,
        },
        // A message that belongs to no session says session 0, or decoding would lose the number.
        _ if session == 0 => take_global(kind, r)?,
        _ => return None,
    })
}

fn take_global(kind: u8, r: &mut Reader<'_>) -> Option<Message> {
    Some(match kind {
        kind::HELLO => Message::Hello {
            version: r.u16()?,
            nonce: r.u64()?,
        },
        kind::HELLO_ACK => Message::HelloAck {
            version: r.u16()?,
            nonce: r.u64()?,
            guest_monotonic_ns: r.u64()?,
            failure: r.option(Reader::text)?,
        },
        kind::POWER_OFF => Message::PowerOff,
        _ => return None,
    })
}

fn put_exec(exec: &Exec, out: &mut Vec<u8>) {
    put_list(&exec.argv, out, |text, out| put_text(text, out));
    put_list(&exec.env, out, |(name, value), out| {
        put_text(name, out);
        put_text(value, out);
    });
    put_option(exec.cwd.as_deref(), out, put_text);
    put_option(exec.uid.as_ref(), out, |uid, out| {
        out.extend_from_slice(&uid.to_le_bytes());
    });
    out.push(u8::from(exec.detach));
}

fn take_exec(r: &mut Reader<'_>) -> Option<Exec> {
    Some(Exec {
        argv: r.list(Reader::text)?,
        env: r.list(|r| Some((r.text()?, r.text()?)))?,
        cwd: r.option(Reader::text)?,
        uid: r.option(Reader::u32)?,
        detach: r.bool()?,
    })
}

fn put_network(config: &NetworkConfig, out: &mut Vec<u8>) {
    put_list(&config.interfaces, out, |interface, out| {
        out.extend_from_slice(&interface.mac);
        put_option(interface.own_mac.as_ref(), out, |mac, out| {
            out.extend_from_slice(mac);
        });
        put_text(&interface.name, out);
        put_option(interface.mtu.as_ref(), out, |mtu, out| {
            out.extend_from_slice(&mtu.to_le_bytes());
        });
        put_list(&interface.addresses, out, put_prefix);
    });
    put_list(&config.routes, out, |route, out| {
        put_prefix(&route.destination, out);
        put_option(route.gateway.as_ref(), out, put_address);
        put_option(route.interface.as_deref(), out, put_text);
    });
    put_option(config.hosts.as_deref(), out, put_text);
}

fn take_network(r: &mut Reader<'_>) -> Option<NetworkConfig> {
    Some(NetworkConfig {
        interfaces: r.list(|r| {
            Some(Interface {
                mac: r.array()?,
                own_mac: r.option(Reader::array)?,
                name: r.text()?,
                mtu: r.option(Reader::u32)?,
                addresses: r.list(Reader::prefix)?,
            })
        })?,
        routes: r.list(|r| {
            Some(Route {
                destination: r.prefix()?,
                gateway: r.option(Reader::address)?,
                interface: r.option(Reader::text)?,
            })
        })?,
        hosts: r.option(Reader::text)?,
    })
}

fn put_identity(identity: &Identity, out: &mut Vec<u8>) {
    put_text(&identity.parameters, out);
    put_list(&identity.macs, out, |(from, to), out| {
        out.extend_from_slice(from);
        out.extend_from_slice(to);
    });
    put_renewal(&identity.renewal, out);
}

fn put_renewal(renewal: &Renewal, out: &mut Vec<u8>) {
    put_list(&renewal.entropy, out, |byte, out| out.push(*byte));
    out.extend_from_slice(&renewal.realtime_ns.to_le_bytes());
}

fn take_identity(r: &mut Reader<'_>) -> Option<Identity> {
    Some(Identity {
        parameters: r.text()?,
        macs: r.list(|r| Some((r.array()?, r.array()?)))?,
        renewal: take_renewal(r)?,
    })
}

fn take_renewal(r: &mut Reader<'_>) -> Option<Renewal> {
    Some(Renewal {
        entropy: r.list(Reader::u8)?,
        realtime_ns: r.u64()?,
    })
}

/// Length and bytes. Text longer than 65,535 bytes is written whole under a wrong length, which makes the
/// payload exceed [`MAX_PAYLOAD`] in any case: `encode` refuses it.
fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Count and elements; as with text, a count beyond 65,535 cannot fit a frame.
fn put_list<T>(items: &[T], out: &mut Vec<u8>, mut put: impl FnMut(&T, &mut Vec<u8>)) {
    out.extend_from_slice(&(items.len() as u16).to_le_bytes());
    for item in items {
        put(item, out);
    }
}

fn put_option<T: ?Sized>(item: Option<&T>, out: &mut Vec<u8>, put: impl FnOnce(&T, &mut Vec<u8>)) {
    out.push(u8::from(item.is_some()));
    if let Some(item) = item {
        put(item, out);
    }
}

fn put_prefix((address, length): &(IpAddr, u8), out: &mut Vec<u8>) {
    put_address(address, out);
    out.push(*length);
}

fn put_address(address: &IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// Takes values off the front of a payload; `None` when it is too short or says something impossible.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u16()?);
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// The count is not trusted with memory: each element takes at least one byte, or the list ends.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u16()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    fn option<T>(&mut self, item: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.bool()? {
            Some(Some(item(self)?))
        } else {
            Some(None)
        }
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.u8()? {
            4 => Some(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => None,
        }
    }

    fn prefix(&mut self) -> Option<(IpAddr, u8)> {
        Some((self.address()?, self.u8()?))
    }
}
