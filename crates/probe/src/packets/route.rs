//! The way to an IPv4 address: which interface, from and to which Ethernet addresses.
//!
//! Only needed by who builds frames itself. The kernel is asked to resolve the next hop by sending it a
//! datagram; its answers are read from the tables in `/proc`, which a static binary can do anywhere.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::args::EthernetAddress;
use crate::error::{Error, Result};
use crate::net;
use crate::sys;

/// The discard service (RFC 863): no receiver answers with data.
const DISCARD: u16 = 9;
/// How long a next hop may take to answer; a device under test may just be coming up.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub interface: u32,
    pub from: [u8; 6],
    /// The Ethernet address of the next hop.
    pub to: [u8; 6],
}

/// Finds the way to `address`, and has the kernel resolve it.
pub fn find(address: Ipv4Addr) -> Result<Route> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Error::machine(what, error)
    };
    let table = fs::read_to_string("/proc/thread-self/net/route")
        .map_err(failed("read the routes in /proc"))?;
    let (name, hop) = next_hop(&table, address).ok_or_else(|| {
        Error::Usage(format!(
            "no route leads to {address}; `--via socket` reaches local addresses too"
        ))
    })?;
    let interface = sys::interface_index(name).map_err(failed(&format!("find {name}")))?;
    let from = sys::hardware_address(name).map_err(failed(&format!("ask for {name}'s address")))?;
    let poke = net::udp_to(SocketAddr::new(address.into(), DISCARD), None)?;
    let end = Instant::now() + TIMEOUT;
    loop {
        // The network's answer does not matter.
        net::send_datagram(&poke, &[0], None, &mut 0).ok();
        let table = fs::read_to_string("/proc/thread-self/net/arp")
            .map_err(failed("read the neighbours in /proc"))?;
        if let Some(to) = neighbour(&table, name, hop) {
            return Ok(Route {
                interface,
                from,
                to,
            });
        }
        if Instant::now() > end {
            return Err(Error::Peer(format!(
                "no host at {name} answers for {hop}, the next hop to {address}"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Interface and next hop by the longest prefix, then the lowest metric.
fn next_hop(table: &str, address: Ipv4Addr) -> Option<(&str, Ipv4Addr)> {
    const UP: u32 = 1;
    const GATEWAY: u32 = 2;
    // As the kernel prints it: the four bytes as a number in the machine's own order.
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let order = |number: u32| u32::from_be_bytes(number.to_ne_bytes());
    let mut best: Option<(u32, u32, &str, Ipv4Addr)> = None;
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, to, gateway, flags, _, _, metric, mask, ..] = fields[..] else {
            continue;
        };
        let numbers = (hex(to), hex(gateway), hex(flags), hex(mask));
        let (Some(to), Some(gateway), Some(flags), Some(mask)) = numbers else {
            continue;
        };
        let metric = metric.parse().unwrap_or(u32::MAX);
        let (to, mask) = (order(to), order(mask));
        if flags & UP == 0 || u32::from(address) & mask != to {
            continue;
        }
        let better = best
            .is_none_or(|(m, c, ..)| (mask, std::cmp::Reverse(metric)) > (m, std::cmp::Reverse(c)));
        if better {
            let hop = match flags & GATEWAY {
                0 => address,
                _ => Ipv4Addr::from(order(gateway)),
            };
            best = Some((mask, metric, name, hop));
        }
    }
    best.map(|(_, _, name, hop)| (name, hop))
}

/// The Ethernet address of a neighbour that has been resolved.
fn neighbour(table: &str, interface: &str, hop: Ipv4Addr) -> Option<[u8; 6]> {
    const COMPLETE: u32 = 2;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [address, _, flags, hardware, _, name] = fields[..] else {
            return None;
        };
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        if name != interface || flags & COMPLETE == 0 || address.parse() != Ok(hop) {
            return None;
        }
        let EthernetAddress(bytes) = hardware.parse().ok()?;
        Some(bytes)
    })
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101090A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0001090A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0001090A\t00000000\t0001\t0\t0\t9\t00FFFFFF\t0\t0\t0
eth2\t0002090A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

    #[test]
    fn the_longest_prefix_leads_the_way() {
        let hop = |text: &str| next_hop(ROUTES, text.parse().unwrap()).unwrap();
        assert_eq!(hop("10.9.1.7"), ("eth0", "10.9.1.7".parse().unwrap()));
        assert_eq!(hop("10.9.2.7"), ("eth0", "10.9.1.1".parse().unwrap()));
        assert_eq!(next_hop("Iface\n", "10.9.1.7".parse().unwrap()), None);
    }

    #[test]
    fn only_a_complete_neighbour_counts() {
        let table = "\
IP address       HW type     Flags       HW address            Mask     Device
10.9.1.1         0x1         0x2         de:50:21:c4:03:0a     *        eth0
10.9.1.2         0x1         0x0         00:00:00:00:00:00     *        eth0
";
        let found = |interface, hop: &str| neighbour(table, interface, hop.parse().unwrap());
        assert_eq!(
            found("eth0", "10.9.1.1"),
            Some([0xde, 0x50, 0x21, 0xc4, 0x03, 0x0a])
        );
        assert_eq!(found("eth1", "10.9.1.1"), None);
        assert_eq!(found("eth0", "10.9.1.2"), None);
    }
}
