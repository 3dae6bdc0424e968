//! The daemon as its users meet it: real taps in namespaces, traffic of the kernel's own stacks, the
//! control socket.

mod common;

use common::{World, eventually, run};

const TWO: &str = "add network lan vni 7\n";

/// Two hosts on taps of one network, with addresses.
fn two_hosts(
    world: &World,
    more: &str,
) -> (common::Daemon, std::path::PathBuf, std::path::PathBuf) {
    let (a, b) = (world.namespace("a"), world.namespace("b"));
    let config = format!(
        "{TWO}{more}
         add interface a network lan tap lan0 netns {} mtu 9000
         add interface b network lan tap lan0 netns {} mtu 9000\n",
        a.display(),
        b.display()
    );
    let daemon = world.daemon("control", &config);
    for (host, number) in [(&a, 1), (&b, 2)] {
        world.at(host, &format!("ip address add 10.7.0.{number}/24 dev lan0"));
        world.at(
            host,
            &format!("ip address add fd07::{number}/64 dev lan0 nodad"),
        );
    }
    (daemon, a, b)
}

#[test]
fn two_taps_are_one_ethernet() {
    run("overlay-taps", |world| {
        let (daemon, a, _b) = two_hosts(world, "");
        world.at(&a, "ping -c 3 -i 0.01 -W 20 10.7.0.2");
        world.at(&a, "ping -c 3 -i 0.01 -W 20 fd07::2");
        world.at(&a, "ping -c 2 -i 0.01 -W 20 -M do -s 8900 10.7.0.2");
        assert!(daemon.counter("a", "received_frames") >= 8);
        assert_eq!(daemon.counter("a", "dropped_malformed"), 0);
        let matrix = daemon.tell("matrix");
        assert!(
            matrix.iter().all(|line| line.starts_with("lan ")),
            "{matrix:?}"
        );
        assert!(matrix.len() >= 2, "{matrix:?}");
        let metrics = daemon.tell("counters openmetrics");
        assert_eq!(metrics.last().map(String::as_str), Some("# EOF"));
        let sent =
            |line: &String| line.starts_with("latlab_overlay_sent_frames_total{interface=\"b\"}");
        assert!(metrics.iter().any(sent), "{metrics:?}");
    });
}

#[test]
fn large_frames_stay_whole() {
    run("overlay-bulk", |world| {
        let (daemon, a, b) = two_hosts(world, "");
        let mut server = world.command(&b, "iperf3 -s -1 -p 5201");
        let _server = common::Running::start(server.stdout(std::process::Stdio::null()));
        eventually("iperf3 listens", || {
            world.at(&b, "ss -ltnH").contains(":5201")
        });
        world.at(&a, "iperf3 -c 10.7.0.2 -t 1 -p 5201");
        let (frames, bytes) = (
            daemon.counter("a", "received_frames"),
            daemon.counter("a", "received_bytes"),
        );
        assert!(bytes > 10_000_000, "hardly anything arrived: {bytes}");
        assert!(
            bytes / frames > 9_014,
            "cut on the way: {bytes} in {frames}"
        );
    });
}

#[test]
fn a_change_takes_effect_at_once_or_not_at_all() {
    run("overlay-control", |world| {
        let (daemon, a, _b) = two_hosts(world, "");
        let mut client = daemon.client();
        let before = client.say("show").unwrap();
        assert_eq!(
            client.say("add interface c network lam tap x").unwrap_err(),
            "error 1: there is no network `lam` (did you mean `lan`?)"
        );
        client.say("begin").unwrap();
        client.say("add network other vni 8").unwrap();
        client.say("add interface c network other tap c0").unwrap();
        // A device that cannot be opened twice: all of it fails.
        let pin = world.path("a");
        let line = format!(
            "add interface d network other tap lan0 netns {}/nowhere",
            pin.display()
        );
        client.say(&line).unwrap();
        let failed = client.say("commit").unwrap_err();
        assert!(failed.starts_with("error 1: cannot open `d`: "), "{failed}");
        assert_eq!(client.say("show").unwrap(), before);
        assert_eq!(
            client.say("commit").unwrap_err(),
            "error 1: nothing has begun (say `begin` first)"
        );
        // Another client's change in between is not overwritten.
        client.say("begin").unwrap();
        client.say("add network other vni 8").unwrap();
        daemon.tell("add network third vni 9");
        assert_eq!(
            client.say("commit").unwrap_err(),
            "error 1: the configuration was changed meanwhile (look at it with `show`, and begin again)"
        );
        // A deleted interface is gone, and others do not notice.
        daemon.tell("delete interface b");
        assert!(!world.try_at(&a, "ping -c 1 -W 1 10.7.0.2").status.success());
        for mode in ["guest", "vmm", "adaptive"] {
            daemon.tell(&format!("set dispatch mode {mode}"));
        }
        daemon.tell("set dispatch dispatchers 2");
        let shown = daemon.tell("show");
        assert!(
            shown[0].starts_with("set dispatch dispatchers 2 "),
            "{shown:?}"
        );
    });
}

#[test]
fn garbage_on_the_control_socket_is_harmless() {
    use std::io::{Read, Write};
    run("overlay-garbage", |world| {
        let (daemon, a, _b) = two_hosts(world, "");
        let mut random = 88_172_645_463_325_252_u64;
        for length in [1, 100, 5000, 100_000] {
            let mut stream = std::os::unix::net::UnixStream::connect(&daemon.socket).unwrap();
            let garbage: Vec<u8> = (0..length)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random.to_le_bytes()[0]
                })
                .collect();
            // The daemon may hang up in the middle.
            let _ = stream.write_all(&garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        world.at(&a, "ping -c 2 -i 0.01 -W 20 10.7.0.2");
    });
}

#[test]
fn an_unused_network_does_not_hear_the_other() {
    run("overlay-vni", |world| {
        let (a, b) = (world.namespace("a"), world.namespace("b"));
        let config = format!(
            "{TWO}add network other vni 8
             add interface a network lan tap lan0 netns {}
             add interface b network other tap lan0 netns {}\n",
            a.display(),
            b.display()
        );
        let daemon = world.daemon("control", &config);
        for (host, number) in [(&a, 1), (&b, 2)] {
            world.at(host, &format!("ip address add 10.7.0.{number}/24 dev lan0"));
        }
        assert!(
            !world
                .try_at(&a, "ping -c 2 -i 0.2 -W 1 10.7.0.2")
                .status
                .success()
        );
        eventually("the daemon has seen it", || {
            daemon.counter("a", "received_frames") > 0
        });
        assert_eq!(daemon.counter("b", "sent_frames"), 0);
    });
}

#[test]
fn every_mode_and_yield_carries_frames() {
    run("overlay-modes", |world| {
        let (daemon, a, _b) = two_hosts(world, "");
        for mode in ["guest", "vmm", "adaptive", "adaptive:rate=5/1/20ms"] {
            for idle in ["immediate", "timed:200us", "adaptive:100us/1ms"] {
                daemon.tell(&format!("set dispatch mode {mode} idle {idle}"));
                world.at(&a, "ping -c 20 -i 0.002 -W 20 10.7.0.2");
            }
        }
        eventually("the rate crosses its bounds", || {
            world.at(&a, "ping -c 20 -i 0.002 -W 20 10.7.0.2");
            daemon.counter("a", "mode_changes") > 0
        });
    });
}

/// A guest's monitor that makes a mistake is named where interfaces are listed, and counted.
#[test]
fn trouble_of_a_port_is_told() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    run("overlay-trouble", |world| {
        let socket = world.path("guest.sock");
        let config = format!(
            "{TWO}add interface v network lan vhost-user {}\n",
            socket.display()
        );
        let daemon = world.daemon("control", &config);
        let line = || daemon.tell("list interfaces").remove(0);
        assert!(!line().contains('#'), "{}", line());
        assert_eq!(daemon.counter("v", "faults"), 0);
        let mut stranger = UnixStream::connect(&socket).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        eventually("it is told", || line().contains(" # trouble: connection: "));
        assert_eq!(daemon.counter("v", "faults"), 1);
        let metrics = daemon.tell("counters openmetrics");
        let fault = "latlab_overlay_faults_total{interface=\"v\"} 1";
        assert!(metrics.iter().any(|line| line == fault), "{metrics:?}");
    });
}
