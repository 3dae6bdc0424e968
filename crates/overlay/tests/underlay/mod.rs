//! Two hosts with a wire between them, containers behind each, and frames made by hand.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::fs::File;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use latlab_netlink::{Interface, LinkChange, LinkKind, MacAddress, NewLink};
use latlab_overlay::endpoints::PortId;
use latlab_overlay::kernel::{
    Action, KernelPath, KernelPort, KernelPortKind, Mac, Origin, ROUTES, Review, Route, RouteKey,
    TunnelEnds,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::World;

/// How long frames are waited for that may or may not come.
const SILENCE: Duration = Duration::from_millis(150);

/// Runs `body` on a thread in a network namespace.
pub fn on<T: Send>(namespace: &Path, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let namespace = File::open(namespace).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            body()
        });
        inside.join().unwrap()
    })
}

/// An interface as the kernel describes it.
pub fn link(namespace: &Path, name: &str) -> latlab_netlink::Link {
    let found = on(namespace, || {
        latlab_netlink::Handle::open().unwrap().link(name)
    });
    found.unwrap().expect(name)
}

pub fn links(namespace: &Path) -> Vec<latlab_netlink::Link> {
    on(namespace, || {
        latlab_netlink::Handle::open().unwrap().links().unwrap()
    })
}

/// The address of a container, by its number.
pub fn mac_of(number: u32) -> Mac {
    let number = number.to_be_bytes();
    [2, 0, number[0], number[1], number[2], number[3]]
}

fn text(mac: &Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Whether containers get a netkit pair (`LATLAB_TEST_CABLE=netkit`) instead of a veth pair.
pub fn cable_is_netkit() -> bool {
    match std::env::var("LATLAB_TEST_CABLE").as_deref() {
        Ok("netkit") => true,
        Err(_) | Ok("veth") => false,
        Ok(unknown) => panic!("LATLAB_TEST_CABLE is veth or netkit, not {unknown}"),
    }
}

/// A host: a namespace with an end of the wire, and its kernel path.
pub struct Host<'a> {
    world: &'a World,
    pub namespace: PathBuf,
    pub number: u8,
    pub wire: u32,
    pub mtu: u16,
    pub path: KernelPath,
}

/// A container: a namespace with an end of a pair whose other end is the host's.
pub struct Container {
    pub namespace: PathBuf,
    pub mac: Mac,
    pub address: String,
    pub address6: String,
    pub port: KernelPort,
}

/// Two hosts.
pub fn pair(world: &World, mtu: u16) -> (Host<'_>, Host<'_>) {
    pair_named(world, "host", mtu)
}

/// Two hosts whose namespaces have names of their own.
pub fn pair_named<'a>(world: &'a World, name: &str, mtu: u16) -> (Host<'a>, Host<'a>) {
    let pins = [1, 2].map(|number| world.namespace(&format!("{name}{number}")));
    let line = format!(
        "ip link add wire mtu {mtu} type veth peer name wire netns {} mtu {mtu}",
        pins[1].display()
    );
    world.at(&pins[0], &line);
    let [one, two] = [1u8, 2].map(|number| {
        let namespace = pins[usize::from(number) - 1].clone();
        world.at(
            &namespace,
            &format!("ip link set wire address 02:00:00:01:00:0{number} up"),
        );
        world.at(
            &namespace,
            &format!("ip address add 10.9.0.{number}/24 dev wire"),
        );
        let path = on(&namespace, || KernelPath::open("test", ROUTES)).unwrap();
        assert!(!path.1, "there was none before");
        Host {
            world,
            number,
            wire: link(&namespace, "wire").index,
            namespace,
            mtu,
            path: path.0,
        }
    });
    (one, two)
}

impl<'a> Host<'a> {
    /// Runs a command line here.
    pub fn at(&self, line: &str) -> String {
        self.world.at(&self.namespace, line)
    }

    /// A container that the path knows.
    pub fn container(&self, name: &str, number: u16, network: u32) -> Container {
        self.container_with(name, number, network, mac_of(number.into()))
    }

    pub fn container_with(&self, name: &str, number: u16, network: u32, mac: Mac) -> Container {
        let mut container = self.plain(name, number, mac);
        container.port.network = network;
        on(&self.namespace, || self.path.attach(&container.port)).unwrap();
        container
    }

    /// A container that it does not know.
    pub fn plain_container(&self, name: &str, number: u16) -> Container {
        self.plain(name, number, mac_of(number.into()))
    }

    fn plain(&self, name: &str, number: u16, mac: Mac) -> Container {
        // VXLAN's headers fit the uplink's MTU.
        let mtu = self.mtu - 50;
        let namespace = self
            .world
            .namespace(&format!("{name}-{}-{mtu}", self.number));
        self.cable(name, &namespace, mtu, mac);
        let (address, address6) = (format!("10.7.0.{number}"), format!("fd07::{number}"));
        let inside = |line: &str| self.world.at(&namespace, line);
        inside("ip link set eth0 up");
        inside(&format!("ip address add {address}/24 dev eth0"));
        inside(&format!("ip address add {address6}/64 dev eth0 nodad"));
        Container {
            namespace,
            mac,
            address,
            address6,
            port: KernelPort {
                id: PortId(number),
                device: link(&self.namespace, name).index,
                kind: KernelPortKind::Container,
                network: 0,
                tap: None,
                mac: Some(mac),
                floods: None,
            },
        }
    }

    /// Made without `ip`, which in older distributions knows no netkit.
    fn cable(&self, name: &str, container: &Path, mtu: u16, mac: Mac) {
        let inside = File::open(container).unwrap();
        let mtu = Some(u32::from(mtu));
        let own = Interface::new(name).mtu(mtu);
        let mac = Some(MacAddress(mac));
        let other = Interface::new("eth0").netns(inside.as_fd()).mac(mac);
        let kind = match cable_is_netkit() {
            true => LinkKind::Netkit(other.mtu(mtu)),
            false => LinkKind::Veth(other.mtu(mtu)),
        };
        let pair = NewLink::new(own, kind).request();
        let up = LinkChange::of(name).up(true).request();
        on(&self.namespace, || {
            let mut handle = latlab_netlink::Handle::open().unwrap();
            handle.apply_all(&[pair, up]).unwrap();
        });
    }

    /// A netkit pair whose primary end is in the container.
    pub fn far_end(&self, name: &str, container: &Path) {
        let here = File::open(&self.namespace).unwrap();
        let kind = LinkKind::Netkit(Interface::new(name).netns(here.as_fd()));
        let pair = NewLink::new(Interface::new("primary"), kind).request();
        on(container, || {
            let mut handle = latlab_netlink::Handle::open().unwrap();
            handle.apply(&pair).unwrap();
        });
    }

    fn ends(&self, other: &Host<'_>) -> TunnelEnds {
        let at = |number: u8| SocketAddrV4::new([10, 9, 0, number].into(), 4789);
        TunnelEnds {
            remote: at(other.number),
            local: at(self.number),
        }
    }

    /// A wire under the path.
    fn wire(&self, id: PortId, kind: KernelPortKind, network: u32) {
        let port = KernelPort {
            id,
            device: self.wire,
            kind,
            network,
            tap: None,
            mac: None,
            floods: None,
        };
        on(&self.namespace, || self.path.attach(&port)).unwrap();
    }

    /// Deletes a route.
    pub fn forget(&self, key: &RouteKey) {
        let decide = |other: &RouteKey, _: &Route, _| match other == key {
            true => Review::Delete,
            false => Review::Keep,
        };
        self.path.review(decide).unwrap();
    }

    fn keep(&self, key: (u32, Mac, Mac), ingress: PortId, egress: PortId, action: Action) {
        let (network, source, destination) = key;
        let origin = match action {
            Action::Local { from: Some(_), .. } => Origin::Tunnel(network),
            _ => Origin::Device(self.device_of(ingress)),
        };
        let key = RouteKey {
            origin,
            source,
            destination,
        };
        let route = Route {
            network,
            ingress,
            egress,
            action,
            longest: None,
        };
        self.path.store(&key, &route).unwrap();
    }

    fn device_of(&self, id: PortId) -> u32 {
        let ports = self.path.ports().unwrap();
        ports.iter().find(|port| port.id == id).unwrap().device
    }

    /// Lets go of the path, as a daemon that is killed does.
    pub fn abandon(&mut self) {
        self.path = on(&self.namespace, || KernelPath::open("nobody", ROUTES))
            .unwrap()
            .0;
    }
}

/// The number of the link between hosts.
const LINK: PortId = PortId(99);

/// A container knows another's Ethernet address: there is no daemon that would take its question.
pub fn acquaint(host: &Host<'_>, container: &Container, other: &Container) {
    for address in [&other.address, &other.address6] {
        let line = format!(
            "ip neigh replace {address} lladdr {} dev eth0",
            text(&other.mac)
        );
        host.world.at(&container.namespace, &line);
    }
}

/// Routes of one side through VXLAN, both ways.
pub fn tunnel_one_side(
    host: &Host<'_>,
    own: &Container,
    other: &Host<'_>,
    far: &Mac,
    network: u32,
) {
    host.wire(PortId(0), KernelPortKind::Tunnel, 0);
    let ends = host.ends(other);
    let action = Action::Vxlan {
        device: host.wire,
        ends,
        remote_mac: [2, 0, 0, 1, 0, other.number],
        local_mac: [2, 0, 0, 1, 0, host.number],
    };
    host.keep((network, own.mac, *far), own.port.id, LINK, action);
    let action = Action::Local {
        device: own.port.device,
        from: Some(ends),
    };
    host.keep((network, *far, own.mac), LINK, own.port.id, action);
}

/// Two containers through VXLAN.
pub fn tunnel(one: &Host<'_>, a: &Container, two: &Host<'_>, b: &Container, network: u32) {
    tunnel_one_side(one, a, two, &b.mac, network);
    tunnel_one_side(two, b, one, &a.mac, network);
    acquaint(one, a, b);
    acquaint(two, b, a);
}

/// Two containers over the wire as it is.
pub fn direct(one: &Host<'_>, a: &Container, two: &Host<'_>, b: &Container, network: u32) {
    for (host, own, far) in [(one, a, b), (two, b, a)] {
        host.wire(LINK, KernelPortKind::Direct, network);
        let action = Action::Direct { device: host.wire };
        host.keep((network, own.mac, far.mac), own.port.id, LINK, action);
        let action = Action::Local {
            device: own.port.device,
            from: None,
        };
        host.keep((network, far.mac, own.mac), LINK, own.port.id, action);
        acquaint(host, own, far);
        // Both have room for whole frames of the wire.
        host.world.at(
            &own.namespace,
            &format!("ip link set eth0 mtu {}", host.mtu),
        );
        let name = format!("link set dev {} mtu {}", name_of(host, own), host.mtu);
        host.at(&format!("ip {name}"));
    }
}

fn name_of(host: &Host<'_>, container: &Container) -> String {
    let links = host.at("ip -o link");
    let prefix = format!("{}: ", container.port.device);
    let line = links
        .lines()
        .find(|line| line.starts_with(&prefix))
        .unwrap();
    line[prefix.len()..]
        .split(['@', ':'])
        .next()
        .unwrap()
        .to_owned()
}

/// Two containers of one host.
pub fn local(host: &Host<'_>, a: &Container, b: &Container, network: u32) {
    for (own, far) in [(a, b), (b, a)] {
        let action = Action::Local {
            device: far.port.device,
            from: None,
        };
        host.keep(
            (network, own.mac, far.mac),
            own.port.id,
            far.port.id,
            action,
        );
        acquaint(host, own, far);
    }
}

/// An Ethernet frame.
pub fn ethernet(to: &Mac, from: &Mac, rest: &[u8]) -> Vec<u8> {
    [&to[..], &from[..], rest].concat()
}

/// A frame with a packet of an experimental protocol (RFC 3692) and this data.
pub fn ipv4_frame(to: &Mac, from: &Mac, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + data.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 253, 0, 0];
    packet.extend([10, 7, 0, from[5], 10, 7, 0, to[5]]);
    let sum = (!fold(words(&packet))).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(data);
    ethernet(to, from, &[&[8, 0], &packet[..]].concat())
}

/// The data of a frame made by [`ipv4_frame`].
pub fn mark_of(frame: &[u8]) -> Option<&[u8]> {
    let is_one = frame.get(12..14)? == [8, 0] && *frame.get(23)? == 253;
    is_one.then_some(frame.get(34..42)?)
}

/// A frame in VXLAN, to the second host as if from this source.
pub fn vxlan_frame(
    one: &Host<'_>,
    two: &Host<'_>,
    source: [u8; 4],
    vni: u32,
    inner: &[u8],
) -> Vec<u8> {
    let (to, from) = ([2, 0, 0, 1, 0, two.number], [2, 0, 0, 1, 0, one.number]);
    let udp = u16::try_from(16 + inner.len()).unwrap();
    let mut datagram = [
        50_000u16.to_be_bytes(),
        4789u16.to_be_bytes(),
        udp.to_be_bytes(),
        [0; 2],
    ]
    .concat();
    datagram.extend([8, 0, 0, 0]);
    datagram.extend((vni << 8).to_be_bytes());
    datagram.extend(inner);
    let mut packet = vec![0x45, 0];
    packet.extend((udp + 20).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(source);
    packet.extend([10, 9, 0, two.number]);
    let sum = (!fold(words(&packet))).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(datagram);
    ethernet(&to, &from, &[&[8, 0], &packet[..]].concat())
}

/// Whether it is a datagram to this port of UDP over IPv4.
pub fn is_vxlan(frame: &[u8], port: u16) -> bool {
    frame.len() > 64
        && frame[12..15] == [8, 0, 0x45]
        && frame[23] == 17
        && frame[36..38] == port.to_be_bytes()
}

/// Sum of the IPv4 header: zero if valid.
pub fn ipv4_sum(frame: &[u8]) -> u16 {
    !fold(words(&frame[14..34]))
}

/// Sum of the UDP datagram: zero if valid, or without a checksum.
pub fn udp_sum(frame: &[u8]) -> u16 {
    if frame[40..42] == [0, 0] {
        return 0;
    }
    let length = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    let pseudo = words(&frame[26..34]) + 17 + length as u64;
    !fold(pseudo + words(&frame[34..34 + length]))
}

fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A packet socket on an interface: all its frames, in both directions.
pub struct Raw(OwnedFd);

impl Raw {
    pub fn open(namespace: &Path, device: &str) -> Raw {
        let index = link(namespace, device).index;
        on(namespace, || {
            let protocol = (libc::ETH_P_ALL as u16).to_be();
            // SAFETY: plain system calls; the descriptor is new and has no other owner.
            let socket = unsafe {
                let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                let fd = libc::socket(libc::AF_PACKET, kind, i32::from(protocol));
                assert!(fd >= 0);
                OwnedFd::from_raw_fd(fd)
            };
            // SAFETY: an address of all zeroes is one.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = index as i32;
            let length = size_of_val(&address) as u32;
            // SAFETY: the address is the kernel's structure and lives through the call.
            let bound =
                unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
            assert_eq!(bound, 0);
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
            Raw(socket)
        })
    }

    /// Sends a frame out of the interface.
    pub fn send(&self, frame: &[u8]) {
        let sent = rustix::net::send(&self.0, frame, rustix::net::SendFlags::empty());
        // A full queue loses frames, as on any wire.
        assert!(
            matches!(sent, Ok(_) | Err(rustix::io::Errno::NOBUFS)),
            "{sent:?}"
        );
    }

    /// All frames until there is silence.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        self.collect(|_| true)
    }

    /// Those of them that came in.
    pub fn drain_received(&self) -> Vec<Vec<u8>> {
        self.collect(|kind| kind != libc::PACKET_OUTGOING)
    }

    fn collect(&self, which: impl Fn(u8) -> bool) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut buffer = vec![0u8; 70_000];
        let mut last = Instant::now();
        while last.elapsed() < SILENCE {
            // SAFETY: an address of all zeroes is one.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut length = size_of_val(&address) as u32;
            // SAFETY: buffer and address are ours, of the lengths that are given.
            let got = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                    (&raw mut address).cast(),
                    &raw mut length,
                )
            };
            match usize::try_from(got) {
                Ok(got) => {
                    last = Instant::now();
                    if which(address.sll_pkttype) {
                        frames.push(buffer[..got].to_vec());
                    }
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        frames
    }
}
