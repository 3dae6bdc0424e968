//! Two hosts, a daemon on each, joined by every kind of link; guests on taps and in containers.

mod common;

use std::path::{Path, PathBuf};

use common::flow::Flow;
use common::{Daemon, World, run};
use latlab_overlay::links::udp::sealed;

/// Two hosts (namespaces) on one wire, and on each a guest (a namespace of its own).
struct Two {
    hosts: [PathBuf; 2],
    guests: [PathBuf; 2],
}

impl Two {
    fn new(world: &World) -> Two {
        let hosts = ["h1", "h2"].map(|name| world.namespace(name));
        let guests = ["g1", "g2"].map(|name| world.namespace(name));
        let wire = format!(
            "ip link add wire mtu 1600 type veth peer name wire mtu 1600 netns {}",
            hosts[1].display()
        );
        world.at(&hosts[0], &wire);
        for (number, host) in hosts.iter().enumerate() {
            world.at(host, "ip link set wire up");
            let address = format!("ip address add 192.0.2.{}/24 dev wire", number + 1);
            world.at(host, &address);
        }
        Two { hosts, guests }
    }

    /// Starts both daemons with a tap for the guest and this link, in which `R` and `L` stand for the
    /// other host and this one.
    fn taps(&self, world: &World, link: &str) -> [Daemon; 2] {
        self.taps_with(world, [link, link])
    }

    /// As `taps`, when the two ends are told different things.
    fn taps_with(&self, world: &World, links: [&str; 2]) -> [Daemon; 2] {
        [0, 1].map(|at: usize| {
            let link = links[at];
            let (own, other) = (at + 1, 2 - at);
            let link = link
                .replace("{R}", &format!("192.0.2.{other}"))
                .replace("{L}", &format!("192.0.2.{own}"));
            let config = format!(
                "add network lan vni 42
                 add interface guest network lan tap lan0 netns {}
                 add link other {link}\n",
                self.guests[at].display()
            );
            let daemon = world.daemon_at(&self.hosts[at], &format!("control{own}"), &config);
            self.address(world, at, "lan0");
            daemon
        })
    }

    /// Starts both daemons with a veth for the guest, which is a container then, and this link.
    fn containers(&self, world: &World, link: &str) -> [Daemon; 2] {
        [0, 1].map(|at: usize| {
            let (own, other) = (at + 1, 2 - at);
            let guest = self.guests[at].display();
            let host = &self.hosts[at];
            world.at(
                host,
                &format!("ip link add c0 type veth peer name eth0 netns {guest}"),
            );
            world.at(host, "ip link set c0 up");
            world.at(&self.guests[at], "ip link set eth0 mtu 1450 up");
            let link = link
                .replace("{R}", &format!("192.0.2.{other}"))
                .replace("{L}", &format!("192.0.2.{own}"));
            let config = format!(
                "add network lan vni 42
                 add interface guest network lan veth c0
                 add link other {link}\n"
            );
            let daemon = world.daemon_at(host, &format!("control{own}"), &config);
            self.address(world, at, "eth0");
            daemon
        })
    }

    fn address(&self, world: &World, at: usize, device: &str) {
        let guest = &self.guests[at];
        world.at(
            guest,
            &format!("ip address add 10.7.0.{}/24 dev {device}", at + 1),
        );
        world.at(
            guest,
            &format!("ip address add fd07::{}/64 dev {device} nodad", at + 1),
        );
    }
}

/// Small, large and many packets of both families pass, and bulk in both directions.
fn everything_passes(world: &World, from: &Path, to: &Path) {
    world.at(from, "ping -c 5 -i 0.01 -W 20 10.7.0.2");
    world.at(from, "ping -c 5 -i 0.01 -W 20 fd07::2");
    world.at(from, "ping -c 3 -i 0.01 -W 20 -s 1400 10.7.0.2");
    let mut server = world.command(to, "iperf3 -s -p 5201");
    let _server = common::Running::start(server.stdout(std::process::Stdio::null()));
    common::eventually("iperf3 listens", || {
        world.at(to, "ss -ltnH").contains(":5201")
    });
    for more in ["", "-R", "-u -b 50M -l 1000"] {
        let line = format!("iperf3 -c 10.7.0.2 -t 1 -p 5201 -J {more}");
        let mut said = String::new();
        // The server may not have noticed the end of the previous run, or may time out on a busy machine: retried.
        common::eventually("iperf3 comes to an end", || {
            said = world.at(from, &line);
            !said.contains("\"error\":")
        });
        let sent = said
            .rfind("\"bits_per_second\"")
            .unwrap_or_else(|| panic!("no result: {said}"));
        let rate: f64 = said[sent..]
            .split([':', ','])
            .nth(1)
            .and_then(|number| number.trim().parse().ok())
            .expect("a number");
        assert!(rate > 1e6, "hardly anything passed: {rate} bit/s ({more})");
    }
}

fn over(name: &str, link: &str) {
    over_each(name, [link, link]);
}

fn over_each(name: &str, links: [&str; 2]) {
    run(name, |world| {
        let two = Two::new(world);
        let daemons = two.taps_with(world, links);
        everything_passes(world, &two.guests[0], &two.guests[1]);
        for daemon in &daemons {
            assert!(daemon.counter("other", "received_frames") > 10);
            assert!(daemon.counter("other", "sent_frames") > 10);
            assert_eq!(daemon.counter("other", "dropped_malformed"), 0);
        }
    });
}

#[test]
fn hosts_are_joined_by_vxlan() {
    over("overlay-vxlan", "vxlan {R} local {L}");
}

#[test]
fn hosts_are_joined_by_its_own_format() {
    over("overlay-udp", "udp {R} local {L}");
}

#[test]
fn hosts_are_joined_by_bare_frames() {
    over("overlay-direct", "direct wire network lan");
}

#[test]
fn hosts_are_joined_by_tcp() {
    over_each(
        "overlay-tcp",
        ["connect {R}:4795", "listen {L}:4795 peer {R}"],
    );
}

/// Runs `body` with what the two ends of a sealed link are told; the peer's private keys are in files meanwhile.
fn sealed(body: impl FnOnce([&str; 2])) {
    let keys = [(), ()].map(|()| sealed::Identity::generate().expect("a key"));
    let files = [1, 2].map(|own| {
        std::env::temp_dir().join(format!("latlab-sealed-{}-{own}", std::process::id()))
    });
    for (file, key) in files.iter().zip(&keys) {
        std::fs::write(file, key.private_text()).expect("written");
    }
    let link = |own: usize| {
        let peer = sealed::hexadecimal(&keys[1 - own].public());
        format!(
            "sealed {{R}} local {{L}} key {} peer {peer}",
            files[own].display()
        )
    };
    body([&link(0), &link(1)]);
    for file in &files {
        std::fs::remove_file(file).expect("removed");
    }
}

#[test]
fn hosts_are_joined_by_sealed_datagrams() {
    sealed(|links| over_each("overlay-sealed", links));
}

/// From the peer's own address, as who forges it would.
#[test]
fn a_flood_of_forged_handshakes_does_not_keep_sealed_hosts_apart() {
    const FLOOD: &str = "import os,socket,time
s=socket.socket(2,2);m=b'L\\x03\\0\\0'+os.urandom(152)
while 1:
  for _ in range(100): s.sendto(m,('192.0.2.2',51789))
  time.sleep(.004)";
    sealed(|links| {
        run("overlay-flood", |world| {
            let two = Two::new(world);
            let mut flood = world.command(&two.hosts[0], "python3 -c");
            let _flood =
                common::Running::start(flood.arg(FLOOD).stderr(std::process::Stdio::null()));
            let daemons = two.taps_with(world, links);
            common::eventually("the flood arrives", || {
                daemons[1].counter("other", "dropped_unauthentic") > 10_000
            });
            world.at(&two.guests[0], "ping -c 5 -i 0.05 -W 20 10.7.0.2");
        });
    });
}

#[test]
fn a_link_comes_and_goes_while_another_stays() {
    run("overlay-links", |world| {
        let two = Two::new(world);
        let daemons = two.taps(world, "vxlan {R} local {L}");
        world.at(&two.guests[0], "ping -c 2 -i 0.01 -W 20 10.7.0.2");
        let daemon = &daemons[0];
        for _ in 0..20 {
            daemon.tell("add link more vxlan 192.0.2.77 local 192.0.2.1");
            daemon.tell("delete link more");
        }
        // The first link had the sockets; its heir gets them.
        daemon.tell("add link more vxlan 192.0.2.2 local 192.0.2.1:4790");
        daemon.tell("delete link more");
        // Two links to one host cannot be there at once.
        let mut client = daemon.client();
        let again = "add link again vxlan 192.0.2.2 local 192.0.2.1";
        let refused = client.say(again).unwrap_err();
        assert!(
            refused.starts_with("error 1: link `other` is VXLAN from 192.0.2.1:4789"),
            "{refused}"
        );
        world.at(&two.guests[0], "ping -c 2 -i 0.01 -W 20 10.7.0.2");
    });
}

/// Datagrams are awaited at the address that leads to the other host, at no other of this host's.
#[test]
fn a_link_listens_at_the_address_that_leads_to_its_peer() {
    run("overlay-local", |world| {
        let two = Two::new(world);
        let daemons = two.taps(world, "udp {R} networks lan");
        world.at(&two.guests[0], "ping -c 2 -i 0.01 -W 20 10.7.0.2");
        let bound = world.at(&two.hosts[0], "ss -ulnH sport = :51789");
        assert!(bound.contains("192.0.2.1:51789"), "{bound}");
        assert!(!bound.contains("0.0.0.0:51789"), "{bound}");
        let mut client = daemons[0].client();
        let nowhere = client.say("add link more udp 203.0.113.7").unwrap_err();
        assert!(nowhere.contains("has to be a route"), "{nowhere}");
    });
}

/// An interface is ours by its label, not by its name.
#[test]
fn interfaces_of_others_with_our_names_stay() {
    run("overlay-names", |world| {
        let two = Two::new(world);
        let [mut daemon, _other] = two.containers(world, "vxlan {R} local {L}");
        let host = &two.hosts[0];
        let room = || {
            let said = world.at(host, "ip -o link show type bridge");
            let name = said.split(": ").nth(1).map(str::to_owned);
            name.filter(|name| name.starts_with("ovroom"))
        };
        common::eventually("containers are given room", || room().is_some());
        let bridge = room().unwrap();
        let pid = rustix::process::Pid::from_child(&daemon.process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        daemon.process.0.wait().unwrap();
        assert_eq!(room(), None);
        // Another program's bridge, with the same name.
        world.at(host, &format!("ip link add {bridge} type bridge"));
        let before = world.at(host, &format!("ip -o link show {bridge}"));
        let (config, socket) = (world.path("control1.conf"), world.path("control1"));
        daemon = Daemon::start(&config, &socket, Some(host));
        world.at(&two.guests[0], "ping -c 3 -i 0.01 -W 20 10.7.0.2");
        let pid = rustix::process::Pid::from_child(&daemon.process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        daemon.process.0.wait().unwrap();
        assert_eq!(world.at(host, &format!("ip -o link show {bridge}")), before);
    });
}

/// A link gives its place to another to the same host, again and again, and no frame is lost over it.
fn a_link_is_replaced(world: &World, two: &Two, daemon: &Daemon, link: &str) {
    let [one, other] = &two.guests;
    world.at(one, "ping -c 2 -i 0.01 -W 20 10.7.0.2");
    let flows = [
        Flow::start(one, other, "10.7.0.2"),
        Flow::start(other, one, "10.7.0.1"),
    ];
    let mut client = daemon.client();
    let mut say = |line: &str| client.say(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    for _ in 0..100 {
        for (old, new) in [("other", "again"), ("again", "other")] {
            say("begin");
            say(&format!("delete link {old}"));
            say(&format!("add link {new} {link}"));
            say("commit");
        }
    }
    for flow in flows {
        assert!(flow.finish() > 0);
    }
    // A change that fails leaves the link as it is, with its place.
    say("begin");
    say("delete link other");
    say(&format!("add link again {link}"));
    say("add link zz udp 192.0.2.2 local 203.0.113.1");
    assert!(client.say("commit").is_err());
    world.at(one, "ping -c 2 -i 0.01 -W 20 10.7.0.2");
}

#[test]
fn a_link_takes_the_place_of_another_to_the_same_host() {
    run("overlay-heirs", |world| {
        let two = Two::new(world);
        let link = "udp 192.0.2.2 local 192.0.2.1";
        let daemons = two.taps_with(world, [link, "udp 192.0.2.1 local 192.0.2.2"]);
        a_link_is_replaced(world, &two, &daemons[0], link);
    });
}

#[test]
fn a_link_of_containers_takes_the_place_of_another_to_the_same_host() {
    run("overlay-kernel-heirs", |world| {
        let two = Two::new(world);
        let daemons = two.containers(world, "vxlan {R} local {L}");
        let link = "vxlan 192.0.2.2 local 192.0.2.1";
        a_link_is_replaced(world, &two, &daemons[0], link);
    });
}

/// Containers on two hosts: the daemons decide, the kernel carries; also while a daemon is dead.
fn kernel_over(name: &str, link: &str) {
    run(name, |world| {
        let two = Two::new(world);
        let mut daemons = two.containers(world, link);
        everything_passes(world, &two.guests[0], &two.guests[1]);
        for daemon in &daemons {
            assert!(daemon.counter("guest", "in_kernel_frames") > 1000);
            assert_eq!(daemon.counter("guest", "dropped_refused"), 0);
            assert_eq!(daemon.counter("guest", "dropped_spoofed_source"), 0);
        }
        // Killed, not asked: what was decided stays in force.
        let [first, _] = &mut daemons;
        first.process.0.kill().unwrap();
        first.process.0.wait().unwrap();
        world.at(&two.guests[0], "ping -c 20 -i 0.01 -W 20 10.7.0.2");
        // The next daemon continues with it.
        let config = world.path("control1.conf");
        let socket = world.path("control1");
        *first = Daemon::start(&config, &socket, Some(&two.hosts[0]));
        everything_passes(world, &two.guests[0], &two.guests[1]);
        assert!(daemons[0].counter("guest", "in_kernel_frames") > 1000);
    });
}

#[test]
fn containers_on_two_hosts_are_joined_by_vxlan() {
    kernel_over("overlay-kernel-vxlan", "vxlan {R} local {L}");
}

#[test]
fn containers_on_two_hosts_are_joined_by_bare_frames() {
    kernel_over("overlay-kernel-direct", "direct wire network lan");
}

#[test]
fn containers_reach_each_other_on_one_host() {
    run("overlay-containers", |world| {
        let host = world.namespace("host");
        let guests = ["g1", "g2"].map(|name| world.namespace(name));
        let mut config = String::from("add network lan vni 42\n");
        for (at, guest) in guests.iter().enumerate() {
            let pair = format!(
                "ip link add c{at} type veth peer name eth0 netns {}",
                guest.display()
            );
            world.at(&host, &pair);
            world.at(&host, &format!("ip link set c{at} up"));
            world.at(guest, "ip link set eth0 up");
            world.at(
                guest,
                &format!("ip address add 10.7.0.{}/24 dev eth0", at + 1),
            );
            world.at(
                guest,
                &format!("ip address add fd07::{}/64 dev eth0 nodad", at + 1),
            );
            config += &format!("add interface c{at} network lan veth c{at}\n");
        }
        let daemon = world.daemon_at(&host, "control", &config);
        everything_passes(world, &guests[0], &guests[1]);
        assert!(daemon.counter("c0", "in_kernel_frames") > 1000);
    });
}

/// Routes, links, modes and ports change a thousand times; a flow that none of it is about loses
/// nothing. The flow is in the kernel between containers, or in the daemon between taps.
fn thousand_changes(daemon: &Daemon, [from, to]: [&Path; 2]) {
    let flow = Flow::start(from, to, "10.7.0.2");
    let mut client = daemon.client();
    let mut say = |line: &str| client.say(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    say("add network other vni 99");
    for round in 0..125 {
        let mac = format!("02:00:00:00:01:{round:02x}");
        say("add link spare udp 192.0.2.200");
        say(&format!("add route lan any {mac} link spare"));
        say("set dispatch mode guest");
        say("add interface spare0 network other tap spare0");
        say(&format!("delete route lan any {mac} link spare"));
        say("set dispatch mode adaptive");
        say("delete interface spare0");
        say("delete link spare");
    }
    assert!(flow.finish() > 1_000, "hardly anything was sent");
}

#[test]
fn changes_lose_nothing_between_taps() {
    run("overlay-changes-taps", |world| {
        let two = Two::new(world);
        let daemons = two.taps(world, "udp {R} local {L}");
        world.at(&two.guests[0], "ping -c 2 -i 0.01 -W 20 10.7.0.2");
        thousand_changes(&daemons[0], [&two.guests[0], &two.guests[1]]);
    });
}

#[test]
fn changes_lose_nothing_between_containers() {
    run("overlay-changes-kernel", |world| {
        let two = Two::new(world);
        let daemons = two.containers(world, "vxlan {R} local {L}");
        common::eventually("the kernel has it", || {
            world.at(&two.guests[0], "ping -c 2 -i 0.01 -W 20 10.7.0.2");
            let is_there = |daemon: &Daemon| daemon.counter("guest", "in_kernel_frames") > 0;
            daemons.iter().all(is_there)
        });
        thousand_changes(&daemons[0], [&two.guests[0], &two.guests[1]]);
    });
}
