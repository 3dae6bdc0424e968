//! Orders in which a system call fails, one after the other: each is refused and changes nothing, or the daemon tells
//! what failed and does the rest.
#![cfg(target_arch = "x86_64")]

mod common;
#[path = "halves/inject.rs"]
mod inject;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{Client, Daemon, World, run};
use inject::Injector;

/// Two containers on a network, and an address in each.
struct Containers<'w> {
    world: &'w World,
    namespaces: [PathBuf; 2],
}

impl<'w> Containers<'w> {
    fn new(world: &'w World) -> Containers<'w> {
        let namespaces = ["va", "vb"].map(|device| world.namespace(&format!("ns-{device}")));
        for (number, device) in ["va", "vb"].into_iter().enumerate() {
            let namespace = &namespaces[number];
            world.sh(&format!(
                "ip link add {device} type veth peer name eth0 netns {}",
                namespace.display()
            ));
            world.sh(&format!("ip link set {device} up"));
            world.at(namespace, "ip link set eth0 up");
            let address = format!("10.7.0.{}/24", number + 1);
            world.at(namespace, &format!("ip address add {address} dev eth0"));
        }
        Containers { world, namespaces }
    }

    fn ping(&self) {
        let line = "ping -c 3 -i 0.01 -W 20 10.7.0.2";
        self.world.at(&self.namespaces[0], line);
    }
}

fn entries(directory: &Path) -> BTreeSet<u32> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// A conversation, and the daemon's thread that serves it.
fn converse(daemon: &Daemon) -> (Client, u32) {
    let tasks = PathBuf::from(format!("/proc/{}/task", daemon.process.0.id()));
    let before = entries(&tasks);
    let mut client = daemon.client();
    client.say("show").unwrap();
    let new: Vec<u32> = entries(&tasks).difference(&before).copied().collect();
    let [thread] = new[..] else {
        panic!("one thread for a conversation, not {new:?}")
    };
    (client, thread)
}

/// The configuration, the number of open descriptors, and the number of filters at the containers' interfaces.
fn holds(world: &World, daemon: &Daemon, client: &mut Client) -> (Vec<String>, usize, usize) {
    let descriptors = entries(Path::new(&format!("/proc/{}/fd", daemon.process.0.id())));
    let filters = world.sh(
        "for device in va vb; do for way in ingress egress; do tc filter show dev $device $way; done; done 2> /dev/null",
    );
    let filters = filters.lines().filter(|line| line.contains("bpf"));
    (
        client.say("show").unwrap(),
        descriptors.len(),
        filters.count(),
    )
}

/// The command of bpf(2) that writes an entry (include/uapi/linux/bpf.h).
const BPF_MAP_UPDATE_ELEM: i64 = 2;

#[test]
fn an_order_whose_writes_to_maps_fail_is_refused_or_told_and_done() {
    run("halves", |world| {
        let containers = Containers::new(world);
        let config = "add network lan vni 7\nadd interface a network lan veth va\n";
        let daemon = world.daemon("halves", config);
        let (mut client, thread) = converse(&daemon);
        let (order, undo) = ("add interface b network lan veth vb", "delete interface b");
        // Once, so that all that is made once is there.
        client.say(order).unwrap();
        containers.ping();
        client.say(undo).unwrap();
        let without = holds(world, &daemon, &mut client);
        client.say(order).unwrap();
        let with = holds(world, &daemon, &mut client);
        client.say(undo).unwrap();
        assert_ne!(with.0, without.0);
        let (mut refused, mut told) = (0, 0);
        for nth in 1.. {
            let injector = Injector::begin(thread, BPF_MAP_UPDATE_ELEM, libc::ENOMEM, nth);
            let answer = client.say(order);
            let calls = injector.end();
            println!("write {nth} of {calls}: {answer:?}");
            let is_done = match answer {
                Err(reason) if !reason.contains("the change is in force") => {
                    refused += 1;
                    false
                }
                answer => {
                    told += u32::from(answer.is_err());
                    true
                }
            };
            if is_done {
                assert_eq!(holds(world, &daemon, &mut client), with, "write {nth}");
                containers.ping();
                client.say(undo).unwrap();
            }
            assert_eq!(holds(world, &daemon, &mut client), without, "write {nth}");
            // The same order can be given again.
            client.say(order).unwrap();
            containers.ping();
            client.say(undo).unwrap();
            if calls < nth {
                break;
            }
        }
        println!("{refused} refused, {told} told");
        assert!(refused > 0 && told > 0, "{refused} refused, {told} told");
    });
}
