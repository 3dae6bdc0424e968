//! Guests that move while frames flow: frames wait in order and in bounded memory, and addresses move by a fenced command.

mod common;
mod underlay;
mod vm;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Daemon, TIMEOUT, World, eventually, run};
use underlay::{Raw, on};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vm::{PLAIN, Vm};

/// Address of a guest whose place is what matters, and of others.
const MOVING: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MOVING_TEXT: &str = "02:00:00:00:00:02";

/// Frames that any queue takes at once.
const BURST: u32 = 100;

fn frame(to: [u8; 6], from: [u8; 6], number: u32) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5], &number.to_be_bytes()].concat();
    frame.resize(100, 0x5a);
    frame
}

fn number_of(frame: &[u8]) -> Option<u32> {
    let is_ours = frame.starts_with(&MOVING) && frame.get(12..14) == Some(&[0x88, 0xb5]);
    is_ours.then(|| u32::from_be_bytes(frame[14..18].try_into().unwrap()))
}

/// The numbers of the frames that came to the moving guest, until there is silence.
fn arrived(at: &Raw) -> Vec<u32> {
    // A tap's frames come in from the daemon.
    at.drain_received()
        .iter()
        .filter_map(|f| number_of(f))
        .collect()
}

fn up_to(end: u32) -> Vec<u32> {
    (0..end).collect()
}

/// Frames of the network that waited, and that were dropped.
fn held(daemon: &Daemon) -> (u64, u64) {
    let lines = daemon.tell("counters");
    let line = lines.iter().find(|line| line.starts_with("network lan "));
    let Some(line) = line else { return (0, 0) };
    let words: Vec<&str> = line.split(' ').collect();
    (words[3].parse().unwrap(), words[5].parse().unwrap())
}

struct Lan {
    daemon: Daemon,
    /// Packet sockets on the taps `a`, `b` and `c`.
    taps: [Raw; 3],
    namespaces: [PathBuf; 3],
    sent: AtomicU32,
}

impl Lan {
    fn start(world: &World, more: &str) -> Lan {
        let namespaces = ["a", "b", "c"].map(|name| world.namespace(name));
        let mut config = format!("add network lan vni 7\n{more}\n");
        for (name, namespace) in ["a", "b", "c"].iter().zip(&namespaces) {
            let netns = namespace.display();
            config += &format!("add interface {name} network lan tap lan0 netns {netns}\n");
        }
        let daemon = world.daemon("control", &config);
        let taps = namespaces
            .each_ref()
            .map(|namespace| Raw::open(namespace, "lan0"));
        let lan = Lan {
            daemon,
            taps,
            namespaces,
            sent: AtomicU32::new(0),
        };
        lan.speaks(1);
        lan
    }

    /// The moving guest speaks at a port.
    fn speaks(&self, at: usize) {
        let name = ["a", "b", "c"][at];
        let before = self.daemon.counter(name, "received_frames");
        self.taps[at].send(&frame(OTHER, MOVING, 0));
        eventually("the daemon has heard it", || {
            self.daemon.counter(name, "received_frames") > before
        });
    }

    /// Sends the next frames from `a` to the moving guest, no faster than the daemon takes them.
    fn send(&self, count: u32) {
        let mut left = count;
        while left > 0 {
            let burst = left.min(BURST);
            let before = self.daemon.counter("a", "received_frames");
            for _ in 0..burst {
                let number = self.sent.fetch_add(1, Ordering::Relaxed);
                self.taps[0].send(&frame(MOVING, OTHER, number));
            }
            eventually("the daemon has the frames", || {
                self.daemon.counter("a", "received_frames") >= before + u64::from(burst)
            });
            left -= burst;
        }
    }
}

#[test]
fn frames_wait_and_leave_in_order_before_any_later_one() {
    for dispatchers in [1, 3] {
        run(&format!("overlay-hold-{dispatchers}"), |world| {
            let lan = Lan::start(world, &format!("set dispatch dispatchers {dispatchers}"));
            let mut client = lan.daemon.client();
            drop(arrived(&lan.taps[1]));
            client.say(&format!("hold {MOVING_TEXT} for 60s")).unwrap();
            lan.send(300);
            eventually("they wait", || held(&lan.daemon) == (300, 0));
            assert!(arrived(&lan.taps[1]).is_empty());
            let shown = client.say("show").unwrap();
            let line = shown.iter().find(|line| line.starts_with("# hold"));
            let line = line.expect("it is shown");
            assert!(
                line.contains(&format!("{MOVING_TEXT} frames 300 ")),
                "{line}"
            );
            assert_eq!(client.say("list holds").unwrap().len(), 1);
            let metrics = client.say("counters openmetrics").unwrap();
            let metric = "latlab_overlay_held_frames_total{network=\"lan\"} 300";
            assert!(metrics.iter().any(|line| line == metric), "{metrics:?}");
            // More of them while the first ones leave.
            std::thread::scope(|scope| {
                scope.spawn(|| lan.send(1000));
                client.say(&format!("release {MOVING_TEXT}")).unwrap();
            });
            assert_eq!(arrived(&lan.taps[1]), up_to(1300));
            assert!(client.say("list holds").unwrap().is_empty());
            let refused = client.say(&format!("release {MOVING_TEXT}")).unwrap_err();
            assert!(refused.contains("was not held"), "{refused}");
        });
    }
}

#[test]
fn memory_is_bounded_and_what_does_not_fit_is_counted() {
    run("overlay-hold-memory", |world| {
        let lan = Lan::start(world, "");
        let mut client = lan.daemon.client();
        drop(arrived(&lan.taps[1]));
        let order = format!("hold {MOVING_TEXT} limit 10kB for 60s");
        client.say(&order).unwrap();
        lan.send(500);
        eventually("all are counted", || {
            let (held, dropped) = held(&lan.daemon);
            held + dropped == 500
        });
        let (fit, dropped) = held(&lan.daemon);
        assert!(fit > 10 && fit <= 100, "{fit} frames of 100 bytes in 10 kB");
        assert_eq!(dropped, 500 - fit);
        let line = client.say("list holds").unwrap().remove(0);
        let bytes = line.split(' ').skip_while(|word| *word != "bytes").nth(1);
        assert!(bytes.unwrap().parse::<u64>().unwrap() <= 10_000, "{line}");
        client.say(&format!("release {MOVING_TEXT}")).unwrap();
        // The oldest ones.
        assert_eq!(arrived(&lan.taps[1]), up_to(fit as u32));
    });
}

#[test]
fn a_hold_ends_with_its_time_and_with_its_holder() {
    run("overlay-hold-ends", |world| {
        let lan = Lan::start(world, "");
        drop(arrived(&lan.taps[1]));
        let mut client = lan.daemon.client();
        client.say(&format!("hold {MOVING_TEXT} for 3s")).unwrap();
        lan.send(10);
        eventually("its time ends", || {
            client.say("list holds").unwrap().is_empty()
        });
        assert_eq!(arrived(&lan.taps[1]), up_to(10));
        assert_eq!(held(&lan.daemon), (10, 0));

        let mut holder = lan.daemon.client();
        let begun = Instant::now();
        holder.say(&format!("hold {MOVING_TEXT} for 60s")).unwrap();
        client.say("hold 02:00:00:00:00:03 for 60s").unwrap();
        lan.send(10);
        eventually("they wait", || held(&lan.daemon) == (20, 0));
        // As if it were killed.
        drop(holder);
        eventually("only the other hold is left", || {
            let lines = client.say("list holds").unwrap();
            lines.len() == 1 && lines[0].starts_with("02:00:00:00:00:03 ")
        });
        assert!(
            begun.elapsed() < TIMEOUT - Duration::from_secs(5),
            "by its time"
        );
        assert_eq!(arrived(&lan.taps[1]), (10..20).collect::<Vec<u32>>());
    });
}

#[test]
fn an_address_moves_with_the_frames_that_wait() {
    run("overlay-move", |world| {
        let lan = Lan::start(world, "");
        let mut client = lan.daemon.client();
        lan.send(10);
        assert_eq!(arrived(&lan.taps[1]).len(), 10);
        client.say(&format!("hold {MOVING_TEXT} for 60s")).unwrap();
        lan.send(100);
        client
            .say(&format!("move {MOVING_TEXT} to interface c revision 7"))
            .unwrap();
        client.say(&format!("release {MOVING_TEXT}")).unwrap();
        lan.send(100);
        assert_eq!(arrived(&lan.taps[2]), (10..210).collect::<Vec<u32>>());
        assert!(arrived(&lan.taps[1]).is_empty());
        // The place before wakes up late.
        lan.speaks(1);
        lan.send(10);
        assert_eq!(arrived(&lan.taps[2]).len(), 10);
        for revision in [6, 7] {
            let order = format!("move {MOVING_TEXT} to interface b revision {revision}");
            let refused = client.say(&order).unwrap_err();
            assert!(refused.contains("is not newer than 7"), "{refused}");
        }
        let line = format!("lan {MOVING_TEXT} interface c revision 7");
        let moves = client.say("list moves").unwrap();
        assert_eq!(moves.join("\n"), line);
        let shown = client.say("show").unwrap();
        assert!(shown.contains(&format!("# move {line}")), "{shown:?}");
        lan.speaks(2);
        lan.speaks(1);
        assert_eq!(client.say("list moves").unwrap(), [format!("{line} seen")]);
        lan.send(10);
        assert_eq!(arrived(&lan.taps[2]).len(), 10);
        // A newer revision takes it back.
        client
            .say(&format!("move {MOVING_TEXT} to interface b revision 8"))
            .unwrap();
        lan.send(10);
        assert_eq!(arrived(&lan.taps[1]).len(), 10);
    });
}

/// A host that comes back with another address has its link replaced by one of the same name.
#[test]
fn a_move_to_a_link_holds_for_the_link_that_takes_its_name() {
    run("overlay-move-link", |world| {
        world.sh("ip link set lo up");
        let link = |host: u8| format!("add link other udp 127.0.0.{host} local 127.0.0.1");
        let daemon = world.daemon("control", &format!("add network lan vni 7\n{}\n", link(2)));
        let mut client = daemon.client();
        let line = format!("{MOVING_TEXT} to link other network lan revision 7");
        client.say(&format!("move {line}")).unwrap();
        let place = format!("lan {MOVING_TEXT} link other revision 7");
        for number in [3, 2] {
            for line in ["begin", "delete link other", &link(number), "commit"] {
                client.say(line).unwrap();
            }
            assert_eq!(client.say("list moves").unwrap().join("\n"), place);
        }
        // A link that is deleted takes its places along.
        client.say("delete link other").unwrap();
        client.say(&link(2)).unwrap();
        let learned = format!("lan {MOVING_TEXT} learned revision 7");
        assert_eq!(client.say("list moves").unwrap(), [learned]);
    });
}

#[test]
fn hostile_words_are_refused_and_change_nothing() {
    run("overlay-hold-words", |world| {
        let more = "add network fixed vni 8 learning off
             add interface d network fixed tap lan1
             add link other listen 0.0.0.0:4795 peer any
             add route lan any 02:00:00:00:00:07 link other";
        let lan = Lan::start(world, more);
        let mut client = lan.daemon.client();
        let before = client.say("show").unwrap();
        let many = |from: u32, count: u32| {
            let macs =
                (from..from + count).map(|n| format!("02:00:00:01:{:02x}:{:02x}", n >> 8, n & 255));
            macs.collect::<Vec<_>>().join(" ")
        };
        let too_many = format!("hold {} for 1s", many(0, 65));
        let cases = [
            (too_many.as_str(), "there are more than 64 addresses"),
            ("hold 01:00:5e:00:00:01 for 1s", "is the address of a group"),
            ("hold ff:ff:ff:ff:ff:ff for 1s", "is the address of a group"),
            ("hold 02:00:00:00:00:02", "`for` is missing"),
            ("hold for 1s", "`for` is no MAC address"),
            ("hold 02:00:00:00:00:02 for 61s", "cannot be the for"),
            ("hold 02:00:00:00:00:02 for 0s", "cannot be the for"),
            (
                "hold 02:00:00:00:00:02 limit 1TB for 1s",
                "cannot be the limit",
            ),
            (
                "hold 02:00:00:00:00:02 limit 65MiB for 1s",
                "cannot be the limit",
            ),
            (
                "hold 02:00:00:00:00:02 02:00:00:00:00:02 for 1s",
                "is given twice",
            ),
            (
                "move 02:00:00:00:00:02 to interface e revision 1",
                "there is no interface `e`",
            ),
            (
                "move 02:00:00:00:00:02 to interface a",
                "`revision` is missing",
            ),
            (
                "move 02:00:00:00:00:02 to interface a revision -1",
                "cannot be the revision",
            ),
            (
                "move 01:00:5e:00:00:01 to interface a revision 1",
                "is the address of a group",
            ),
            (
                "move 02:00:00:00:00:02 to link other revision 1",
                "carries 2 networks",
            ),
            (
                "move 02:00:00:00:00:02 to interface a network fixed revision 1",
                "does not carry",
            ),
            (
                "move 02:00:00:00:00:02 to interface d revision 1",
                "learns no addresses",
            ),
            (
                "move 02:00:00:00:00:07 to interface b revision 1",
                "has a route of its own",
            ),
            ("release 02:00:00:00:00:02", "was not held"),
        ];
        for (line, expected) in cases {
            let refused = client.say(line).expect_err(line);
            assert!(refused.contains(expected), "{line}: {refused}");
            assert_eq!(client.say("show").unwrap(), before, "{line}");
        }
        client.say("begin").unwrap();
        let refused = client.say("hold 02:00:00:00:00:02 for 1s").unwrap_err();
        assert!(refused.contains("no part of a change"), "{refused}");
        client.say("abort").unwrap();
        // All holds together are bounded, in addresses and in memory.
        for part in 0..4 {
            let order = format!("hold {} limit 1MiB for 60s", many(part * 64, 64));
            client.say(&order).unwrap();
        }
        let refused = client.say("hold 02:00:00:00:00:02 for 1s").unwrap_err();
        assert!(refused.contains("more than 256 addresses"), "{refused}");
        let refused = client
            .say(&format!("hold {} for 1s", many(0, 1)))
            .unwrap_err();
        assert!(refused.contains("is held already"), "{refused}");
        client.say(&format!("release {}", many(0, 64))).unwrap();
        let refused = client
            .say("hold 02:00:00:00:00:02 limit 62MiB for 1s")
            .unwrap_err();
        assert!(refused.contains("left for holds"), "{refused}");
        client
            .say("hold 02:00:00:00:00:02 limit 61MiB for 60s")
            .unwrap();
    });
}

/// Frames on their way to a guest that takes them, at most: as many as its ring has room for, whatever the guest does.
const WINDOW: u32 = 48;

/// The guest's side of a flood: every number arrives once and in order.
struct Flooded {
    guest: Vm,
    next: Arc<AtomicU32>,
}

impl Flooded {
    fn take(&mut self, count: u32) {
        let (end, until) = (
            Instant::now() + TIMEOUT,
            self.next.load(Ordering::Relaxed) + count,
        );
        while self.next.load(Ordering::Relaxed) < until {
            if let Some((_, frame)) = self.guest.receive() {
                if let Some(number) = number_of(&frame) {
                    assert_eq!(number, self.next.load(Ordering::Relaxed), "in order");
                    self.next.fetch_add(1, Ordering::Relaxed);
                }
            }
            assert!(
                Instant::now() < end,
                "frame {:?} does not arrive",
                self.next
            );
        }
    }

    /// As a monitor that moves a guest: it has the rings set up anew for the log of written pages, and stops them later.
    fn stop(&mut self) {
        for _ in 0..10 {
            let call = &self.guest.call;
            self.guest.monitor.set_vring_call(0, call).unwrap();
            self.take(20);
        }
        for ring in [0, 1] {
            let monitor = &mut self.guest.monitor;
            monitor.set_vring_enable(ring, false).unwrap();
            monitor.get_vring_base(ring).unwrap();
        }
    }
}

/// A guest stops its rings while frames come as fast as it takes them, and goes on with the same rings at another port,
/// which is there before the frames or after them.
#[test]
fn a_guest_that_stops_and_moves_under_a_flood_loses_nothing() {
    for dispatchers in [1, 3] {
        run(&format!("overlay-hold-stop-{dispatchers}"), |world| {
            let names = ["v", "w"];
            let sockets = names.map(|name| world.path(&format!("{name}.sock")));
            let mut more = format!("set dispatch dispatchers {dispatchers}\n");
            for (name, socket) in names.iter().zip(&sockets) {
                let socket = socket.display();
                more += &format!("add interface {name} network lan vhost-user {socket}\n");
            }
            let lan = Lan::start(world, &more);
            let mut client = lan.daemon.client();
            let to_v = format!("move {MOVING_TEXT} to interface v revision 1");
            client.say(&to_v).unwrap();
            let mut flooded = Flooded {
                guest: Vm::connect(&sockets[0], PLAIN),
                next: Arc::default(),
            };
            let (next, is_over) = (Arc::clone(&flooded.next), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let _ended = Ended(&is_over);
                scope.spawn(|| {
                    let mut sent = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        if sent - next.load(Ordering::Relaxed) < WINDOW {
                            lan.taps[0].send(&frame(MOVING, OTHER, sent));
                            sent += 1;
                        }
                    }
                });
                for number in 2..22 {
                    let here = number % 2;
                    let there = 1 - here;
                    let armed = |at: usize| {
                        format!("hold {MOVING_TEXT} for 20s when-stopped {}", names[at])
                    };
                    let said = client.say(&armed(here));
                    let stays = said.is_err_and(|e| !e.contains("is held already"));
                    assert!(!stays, "the hold");
                    flooded.stop();
                    let is_first = number % 4 < 2;
                    if is_first {
                        flooded.guest.reconnect(&sockets[there], PLAIN);
                    }
                    let to = format!(
                        "move {MOVING_TEXT} to interface {} revision {number}",
                        names[there]
                    );
                    client.say(&to).unwrap();
                    if !is_first {
                        client.say(&armed(there)).unwrap();
                    }
                    client.say(&format!("release {MOVING_TEXT}")).unwrap();
                    if !is_first {
                        flooded.guest.reconnect(&sockets[there], PLAIN);
                    }
                    flooded.take(2 * WINDOW);
                }
            });
            assert_eq!(held(&lan.daemon).1, 0);
        });
    }
}

/// Ends a thread, also after a failed assertion.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hold_waits_for_the_stop_of_an_interface() {
    run("overlay-hold-armed", |world| {
        let socket = world.path("v.sock");
        let more = format!(
            "add interface v network lan vhost-user {} mac {MOVING_TEXT}",
            socket.display()
        );
        let lan = Lan::start(world, &more);
        let mut client = lan.daemon.client();
        let before = client.say("show").unwrap();
        for (line, expected) in [
            (
                "02:00:00:00:00:02 for 1s when-stopped x",
                "there is no interface `x`",
            ),
            ("02:00:00:00:00:02 for 1s when-stopped a", "has no rings"),
            (
                "02:00:00:00:00:03 for 1s when-stopped v",
                "is no address of",
            ),
            ("02:00:00:00:00:02 when-stopped v", "`for` is missing"),
        ] {
            let refused = client.say(&format!("hold {line}")).expect_err(line);
            assert!(refused.contains(expected), "{line}: {refused}");
            assert_eq!(client.say("show").unwrap(), before, "{line}");
        }
        let order = format!("hold {MOVING_TEXT} for 60s when-stopped v");
        // A guest that is not there yet, and comes.
        client.say(&order).unwrap();
        lan.send(10);
        eventually("they wait", || held(&lan.daemon) == (10, 0));
        let mut guest = Vm::connect(&socket, PLAIN);
        eventually("it ends with the start", || {
            client.say("list holds").unwrap().is_empty()
        });
        // One that is gone, with an end by its holder.
        client.say(&order).unwrap();
        let refused = client.say(&order).unwrap_err();
        assert!(refused.contains("is held already"), "{refused}");
        let line = client.say("list holds").unwrap().remove(0);
        assert!(line.ends_with(" when-stopped v"), "{line}");
        lan.send(10);
        let mut numbers = Vec::new();
        eventually("it takes them", || {
            let frames = std::iter::from_fn(|| guest.receive());
            numbers.extend(frames.filter_map(|(_, frame)| number_of(&frame)));
            numbers.len() == 20
        });
        assert_eq!(numbers, up_to(20));
        assert_eq!(held(&lan.daemon), (10, 0), "it has not begun");
        drop(guest);
        eventually("they wait", || {
            lan.send(1);
            held(&lan.daemon).0 > 10
        });
        drop(client);
        eventually("it ends with its connection", || {
            lan.daemon.tell("list holds").is_empty()
        });
        // One whose interface is closed.
        let mut client = lan.daemon.client();
        client.say(&order).unwrap();
        client.say("delete interface v").unwrap();
        eventually("it ends with its interface", || {
            client.say("list holds").unwrap().is_empty()
        });
    });
}

/// More frames wait for a guest than its ring takes at once.
#[test]
fn a_guest_that_takes_frames_slowly_loses_none_that_waited() {
    const FRAMES: u32 = 500;
    run("overlay-hold-ring", |world| {
        let socket = world.path("v.sock");
        let more = format!(
            "add interface v network lan vhost-user {}",
            socket.display()
        );
        let lan = Lan::start(world, &more);
        let mut guest = Vm::connect(&socket, PLAIN);
        let mut client = lan.daemon.client();
        client.say(&format!("hold {MOVING_TEXT} for 60s")).unwrap();
        client
            .say(&format!("move {MOVING_TEXT} to interface v revision 1"))
            .unwrap();
        lan.send(FRAMES);
        eventually("they wait", || held(&lan.daemon) == (u64::from(FRAMES), 0));
        std::thread::scope(|scope| {
            scope.spawn(|| client.say(&format!("release {MOVING_TEXT}")).unwrap());
            let end = Instant::now() + TIMEOUT;
            let mut next = 0;
            while next < FRAMES {
                if let Some((_, frame)) = guest.receive() {
                    if let Some(number) = number_of(&frame) {
                        assert_eq!(number, next, "in order");
                        next += 1;
                    }
                }
                assert!(Instant::now() < end, "{next} frames arrived");
            }
        });
        assert_eq!(lan.daemon.counter("v", "dropped_no_buffer"), 0);
    });
}

/// Neither the release nor other ports wait for ever for a guest that takes nothing.
#[test]
fn a_guest_that_takes_nothing_does_not_hold_up_a_release() {
    run("overlay-hold-stuck", |world| {
        let socket = world.path("v.sock");
        let more = format!(
            "add interface v network lan vhost-user {}",
            socket.display()
        );
        let lan = Lan::start(world, &more);
        let mut guest = Vm::connect(&socket, PLAIN);
        let mut client = lan.daemon.client();
        let hold = format!("hold {MOVING_TEXT} for 60s");
        client.say(&hold).unwrap();
        let order = format!("move {MOVING_TEXT} to interface v revision 1");
        client.say(&order).unwrap();
        lan.send(200);
        eventually("they wait", || held(&lan.daemon) == (200, 0));
        // On a busy machine it may say that frames still wait.
        let _ = client.say(&format!("release {MOVING_TEXT}"));
        eventually("the hold is over", || {
            client.say("list holds").unwrap().is_empty()
        });
        assert!(lan.daemon.counter("v", "dropped_no_buffer") > 0);
        let mut next = 0;
        while let Some((_, frame)) = guest.receive() {
            if let Some(number) = number_of(&frame) {
                assert_eq!(number, next, "the oldest, in order");
                next += 1;
            }
        }
        assert!(next > 0);
    });
}

/// A guest sends to a held address as fast as it can; others are served as before.
#[test]
fn a_flood_to_a_held_address_starves_nobody() {
    const FRAMES: u32 = 5_000_000;
    run("overlay-hold-flood", |world| {
        let socket = world.path("v.sock");
        let more = format!(
            "add interface v network lan vhost-user {}",
            socket.display()
        );
        let lan = Lan::start(world, &more);
        for (number, namespace) in (1..).zip(&lan.namespaces[1..]) {
            world.at(
                namespace,
                &format!("ip address add 10.7.0.{number}/24 dev lan0"),
            );
        }
        let mut guest = Vm::connect(&socket, PLAIN);
        let mut client = lan.daemon.client();
        client
            .say("hold 02:00:00:00:00:09 limit 1MiB for 60s")
            .unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let flood = frame([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8], 0);
                let (mut sent, mut used) = (0, 0);
                let end = Instant::now() + TIMEOUT;
                while sent < FRAMES && !is_done.load(Ordering::Relaxed) && Instant::now() < end {
                    while guest.from_guest.used(&guest.guest).is_some() {
                        used += 1;
                    }
                    while sent - used < u32::from(vm::SIZE) {
                        guest.send(&flood);
                        sent += 1;
                    }
                    guest.kick.write(1).unwrap();
                }
            });
            eventually("the memory is full", || held(&lan.daemon).1 > 0);
            let said = world.at(&lan.namespaces[1], "ping -c 50 -i 0.01 -W 20 10.7.0.2");
            is_done.store(true, Ordering::Relaxed);
            assert!(said.contains(" 0% packet loss"), "{said}");
        });
        let waiting = client.say("list holds").unwrap().remove(0);
        let bytes = waiting
            .split(' ')
            .skip_while(|word| *word != "bytes")
            .nth(1);
        assert!(
            bytes.unwrap().parse::<u64>().unwrap() <= 1 << 20,
            "{waiting}"
        );
    });
}

/// A port that is closed takes along what came in there: its number may become that of another network's port.
#[test]
fn frames_of_a_closed_port_do_not_leave() {
    run("overlay-hold-closed", |world| {
        let lan = Lan::start(world, "add network other vni 8");
        drop(arrived(&lan.taps[1]));
        let mut client = lan.daemon.client();
        client.say(&format!("hold {MOVING_TEXT} for 60s")).unwrap();
        lan.send(10);
        eventually("they wait", || held(&lan.daemon) == (10, 0));
        client.say("delete interface a").unwrap();
        assert_eq!(held(&lan.daemon), (10, 10));
        client
            .say("add interface d network other tap lan9")
            .unwrap();
        client.say(&format!("release {MOVING_TEXT}")).unwrap();
        assert!(arrived(&lan.taps[1]).is_empty());
    });
}

/// Numbered datagrams, one after another, until they are ended.
struct Datagrams {
    is_over: Arc<AtomicBool>,
    sender: std::thread::JoinHandle<u64>,
    receiver: UdpSocket,
}

impl Datagrams {
    fn start(from: &Path, to: &Path, address: &str) -> Datagrams {
        let receiver = on(to, || UdpSocket::bind((address, 0)).unwrap());
        let size = 16 << 20;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, size).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let sender = on(from, || UdpSocket::bind(("0.0.0.0", 0)).unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let sender = std::thread::spawn(move || {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                sender.send(&sent.to_be_bytes()).unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        Datagrams {
            is_over,
            sender,
            receiver,
        }
    }

    /// Ends it: every datagram has arrived, in order.
    fn finish(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let mut bytes = [0; 8];
        for next in 0..sent {
            let got = self.receiver.recv(&mut bytes);
            assert_eq!(
                got.ok(),
                Some(8),
                "datagram {next} of {sent} did not arrive"
            );
            assert_eq!(u64::from_be_bytes(bytes), next, "in order");
        }
    }
}

/// Frames of a port that came to the daemon itself.
fn outside(daemon: &Daemon, port: &str) -> u64 {
    let [all, in_kernel] = daemon.counters(port, ["received_frames", "in_kernel_frames"]);
    all - in_kernel
}

#[test]
fn containers_frames_leave_the_kernel_wait_and_return_to_it() {
    run("overlay-hold-kernel", |world| {
        let (one, _two) = underlay::pair(world, 1500);
        let (a, b) = (one.plain_container("p1", 1), one.plain_container("p2", 2));
        let config = "add network lan vni 42
             add interface a network lan veth p1 mtu 1450
             add interface b network lan veth p2 mtu 1450\n";
        let daemon = world.daemon_at(&one.namespace, "control", config);
        common::flow::passes(&a.namespace, &b.namespace, "10.7.0.2");
        let is_in_kernel = || {
            let before = outside(&daemon, "a");
            common::flow::passes(&a.namespace, &b.namespace, "10.7.0.2");
            outside(&daemon, "a") == before
        };
        eventually("the kernel has the flow", is_in_kernel);
        let mac: Vec<String> = b.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        let mac = mac.join(":");
        let flow = Datagrams::start(&a.namespace, &b.namespace, "10.7.0.2");
        let mut client = daemon.client();
        for _ in 0..3 {
            let before = held(&daemon).0;
            client.say(&format!("hold {mac} for 60s")).unwrap();
            eventually("its frames wait", || held(&daemon).0 > before + 50);
            client.say(&format!("release {mac}")).unwrap();
            eventually("the kernel has the flow again", is_in_kernel);
        }
        flow.finish();
        assert_eq!(held(&daemon).1, 0);
    });
}
