//! Guests that send as others, into other networks, or without end: through a real daemon, beside others.

mod common;
mod vm;

use common::{Daemon, World, eventually, run};
use vm::{PLAIN, Vm};

const VICTIM: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOSTILE: [u8; 6] = [2, 0, 0, 0, 0, 3];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 4];
const ALL: [u8; 6] = [255; 6];

/// Three guests of one network, each bound to its address, and one of another that has the victim's address there.
struct Stage {
    daemon: Daemon,
    victim: Vm,
    hostile: Vm,
    peer: Vm,
    outside: Vm,
}

impl Stage {
    fn new(world: &World) -> Stage {
        let mut config = String::from("add network lan vni 7 flood 100\nadd network other vni 8\n");
        let guests = [
            ("victim", "lan", 2),
            ("hostile", "lan", 3),
            ("peer", "lan", 4),
            ("outside", "other", 2),
        ];
        for (name, network, last) in guests {
            let socket = world.path(name);
            config += &format!(
                "add interface {name} network {network} vhost-user {} mac 02:00:00:00:00:0{last}\n",
                socket.display()
            );
        }
        let daemon = world.daemon("control", &config);
        let guest = |name| Vm::connect(&world.path(name), PLAIN);
        Stage {
            victim: guest("victim"),
            hostile: guest("hostile"),
            peer: guest("peer"),
            outside: guest("outside"),
            daemon,
        }
    }

    /// The peer sends to the victim, which receives that and nothing else.
    fn the_victim_hears_its_peer(&mut self, number: u8) {
        let expected = frame(VICTIM, PEER, &[0x88, 0xb5], number);
        send(&mut self.peer, &expected);
        let mut came = Vec::new();
        eventually("the victim hears its peer", || {
            came.extend(self.victim.receive().map(|(_, frame)| frame));
            came.contains(&expected)
        });
        assert_eq!(came, [expected], "and nobody else");
    }
}

fn frame(to: [u8; 6], from: [u8; 6], kind: &[u8], number: u8) -> Vec<u8> {
    let mut frame = [&to[..], &from, kind].concat();
    frame.resize(60, number);
    frame
}

fn send(vm: &mut Vm, frame: &[u8]) {
    vm.send(frame);
    vm.kick.write(1).unwrap();
}

/// An ARP answer that says: the first host of the network is here.
fn arp(source: [u8; 6], says: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(ALL, source, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], 0);
    frame[22..28].copy_from_slice(&says);
    frame[28..32].copy_from_slice(&[10, 7, 0, 1]);
    frame
}

#[test]
fn a_guest_speaks_as_itself_only_and_is_heard_in_its_own_network_only() {
    run("overlay-hostile-guests", |world| {
        let mut stage = Stage::new(world);
        // As another guest, as a group, as zero, as an invented address.
        let mut spoofed = vec![
            frame(PEER, VICTIM, &[8, 0], 1),
            frame(ALL, VICTIM, &[8, 0], 2),
            frame(VICTIM, PEER, &[8, 0], 3),
            frame(VICTIM, ALL, &[8, 0], 4),
            frame(VICTIM, [0; 6], &[8, 0], 5),
            frame(VICTIM, [3, 0, 0, 0, 0, 3], &[8, 0], 6),
            arp(VICTIM, VICTIM),
            arp(PEER, HOSTILE),
        ];
        spoofed.extend((0..100).map(|n| frame(VICTIM, [2, 9, 9, 9, 9, n], &[8, 0], n)));
        for frame in &spoofed {
            send(&mut stage.hostile, frame);
            // Its ring has 64 entries.
            while stage
                .hostile
                .from_guest
                .used(&stage.hostile.guest)
                .is_none()
            {
                std::thread::yield_now();
            }
        }
        let dropped = || stage.daemon.counter("hostile", "dropped_spoofed_source");
        eventually("all are refused", || dropped() == spoofed.len() as u64);
        // As itself, with what would lead to the other network in a switch that believed it: tags with that one's
        // number, one in the other, a tunnel's datagram, and an address that is known there.
        let other = [0x81, 0, 0, 8, 8, 0];
        let nested = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0];
        let tunnel = [
            8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 7, 0, 3, 10, 7, 0, 1, 0x12, 0xb5,
            0x12, 0xb5, 0, 26, 0, 0, 8, 0, 0, 0, 0, 0, 8, 0,
        ];
        for kind in [&other[..], &nested, &tunnel] {
            send(&mut stage.hostile, &frame(ALL, HOSTILE, kind, 7));
        }
        let own = frame(VICTIM, HOSTILE, &[8, 0], 8);
        send(&mut stage.hostile, &own);
        let mut heard = Vec::new();
        eventually("what it may say is heard", || {
            heard.extend(stage.victim.receive().map(|(_, frame)| frame));
            heard.last() == Some(&own)
        });
        assert_eq!(heard.len(), 4, "{heard:?}");
        assert!(heard.iter().all(|frame| frame[6..12] == HOSTILE));
        // The victim's address has not moved, and nothing has left the network.
        stage.the_victim_hears_its_peer(9);
        while let Some((_, frame)) = stage.hostile.receive() {
            assert_ne!(frame[..6], VICTIM);
        }
        assert_eq!(stage.daemon.counter("outside", "sent_frames"), 0);
        assert!(stage.outside.receive().is_none());
    });
}

#[test]
fn a_guest_that_floods_takes_nothing_from_its_neighbours() {
    run("overlay-flood", |world| {
        let mut stage = Stage::new(world);
        for number in 0..100 {
            // Half to broadcast, half to an unknown address, as fast as the ring takes them.
            for more in 0..32 {
                let to = if more % 2 == 0 {
                    ALL
                } else {
                    [2, 8, 8, 8, 8, more]
                };
                stage.hostile.send(&frame(to, HOSTILE, &[0x88, 0xb6], more));
            }
            stage.hostile.kick.write(1).unwrap();
            let expected = frame(VICTIM, PEER, &[0x88, 0xb5], number);
            send(&mut stage.peer, &expected);
            eventually("the victim hears its peer", || {
                let mut heard = std::iter::from_fn(|| stage.victim.receive());
                heard.any(|(_, frame)| frame == expected)
            });
            while stage.peer.receive().is_some() {}
        }
        assert!(stage.daemon.counter("hostile", "dropped_limited") > 500);
        assert_eq!(stage.daemon.counter("peer", "dropped_limited"), 0);
        assert_eq!(stage.daemon.counter("victim", "dropped_no_buffer"), 0);
    });
}
