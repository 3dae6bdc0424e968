//! Network namespaces of the tests' own, each behind a thread that lives in one, and a switch of two
//! ports between a tap and a link.
//!
//! Nothing of the machine is touched: namespaces, and all that is in them, vanish with their threads.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use latlab_overlay::endpoints::{Counters, PortId, Receive, Transmit};
use latlab_overlay::frames::Batch;
use latlab_overlay::ports::tap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::UnshareFlags;

/// Whether tests can make namespaces; says so if not.
pub fn can(name: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("{name} skipped: needs root to make namespaces");
    }
    root
}

type Work = Box<dyn FnOnce() + Send>;

/// A network namespace and the thread that is in it.
pub struct Space {
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    pub tid: i32,
}

impl Space {
    pub fn new() -> Space {
        let (work, orders) = channel::<Work>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: only this thread gets a new namespace; descriptors stay shared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            for order in orders {
                order();
            }
        });
        let space = Space {
            work: Some(work),
            thread: Some(thread),
            tid: told.recv().unwrap(),
        };
        space.ip("link set lo up");
        space
    }

    /// Does something in the namespace.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let order = Box::new(move || {
            tell.send(work()).ok();
        });
        self.work.as_ref().unwrap().send(order).unwrap();
        told.recv().expect("the namespace's thread panicked")
    }

    /// Runs a command there that has to succeed; what it printed.
    pub fn shell(&self, line: &str) -> String {
        let output = self.attempt(line);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}{complaint}");
        said
    }

    /// Runs a command there.
    pub fn attempt(&self, line: &str) -> Output {
        let command = line.to_string();
        self.run(move || {
            Command::new("timeout")
                .args(["60", "sh", "-c", &command])
                .output()
                .unwrap()
        })
    }

    /// Starts a command there.
    pub fn start(&self, line: &str) -> Running {
        let command = format!("exec {line}");
        let child = self.run(move || {
            Command::new("sh")
                .args(["-c", &command])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        });
        Running(Some(child))
    }

    pub fn ip(&self, words: &str) {
        self.shell(&format!("ip {words}"));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.work.take();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// A process that a test started; killed with it.
pub struct Running(Option<Child>);

impl Running {
    /// Ends it as a user would, and waits; what it wrote.
    pub fn finish(mut self) -> Output {
        let child = self.0.take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        child.wait_with_output().unwrap()
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Two namespaces joined by a veth `wire` with 192.0.2.1 and .2, 2001:db8::1 and ::2.
pub fn pair(mtu: u32) -> (Space, Space) {
    let (a, b) = (Space::new(), Space::new());
    a.ip(&format!(
        "link add wire mtu {mtu} address 02:00:00:00:00:01 type veth peer name wire mtu {mtu} netns {}",
        b.tid
    ));
    for (space, host) in [(&a, 1), (&b, 2)] {
        space.ip(&format!("address add 192.0.2.{host}/24 dev wire"));
        space.ip(&format!("address add 2001:db8::{host}/64 dev wire nodad"));
        space.ip("link set wire up");
    }
    (a, b)
}

/// A tap in a namespace, joined with a link: frames of one go to the other.
pub struct Switch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub tap: Arc<Counters>,
}

pub const TAP: PortId = PortId(1);
pub const LINK: PortId = PortId(2);

impl Switch {
    /// Makes the tap `name` and moves frames of `network` until dropped. `make` is called in the
    /// namespace for the halves of the link.
    pub fn start<R, T>(
        space: &Space,
        name: &'static str,
        mtu: u16,
        network: u32,
        make: impl FnOnce() -> (R, T) + Send + 'static,
    ) -> Switch
    where
        R: Receive + 'static,
        T: Transmit + 'static,
    {
        let counters = Arc::new(Counters::default());
        let tap_counters = counters.clone();
        let (halves, (taps, sender)) = space.run(move || {
            let spec = tap::TapConfig {
                id: TAP,
                device: name,
                netns: None,
                queues: 1,
                mtu,
                counters: tap_counters,
            };
            let made = make();
            // The tap of a switch before this one may take a moment to go.
            let mut opened = tap::open(&spec);
            for _ in 0..500 {
                match &opened {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                        opened = tap::open(&spec);
                    }
                    _ => break,
                }
            }
            (made, opened.unwrap())
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (from_link, to_link) = halves;
        let from_tap = taps.into_iter().next().unwrap();
        let out = mover(stop.clone(), Box::new(from_tap), Box::new(to_link), network);
        let into = mover(stop.clone(), Box::new(from_link), Box::new(sender), network);
        Switch {
            stop,
            threads: vec![out, into],
            tap: counters,
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

fn mover(
    stop: Arc<AtomicBool>,
    mut from: Box<dyn Receive>,
    mut to: Box<dyn Transmit>,
    network: u32,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut batch = Batch::new(32);
        let mut which = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            batch.clear();
            if from.receive(&mut batch) == 0 {
                from.complete();
                if !from.arm() {
                    let timeout = Timespec {
                        tv_sec: 0,
                        tv_nsec: 20_000_000,
                    };
                    let wakeup = from.wakeup();
                    let mut ready = [PollFd::new(&wakeup, PollFlags::IN)];
                    poll(&mut ready, Some(&timeout)).ok();
                }
                from.disarm();
                continue;
            }
            which.clear();
            for (number, frame) in batch.frames_mut().iter_mut().enumerate() {
                if frame.ingress == TAP {
                    frame.network = network;
                }
                if frame.network == network {
                    which.push(number as u16);
                }
            }
            to.transmit(&batch, &which);
            to.flush();
            from.complete();
        }
    })
}

/// Addresses of both families, of the LAN that tests make.
pub fn addresses(space: &Space, device: &str, host: u32, mtu: u32) {
    space.ip(&format!("link set {device} mtu {mtu} up"));
    space.ip(&format!("address add 198.51.100.{host}/24 dev {device}"));
    space.ip(&format!(
        "address add 2001:db8:1::{host}/64 dev {device} nodad"
    ));
}

pub fn ping(space: &Space, words: &str) {
    space.shell(&format!("ping -n -i 0.02 -W 20 {words}"));
}

/// Bulk both ways; every byte arrives. Random payload would look like other protocols to dissectors.
fn bulk(client: &Space, server: &Space, address: &str, bytes: u32) {
    for (from, to, reverse) in [(client, server, ""), (client, server, "-R")] {
        let listening = listen(to, address);
        let words = format!(
            "iperf3 -c {address} -n {bytes} {reverse} --connect-timeout 30000 --repeating-payload -J"
        );
        let said = from.shell(&words);
        drop(listening);
        assert!(said.contains("sum_received"), "{said}");
    }
}

fn listen(space: &Space, address: &str) -> Running {
    let server = space.start(&format!("iperf3 -s -1 -B {address}"));
    for _ in 0..1000 {
        if space.shell("ss -ltn").contains(":5201") {
            return server;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("iperf3 does not listen: {:?}", server.finish());
}

/// Everything that an Ethernet carries.
pub fn everything(a: &Space, b: &Space, device: &str, mtu: u32) {
    let (v4, v6) = (mtu - 28, mtu - 48);
    ping(a, "-c 3 198.51.100.2");
    ping(b, "-c 3 2001:db8:1::1");
    ping(a, &format!("-c 3 -M do -s {v4} 198.51.100.2"));
    ping(a, &format!("-c 3 -M do -s {v6} 2001:db8:1::2"));
    // Multicast: every host on the LAN answers to all-nodes.
    ping(a, "-c 2 -I tap0 ff02::1");
    bulk(a, b, "198.51.100.2", 8_000_000);
    bulk(a, b, "2001:db8:1::2", 4_000_000);
    tagged((a, "tap0"), (b, device));
    tagged((b, device), (a, "tap0"));
}

/// A frame with a VLAN tag arrives with it. The kernel here has no VLAN device, so a packet socket
/// sends it, and one reads it, beside which the kernel says which tag it took out.
fn tagged(from: (&Space, &str), to: (&Space, &str)) {
    const READ: &str = "import socket, struct, sys
s = socket.socket(17, 3, socket.htons(3)); s.bind((sys.argv[1], 0))
s.setsockopt(263, 8, 1); s.settimeout(50)
open(sys.argv[2], \"w\")
while True:
    data, beside, _, _ = s.recvmsg(4096, 512)
    for _, _, aux in beside:
        status, _, _, _, _, tag, _ = struct.unpack(\"IIIHHHH\", aux[:20])
        if status & 16 and tag == 0x6005 and b\"tagged\" in data: sys.exit(0)
";
    const SEND: &str = "import socket, sys
s = socket.socket(17, 3, 0); s.bind((sys.argv[1], 0))
s.send(b\"\\xff\" * 6 + b\"\\2\\0\\0\\0\\0\\x99\\x81\\0\\x60\\5\\x88\\xb5\" + b\"tagged\" * 10)";
    let ready = std::env::temp_dir().join(format!("latlab-tagged-{}-{}", to.0.tid, from.0.tid));
    let reader =
        to.0.start(&format!("python3 -c '{READ}' {} {}", to.1, ready.display()));
    for _ in 0..2500 {
        if ready.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(&ready).expect("the reader is ready");
    from.0.shell(&format!("python3 -c '{SEND}' {}", from.1));
    let read = reader.wait();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
}

/// A wire as cards make it: checksums computed, everything cut.
pub fn as_cards_do(space: &Space) {
    space.shell("ethtool -K wire tx off gso off gro off");
}
