//! The bytes that daemon and BPF programs share (`bpf/layout.h`), written and read field by field.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::endpoints::port_id::MAX_PORTS;
use crate::endpoints::{DropReason, PortId};
use crate::forwarding::FlowCounters;

pub type Mac = [u8; 6];

/// Changes with every layout and every way of attaching programs, so that programs never meet maps of another version.
pub(super) const VERSION: u32 = 9;
pub(super) const NAME_BYTES: usize = 48;

pub(super) const STATE_BYTES: usize = 64;
pub(super) const PORT_BYTES: usize = 48;
pub(super) const KEY_BYTES: usize = 16;
pub(super) const ROUTE_BYTES: usize = 44;
pub(super) const TRAFFIC_BYTES: usize = 16;
const DROPS: usize = DropReason::ALL.len();
pub(super) const COUNTS_BYTES: usize = 8 * (5 + DROPS);

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_at(N);
        self.0 = rest;
        let mut bytes = [0; N];
        bytes.copy_from_slice(field);
        bytes
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub namespace: u64,
    pub name: [u8; NAME_BYTES],
    pub version: u32,
}

impl State {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.namespace.to_ne_bytes().to_vec();
        bytes.extend(self.name);
        bytes.extend(self.version.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Option<State> {
        let mut fields = Fields(bytes.get(..STATE_BYTES)?);
        Some(State {
            namespace: fields.u64(),
            name: fields.take(),
            version: fields.u32(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelPortKind {
    /// The host's end of a container's veth or netkit pair.
    Container,
    /// An uplink that carries one network's frames unencapsulated.
    Direct,
    /// An uplink that carries VXLAN beside other traffic.
    Tunnel,
    /// An uplink of both kinds, with the number and tap of the direct link. A path makes it of its two parts.
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelPort {
    /// Number in routes and counters.
    pub id: PortId,
    /// Interface index of a container's end on this host, or of an uplink.
    pub device: u32,
    pub kind: KernelPortKind,
    /// VNI; unused for an uplink of tunnels.
    pub network: u32,
    /// The daemon's tap: takes frames without a route; the daemon's frames leave through the interface.
    pub tap: Option<u32>,
    /// The only permitted source address.
    pub mac: Option<Mac>,
    pub floods: Option<Rate>,
}

const KIND_TAP: u8 = 4;

/// Number of an uplink of tunnels, as opposed to those of its links.
const UPLINK: PortId = PortId(MAX_PORTS);

impl KernelPort {
    /// The uplink of all tunnels through an interface.
    pub fn uplink(device: u32) -> KernelPort {
        KernelPort {
            id: UPLINK,
            device,
            kind: KernelPortKind::Tunnel,
            network: 0,
            tap: None,
            mac: None,
            floods: None,
        }
    }

    pub(super) fn has_tunnels(&self) -> bool {
        matches!(self.kind, KernelPortKind::Tunnel | KernelPortKind::Shared)
    }

    /// The port of an interface that is another one already: an uplink may carry tunnels and a direct link.
    pub(super) fn beside(self, other: &KernelPort) -> KernelPort {
        use KernelPortKind::{Direct, Shared, Tunnel};
        let direct = match (self.kind, other.kind) {
            (Direct, Tunnel | Shared) => self,
            (Tunnel, Direct | Shared) => *other,
            _ => return self,
        };
        KernelPort {
            kind: Shared,
            ..direct
        }
    }

    /// The port of an interface without one of its two parts; none if it has no other.
    pub(super) fn without(self, part: KernelPortKind) -> Option<KernelPort> {
        match (self.kind, part) {
            (KernelPortKind::Shared, KernelPortKind::Direct) => {
                Some(KernelPort::uplink(self.device))
            }
            (KernelPortKind::Shared, KernelPortKind::Tunnel) => Some(KernelPort {
                kind: KernelPortKind::Direct,
                ..self
            }),
            _ => None,
        }
    }

    /// The map entry of the interface, or of its tap.
    fn entry(&self, is_tap: bool) -> Vec<u8> {
        let kind = match self.kind {
            _ if is_tap => KIND_TAP,
            KernelPortKind::Container => 1,
            KernelPortKind::Direct => 2,
            KernelPortKind::Tunnel => 3,
            KernelPortKind::Shared => 5,
        };
        let floods = self.floods.unwrap_or(Rate {
            per_second: 0,
            burst: 0,
        });
        let mut bytes = self.network.to_ne_bytes().to_vec();
        bytes.extend(self.device.to_ne_bytes());
        bytes.extend(self.tap.unwrap_or(0).to_ne_bytes());
        bytes.extend(self.id.0.to_ne_bytes());
        bytes.extend([kind, u8::from(self.mac.is_some())]);
        bytes.extend(self.mac.unwrap_or_default());
        bytes.extend([u8::from(self.kind == KernelPortKind::Container), 0]);
        for word in [floods.per_second, floods.burst, floods.burst, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 8]);
        bytes
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        self.entry(false)
    }

    pub(super) fn tap_bytes(self) -> Vec<u8> {
        self.entry(true)
    }

    /// The port of an entry, unless that is a tap's.
    pub(super) fn parse(bytes: &[u8]) -> Option<KernelPort> {
        let mut fields = Fields(bytes.get(..PORT_BYTES)?);
        let (network, device, tap) = (fields.u32(), fields.u32(), fields.u32());
        let id = PortId(fields.u16());
        let kind = match fields.u8() {
            1 => KernelPortKind::Container,
            2 => KernelPortKind::Direct,
            3 => KernelPortKind::Tunnel,
            5 => KernelPortKind::Shared,
            _ => return None,
        };
        let is_bound = fields.u8() != 0;
        let mac = fields.take();
        fields.take::<2>();
        let (per_second, burst) = (fields.u32(), fields.u32());
        Some(KernelPort {
            id,
            device,
            kind,
            network,
            tap: (tap != 0).then_some(tap),
            mac: is_bound.then_some(mac),
            floods: (per_second != 0).then_some(Rate { per_second, burst }),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Device(u32),
    /// All tunnels, by the VNI of their frames.
    Tunnel(u32),
}

/// Set in a tunnel's VNI; interface indexes are below.
const FROM_TUNNEL: u32 = 1 << 31;

impl Origin {
    fn number(self) -> u32 {
        match self {
            Origin::Device(device) => device,
            Origin::Tunnel(network) => network | FROM_TUNNEL,
        }
    }

    fn parse(number: u32) -> Origin {
        if number & FROM_TUNNEL == 0 {
            Origin::Device(number)
        } else {
            Origin::Tunnel(number & !FROM_TUNNEL)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    pub origin: Origin,
    pub source: Mac,
    pub destination: Mac,
}

impl RouteKey {
    pub(super) fn to_bytes(self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..4].copy_from_slice(&self.origin.number().to_ne_bytes());
        bytes[4..10].copy_from_slice(&self.destination);
        bytes[10..].copy_from_slice(&self.source);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<RouteKey> {
        let mut fields = Fields(bytes.get(..KEY_BYTES)?);
        Some(RouteKey {
            origin: Origin::parse(fields.u32()),
            destination: fields.take(),
            source: fields.take(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelEnds {
    pub remote: SocketAddrV4,
    pub local: SocketAddrV4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Deliver to the container behind `device`; `from` is the tunnel of frames from another host.
    Local {
        device: u32,
        from: Option<TunnelEnds>,
    },
    Direct {
        device: u32,
    },
    Vxlan {
        device: u32,
        ends: TunnelEnds,
        /// Address of the next hop.
        remote_mac: Mac,
        /// Address of the uplink.
        local_mac: Mac,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// VNI.
    pub network: u32,
    pub ingress: PortId,
    pub egress: PortId,
    pub action: Action,
    /// Maximum frame length, Ethernet header included; longer frames go to the daemon.
    pub longest: Option<u16>,
}

impl Route {
    /// `pair` is the index of the counters of its addresses.
    pub(super) fn to_bytes(self, pair: u32) -> Vec<u8> {
        let none = TunnelEnds {
            remote: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        };
        let (action, device, ends, macs) = match self.action {
            Action::Local { device, from } => (1, device, from.unwrap_or(none), [[0; 6]; 2]),
            Action::Direct { device } => (2, device, none, [[0; 6]; 2]),
            Action::Vxlan {
                device,
                ends,
                remote_mac,
                local_mac,
            } => (3, device, ends, [remote_mac, local_mac]),
        };
        let mut bytes = vec![action, 0];
        bytes.extend(self.ingress.0.to_ne_bytes());
        bytes.extend(self.egress.0.to_ne_bytes());
        bytes.extend(self.longest.unwrap_or(0).to_ne_bytes());
        bytes.extend(self.network.to_ne_bytes());
        bytes.extend(device.to_ne_bytes());
        bytes.extend(ends.remote.ip().octets());
        bytes.extend(ends.local.ip().octets());
        bytes.extend(ends.remote.port().to_be_bytes());
        bytes.extend(ends.local.port().to_be_bytes());
        bytes.extend(macs.concat());
        bytes.extend(pair.to_ne_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<(Route, bool)> {
        let mut fields = Fields(bytes.get(..ROUTE_BYTES)?);
        let (action, used) = (fields.u8(), fields.u8() != 0);
        let (ingress, egress) = (PortId(fields.u16()), PortId(fields.u16()));
        let longest = fields.u16();
        let (network, device) = (fields.u32(), fields.u32());
        let addresses = [fields.take::<4>(), fields.take::<4>()].map(Ipv4Addr::from);
        let ports = [fields.take(), fields.take()].map(u16::from_be_bytes);
        let (remote_mac, local_mac) = (fields.take(), fields.take());
        let ends = TunnelEnds {
            remote: SocketAddrV4::new(addresses[0], ports[0]),
            local: SocketAddrV4::new(addresses[1], ports[1]),
        };
        let action = match action {
            1 => Action::Local {
                device,
                from: (!addresses[0].is_unspecified()).then_some(ends),
            },
            2 => Action::Direct { device },
            3 => Action::Vxlan {
                device,
                ends,
                remote_mac,
                local_mac,
            },
            _ => return None,
        };
        let route = Route {
            network,
            ingress,
            egress,
            action,
            longest: (longest != 0).then_some(longest),
        };
        Some((route, used))
    }

    pub(super) fn pair(bytes: &[u8]) -> Option<u32> {
        let pair = bytes.get(ROUTE_BYTES - 4..ROUTE_BYTES)?;
        Some(Fields(pair).u32())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames from the port that were forwarded in the kernel.
    pub received_frames: u64,
    pub received_bytes: u64,
    pub sent_frames: u64,
    pub sent_bytes: u64,
    /// Frames from the port that went to the daemon.
    pub missed: u64,
    dropped: [u64; DROPS],
}

impl Counts {
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        if bytes.len() < COUNTS_BYTES {
            return;
        }
        let mut fields = Fields(bytes);
        let counters = [
            &mut self.received_frames,
            &mut self.received_bytes,
            &mut self.sent_frames,
            &mut self.sent_bytes,
            &mut self.missed,
        ];
        for counter in counters.into_iter().chain(&mut self.dropped) {
            *counter += fields.u64();
        }
    }
}

/// Adds frames and bytes from one address to another.
pub(super) fn add_traffic(sum: &mut FlowCounters, bytes: &[u8]) {
    if bytes.len() < TRAFFIC_BYTES {
        return;
    }
    let mut fields = Fields(bytes);
    sum.frames += fields.u64();
    sum.bytes += fields.u64();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> TunnelEnds {
        TunnelEnds {
            remote: "10.0.0.2:4789".parse().unwrap(),
            local: "10.0.0.1:4790".parse().unwrap(),
        }
    }

    #[test]
    fn programs_count_the_same_drop_reasons() {
        let source = include_str!("../../bpf/layout.h");
        let line = format!("\tREASONS = {DROPS},");
        assert!(source.lines().any(|known| known == line), "{line}");
    }

    #[test]
    fn ports_are_read_back() {
        for kind in [
            KernelPortKind::Container,
            KernelPortKind::Direct,
            KernelPortKind::Tunnel,
        ] {
            let port = KernelPort {
                id: PortId(7),
                device: 12,
                kind,
                network: 42,
                tap: Some(13),
                mac: Some([2, 0, 0, 0, 0, 1]),
                floods: Some(Rate {
                    per_second: 10,
                    burst: 20,
                }),
            };
            assert_eq!(port.to_bytes().len(), PORT_BYTES);
            assert_eq!(KernelPort::parse(&port.to_bytes()), Some(port));
            assert_eq!(
                KernelPort::parse(&port.tap_bytes()),
                None,
                "a tap is no port of its own"
            );
        }
    }

    #[test]
    fn routes_are_read_back() {
        let actions = [
            Action::Local {
                device: 3,
                from: None,
            },
            Action::Local {
                device: 3,
                from: Some(ends()),
            },
            Action::Direct { device: 4 },
            Action::Vxlan {
                device: 5,
                ends: ends(),
                remote_mac: [1; 6],
                local_mac: [2; 6],
            },
        ];
        for action in actions {
            let route = Route {
                network: 42,
                ingress: PortId(1),
                egress: PortId(2),
                action,
                longest: Some(1514),
            };
            let bytes = route.to_bytes(9);
            assert_eq!(bytes.len(), ROUTE_BYTES);
            assert_eq!(Route::parse(&bytes), Some((route, false)));
            assert_eq!(Route::pair(&bytes), Some(9));
        }
    }

    #[test]
    fn keys_are_read_back() {
        for origin in [
            Origin::Device(7),
            Origin::Tunnel(0),
            Origin::Tunnel(0x00ff_ffff),
        ] {
            let key = RouteKey {
                origin,
                source: [2, 0, 0, 0, 0, 1],
                destination: [2, 0, 0, 0, 0, 2],
            };
            assert_eq!(RouteKey::parse(&key.to_bytes()), Some(key));
        }
    }
}
