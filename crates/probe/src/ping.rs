//! The round trip of a single ICMP echo, for programs that watch a path and measure nothing else.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::icmp::{Echo, HEADER_BYTES};
use crate::net::{self, Sent, Socket};
use crate::setup::Poll;

/// Header, and in the data the sequence by which a reply is matched.
const MESSAGE_BYTES: usize = HEADER_BYTES + 8;

/// Room for a reply with the IPv4 header and options that a raw socket sees.
const REPLY_BYTES: usize = 256;

#[derive(Debug)]
pub struct Ping {
    socket: Socket,
    echo: Echo,
    sequence: u64,
}

impl Ping {
    /// Echoes to an address, in the calling thread's network namespace. `identifier` tells them from those of other
    /// callers. Errors: no right to ICMP sockets, or no route.
    pub fn open(to: IpAddr, from: Option<IpAddr>, identifier: u16) -> io::Result<Ping> {
        let opened = net::icmp_to(to, from);
        let (socket, kind) = opened.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Ping {
            socket,
            echo: Echo::new(to.is_ipv6(), kind, identifier),
            sequence: 0,
        })
    }

    /// Sends one and waits for its reply. None: there was none in time, for whatever reason. The caller's wake-up is part of
    /// it. The kernel's stamps would leave that out, and cost all traffic of the machine a third of its rate on a veth.
    pub fn round_trip(&mut self, timeout: Duration) -> Option<Duration> {
        self.sequence += 1;
        let mut message = [0; MESSAGE_BYTES];
        message[HEADER_BYTES..].copy_from_slice(&self.sequence.to_be_bytes());
        // The 16 bits of the header are for people who watch the wire.
        self.echo.prepare(&mut message, self.sequence as u16);
        let begin = Instant::now();
        let sent = net::send_datagram(&self.socket, &message, None, &mut 0);
        if matches!(sent, Ok(Sent::Yes)) {
            return self.reply(&message[HEADER_BYTES..], begin, timeout);
        }
        None
    }

    fn reply(&self, data: &[u8], begin: Instant, timeout: Duration) -> Option<Duration> {
        let mut buffer = [0; REPLY_BYTES];
        while let Some(left) = timeout.checked_sub(begin.elapsed()) {
            let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            net::set_receive_timeout(&self.socket, left).ok()?;
            // The socket reports an ICMP error of the path once, and goes on.
            if let Ok(Some(length)) = net::receive(&self.socket, &mut buffer, Poll::Block) {
                if self.echo.reply_data(&buffer[..length]) == Some(data) {
                    return Some(begin.elapsed());
                }
            }
        }
        None
    }
}
