//! Connections whose other side has not said yet who it is.
//!
//! A handshake may take seconds, so strangers who say nothing must not hold the places of a peer. Each source has a few
//! places, all sources together have more. When they are taken, the oldest connection is ended: a peer needs milliseconds
//! for its handshake, so only a flood of [`MAX_ALL`] connections within those keeps it out, and it tries again.
//!
//! Errors of accept(2) pass as well: a process without descriptors has some again later. Whoever accepts pauses and goes on.

use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Handshakes under way with one source, and with all.
const MAX_SOURCE: usize = 4;
const MAX_ALL: usize = 64;

/// After an error of accept(2): long enough not to spin, short enough for whoever waits.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What to wait after an error of accept(2): nothing when it was only that connection's.
pub(crate) fn pause_after(error: &io::Error) -> Duration {
    match error.kind() {
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Duration::ZERO,
        _ => ACCEPT_PAUSE,
    }
}

/// The connections of one listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Waiting>>);

/// The oldest first.
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

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    strangers: Strangers,
    number: u64,
}

impl Strangers {
    /// Gives a connection a place. If it takes that of another, that one's socket is shut down.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn enter(&self, socket: &TcpStream, from: IpAddr) -> io::Result<Place> {
        let (source, socket) = (site(from), socket.try_clone()?);
        let mut waiting = self.lock();
        let of_source = waiting.all.iter().filter(|one| one.source == source);
        let oldest = match (of_source.count(), waiting.all.len()) {
            (MAX_SOURCE.., _) => waiting.all.iter().position(|one| one.source == source),
            (_, MAX_ALL..) => Some(0),
            _ => None,
        };
        if let Some(oldest) = oldest {
            // Its own thread finds the end of the connection.
            let _ = waiting.all.remove(oldest).socket.shutdown(Shutdown::Both);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.push(Stranger {
            number,
            source,
            socket,
        });
        Ok(Place {
            strangers: self.clone(),
            number,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.strangers.lock();
        waiting.all.retain(|one| one.number != self.number);
    }
}

/// What counts as one source: an address, or an IPv6 network of one site (RFC 6177).
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
    fn the_oldest_of_a_source_makes_room_and_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let strangers = Strangers::default();
        let mut ends = Vec::new();
        let mut places = Vec::new();
        let mut come = |from: &str| {
            let far = TcpStream::connect(at).unwrap();
            let (near, _) = listener.accept().unwrap();
            places.push(strangers.enter(&near, from.parse().unwrap()).unwrap());
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
        assert_eq!(strangers.lock().all.len(), MAX_SOURCE + 1);
        drop(places);
        assert!(strangers.lock().all.is_empty());
    }
}
