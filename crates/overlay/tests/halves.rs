//! Orders in which a system call fails, one after the other: each is refused and changes nothing, or the daemon tells
//! what failed and does the rest.
#![cfg(target_arch = "x86_64")]

mod common;
#[path = "halves/inject.rs"]
mod inject;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{Client, Daemon, World, eventually, run};
use inject::Injector;

/// Two containers on a network, and an address in each.
struct Containers<'w> {
    world: &'w World,
    namespaces: [PathBuf; 2],
}

impl<'w> Containers<'w> {
    fn new(world: &'w World) -> Containers<'w> {
        let namespaces = ["a", "b"].map(|name| world.namespace(&format!("ns-{name}")));
        for (number, (name, namespace)) in ["a", "b"].into_iter().zip(&namespaces).enumerate() {
            world.sh(&format!("ip link add {name} type veth peer name {name}0"));
            world.sh(&format!(
                "ip link set {name}0 netns /proc/self/fd/9 9< {}",
                namespace.display()
            ));
            world.sh(&format!("ip link set {name} up"));
            world.at(namespace, &format!("ip link set {name}0 up"));
            world.at(
                namespace,
                &format!("ip address add 10.7.0.{}/24 dev {name}0", number + 1),
            );
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

/// All that the daemon holds: its configuration, descriptors, and queueing disciplines with filters of its own.
fn holds(world: &World, daemon: &Daemon) -> (Vec<String>, usize, String) {
    let descriptors = entries(Path::new(&format!("/proc/{}/fd", daemon.process.0.id())));
    let mut filters = String::new();
    for device in ["a", "b"] {
        for way in ["ingress", "egress"] {
            filters += &world.sh(&format!(
                "tc filter show dev {device} {way} 2> /dev/null || true"
            ));
        }
    }
    // Programs have new numbers whenever they are loaded.
    let names = filters
        .split_whitespace()
        .filter(|word| word.ends_with(".o") || word.contains("latlab"));
    let names = names.collect::<Vec<_>>().join(" ");
    (daemon.tell("show"), descriptors.len(), names)
}

#[test]
fn an_order_whose_bpf_calls_fail_is_refused_or_told_and_done() {
    run("halves", |world| {
        let containers = Containers::new(world);
        let config = "add network lan vni 7\nadd interface a network lan veth a\n";
        let daemon = world.daemon("halves", config);
        let (mut client, thread) = converse(&daemon);
        let (order, undo) = ("add interface b network lan veth b", "delete interface b");
        // Once, so that all that is made once is there.
        client.say(order).unwrap();
        containers.ping();
        client.say(undo).unwrap();
        let without = holds(world, &daemon);
        client.say(order).unwrap();
        let with = holds(world, &daemon);
        client.say(undo).unwrap();
        assert_ne!(with.0, without.0);
        let (mut refused, mut told) = (0, 0);
        for nth in 1.. {
            let injector = Injector::begin(thread, libc::SYS_bpf, libc::ENOMEM, nth);
            let answer = client.say(order);
            let calls = injector.end();
            match answer {
                Err(reason) if reason.contains("the change is in force") => {
                    println!("call {nth}: told: {reason}");
                    told += 1;
                    eventually("the order is done", || holds(world, &daemon) == with);
                    containers.ping();
                    client.say(undo).unwrap();
                }
                Err(reason) => {
                    println!("call {nth}: refused: {reason}");
                    refused += 1;
                }
                Ok(_) => {
                    println!("call {nth} of {calls}: done");
                    eventually("the order is done", || holds(world, &daemon) == with);
                    containers.ping();
                    client.say(undo).unwrap();
                }
            }
            eventually(&format!("nothing is left after call {nth}"), || {
                holds(world, &daemon) == without
            });
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
