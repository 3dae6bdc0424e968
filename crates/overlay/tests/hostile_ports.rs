//! Trouble at the ports of a real daemon: devices that go, monitors that hang up or do not answer.

mod common;
mod vm;

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{Daemon, World, eventually, run};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vhost::VhostBackend;
use vm::{PLAIN, Vm};

fn with_daemon(name: &str, test: impl FnOnce(&World, &Daemon) + Send) {
    run(&format!("overlay-hostile-{name}"), |world| {
        let daemon = world.daemon("control", "add network lan vni 7\n");
        test(world, &daemon);
    });
}

/// CPU time that the daemon takes within a second, in hundredths.
fn hundredths(daemon: &Daemon) -> u64 {
    let read = || {
        let stat = format!("/proc/{}/stat", daemon.process.0.id());
        let stat = std::fs::read_to_string(stat).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<u64> = fields.split(' ').map(|f| f.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    };
    let before = read();
    std::thread::sleep(Duration::from_secs(1));
    read() - before
}

/// An order is obeyed, or the test fails: the daemon's lock is not held for ever.
fn obeys(daemon: &Daemon, line: &str) {
    let (done, answered) = channel();
    let (socket, order) = (daemon.socket.clone(), line.to_string());
    std::thread::spawn(move || {
        let mut client = latlab_overlay::control::Client::connect(&socket).unwrap();
        let _ = done.send(client.say(&order).unwrap().is_ok());
    });
    let answer = answered.recv_timeout(Duration::from_secs(20));
    assert_eq!(answer, Ok(true), "{line}");
}

fn trouble(daemon: &Daemon, name: &str) -> String {
    let lines = daemon.tell("list interfaces");
    let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
    line.split_once("# trouble: ")
        .map_or(String::new(), |(_, trouble)| trouble.to_string())
}

/// A container with CAP_NET_ADMIN deletes the tap in its namespace, in each manner of dispatch.
#[test]
fn a_deleted_tap_is_told_and_costs_nothing() {
    with_daemon("tap", |world, daemon| {
        for (name, mode) in [("guest", "guest"), ("vmm", "vmm"), ("adaptive", "adaptive")] {
            let namespace = world.namespace(name);
            daemon.tell(&format!(
                "add interface {name} network lan tap lan0 netns {} mode {mode}",
                namespace.display()
            ));
            world.at(&namespace, "ip link delete lan0");
            eventually("it is told", || {
                trouble(daemon, name).contains("its tap was deleted")
            });
            let busy = hundredths(daemon);
            assert!(busy < 5, "{mode}: {busy} hundredths of a processor");
            obeys(daemon, &format!("delete interface {name}"));
        }
    });
}

/// A port whose monitor cannot be accepted for want of descriptors pauses, and has it afterwards.
#[test]
fn a_connection_that_cannot_be_accepted_is_not_spun_for() {
    with_daemon("accept", |world, daemon| {
        let socket = world.path("vm.sock");
        daemon.tell(&format!(
            "add interface vm network lan vhost-user {}",
            socket.display()
        ));
        let pid = daemon.process.0.id();
        let limit = |files: &str| world.sh(&format!("prlimit --pid {pid} --nofile={files}:4096"));
        // Below those that are open already.
        limit("4");
        let waiting = UnixStream::connect(&socket).unwrap();
        let busy = hundredths(daemon);
        limit("4096");
        assert!(busy < 5, "{busy} hundredths of a processor");
        drop(waiting);
        let mut vm = Vm::connect(&socket, PLAIN);
        vm.send(&vm::frame(1, 60));
        vm.kick.write(1).unwrap();
        eventually("it is served", || {
            daemon.counter("vm", "received_frames") == 1
        });
        obeys(daemon, "delete interface vm");
    });
}

/// Makes the guest's eventfd one to which the next write waits for ever.
fn block(vm: &Vm) {
    let _ = vm.call.read();
    while vm.call.write(u64::MAX - 1).is_err() {
        let _ = vm.call.read();
    }
    // SAFETY: the descriptor is open as long as the guest.
    let call = unsafe { BorrowedFd::borrow_raw(vm.call.as_raw_fd()) };
    rustix::io::ioctl_fionbio(call, false).unwrap();
}

/// An eventfd belongs to the monitor, who may make it block and fill it at any time.
#[test]
fn an_eventfd_that_blocks_stops_neither_a_dispatcher_nor_an_order() {
    with_daemon("eventfd", |world, daemon| {
        let guest = |name: &str| {
            let socket = world.path(&format!("{name}.sock"));
            daemon.tell(&format!(
                "add interface {name} network lan vhost-user {}",
                socket.display()
            ));
            Vm::connect(&socket, PLAIN)
        };
        let [mut a, mut b] = ["a", "b"].map(guest);
        let mut passes = |to: &mut Vm| {
            a.send(&vm::frame(1, 60));
            a.kick.write(1).unwrap();
            eventually("a frame between neighbours", || to.receive().is_some());
        };
        let hostile = guest("hostile");
        block(&hostile);
        passes(&mut b);
        eventually("it is told", || {
            trouble(daemon, "hostile").contains("an eventfd")
        });
        passes(&mut b);
        obeys(daemon, "delete interface hostile");
        // The port's own thread interrupts a guest whose ring starts again and is behind.
        let mut hostile = guest("other");
        passes(&mut hostile);
        hostile.monitor.get_vring_base(0).unwrap();
        block(&hostile);
        let addresses = hostile.addresses(0);
        hostile.monitor.set_vring_addr(0, &addresses).unwrap();
        let kicked = hostile.monitor.set_vring_kick(0, &hostile.kick);
        eventually("it is told too", || {
            trouble(daemon, "other").contains("an eventfd")
        });
        drop(kicked);
        passes(&mut b);
        obeys(daemon, "delete interface other");
    });
}

/// A port that calls its monitor, which hangs up at once, or never accepts.
#[test]
fn a_monitor_that_hangs_up_or_does_not_answer_keeps_nobody_waiting() {
    with_daemon("call", |world, daemon| {
        let socket = world.path("called.sock");
        let add = format!(
            "add interface called network lan vhost-user {} client on",
            socket.display()
        );
        let listener = UnixListener::bind(&socket).unwrap();
        obeys(daemon, &add);
        listener.set_nonblocking(true).unwrap();
        let (mut calls, end) = (0, Instant::now() + Duration::from_secs(2));
        while Instant::now() < end {
            match listener.accept() {
                Ok(_) => calls += 1,
                Err(_) => std::thread::yield_now(),
            }
        }
        assert!((1..=20).contains(&calls), "{calls} calls");
        obeys(daemon, "delete interface called");
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
        // As small a queue as there is, and full.
        let (_listener, _waiting) = full(&socket);
        obeys(daemon, &add);
        std::thread::sleep(Duration::from_millis(300));
        obeys(daemon, "delete interface called");
        std::fs::remove_file(&socket).unwrap();
        // Another process listens where the port is to listen, and does not answer.
        let (_listener, _waiting) = full(&socket);
        let (done, answered) = channel();
        let mut client = daemon.client();
        std::thread::spawn(move || done.send(client.say(add.trim_end_matches(" client on"))));
        let refused = answered.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(refused.unwrap_err().contains("in use"));
    });
}

/// A monitor that says the beginning of a message, in each of its parts, and no more.
#[test]
fn a_monitor_that_does_not_go_on_keeps_nobody_waiting() {
    with_daemon("half", |world, daemon| {
        let set_mem_table = [5_u32, 1, 8 + 32].map(u32::to_le_bytes).concat();
        let socket = world.path("half.sock");
        for bytes in [0, 1, 11, 12] {
            let add = format!(
                "add interface half network lan vhost-user {}",
                socket.display()
            );
            obeys(daemon, &add);
            let mut monitor = UnixStream::connect(&socket).unwrap();
            monitor.write_all(&set_mem_table[..bytes]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            obeys(daemon, "list interfaces");
            obeys(daemon, "delete interface half");
        }
    });
}

/// A socket that accepts no connection, and whose queue is full.
fn full(socket: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let new = |flags| {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let address = SocketAddrUnix::new(socket).unwrap();
    let listener = new(SocketFlags::empty());
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let caller = new(SocketFlags::NONBLOCK);
        match rustix::net::connect(caller.as_fd(), &address) {
            Ok(()) => waiting.push(caller),
            Err(_) => return (listener, waiting),
        }
    }
}

/// A process that may connect to a guest's port is in its network.
#[test]
fn a_socket_is_not_for_everybody() {
    run("overlay-hostile-socket", |world| {
        let socket = world.path("open.sock");
        let old = rustix::process::umask(rustix::fs::Mode::empty());
        let daemon = world.daemon(
            "open",
            &format!(
                "add network lan vni 7\nadd interface vm network lan vhost-user {}\n",
                socket.display()
            ),
        );
        rustix::process::umask(old);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&socket), 0o660);
        // A process that may connect to this one gives orders.
        assert_eq!(mode(&daemon.socket), 0o600);
        drop(daemon);
    });
}
