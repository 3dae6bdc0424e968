//! The bytes that daemon and kernel programs share (`bpf/layout.h`).
//!
//! Written and read field by field, so that nothing depends on how a compiler lays structures out.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::endpoints::{DropReason, PortId};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Changes with every change of a layout or of how programs are put at interfaces: programs of one
/// version never meet maps of another.
pub(super) const VERSION: u32 = 6;
/// Room for a kernel path's name.
pub(super) const NAME_BYTES: usize = 48;

pub(super) const STATE_BYTES: usize = 64;
pub(super) const PORT_BYTES: usize = 48;
pub(super) const KEY_BYTES: usize = 16;
pub(super) const ROUTE_BYTES: usize = 44;
const DROPS: usize = DropReason::ALL.len();
pub(super) const COUNTS_BYTES: usize = 8 * (5 + DROPS);

/// Reads the fields of a structure in order.
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

/// Whose a kernel path is, and from which generation on its routes are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub namespace: u64,
    pub name: [u8; NAME_BYTES],
    pub version: u32,
    pub floor: u32,
}

impl State {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.namespace.to_ne_bytes().to_vec();
        bytes.extend(self.name);
        bytes.extend(self.version.to_ne_bytes());
        bytes.extend(self.floor.to_ne_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Option<State> {
        let mut fields = Fields(bytes.get(..STATE_BYTES)?);
        Some(State {
            namespace: fields.u64(),
            name: fields.take(),
            version: fields.u32(),
            floor: fields.u32(),
        })
    }
}

/// What is at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A container's cable.
    Container,
    /// A wire that carries one network's frames as they are.
    Direct,
    /// A wire that carries VXLAN, beside whatever else.
    Tunnel,
}

/// Broadcasts and multicasts that a port may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// An interface with a program of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The number under which it is counted and that routes name.
    pub id: PortId,
    /// The interface: a container's end on this host, or a wire.
    pub device: u32,
    /// What it is.
    pub kind: PortKind,
    /// The network (VNI) of its frames; of no meaning for a tunnel's wire.
    pub network: u32,
    /// The daemon's tap: takes what has no route here, and what comes out of it leaves through the
    /// interface.
    pub tap: Option<u32>,
    /// The only source address that it may use.
    pub mac: Option<Mac>,
    /// Limit of broadcasts and multicasts.
    pub floods: Option<Rate>,
}

const KIND_TAP: u8 = 4;

impl Port {
    /// The entry under the interface's number, or under that of its tap.
    fn entry(&self, is_tap: bool) -> Vec<u8> {
        let kind = match self.kind {
            _ if is_tap => KIND_TAP,
            PortKind::Container => 1,
            PortKind::Direct => 2,
            PortKind::Tunnel => 3,
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
        bytes.extend([u8::from(self.kind == PortKind::Container), 0]);
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

    /// A port, unless the entry is a tap's.
    pub(super) fn parse(bytes: &[u8]) -> Option<Port> {
        let mut fields = Fields(bytes.get(..PORT_BYTES)?);
        let (network, device, tap) = (fields.u32(), fields.u32(), fields.u32());
        let id = PortId(fields.u16());
        let kind = match fields.u8() {
            1 => PortKind::Container,
            2 => PortKind::Direct,
            3 => PortKind::Tunnel,
            _ => return None,
        };
        let is_bound = fields.u8() != 0;
        let mac = fields.take();
        fields.take::<2>();
        let (per_second, burst) = (fields.u32(), fields.u32());
        Some(Port {
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

/// Where frames come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// An interface, by its number: a container's end on this host, or the wire of a direct link.
    Device(u32),
    /// Tunnels, by the network (VNI) that their frames name.
    Tunnel(u32),
}

/// Set in a tunnel's network; no interface has such a number.
const FROM_TUNNEL: u32 = 1 << 31;

impl Origin {
    fn number(self) -> u32 {
        match self {
            Origin::Device(device) => device,
            Origin::Tunnel(network) => network | FROM_TUNNEL,
        }
    }

    fn parse(number: u32) -> Origin {
        match number & FROM_TUNNEL {
            0 => Origin::Device(number),
            _ => Origin::Tunnel(number & !FROM_TUNNEL),
        }
    }
}

/// Which frames a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Where they come from.
    pub origin: Origin,
    /// The sender.
    pub source: Mac,
    /// The receiver.
    pub destination: Mac,
}

impl Key {
    pub(super) fn to_bytes(self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..4].copy_from_slice(&self.origin.number().to_ne_bytes());
        bytes[4..10].copy_from_slice(&self.destination);
        bytes[10..].copy_from_slice(&self.source);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Key> {
        let mut fields = Fields(bytes.get(..KEY_BYTES)?);
        Some(Key {
            origin: Origin::parse(fields.u32()),
            destination: fields.take(),
            source: fields.take(),
        })
    }
}

/// The two ends of a VXLAN tunnel over IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The other host, and where it listens.
    pub remote: SocketAddrV4,
    /// This one.
    pub local: SocketAddrV4,
}

/// Where frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Into a container of this host.
    Local {
        /// The container's end on this host.
        device: u32,
        /// The tunnel that they come out of, when they come from another host.
        from: Option<Ends>,
    },
    /// Through a wire, as they are.
    Direct {
        /// The wire.
        device: u32,
    },
    /// Through a wire, in VXLAN.
    Vxlan {
        /// The wire.
        device: u32,
        /// Between whom.
        ends: Ends,
        /// Ethernet address of the next hop.
        remote_mac: Mac,
        /// Ethernet address of the wire.
        local_mac: Mac,
    },
}

/// What was decided about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network (VNI).
    pub network: u32,
    /// The port or link that such frames come from.
    pub ingress: PortId,
    /// The port or link that they go to.
    pub egress: PortId,
    /// How.
    pub way: Way,
    /// Longest frame, Ethernet header included, that goes this way; others go to the daemon.
    pub longest: Option<u16>,
    /// When it was decided, counted by the daemon.
    pub generation: u32,
}

impl Route {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let nobody = Ends {
            remote: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        };
        let (way, device, ends, macs) = match self.way {
            Way::Local { device, from } => (1, device, from.unwrap_or(nobody), [[0; 6]; 2]),
            Way::Direct { device } => (2, device, nobody, [[0; 6]; 2]),
            Way::Vxlan {
                device,
                ends,
                remote_mac,
                local_mac,
            } => (3, device, ends, [remote_mac, local_mac]),
        };
        let mut bytes = self.generation.to_ne_bytes().to_vec();
        bytes.extend([way, 0]);
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
        bytes
    }

    /// The route, and whether a frame has gone that way since it was last asked.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Route, bool)> {
        let mut fields = Fields(bytes.get(..ROUTE_BYTES)?);
        let generation = fields.u32();
        let (way, used) = (fields.u8(), fields.u8() != 0);
        let (ingress, egress) = (PortId(fields.u16()), PortId(fields.u16()));
        let longest = fields.u16();
        let (network, device) = (fields.u32(), fields.u32());
        let addresses = [fields.take::<4>(), fields.take::<4>()].map(Ipv4Addr::from);
        let ports = [fields.take(), fields.take()].map(u16::from_be_bytes);
        let (remote_mac, local_mac) = (fields.take(), fields.take());
        let ends = Ends {
            remote: SocketAddrV4::new(addresses[0], ports[0]),
            local: SocketAddrV4::new(addresses[1], ports[1]),
        };
        let way = match way {
            1 => Way::Local {
                device,
                from: (!addresses[0].is_unspecified()).then_some(ends),
            },
            2 => Way::Direct { device },
            3 => Way::Vxlan {
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
            way,
            longest: (longest != 0).then_some(longest),
            generation,
        };
        Some((route, used))
    }
}

/// What the kernel programs counted about a port or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames that came from it and went their way in the kernel.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that went to it.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames from it that went to the daemon.
    pub missed: u64,
    dropped: [u64; DROPS],
}

impl Counts {
    /// Frames from it that were dropped, by reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Adds what one processor counted.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        Ends {
            remote: "10.0.0.2:4789".parse().unwrap(),
            local: "10.0.0.1:4790".parse().unwrap(),
        }
    }

    #[test]
    fn the_programs_count_by_the_same_reasons() {
        let source = include_str!("../../bpf/layout.h");
        let line = format!("\tREASONS = {DROPS},");
        assert!(source.lines().any(|known| known == line), "{line}");
    }

    #[test]
    fn ports_are_read_back() {
        for kind in [PortKind::Container, PortKind::Direct, PortKind::Tunnel] {
            let port = Port {
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
            assert_eq!(Port::parse(&port.to_bytes()), Some(port));
            assert_eq!(
                Port::parse(&port.tap_bytes()),
                None,
                "a tap is no port of its own"
            );
        }
    }

    #[test]
    fn routes_are_read_back() {
        let ways = [
            Way::Local {
                device: 3,
                from: None,
            },
            Way::Local {
                device: 3,
                from: Some(ends()),
            },
            Way::Direct { device: 4 },
            Way::Vxlan {
                device: 5,
                ends: ends(),
                remote_mac: [1; 6],
                local_mac: [2; 6],
            },
        ];
        for way in ways {
            let route = Route {
                network: 42,
                ingress: PortId(1),
                egress: PortId(2),
                way,
                longest: Some(1514),
                generation: 9,
            };
            assert_eq!(route.to_bytes().len(), ROUTE_BYTES);
            assert_eq!(Route::parse(&route.to_bytes()), Some((route, false)));
        }
    }

    #[test]
    fn keys_are_read_back() {
        for origin in [
            Origin::Device(7),
            Origin::Tunnel(0),
            Origin::Tunnel(0x00ff_ffff),
        ] {
            let key = Key {
                origin,
                source: [2, 0, 0, 0, 0, 1],
                destination: [2, 0, 0, 0, 0, 2],
            };
            assert_eq!(Key::parse(&key.to_bytes()), Some(key));
        }
    }
}
