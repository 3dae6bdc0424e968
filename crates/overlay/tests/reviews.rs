//! Reviews of the routes in the kernel: containers that make up addresses and move them call for one after the other.

mod common;
mod underlay;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use common::{Daemon, run};
use underlay::{Raw, ethernet};

const CONTAINERS: u16 = 5;
const ADDRESSES: u32 = 2500;
/// Reviews have a tenth of one CPU; neighbours are looked up besides.
const MAX_SHARE: f64 = 0.15;

/// The shortest frame, of an EtherType for experiments (IEEE 802).
fn frame(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut rest = vec![0; 48];
    rest[..2].copy_from_slice(&[0x88, 0xb5]);
    ethernet(&to, &from, &rest)
}

fn made_up(owner: usize, number: u32) -> [u8; 6] {
    let [_, a, b, c] = number.to_be_bytes();
    [2, 7, owner as u8, a, b, c]
}

/// CPU time of the daemon's threads that forward nothing, in hundredths of a second, by name.
fn cpu_time(daemon: &Daemon) -> BTreeMap<String, u64> {
    let directory = format!("/proc/{}/task", daemon.process.0.id());
    let stats = std::fs::read_dir(directory).unwrap().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        // utime and stime, fields 14 and 15 of proc_pid_stat(5).
        let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
        Some((name.to_owned(), ticks(11) + ticks(12)))
    });
    stats
        .filter(|(name, _)| !name.starts_with("dispatch-"))
        .collect()
}

/// Frames that came to the daemon itself.
fn outside(daemon: &Daemon) -> u64 {
    let of = |number: u16| {
        let port = format!("i{number}");
        daemon.counter(&port, "received_frames") - daemon.counter(&port, "in_kernel_frames")
    };
    (1..=CONTAINERS).map(of).sum()
}

#[test]
fn addresses_that_move_without_end_do_not_keep_the_host_busy() {
    run("overlay-reviews", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let containers: Vec<_> = (1..=CONTAINERS)
            .map(|number| one.plain_container(&format!("p{number}"), number))
            .collect();
        let mut config = String::from("add network lan vni 7\n");
        for number in 1..=CONTAINERS {
            config += &format!("add interface i{number} network lan veth p{number} mtu 1450\n");
        }
        let daemon = world.daemon_at(&one.namespace, "control", &config);
        let open = |container: &underlay::Container| Raw::open(&container.namespace, "eth0");
        let sockets: Vec<Raw> = containers.iter().map(open).collect();
        for (socket, container) in sockets.iter().zip(&containers) {
            socket.send(&frame([255; 6], container.mac));
        }
        let from_all = |numbers: Range<u32>| {
            for number in numbers {
                for (owner, socket) in sockets.iter().enumerate() {
                    for (_, to) in containers
                        .iter()
                        .enumerate()
                        .filter(|(other, _)| *other != owner)
                    {
                        socket.send(&frame(to.mac, made_up(owner, number)));
                    }
                }
                // The dispatcher keeps up, or frames are lost and with them the addresses.
                if number % 8 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        from_all(0..ADDRESSES);
        let first = outside(&daemon);
        from_all(0..ADDRESSES);
        let again = outside(&daemon) - first;
        assert!(
            again < first / 2,
            "{again} of {first}: most have a route by now"
        );
        // New addresses move between two containers until the end.
        let (begun, before) = (Instant::now(), cpu_time(&daemon));
        for number in 0.. {
            for (from, to) in [(0, 1), (1, 0), (0, 1)] {
                sockets[from].send(&frame(containers[to].mac, made_up(99, number)));
                std::thread::sleep(Duration::from_millis(5));
            }
            if begun.elapsed() > Duration::from_secs(5) {
                break;
            }
        }
        let (elapsed, after) = (begun.elapsed().as_secs_f64(), cpu_time(&daemon));
        let share = |(name, ticks): (&String, &u64)| {
            let spent = ticks - before.get(name).copied().unwrap_or(0);
            (name.clone(), spent as f64 / 100.0 / elapsed)
        };
        let shares: Vec<_> = after.iter().map(share).collect();
        println!("{shares:?}");
        let is_little = |(_, share): &(String, f64)| *share < MAX_SHARE;
        assert!(shares.iter().all(is_little), "{shares:?}");
    });
}
