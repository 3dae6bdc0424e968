//! Control over TCP: hosts with a certificate of the authority are served as at the Unix socket; strangers learn and change
//! nothing, and delay no other host.

mod authority;
mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use authority::Authority;
use common::{Daemon, World, eventually, run};
use latlab_overlay::control::Client;

const HOST: &str = "192.0.2.2";
const GUEST: &str = "192.0.2.1";

/// A daemon that shows the certificate of `name`, and where it listens.
fn start(world: &World, authority: &Authority, name: &str) -> (Daemon, SocketAddr) {
    world.sh("ip link set lo up");
    world.sh(&format!("ip address add {HOST}/32 dev lo"));
    let config = world.path("config");
    let link = format!("add link peer listen {HOST}:4795 peer any");
    std::fs::write(&config, format!("add network lan vni 7\n{link}\n")).unwrap();
    let mut arguments = vec!["--listen".to_string(), format!("{HOST}:0")];
    arguments.extend(["--allow".to_string(), GUEST.to_string()]);
    for (option, file) in [
        ("--certificate", format!("{name}.pem")),
        ("--key", format!("{name}.key")),
        ("--authority", "ca.pem".into()),
    ] {
        arguments.push(option.into());
        arguments.push(authority.file(&file).display().to_string());
    }
    let daemon = Daemon::start_with(&config, &world.path("control"), None, &arguments);
    let address = daemon.ready.strip_prefix("ready at ").unwrap();
    let address = address.parse().unwrap();
    (daemon, address)
}

#[test]
fn another_host_with_a_certificate_is_served_as_this_one() {
    run("control-tls", |world| {
        let ours = Authority::new("control-tls");
        let (daemon, address) = start(world, &ours, HOST);
        let mut client = Client::connect_tls(address, &ours.credentials(GUEST, &ours)).unwrap();
        client.say("add network other vni 8").unwrap().unwrap();
        assert_eq!(client.say("show").unwrap().unwrap(), daemon.tell("show"));
        let refusal = client.say("delete network more").unwrap().unwrap_err();
        assert_eq!(refusal.message, "there is no network `more`");
        // A batch is one conversation's, whichever way it came.
        client.say("begin").unwrap().unwrap();
        client.say("delete network other").unwrap().unwrap();
        assert!(
            daemon
                .tell("show")
                .iter()
                .any(|line| line.contains("other"))
        );
        client.say("commit").unwrap().unwrap();
        assert!(
            !daemon
                .tell("show")
                .iter()
                .any(|line| line.contains("other"))
        );
        // More than one record of TLS.
        for number in 0..600 {
            let line = format!("add network n{number} vni {}", 100 + number);
            client.say(&line).unwrap().unwrap();
        }
        assert_eq!(client.say("show").unwrap().unwrap(), daemon.tell("show"));
    });
}

#[test]
fn strangers_learn_and_change_nothing() {
    run("control-strangers", |world| {
        let ours = Authority::new("control-ours");
        let theirs = Authority::new("control-theirs");
        let (daemon, address) = start(world, &ours, HOST);
        let before = daemon.tell("show");

        // Signed by the same authority, but not one of those that may control.
        let another = ours.credentials(HOST, &ours);
        let refused = Client::connect_tls(address, &another).err();
        assert!(refused.is_some(), "another host's certificate was let in");
        // Signed by another authority: the daemon refuses the client, or the client the daemon.
        for credentials in [
            theirs.credentials(GUEST, &ours),
            ours.credentials(GUEST, &theirs),
            theirs.credentials(GUEST, &theirs),
        ] {
            assert!(Client::connect_tls(address, &credentials).is_err());
        }
        // Without a certificate: OpenSSL's client, which shows all that it is told.
        let line = format!(
            "(echo show; echo add network evil vni 9; sleep 1) | openssl s_client -quiet \
             -connect {address} -CAfile {} 2>&1 || true",
            ours.file("ca.pem").display()
        );
        let told = world.sh(&line);
        assert!(told.contains("certificate required"), "{told}");
        assert!(!told.contains("lan"), "{told}");
        // Without TLS.
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"show\nadd network evil vni 9\n").unwrap();
        let mut told = Vec::new();
        let _ = plain.read_to_end(&mut told);
        assert!(!String::from_utf8_lossy(&told).contains("lan"));

        assert_eq!(daemon.tell("show"), before);
        let mut friend = Client::connect_tls(address, &ours.credentials(GUEST, &ours)).unwrap();
        assert_eq!(friend.say("show").unwrap().unwrap(), before);

        // As many as there is room for, and more, who say nothing, or one byte now and then.
        let mut silent: Vec<TcpStream> = (0..40)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for stranger in &mut silent {
            let _ = stranger.write_all(&[22]);
        }
        assert_eq!(daemon.tell("show"), before);
        assert_eq!(friend.say("show").unwrap().unwrap(), before);
        eventually("the silent ones are sent away", || {
            for stranger in &mut silent {
                let _ = stranger.write_all(&[3]);
            }
            std::thread::sleep(Duration::from_millis(100));
            Client::connect_tls(address, &ours.credentials(GUEST, &ours)).is_ok()
        });
    });
}

#[test]
fn a_daemon_at_another_address_is_refused() {
    run("control-name", |world| {
        let ours = Authority::new("control-name");
        let (_daemon, address) = start(world, &ours, GUEST);
        let refused = Client::connect_tls(address, &ours.credentials(GUEST, &ours));
        let refused = refused
            .err()
            .expect("the certificate names another address");
        assert!(
            refused.to_string().contains("not valid for name"),
            "{refused}"
        );
    });
}

/// CPU time of a process, in clock ticks (proc_pid_stat(5)).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_daemon_without_descriptors_neither_spins_nor_goes_deaf() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    run("control-descriptors", |world| {
        let ours = Authority::new("control-descriptors");
        let (daemon, address) = start(world, &ours, HOST);
        let pid = daemon.process.0.id();
        let rustix_pid = Pid::from_child(&daemon.process.0);
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count() as u64;
        let own = rustix::process::getrlimit(Resource::Nofile);
        let none_left = Rlimit {
            current: Some(open),
            ..own
        };
        prlimit(Some(rustix_pid), Resource::Nofile, none_left).unwrap();
        let link: SocketAddr = format!("{HOST}:4795").parse().unwrap();
        let local: Vec<_> = (0..8)
            .map(|_| std::os::unix::net::UnixStream::connect(&daemon.socket).unwrap())
            .collect();
        let remote: Vec<_> = [address, link]
            .into_iter()
            .flat_map(|to| (0..8).map(move |_| TcpStream::connect(to).unwrap()))
            .collect();
        // The kernel has accepted them all; the daemon cannot take one.
        let ticks = cpu_ticks(pid);
        std::thread::sleep(Duration::from_secs(1));
        let spent = cpu_ticks(pid) - ticks;
        let second = rustix::param::clock_ticks_per_second();
        assert!(spent < second / 4, "{spent} of {second} ticks went into it");
        prlimit(Some(rustix_pid), Resource::Nofile, own).unwrap();
        drop((local, remote));
        assert!(!daemon.tell("show").is_empty());
        eventually("other hosts are served again", || {
            Client::connect_tls(address, &ours.credentials(GUEST, &ours)).is_ok()
        });
        eventually("the link takes connections again", || {
            let mut garbage = TcpStream::connect(link).unwrap();
            garbage.write_all(&[0xff; 64]).unwrap();
            daemon.counter("peer", "dropped_malformed") > 0
        });
    });
}

/// An order that runs out of descriptors at any of its steps changes nothing, or says what it did not get done; the
/// daemon is as its configuration says either way.
#[test]
fn an_order_without_descriptors_is_carried_out_or_changes_nothing() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    run("control-half", |world| {
        let config = "add network lan vni 7\nadd interface kept network lan tap kept\n";
        let daemon = world.daemon("half", config);
        let pid = daemon.process.0.id();
        let rustix_pid = Pid::from_child(&daemon.process.0);
        let open = || {
            std::fs::read_dir(format!("/proc/{pid}/fd"))
                .unwrap()
                .count() as u64
        };
        let own = rustix::process::getrlimit(Resource::Nofile);
        let socket = world.path("half.vhost");
        let mut client = daemon.client();
        let mut say = |limit: u64, line: &str| {
            let limited = Rlimit {
                current: Some(limit),
                ..own
            };
            prlimit(Some(rustix_pid), Resource::Nofile, limited).unwrap();
            let answer = client.say(line);
            prlimit(Some(rustix_pid), Resource::Nofile, own).unwrap();
            answer
        };
        let configuration = || daemon.tell("show");
        let orders = [
            (
                "add interface t network lan tap t1".to_owned(),
                "delete interface t",
            ),
            (
                format!(
                    "add interface v network lan vhost-user {}",
                    socket.display()
                ),
                "delete interface v",
            ),
            (
                "set dispatch dispatchers 3".to_owned(),
                "set dispatch dispatchers 1",
            ),
        ];
        for (order, undo) in &orders {
            let (before, base) = (configuration(), open());
            let (mut refused, mut done) = (0, 0);
            for spare in 0..64 {
                // The numbers that are open are not always the lowest ones.
                match say(base + spare, order) {
                    Err(reason) => {
                        refused += 1;
                        assert!(reason.contains("Too many open files"), "{reason}");
                        assert_eq!(configuration(), before, "{order}: {reason}");
                    }
                    Ok(_) => {
                        done += 1;
                        assert_ne!(configuration(), before, "{order}");
                        daemon.tell(undo);
                        assert_eq!(configuration(), before, "{undo}");
                    }
                }
                eventually("no descriptor is left over", || open() <= base);
                assert!(
                    daemon
                        .tell("list interfaces")
                        .iter()
                        .any(|line| line.contains("kept"))
                );
            }
            assert!(
                refused > 0 && done > 0,
                "{order}: {refused} refused, {done} done"
            );
        }
    });
}

/// An order whose last steps cannot be done, for want of memory for a thread, leaves nothing half done: what was opened
/// is closed, and the same order is carried out later.
#[test]
fn an_order_that_fails_late_is_carried_out_later() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    if common::is_unconfined() {
        eprintln!("skipped: a sanitizer's runtime needs memory at any time");
        return;
    }
    run("control-late", |world| {
        let guest = world.namespace("guest");
        let config = "add network lan vni 7\nadd interface kept network lan tap kept\n";
        let daemon = world.daemon("late", config);
        let pair = format!(
            "ip link add far type veth peer name eth0 netns {}",
            guest.display()
        );
        world.sh(&pair);
        let process = Pid::from_child(&daemon.process.0);
        let status = format!("/proc/{}/status", daemon.process.0.id());
        let size = || {
            let status = std::fs::read_to_string(&status).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
            let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
            kib.parse::<u64>().unwrap() << 10
        };
        let own = rustix::process::getrlimit(Resource::As);
        // One conversation up to there: the thread of one that ended leaves its stack for the next thread.
        let mut client = daemon.client();
        let before = client.say("show").unwrap();
        // The first container is the first that the kernel's path has, whose thread begins with it. A stack takes two
        // megabytes; everything else that the order needs is small.
        let order = "add interface c network lan veth far";
        let limited = Rlimit {
            current: Some(size() + (1 << 20)),
            ..own
        };
        prlimit(Some(process), Resource::As, limited).unwrap();
        let refusal = client.say(order).unwrap_err();
        prlimit(Some(process), Resource::As, own).unwrap();
        assert!(refusal.contains("cannot start"), "{refusal}");
        assert_eq!(client.say("show").unwrap(), before, "{refusal}");
        let listed = || daemon.tell("list interfaces").join("\n");
        assert!(
            listed().contains("kept") && !listed().contains("far"),
            "{}",
            listed()
        );
        daemon.tell(order);
        assert!(listed().contains("far"), "{}", listed());
        daemon.tell("delete interface c");
        assert_eq!(daemon.tell("show"), before);
    });
}
