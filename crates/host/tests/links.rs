//! Every kind of link, made for real and used: namespaces, addresses, traffic, undo.

mod sandbox;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use ipnet::IpNet;
use latlab_host::links::{self, Error};
use latlab_host::sys::netns::{self, NetNs, NewNetNs};
use latlab_netlink::{
    Address, Handle, Interface, LinkChange, LinkKind, NewLink, Qdisc, QdiscEntry,
};
use sandbox::{Deployed, Guest, SILENCE, deploy, remove_all, try_deploy};

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => panic!("{address} is not IPv4"),
    }
}

/// All interfaces in a namespace but the loopback.
fn interfaces(lab: &Deployed, netns: &str) -> Vec<String> {
    let links = lab.handle(netns).links().unwrap();
    let mut names: Vec<_> = links
        .into_iter()
        .map(|link| link.name)
        .filter(|name| name != "lo")
        .collect();
    names.sort();
    names
}

fn root_qdisc(lab: &Deployed, netns: &str, interface: &str) -> QdiscEntry {
    let index = lab.link(netns, interface).index;
    let qdiscs = lab.handle(netns).qdiscs().unwrap();
    let found = qdiscs
        .into_iter()
        .find(|qdisc| qdisc.interface == index && qdisc.is_root);
    found.unwrap_or_else(|| panic!("no queueing discipline on {interface}"))
}

#[test]
fn veth_joins_two_namespaces_with_nothing_between() {
    sandbox::run("veth", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: container}}
  links: [{mtu: 4000, endpoints: [{node: a, interface: eth0, mac: '02:00:00:00:00:aa'}, 'b:x1']}]",
        );
        assert_eq!(lab.namespaces(), ["a", "b"]);
        assert_eq!(
            (interfaces(&lab, "a"), interfaces(&lab, "b")),
            (vec!["eth0".into()], vec!["x1".into()])
        );
        let end = lab.link("a", "eth0");
        assert_eq!(end.kind.as_deref(), Some("veth"));
        assert_eq!(end.mac.unwrap().to_string(), "02:00:00:00:00:aa");
        assert_eq!((end.mtu_bytes, lab.link("b", "x1").mtu_bytes), (4000, 4000));
        assert_eq!(end.alias.as_deref(), Some("latlab:test-lab"));
        lab.assert_reaches("a", "b");
        lab.assert_reaches("b", "a");
        // A packet as large as the MTU: 20 bytes of IP and 8 of ICMP before the data.
        sandbox::ping(&lab.netns("a"), lab.address("a", "b", false), 4000 - 28).unwrap();
    });
}

#[test]
fn host_nodes_have_only_their_labelled_interface_in_the_root_namespace() {
    for kind in ["veth", "bridge", "nat", "macvlan", "vxlan"] {
        sandbox::run(&format!("host-{kind}"), |directory| {
            let lab = deploy(
                directory,
                &format!(
                    "  nodes: {{h: {{kind: host}}, a: {{kind: native}}}}
  links: [{{type: {kind}, endpoints: ['h:lab0', 'a:eth0']}}]"
                ),
            );
            assert_eq!(interfaces(&lab, "h"), ["lab0"], "{kind}");
            assert_eq!(links::host_interfaces(&lab.plan), ["lab0"]);
            let alias = lab.link("h", "lab0").alias;
            assert_eq!(alias.as_deref(), Some("latlab:test-lab"), "{kind}");
            assert_eq!(
                lab.link("h", "lab0").mac.unwrap().0,
                lab.interface("h", "lab0").mac.0,
                "{kind}"
            );
            lab.assert_reaches("h", "a");
            lab.assert_reaches("a", "h");
        });
    }
}

#[test]
fn two_host_nodes_are_joined_in_the_root_namespace() {
    sandbox::run("host-host", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {h: {kind: host}, g: {kind: host}}
  links: [{endpoints: ['h:left', 'g:right']}]",
        );
        assert_eq!(interfaces(&lab, "h"), ["left", "right"]);
    });
}

#[test]
fn a_taken_name_in_the_root_namespace_is_refused_and_left_alone() {
    sandbox::run("taken", |directory| {
        let theirs = NewLink::new(Interface::new("lab0"), LinkKind::Bridge);
        Handle::open().unwrap().apply(&theirs.request()).unwrap();
        let topology = "  nodes: {h: {kind: host}, a: {kind: native}}
  links: [{name: l, endpoints: ['h:lab0', 'a:eth0']}]";
        let error = try_deploy(directory, topology).err().unwrap();
        assert!(
            matches!(error, Error::Netlink { ref link, .. } if link == "l"),
            "{error}"
        );
        assert!(error.to_string().contains("lab0"), "{error}");
        assert!(error.hint().contains("another one"), "{}", error.hint());
        remove_all(directory);
        let left = Handle::open().unwrap().links().unwrap();
        assert!(
            left.iter()
                .any(|link| link.name == "lab0" && link.alias.is_none())
        );
    });
}

#[test]
fn every_node_of_a_bridge_reaches_every_other_at_once() {
    sandbox::run("bridge", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: container}, d: {kind: native}}
  links: [{type: bridge, endpoints: ['a:eth0', 'b:eth0', 'c:eth0', 'd:eth0'], mtu: 9000}]",
        );
        for from in ["a", "b", "c", "d"] {
            for to in ["a", "b", "c", "d"].into_iter().filter(|to| *to != from) {
                lab.assert_reaches(from, to);
            }
        }
        sandbox::ping(&lab.netns("a"), lab.address("a", "d", false), 9000 - 28).unwrap();
        assert_eq!(interfaces(&lab, "@l0"), ["p0", "p1", "p2", "p3", "switch"]);
        let aliases = lab.handle("@l0").links().unwrap();
        let aliases = aliases.iter().filter(|link| link.name != "lo");
        assert!(
            aliases
                .clone()
                .all(|link| link.alias.as_deref() == Some("latlab:test-lab"))
        );
    });
}

#[test]
fn many_nodes_are_ready_when_they_are_said_to_be() {
    // More interfaces than the kernel starts before it pauses for a second.
    sandbox::run("many-nodes", |directory| {
        let names: Vec<_> = (0..250).map(|number| format!("n{number}")).collect();
        let nodes: Vec<_> = names
            .iter()
            .map(|name| format!("{name}: {{kind: native}}"))
            .collect();
        let ends: Vec<_> = names.iter().map(|name| format!("'{name}:eth0'")).collect();
        let lab = deploy(
            directory,
            &format!(
                "  nodes: {{{}}}\n  links: [{{type: bridge, endpoints: [{}]}}]",
                nodes.join(", "),
                ends.join(", ")
            ),
        );
        let ports = lab.handle("@l0").links().unwrap();
        let idle = ports.iter().filter(|port| !port.running);
        assert_eq!(
            idle.map(|port| &port.name).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
        // One datagram each, never repeated: any that is lost fails the test.
        for pair in names.windows(2) {
            lab.udp(&pair[0], &pair[1], false).unwrap();
        }
        for pair in names.windows(2).rev().step_by(7) {
            lab.udp(&pair[1], &pair[0], true).unwrap();
        }
        // A frame to an interface that the kernel has not started yet counts as dropped.
        let ports = lab.handle("@l0").links().unwrap();
        let dropped = ports.iter().filter(|port| port.stats.tx_dropped > 0);
        assert_eq!(
            dropped.map(|port| &port.name).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
        remove_all(directory);
        assert!(lab.namespaces().is_empty());
    });
}

#[test]
fn nat_masquerades_outgoing_packets_and_translates_published_ports() {
    sandbox::run("nat", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {out: {kind: native}, a: {kind: native}, b: {kind: container}}
  links: [{type: nat, endpoints: ['out:eth0', 'a:eth0', 'b:eth0']}]",
        );
        let latlab_model::plan::Medium::Nat(nat) = &lab.plan.links[0].medium else {
            panic!("not a nat")
        };
        for ipv6 in [false, true] {
            let router = nat
                .outside
                .iter()
                .map(IpNet::addr)
                .find(|a| a.is_ipv6() == ipv6);
            for inner in ["a", "b"] {
                assert_eq!(
                    lab.udp(inner, "out", ipv6).unwrap(),
                    router.unwrap(),
                    "masqueraded"
                );
                let client = lab.interface("out", "eth0").addresses.iter();
                let client = client.map(IpNet::addr).find(|a| a.is_ipv6() == ipv6);
                assert_eq!(
                    lab.udp("out", inner, ipv6).unwrap(),
                    client.unwrap(),
                    "published"
                );
            }
        }
        for (from, to) in [
            ("out", "a"),
            ("out", "b"),
            ("a", "out"),
            ("a", "b"),
            ("b", "a"),
        ] {
            lab.assert_reaches(from, to);
        }
        // The outside has no way to the inner addresses themselves.
        let inner = lab.interface("a", "eth0").addresses[0].addr();
        let direct = sandbox::udp_within(&lab.netns("out"), &lab.netns("a"), inner, SILENCE);
        assert!(direct.is_err(), "reached {inner} without translation");
    });
}

#[test]
fn macvlan_slices_reach_each_other() {
    sandbox::run("macvlan", |directory| {
        let topology = "  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: native}}
  links: [{type: macvlan, endpoints: ['a:eth0', 'b:eth0', 'c:eth0'], mtu: 3000}]";
        let lab = deploy(directory, topology);
        assert_eq!(lab.link("a", "eth0").kind.as_deref(), Some("macvlan"));
        assert_eq!(
            lab.link("a", "eth0").mac.unwrap().0,
            lab.interface("a", "eth0").mac.0
        );
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            lab.assert_reaches(from, to);
        }
        sandbox::ping(&lab.netns("a"), lab.address("a", "b", false), 3000 - 28).unwrap();
    });
}

#[test]
fn macvlan_on_an_interface_of_the_host_reaches_beyond_it_and_can_be_made_again() {
    sandbox::run("macvlan-parent", |directory| {
        // A machine on the host's network.
        let beyond = NewNetNs {
            path: directory.join("beyond-network"),
            sysctls: &[],
        };
        netns::create_all(std::slice::from_ref(&beyond)).unwrap();
        let beyond = NetNs::open(&beyond.path).unwrap();
        let lan = NewLink::new(
            Interface::new("lan"),
            LinkKind::Veth(Interface::new("far").netns(beyond.as_fd())),
        );
        Handle::open().unwrap().apply(&lan.up().request()).unwrap();
        let mut far = Handle::open_in(beyond.as_fd()).unwrap();
        let interface = far.link_index("far").unwrap();
        let address = Address {
            interface,
            address: "10.7.0.9".parse().unwrap(),
            prefix_length: 24,
        };
        let up = LinkChange::of("far").up(true).request();
        far.apply_all(&[up, address.add()]).unwrap();

        let topology = "  nodes: {a: {kind: native}, h: {kind: host}}
  links: [{type: macvlan, parent: lan, subnets: [10.7.0.0/24], endpoints: ['a:eth0', 'h:mv0']}]";
        for round in 0..3 {
            let lab = deploy(directory, topology);
            let seen = sandbox::udp(&lab.netns("a"), &beyond, address.address).unwrap();
            assert_eq!(
                seen,
                lab.interface("a", "eth0").addresses[0].addr(),
                "round {round}"
            );
            // The kernel removes the slices behind our back; the next round needs their addresses.
            let names = lab
                .namespaces()
                .into_iter()
                .filter(|name| name != "beyond-network");
            let paths: Vec<_> = names.map(|name| directory.join(name)).collect();
            let delete = latlab_netlink::delete("mv0");
            Handle::open().unwrap().apply(&delete).unwrap();
            paths.iter().for_each(|path| sandbox::remove(path));
        }
    });
}

#[test]
fn vxlan_carries_frames_between_tunnel_ends_over_udp() {
    sandbox::run("vxlan", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: native}}
  links: [{type: vxlan, vni: 77, endpoints: ['a:eth0', 'b:eth0', 'c:eth0']}]",
        );
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            lab.assert_reaches(from, to);
        }
        let mtu = lab.interface("a", "eth0").mtu as usize;
        sandbox::ping(&lab.netns("a"), lab.address("a", "b", false), mtu - 28).unwrap();
        let before = lab.link("@l0.0", "under").stats.tx_bytes;
        lab.udp("a", "b", false).unwrap();
        let sent = lab.link("@l0.0", "under").stats.tx_bytes - before;
        // The question alone: 8 bytes, UDP, IP, Ethernet, VXLAN, UDP, IP, Ethernet.
        assert!(
            sent >= 8 + 8 + 20 + 14 + 8 + 8 + 20 + 14,
            "{sent} bytes on the underlay"
        );
        assert_eq!(lab.link("@l0.1", "tunnel").kind.as_deref(), Some("vxlan"));
    });
}

#[test]
fn two_hosts_share_a_cable_and_three_a_switch_without_a_firewall() {
    sandbox::run("wire", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: container}, c: {kind: native}}
  links:
    - {type: vxlan, endpoints: ['a:eth0', 'b:eth0']}
    - {type: vxlan, endpoints: ['a:eth1', 'b:eth1', 'c:eth1']}",
        );
        let links: Vec<_> = lab.namespaces();
        let links: Vec<_> = links.iter().filter(|name| name.starts_with('@')).collect();
        assert_eq!(links, ["@l0.0", "@l0.1", "@l1", "@l1.0", "@l1.1", "@l1.2"]);
        lab.assert_reaches("a", "b");
        let (one, two) = (lab.link("@l0.0", "under"), lab.link("@l0.1", "under"));
        assert_eq!((one.parent, two.parent), (Some(two.index), Some(one.index)));
        assert_eq!((one.mtu_bytes, two.mtu_bytes), (1500, 1500));
        assert_eq!(one.alias.as_deref(), Some("latlab:test-lab"));
        assert_eq!(two.alias, one.alias);

        assert_eq!(interfaces(&lab, "@l1"), ["p0", "p1", "p2", "underlay"]);
        for what in ["ip", "ip6", "arp"] {
            let key = format!("net/bridge/bridge-nf-call-{what}tables");
            // A kernel without br_netfilter, or one that has not loaded it.
            let wire = setting(&lab.netns("@l1"), &key).unwrap_or("0".into());
            assert_eq!(wire.trim(), "0", "{key}");
        }
    });
}

/// A network setting in a namespace; `None` if the kernel has none of this name.
fn setting(netns: &NetNs, key: &str) -> Option<String> {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            netns::enter(netns.as_fd()).unwrap();
            std::fs::read_to_string(format!("/proc/sys/{key}")).ok()
        });
        inside.join().unwrap()
    })
}

#[test]
fn a_guest_is_reached_over_every_kind_of_link() {
    for kind in ["veth", "bridge", "nat", "macvlan", "vxlan"] {
        sandbox::run(&format!("guest-{kind}"), |directory| {
            let lab = deploy(
                directory,
                &format!(
                    "  nodes: {{a: {{kind: native}}, v: {{kind: vm}}}}
  links: [{{type: {kind}, endpoints: ['a:eth0', 'v:eth0']}}]"
                ),
            );
            let guest = Guest::new(&lab, 0);
            // Over nat, the guest's neighbour is the router.
            let neighbour = match &lab.plan.links[0].medium {
                latlab_model::plan::Medium::Nat(nat) => nat.inside[0].addr(),
                _ => lab.interface("a", "eth0").addresses[0].addr(),
            };
            let mac = guest.resolve(v4(neighbour));
            assert!(
                mac.is_some(),
                "{kind}: {neighbour} does not answer the guest"
            );
            if kind != "nat" {
                assert_eq!(mac.unwrap(), lab.interface("a", "eth0").mac.0, "{kind}");
            }
        });
    }
}

#[test]
fn a_guest_outside_of_a_nat_reaches_router_and_published_addresses() {
    sandbox::run("guest-outside", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {v: {kind: vm}, a: {kind: native}}
  links: [{type: nat, endpoints: ['v:eth0', 'a:eth0']}]",
        );
        let latlab_model::plan::Medium::Nat(nat) = &lab.plan.links[0].medium else {
            panic!("not a nat")
        };
        let guest = Guest::new(&lab, 0);
        let router = guest.resolve(v4(nat.outside[0].addr()));
        assert!(router.is_some());
        assert_eq!(guest.resolve(v4(nat.published[0][0].addr())), router);
    });
}

#[test]
fn two_guests_are_joined_and_answer_each_other() {
    sandbox::run("guests", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {v: {kind: vm}, w: {kind: vm}}
  links: [{endpoints: ['v:eth0', 'w:eth0']}]",
        );
        let (v, w) = (Guest::new(&lab, 0), Guest::new(&lab, 1));
        std::thread::scope(|scope| {
            let answered = scope.spawn(|| w.answer(v.address));
            assert_eq!(v.resolve(w.address), Some(w.mac));
            assert!(answered.join().unwrap());
        });
    });
}

#[test]
fn a_guest_and_a_host_node_share_a_tap_in_the_root_namespace() {
    sandbox::run("guest-host", |directory| {
        let mut lab = deploy(
            directory,
            "  nodes: {h: {kind: host}, v: {kind: vm}}
  links: [{endpoints: ['h:lab0', 'v:eth0']}]",
        );
        assert_eq!(lab.link("h", "lab0").kind.as_deref(), Some("tun"));
        assert_eq!(
            lab.link("h", "lab0").alias.as_deref(),
            Some("latlab:test-lab")
        );
        assert!(
            Guest::new(&lab, 0)
                .resolve(v4(lab.interface("h", "lab0").addresses[0].addr()))
                .is_some()
        );
        // As when QEMU is killed.
        lab.taps.clear();
        assert!(interfaces(&lab, "h").is_empty());
    });
}

#[test]
fn a_rate_is_on_the_egress_of_the_end_that_has_it_and_only_there() {
    sandbox::run("rate", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}, d: {kind: native}}
  links:
    - endpoints: [{node: a, interface: eth0, rate: 250Mbit}, 'b:eth0']
    - {type: bridge, rate: 40Gbit, endpoints: ['a:eth1', 'b:eth1']}
    - {type: macvlan, rate: 1Mbit, endpoints: ['c:eth0', 'd:eth0']}",
        );
        let rate = |node: &str, interface: &str| match root_qdisc(&lab, node, interface).settings {
            Some(Qdisc::Tbf(tbf)) => Some(tbf.rate_bits_per_second),
            _ => None,
        };
        assert_eq!(rate("a", "eth0"), Some(250_000_000));
        assert_eq!(
            (rate("a", "eth1"), rate("b", "eth1")),
            (Some(40_000_000_000), Some(40_000_000_000))
        );
        assert_eq!(
            (rate("c", "eth0"), rate("d", "eth0")),
            (Some(1_000_000), Some(1_000_000))
        );
        let b = lab.link("b", "eth0").index;
        let qdiscs = lab.handle("b").qdiscs().unwrap();
        assert!(
            !qdiscs
                .iter()
                .any(|qdisc| qdisc.interface == b && qdisc.kind == "tbf")
        );
        lab.assert_reaches("a", "b");
        lab.assert_reaches("c", "d");
    });
}

#[test]
fn a_guests_rate_is_on_a_shaper_behind_its_tap() {
    for (kind, netns, shaper) in [
        ("veth", "@l0", "q1"),
        ("bridge", "@l0", "q1"),
        ("nat", "@l0", "q1"),
        ("macvlan", "@l0", "p1"),
        ("vxlan", "@l0.1", "q1"),
    ] {
        sandbox::run(&format!("shaper-{kind}"), |directory| {
            let lab = deploy(
                directory,
                &format!(
                    "  nodes: {{a: {{kind: native}}, v: {{kind: vm}}}}
  links: [{{type: {kind}, endpoints: ['a:eth0', {{node: v, interface: eth0, rate: 100Mbit}}]}}]"
                ),
            );
            match root_qdisc(&lab, netns, shaper).settings {
                Some(Qdisc::Tbf(tbf)) => assert_eq!(tbf.rate_bits_per_second, 100_000_000),
                other => panic!("{kind}: {other:?}"),
            }
            if kind != "nat" {
                let other = v4(lab.interface("a", "eth0").addresses[0].addr());
                assert!(Guest::new(&lab, 0).resolve(other).is_some(), "{kind}");
            }
        });
    }
}

#[test]
fn an_impaired_guest_meets_a_host_node_through_its_shaper() {
    sandbox::run("shaper-host", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {h: {kind: host}, v: {kind: vm}}
  links: [{endpoints: ['h:lab0', {node: v, interface: eth0, rate: 10Mbit}]}]",
        );
        assert_eq!(interfaces(&lab, "h"), ["lab0"]);
        let host = v4(lab.interface("h", "lab0").addresses[0].addr());
        assert!(Guest::new(&lab, 0).resolve(host).is_some());
    });
}

#[test]
fn delay_is_there_or_refused_with_the_reason() {
    sandbox::run("delay", |directory| {
        let topology = "  nodes: {a: {kind: native}, b: {kind: native}}
  links: [{name: slow, delay: 5ms, loss: 10%, rate: 1Mbit, endpoints: ['a:eth0', 'b:eth0']}]";
        let try_netem =
            "tc qdisc add dev lo root netem delay 1ms && tc qdisc del dev lo root netem";
        let tried = std::process::Command::new("sh")
            .args(["-c", try_netem])
            .output();
        let has_netem = tried.unwrap().status.success();
        match try_deploy(directory, topology) {
            Ok(lab) => {
                assert!(has_netem);
                match root_qdisc(&lab, "a", "eth0").settings {
                    Some(Qdisc::Netem(netem)) => {
                        assert_eq!(netem.delay, Duration::from_millis(5));
                        assert!((netem.loss - 0.1).abs() < 1e-6);
                    }
                    other => panic!("{other:?}"),
                }
                assert!(
                    lab.handle("a")
                        .qdiscs()
                        .unwrap()
                        .iter()
                        .any(|q| q.kind == "tbf")
                );
            }
            Err(error) => {
                assert!(!has_netem, "{error}");
                let wanted = "link `slow`: this kernel has no `netem` queueing discipline";
                assert_eq!(error.to_string(), wanted);
            }
        }
    });
}

#[test]
fn given_addresses_and_several_interfaces_are_configured() {
    sandbox::run("addresses", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}}
  links:
    - endpoints:
        - {node: a, interface: eth0, addresses: [10.1.2.3/24, 'fd99::3/64']}
        - {node: b, interface: eth0, addresses: [10.1.2.4/24, 'fd99::4/64']}
    - {type: bridge, endpoints: ['a:eth1', 'b:eth1', 'c:eth1'], mtu: 1000}",
        );
        let seen = lab.udp("a", "b", false).unwrap();
        assert_eq!(seen, "10.1.2.3".parse::<IpAddr>().unwrap());
        assert_eq!(
            lab.udp("b", "a", true).unwrap(),
            "fd99::4".parse::<IpAddr>().unwrap()
        );
        lab.udp("a", "c", false).unwrap();
        // Below 1280 bytes there is no IPv6.
        assert_eq!(lab.interface("c", "eth1").addresses.len(), 1);
    });
}

#[test]
fn nothing_remains_and_the_same_lab_can_be_made_again() {
    sandbox::run("again", |directory| {
        let topology = "  nodes: {h: {kind: host}, a: {kind: native}, v: {kind: vm}}
  links:
    - {type: bridge, endpoints: ['h:lab0', 'a:eth0', 'v:eth0']}
    - {type: nat, endpoints: ['a:eth1', 'v:eth1', 'h:lab1']}
    - {type: vxlan, endpoints: ['a:eth2', 'v:eth2']}
    - {type: macvlan, endpoints: ['a:eth3', 'v:eth3']}
    - endpoints: ['a:eth4', 'v:eth4']";
        for _ in 0..3 {
            let lab = deploy(directory, topology);
            lab.assert_reaches("a", "h");
            let mut root = Handle::open().unwrap();
            for name in links::host_interfaces(&lab.plan) {
                root.apply(&latlab_netlink::delete(&name)).unwrap();
            }
            remove_all(directory);
            assert!(lab.namespaces().is_empty());
            assert!(interfaces(&lab, "h").is_empty());
        }
    });
}

#[test]
fn a_guest_configures_itself_so_the_host_leaves_its_namespace_empty() {
    sandbox::run("guest-namespace", |directory| {
        let lab = deploy(
            directory,
            "  nodes: {v: {kind: vm}, a: {kind: native}}
  links: [{type: bridge, endpoints: ['v:eth0', 'a:eth0']}]",
        );
        assert!(interfaces(&lab, "v").is_empty());
    });
}
