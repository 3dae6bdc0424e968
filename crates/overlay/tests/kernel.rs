//! The path inside the kernel: two hosts, a wire between them, containers behind it.

mod common;
#[path = "../../host/tests/guests/mod.rs"]
mod guests;
mod underlay;

use std::process::Stdio;
use std::time::Duration;

use common::flow::{Flow, passes};
use common::{Running, World, eventually, run};
use etherparse::{IpHeaders, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, PacketBuilder};
use latlab_host::nodes::vm::{Access, Share};
use latlab_overlay::endpoints::{DropReason, PortId};
use latlab_overlay::kernel::{
    Action, KernelPath, KernelPort, KernelPortKind, Mac, Origin, Pair, ROUTES, Review, Route,
    RouteKey,
};
use latlab_wire::channel::ExitStatus;
use underlay::{Raw, ethernet, mac_of, on};

const LAN: u32 = 42;

/// One TCP stream through the network.
fn bulk(world: &World, from: &std::path::Path, to: &std::path::Path, address: &str) {
    let mut server = world.command(to, "iperf3 -s -1 -p 5201");
    let _server = Running::start(server.stdout(Stdio::null()));
    eventually("iperf3 listens", || {
        world.at(to, "ss -ltnH").contains(":5201")
    });
    let said = world.at(from, &format!("iperf3 -c {address} -n 20M -p 5201 -J"));
    let at = said.rfind("\"sum_received\"").expect("a result");
    let bytes = said[at..].split("\"bytes\":").nth(1).expect("bytes");
    let digits: String = bytes
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    // Bytes in flight when the sender ended are not counted.
    let arrived: u64 = digits.parse().unwrap();
    assert!(arrived > 10_000_000, "{arrived} bytes to {address}");
}

fn ping(world: &World, from: &std::path::Path, address: &str, size: usize) {
    world.at(
        from,
        &format!("ping -c 3 -i 0.01 -W 20 -M do -s {size} {address}"),
    );
}

fn frames_between(host: &underlay::Host<'_>, source: &Mac, destination: &Mac) -> u64 {
    let traffic = host.path.traffic().unwrap();
    let of = |pair: &Pair| (pair.network, pair.source, pair.destination);
    let is_its = |pair: &Option<Pair>| pair.as_ref().map(of) == Some((LAN, *source, *destination));
    let found = traffic.iter().find(|(pair, _)| is_its(pair));
    found.map_or(0, |(_, traffic)| traffic.frames)
}

#[test]
fn frames_stay_whole_through_vxlan() {
    run("kernel-vxlan", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        ping(world, &a.namespace, "10.7.0.2", 56);
        ping(world, &a.namespace, "10.7.0.2", 1450 - 28);
        ping(world, &a.namespace, "fd07::2", 1450 - 48);
        for address in ["10.7.0.2", "fd07::2"] {
            bulk(world, &a.namespace, &b.namespace, address);
        }
        for (host, port) in [(&one, a.port.id), (&two, b.port.id)] {
            let counts = host.path.counts(port).unwrap();
            assert!(counts.received_frames > 10 && counts.sent_frames > 10);
            for reason in DropReason::ALL {
                // Without a daemon multicasts are dropped (IPv6's own, at start).
                if reason != DropReason::Down {
                    assert_eq!(counts.dropped(reason), 0, "{reason:?}");
                }
            }
        }
        let counts = one.path.counts(a.port.id).unwrap();
        for host in [&one, &two] {
            assert_eq!(frames_between(host, &a.mac, &b.mac), counts.received_frames);
            assert_eq!(frames_between(host, &b.mac, &a.mac), counts.sent_frames);
        }
        let mean = counts.received_bytes / counts.received_frames;
        // The longest that leaves a container cut has 1464 bytes; how large TCP makes the others depends on
        // how fast the machine is.
        assert!(mean > 1_500, "cut on the way: {mean} bytes a frame");
    });
}

#[test]
fn the_kernels_own_vxlan_understands_and_is_understood() {
    run("kernel-interop", |world| {
        let (one, two) = underlay::pair(world, 9000);
        let a = one.container("a", 1, LAN);
        // The other host has the kernel's device and a bridge instead of this path.
        let b = two.plain_container("b", 2);
        two.at(
            "ip link add vx0 type vxlan id 42 local 10.9.0.2 remote 10.9.0.1 dstport 4789 dev wire",
        );
        two.at("ip link add lan0 type bridge");
        for device in ["lan0", "vx0"] {
            two.at(&format!("ip link set {device} up"));
        }
        two.at("ip link set vx0 master lan0");
        two.at("ip link set dev b master lan0");
        underlay::tunnel_one_side(&one, &a, &two, &b.mac, LAN);
        underlay::acquaint(&one, &a, &b);
        underlay::acquaint(&two, &b, &a);
        let wire = Raw::open(&two.namespace, "wire");
        for size in [56, 1400, 8950 - 28] {
            ping(world, &a.namespace, "10.7.0.2", size);
        }
        ping(world, &a.namespace, "fd07::2", 8950 - 48);
        let datagrams: Vec<Vec<u8>> = wire
            .drain()
            .into_iter()
            .filter(|f| underlay::is_vxlan(f, 4789))
            .collect();
        assert!(datagrams.len() >= 24);
        // The kernel's own are captured before their checksums are computed.
        for datagram in datagrams.iter().filter(|f| f[26..30] == [10, 9, 0, 1]) {
            assert_eq!(
                underlay::ipv4_sum(datagram),
                0,
                "the outer header's checksum"
            );
            assert_eq!(
                underlay::udp_sum(datagram),
                0,
                "the outer datagram's checksum"
            );
            assert_ne!(datagram[40..42], [0, 0], "it has one");
        }
        for (from, to) in [(&a, &b), (&b, &a)] {
            for address in [&to.address, &to.address6] {
                bulk(world, &from.namespace, &to.namespace, address);
            }
        }
        assert_eq!(underlay::link(&two.namespace, "vx0").stats.rx_errors, 0);
        // The same without offloads: every checksum is computed before it is sent.
        world.at(&a.namespace, "ethtool -K eth0 tx off tso off gso off");
        one.at("ethtool -K wire tx off");
        drop(wire.drain());
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        let some = wire.drain();
        let mut seen = 0;
        for datagram in some.iter().filter(|f| underlay::is_vxlan(f, 4789)) {
            if datagram[26..30] == [10, 9, 0, 1] {
                assert_eq!(underlay::udp_sum(datagram), 0);
                assert_ne!(datagram[40..42], [0, 0]);
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
    });
}

/// The same packet with other bytes 6 and 7 (its place in a datagram) and 9 (what it carries).
fn as_part(mut frame: Vec<u8>, place: u16, protocol: u8) -> Vec<u8> {
    frame[20..22].copy_from_slice(&place.to_be_bytes());
    frame[23] = protocol;
    frame[24..26].copy_from_slice(&[0, 0]);
    let sum = underlay::ipv4_sum(&frame);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn packets_shorter_than_their_protocol_pass_too() {
    run("kernel-short", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let (from, to) = (
            Raw::open(&a.namespace, "eth0"),
            Raw::open(&b.namespace, "eth0"),
        );
        let wire = Raw::open(&two.namespace, "wire");
        let plain = |data: &[u8]| underlay::ipv4_frame(&b.mac, &a.mac, data);
        let frames = [
            // The last four bytes of a datagram that was cut, and one byte of a segment.
            as_part(plain(b"last"), 185, 17),
            as_part(plain(b"e"), 185, 6),
            // Whole, and with less than a header of its own.
            as_part(plain(b"udp?"), 0, 17),
            as_part(plain(b"t"), 0, 6),
            as_part(plain(b""), 0, 17),
            as_part(plain(b"i"), 0, 1),
        ];
        for frame in &frames {
            from.send(frame);
        }
        let arrived = to.drain();
        for frame in &frames {
            assert!(arrived.contains(frame), "{frame:x?}");
        }
        let sent = wire.drain();
        let datagrams = sent.iter().filter(|f| underlay::is_vxlan(f, 4789));
        for datagram in datagrams.clone() {
            assert_eq!(underlay::udp_sum(datagram), 0, "{datagram:x?}");
        }
        // Pieces of one datagram go one way.
        let ports: Vec<&[u8]> = datagrams.map(|f| &f[34..36]).collect();
        assert_eq!(ports.len(), frames.len());
        let counts = one.path.counts(a.port.id).unwrap();
        assert_eq!(counts.dropped(DropReason::Refused), 0);
    });
}

/// Sums must not lose a carry, whatever is in the headers.
#[test]
fn outer_checksums_are_right_whatever_is_inside() {
    run("kernel-sums", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let from = Raw::open(&a.namespace, "eth0");
        let wire = Raw::open(&two.namespace, "wire");
        for (number, fill) in [0, 1, 0x7f, 0x80, 0xfe, 0xff].into_iter().enumerate() {
            let number = u16::try_from(number).unwrap();
            let ethernet = || PacketBuilder::ethernet2(a.mac, b.mac);
            let label =
                Ipv6FlowLabel::try_new(0x000f_ffff & u32::from_ne_bytes([fill; 4])).unwrap();
            let six = Ipv6Header {
                flow_label: label,
                source: [fill; 16],
                destination: [!fill; 16],
                hop_limit: 64,
                ..Ipv6Header::default()
            };
            let data = [fill; 101];
            for builder in [
                ethernet().ipv4([fill; 4], [255; 4], 64),
                ethernet().ip(IpHeaders::Ipv6(six, Ipv6Extensions::default())),
            ] {
                let mut frame = Vec::new();
                let datagram = builder.udp(0xfff0 + number, 0xffff);
                datagram.write(&mut frame, &data).unwrap();
                from.send(&frame);
            }
        }
        let sent = wire.drain();
        let datagrams: Vec<_> = sent
            .iter()
            .filter(|f| underlay::is_vxlan(f, 4789))
            .filter(|f| f.len() > 50 + 14 + 20 + 8 + 101 - 1)
            .collect();
        assert_eq!(datagrams.len(), 12);
        for datagram in datagrams {
            assert_ne!(datagram[40..42], [0, 0], "has a checksum");
            assert_eq!(underlay::ipv4_sum(datagram), 0, "{datagram:x?}");
            assert_eq!(underlay::udp_sum(datagram), 0, "{datagram:x?}");
        }
    });
}

#[test]
fn a_direct_link_and_the_host_share_the_wire() {
    run("kernel-direct", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::direct(&one, &a, &two, &b, LAN);
        ping(world, &a.namespace, "10.7.0.2", 1472);
        ping(world, &a.namespace, "fd07::2", 1452);
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        ping(world, &one.namespace, "10.9.0.2", 1472);
        bulk(world, &one.namespace, &two.namespace, "10.9.0.2");
    });
}

#[test]
fn a_direct_link_and_tunnels_share_an_interface() {
    run("kernel-shared", |world| {
        let (mut one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        let (c, d) = (one.container("c", 3, 8), two.container("d", 4, 8));
        underlay::direct(&one, &a, &two, &b, LAN);
        underlay::tunnel(&one, &c, &two, &d, 8);
        let direct = || ping(world, &a.namespace, "10.7.0.2", 1472);
        let tunnel = || ping(world, &c.namespace, "10.7.0.4", 1400);
        direct();
        tunnel();
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        bulk(world, &c.namespace, &d.namespace, "10.7.0.4");
        // A later daemon finds both.
        one.abandon();
        one.path = on(&one.namespace, || KernelPath::open("test", ROUTES))
            .unwrap()
            .0;
        direct();
        tunnel();
        let part = |kind| {
            let ports = one.path.ports().unwrap();
            let whole = ports.iter().find(|port| port.device == one.wire).unwrap();
            assert_eq!(whole.kind, KernelPortKind::Shared);
            KernelPort { kind, ..*whole }
        };
        let uplink = part(KernelPortKind::Tunnel);
        on(&one.namespace, || one.path.detach(&uplink)).unwrap();
        direct();
        on(&one.namespace, || one.path.attach(&uplink)).unwrap();
        direct();
        let link = part(KernelPortKind::Direct);
        on(&one.namespace, || one.path.detach(&link)).unwrap();
        let ports = one.path.ports().unwrap();
        assert!(ports.contains(&KernelPort::uplink(one.wire)), "{ports:?}");
        let key = RouteKey {
            origin: Origin::Device(one.wire),
            source: b.mac,
            destination: a.mac,
        };
        assert!(one.path.route(&key).unwrap().is_none());
        // Routes into a tunnel are those of its link, whose number here is the direct link's.
        underlay::tunnel(&one, &c, &two, &d, 8);
        tunnel();
    });
}

#[test]
fn containers_of_one_host_speak_without_a_wire() {
    run("kernel-local", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), one.container("b", 2, LAN));
        underlay::local(&one, &a, &b, LAN);
        ping(world, &a.namespace, "10.7.0.2", 56);
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        // Tagged, and of an unknown type.
        let (from, to) = (
            Raw::open(&a.namespace, "eth0"),
            Raw::open(&b.namespace, "eth0"),
        );
        for kind in [
            [0x81, 0x00, 0x00, 0x05, 0x08, 0x00],
            [0x88, 0xb5, 0, 0, 0, 0],
        ] {
            let mut frame = ethernet(&b.mac, &a.mac, &kind);
            frame.extend(*b"tagged or unknown");
            from.send(&frame);
            let arrived = to.drain();
            assert!(
                arrived.iter().any(|f| f.ends_with(b"tagged or unknown")),
                "{kind:x?}: {arrived:x?}"
            );
        }
    });
}

/// Every CPU caches its last routes, and must not follow a stale one.
#[test]
fn a_changed_route_is_followed_by_the_next_frame() {
    run("kernel-change", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let [a, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(n, id)| one.container(n, id, LAN));
        underlay::local(&one, &a, &b, LAN);
        let ends = [&b, &c].map(|end| Raw::open(&end.namespace, "eth0"));
        let from = Raw::open(&a.namespace, "eth0");
        let mut sent = 0u32;
        // Where the next frames come out, of `b` and of `c`.
        let mut next = || {
            sent += 1;
            let mark = format!("number {sent}");
            for _ in 0..5 {
                from.send(&underlay::ipv4_frame(&b.mac, &a.mac, mark.as_bytes()));
            }
            // ICMP errors end with the mark, too.
            let is_it = |f: &Vec<u8>| f.starts_with(&b.mac) && f.ends_with(mark.as_bytes());
            let arrived = |end: &Raw| end.drain().iter().filter(|f| is_it(f)).count();
            [arrived(&ends[0]), arrived(&ends[1])]
        };
        let key = RouteKey {
            origin: Origin::Device(a.port.device),
            source: a.mac,
            destination: b.mac,
        };
        let to_b = one.path.route(&key).unwrap().unwrap();
        let action = Action::Local {
            device: c.port.device,
            from: None,
        };
        let to_c = Route {
            egress: c.port.id,
            action,
            ..to_b
        };
        assert_eq!(next(), [5, 0]);
        one.path.store(&key, &to_c).unwrap();
        assert_eq!(next(), [0, 5]);
        one.path.review(|_, _, _| Review::Replace(to_b)).unwrap();
        assert_eq!(next(), [5, 0]);
        // A route that was replaced, or is asked for anew, has not been used before a frame follows it.
        let was_used = || {
            let mut used = false;
            let look = |of: &RouteKey, _: &Route, is_used| {
                used |= *of == key && is_used;
                Review::Keep
            };
            one.path.review(look).unwrap();
            used
        };
        assert!(was_used());
        one.path.store(&key, &to_b).unwrap();
        assert!(!was_used());
        assert_eq!(next(), [5, 0]);
        assert!(was_used());
        one.forget(&key);
        assert_eq!(next(), [0, 0]);
    });
}

#[test]
fn containers_of_a_tunnel_have_room_for_its_headers() {
    run("kernel-headroom", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        // A port of another bridge.
        one.at("ip link add lan type bridge");
        let c = one.container("c", 3, LAN);
        one.at("ip link set dev c master lan");
        let rooms = || {
            let links = underlay::links(&one.namespace);
            let rooms = links
                .into_iter()
                .filter(|link| link.name.starts_with("ovroom"));
            rooms.collect::<Vec<_>>()
        };
        let master = |name: &str| underlay::link(&one.namespace, name).master;
        assert!(rooms().is_empty(), "nobody needs any");
        // Half of it, as one leaves that is killed in between.
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let half = format!("ip link delete {}", rooms()[0].name);
        one.at(&half);
        assert_eq!(master("a"), None);
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let [room] = &rooms()[..] else {
            panic!("{:?}", rooms());
        };
        assert!(!room.up);
        assert_eq!(master("a"), Some(room.index));
        assert_eq!(
            master("c"),
            Some(underlay::link(&one.namespace, "lan").index)
        );
        assert_eq!(master("wire"), None);
        ping(world, &a.namespace, "10.7.0.2", 56);
        // Its ports may belong to different networks: no frame of theirs ever gets there, even if it is up.
        let d = one.container("d", 4, LAN + 1);
        one.at(&format!("ip link set dev {} up", room.name));
        assert_eq!(master("d"), Some(room.index));
        let (from, to) = (
            Raw::open(&a.namespace, "eth0"),
            Raw::open(&d.namespace, "eth0"),
        );
        from.send(&underlay::ipv4_frame(&d.mac, &a.mac, b"across"));
        from.send(&underlay::ipv4_frame(&[0xff; 6], &a.mac, b"across"));
        assert!(!to.drain().iter().any(|frame| frame.ends_with(b"across")));
        for port in [&a, &c, &d] {
            on(&one.namespace, || one.path.detach(&port.port)).unwrap();
        }
        assert!(rooms().is_empty(), "nobody needs any more");
        assert_eq!((master("a"), master("d")), (None, None));
    });
}

#[test]
fn jumbo_and_64_kib() {
    run("kernel-jumbo", |world| {
        for (mtu, tunnel) in [(9000, true), (16_000, true), (65_535, false)] {
            let (one, two) = underlay::pair_named(world, &format!("{mtu}"), mtu);
            let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
            match tunnel {
                true => underlay::tunnel(&one, &a, &two, &b, LAN),
                false => underlay::direct(&one, &a, &two, &b, LAN),
            }
            ping(world, &a.namespace, "10.7.0.2", usize::from(mtu) - 50 - 28);
            bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        }
    });
}

#[test]
fn a_false_source_is_dropped_and_counted() {
    run("kernel-spoof", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let other = one.container("c", 3, LAN);
        let (from, to) = (
            Raw::open(&other.namespace, "eth0"),
            Raw::open(&b.namespace, "eth0"),
        );
        // As if it were `a`, for which there is a route.
        for _ in 0..7 {
            from.send(&underlay::ipv4_frame(&b.mac, &a.mac, b"false"));
        }
        assert!(!to.drain().iter().any(|frame| frame.ends_with(b"false")));
        let counts = one.path.counts(other.port.id).unwrap();
        assert_eq!(counts.dropped(DropReason::Spoofed), 7);
        // From the wire, a host that is not the one that the route names.
        let wire = Raw::open(&one.namespace, "wire");
        for (source, arrives) in [([10, 9, 0, 1], true), ([10, 9, 0, 77], false)] {
            let inner = underlay::ipv4_frame(&b.mac, &a.mac, b"through the wire");
            wire.send(&underlay::vxlan_frame(&one, &two, source, LAN, &inner));
            let arrived = to.drain();
            let is_there = arrived.iter().any(|f| f.ends_with(b"through the wire"));
            assert_eq!(is_there, arrives, "{source:?}");
        }
    });
}

#[test]
fn a_router_in_a_container_passes_on_what_came_through_a_tunnel() {
    run("kernel-router", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, router) = (one.container("a", 1, LAN), two.container("r", 2, LAN));
        underlay::tunnel(&one, &a, &two, &router, LAN);
        // Behind the router, a slow cable that cuts large frames, and a second way into the tunnel.
        let behind = world.namespace("behind");
        let line = format!(
            "ip link add far mtu 1450 type veth peer name eth0 netns {} mtu 1450",
            behind.display()
        );
        world.at(&router.namespace, &line);
        world.at(&router.namespace, "ip link set far up");
        world.at(&router.namespace, "ip address add 10.8.0.1/24 dev far");
        world.at(&router.namespace, "sysctl -qw net.ipv4.ip_forward=1");
        world.at(
            &router.namespace,
            "tc qdisc add dev far root tbf rate 2gbit burst 15000 limit 1000000",
        );
        world.at(&behind, "ip link set eth0 up");
        world.at(&behind, "ip address add 10.8.0.2/24 dev eth0");
        world.at(&behind, "ip route add default via 10.8.0.1");
        world.at(&a.namespace, "ip route add 10.8.0.0/24 via 10.7.0.2");
        ping(world, &a.namespace, "10.8.0.2", 1422);
        bulk(world, &a.namespace, &behind, "10.8.0.2");
        bulk(world, &behind, &a.namespace, "10.7.0.1");
        // Out of one tunnel and into the next: marked as a tunnel's already.
        let c = one.container("c", 3, LAN);
        underlay::tunnel(&one, &c, &two, &router, LAN);
        for (from, to) in [(&a, &c), (&c, &a)] {
            let line = format!("ip route add {}/32 via 10.7.0.2", to.address);
            world.at(&from.namespace, &line);
        }
        world.at(
            &router.namespace,
            "sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0",
        );
        bulk(world, &a.namespace, &c.namespace, &c.address);
        for host in [&one, &two] {
            for port in host.path.ports().unwrap() {
                let counts = host.path.counts(port.id).unwrap();
                assert_eq!(counts.dropped(DropReason::Refused), 0, "{port:?}");
            }
        }
    });
}

/// A small generator of numbers that only have to be different.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn networks_never_leak() {
    run("kernel-leak", |world| {
        let (one, two) = underlay::pair(world, 1500);
        // The same addresses in three networks: only the network tells them apart.
        let networks = [7, 8, 0x00ff_ffff];
        let mut containers = Vec::new();
        for (at, &network) in networks.iter().enumerate() {
            let number = u16::try_from(at).unwrap() * 2;
            let names = [format!("a{at}"), format!("b{at}")];
            let a = one.container_with(&names[0], 10 + number, network, mac_of(1));
            let b = two.container_with(&names[1], 10 + number, network, mac_of(2));
            underlay::tunnel(&one, &a, &two, &b, network);
            let receivers = [
                Raw::open(&a.namespace, "eth0"),
                Raw::open(&b.namespace, "eth0"),
            ];
            containers.push((network, [a, b], receivers));
        }
        let wire = Raw::open(&one.namespace, "wire");
        let mut numbers = Numbers(0x0005_eed0);
        let mut expected = 0;
        for count in 0..3_000u32 {
            let (network, sides, sockets) = &containers[numbers.below(networks.len())];
            let side = numbers.below(2);
            let addresses = [
                mac_of(1),
                mac_of(2),
                mac_of(9),
                [0xff; 6],
                [0x33, 0x33, 0, 0, 0, 1],
            ];
            let (to, from) = (addresses[numbers.below(5)], addresses[numbers.below(3)]);
            let mut mark = network.to_be_bytes().to_vec();
            mark.extend(count.to_be_bytes());
            let frame = underlay::ipv4_frame(&to, &from, &mark);
            if numbers.below(4) == 0 {
                // From the wire, in a network that exists or not, from a host that exists or not.
                let vni = [*network, 9, 0][numbers.below(3)];
                let mut mark = vni.to_be_bytes().to_vec();
                mark.extend(count.to_be_bytes());
                let frame = underlay::ipv4_frame(&to, &from, &mark);
                let source = [[10, 9, 0, 1], [10, 9, 0, 3]][numbers.below(2)];
                wire.send(&underlay::vxlan_frame(&one, &two, source, vni, &frame));
            } else {
                if (from, to) == (sides[side].mac, sides[1 - side].mac) {
                    expected += 1;
                }
                sockets[side].send(&frame);
            }
        }
        let mut seen = 0;
        for (network, sides, sockets) in &containers {
            for (container, socket) in sides.iter().zip(sockets) {
                for frame in socket.drain_received() {
                    let Some(mark) = underlay::mark_of(&frame) else {
                        continue;
                    };
                    assert_eq!(mark[..4], network.to_be_bytes(), "{frame:x?}");
                    assert_eq!(frame[..6], container.mac, "not for this one: {frame:x?}");
                    seen += 1;
                }
            }
        }
        assert!(seen >= expected && expected > 100, "{seen} of {expected}");
    });
}

#[test]
fn the_path_outlives_its_daemon_and_is_found_again() {
    run("kernel-adopt", |world| {
        let (mut one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        ping(world, &a.namespace, "10.7.0.2", 56);
        let before = one.path.counts(a.port.id).unwrap();
        let ports = one.path.ports().unwrap();
        one.abandon();
        ping(world, &a.namespace, "10.7.0.2", 56);
        let flood = Flow::start(&a.namespace, &b.namespace, "10.7.0.2");
        let (path, was_there) = on(&one.namespace, || KernelPath::open("test", ROUTES)).unwrap();
        assert!(was_there);
        assert_eq!(path.ports().unwrap(), ports);
        assert!(path.counts(a.port.id).unwrap().received_frames >= before.received_frames + 3);
        // Both counted the same frames.
        let traffic = path.traffic().unwrap();
        let known = |pair: &Option<Pair>| pair.is_some_and(|pair| pair.source == a.mac);
        let found = traffic.iter().find(|(pair, _)| known(pair));
        assert!(
            found.unwrap().1.frames >= before.received_frames + 3,
            "{traffic:?}"
        );
        // Found, and its programs replaced.
        assert!(flood.finish() > 0);
        // Another name, or the same one elsewhere, is another path.
        assert!(
            !on(&one.namespace, || KernelPath::open("other", ROUTES))
                .unwrap()
                .1
        );
        let elsewhere = world.namespace("elsewhere");
        assert!(
            !on(&elsewhere, || KernelPath::open("test", ROUTES))
                .unwrap()
                .1
        );
        for port in path.ports().unwrap() {
            on(&one.namespace, || path.detach(&port)).unwrap();
        }
        drop(path);
        eventually("nothing is left of it", || {
            !on(&one.namespace, || KernelPath::open("test", ROUTES))
                .unwrap()
                .1
        });
    });
}

/// The number of an interface may become another's, which no entry may wait for.
#[test]
fn a_port_that_cannot_be_attached_leaves_no_entry() {
    run("kernel-entries", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let ports = one.path.ports().unwrap();
        let nowhere = KernelPort {
            device: 60_000,
            kind: KernelPortKind::Tunnel,
            tap: None,
            ..a.port
        };
        on(&one.namespace, || one.path.attach(&nowhere)).unwrap_err();
        assert_eq!(one.path.ports().unwrap(), ports);
        ping(world, &a.namespace, "10.7.0.2", 56);
    });
}

/// A restarted daemon has a new tap for each port.
#[test]
fn a_port_with_another_tap_leaves_no_entry_of_the_one_before() {
    run("kernel-taps", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let a = one.container("a", 1, LAN);
        let to = Raw::open(&a.namespace, "eth0");
        // A frame of the daemon comes in at the tap; here it is sent at the other end of a cable.
        let taps = [1, 2].map(|number| {
            let name = format!("tap{number}");
            one.at(&format!(
                "ip link add {name} type veth peer name peer{number}"
            ));
            for end in [&name, &format!("peer{number}")] {
                one.at(&format!("ip link set {end} up"));
            }
            let tap = underlay::link(&one.namespace, &name).index;
            (tap, Raw::open(&one.namespace, &format!("peer{number}")))
        });
        let arrives = |from: &Raw| {
            from.send(&underlay::ipv4_frame(
                &a.mac,
                &mac_of(9),
                b"from the daemon",
            ));
            let arrived = to.drain();
            arrived.iter().any(|f| f.ends_with(b"from the daemon"))
        };
        for (number, (tap, _)) in taps.iter().enumerate() {
            let tap = Some(*tap);
            let port = KernelPort { tap, ..a.port };
            on(&one.namespace, || one.path.attach(&port)).unwrap();
            let reach = [arrives(&taps[0].1), arrives(&taps[1].1)];
            assert_eq!(reach, [number == 0, number == 1]);
        }
    });
}

/// Any process with `CAP_BPF`, such as a container, can make maps that claim to be this daemon's.
#[test]
fn maps_that_no_program_at_an_interface_uses_are_not_adopted() {
    run("kernel-decoy", |world| {
        let (mut one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let ports = one.path.ports().unwrap();
        // Same name, same namespace, the same programs, at no interface; some of them older than the path.
        let decoy = || on(&one.namespace, || KernelPath::open("decoy", ROUTES)).unwrap();
        let decoys: Vec<_> = (0..3).map(|_| decoy()).collect();
        assert!(decoys.iter().all(|(_, was_there)| !was_there));
        one.abandon();
        let found = on(&one.namespace, || KernelPath::open("test", ROUTES)).unwrap();
        assert!(found.1, "the real one is found");
        assert_eq!(found.0.ports().unwrap(), ports);
    });
}

/// Before Linux 6.6 programs are filters with numbers: no other program's is overwritten or removed.
#[test]
fn paths_on_one_wire_leave_each_others_programs_alone() {
    run("kernel-neighbours", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::direct(&one, &a, &two, &b, LAN);
        ping(world, &a.namespace, "10.7.0.2", 56);
        let other = on(&one.namespace, || KernelPath::open("other", ROUTES))
            .unwrap()
            .0;
        let port = KernelPort {
            id: PortId(77),
            device: one.wire,
            kind: KernelPortKind::Tunnel,
            network: 0,
            tap: None,
            mac: None,
            floods: None,
        };
        for _ in 0..2 {
            on(&one.namespace, || other.attach(&port)).unwrap();
            ping(world, &a.namespace, "10.7.0.2", 56);
            assert!(
                on(&one.namespace, || KernelPath::open("other", ROUTES))
                    .unwrap()
                    .1
            );
            on(&one.namespace, || other.detach(&port)).unwrap();
            ping(world, &a.namespace, "10.7.0.2", 56);
            // Twice is as good as once.
            on(&one.namespace, || other.detach(&port)).unwrap();
        }
    });
}

/// Whether the kernel has places for programs that are no filters (Linux 6.6).
fn has_places() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|n| n.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

#[test]
fn a_wire_that_the_path_comes_to_loses_nothing() {
    if !has_places() {
        eprintln!("skipped: an older kernel loses frames when it gets a filter");
        return;
    }
    run("kernel-arrives", |world| {
        for round in 0..5 {
            let (one, two) = underlay::pair_named(world, &format!("round{round}-"), 1500);
            let names = ["a", "b"].map(|side| format!("{side}{round}"));
            let (a, b) = (
                one.container(&names[0], 1, LAN),
                two.container(&names[1], 2, LAN),
            );
            let flow = Flow::start(&one.namespace, &two.namespace, "10.9.0.2");
            std::thread::sleep(Duration::from_millis(20));
            underlay::tunnel(&one, &a, &two, &b, LAN);
            std::thread::sleep(Duration::from_millis(20));
            assert!(flow.finish() > 0);
        }
    });
}

#[test]
fn a_thousand_changes_lose_nothing_of_other_flows() {
    run("kernel-changes", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let c = one.container("c", 3, LAN);
        let flood = Flow::start(&a.namespace, &b.namespace, "10.7.0.2");
        let untouched = RouteKey {
            origin: Origin::Device(a.port.device),
            source: a.mac,
            destination: b.mac,
        };
        for count in 0..1_000u32 {
            let key = RouteKey {
                origin: Origin::Device(c.port.device),
                source: c.mac,
                destination: mac_of(1000 + count % 50),
            };
            let route = Route {
                network: LAN,
                ingress: c.port.id,
                egress: PortId(2),
                action: Action::Direct { device: one.wire },
                longest: None,
            };
            one.path.store(&key, &route).unwrap();
            if count % 3 == 0 {
                one.forget(&key);
            }
            if count % 20 == 0 {
                on(&one.namespace, || {
                    one.path.detach(&c.port).unwrap();
                    one.path.attach(&c.port).unwrap();
                });
            }
            if count % 100 == 0 {
                one.path
                    .review(|_, route, _| Review::Replace(*route))
                    .unwrap();
            }
        }
        assert!(one.path.route(&untouched).unwrap().is_some());
        assert!(flood.finish() > 0);
        // Frames of a forgotten route are the daemon's again.
        one.forget(&untouched);
        let missed = one.path.counts(a.port.id).unwrap().missed;
        let output = world.try_at(&a.namespace, "ping -c 1 -W 1 10.7.0.2");
        assert!(!output.status.success());
        assert!(one.path.counts(a.port.id).unwrap().missed > missed);
    });
}

#[test]
fn routes_end_with_their_port_and_only_containers_are_containers() {
    run("kernel-detach", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.container("a", 1, LAN), two.container("b", 2, LAN));
        underlay::tunnel(&one, &a, &two, &b, LAN);
        let key = RouteKey {
            origin: Origin::Tunnel(LAN),
            source: b.mac,
            destination: a.mac,
        };
        assert!(one.path.route(&key).unwrap().is_some());
        on(&one.namespace, || one.path.detach(&a.port)).unwrap();
        assert!(one.path.route(&key).unwrap().is_none());
        // A pair with both ends here leads nowhere else.
        one.at("ip link add x type veth peer name y");
        let index = underlay::link(&one.namespace, "x").index;
        let refused = on(&one.namespace, || {
            one.path.attach(&KernelPort {
                device: index,
                ..a.port
            })
        });
        let error = refused.unwrap_err();
        assert!(
            error.to_string().contains("is no veth or netkit"),
            "{error}"
        );
        if underlay::cable_is_netkit() {
            // Made from inside the container, so that this host has the end without a say.
            one.far_end("wrong", &a.namespace);
            let index = underlay::link(&one.namespace, "wrong").index;
            let wrong = KernelPort {
                device: index,
                ..a.port
            };
            let refused = on(&one.namespace, || one.path.attach(&wrong));
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("primary"), "{error}");
        }
    });
}

/// The lines of a host's daemon: one container and the tunnel to the other host.
fn config_of(host: &underlay::Host<'_>, other: u8) -> String {
    format!(
        "add network lan vni {LAN}
         add interface guest network lan veth {} mtu 1450
         add link other vxlan 10.9.0.{other} local 10.9.0.{}\n",
        if host.number == 1 { "p1" } else { "p2" },
        host.number
    )
}

/// Frames of a port that came to the daemon itself.
fn outside(daemon: &common::Daemon, port: &str) -> u64 {
    let [all, in_kernel] = daemon.counters(port, ["received_frames", "in_kernel_frames"]);
    all - in_kernel
}

/// Filters of an administrator or another program stay, at the lowest numbers too. The kernel has the daemon's programs
/// among them before Linux 6.6.
#[test]
fn filters_of_others_stay_beside_the_daemon_and_after_it() {
    run("kernel-filters", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let _container = one.plain_container("p1", 1);
        let tc = |words: &str| {
            let namespace = one.namespace.display();
            world.sh(&format!("nsenter --net={namespace} tc {words}"))
        };
        let devices = ["wire", "p1"];
        for device in devices {
            tc(&format!("qdisc add dev {device} clsact"));
            // Classic BPF that matches nothing.
            let filter = "ingress protocol all prio 1 handle 1 bpf bytecode '1,6 0 0 0,'";
            tc(&format!("filter add dev {device} {filter}"));
        }
        let stay = |when: &str| {
            for device in devices {
                let shown = tc(&format!("filter show dev {device} ingress"));
                assert!(shown.contains("bytecode '1,6 0 0 0'"), "{when}: {shown}");
            }
        };
        stay("before");
        let daemon = world.daemon_at(&one.namespace, "control1", &config_of(&one, 2));
        stay("beside the daemon");
        daemon.tell("delete interface guest");
        stay("without its port");
        drop(daemon);
        stay("after the daemon");
    });
}

#[test]
fn two_daemons_hand_their_containers_to_the_kernel_and_die() {
    run("kernel-daemons", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.plain_container("p1", 1), two.plain_container("p2", 2));
        let start = |host: &underlay::Host<'_>, other: u8| {
            let name = format!("control{}", host.number);
            world.daemon_at(&host.namespace, &name, &config_of(host, other))
        };
        let (first, second) = (start(&one, 2), start(&two, 1));
        // ARP, neighbour discovery and multicast are the daemons'.
        passes(&a.namespace, &b.namespace, "10.7.0.2");
        ping(world, &a.namespace, "fd07::2", 1400);
        let (from, to) = (
            Raw::open(&a.namespace, "eth0"),
            Raw::open(&b.namespace, "eth0"),
        );
        let tagged = [0x81, 0, 0, 5, 0x88, 0xb5];
        let group = [1, 0, 0x5e, 1, 2, 3];
        for (to, kind) in [(&group, &[0x88, 0xb5][..]), (&b.mac, &tagged[..])] {
            let mut frame = ethernet(to, &a.mac, kind);
            frame.extend(*b"through both daemons");
            from.send(&frame);
        }
        let arrived = to.drain_received();
        let is_it = |frame: &&Vec<u8>| frame.ends_with(b"through both daemons");
        assert_eq!(arrived.iter().filter(is_it).count(), 2, "{arrived:x?}");
        // The rest is the kernel's, once it knows.
        eventually("the daemons see nothing more of it", || {
            let before = outside(&first, "guest");
            passes(&a.namespace, &b.namespace, "10.7.0.2");
            outside(&first, "guest") == before
        });
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        let flood = Flow::start(&a.namespace, &b.namespace, "10.7.0.2");
        // Killed, not asked.
        drop(first);
        drop(second);
        std::thread::sleep(Duration::from_millis(500));
        passes(&a.namespace, &b.namespace, "10.7.0.2");
        let (first, second) = (start(&one, 2), start(&two, 1));
        eventually("the kernel has it again", || {
            let before = outside(&first, "guest");
            passes(&a.namespace, &b.namespace, "10.7.0.2");
            outside(&first, "guest") == before
        });
        // From before they died until after they came back.
        assert!(flood.finish() > 0);
        drop(second);
    });
}

/// A network over bare frames and one over VXLAN, between the same interfaces.
#[test]
fn two_daemons_have_a_direct_link_and_a_tunnel_on_one_interface() {
    run("kernel-carriers", |world| {
        let (one, two) = underlay::pair(world, 1500);
        let (a, b) = (one.plain_container("p1", 1), two.plain_container("p2", 2));
        let (c, d) = (one.plain_container("p3", 3), two.plain_container("p4", 4));
        let start = |host: &underlay::Host<'_>, other: u8, bare: &str| {
            let name = format!("control{}", host.number);
            let wrapped = config_of(host, other).replace(" local ", " networks lan local ");
            let config = format!(
                "{wrapped}add network bare vni 8
                 add interface bare network bare veth {bare} mtu 1450
                 add link wire direct wire network bare\n"
            );
            world.daemon_at(&host.namespace, &name, &config)
        };
        let (first, second) = (start(&one, 2, "p3"), start(&two, 1, "p4"));
        let pairs = [(&a, &b, "10.7.0.2", "guest"), (&c, &d, "10.7.0.4", "bare")];
        for (from, to, address, port) in pairs {
            passes(&from.namespace, &to.namespace, address);
            for daemon in [&first, &second] {
                eventually("the kernel has all of it", || {
                    let before = outside(daemon, port);
                    passes(&from.namespace, &to.namespace, address);
                    outside(daemon, port) == before
                });
            }
        }
        for (from, to, address, _) in pairs {
            bulk(world, &from.namespace, &to.namespace, address);
        }
        // Either one goes and leaves the other.
        let flood = Flow::start(&a.namespace, &b.namespace, "10.7.0.2");
        first.tell("delete link wire");
        passes(&a.namespace, &b.namespace, "10.7.0.2");
        first.tell("add link wire direct wire network bare");
        assert!(flood.finish() > 0);
        passes(&c.namespace, &d.namespace, "10.7.0.4");
        let flood = Flow::start(&c.namespace, &d.namespace, "10.7.0.4");
        first.tell("delete link other");
        passes(&c.namespace, &d.namespace, "10.7.0.4");
        assert!(flood.finish() > 0);
    });
}

#[test]
fn containers_of_one_daemon_and_changes_under_load() {
    run("kernel-daemon", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let (a, b) = (one.plain_container("p1", 1), one.plain_container("p2", 2));
        let _c = one.plain_container("p3", 3);
        let config = format!(
            "add network lan vni {LAN}
             add interface a network lan veth p1 mtu 1450
             add interface b network lan veth p2 mtu 1450\n"
        );
        let daemon = world.daemon_at(&one.namespace, "control", &config);
        ping(world, &a.namespace, "10.7.0.2", 1400);
        bulk(world, &a.namespace, &b.namespace, "10.7.0.2");
        let flood = Flow::start(&a.namespace, &b.namespace, "10.7.0.2");
        for count in 0..100 {
            daemon.tell("add interface c network lan veth p3 mtu 1450");
            daemon.tell(&format!("add network n{count} vni {}", 1000 + count));
            daemon.tell("delete interface c");
        }
        assert!(flood.finish() > 0);
        let before = outside(&daemon, "a");
        passes(&a.namespace, &b.namespace, "10.7.0.2");
        assert!(
            outside(&daemon, "a") - before < 5,
            "they are still in the kernel"
        );
        // Without the other end there is no way any more.
        daemon.tell("delete interface b");
        let ping = world.try_at(&a.namespace, "ping -c 2 -i 0.1 -W 1 10.7.0.2");
        assert!(!ping.status.success());
    });
}

/// The kernel counts by numbers, and a port that is new has the lowest that is free.
#[test]
fn a_port_does_not_count_what_one_before_it_had() {
    run("kernel-numbers", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let (a, b) = (one.plain_container("p1", 1), one.plain_container("p2", 2));
        let config = format!(
            "add network lan vni {LAN}
             add interface a network lan veth p1 mtu 1450
             add interface b network lan veth p2 mtu 1450\n"
        );
        let daemon = world.daemon_at(&one.namespace, "control", &config);
        let in_kernel = |daemon: &common::Daemon, port| daemon.counter(port, "in_kernel_frames");
        eventually("the kernel has the flow", || {
            passes(&a.namespace, &b.namespace, "10.7.0.2");
            passes(&b.namespace, &a.namespace, "10.7.0.1");
            in_kernel(&daemon, "a") > 0 && in_kernel(&daemon, "b") > 0
        });
        daemon.tell("delete interface a");
        daemon.tell("add interface other network lan tap other0");
        assert_eq!(in_kernel(&daemon, "other"), 0);
        assert!(in_kernel(&daemon, "b") > 0, "that is another port");
        // The next daemon finds the path, and gives the numbers anew.
        drop(daemon);
        let config = format!(
            "add network lan vni {LAN}
             add interface a network lan tap other0
             add interface b network lan tap another0\n"
        );
        let daemon = world.daemon_at(&one.namespace, "control", &config);
        daemon.tell("add interface c network lan veth p2 mtu 1450");
        for port in ["a", "b"] {
            assert_eq!(in_kernel(&daemon, port), 0, "{port}");
        }
    });
}

/// Routes that a killed daemon has left name ports by its numbers.
#[test]
fn a_restarted_daemon_takes_no_address_for_that_of_another_port() {
    run("kernel-renumbered", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let [a, b, c] = [("p1", 1), ("p2", 2), ("p3", 3)].map(|(n, id)| one.plain_container(n, id));
        let of = |name: &str, device: &str| {
            format!("add interface {name} network lan veth {device} mtu 1450\n")
        };
        let network = format!("add network lan vni {LAN}\n");
        let before = [of("a", "p1"), of("b", "p2")].concat();
        let daemon = world.daemon_at(&one.namespace, "control", &(network.clone() + &before));
        eventually("the kernel has the flow", || {
            passes(&a.namespace, &b.namespace, "10.7.0.2");
            daemon.counter("a", "in_kernel_frames") > 0
        });
        drop(daemon);
        // Another port comes first now, and has the number of `a`.
        let config = network + &of("0", "p3") + &before;
        let _daemon = world.daemon_at(&one.namespace, "control", &config);
        let (from, to) = (
            Raw::open(&c.namespace, "eth0"),
            Raw::open(&a.namespace, "eth0"),
        );
        from.send(&underlay::ipv4_frame(&a.mac, &c.mac, b"for a"));
        let arrived = to.drain_received();
        assert!(arrived.iter().any(|frame| frame.ends_with(b"for a")));
    });
}

/// All of the above once more with the distribution's kernel, which may be older (filters instead of tcx, another verifier),
/// and with netkit for containers if it supports that.
#[test]
fn the_distributions_kernel_does_the_same() {
    if !guests::asked_for() {
        return;
    }
    let test = std::env::current_exe().unwrap();
    // The daemon is there too. What is below /tmp is the guest's own.
    let target = test.parent().and_then(std::path::Path::parent).unwrap();
    // `LATLAB_TEST_KERNEL=VMLINUZ`: another one, whose modules are beside it.
    let which = std::env::var("LATLAB_TEST_KERNEL").unwrap_or("standard".into());
    let guest = guests::Guest::boot(&which, |config| {
        config.memory_bytes = 2 << 30;
        config.vcpus = 2;
        config.shares.push(Share::new(
            target,
            target.display().to_string(),
            Access::Read,
        ));
    });
    let channel = guest.channel();
    let kernel = guests::text(&channel, "uname -r");
    let tests = match std::env::var("LATLAB_TEST_WHOLE").as_deref() {
        Ok("yes" | "1") => "--skip the_distributions_kernel_does_the_same",
        _ => {
            "--exact outer_checksums_are_right_whatever_is_inside a_false_source_is_dropped_and_counted \
             filters_of_others_stay_beside_the_daemon_and_after_it"
        }
    };
    // Every test starts both programs, and a file of the share is read through the channel each time.
    let copy = format!(
        "mkdir -p /tmp/debug/deps; cp {} /tmp/debug/deps; cp {}/latlab-overlay /tmp/debug; mount --bind /tmp/debug {}",
        test.display(),
        target.display(),
        target.display(),
    );
    let copied = channel
        .run(guests::shell(&copy), b"", guests::COMMAND)
        .unwrap();
    assert_eq!(copied.status, ExitStatus::Code(0), "{copied:?}");
    let mut cables = vec!["veth"];
    // No module: built in from Linux 6.7 on, where it was asked for.
    let known = guests::shell("grep -q ' netkit_xmit$' /proc/kallsyms");
    match channel.run(known, b"", guests::COMMAND).unwrap().status {
        ExitStatus::Code(0) => cables.push("netkit"),
        _ => eprintln!("Linux {kernel} has no netkit (Linux 6.7, CONFIG_NETKIT): veth only"),
    }
    for cable in cables {
        let line = format!(
            "for module in veth vxlan bridge tun sch_ingress cls_bpf; do modprobe $module || exit; done; \
             cd /tmp; LATLAB_TEST_CABLE={cable} {} --test-threads=2 {tests} 2>&1",
            test.display()
        );
        let finished = channel
            .run(guests::shell(&line), b"", Duration::from_secs(900))
            .unwrap();
        let said = String::from_utf8_lossy(&finished.stdout);
        eprintln!("{kernel}{cable}: {said}");
        assert_eq!(
            finished.status,
            ExitStatus::Code(0),
            "{kernel}{cable}: {said}"
        );
        assert!(said.contains("test result: ok"), "{cable}: {said}");
    }
}
