//! A frame in as many pieces as a guest can make of one, to every kind of sink at once.

mod authority;
mod common;
mod vm;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use authority::Authority;
use common::{Daemon, World, run};
use latlab_overlay::links::udp::sealed;
use latlab_overlay::rings::driver::{Buffer, Guest};
use vm::{PLAIN, Vm};

/// Descriptors of one chain, which QEMU and we allow at most.
const CHAIN: u16 = 1024;
/// The virtio header, what of a frame is copied anyway, and one byte.
const FIRST: usize = 12 + 128 + 1;
const BYTES: usize = FIRST - 12 + CHAIN as usize - 1;
const LINKS: [&str; 6] = ["plain", "tls", "udp", "vxlan", "sealed", "direct"];

struct Hosts {
    hosts: [PathBuf; 2],
    authority: Authority,
    keys: [sealed::Identity; 2],
}

impl Hosts {
    fn new(world: &World) -> Hosts {
        let hosts = ["h1", "h2"].map(|name| world.namespace(name));
        let other = hosts[1].display();
        world.at(
            &hosts[0],
            &format!("ip link add wire type veth peer name wire netns {other}"),
        );
        for (host, number) in hosts.iter().zip(1..) {
            world.at(
                host,
                &format!("ip address add 192.0.2.{number}/24 dev wire"),
            );
            world.at(host, "ip link set wire up");
        }
        let keys = [(); 2].map(|()| sealed::Identity::generate().unwrap());
        for (key, name) in keys.iter().zip(["key1", "key2"]) {
            std::fs::write(world.path(name), key.private_text()).unwrap();
        }
        Hosts {
            hosts,
            authority: Authority::new("sinks"),
            keys,
        }
    }

    /// A daemon with a guest of each kind, and a link of each kind to the other.
    fn daemon(&self, world: &World, at: usize) -> Daemon {
        let (own, remote) = (at + 1, format!("192.0.2.{}", 2 - at));
        let local = format!("192.0.2.{own}");
        let tcp = |port| match at {
            0 => format!("connect {remote}:{port}"),
            _ => format!("listen {local}:{port} peer {remote}"),
        };
        let file = |name: &str| self.authority.file(name).display().to_string();
        let tls = format!(
            "certificate {} certificate-key {} authority {}",
            file(&format!("{local}.pem")),
            file(&format!("{local}.key")),
            file("ca.pem")
        );
        let config = format!(
            "add network lan vni 42
             add interface vm network lan vhost-user {vm}
             add interface beside network lan vhost-user {beside}
             add interface tap network lan tap lan0
             add link plain {plain}
             add link tls {over_tls} {tls}
             add link udp udp {remote} local {local}
             add link vxlan vxlan {remote} local {local}
             add link sealed sealed {remote}:4800 local {local}:4800 key {key} peer {peer}
             add link direct direct wire network lan\n",
            vm = socket(world, own, "vm").display(),
            beside = socket(world, own, "beside").display(),
            plain = tcp(4795),
            over_tls = tcp(4796),
            key = world.path(&format!("key{own}")).display(),
            peer = sealed::hexadecimal(&self.keys[1 - at].public()),
        );
        world.daemon_at(&self.hosts[at], &format!("control{own}"), &config)
    }
}

fn socket(world: &World, host: usize, name: &str) -> PathBuf {
    world.path(&format!("{name}{host}.sock"))
}

fn guest(socket: &Path) -> Vm {
    Vm::connect(socket, PLAIN)
}

/// The next frame of this type, whatever else the kernel sends to its neighbours.
fn next(vm: &mut Vm, what: &str) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match vm.receive() {
            Some((_, frame)) if frame[12..14] == [0x88, 0xb5] => return frame,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(Instant::now() < end, "{what}: no frame");
    }
}

/// A broadcast in segments of one byte.
fn send_in_pieces(vm: &mut Vm) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    frame[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let at = Guest::START + (1 << 20);
    vm.guest.write(at, &[&[0; 12][..], &frame].concat());
    let first = Buffer::read(at, FIRST as u32);
    vm.from_guest.describe(&vm.guest, 0, first.then(1));
    for piece in 1..CHAIN {
        let byte = Buffer::read(at + FIRST as u64 + u64::from(piece) - 1, 1);
        let last = piece == CHAIN - 1;
        let byte = if last { byte } else { byte.then(piece + 1) };
        vm.from_guest.describe(&vm.guest, piece, byte);
    }
    vm.from_guest.offer(&vm.guest, 0);
    vm.kick.write(1).unwrap();
    frame
}

#[test]
fn a_frame_in_1024_pieces_reaches_every_kind_of_sink_and_blocks_none() {
    run("overlay-sinks", |world| {
        let hosts = Hosts::new(world);
        let daemons = [0, 1].map(|at| hosts.daemon(world, at));
        let mut hostile = guest(&socket(world, 1, "vm"));
        let mut beside = guest(&socket(world, 1, "beside"));
        let mut far = guest(&socket(world, 2, "vm"));
        // Connections and handshakes take their time: until each link has carried something each way.
        common::eventually("every link is up", || {
            for vm in [&mut hostile, &mut far] {
                vm.send(&vm::frame(0, 60));
                vm.kick.write(1).unwrap();
                while vm.receive().is_some() {}
            }
            let carried = |link| {
                daemons
                    .iter()
                    .all(|d| d.counter(link, "received_frames") > 0)
            };
            LINKS.into_iter().all(carried)
        });
        hostile.resize(CHAIN);
        while beside.receive().is_some() || far.receive().is_some() {}
        let before = daemons[0].counter("tap", "sent_frames");
        let frame = send_in_pieces(&mut hostile);
        assert_eq!(next(&mut beside, "the guest beside it"), frame);
        for link in LINKS {
            assert_eq!(next(&mut far, link), frame);
        }
        for sink in LINKS.into_iter().chain(["tap", "beside"]) {
            for reason in ["too_long", "refused", "malformed"] {
                let dropped = daemons[0].counter(sink, &format!("dropped_{reason}"));
                assert_eq!(dropped, 0, "{sink}: {reason}");
            }
        }
        assert!(daemons[0].counter("tap", "sent_frames") > before);
        // The one that was stopped would not take an order any more.
        daemons[0].tell("delete link plain");
    });
}
