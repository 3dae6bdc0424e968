//! Connections of peers that have not authenticated yet.
//!
//! A handshake may take seconds, so silent strangers must not block a peer. Each source has a few slots, all sources
//! together have more. When they are taken, the oldest connection is ended. A peer needs milliseconds for its handshake,
//! so only a flood of [`MAX_ALL`] connections within those delays it, and it tries again.
//!
//! Errors of accept(2), such as a lack of descriptors, are temporary: the acceptor pauses and continues.

use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sync::lock;

/// Maximum number of concurrent handshakes with one source, and with all.
const MAX_SOURCE: usize = 4;
const MAX_ALL: usize = 64;

/// Pause after an error of accept(2): long enough not to spin, short enough for waiting peers.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Pause after an error of accept(2); none if it concerned only that connection.
pub(crate) fn pause_after(error: &io::Error) -> Duration {
    match error.kind() {
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Duration::ZERO,
        _ => ACCEPT_PAUSE,
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    all: Vec<Stranger>,
    next: u64,
}

#[derive(Debug)]
struct Stranger {
    number: u64,
    source: IpAddr,
    socket: TcpStream,
}

/// A connection's slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct StrangerSlot {
    strangers: Strangers,
    number: u64,
}

impl Strangers {
    /// Gives a connection a slot; shuts down the connection that had it.
    pub fn enter(&self, socket: &TcpStream, from: IpAddr) -> io::Result<StrangerSlot> {
        let (source, socket) = (site(from), socket.try_clone()?);
        let mut waiting = lock(&self.0);
        let of_source = waiting.all.iter().filter(|one| one.source == source);
        let oldest = match (of_source.count(), waiting.all.len()) {
            (MAX_SOURCE.., _) => waiting.all.iter().position(|one| one.source == source),
            (_, MAX_ALL..) => Some(0),
            _ => None,
        };
        if let Some(oldest) = oldest {
            // Its thread notices the end of the connection.
            let _ = waiting.all.remove(oldest).socket.shutdown(Shutdown::Both);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.push(Stranger {
            number,
            source,
            socket,
        });
        Ok(StrangerSlot {
            strangers: self.clone(),
            number,
        })
    }
}

impl Drop for StrangerSlot {
    fn drop(&mut self) {
        let mut waiting = lock(&self.strangers.0);
        waiting.all.retain(|one| one.number != self.number);
    }
}

/// The source of an address: itself, or the IPv6 network of its site (RFC 6177).
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_the_oldest_connection_of_a_source_is_evicted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let strangers = Strangers::default();
        let mut ends = Vec::new();
        let mut slots = Vec::new();
        let mut come = |from: &str| {
            let far = TcpStream::connect(at).unwrap();
            let (near, _) = listener.accept().unwrap();
            slots.push(strangers.enter(&near, from.parse().unwrap()).unwrap());
            far.set_nonblocking(true).unwrap();
            ends.push((far, near));
        };
        come("192.0.2.1");
        for _ in 0..=MAX_SOURCE {
            come("2001:db8::1");
            come("2001:db8::2");
        }
        let mut is_ended = |number: usize| matches!(ends[number].0.read(&mut [0]), Ok(0));
        assert!(!is_ended(0));
        let ended = (1..=2 * (MAX_SOURCE + 1))
            .filter(|at| is_ended(*at))
            .count();
        assert_eq!(ended, 2 * (MAX_SOURCE + 1) - MAX_SOURCE);
        assert_eq!(lock(&strangers.0).all.len(), MAX_SOURCE + 1);
        drop(slots);
        assert!(lock(&strangers.0).all.is_empty());
    }
}
