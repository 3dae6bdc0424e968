//! DPDK's virtio-user at vhost-user ports: two of its ports send as fast as they can, with rings of several sizes, and
//! are stopped, ended and killed in the middle, while a flow between neighbours on the same network loses nothing.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::flow::{Flow, passes};
use common::{Daemon, Running, World, eventually, run};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = "/usr/bin/dpdk-testpmd";
/// The last number of the MAC addresses of its ports.
const PORTS: [u32; 2] = [10, 11];

/// testpmd with both ports, each of which sends to the other.
fn testpmd(world: &World, ring: &str) -> Running {
    let mut command = Command::new(PROGRAM);
    command.args(["--lcores=0@0,1@0", "--no-pci", "--no-huge", "-m", "256"]);
    command.args(["--no-telemetry", "--no-shconf"]);
    for (number, last) in PORTS.iter().enumerate() {
        let path = world.path(&format!("{number}.sock"));
        command.arg(format!(
            "--vdev=net_virtio_user{number},path={},mac=02:00:00:00:00:{last},{ring}",
            path.display()
        ));
    }
    command.args([
        "--",
        "--nb-cores=1",
        "--forward-mode=txonly",
        "--total-num-mbufs=4096",
    ]);
    for (number, last) in PORTS.iter().rev().enumerate() {
        command.arg(format!("--eth-peer={number},02:00:00:00:00:{last}"));
    }
    // testpmd ends when it reads a line.
    command.stdin(Stdio::piped());
    Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn frames(daemon: &Daemon) -> u64 {
    daemon.counter("vm0", "received_frames") + daemon.counter("vm1", "received_frames")
}

/// Two namespaces with a tap each on the network.
fn neighbours(world: &World, daemon: &Daemon) -> [std::path::PathBuf; 2] {
    [1, 2].map(|at| {
        let namespace = world.namespace(&format!("n{at}"));
        let shown = namespace.display();
        daemon.tell(&format!(
            "add interface n{at} network lan tap lan0 netns {shown}"
        ));
        world.at(
            &namespace,
            &format!("ip address add 10.7.0.{at}/24 dev lan0"),
        );
        world.at(&namespace, "ip link set lan0 up");
        namespace
    })
}

#[test]
fn virtio_user_that_ends_in_the_middle_costs_its_neighbours_nothing() {
    if !Path::new(PROGRAM).exists() {
        eprintln!("skipped: needs {PROGRAM}");
        return;
    }
    run("overlay-virtio-user", |world| {
        let daemon = world.daemon("control", "add network lan vni 7\n");
        for (number, last) in PORTS.iter().enumerate() {
            let socket = world.path(&format!("{number}.sock"));
            daemon.tell(&format!(
                "add interface vm{number} network lan vhost-user {} mac 02:00:00:00:00:{last}",
                socket.display()
            ));
        }
        let [one, other] = neighbours(world, &daemon);
        passes(&one, &other, "10.7.0.2");
        let flow = Flow::start(&one, &other, "10.7.0.2");
        let rings = [
            "queue_size=256",
            "queue_size=32",
            "queue_size=1024,in_order=0",
            "queue_size=256,packed_vq=1",
        ];
        for ring in rings {
            for signals in [
                &[Signal::KILL][..],
                &[Signal::STOP, Signal::KILL],
                &[Signal::TERM],
            ] {
                let before = frames(&daemon);
                let mut peer = testpmd(world, ring);
                eventually("it sends", || frames(&daemon) > before + 10_000);
                for signal in signals {
                    kill_process(Pid::from_child(&peer.0), *signal).unwrap();
                    // Halted, it takes no more frames from its full rings.
                    if *signal == Signal::STOP {
                        passes(&one, &other, "10.7.0.2");
                        std::thread::sleep(Duration::from_millis(200));
                    }
                }
                peer.0.wait().unwrap();
                passes(&one, &other, "10.7.0.2");
            }
        }
        assert!(flow.finish() > 0);
        for interface in ["vm0", "vm1"] {
            daemon.tell(&format!("delete interface {interface}"));
        }
    });
}
