//! What is known of the way to a peer: how large a datagram may be.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::links::sys;

/// How long an answer is believed. The kernel learns of narrower paths at once and fragments
/// meanwhile, so being late costs speed and no frames.
const BELIEVED: Duration = Duration::from_secs(1);
/// What every path has to carry (RFC 8200, section 5), for when the kernel does not know.
const LEAST: usize = 1280;

/// What a datagram over IPv6 over Ethernet carries, for the time before anybody asked.
pub const ETHERNET: usize = 1500 - 48;

/// A connected socket that never sends: the kernel tells through it what it knows of the route.
#[derive(Debug)]
pub struct Path {
    probe: OwnedFd,
    remote: SocketAddr,
    payload: usize,
    asked: Instant,
}

impl Path {
    /// The path from `probe`, a socket of the same address as those that send.
    pub fn new(probe: OwnedFd, remote: SocketAddr) -> Path {
        let mut path = Path {
            probe,
            remote,
            payload: 0,
            asked: Instant::now(),
        };
        path.ask();
        path
    }

    /// Largest payload of a UDP datagram that is not fragmented.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Asks the kernel again when the answer is old.
    pub fn refresh(&mut self) {
        if self.asked.elapsed() >= BELIEVED {
            self.ask();
        }
    }

    /// Asks the kernel.
    pub fn ask(&mut self) {
        self.asked = Instant::now();
        let headers = if self.remote.is_ipv4() { 28 } else { 48 };
        let mtu = self.mtu().unwrap_or(LEAST).clamp(68, 65_535);
        self.payload = mtu - headers;
    }

    fn mtu(&self) -> io::Result<usize> {
        // Connecting again looks the route up again.
        rustix::net::connect(&self.probe, &self.remote)?;
        let (level, option) = if self.remote.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        };
        let mtu = sys::get(self.probe.as_fd(), level, option)?;
        Ok(usize::try_from(mtu).unwrap_or(LEAST))
    }
}
