//! The client against the running kernel, in network namespaces of its own.
//!
//! Every test moves its thread into a fresh namespace before it opens anything, so nothing of the
//! machine can be touched; without root the tests say so and pass. The namespaces vanish with the
//! threads and descriptors that hold them.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use latlab_netlink::{
    Address, Error, Handle, Interface, Link, LinkChange, LinkKind, MacAddress, Neighbour, Netem,
    NewLink, Parent, Qdisc, Request, Route, Tbf, Vxlan, delete, delete_root_qdisc,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// The output of a command line in the network namespace of this thread.
fn output(line: &str) -> String {
    let shell = Command::new("sh").args(["-ec", line]).output().unwrap();
    assert!(shell.status.success(), "{line}: {shell:?}");
    String::from_utf8(shell.stdout).unwrap()
}

/// Runs `body` on a thread with a network namespace of its own, if this process may make one.
fn in_fresh_netns(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let outcome = scope.spawn(|| {
            if !rustix::process::geteuid().is_root() {
                eprintln!("skipped: needs root to make a network namespace");
                return;
            }
            enter_fresh_netns();
            body();
        });
        if let Err(panic) = outcome.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn enter_fresh_netns() {
    // SAFETY: only the network namespace of this thread changes; no descriptor table is unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

fn current_netns() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

/// A second namespace; the calling thread stays where it is.
fn another_netns() -> File {
    let here = current_netns();
    enter_fresh_netns();
    let other = current_netns();
    move_into_link_name_space(here.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    other
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn link(handle: &mut Handle, name: &str) -> Link {
    handle
        .link(name)
        .unwrap()
        .unwrap_or_else(|| panic!("no link {name}"))
}

#[test]
fn a_veth_is_made_in_its_two_final_namespaces_in_one_message() {
    in_fresh_netns(|| {
        let (left, right) = (another_netns(), another_netns());
        let mac = MacAddress([2, 0, 0, 0, 0, 7]);
        let mut here = Handle::open().unwrap();
        let near = Interface::new("eth0").netns(left.as_fd()).mtu(Some(1400));
        let far = Interface::new("eth5")
            .netns(right.as_fd())
            .mac(Some(mac))
            .mtu(Some(1400));
        here.apply(&NewLink::new(near, LinkKind::Veth(far)).up().request())
            .unwrap();
        assert_eq!(here.links().unwrap().len(), 1, "only the loopback is here");

        let mut handles = Handle::open_each(&[left.as_fd(), right.as_fd()]).unwrap();
        let alias = LinkChange::of("eth5")
            .alias("latlab:test")
            .up(true)
            .request();
        handles[1].apply(&alias).unwrap();
        let near = link(&mut handles[0], "eth0");
        let far = link(&mut handles[1], "eth5");
        assert_eq!((near.mtu_bytes, far.mtu_bytes), (1400, 1400));
        assert_eq!(far.mac, Some(mac));
        assert_eq!(far.kind.as_deref(), Some("veth"));
        assert_eq!(far.alias.as_deref(), Some("latlab:test"));
        assert!(near.up && near.carrier && far.up && far.carrier);
        assert!(
            near.parent_netns.is_some(),
            "the peer is in another namespace"
        );
        assert_eq!(near.parent, Some(far.index));
    });
}

#[test]
fn a_batch_goes_on_after_a_failure_and_names_each_one() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        // More than one chunk, with a failure in the first chunk and one as the very last request.
        let mut requests: Vec<_> = (0..300).map(|i| bridge(&format!("br{i}"))).collect();
        requests[5] = bridge("br4");
        requests.push(delete("missing"));
        let results = handle.apply_each(&requests).unwrap();
        let failed: Vec<_> = results
            .iter()
            .enumerate()
            .filter(|(_, result)| result.is_err())
            .collect();
        assert_eq!(
            failed.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [5, 300]
        );
        let first = failed[0].1.as_ref().unwrap_err();
        assert!(
            first
                .to_string()
                .starts_with("create bridge br4: File exists"),
            "{first}"
        );
        assert!(failed[1].1.as_ref().unwrap_err().is_not_found());
        assert_eq!(handle.links().unwrap().len(), 300);

        let error = handle.apply_all(&requests[..10]).unwrap_err();
        assert!(matches!(error, Error::Several { ref errors, requests: 10 } if errors.len() == 10));
    });
}

fn bridge(name: &str) -> Request<'static> {
    NewLink::new(Interface::new(name), LinkKind::Bridge)
        .up()
        .request()
}

#[test]
fn every_failure_of_a_large_batch_is_reported() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        let requests: Vec<_> = (0..2000).map(|i| delete(&format!("none{i}"))).collect();
        let results = handle.apply_each(&requests).unwrap();
        assert!(
            results
                .iter()
                .all(|result| result.as_ref().is_err_and(Error::is_not_found))
        );
        let last = results[1999].as_ref().unwrap_err().to_string();
        assert!(last.starts_with("delete link none1999: "), "{last}");
    });
}

#[test]
fn bridge_ports_and_settings() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        handle.apply(&bridge("br0")).unwrap();
        let index = handle.link_index("br0").unwrap();
        let other = another_netns();
        let near = Interface::new("port0");
        let far = Interface::new("eth0").netns(other.as_fd());
        handle
            .apply(
                &NewLink::new(near, LinkKind::Veth(far))
                    .master(index)
                    .up()
                    .request(),
            )
            .unwrap();
        assert_eq!(link(&mut handle, "port0").master, Some(index));
        handle
            .apply(&LinkChange::of("port0").master(0).request())
            .unwrap();
        assert_eq!(link(&mut handle, "port0").master, None);
        handle
            .apply(&LinkChange::of("port0").up(false).mtu(1300).request())
            .unwrap();
        let port = link(&mut handle, "port0");
        assert_eq!((port.up, port.mtu_bytes), (false, 1300));
        handle
            .apply(&LinkChange::rename(port.index, "other").request())
            .unwrap();
        assert_eq!(link(&mut handle, "other").index, port.index);
        handle
            .apply(&LinkChange::of("other").netns(other.as_fd()).request())
            .unwrap();
        assert_eq!(handle.link("other").unwrap(), None);
        assert_eq!(handle.link_by_index(4_000_000).unwrap(), None);
    });
}

#[test]
fn macvlan_macvtap_and_vxlan() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        let parent = NewLink::new(
            Interface::new("parent"),
            LinkKind::Veth(Interface::new("stub")),
        );
        handle.apply(&parent.up().request()).unwrap();
        let index = handle.link_index("parent").unwrap();
        let other = another_netns();
        let macvlan = Interface::new("eth0").netns(other.as_fd());
        let macvtap = Interface::new("tap0");
        let local = Some(ip("10.9.0.1"));
        let vxlan = Vxlan {
            vni: 42,
            local,
            remote: None,
            parent: None,
            port: 4789,
            udp_checksum: true,
            learning: true,
        };
        handle
            .apply_all(&[
                NewLink::new(macvlan, LinkKind::Macvlan(index))
                    .up()
                    .request(),
                NewLink::new(
                    macvtap,
                    LinkKind::Macvtap {
                        parent: index,
                        is_alone: false,
                    },
                )
                .up()
                .request(),
                NewLink::new(Interface::new("vx0"), LinkKind::Vxlan(vxlan))
                    .up()
                    .request(),
            ])
            .unwrap();
        let mut inside = Handle::open_in(other.as_fd()).unwrap();
        assert_eq!(link(&mut inside, "eth0").kind.as_deref(), Some("macvlan"));
        assert_eq!(link(&mut handle, "tap0").kind.as_deref(), Some("macvtap"));
        let vxlan = link(&mut handle, "vx0").index;
        let remotes = [ip("10.9.0.2"), ip("10.9.0.3")];
        let floods = remotes.map(|remote| Neighbour::flood_to(vxlan, remote));
        handle.apply_all(&floods).unwrap();
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        handle
            .apply(&Neighbour::forward(vxlan, mac, remotes[0]))
            .unwrap();
        let entries = output("bridge fdb show dev vx0");
        for remote in remotes {
            assert!(entries.contains(&format!("00:00:00:00:00:00 dst {remote} ")));
        }
        assert!(entries.contains("02:00:00:00:00:09 dst 10.9.0.2 "));
    });
}

#[test]
fn addresses_are_usable_at_once_and_routes_follow() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        let pair = NewLink::new(Interface::new("a"), LinkKind::Veth(Interface::new("b")));
        handle.apply(&pair.up().request()).unwrap();
        handle
            .apply(&LinkChange::of("b").up(true).request())
            .unwrap();
        let interface = handle.link_index("a").unwrap();
        let v4 = Address {
            interface,
            address: ip("10.1.0.2"),
            prefix_length: 24,
        };
        let v6 = Address {
            interface,
            address: ip("fd00::2"),
            prefix_length: 64,
        };
        let default = |destination: &str, via: &str| Route {
            destination: (ip(destination), 0),
            via: Some(ip(via)),
            interface: None,
        };
        let onlink = Route {
            destination: (ip("10.2.0.0"), 16),
            via: None,
            interface: Some(interface),
        };
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        handle
            .apply_all(&[
                v4.add(),
                v6.add(),
                default("0.0.0.0", "10.1.0.1").add(),
                default("::", "fd00::1").add(),
                onlink.add(),
                Neighbour::permanent(interface, ip("10.1.0.1"), mac),
            ])
            .unwrap();
        std::net::UdpSocket::bind((ip("fd00::2"), 0)).expect("an IPv6 address usable at once");
        let deadline = Instant::now() + Duration::from_secs(5);
        while !handle.receiving_ipv6().unwrap().contains(&ip("fd00::2")) {
            assert!(Instant::now() < deadline, "no local route for fd00::2");
        }
        let addresses = handle.addresses().unwrap();
        for wanted in [v4, v6] {
            let found = addresses
                .iter()
                .find(|found| found.address == wanted)
                .unwrap();
            assert!(!found.tentative && !found.duplicate);
        }
        let routes = handle.routes().unwrap();
        let gateways: Vec<_> = routes.iter().filter_map(|route| route.via).collect();
        assert!(gateways.contains(&ip("10.1.0.1")) && gateways.contains(&ip("fd00::1")));
        assert!(
            routes
                .iter()
                .any(|route| route.destination == Some(ip("10.2.0.0")))
        );
        assert!(
            handle
                .neighbours()
                .unwrap()
                .iter()
                .any(|entry| entry.mac == Some(mac))
        );

        let again = handle.apply(&v4.add()).unwrap_err();
        let text = again.to_string();
        assert!(
            text.starts_with("add address 10.1.0.2/24 on link #"),
            "{text}"
        );
        handle.apply_all(&[onlink.remove(), v4.remove()]).unwrap();
        assert!(
            !handle
                .addresses()
                .unwrap()
                .iter()
                .any(|found| found.address == v4)
        );
    });
}

#[test]
fn a_rate_is_set_exactly_and_taken_away() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        handle.apply(&bridge("br0")).unwrap();
        let index = handle.link_index("br0").unwrap();
        for rate_bits_per_second in [64_000, 10_000_000, 1_000_000_000, 100_000_000_000] {
            let tbf = Tbf {
                rate_bits_per_second,
                burst_bytes: 1 << 17,
                limit_bytes: 1 << 20,
            };
            handle
                .apply(&Qdisc::Tbf(tbf).replace(index, Parent::Root, 1))
                .unwrap();
            let qdiscs = handle.qdiscs().unwrap();
            let found = qdiscs
                .iter()
                .find(|qdisc| qdisc.interface == index && qdisc.is_root);
            match found.and_then(|qdisc| qdisc.settings) {
                Some(Qdisc::Tbf(read)) => {
                    assert_eq!(read.rate_bits_per_second, rate_bits_per_second);
                    assert_eq!(read.limit_bytes, tbf.limit_bytes);
                }
                other => panic!("no tbf but {other:?}"),
            }
        }
        handle.apply(&delete_root_qdisc(index)).unwrap();
        let qdiscs = handle.qdiscs().unwrap();
        assert!(!qdiscs.iter().any(|qdisc| qdisc.kind == "tbf"));
    });
}

#[test]
fn netem_works_if_the_kernel_has_it() {
    in_fresh_netns(|| {
        let mut handle = Handle::open().unwrap();
        let netem = Netem {
            delay: Duration::from_millis(3),
            jitter: Duration::from_micros(100),
            loss: 0.25,
            limit_packets: 5000,
        };
        let index = handle.link_index("lo").unwrap();
        let result = handle.apply(&Qdisc::Netem(netem).replace(index, Parent::Root, 1));
        if let Err(error) = result {
            assert!(error.is_not_found(), "{error}");
            let refused = output("tc qdisc add dev lo root netem delay 1ms 2>&1 || true");
            assert!(!refused.is_empty(), "netem is there for tc");
            return;
        }
        let qdiscs = handle.qdiscs().unwrap();
        match qdiscs.iter().find_map(|qdisc| qdisc.settings) {
            Some(Qdisc::Netem(read)) => {
                assert_eq!((read.delay, read.jitter), (netem.delay, netem.jitter));
                assert!((read.loss - 0.25).abs() < 1e-6);
            }
            other => panic!("no netem but {other:?}"),
        }
    });
}
