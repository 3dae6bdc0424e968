//! A direct link's wire is the host's own interface as well: the host keeps its traffic there, whatever
//! becomes of the daemon.

mod common;
mod underlay;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use common::{Daemon, World, eventually, run};
use underlay::{Raw, ipv4_frame, link, mac_of, on};

/// Host `h1` with a container, and another machine on its wire that serves both.
struct Segment {
    host: PathBuf,
    other: PathBuf,
    container: PathBuf,
}

impl Segment {
    fn new(world: &World) -> Segment {
        let [host, other, container] = ["h1", "h2", "c1"].map(|name| world.namespace(name));
        let wire = format!(
            "ip link add wire type veth peer name wire netns {}",
            other.display()
        );
        world.at(&host, &wire);
        for (number, space) in [&host, &other].into_iter().enumerate() {
            let address = format!("ip address add 192.0.2.{}/24 dev wire", number + 1);
            world.at(space, &address);
            world.at(space, "ip link set wire up");
        }
        world.at(&other, "ip address add 10.7.0.2/24 dev wire");
        let pair = format!(
            "ip link add c0 type veth peer name eth0 netns {}",
            container.display()
        );
        world.at(&host, &pair);
        world.at(&host, "ip link set c0 up");
        world.at(&container, "ip link set eth0 up");
        world.at(&container, "ip address add 10.7.0.1/24 dev eth0");
        Segment {
            host,
            other,
            container,
        }
    }

    /// The host is found by ARP, answers, and takes and opens connections.
    fn host_has_its_wire(&self, world: &World, when: &str) {
        for space in [&self.host, &self.other] {
            world.at(space, "ip neighbour flush dev wire");
        }
        for (space, to) in [(&self.other, "192.0.2.1"), (&self.host, "192.0.2.2")] {
            let said = world.try_at(space, &format!("ping -n -c 3 -i 0.05 -W 5 {to}"));
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            assert!(said.contains(" 0% packet loss"), "{when}, to {to}: {said}");
        }
        connects(&self.other, &self.host, "192.0.2.1:5000");
        connects(&self.host, &self.other, "192.0.2.2:5000");
    }

    fn container_reaches_out(&self, world: &World) {
        world.at(&self.container, "ip neighbour flush dev eth0");
        world.at(&self.container, "ping -n -c 3 -i 0.05 -W 20 10.7.0.2");
    }
}

/// A connection carries bytes both ways.
fn connects(from: &Path, to: &Path, address: &str) {
    let listener = on(to, || TcpListener::bind(address)).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&word).unwrap();
    });
    let address = address.parse().unwrap();
    let mut stream = on(from, || {
        TcpStream::connect_timeout(&address, common::TIMEOUT)
    })
    .unwrap();
    stream.set_read_timeout(Some(common::TIMEOUT)).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut word = [0; 4];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"ping");
    server.join().unwrap();
}

fn signal(daemon: &Daemon, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(&daemon.process.0);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// How many have asked for all frames that an interface meets.
fn promiscuity(world: &World, namespace: &Path) -> u32 {
    let shown = world.at(namespace, "ip -d link show dev wire");
    let mut words = shown.split_whitespace();
    let count = words.find(|word| *word == "promiscuity");
    let count = count.and_then(|_| words.next());
    count.expect("a count").parse().unwrap()
}

/// How many programs stand at the entrance of an interface (tcx; none before Linux 6.6).
fn programs(namespace: &Path, device: &str) -> u32 {
    let index = i32::try_from(link(namespace, device).index).unwrap();
    on(namespace, || {
        let mut options = libbpf_sys::bpf_prog_query_opts {
            sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        // SAFETY: the options name their own size, ask for no numbers, and live through the call.
        unsafe {
            libbpf_sys::bpf_prog_query_opts(index, libbpf_sys::BPF_TCX_INGRESS, &raw mut options);
            options.__bindgen_anon_1.count
        }
    })
}

#[test]
fn a_direct_link_leaves_the_host_its_own_wire() {
    run("overlay-wire", |world| {
        use rustix::process::Signal;
        let segment = Segment::new(world);
        segment.host_has_its_wire(world, "before the daemon");
        let config = "add network lan vni 7
             add interface c0 network lan veth c0
             add link wire direct wire network lan\n";
        let mut daemon = world.daemon_at(&segment.host, "control", config);
        for end in [Signal::TERM, Signal::KILL] {
            // Frames for containers are not addressed to the wire's interface.
            assert_eq!(promiscuity(world, &segment.host), 1);
            segment.container_reaches_out(world);
            segment.host_has_its_wire(world, "beside the daemon");
            // Frames of the host's own address do not reach containers.
            let [before] = daemon.counters("c0", ["sent_frames"]);
            world.at(&segment.other, "ping -n -c 50 -i 0.002 -W 20 192.0.2.1");
            let [after] = daemon.counters("c0", ["sent_frames"]);
            assert!(after - before < 50, "the host's frames went to a container");
            // Both know each other when the daemon goes: questions would be its to spread.
            segment.container_reaches_out(world);
            signal(&daemon, end);
            daemon.process.0.wait().unwrap();
            if end == Signal::KILL {
                // Routes stay in force.
                world.at(&segment.container, "ping -n -c 3 -i 0.05 -W 20 10.7.0.2");
            }
            segment.host_has_its_wire(world, &format!("after {end:?}"));
            assert_eq!(promiscuity(world, &segment.host), 0);
            if end == Signal::TERM {
                assert_eq!(programs(&segment.host, "wire"), 0);
            }
            daemon = world.daemon_at(&segment.host, "control", config);
        }
        segment.container_reaches_out(world);
        segment.host_has_its_wire(world, "beside a new daemon");
        daemon.tell("delete link wire");
        assert_eq!(promiscuity(world, &segment.host), 0);
    });
}

/// Without containers the daemon itself takes the wire's frames, and not those of the host.
#[test]
fn frames_of_the_host_reach_no_guest_of_a_direct_link() {
    run("overlay-wire-guest", |world| {
        const FRAMES: u64 = 50;
        let segment = Segment::new(world);
        let config = "add network lan vni 7
             add interface guest network lan tap guest
             add link wire direct wire network lan\n";
        let daemon = world.daemon_at(&segment.host, "control", config);
        world.at(&segment.host, "ip link set guest up");
        segment.host_has_its_wire(world, "beside the daemon");
        assert_eq!(promiscuity(world, &segment.host), 1);
        let sent = || daemon.counter("guest", "sent_frames");
        let before = sent();
        world.at(&segment.other, "ping -n -c 50 -i 0.002 -W 20 192.0.2.1");
        assert!(
            sent() - before < FRAMES,
            "the host's frames went to a guest"
        );
        // Those to an unknown address do, as on any switch.
        let before = sent();
        let wire = Raw::open(&segment.other, "wire");
        for _ in 0..FRAMES {
            wire.send(&ipv4_frame(&mac_of(9), &mac_of(8), b"to a guest"));
        }
        eventually("the guest gets its frames", || sent() - before >= FRAMES);
    });
}
