//! The path MTU to a peer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::links::sys;

/// Lifetime of an answer. The kernel learns of narrower paths at once and fragments meanwhile, so a late refresh costs
/// speed and no frames.
const LIFETIME: Duration = Duration::from_secs(1);
/// MTU that every path carries (RFC 8200, section 5), if the kernel knows none.
const MIN_MTU: usize = 1280;

/// Payload of a datagram over IPv6 over Ethernet: the default.
pub const ETHERNET: usize = 1500 - 48;

/// A connected socket that never sends, through which the kernel reports the route's MTU.
#[derive(Debug)]
pub struct Path {
    probe: OwnedFd,
    remote: SocketAddr,
    payload: usize,
    asked: Instant,
}

impl Path {
    /// The path from `probe`, a socket of the same address as the sending ones.
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

    /// Maximum payload of a UDP datagram that is not fragmented.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Asks the kernel again if the answer has expired.
    pub fn refresh(&mut self) {
        if self.asked.elapsed() >= LIFETIME {
            self.ask();
        }
    }

    pub fn ask(&mut self) {
        self.asked = Instant::now();
        let headers = if self.remote.is_ipv4() { 28 } else { 48 };
        let mtu = self.mtu().unwrap_or(MIN_MTU).clamp(68, 65_535);
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
        Ok(usize::try_from(mtu).unwrap_or(MIN_MTU))
    }
}
